"""Committed results as cards need them: finals of every seed, and numbers as text with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from papers.fitting import fit_exponent
from papers.thinning import environment_of
from tacit.arrays import Floats
from tacit.runs.storage_paths import read_json

__all__ = ["Committed", "Results", "bootstrap", "committed", "pm", "row"]

DRAWS = 200
"""Resamples behind the standard error of a fitted power."""


def pm(value: float, error: float) -> str:
    """A number and its standard error, to the digits that the error leaves.

    >>> pm(8575.3, 31.2), pm(0.46123, 0.0041), pm(0.5, 0.0), pm(1234567.0, 12345.0)
    ('8,580 ± 30', '0.461 ± 0.004', '0.5', '1,235,000 ± 12,000')
    """
    if not math.isfinite(error) or error <= 1e-12 * abs(value):
        return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"
    digits = -math.floor(math.log10(error))
    digits += int(error * 10.0**digits < 1.95)
    shown = (f"{round(number, digits):,.{max(0, digits)}f}" for number in (value, error))
    return " ± ".join(shown)


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def bootstrap(measure: Callable[..., float], *samples: Floats) -> str:
    """A statistic of samples [seed, ...] and its standard error, by drawing the seeds of each sample again."""
    rng = np.random.default_rng(0)
    drawn = [measure(*(one[rng.integers(len(one), size=len(one))] for one in samples)) for _ in range(DRAWS)]
    value = measure(*samples)
    return pm(value, float(np.nanstd(drawn))) if math.isfinite(value) else "-"


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

    def regret(self, run: str, environment: str | None = None) -> str:
        """Mean regret at the end and its standard error."""
        return pm(self.mean(run, environment), self.error(run, environment))

    def of_uniform(self, run: str, environment: str | None = None) -> str:
        """The same as a share of the uniform policy's."""
        uniform = self.uniform(run, environment)
        return pm(self.mean(run, environment) / uniform, self.error(run, environment) / uniform)

    def times(self, more: str, less: str, environment: str | None = None) -> str:
        """How many times the regret of one run is that of another, and its standard error."""
        a, b = ((self.mean(run, environment), self.error(run, environment)) for run in (more, less))
        ratio = a[0] / b[0]
        return pm(ratio, abs(ratio) * math.hypot(a[1] / a[0], b[1] / b[0]))

    def growth(self, runs: Sequence[str], environment: str | None = None) -> str:
        """The exponent of mean regret in K over these runs."""
        K = np.array([float(self.cell(run, environment)["episodes"]) for run in runs])
        finals = [self.finals(run, environment) for run in runs]
        return bootstrap(lambda *drawn: fit_exponent(K, np.array([one.mean() for one in drawn])), *finals)

    def power(self, line: str, axis: str, *, less: str | None = None) -> str:
        """The fitted power of one size of random MDPs, where something is learned; drawn again are worlds.

        With `less`, the power of what this line has more than that one.
        """
        sizes: dict[int, list[float]] = {}
        found = [environment for run, environment in self.cells if run == line]
        parsed = {name: dict(part.split("=") for part in name.partition(":")[2].split(",")) for name in found}
        base = {
            other: min(int(given[other]) for given in parsed.values()) for other in ("states", "actions", "horizon")
        }
        for name, given in parsed.items():
            if all(int(given[other]) == least for other, least in base.items() if other != axis):
                more = self.mean(line, name) - (0.0 if less is None else self.mean(less, name))
                if self.mean(line, name) < 0.5 * self.uniform(line, name):
                    sizes.setdefault(int(given[axis]), []).append(more)
        x = np.array(sorted(sizes), dtype=float)
        samples = [np.array(sizes[size]) for size in sorted(sizes)]
        return bootstrap(lambda *drawn: fit_exponent(x, np.array([one.mean() for one in drawn])), *samples)

    @property
    def seeds(self) -> str:
        """How many seeds its runs have."""
        counts = sorted({len(self.finals(*key)) for key in self.cells})
        return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"

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
