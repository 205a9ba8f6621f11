"""Fitted exponents of Table I: the largest regret over all gaps in K, what privacy adds to it, and that in 1/ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from papers.bai2024shuffle.experiments import SIZES
from papers.fitting import finite, fit_exponent
from papers.panels import save_titled
from tacit.arrays import Floats
from tacit.runs.figures import GREY, WIDTH, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ConstantFigure", "GrowthFigure", "growth_of", "scan_of"]

LEARNED: Final = 0.3
"""Exponents are fitted from the K on at which regret is below this share of the uniform policy's."""


def growth_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """For every version and rule: the largest mean regret over the gaps at every K, without and with privacy."""
    kinds = list(dict.fromkeys(result.label.split(", ", 1)[1] for result in results))
    found = []
    for kind in kinds:
        curves = _largest([r for r in results if r.label.endswith(f", {kind}")])
        (K, plain, uniform), (version, constants) = curves.pop(None), kind.split(", ")
        late = _late(K, plain, uniform)
        private = [_private(epsilon, K, regret, plain, uniform) for epsilon, (_, regret, _) in curves.items()]
        inverse, last = (np.array([line[key] for line in private]) for key in ("1/epsilon", "cost_at_the_end"))
        found.append(
            {
                "version": version,
                "constants": constants,
                "episodes": K.astype(int).tolist(),
                "uniform": uniform.tolist(),
                "regret": plain.tolist(),
                "exponent": _slope(K, plain, late),
                "fitted_from": _first(K, late),
                "private": private,
                "cost_exponent_in_1/epsilon": _slope(inverse, last),
                "from_epsilon_to_epsilon": [_slope(inverse[i : i + 2], last[i : i + 2]) for i in range(len(last) - 1)],
            }
        )
    return found


def _private(epsilon: float | None, K: Floats, regret: Floats, plain: Floats, uniform: Floats) -> dict[str, Any]:
    """One private curve, what privacy adds to it, and the exponent of that in K where something is learned."""
    cost, late = regret - plain, _late(K, regret, uniform)
    return {
        "epsilon": epsilon,
        "1/epsilon": 1.0 / float(epsilon or np.nan),
        "regret": regret.tolist(),
        "cost_exponent_in_K": _slope(K, cost, late),
        "fitted_from": _first(K, late),
        "cost_at_the_end": float(cost[-1]),
    }


def _largest(results: Sequence[Result]) -> dict[float | None, tuple[Floats, Floats, Floats]]:
    """ε -> K, and there the largest mean regret over the gaps, and that of the uniform policy."""
    found: dict[float | None, tuple[Floats, Floats, Floats]] = {}
    for epsilon in dict.fromkeys(result.config.epsilon for result in results):
        mine = [result for result in results if result.config.epsilon == epsilon]
        K = mine[0].episodes.astype(np.float64)
        worst = np.max([result.regret.mean(axis=0) for result in mine], axis=0)
        found[epsilon] = K, worst, max(result.uniform_regret for result in mine) * K
    return found


def _late(K: Floats, regret: Floats, uniform: Floats) -> NDArray[np.bool_]:
    """The K from which on regret stays below a share of the uniform policy's; at least half a decade, or none."""
    small = np.logical_and.accumulate((regret < LEARNED * uniform)[::-1])[::-1]
    return small if small.any() and K[-1] / K[small][0] >= np.sqrt(10.0) else np.zeros_like(small)


def _first(K: Floats, late: NDArray[np.bool_]) -> float | None:
    return float(K[late][0]) if late.any() else None


def _slope(x: Floats, y: Floats, late: NDArray[np.bool_] | None = None) -> float | None:
    return finite(fit_exponent(x, y) if late is None else fit_exponent(x[late], y[late]))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFigure:
    """The largest regret over all gaps against K, one panel per version and rule, with guides of slope one half."""

    name: str = "table1"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "growth": growth_of(results)}
        told["seeds"] = len(results[0].seeds)
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        from matplotlib.figure import Figure

        found = told["growth"]
        figure = Figure(figsize=(WIDTH, 7.4), layout="constrained")
        for ax, kind in zip(figure.subplots(2, 2).ravel(), found, strict=True):
            K = np.array(kind["episodes"])
            names = ["no privacy", *(f"ε = {line['epsilon']:g}" for line in kind["private"])]
            lines = [kind["regret"], *(line["regret"] for line in kind["private"])]
            slopes = [kind["exponent"], *(line["cost_exponent_in_K"] for line in kind["private"])]
            for name, line, slope in zip(names, lines, slopes, strict=True):
                color, dash, marker = style_of(name, names)
                words = "no fit" if slope is None else f"K^{slope:.2f}"
                words = f"{name}: {words}" if name == "no privacy" else f"{name}, cost: {words}"
                ax.plot(K, line, color=color, linestyle=dash, marker=marker, markersize=3, markevery=6, label=words)
            ax.plot(K, kind["uniform"], color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.0, label="uniform policy")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_ylim(bottom=max(1.0, min(float(np.min(line)) for line in lines)))
            guide = K[K >= K[-1] / 1e3]
            ax.plot(guide, 3.0 * np.sqrt(guide), color="#b0b0b0", linewidth=0.9, label="slope 1/2")
            ax.set_title(f"version of {kind['version']}, {kind['constants']} constants", loc="left", fontsize=10)
            ax.set_xlabel("K", color=GREY)
            ax.set_ylabel("largest regret over the gaps", color=GREY)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(colors=GREY, labelsize=8)
            ax.legend(frameon=False, fontsize=8)
        words = f"mean of {told['seeds']} seeds, gaps 2^-1 to 2^-10; fitted below {LEARNED} of uniform"
        return save_titled(figure, path, title, words)


def scan_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Final regret as a share of the uniform policy's, and that of the last episodes, for every C and C₁."""
    found = []
    for result in results:
        C, C1, version, noise = result.label.split(", ", 3)
        uniform, K = result.uniform_regret, result.config.episodes
        ends = np.diff(result.regret, axis=1)[:, -1] / np.diff(result.episodes)[-1] / uniform
        found.append(
            {
                "C": float(C.removeprefix("C=")),
                "C1": float(C1.removeprefix("C1=")),
                "version": version,
                "noise": noise,
                "of_uniform": float(result.regret[:, -1].mean() / (uniform * K)),
                "standard_error": float(result.regret[:, -1].std(ddof=1) / np.sqrt(len(result.seeds)) / (uniform * K)),
                "last_of_uniform": ends.tolist(),
            }
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantFigure:
    """Regret against C, one panel per version, one line per noise and C₁."""

    name: str = "constants"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "scan": scan_of(results)}
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        from matplotlib.figure import Figure

        found = told["scan"]
        versions = list(dict.fromkeys(point["version"] for point in found))
        names = list(dict.fromkeys(f"{point['noise']}; C₁ = {point['C1']:g}" for point in found))
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        for ax, version in zip(figure.subplots(1, len(versions), squeeze=False)[0], versions, strict=True):
            for name in names:
                mine = [p for p in found if p["version"] == version and f"{p['noise']}; C₁ = {p['C1']:g}" == name]
                color, dash, marker = style_of(name, names)
                x, y, bar = (np.array([point[key] for point in mine]) for key in ("C", "of_uniform", "standard_error"))
                ax.errorbar(x, y, yerr=bar, color=color, linestyle=dash, marker=marker, markersize=4, label=name)
            ax.set_xscale("log")
            ax.set_ylim(0.0, 1.15)
            ax.set_title(f"version of {version}", loc="left", fontsize=10)
            ax.set_xlabel("C (printed: left open, 1 here)", color=GREY)
            ax.set_ylabel("regret as a share of the uniform policy's", color=GREY)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False, fontsize=8)
        seeds = len(found[0]["last_of_uniform"])
        words = f"RiverSwim with S = 3, H = 4, up to {SIZES['paper'][0]:,} users, {seeds} seeds; bars: standard error"
        return save_titled(figure, path, title, words)
