"""Committed results, checked by running a few of their cells again: the same seed must give the same numbers.

A cell is one seed of one run of an experiment. Cells are drawn at random among those that took at most so many seconds
when they were committed: so many of all (`recheck`), or so many seeds of every run (`every`), or of those of which
nobody knows (`unknown`), the cheapest first. Committed regret has the precision of a float32, so equal means equal to
that precision.

`stamp` writes what was found into `cells.json`. A run without a fingerprint whose cells are all equal is given today's
one as `checked`, with the version and the seeds that were run again; a run with a cell that differs is given the reason
why it is stale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from papers.catalogue import experiment_named
from papers.fingerprint import BEFORE, fingerprint_of
from papers.staleness import PLACES
from papers.thinning import environment_of, named_today
from tacit._version import __version__
from tacit.errors import InvalidInput, require_count, require_real
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig
from tacit.runs.storage import read_json, write_json
from tacit.simulation.simulate import log_checkpoints, simulate

__all__ = ["Rechecked", "recheck", "stamp"]

Key = tuple[str, str]
"""The label of a run and its environment."""

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
    every: bool = False,
    unknown: bool = False,
    told: Callable[[Rechecked], None] | None = None,
) -> tuple[Rechecked, ...]:
    """Run random cells of a committed experiment again and compare them with what is committed.

    `cells` of them in all, or with `every` that many seeds of every committed run; with `unknown` of every run that has
    neither a fingerprint nor a check, the cheapest first, so that stamps after every cell (`told`) let it go on later.
    """
    cells, seconds = require_count("cells", cells), require_real("seconds", seconds, low=0.0, open_low=True)
    place = _place(name, results)
    described = {_key(cell): cell for cell in read_json(place / "cells.json")["runs"] if cell.get("complete")}
    rows = _rows(place / "results.parquet")
    runs = [run for run in experiment_named(name).runs("paper") if _quick(described.get(_key_of(run)), seconds)]
    if unknown:
        runs = [run for run in runs if _unknown(described[_key_of(run)])]
        runs.sort(key=lambda run: _seconds(described[_key_of(run)]))
    seeds = [[s for s in run.config.seeds if (*_key_of(run), s) in rows] for run in runs]
    if not any(seeds):
        which = " of which nobody knows" if unknown else ""
        raise InvalidInput(f"no seed of {name}{which} took less than {seconds:g} seconds; allow more")
    groups = [[(run, s) for s in own] for run, own in zip(runs, seeds, strict=True)]
    groups = groups if every or unknown else [[pair for group in groups for pair in group]]
    found = []
    for group in groups:
        generator = np.random.default_rng(seed)  # the same seeds of every run: what several results share is run once
        for i in generator.choice(len(group), size=min(cells, len(group)), replace=False):
            run, s = group[int(i)]
            found.append(_again(run, s, rows, str(described[_key_of(run)]["version"])))
            if told is not None:
                told(found[-1])
    return tuple(found)


def stamp(name: str, found: Sequence[Rechecked], *, results: Path = Path("results")) -> None:
    """Write into `cells.json` what was found: today's fingerprint for runs without one, or why a run is stale."""
    path = _place(name, results) / "cells.json"
    content, runs = read_json(path), {_key_of(run): run for run in experiment_named(name).runs("paper")}
    for cell in content["runs"]:
        rows = [row for row in found if cell.get("complete") and (row.run, row.environment) == _key(cell)]
        wrong = sorted(row.seed for row in rows if not row.same)
        if wrong:
            cell["stale"] = f"run again with {__version__}, seed {wrong[0]} gives other numbers"
        elif rows and not cell.get("stale") and cell.get("algorithm", BEFORE) == BEFORE:
            algorithm = fingerprint_of(assemble(runs[_key(cell)].config))
            cell["checked"] = _merged(cell.get("checked"), algorithm, {row.seed for row in rows})
    write_json(path, content)


def _merged(before: dict[str, Any] | None, algorithm: str, seeds: set[int]) -> dict[str, Any]:
    """What an earlier check of the same algorithm and version found is not forgotten."""
    mark = {"version": __version__, "algorithm": algorithm}
    same = before is not None and {key: before[key] for key in mark} == mark
    return {**mark, "seeds": sorted(seeds.union(before["seeds"] if before is not None and same else ()))}


def _place(name: str, results: Path) -> Path:
    place = results / PLACES.get(name, name)
    if not (place / "cells.json").is_file():
        raise InvalidInput(
            f"{place} must hold a committed result (cells.json, results.parquet); name another experiment"
        )
    return place


@lru_cache(maxsize=256)
def _curve(config: RunConfig, seed: int) -> tuple[Any, Any]:
    """Checkpoints and regret (live: returns) of one seed; results that share runs share the work."""
    parts = assemble(config)
    marks = log_checkpoints(config.episodes, config.checkpoints)
    made = simulate(
        parts.world, parts.learner, parts.privatizer, episodes=config.episodes, seed=seed, checkpoints=marks
    )
    return marks, made.regret if made.returns is None else np.array(made.returns.total)


def _again(run: Run, seed: int, rows: dict[Any, Any], version: str) -> Rechecked:
    marks, curve = _curve(run.config, seed)
    episodes, committed = rows[*_key_of(run), seed]
    again = curve[np.isin(marks, episodes)].astype(np.float32)
    scale = np.maximum(np.abs(committed), np.float32(1e-12))
    return Rechecked(
        run=run.label,
        environment=run.config.environment_name,
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
    for i, (run, environment, seed) in enumerate(names):
        places.setdefault((run, named_today(environment), seed), []).append(i)
    return {key: (episode[at], regret[at]) for key, at in places.items()}


def _key(cell: dict[str, Any]) -> Key:
    return str(cell["run"]), environment_of(cell)


def _key_of(run: Run) -> Key:
    return run.label, run.config.environment_name


def _quick(cell: dict[str, Any] | None, seconds: float) -> bool:
    """Whether a seed of this cell took at most so many seconds."""
    return cell is not None and _seconds(cell) <= seconds


def _seconds(cell: dict[str, Any]) -> float:
    """What a seed of this cell took."""
    return float(cell["seconds"]) / max(1, int(str(cell["seeds"]).split()[0]))


def _unknown(cell: dict[str, Any]) -> bool:
    """Whether nobody knows if this cell is current."""
    return cell.get("algorithm", BEFORE) == BEFORE and not cell.get("stale") and "checked" not in cell
