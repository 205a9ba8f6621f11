"""The lower bound of local privacy ([garcelon2021local] Theorem 2), and every local learner on its hard instances.

    regret ≥ (H - d) √(LAK) / (64 min{e^ε - 1, ½})                                                           (Eq. 28)

for trees with L leaves and the hidden advantage Δ = √(LA/K) / (16√2 min{e^ε - 1, ½}) of the proof. Δ shrinks with K, so
each point of the figure is an instance of its own. The figure shows regret against H √(SAK) / min{e^ε - 1, 1}: whoever
attained the bound's rate would follow a line of slope one; nobody may fall below the line of Eq. 28. At the proof's Δ
nothing can be learned, which is the point of it; a second panel has Δ = ¼, where learners part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import STYLES, save_figure
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LEARNERS", "BoundFigure", "hard_gap", "least_regret", "rate", "runs"]

STATES: Final = 6
ACTIONS: Final = 3
HORIZON: Final = 5
"""A root with three leaves: d = 2, L = 3, and H ≥ 2 log_A(S - 2) + 2."""
DEPTH: Final = 2
LEAVES: Final = 3
PROOF, WIDE = "Δ of the proof", "Δ = 1/4"
LEARNERS: Final = {
    "LDP-OBI, theory": ("ldp-obi:staged=false", "theory"),
    "LDP-OBI, practical": ("ldp-obi:staged=false", "practical"),
    "LDP-PSRL, printed prior": ("ldp-psrl:staged=false,rewards=beta", None),
    "LDP-PSRL, noise-aware": ("ldp-psrl:staged=false,rewards=beta,prior=noise-aware", None),
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
    """Every learner on the hard instance of every (K, ε)."""
    sizes, seeds = {"smoke": ((3_000, 30_000), 3), "paper": ((10_000, 100_000, 1_000_000), 20)}[scale]
    found = []
    for episodes in sizes:
        for epsilon in (0.2, 1.0, 2.0):
            for panel, gap in ((PROOF, hard_gap(episodes, epsilon)), (WIDE, 0.25)):
                environment = f"hard-tree:states={STATES},actions={ACTIONS},horizon={HORIZON},gap={gap:.6g}"
                for label, (learner, constants) in LEARNERS.items():
                    config = RunConfig(
                        environment=environment,
                        learner=learner,
                        episodes=episodes,
                        seeds=as_seeds(seeds),
                        constants=constants,  # type: ignore[arg-type]
                        trust="local",
                        epsilon=epsilon,
                        delta=0.0,
                        checkpoints=20,
                    )
                    found.append(Run(label=f"{label}, {panel}, ε={epsilon:g}, K={episodes}", config=config))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFigure:
    """Final regret of every run against the rate of Theorem 2, with the line of Eq. 28."""

    name: str = "lower-bound"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One point per run (mean, least to greatest), one marker per learner."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.0, 8.0), layout="constrained")
        for ax, panel in zip(figure.subplots(2, 1), (PROOF, WIDE), strict=True):
            shown = [result for result in results if f", {panel}, " in result.label]
            for (label, (learner, constants)), (color, _, marker) in zip(LEARNERS.items(), STYLES, strict=False):
                mine = [r for r in shown if r.config.learner == learner and r.config.constants == constants]
                x = np.array([rate(r.config.episodes, r.config.epsilon or 1.0) for r in mine])
                final = np.array([r.regret[:, -1] for r in mine])
                y = final.mean(axis=1)
                ax.errorbar(
                    x, y, yerr=[y - final.min(axis=1), final.max(axis=1) - y], color=color, marker=marker,
                    linestyle="", markersize=5, capsize=2, elinewidth=0.8, label=label,
                )  # fmt: skip
            where = sorted({(r.config.episodes, r.config.epsilon or 1.0) for r in shown}, key=lambda at: rate(*at))
            ax.plot(
                [rate(*at) for at in where], [least_regret(*at) for at in where], color="#6b6b6b", marker="_",
                linestyle=(0, (1, 1.5)), label="lower bound (Eq. 28)",
            )  # fmt: skip
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_ylabel("regret (simulation only)")
            ax.set_title(panel, loc="left", fontsize=10)
            ax.grid(color="#e4e4e4", linewidth=0.6)
        ax.set_xlabel("H √(SAK) / min{e^ε - 1, 1}")
        ax.legend(frameon=False, fontsize=8)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        save_figure(figure, path)
        return figure
