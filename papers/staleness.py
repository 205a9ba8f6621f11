"""The staleness of committed results: runs that today's algorithm repeats, stale runs, and unknown ones.

A committed run states the fingerprint of the algorithm that made it (`papers.fingerprint`), or, where it was made
before there were any, the one with which some of its seeds were run again and gave the same numbers (`checked`, written
by `papers.recheck`). It is

    current   that is the fingerprint which its configuration has today
    stale     it is another one, the experiment has no such run any more, or the cell says why it is stale
    before    it has none, and nothing is known against it

`missing` are runs of the experiment that nobody has committed at full size, `few` have fewer seeds than it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers.answers import Answers, remembering
from papers.catalogue import EXPERIMENTS, experiment_named
from papers.fingerprint import BEFORE, fingerprint_of
from papers.thinning import environment_of
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.storage import read_json

__all__ = ["Staleness", "committed", "staleness", "staleness_of_all"]

PLACES = {"frontier": "frontier/page"}
"""Where a result lies that does not lie under its own name: frontier/ holds other results, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """The state of one committed result, run by run."""

    name: str
    versions: tuple[str, ...]
    current: tuple[str, ...]
    before: tuple[str, ...]
    checked: tuple[tuple[str, str], ...] = ()
    """Those of the current runs that are so by running seeds again: run, and how many seeds of how many."""
    stale: tuple[tuple[str, str], ...]
    """Run, and why."""
    missing: tuple[str, ...]
    few: tuple[tuple[str, str], ...] = ()
    """Those of the others that have fewer seeds than their experiment: run, and how many of how many."""

    @property
    def words(self) -> str:
        """The state in a few words, for cards.

        >>> state = Staleness(name="a", versions=("0.4.0",), current=("x", "y"), before=(), stale=(), missing=())
        >>> state.words
        '2 runs current'
        >>> from dataclasses import replace
        >>> replace(state, checked=(("x", "2 of 20"),)).words
        '2 runs current (1 checked by rerunning 2 of 20 seeds)'
        """
        counted = {
            "current": len(self.current),
            BEFORE: len(self.before),
            "stale": len(self.stale),
            "not run": len(self.missing),
        }
        shown = [f"{count} {word}{self._how if word == 'current' else ''}" for word, count in counted.items() if count]
        if self.few:
            shown.append(f"{len(self.few)} with fewer seeds ({', '.join(sorted({seeds for _, seeds in self.few}))})")
        return ", ".join(shown).replace(" ", " runs ", 1) if shown else "nothing committed"

    @property
    def _how(self) -> str:
        """By which seeds the current runs are known to be current, where that is not by their fingerprint."""
        if not self.checked:
            return ""
        count = "" if len(self.checked) == len(self.current) else f"{len(self.checked)} "
        return f" ({count}checked by rerunning {' or '.join(sorted({seeds for _, seeds in self.checked}))} seeds)"


def committed(results: Path) -> tuple[str, ...]:
    """The experiments with a committed result of comparable runs, in the order of the catalogue."""
    return tuple(name for name in EXPERIMENTS if (results / PLACES.get(name, name) / "cells.json").is_file())


def staleness_of_all(results: Path, *, kept: bool = True) -> tuple[dict[str, Staleness], Answers]:
    """The state of every committed result; `kept` answers of the accountant are not computed again (`answers`)."""
    with remembering(results, kept=kept) as answers:
        return {name: staleness(name, results) for name in committed(results)}, answers


def staleness(name: str, results: Path) -> Staleness:
    """The state of every run of a committed result."""
    runs = {(run.label, run.config.environment_name): run for run in experiment_named(name).runs("paper")}
    cells = [cell for cell in read_json(results / PLACES.get(name, name) / "cells.json")["runs"] if cell["complete"]]
    states: dict[str, list[Any]] = {"current": [], "before": [], "stale": [], "checked": [], "few": []}
    for cell in cells:
        key = cell["run"], environment_of(cell)
        kind, why = _state(cell, runs.get(key))
        label = cell["run"] if sum(run == key[0] for run, _ in runs) < 2 else f"{key[0]} ({key[1]})"
        states[kind].append((label, why) if kind == "stale" else label)
        done, planned = int(str(cell["seeds"]).split()[0]), len(runs[key].config.seeds) if key in runs else 0
        if done < planned:
            states["few"].append((label, f"{done} of {planned}"))
        if kind == "current" and _made(cell) != cell.get("algorithm"):
            again, seeds = len(cell["checked"]["seeds"]), str(cell["seeds"]).split()[0]
            states["checked"].append((label, f"{again} of {seeds}"))
    there = {(cell["run"], environment_of(cell)) for cell in cells}
    return Staleness(
        name=name,
        versions=tuple(sorted({str(cell["version"]) for cell in cells})),
        current=tuple(states["current"]),
        before=tuple(states["before"]),
        checked=tuple(states["checked"]),
        stale=tuple(states["stale"]),
        few=tuple(states["few"]),
        missing=tuple(label for label, environment in runs if (label, environment) not in there),
    )


def _state(cell: dict[str, Any], run: Run | None) -> tuple[str, str]:
    """current, before or stale, and why."""
    if cell.get("stale"):
        return "stale", str(cell["stale"])
    if run is None:
        return "stale", "the experiment has no such run any more"
    made = _made(cell)
    if made == BEFORE:
        return "before", ""
    now = fingerprint_of(assemble(run.config))
    return ("current", "") if made == now else ("stale", f"made by [{made}], today it is [{now}]")


def _made(cell: dict[str, Any]) -> str:
    """The fingerprint of a committed run, or that with which it was checked."""
    made = str(cell.get("algorithm", BEFORE))
    return str(cell["checked"]["algorithm"]) if made == BEFORE and "checked" in cell else made
