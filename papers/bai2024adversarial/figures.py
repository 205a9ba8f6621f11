"""Fitted exponents and figures of the experiments on adversarial losses; every figure writes its numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from papers.bai2024adversarial.experiments import LEARNERS, PREDICTED, WORLDS
from papers.fitting import finite, fit_exponent
from papers.panels import save_titled, slope_guide
from tacit.arrays import Floats
from tacit.runs.figures import GREY, REFERENCE_STYLES, STYLES, WIDTH, style_of
from tacit.runs.result import Result, losses_json
from tacit.runs.storage import write_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EpsilonFigure", "GrowthFigure", "SupportFigure", "curves_of", "epsilon_curves", "support_curves"]


SPREAD: Final = "band: ± one standard deviation"
WORLD_NAMES: Final = {environment: name for name, environment in WORLDS.items()}
FEEDBACK: Final = {learner: name for name, learner in LEARNERS.items()}


def curves_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Final regret against K of every configuration that ran for several K, with its fitted exponent."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        name = (result.config.world_name, result.label.rpartition(", K=")[0], result.config.adversary_name or "")
        groups.setdefault(name, []).append(result)
    found = []
    for (world, label, adversary), members in groups.items():
        mine = sorted(members, key=lambda result: result.config.episodes)
        if len(mine) < 2:
            continue
        K = np.array([float(result.config.episodes) for result in mine])
        final = np.array([result.regret[:, -1] for result in mine])
        config, mean = mine[0].config, final.mean(axis=1)
        feedback = FEEDBACK.get(config.learner, "bandit")
        beside = [losses_json(result) or {} for result in mine]
        predicted = PREDICTED[f"{feedback}, {config.trust}"][0]
        found.append(
            {
                "world": WORLD_NAMES.get(world, world),
                "label": label,
                "adversary": adversary,
                "feedback": feedback,
                "trust": config.trust,
                "epsilon": config.epsilon,
                "constants": mine[0].resolved.constants,
                "estimator": config.estimator,
                "episodes": K.astype(int).tolist(),
                "regret": mean.tolist(),
                "std": final.std(axis=1, ddof=1).tolist() if final.shape[1] > 1 else [0.0] * len(mine),
                "uniform": [float(part["uniform"][-1]) for part in beside],
                "myopic": [float(part["myopic"][-1]) for part in beside],
                "exponent": finite(fit_exponent(K, mean)),
                "exponent_last": finite(fit_exponent(K[-2:], mean[-2:])),
                "predicted": predicted,
                "width": [float(part["width"]) for part in beside],
                "outside": [float(part["outside"]) for part in beside],
                "unconverged": int(sum(part["unconverged"] for part in beside)),
                "solves": int(sum(part["solves"] for part in beside)),
                "certified_epsilon": finite(mine[-1].certificate.epsilon),
                "seeds": int(final.shape[1]),
            }
        )
    return found


def epsilon_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Final regret at one K against ε, minus that without privacy: what privacy costs, and its exponent in 1/ε."""
    practical = [result for result in results if result.resolved.constants == "practical"]
    found = []
    for environment, world in WORLD_NAMES.items():
        for learner, feedback in FEEDBACK.items():
            mine = [r for r in practical if r.config.world_name == environment and r.config.learner == learner]
            sizes = [r.config.episodes for r in mine]
            if not sizes:
                continue
            K = max(set(sizes), key=sizes.count)
            (plain,) = [r for r in mine if r.config.episodes == K and r.config.trust == "none"]
            for trust in ("central", "local"):
                private = [r for r in mine if r.config.episodes == K and r.config.trust == trust]
                private.sort(key=lambda r: r.config.epsilon or 0.0)
                epsilon = np.array([r.config.epsilon or np.nan for r in private])
                mean = np.array([float(r.regret[:, -1].mean()) for r in private])
                cost = mean - float(plain.regret[:, -1].mean())
                # Where nothing is learned any more, regret cannot grow: fit where less than half of chance is paid.
                chance = float(np.mean([measures.uniform[-1] for measures in plain.losses]))
                learning = (mean < 0.5 * chance) & (cost > 0.0)
                found.append(
                    {
                        "world": world,
                        "feedback": feedback,
                        "trust": trust,
                        "episodes": K,
                        "epsilon": epsilon.tolist(),
                        "regret": mean.tolist(),
                        "cost": cost.tolist(),
                        "uniform": chance,
                        "fitted_at": epsilon[learning].tolist(),
                        "exponent": finite(fit_exponent(1.0 / epsilon[learning], cost[learning])),
                        "predicted": PREDICTED[f"{feedback}, {trust}"][1],
                    }
                )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFigure:
    """Regret against K, one panel per world and feedback, with the uniform and the myopic policy."""

    name: str = "growth"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "seeds": len(results[0].seeds)}
        told["curves"] = curves_of(results)
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        curves = told["curves"]
        rows = list(dict.fromkeys((curve["feedback"], curve["adversary"]) for curve in curves))
        columns = list(dict.fromkeys(curve["world"] for curve in curves))
        figure, axes = _canvas(len(rows), len(columns))
        names = _names(curves)
        for row, (feedback, adversary) in enumerate(rows):
            for column, world in enumerate(columns):
                ax = axes[row, column]
                where = (feedback, adversary, world)
                shown = [c for c in curves if (c["feedback"], c["adversary"], c["world"]) == where]
                for curve in shown:
                    color, dash, marker = style_of(_name(curve), names)
                    slope = curve["exponent_last"]
                    words = f"{_name(curve)}: " + ("not positive" if slope is None else f"K^{slope:.2f}")
                    mean, std = np.array(curve["regret"]), np.array(curve["std"])
                    theory = curve["constants"] == "theory"
                    low, high = (np.where(edge > 0.0, edge, np.nan) for edge in (mean - std, mean + std))
                    ax.fill_between(curve["episodes"], low, high, color=color, alpha=0.16, linewidth=0)
                    ax.plot(
                        curve["episodes"], np.where(mean > 0.0, mean, np.nan), color=color, linestyle=dash,
                        marker=marker, markersize=4, label=words, markerfacecolor="white" if theory else color,
                    )  # fmt: skip
                _references(ax, shown[0])
                _finish(ax, f"{world} world, {feedback}, {adversary} losses", shown[0]["episodes"])
                slope_guide(ax, per_episode=False)
                ax.set_xlabel("episodes K", color=GREY)
                ax.set_ylabel("regret", color=GREY)
        return _save(figure, path, title, told["seeds"], f"{SPREAD}; exponents over the last two K; predicted: K^0.50")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonFigure:
    """What privacy costs against 1/ε, one panel per world and feedback."""

    name: str = "epsilon"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "seeds": len(results[0].seeds)}
        told["curves"] = epsilon_curves(results)
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        curves = told["curves"]
        figure, axes = _canvas(2, 2)
        for row, feedback in enumerate(LEARNERS):
            for column, world in enumerate(WORLDS):
                ax = axes[row, column]
                shown = [c for c in curves if c["feedback"] == feedback and c["world"] == world]
                for curve, (color, dash, marker) in zip(shown, STYLES, strict=False):
                    cost, slope = np.array(curve["cost"]), curve["exponent"]
                    words = curve["trust"] + (": no fit" if slope is None else f": (1/ε)^{slope:.2f}")
                    x = 1.0 / np.array(curve["epsilon"])
                    style: dict[str, Any] = {"color": color, "linestyle": dash, "marker": marker, "markersize": 4}
                    ax.plot(x, np.where(cost > 0.0, cost, np.nan), label=words, **style)
                ax.axhline(shown[0]["uniform"], color=GREY, linestyle=(0, (1, 1.5)), label="uniform policy")
                _finish(
                    ax, f"{world} world, {feedback}, K = {shown[0]['episodes']:,}", [1 / e for e in shown[0]["epsilon"]]
                )
                ax.set_xlabel("1/ε", color=GREY)
                ax.set_ylabel("regret minus that without privacy", color=GREY)
        return _save(figure, path, title, told["seeds"], "predicted: (1/ε)^1; fitted below half of chance")


def support_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """What unknown transitions cost, and regret as a whole, at every effective support."""
    found = []
    for label in dict.fromkeys(r.label for r in results):
        mine = [r for r in results if r.label == label]
        optimism = np.array([[measures.optimism for measures in r.losses] for r in mine])
        final = np.array([r.regret[:, -1] for r in mine])
        found.append(
            {
                "run": label,
                "episodes": mine[0].config.episodes,
                "effective_support": [float((r.resolved.settings or {})["effective_support"]) for r in mine],
                "unknown_transitions": optimism.mean(axis=1).tolist(),
                "unknown_transitions_std": _std(optimism).tolist(),
                "regret": final.mean(axis=1).tolist(),
                "std": _std(final).tolist(),
                "uniform": [float(np.mean([m.uniform[-1] for m in r.losses])) for r in mine],
            }
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportFigure:
    """What unknown transitions cost, and regret as a whole, against the effective support C_M."""

    name: str = "support"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, "seeds": len(results[0].seeds)}
        told["curves"] = support_curves(results)
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        figure, axes = _canvas(2, 2)
        rows = {
            "cost of unknown transitions, Σ ⟨q^{P,π} - q, l⟩": ("unknown_transitions", "unknown_transitions_std"),
            "regret": ("regret", "std"),
        }
        for column, feedback in enumerate(LEARNERS):
            shown = [curve for curve in told["curves"] if curve["run"].startswith(feedback)]
            for ax, (what, (mean, std)) in zip(axes[:, column], rows.items(), strict=True):
                for curve, (color, dash, marker) in zip(shown, STYLES, strict=False):
                    style: dict[str, Any] = {"color": color, "linestyle": dash, "marker": marker, "markersize": 4}
                    x, words = curve["effective_support"], curve["run"].partition(", ")[2]
                    ax.errorbar(x, curve[mean], yerr=curve[std], capsize=2, label=words, **style)
                ax.set_xlabel("effective support C_M", color=GREY)
                ax.set_ylabel(what, color=GREY, fontsize=8)
                ax.set_title(f"{feedback}, K = {shown[0]['episodes']:,}", loc="left", fontsize=10)
                ax.legend(fontsize=7, frameon=False)
                ax.axhline(0.0, color=GREY, linewidth=0.6)
                ax.spines[["top", "right"]].set_visible(False)
        return _save(figure, path, title, told["seeds"], "bars: one standard deviation")


def _std(values: Floats) -> Floats:
    """One standard deviation over the seeds, row by row; zero for one seed."""
    return np.asarray(values.std(axis=1, ddof=1)) if values.shape[1] > 1 else np.zeros(len(values))


def _names(curves: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(_name(curve) for curve in curves))


def _name(curve: dict[str, Any]) -> str:
    """The label without its feedback; the trust model first, which has a colour of its own in all figures."""
    label = str(curve["label"])
    name = label.partition(", ")[2] if label.startswith(("full, ", "bandit, ")) else label
    for trust in ("central", "local"):
        name = name.replace(f"{trust} ε", f"{trust}, ε")
    return f"no privacy{name.removeprefix('none')}" if name.startswith("none") else name


def _canvas(rows: int, columns: int) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 5.2 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _references(ax: Axes, curve: dict[str, Any]) -> None:
    for name in ("uniform", "myopic"):
        color, dash, _ = REFERENCE_STYLES[name]
        y = np.array(curve[name])
        ax.plot(
            curve["episodes"], np.where(y > 0.0, y, np.nan), color=color, linestyle=dash, linewidth=1.0,
            label=f"{name} policy",
        )  # fmt: skip


def _finish(ax: Axes, title: str, x: Sequence[float]) -> None:
    ax.set_xscale("log")
    ax.set_xlim(min(x) / 1.2, max(x) * 1.2)
    shown = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.lines])
    if (shown > 0.0).any():  # regret can be negative, and a short run's cost of privacy too
        ax.set_yscale("log", nonpositive="mask")
        ax.set_ylim(float(shown[shown > 0.0].min()) / 2.0, float(np.nanmax(shown)) * 2.0)
    ax.set_title(title, loc="left", fontsize=10)
    ax.legend(
        fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(-0.12, -0.14), ncols=2, columnspacing=0.8,
        handlelength=3.0,
    )  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter("")
    ax.tick_params(colors=GREY, labelsize=8)


def _save(figure: Figure, path: Path, title: str, seeds: int, words: str) -> Figure:
    return save_titled(figure, path, title, f"mean of {seeds} seeds, against the best policy in hindsight; {words}")
