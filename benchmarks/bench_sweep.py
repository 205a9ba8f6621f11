"""A sweep of 10,000 small cells on this machine: the CPU that a cell costs beyond its simulation.

A cell is one seed of one configuration: ucbvi on RiverSwim, 20 episodes, a width of its own. Both shapes of a sweep are
measured: 10,000 runs of one seed, each with a directory of its own, and 100 runs of 100 seeds. Nothing is faked:
everything is checked, run, written, joined and returned by `run_comparison`, in one process (`workers=1`), and every
file is synced.

    overhead = (CPU of the whole call - CPU of its calls of `simulate`) / cells

CPU is that of user and system together. The ratio is to one millisecond.
"""

from __future__ import annotations

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
EPISODES = 20
TARGET = 5.0
"""Milliseconds of CPU."""


def run() -> list[Row]:
    """Every row of the table."""
    overhead(2, 2, kept=True)  # modules load, kernels are compiled
    shapes = [(CELLS, 1, True), (CELLS // 100, 100, True), (CELLS, 1, False)]
    return [row(runs, seeds, kept=kept) for runs, seeds, kept in shapes]


def row(runs: int, seeds: int, *, kept: bool) -> Row:
    """Milliseconds of CPU per cell beyond its simulation."""
    beyond, simulated = overhead(runs, seeds, kept=kept)
    where = "kept" if kept else "in memory"
    return {
        "name": f"sweep of {runs:,} runs of {seeds} seed{'s' if seeds > 1 else ''}, {where}",
        "ratio": beyond,
        "target": TARGET,
        "better": "lower",
        "detail": f"{beyond:.2f} ms of CPU per cell beyond the {simulated:.2f} ms of its simulation",
    }


def overhead(runs: int, seeds: int, *, kept: bool) -> tuple[float, float]:
    """Milliseconds of CPU per cell: beyond its simulation, and of its simulation."""
    spent = 0.0
    whole = schedule.simulate

    def timed(*given: Any, **options: Any) -> Any:
        nonlocal spent
        started = time.process_time()
        try:
            return whole(*given, **options)
        finally:
            spent += time.process_time() - started

    sweep = [_run(number, seeds) for number in range(runs)]
    schedule.simulate = timed
    try:
        with tempfile.TemporaryDirectory() as place:
            started = time.process_time()
            out = Path(place) / "sweep" if kept else None
            found = run_comparison(
                sweep, name="sweep", scale="full", out=out, workers=1, command="sweep", notify=silent
            )
            total = time.process_time() - started
    finally:
        schedule.simulate = whole
    assert len(found.results) == runs
    cells = runs * seeds
    return 1e3 * (total - spent) / cells, 1e3 * spent / cells


def _run(number: int, seeds: int) -> Run:
    config = RunConfig(
        environment="riverswim",
        learner="ucbvi",
        constants="practical",
        z=0.5 + number / CELLS,
        episodes=EPISODES,
        seeds=tuple(range(seeds)),
        checkpoints=10,
    )
    return Run(label=f"z-{number:05d}", config=config)
