"""Committed results as claims need them: finals of every seed, their mean, their share of the uniform policy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from papers.thinning import environment_of
from tacit.arrays import Floats
from tacit.runs.storage_paths import read_json

__all__ = ["Committed", "Results", "committed"]


class Committed:
    """One committed result. A run is named by its label, and by its environment where several share the label."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.cells: dict[tuple[str, str], dict[str, Any]] = {
            (cell["run"], environment_of(cell)): cell for cell in read_json(place / "cells.json")["runs"]
        }
        self._rows: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] | None = None

    def key(self, run: str, environment: str | None = None) -> tuple[str, str]:
        """The one run of this label (in this environment)."""
        found = [key for key in self.cells if key[0] == run and environment in (None, key[1])]
        if len(found) != 1:
            raise KeyError(f"{len(found)} runs {run!r} in {self.place}; there are {sorted({k[0] for k in self.cells})}")
        return found[0]

    def cell(self, run: str, environment: str | None = None) -> dict[str, Any]:
        """What `cells.json` says of a run."""
        return self.cells[self.key(run, environment)]

    def json(self, name: str) -> Any:
        """Another file of numbers beside the rows."""
        return read_json(self.place / name)

    def curve(self, run: str, environment: str | None = None) -> tuple[Floats, Floats]:
        """Checkpoints, and regret there [seed, checkpoint]."""
        if self._rows is None:
            self._rows = _read(self.place / "results.parquet")
        seeds = self._rows[self.key(run, environment)]
        table = np.array(list(seeds.values()), dtype=np.float64)
        return table[0, :, 0], table[:, :, 1]

    def finals(self, run: str, environment: str | None = None) -> Floats:
        """The regret of every seed at the end."""
        return self.curve(run, environment)[1][:, -1]

    def mean(self, run: str, environment: str | None = None) -> float:
        """Mean regret at the end."""
        return float(self.finals(run, environment).mean())

    def error(self, run: str, environment: str | None = None) -> float:
        """The standard error of `mean`."""
        finals = self.finals(run, environment)
        return float(finals.std(ddof=1) / np.sqrt(len(finals)))

    def uniform(self, run: str, environment: str | None = None) -> float:
        """The regret of the uniform policy over the same episodes."""
        return float(self.cell(run, environment)["uniform regret"])

    def share(self, run: str, environment: str | None = None) -> float:
        """Mean regret as a share of the uniform policy's."""
        return self.mean(run, environment) / self.uniform(run, environment)

    def spread(self, run: str, environment: str | None = None) -> tuple[float, float, float]:
        """Mean, least and greatest final regret as shares of the uniform policy's."""
        finals = self.finals(run, environment) / self.uniform(run, environment)
        return float(finals.mean()), float(finals.min()), float(finals.max())


def _read(path: Path) -> dict[tuple[str, str], dict[int, list[tuple[int, float]]]]:
    """(run, environment) -> seed -> its checkpoints and its regret there."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read()
    columns = [table.column(name).to_pylist() for name in ("run", "environment", "seed", "episode", "regret")]
    found: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] = {}
    for run, environment, seed, episode, regret in zip(*columns, strict=True):
        found.setdefault((run, environment), {}).setdefault(seed, []).append((episode, regret))
    return found


Results = Callable[[str], Committed]
"""The committed result of a name."""


@cache
def committed(results: Path, name: str) -> Committed:
    """The committed result of this name, read once."""
    return Committed(results / name)
