"""Theorem 5 and Table 1 of [garcelon2021local]: the powers of S, A and H in the regret of LDP-OBI, fitted.

    Laplace, Gaussian   H³ S² A √K/ε           randomized response   H^(7/2) S² A √K/ε
    bounded noise       H² S³ A^(3/2) √K/ε

One size is varied at a time, from S = A = H = 2 on; each size has four random MDPs, the first four seeds in which the
best policy earns at least 0.2 H more than the uniform one. K = 10⁸ at ε = 2, noise as printed, under the one practical
rule; and with the radii of Theorem 5 (`printed`) and Laplace noise at ε = 20. The table bounds regret from above, so a
smaller power agrees with it, and a larger one over three sizes does not contradict it. Powers are fitted where regret
is below half of the uniform policy's: where nothing is learned, regret cannot grow any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tacit.papers.fitting import fit_exponent
from tacit.papers.garcelon2021local.experiments import LOCAL_DELTA
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.places import write_json
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PRINTED", "SizeFigure", "powers_of", "runs", "sizes"]

Scale = Literal["smoke", "paper"]

AXES: Final = ("states", "actions", "horizon")
VALUES: Final = {"smoke": (2, 3), "paper": (2, 4, 8)}
USERS: Final = {"smoke": 20_000, "paper": 100_000_000}
WORLDS: Final = {"smoke": 1, "paper": 4}
APPROXIMATE: Final = {"delta": LOCAL_DELTA, "allow_large_delta": True}
LINES: Final[Mapping[str, dict[str, Any]]] = {
    "LDP-OBI-L": {"mechanism": "laplace", "delta": 0.0},
    "LDP-OBI-G": {"mechanism": "gaussian", **APPROXIMATE},
    "LDP-OBI-RR": {"mechanism": "rr", "delta": 0.0},
    "LDP-OBI-BND": {"mechanism": "bounded", **APPROXIMATE},
    "LDP-OBI-L, printed radii, ε=20": {"mechanism": "laplace", "delta": 0.0, "constants": "printed", "epsilon": 20.0},
}
PRINTED: Final[Mapping[str, tuple[float, float, float]]] = {
    "laplace": (2.0, 1.0, 3.0),
    "gaussian": (2.0, 1.0, 3.0),
    "rr": (2.0, 1.0, 3.5),
    "bounded": (3.0, 1.5, 2.0),
}
"""The powers of S, A and H in Table 1, by mechanism."""


def sizes(scale: Scale) -> tuple[dict[str, int], ...]:
    """S = A = H = 2, and every size in which one of them is larger."""
    least = VALUES[scale][0]
    larger = ({axis: value} for axis in AXES for value in VALUES[scale][1:])
    return tuple(dict.fromkeys(AXES, least) | change for change in ({}, *larger))


def runs(scale: Scale) -> tuple[Run, ...]:
    """Every mechanism in every world."""
    found = []
    for size in sizes(scale):
        for world in _worlds(*size.values(), WORLDS[scale]):
            for label, options in LINES.items():
                config = RunConfig(
                    environment=world,
                    learner="ldp-obi:staged=false,replan=rarely",
                    episodes=USERS[scale],
                    seeds=as_seeds(1),
                    checkpoints=20,
                    trust="local",
                    calibration="paper",
                    **{"constants": "practical", "epsilon": 2.0, **options},
                )
                found.append(Run(label=label, config=config))
    return tuple(found)


@cache
def _worlds(states: int, actions: int, horizon: int, count: int) -> tuple[str, ...]:
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


def powers_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """For every mechanism: mean regret at every size, and the powers of S, A and H where something is learned."""
    found = []
    for label, mine in _grouped(results).items():
        points = [dict(zip(AXES, size, strict=True)) | _point(members) for size, members in mine.items()]
        fitted = {}
        for axis in AXES:
            line = [p for p in points if all(p[other] == points[0][other] for other in AXES if other != axis)]
            line = [p for p in line if p["of_uniform"] < 0.5]
            power = fit_exponent(np.array([float(p[axis]) for p in line]), np.array([p["regret"] for p in line]))
            fitted[axis] = {"power": power if np.isfinite(power) else None, "fitted_at": [p[axis] for p in line]}
        printed = dict(zip(AXES, PRINTED[str(LINES[label]["mechanism"])], strict=True))
        found.append({"line": label, "points": points, "powers": fitted, "printed": printed})
    return found


def _point(members: Sequence[Result]) -> dict[str, Any]:
    """The regret of one mechanism at one size: mean, least and greatest world."""
    regret = np.array([result.regret[:, -1].mean() for result in members])
    uniform = np.array([result.uniform_regret * result.config.episodes for result in members])
    return {
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

    name: str = "table1"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Mean over the worlds (bars: least to greatest world), with fitted powers."""
        from matplotlib.figure import Figure

        found = powers_of(results)
        write_json(path.with_suffix(".json"), {"version": results[0].version, "title": title, "lines": found})
        names = [line["line"] for line in found]
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        for ax, axis in zip(figure.subplots(1, 3, sharey=True), AXES, strict=True):
            for line in found:
                least = line["points"][0]
                mine = [p for p in line["points"] if all(p[o] == least[o] for o in AXES if o != axis)]
                color, dash, marker = style_of(line["line"], names)
                x, y, low, high = (
                    np.array([p[key] for p in mine], dtype=float) for key in (axis, "regret", "least", "greatest")
                )
                power, printed = line["powers"][axis]["power"], line["printed"][axis]
                words = f"{axis[0].upper()}^{power:.1f}" if power is not None else "no fit"
                ax.errorbar(
                    x, y, yerr=[y - low, high - y], color=color, linestyle=dash, marker=marker, markersize=4, capsize=2,
                    elinewidth=0.8, label=f"{line['line']}: {words} (printed {printed:g})",
                )  # fmt: skip
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xlabel(f"{axis} (the others are {VALUES['paper'][0]})", color=GREY)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(colors=GREY, labelsize=8)
            ax.legend(frameon=False, fontsize=7.5, loc="lower left", bbox_to_anchor=(0.0, 1.0))
        figure.axes[0].set_ylabel(f"regret after {results[0].config.episodes:,} users", color=GREY)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        words = f"mean of {WORLDS['paper']} random MDPs; bars: least to greatest; fitted where regret is below half of"
        figure.supxlabel(f"{words} the uniform policy's; simulation only", fontsize=8, color=GREY, x=0.01, ha="left")
        save_figure(figure, path)
        return figure
