"""Results small enough to be committed: fewer checkpoints, one Parquet file and one table per experiment.

    python -m papers.thinning FROM results/garcelon2021local/fig1

copies every finished run of the comparison in FROM (unfinished ones are listed by name) and its figures, and writes
`cells.json`: for each run its command, version, algorithm, claim, certificate, seconds and seeds. With `--keep` in
front, runs that are committed in the target and not finished in FROM stay as they are, rows and all. Seeds of a run
that is not finished are committed by way of `papers.part`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from papers.fingerprint import BEFORE, fingerprint_of
from papers.part import PLANNED
from papers.worlds import RENAMED
from tacit._version import __version__
from tacit.errors import InvalidInput
from tacit.runs.archive import read_result
from tacit.runs.assemble import assemble
from tacit.runs.comparison import INDEX
from tacit.runs.result import Result
from tacit.runs.returns_report import returns_json
from tacit.runs.storage import RunDirectory, read_json, write_json, writing_to

__all__ = ["environment_of", "main", "named_today", "thin", "thin_checkpoints"]

CHECKPOINTS: Final = 40
COLUMNS: Final = ("run", "environment", "seed", "episode", "regret")


def thin_checkpoints(result: Result, count: int = CHECKPOINTS) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """At most `count` of the checkpoints, the last one always, and the regret (live: the sum of returns) there."""
    kept = np.unique(np.linspace(0, len(result.episodes) - 1, count).round().astype(np.int64))
    rows = np.array([found.total for found in result.returns]) if result.returns else result.regret
    return result.episodes[kept], rows[:, kept]


def thin(source: Path, target: Path, *, keep: bool = False) -> dict[str, Any]:
    """Copy what is finished of a comparison into `target`, thinned; returns the contents of cells.json.

    With `keep`, runs that are committed in `target` and not finished in `source` stay as they are.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not (source / INDEX).is_file():
        raise InvalidInput(f"{source} must be the directory of a comparison: it has no {INDEX}")
    index = read_json(source / INDEX)
    cells: list[dict[str, Any]] = []
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for place in index["runs"]:
        directory = RunDirectory(source / place)
        header = directory.header() if directory.begun else {}
        seeds = header.get("config", {}).get("seeds", [])
        cell: dict[str, Any] = {"run": header.get("label", place), "complete": directory.finished}
        done = len(seeds) if directory.finished else len(directory.finished_seeds(seeds))
        cell["seeds"] = f"{done} of {header.get(PLANNED, len(seeds))}"
        if directory.finished:
            result = read_result(directory.path)
            cell |= {"environment": result.config.environment_name, "command": result.command}
            cell |= {"version": result.version, "algorithm": _algorithm(result)}
            cell |= {"seconds": round(sum(result.seconds), 1)}
            cell |= {"episodes": result.config.episodes, "claimed epsilon": _finite(result.claim.epsilon)}
            cell |= {"certified epsilon": _finite(result.certificate.epsilon), "delta": result.claim.delta}
            cell |= _score(result)
            episodes, regret = thin_checkpoints(result)
            for seed, row in zip(result.seeds, regret, strict=True):
                columns["run"] += [result.label] * len(episodes)
                columns["environment"] += [result.config.environment_name] * len(episodes)
                columns["seed"] += [seed] * len(episodes)
                columns["episode"] += episodes.tolist()
                columns["regret"] += row.tolist()
        cells.append(cell)
    if keep and (target / "cells.json").is_file():
        cells = _kept(target, cells, columns)
    command = re.sub(r" --out \S+", "", index["command"])  # where it was run is nobody's business
    summary = {"experiment": index["name"], "scale": index["scale"], "command": command, "runs": cells}
    with writing_to(target):
        target.mkdir(parents=True, exist_ok=True)
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        table = table.set_column(4, "regret", table.column("regret").cast(pa.float32()))
        pq.write_table(table, target / "results.parquet", compression="zstd")
        write_json(target / "cells.json", summary)
        for figure in source.glob("*.png"):
            shutil.copyfile(figure, target / figure.name)
            numbers = figure.with_suffix(".json")  # some figures write their numbers beside them
            if numbers.is_file():
                shutil.copyfile(numbers, target / numbers.name)
    return summary


def _algorithm(result: Result) -> str:
    """The fingerprint of the algorithm that made it, which only the version that ran it can name."""
    return fingerprint_of(assemble(result.config)) if result.version == __version__ else BEFORE


def _score(result: Result) -> dict[str, Any]:
    """Regret beside that of the uniform policy; in a live world returns, and what stands beside the baseline."""
    if result.returns:
        against = result.against
        return {"returns": returns_json(result), "against": None if against is None else against.to_dict()}
    final = result.regret[:, -1]
    return {
        "regret": [float(final.mean()), float(final.min()), float(final.max())],
        "uniform regret": result.uniform_regret * result.config.episodes,
        **_intervals(result),
    }


def _intervals(result: Result) -> dict[str, Any]:
    """Simulation only: how often the interval of V* missed it, and the mean of its ends."""
    best = result.resolved.optimal_value
    if not result.intervals or best is None:
        return {}
    low, high = (np.array([getattr(found, end) for found in result.intervals]) for end in ("low", "high"))
    missed = int(((low > best) | (high < best)).sum())
    return {"interval": {"best": best, "low": float(low.mean()), "high": float(high.mean()), "missed": missed}}


def environment_of(cell: dict[str, Any]) -> str:
    """The environment of a committed cell; those of earlier versions name it in their command only.

    >>> environment_of({"command": "tacit run --environment riverswim --learner ucbvi --adversary iid"})
    'riverswim (iid losses)'
    """
    if "environment" in cell:
        return named_today(str(cell["environment"]))
    words = shlex.split(cell["command"])
    options = {word: value for word, value in pairwise(words) if word.startswith("--")}
    foe = options.get("--adversary")
    return options["--environment"] + (f" ({foe} losses)" if foe else "")


def named_today(environment: str) -> str:
    """The name of a committed environment; worlds of the cases lay in the product once.

    >>> named_today("gymnasium:tacit/Watching-v0,evaluation=10000")
    'gymnasium:papers.worlds:tacit/Watching-v0,evaluation=10000'
    """
    prefix, colon, rest = environment.partition(":")
    name, comma, options = rest.partition(",")
    return f"{prefix}{colon}{RENAMED.get(name, name)}{comma}{options}"


def _kept(target: Path, cells: list[dict[str, Any]], columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The new cells and those committed ones that are not among them; the rows of the latter join the columns."""
    import pyarrow.parquet as pq

    new = {(cell["run"], environment_of(cell)) for cell in cells if cell["complete"]}
    old = [cell for cell in read_json(target / "cells.json")["runs"] if cell["complete"]]
    old = [cell for cell in old if (cell["run"], environment_of(cell)) not in new]
    names = {(cell["run"], environment_of(cell)) for cell in old}
    rows = pq.ParquetFile(target / "results.parquet").read().to_pylist()
    for row in rows:
        if (row["run"], named_today(row["environment"])) in names:
            for name in COLUMNS:
                columns[name].append(row[name])
    runs = {cell["run"] for cell in old}
    return [cell for cell in cells if cell["complete"] or cell["run"] not in runs] + old


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def main(arguments: list[str]) -> int:
    """Thin one comparison into a directory; both are named."""
    keep, places = "--keep" in arguments, [word for word in arguments if word != "--keep"]
    if len(places) != 2:
        sys.stderr.write("usage: python -m papers.thinning [--keep] COMPARISON TARGET\n")
        return 2
    summary = thin(Path(places[0]), Path(places[1]), keep=keep)
    done = sum(cell["complete"] for cell in summary["runs"])
    sys.stdout.write(f"{done} of {len(summary['runs'])} runs are complete, written to {places[1]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
