"""Powers of S, A and H: regret on random MDPs of growing size, one of the three varied at a time, fitted.

Each size has the first random MDPs in which the best policy earns at least 0.2 H more than the uniform one. Bounds of
papers hold from above, so a smaller power agrees with them, and a larger one over three sizes does not contradict them.
Powers are fitted where regret is below half of the uniform policy's: where nothing is learned, regret cannot grow any
more. A *cost* is the regret of one line minus that of another at the same size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from papers.fitting import fit_exponent
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AXES", "SizeFigure", "powers_of", "sizes_of", "worlds"]

AXES: Final = ("states", "actions", "horizon")

Powers = Mapping[str, tuple[float, float, float]]
"""The printed powers of S, A and H, by line."""


def sizes_of(values: Sequence[int]) -> tuple[dict[str, int], ...]:
    """All three at the least value, and every size in which one of them is larger.

    >>> len(sizes_of((2, 4, 8)))
    7
    """
    larger = ({axis: value} for axis in AXES for value in values[1:])
    return tuple(dict.fromkeys(AXES, values[0]) | change for change in ({}, *larger))


@cache
def worlds(states: int, actions: int, horizon: int, count: int) -> tuple[str, ...]:
    """The first random MDPs of this size in which the best policy earns at least 0.2 H more than the uniform one."""
    found: list[str] = []
    seed = 0
    while len(found) < count:
        name = f"random-mdp:states={states},actions={actions},horizon={horizon},seed={seed}"
        best, alike = assemble(RunConfig(environment=name, learner="uniform", episodes=1, seeds=(0,))).values
        if best - alike >= 0.2 * horizon:
            found.append(name)
        seed += 1
    return tuple(found)


def powers_of(results: Sequence[Result], printed: Powers, costs: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """For every line and cost: its mean at every size, and the powers of S, A and H where something is learned."""
    points = {
        label: [_point(size, members) for size, members in mine.items()] for label, mine in _grouped(results).items()
    }
    for cost, (more, less) in costs.items():
        points[cost] = [
            {**one, **{key: one[key] - other[key] for key in ("regret", "least", "greatest")}}
            for one, other in zip(points[more], points[less], strict=True)
        ]
    found = []
    for label, line in points.items():
        fitted = {}
        for axis in AXES:
            mine = [p for p in _along(line, axis) if p["of_uniform"] < 0.5]
            power = fit_exponent(np.array([float(p[axis]) for p in mine]), np.array([p["regret"] for p in mine]))
            fitted[axis] = {"power": power if np.isfinite(power) else None, "fitted_at": [p[axis] for p in mine]}
        terms = dict(zip(AXES, printed[label], strict=True))
        found.append({"line": label, "points": line, "powers": fitted, "printed": terms})
    return found


def _along(points: Sequence[dict[str, Any]], axis: str) -> list[dict[str, Any]]:
    """The points in which no other size differs from the first one's."""
    return [p for p in points if all(p[other] == points[0][other] for other in AXES if other != axis)]


def _point(size: tuple[int, int, int], members: Sequence[Result]) -> dict[str, Any]:
    """The regret of one line at one size: mean, least and greatest world."""
    regret = np.array([result.regret[:, -1].mean() for result in members])
    uniform = np.array([result.uniform_regret * result.config.episodes for result in members])
    return dict(zip(AXES, size, strict=True)) | {
        "worlds": len(members),
        "regret": float(regret.mean()),
        "least": float(regret.min()),
        "greatest": float(regret.max()),
        "of_uniform": float((regret / uniform).mean()),
    }


def _grouped(results: Sequence[Result]) -> dict[str, dict[tuple[int, int, int], list[Result]]]:
    """Label -> (S, A, H) -> results."""
    found: dict[str, dict[tuple[int, int, int], list[Result]]] = {}
    for result in results:
        size = result.resolved.states, result.resolved.actions, result.resolved.horizon
        found.setdefault(result.label, {}).setdefault(size, []).append(result)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFigure:
    """Regret against S, A and H, one panel each; writes the numbers beside it."""

    name: str
    printed: Powers
    costs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a cost -> the line with it and the line without."""

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers, and draw them."""
        found = powers_of(results, self.printed, self.costs)
        K = results[0].config.episodes
        write_json(
            path.with_suffix(".json"), {"version": results[0].version, "title": title, "episodes": K, "lines": found}
        )
        return self.paint({"episodes": K, "lines": found}, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Mean over the worlds (bars: least to greatest world), with fitted powers."""
        from matplotlib.figure import Figure

        names = [line["line"] for line in told["lines"]]
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        for ax, axis in zip(figure.subplots(1, 3, sharey=True), AXES, strict=True):
            for line in told["lines"]:
                mine = _along(line["points"], axis)
                color, dash, marker = style_of(line["line"], names)
                x, y, low, high = (
                    np.array([p[key] for p in mine], dtype=float) for key in (axis, "regret", "least", "greatest")
                )
                power, printed = line["powers"][axis]["power"], line["printed"][axis]
                words = f"{axis[0].upper()}^{power:.1f}" if power is not None else "no fit"
                bars = None if line["line"] in self.costs else [y - low, high - y]
                ax.errorbar(
                    x, np.where(y > 0.0, y, np.nan), yerr=bars, color=color, linestyle=dash, marker=marker,
                    markersize=4, capsize=2, elinewidth=0.8, label=f"{line['line']}: {words} (printed {printed:g})",
                )  # fmt: skip
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xlabel(f"{axis} (the others are {told['lines'][0]['points'][0][axis]})", color=GREY)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(colors=GREY, labelsize=8)
            ax.legend(frameon=False, fontsize=7.5, loc="lower left", bbox_to_anchor=(0.0, 1.0))
        figure.axes[0].set_ylabel(f"regret after {told['episodes']:,} users", color=GREY)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        count = told["lines"][0]["points"][0]["worlds"]
        words = f"mean of {count} random MDPs; bars: least to greatest; fitted where regret is below half of"
        figure.supxlabel(f"{words} the uniform policy's; simulation only", fontsize=8, color=GREY, x=0.01, ha="left")
        save_figure(figure, path)
        return figure
