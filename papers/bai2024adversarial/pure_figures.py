"""Fitted powers and figures of Table 1 in its own setting; every figure writes its numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from papers.bai2024adversarial.experiments import WORLDS
from papers.bai2024adversarial.pure import BASE, CASES, LEARNERS, POWER_CASES, SWEEPS
from papers.fitting import finite, fit_exponent
from papers.panels import save_titled, slope_guide
from tacit.arrays import Floats
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PowersFigure", "PureFigure", "power_curves", "pure_curves"]


POWER_LINES: Final = ("no privacy", "central", "local")
LEAST: Final = 4e-3
"""The least share that is drawn."""


def pure_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Final regret against K of every kind and case, as it is and as a share of the uniform policy's; fitted powers."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.config.world_name, result.label.rpartition(", K=")[0]), []).append(result)
    names = {environment: name for name, environment in WORLDS.items()}
    found = []
    for (environment, label), members in groups.items():
        mine = sorted(members, key=lambda result: result.config.episodes)
        K = np.array([float(result.config.episodes) for result in mine])
        mean = np.array([float(result.regret[:, -1].mean()) for result in mine])
        chance = np.array([float(np.mean([m.uniform[-1] for m in result.losses])) for result in mine])
        found.append(
            {
                "world": names[environment],
                "kind": next(k for k, learner in LEARNERS.items() if learner == mine[0].config.learner),
                "case": _case_of(mine[0]),
                "epsilon": mine[0].config.epsilon,
                "label": label,
                "episodes": K.astype(int).tolist(),
                "regret": mean.tolist(),
                "raw": [result.regret[:, -1].tolist() for result in mine],
                "share": (mean / chance).tolist(),
                "exponent": [finite(fit_exponent(K[i : i + 2], mean[i : i + 2])) for i in range(len(K) - 1)],
                "certified_epsilon": finite(mine[-1].certificate.epsilon),
                "width": [float(np.mean([m.width for m in result.losses])) for result in mine],
                "unconverged": int(sum(m.unconverged for result in mine for m in result.losses)),
            }
        )
    return found


def power_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Regret and cost of privacy along every sweep, with the fitted powers of both and of the theorems' terms."""
    found = []
    for name, values in SWEEPS.items():
        worlds = [[r for r in results if _size(r) == {**BASE, name: n}] for n in values]
        for feedback, (learner, epsilon) in POWER_CASES.items():
            cases = [[r for r in here if r.config.learner == learner] for here in worlds]
            plain = np.array([_mean(here, "none") for here in cases])
            # H C_M: what the theorems' first term has of the world
            support = np.array([np.mean([_support_term(r) for r in here]) for here in cases])
            x = np.array([float(n) for n in values])
            line = {
                "sweep": name,
                "values": list(values),
                "feedback": feedback,
                "episodes": cases[0][0].config.episodes,
            }
            found.append(
                {**line, "trust": "none", "epsilon": None, "regret": plain.tolist(), "chance": _chance(cases)}
                | {"exponent": finite(fit_exponent(x, plain)), "theorem": fit_exponent(x, support)}
            )
            for trust in ("central", "local"):
                private = np.array([_mean(here, trust) for here in cases])
                cost = private - plain
                privacy = np.array([_privacy_term(here[0], feedback, trust) for here in cases])
                found.append(
                    {**line, "trust": trust, "epsilon": epsilon, "regret": private.tolist(), "chance": _chance(cases)}
                    | {"cost": cost.tolist(), "exponent": finite(fit_exponent(x, private))}
                    | {"cost_exponent": finite(fit_exponent(x, cost)), "theorem": fit_exponent(x, privacy)}
                )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PureFigure:
    """Regret as a share of the uniform policy's against K: one column per feedback and knowledge, one row per world."""

    name: str = "pure"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "curves": pure_curves(results)}
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        from matplotlib.figure import Figure

        curves = told["curves"]
        figure = Figure(figsize=(WIDTH, 12.0), layout="constrained")
        axes = figure.subplots(len(LEARNERS), len(WORLDS), sharex=True, sharey=True, squeeze=False)
        names = [_shown(case) for case in CASES]
        for column, world in enumerate(WORLDS):
            for row, kind in enumerate(LEARNERS):
                ax = axes[row, column]
                shown = [c for c in curves if (c["world"], c["kind"]) == (world, kind)]
                largest = max((c["epsilon"] for c in shown if c["epsilon"] is not None), default=0.0)
                for curve in shown:
                    color, dash, marker = style_of(_shown(curve["case"]), names)
                    low, high = _edges(curve)
                    ax.fill_between(curve["episodes"], low, high, color=color, alpha=0.16, linewidth=0)
                    second = curve["epsilon"] is not None and curve["epsilon"] < largest
                    ax.plot(
                        curve["episodes"], _positive(curve["share"]), color=color, linestyle=dash, marker=marker,
                        markersize=5, markerfacecolor="white" if second else color, label=_shown(curve["case"]),
                    )  # fmt: skip
                ax.axhline(1.0, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.0)
                ax.set_xscale("log")
                ax.set_yscale("log", nonpositive="mask")
                ax.xaxis.set_minor_formatter("")
                ax.set_title(f"{world}: {kind}, ε = {largest:g}", loc="left", fontsize=9)
                ax.spines[["top", "right"]].set_visible(False)
                ax.tick_params(labelsize=8)
        for ax in axes.ravel():  # the axes are shared: their limits are known when all lines are drawn
            slope_guide(ax, per_episode="so far")
        for ax in axes[-1]:
            ax.set_xlabel("episodes K", color=GREY)
        for ax in axes[:, 0]:
            ax.set_ylabel("share of uniform", color=GREY, fontsize=9)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        most, *fewer = sorted({len(seeds) for curve in curves for seeds in curve["raw"]}, reverse=True)
        seeds = f"{most} seeds" + "".join(f" ({number} at 10⁶)" for number in fewer)
        words = (
            f"sinusoidal losses; regret as a share of the uniform policy's, mean of {seeds}, band: least to "
            "greatest; hollow: ε = 1;\nbelow 0: not shown; simulation only"
        )
        legend = figure.legend(
            handles, labels, loc="outside lower left", ncols=len(CASES), fontsize=8, frameon=False, title=words,
            title_fontsize=8, alignment="left", columnspacing=1.0,
        )  # fmt: skip
        legend.get_title().set_color(GREY)
        save_figure(figure, path)
        return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class PowersFigure:
    """Regret without privacy and cost of privacy against states, actions and steps, with fitted powers."""

    name: str = "powers"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "curves": power_curves(results)}
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        from matplotlib.figure import Figure

        curves = told["curves"]
        figure = Figure(figsize=(WIDTH, 11.0), layout="constrained")
        axes = figure.subplots(len(SWEEPS), len(POWER_CASES), squeeze=False)
        words = {"states": "states of a layer", "actions": "actions A", "layers": "steps H"}
        for column, feedback in enumerate(POWER_CASES):
            for row, name in enumerate(SWEEPS):
                ax = axes[row, column]
                shown = [c for c in curves if (c["feedback"], c["sweep"]) == (feedback, name)]
                for curve in shown:
                    cost = "cost" in curve
                    color, dash, marker = style_of(curve["trust"] if cost else "no privacy", POWER_LINES)
                    slope = curve["cost_exponent"] if cost else curve["exponent"]
                    what = f"cost of {curve['trust']} privacy, ε = {curve['epsilon']:g}" if cost else "no privacy"
                    fitted = "no fit" if slope is None else f"{slope:.2f}"
                    ax.plot(
                        curve["values"], _positive(curve["cost"] if cost else curve["regret"]), color=color,
                        linestyle=dash, marker=marker, markersize=5,
                        label=f"{what}: power {fitted} (term of the theorem {curve['theorem']:.2f})",
                    )  # fmt: skip
                ax.plot(shown[0]["values"], shown[0]["chance"], color=GREY, linestyle=(0, (1, 1.5)), label="uniform")
                ax.set_xscale("log")
                ax.set_yscale("log", nonpositive="mask")
                ax.set_xticks(shown[0]["values"], [str(n) for n in shown[0]["values"]])
                ax.minorticks_off()
                ax.set_title(f"{feedback}: {words[name]}", loc="left", fontsize=10)
                ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.1))
                ax.spines[["top", "right"]].set_visible(False)
        for ax in axes[:, 0]:
            ax.set_ylabel("regret", color=GREY)
        K = curves[0]["episodes"]
        return save_titled(figure, path, title, f"K = {K:,}, means over random worlds; pure privacy, tight noise")


def _case_of(result: Result) -> str:
    config = result.config
    chosen: dict[str, Any] = {} if config.trust == "none" else {"trust": config.trust, "delta": config.delta}
    if config.calibration == "paper":
        chosen["calibration"] = "paper"
    return next(name for name, options in CASES.items() if options == chosen)


def _size(result: Result) -> dict[str, int]:
    """The size of the random world that a result was made in."""
    words = dict(word.split("=") for word in result.config.world_name.partition(":")[2].split(","))
    return {name: int(words[name]) for name in BASE}


def _mean(results: Sequence[Result], trust: str) -> float:
    return float(np.mean([r.regret[:, -1].mean() for r in results if r.config.trust == trust]))


def _chance(cases: Sequence[Sequence[Result]]) -> list[float]:
    return [float(np.mean([m.uniform[-1] for r in here for m in r.losses])) for here in cases]


def _support_term(result: Result) -> float:
    """H C_M of the world."""
    return _size(result)["layers"] * float((result.resolved.settings or {})["effective_support"])


def _privacy_term(result: Result, feedback: str, trust: str) -> float:
    """The privacy term of Table 1 but for K and ε: what it has of X, A and H."""
    size = _size(result)
    H, A = size["layers"], size["actions"]
    X = 2 + size["states"] * (H - 1)
    if feedback == "full":
        return X**2 * A * H**2  # X² A H²/ε, with √K under local trust
    return A * H * X**1.5 if trust == "central" else X**4 * A * H**2


def _shown(case: str) -> str:
    return "no privacy" if case == "none" else case


def _edges(curve: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """The least and the greatest share of the seeds, where their mean is positive."""
    chance = np.array(curve["regret"]) / np.array(curve["share"])
    raw = [np.array(seeds) for seeds in curve["raw"]]
    low, high = (np.array([edge(seeds) for seeds in raw]) / chance for edge in (np.min, np.max))
    shown = np.array(curve["share"]) > 0.0
    return np.where(shown, np.maximum(low, LEAST), np.nan), np.where(shown, high, np.nan)


def _positive(values: Sequence[float]) -> Floats:
    found = np.array(values)
    return np.where(found > 0.0, found, np.nan)
