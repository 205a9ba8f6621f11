"""`tacit learn` on 100,000 episodes: from file to written policy, in a process of its own (imports included)."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
EPISODES, H = 100_000, 5
MAPPING = {
    "states": [{"column": "ward", "categories": ["a", "b", "c"]}, {"column": "temp", "edges": [37.5]}],
    "actions": {"column": "given", "categories": ["wait", "pill"]},
    "reward": {"column": "score", "low": 0, "high": 10},
    "horizon": H,
}
ASKED = ("--epsilon", "1", "--delta", "1e-6", "--behaviour", "known", "--stationary")


def run() -> list[Row]:
    """CPU seconds and memory, of a text file and of Parquet."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "mapping.json").write_text(json.dumps(MAPPING))
        write_logs(place)
        return [row for suffix in ("csv", "parquet") for row in measured(place, suffix)]


def write_logs(place: Path) -> None:
    """The same log twice: one row for each step, of one episode each."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng, n = np.random.default_rng(0), EPISODES * H
    table = pa.table({
        "person": np.char.add("p", np.repeat(np.arange(EPISODES), H).astype(str)),
        "episode": np.zeros(n, dtype=np.int64), "step": np.tile(np.arange(H), EPISODES),
        "ward": rng.choice(["a", "b", "c"], n), "temp": np.round(rng.normal(37.5, 1.0, n), 1),
        "given": rng.choice(["wait", "pill"], n), "score": rng.integers(0, 11, n),
    })  # fmt: skip
    pyarrow.csv.write_csv(table, place / "log.csv")
    pyarrow.parquet.write_table(table, place / "log.parquet")


def measured(place: Path, suffix: str) -> list[Row]:
    """One release; the children's peak memory is that of the largest so far."""
    command = [sys.executable, "-m", "tacit", "learn", str(place / f"log.{suffix}")]
    command += [
        "--mapping",
        str(place / "mapping.json"),
        *ASKED,
        "--out",
        str(place / suffix),
        "--ledger",
        str(place / f"{suffix}.db"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    memory = after.ru_maxrss / 1024**2
    told = f"{EPISODES:,} episodes, {EPISODES * H:,} rows of {suffix}, one process"
    return [
        {
            "name": f"learn from {suffix}: CPU seconds",
            "ratio": seconds,
            "target": 10.0,
            "better": "lower",
            "detail": told,
        },
        {"name": f"learn from {suffix}: GB at most", "ratio": memory, "target": 1.0, "better": "lower", "detail": told},
    ]
