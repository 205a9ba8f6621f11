"""A sweep of 10,000 small cells on this machine: the CPU that a cell costs beyond its simulation.

A cell is one seed of one configuration. The hardest shape has 10,000 configurations of one seed: each cell has a
directory of its own with configuration, certificate, rows, policy, seconds and digests, every file synced. The others
have 100 seeds in each of 100 directories, keep nothing, or are private: every cell of a sweep over widths has the same
claim, which is certified once. The learner is ucbvi (dp-ucbvi) on RiverSwim, with a width of its own in every
configuration. Nothing is faked: everything is checked, run, written, joined and returned by `run_comparison`, in one
process (`workers=1`).

    overhead = (CPU of the whole call - CPU of its calls of `simulate`) / cells
    floor    = CPU of bare system calls that make the directory of a cell: the same files with the same contents,
               created, written, synced, closed, renamed

CPU is that of user and system together; a ratio is to one millisecond. The floor is measured in the same run, half of
it before the sweep and half after; it depends on the file system, and on what else happens there.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import tacit.runs.schedule as schedule
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig
from tacit.runs.runner import silent

Row = dict[str, Any]

CELLS = 10_000
TARGET = 5.0
"""Milliseconds of CPU."""
OPEN: dict[str, Any] = {"learner": "ucbvi", "episodes": 20}
PRIVATE: dict[str, Any] = {"learner": "dp-ucbvi", "episodes": 20, "trust": "central", "epsilon": 1.0, "delta": 1e-6}


def run() -> list[Row]:
    """Every row of the table."""
    with tempfile.TemporaryDirectory() as place:  # removed in the end: who creates files pays for those just removed
        root = Path(place)
        overhead(2, 2, root / "first")  # modules load, kernels are compiled
        overhead(2, 1, root / "first-private", **PRIVATE)
        alone = root / "alone"
        bare = Bare(next((root / "first-private").glob("*/*")), root / "bare")
        before = bare.milliseconds(CELLS // 20)
        found = row(CELLS, 1, alone)
        after = bare.milliseconds(CELLS // 20)
        found["detail"] += (
            f"; bare system calls for the same directory of {len(bare.contents)} files: {before:.2f} ms before the "
            f"sweep, {after:.2f} ms after it"
        )
        found["floor"] = (before + after) / 2
        return [
            found,
            row(CELLS // 100, 100, root / "seeds"),
            row(CELLS, 1, None),
            row(CELLS // 10, 1, root / "private", **PRIVATE),
        ]


def row(runs: int, seeds: int, out: Path | None, **options: Any) -> Row:
    """Milliseconds of CPU per cell beyond its simulation."""
    beyond, simulated = overhead(runs, seeds, out, **options)
    where = "in memory" if out is None else "kept"
    private = "" if not options else ", central trust, one claim"
    return {
        "name": f"sweep of {runs:,} runs of {seeds} seed{'s' if seeds > 1 else ''}, {where}{private}",
        "ratio": beyond,
        "target": TARGET,
        "better": "lower",
        "detail": f"{beyond:.2f} ms of CPU per cell beyond the {simulated:.2f} ms of its simulation",
    }


def overhead(runs: int, seeds: int, out: Path | None, **options: Any) -> tuple[float, float]:
    """Milliseconds of CPU per cell: beyond its simulation, and of its simulation."""
    spent = 0.0
    whole = schedule.simulate

    def timed(*given: Any, **named: Any) -> Any:
        nonlocal spent
        started = time.process_time()
        try:
            return whole(*given, **named)
        finally:
            spent += time.process_time() - started

    sweep = [_run(number, seeds, options or OPEN) for number in range(runs)]
    schedule.simulate = timed
    try:
        started = time.process_time()
        found = run_comparison(sweep, name="sweep", scale="full", out=out, workers=1, command="sweep", notify=silent)
        total = time.process_time() - started
    finally:
        schedule.simulate = whole
    assert len(found.results) == runs
    cells = runs * seeds
    return 1e3 * (total - spent) / cells, 1e3 * spent / cells


class Bare:
    """The directory of one cell, made again and again by system calls and nothing else."""

    def __init__(self, cell: Path, root: Path) -> None:
        self.contents = {file.name: file.read_bytes() for file in cell.iterdir()}
        self.root, self.made = str(root), 0
        os.mkdir(self.root)

    def milliseconds(self, cells: int) -> float:
        """Of CPU per cell."""
        started = time.process_time()
        for _ in range(cells):
            self.made += 1
            directory = f"{self.root}/{self.made}"
            os.mkdir(directory)
            for name, content in self.contents.items():
                handle = os.open(f"{directory}/.tmp-{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
                os.write(handle, content)
                os.fsync(handle)
                os.close(handle)
                os.rename(f"{directory}/.tmp-{name}", f"{directory}/{name}")
        return 1e3 * (time.process_time() - started) / cells


def _run(number: int, seeds: int, options: Row) -> Run:
    config = RunConfig(
        environment="riverswim",
        constants="practical",
        z=0.5 + number / CELLS,
        seeds=tuple(range(seeds)),
        checkpoints=10,
        **options,
    )
    return Run(label=f"z-{number:05d}", config=config)
