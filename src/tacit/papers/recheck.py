"""Committed results, checked by running a few of their cells again: the same seed must give the same numbers.

A cell is one seed of one run of an experiment. Cells are drawn at random among those that took at most so many seconds
when they were committed. Committed regret has the precision of a float32, so equal means equal to that precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tacit.errors import InvalidInput, require_count, require_real
from tacit.loop.simulate import log_checkpoints, simulate
from tacit.papers.catalogue import experiment_named
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.storage import read_json

__all__ = ["Rechecked", "recheck"]

SECONDS: Final = 10.0
"""Cells that took longer per seed are not drawn unless the caller allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rechecked:
    """One cell, run again."""

    run: str
    environment: str
    seed: int
    version: str
    """The version that made the committed numbers."""
    committed: float
    """The final regret there (simulation only)."""
    again: float

    @property
    def same(self) -> bool:
        """Whether every checkpoint is equal."""
        return self.difference == 0.0

    difference: float
    """The largest relative difference over the checkpoints."""


def recheck(
    name: str,
    *,
    results: Path = Path("results"),
    cells: int = 3,
    seed: int = 0,
    seconds: float = SECONDS,
    told: Callable[[Rechecked], None] | None = None,
) -> tuple[Rechecked, ...]:
    """Run random cells of a committed experiment again and compare them with what is committed."""
    cells, seconds = require_count("cells", cells), require_real("seconds", seconds, low=0.0, open_low=True)
    place = results / name
    if not (place / "cells.json").is_file():
        raise InvalidInput(
            f"{place} must hold a committed result (cells.json, results.parquet); name another experiment"
        )
    described = {_key(cell): cell for cell in read_json(place / "cells.json")["runs"] if cell.get("complete")}
    rows = _rows(place / "results.parquet")
    runs = [run for run in experiment_named(name).runs("paper") if _quick(described.get(run.label), seconds)]
    keys = [(run, s) for run in runs for s in run.config.seeds if (run.label, run.config.environment_name, s) in rows]
    if not keys:
        raise InvalidInput(f"no seed of {name} took less than {seconds:g} seconds; allow more")
    generator = np.random.default_rng(seed)
    found = []
    for i in generator.choice(len(keys), size=min(cells, len(keys)), replace=False):
        found.append(_again(*keys[int(i)], rows, str(described[keys[int(i)][0].label]["version"])))
        if told is not None:
            told(found[-1])
    return tuple(found)


def _again(run: Run, seed: int, rows: dict[Any, Any], version: str) -> Rechecked:
    config, parts = run.config, assemble(run.config)
    marks = log_checkpoints(config.episodes, config.checkpoints)
    made = simulate(
        parts.world, parts.learner, parts.privatizer, episodes=config.episodes, seed=seed, checkpoints=marks
    )
    episodes, committed = rows[run.label, config.environment_name, seed]
    curve = made.regret if made.returns is None else np.array(made.returns.total)
    again = curve[np.isin(marks, episodes)].astype(np.float32)
    scale = np.maximum(np.abs(committed), np.float32(1e-12))
    return Rechecked(
        run=run.label,
        environment=config.environment_name,
        seed=seed,
        version=version,
        committed=float(committed[-1]),
        again=float(again[-1]),
        difference=float((np.abs(again - committed) / scale).max()),
    )


def _rows(path: Path) -> dict[Any, Any]:
    """(run, environment, seed) -> its checkpoints and its regret there."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read()
    names = list(zip(*(table.column(name).to_pylist() for name in ("run", "environment", "seed")), strict=True))
    episode, regret = (table.column(name).to_numpy() for name in ("episode", "regret"))
    places: dict[Any, list[int]] = {}
    for i, key in enumerate(names):
        places.setdefault(key, []).append(i)
    return {key: (episode[at], regret[at]) for key, at in places.items()}


def _key(cell: dict[str, Any]) -> str:
    return str(cell["run"])


def _quick(cell: dict[str, Any] | None, seconds: float) -> bool:
    """Whether a seed of this cell took at most so many seconds."""
    if cell is None:
        return False
    done = max(1, int(str(cell["seeds"]).split()[0]))
    return float(cell["seconds"]) / done <= seconds
