"""The lower bound of local privacy ([garcelon2021local] Theorem 2), and every local learner on its hard instances.

    (1/LA) Σ_{leaf, action} regret(leaf, action) ≥ (H - d) √(LAK) / (64 min{e^ε - 1, ½})                     (Eq. 28)

for trees with L leaves and the hidden advantage Δ = √(LA/K) / (16√2 min{e^ε - 1, ½}) of the proof. The proof bounds the
average over all hidden pairs, so every pair is an instance here, equally often, and what is compared with the bound is
that average. Δ shrinks with K, so each point of the figure has instances of its own. The figure shows regret against
H √(SAK) / min{e^ε - 1, 1}: whoever attained the bound's rate would follow a line of slope one; no average may fall
below the line of Eq. 28. At the proof's Δ nothing can be learned, which is the point of it; a second panel has Δ = ¼,
where learners part.

At K = 10⁶ learners replan when the number of users has grown by half a percent: the bound holds for any learner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LEARNERS", "PAIRS", "BoundFigure", "averages", "hard_gap", "least_regret", "rate", "runs"]

STATES: Final = 6
ACTIONS: Final = 3
HORIZON: Final = 5
"""A root with three leaves: d = 2, L = 3, and H ≥ 2 log_A(S - 2) + 2."""
DEPTH: Final = 2
LEAVES: Final = 3
PAIRS: Final = tuple((leaf, action) for leaf in range(LEAVES) for action in range(ACTIONS))
"""Every hidden pair."""
PROOF, WIDE = "Δ of the proof", "Δ = 1/4"
CASES: Final = ((PROOF, 0.2), (PROOF, 2.0), (WIDE, 2.0))
"""Panels and epsilons; from ε = ln(3/2) on the proof's instances and its bound are the same."""
SIZES: Final = {"smoke": {3_000: 1}, "paper": {10_000: 4, 100_000: 2, 1_000_000: 2}}
"""Episodes, and how many seeds each pair has."""
LEARNERS: Final = {
    "LDP-OBI, theory": ("ldp-obi:time_homogeneous=true", "theory"),
    "LDP-OBI, practical": ("ldp-obi:time_homogeneous=true", "practical"),
    "LDP-PSRL, printed prior": ("ldp-psrl:time_homogeneous=true,rewards=beta", None),
    "LDP-PSRL, noise-aware": ("ldp-psrl:time_homogeneous=true,rewards=beta,prior=noise-aware", None),
}
"""Every local learner; all take the quietest local mechanism at the same epsilon."""


def hard_gap(episodes: int, epsilon: float) -> float:
    """Δ of the proof, at most ½.

    >>> round(hard_gap(10**6, 2.0), 6)
    0.000265
    """
    # Δ = √(LA/K) / (16√2 min{e^ε - 1, ½})
    gap = math.sqrt(LEAVES * ACTIONS / episodes) / (16.0 * math.sqrt(2.0) * min(math.expm1(epsilon), 0.5))
    return min(0.5, gap)


def least_regret(episodes: int, epsilon: float) -> float:
    """Eq. 28."""
    return (HORIZON - DEPTH) * math.sqrt(LEAVES * ACTIONS * episodes) / (64.0 * min(math.expm1(epsilon), 0.5))


def rate(episodes: int, epsilon: float) -> float:
    """H √(SAK) / min{e^ε - 1, 1}, the abscissa of the figure."""
    return HORIZON * math.sqrt(STATES * ACTIONS * episodes) / min(math.expm1(epsilon), 1.0)


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every learner on every hidden pair of every (K, ε); pairs have seeds of their own."""
    found = []
    for episodes, seeds in SIZES[scale].items():
        rarely = ",replan=geometric" if episodes >= 10**6 else ""
        for panel, epsilon in CASES:
            gap = hard_gap(episodes, epsilon) if panel == PROOF else 0.25
            tree = f"hard-tree:states={STATES},actions={ACTIONS},horizon={HORIZON},gap={gap:.6g}"
            for label, (learner, constants) in LEARNERS.items():
                for i, (leaf, action) in enumerate(PAIRS):
                    config = RunConfig(
                        environment=f"{tree},good_leaf={leaf},good_action={action}",
                        learner=f"{learner}{rarely}",
                        episodes=episodes,
                        seeds=tuple(range(i * seeds, (i + 1) * seeds)),
                        constants=constants,  # type: ignore[arg-type]
                        trust="local",
                        epsilon=epsilon,
                        delta=0.0,
                        checkpoints=10,
                    )
                    found.append(Run(label=f"{label}, {panel}, ε={epsilon:g}, K={episodes}", config=config))
    return tuple(found)


def averages(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Final regret averaged over the hidden pairs (every pair alike), its standard error, and what it is held to."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    found = []
    for label, mine in groups.items():
        config = mine[0].config
        K, epsilon = config.episodes, config.epsilon or math.nan
        pairs = np.array([result.regret[:, -1].mean() for result in mine])
        every = np.concatenate([result.regret[:, -1] for result in mine])
        panel = PROOF if PROOF in label else WIDE
        found.append(
            {
                "learner": label.partition(f", {panel}")[0],
                "panel": panel,
                "epsilon": epsilon,
                "episodes": K,
                "pairs": len(mine),
                "runs": len(every),
                "regret": float(pairs.mean()),
                "standard_error": float(every.std(ddof=1) / math.sqrt(len(every))) if len(every) > 1 else 0.0,
                "least_pair": float(pairs.min()),
                "greatest_pair": float(pairs.max()),
                "bound": least_regret(K, epsilon),
                "uniform": mine[0].uniform_regret * K,
            }
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFigure:
    """Regret averaged over the hidden pairs against the rate of Theorem 2, with the line of Eq. 28."""

    name: str = "lower-bound"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One point per learner, K and ε (bars: least to greatest pair); writes the averages beside the figure."""
        from matplotlib.figure import Figure

        points = averages(results)
        write_json(path.with_suffix(".json"), {"version": results[0].version, "title": title, "averages": points})
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = figure.subplots(1, 2)
        for ax, panel in zip(axes, (PROOF, WIDE), strict=True):
            shown = sorted((p for p in points if p["panel"] == panel), key=_rate_of)
            for label in LEARNERS:
                color, _, marker = style_of(label, list(LEARNERS))
                mine = [p for p in shown if p["learner"] == label]
                y = np.array([p["regret"] for p in mine])
                low, high = (np.array([p[key] for p in mine]) for key in ("least_pair", "greatest_pair"))
                ax.errorbar(
                    [_rate_of(p) for p in mine], y, yerr=[y - low, high - y], color=color, marker=marker, linestyle="",
                    markersize=5, capsize=2, elinewidth=0.8, label=label,
                )  # fmt: skip
            style: dict[str, Any] = {"color": GREY, "linewidth": 1.0}
            for i, epsilon in enumerate(sorted({p["epsilon"] for p in shown})):
                line = [p for p in shown if p["epsilon"] == epsilon]
                x, words = [_rate_of(p) for p in line], ("", "_")[i > 0]  # an underscore keeps it out of the legend
                uniform, least = ([p[key] for p in line] for key in ("uniform", "bound"))
                ax.plot(x, uniform, linestyle=(0, (1, 1.5)), label=f"{words}uniform policy (a line per ε)", **style)
                if panel == PROOF:
                    ax.plot(x, least, linestyle="-", label=f"{words}lower bound, Eq. 28 (a line per ε)", **style)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.xaxis.set_minor_formatter("")
            ax.set_title(panel if panel == PROOF else f"{panel} (no bound applies)", loc="left", fontsize=10)
            ax.set_xlabel("H √(SAK) / min{e^ε - 1, 1}", color=GREY)
            ax.grid(color="#e4e4e4", linewidth=0.6)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(colors=GREY, labelsize=8)
        axes[0].set_ylabel("regret, mean over the hidden pairs", color=GREY)
        axes[0].legend(frameon=False, fontsize=8)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        words = f"every one of {len(PAIRS)} hidden pairs alike; bars: least to greatest pair; regret is simulation-only"
        figure.supxlabel(words, fontsize=8, color=GREY, x=0.01, ha="left")
        save_figure(figure, path)
        return figure


def _rate_of(point: dict[str, Any]) -> float:
    return rate(point["episodes"], point["epsilon"])
