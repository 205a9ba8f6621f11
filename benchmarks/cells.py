"""Whole runs as cells of a benchmark: CPU seconds, peak memory and what the dry run had said, each kept when finished.

    python -m benchmarks.cells '{"learner": "bucb", "trust": "central", "S": 50, "A": 4, "H": 20, "K": 100000}'

A cell is a learner under a trust model in a random world of S states, A actions and H steps with K users. Kernels are
compiled before the clock starts, all of them, by a run in a world of three states.
Finished cells are kept in `benchmarks/.cells` under a digest of the source, so that an interrupted benchmark goes on
where it was and other code is measured afresh.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tacit import lazy_jit
from tacit.errors import TacitError
from tacit.learners.table import LEARNERS, LearnerRow
from tacit.protocol import Totals
from tacit.released.batches import BatchQuery
from tacit.released.returns import ReturnQuery

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / ".cells"
TRUSTS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "central": {"trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "shuffle": {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-6},
    "local": {"trust": "local", "epsilon": 1.0, "delta": 0.0},
}
SIZES: Final = ("S", "A", "H", "K")
SHORT: Final = 0.25
"""A run of fewer CPU seconds is repeated until so many have gone by: CPU time may be counted in ticks of 4 ms."""
FIRST: Final = 4.0
"""The first run counts only if it takes longer: it may look things up that are then remembered."""
ENDED: Final = {-24: "CPU limit", -9: "killed"}

UNMEASURED: Final = ("rlsvi",)
"""Learners that grow as another one does: `rlsvi` has the releases and plans of `bucb`."""

Cell = dict[str, Any]


def counting() -> Iterator[tuple[str, str]]:
    """Every learner that counts or asks for returns, under every trust model; some pairs are refused when assembled."""
    for name, row in LEARNERS.items():
        if name in UNMEASURED:
            continue
        if isinstance(row, LearnerRow) and row.asks in (Totals, BatchQuery, ReturnQuery) and not row.reference:
            yield from ((name, trust) for trust in TRUSTS)


def measured(benchmark: str, groups: Sequence[Sequence[Cell]], *, limit: int) -> list[Cell]:
    """All cells with what was measured; one process per group, and `limit` CPU seconds for each."""
    place = KEPT / benchmark / digest()
    place.mkdir(parents=True, exist_ok=True)
    found: list[Cell] = []
    for group in groups:
        text = json.dumps(group, sort_keys=True)
        file = place / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not file.exists():
            temporary = file.with_suffix(".part")
            temporary.write_text(json.dumps(_in_a_process(group, limit)), encoding="utf-8")
            temporary.replace(file)
        found += json.loads(file.read_text("utf-8"))
    return found


def digest() -> str:
    """Of every source file of the library and of this one."""
    found = hashlib.sha256()
    for path in [*sorted((ROOT / "src" / "tacit").rglob("*.py")), Path(__file__)]:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _in_a_process(group: Sequence[Cell], limit: int) -> list[Cell]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    # Fixed thresholds: large arrays are returned to the system when they are freed, so that peaks are of one cell.
    one |= {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.cells", json.dumps(list(group))],
        cwd=ROOT,
        env={**os.environ, **one, "CELL_LIMIT": str(limit)},
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    lost = ENDED.get(ended.returncode, ended.stderr.strip().rpartition("\n")[2])
    return rows + [{**cell, "lost": lost} for cell in group[len(rows) :]]


def measure(cell: Cell) -> Cell:
    """One cell in this process; a pair that is refused says why."""
    from tacit.jit_progress import seconds_compiling
    from tacit.runs.assemble import assemble
    from tacit.runs.config import RunConfig
    from tacit.runs.estimate import apply_size_defaults, estimate

    world = f"random-mdp:states={cell['S']},actions={cell['A']},horizon={cell['H']}"
    private = TRUSTS[cell["trust"]]
    try:
        asked = RunConfig(environment=world, learner=cell["learner"], episodes=cell["K"], seeds=(0,), **private)
        start = time.process_time()
        config = apply_size_defaults(asked)
        assemble(config)  # calibrates, which is remembered
        assembling = time.process_time() - start
        told = estimate(config, workers=1) if cell.get("estimate") else None
        _warm(config)
        compiled, (running, grown) = seconds_compiling(), _measured(config)
        parts, peak = assemble(config), memory("VmHWM")
    except TacitError as error:
        return {**cell, "refused": f"{type(error).__name__}: {error}"}
    found = {
        **cell,
        "assembling": round(assembling, 4),
        "running": round(running, 6),
        "peak": peak,
        "grown": grown,
        "compiling": round(seconds_compiling() - compiled, 3),
        "ran": config.learner,
        "privatizer": parts.privatizer.name,
        "by_size": config.by_size,
    }
    if told is not None:
        found["told_memory"] = told.memory
    return found


def _measured(config: Any) -> tuple[float, int]:
    """CPU seconds of a run, the mean over several if it is short, and by how many bytes it lets the process grow."""
    from tacit.runs.assemble import assemble, assembled
    from tacit.simulation.simulate import simulate

    def once() -> float:
        start = time.process_time()
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=config.episodes, seed=0, speed="compiled")
        return time.process_time() - start

    assembled.cache_clear()
    resident, parts = _reset_peak(), assemble(config)
    spent, runs = once(), 1
    if spent <= FIRST:
        del parts
        assembled.cache_clear()
        resident, parts = _reset_peak(), assemble(config)
        spent, runs = 0.0, 0
        while spent < SHORT:
            spent, runs = spent + once(), runs + 1
    return spent / runs, memory("VmHWM") - resident


_WARM: set[tuple[object, ...]] = set()


def _warm(config: Any) -> None:
    """Compile what the run needs, in a small world, once per process."""
    from dataclasses import replace

    from tacit.runs.assemble import assemble
    from tacit.simulation.simulate import simulate

    key = (config.learner, config.trust, config.mechanism)
    if key in _WARM:
        return
    _WARM.add(key)
    small = replace(config, environment="random-mdp:states=3,actions=2,horizon=3", episodes=2000)
    parts = assemble(small)
    simulate(parts.mdp, parts.learner, parts.privatizer, episodes=2000, seed=0, speed="compiled")


def _reset_peak() -> int:
    """Give back what is free, let the peak of memory start anew, and say what is resident."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):  # another system: the peak is that of the whole process
        return 0
    return memory("VmRSS")


def memory(name: str) -> int:
    """Bytes of the program's own memory: VmHWM is its peak, VmRSS what is resident."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(text: str) -> None:
    """Measure some cells and print a line for each."""
    lazy_jit.EAGER = True
    limit = int(os.environ.get("CELL_LIMIT", "600"))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    cells = json.loads(text)
    for cell in cells if isinstance(cells, list) else [cells]:
        print(json.dumps(measure(cell)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
