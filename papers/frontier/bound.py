"""A lower bound of joint differential privacy, and central learners on the instances that prove it.

Vietri et al. 2020 prove a bound of the form Ω(√(XAH³K) + XAH/ε), with no constants. Here is a proof with constants, on
the hard trees of `papers.garcelon2021local.bound`: M = LA pairs (leaf, action), of which one hidden pair i leads to +
with probability 1/2 + Δ and all others with 1/2. In episode k one pair a_k is played, and

    (1/M) Σ_i regret_i = (H - d) Δ Σ_k (1/M) Σ_i P_i(a_k ≠ i),        P_0: no pair is hidden.

Instance i is instance 0 with some outcomes − of pair i turned to +: D of them in the first k - 1 episodes, on average
over i at most Δ(k - 1)/M. Each is one replaced trajectory. Three bounds on q_k = (1/M) Σ_i P_i(a_k ≠ i) follow:

    no privacy   q_k ≥ 1 - 1/M - √(-¼ ln(1 - 4Δ²) (k - 1)/M)                                          (Pinsker, Jensen)
    (ε, 0)       q_k ≥ exp(-ε' (k - 1)/(2M)) - 1/M,   ε' = -ln(1 - 2Δ (1 - e^{-ε}))
    (ε, δ)       q_k ≥ e^{-mε} (1 - 1/M - Δ(k - 1)/(M(m + 1)) - δ (e^{mε} - 1)/(e^ε - 1))    for every m = 0, 1, ...

(ε, 0): the density of a_1..a_k given what the pairs played before returned falls by at most e^{-ε} for each replaced
trajectory, whoever chose which to replace. A minus of pair i is replaced with probability 2Δ, so each costs on average
1 - 2Δ(1 - e^{-ε}) = e^{-ε'}; there are at most (k - 1)/(2M) of them on average over i; Jensen; Σ_i P_0(a_k = i) = 1.
(ε, δ): stop after m replacements, group privacy, and Markov for D > m. m = 0 holds without privacy.

What is private here is the sequence of all policies, also against users chosen as it goes on. Every central learner of
tacit gives that (policies are computed from releases); joint privacy by itself hides a user's own policy from the rest,
and is weaker. Not here: the further √H, which needs a tree that one can wait in, and a start state drawn in public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from papers.garcelon2021local.bound import ACTIONS, DEPTH, HORIZON, PAIRS, STATES
from tacit.arrays import Floats
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DELTA", "EPSILONS", "LINES", "SUMMARY", "BoundFigure", "averages", "gaps", "least_regret", "rate", "runs"]

SUMMARY: Final = (
    "central learners on hard trees, averaged over the hidden pairs, against a lower bound of joint privacy"
)
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA: Final = 1e-6
LINES: Final = {
    "ucbvi, no privacy": ("ucbvi", None),
    "bucb, δ = 1e-6": ("bucb", DELTA),
    "pucb, pure": ("pucb", 0.0),
}
"""Label -> learner and delta; pure privacy has Laplace noise, and `bucb` has none of it."""
SIZES: Final = {"smoke": (2_000, 1), "paper": (20_000, 2)}
"""Episodes, and how many seeds each of the nine pairs has."""


def gaps(episodes: int) -> dict[str, float]:
    """Δ of both panels: 1/2, where privacy costs, and (2/3) √(M/K), where the bound without privacy is greatest.

    >>> {panel: round(gap, 5) for panel, gap in gaps(20_000).items()}
    {'Δ = 1/2': 0.5, 'Δ = (2/3)√(M/K)': 0.01414}
    """
    return {"Δ = 1/2": 0.5, "Δ = (2/3)√(M/K)": min(0.5, 2.0 / 3.0 * math.sqrt(len(PAIRS) / episodes))}


def least_regret(episodes: int, gap: float, epsilon: float = math.inf, delta: float = 0.0) -> float:
    """The greatest of the three bounds in every episode, summed: regret averaged over the hidden pairs.

    >>> [round(least_regret(20_000, 0.5, epsilon), 1) for epsilon in (0.1, 1.0, math.inf)]
    [176.5, 18.5, 11.3]
    """
    M, before = len(PAIRS), np.arange(episodes, dtype=np.float64)  # before: k - 1
    wrong = np.zeros(episodes)
    if gap < 0.5:
        # 1 - 1/M - √(-¼ ln(1 - 4Δ²) (k - 1)/M)
        wrong += 1 - 1 / M - np.sqrt(-0.25 * math.log1p(-4 * gap**2) * before / M)
    # e^{-mε} (1 - 1/M - Δ(k - 1)/(M(m + 1)) - δ (e^{mε} - 1)/(e^ε - 1))
    m = 0
    while m == 0 or m * epsilon < 5.0:
        lost = delta * math.expm1(m * epsilon) / math.expm1(epsilon) if m else 0.0
        weight = math.exp(-m * epsilon) if m else 1.0
        some = slice(int(M * (m + 1) / gap) + 1)  # beyond, it is below zero
        wrong[some] = np.maximum(wrong[some], weight * (1 - 1 / M - gap * before[some] / (M * (m + 1)) - lost))
        m += 1
    if delta == 0.0 and math.isfinite(epsilon):
        each = -math.log1p(-2 * gap * -math.expm1(-epsilon))  # ε'
        wrong = np.maximum(wrong, np.exp(-each * before / (2 * M)) - 1 / M)
    return (HORIZON - DEPTH) * gap * float(np.maximum(wrong, 0.0).sum())


def rate(episodes: int, epsilon: float) -> float:
    """√(XAH³K) + XAH/ε with no constant.

    >>> round(rate(20_000, 0.1))
    7608
    """
    return math.sqrt(STATES * ACTIONS * HORIZON**3 * episodes) + STATES * ACTIONS * HORIZON / epsilon


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every learner on every hidden pair at every epsilon; pairs have seeds of their own."""
    episodes, seeds = SIZES[scale]
    found = []
    for panel, gap in gaps(episodes).items():
        tree = f"hard-tree:states={STATES},actions={ACTIONS},horizon={HORIZON},gap={gap:.6g}"
        for line, (learner, delta) in LINES.items():
            for epsilon in (None,) if delta is None else EPSILONS:
                options: dict[str, Any] = {} if epsilon is None else {"trust": "central", "delta": delta}
                for i, (leaf, action) in enumerate(PAIRS):
                    config = RunConfig(
                        environment=f"{tree},good_leaf={leaf},good_action={action}",
                        learner=learner,
                        episodes=episodes,
                        seeds=tuple(range(i * seeds, (i + 1) * seeds)),
                        constants="practical",
                        epsilon=epsilon,
                        checkpoints=10,
                        **options,
                    )
                    words = "" if epsilon is None else f", ε={epsilon:g}"
                    found.append(Run(label=f"{line}, {panel}{words}", config=config))
    return tuple(found)


def averages(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Final regret averaged over the hidden pairs, its standard error (seeds within pairs), and what it is held to."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    found = []
    for label, mine in groups.items():
        config = mine[0].config
        line, panel = label.split(", Δ")[0], "Δ" + label.split(", Δ")[1].partition(", ε")[0]
        finals: Floats = np.array([result.regret[:, -1] for result in mine])  # [pair, seed]
        pairs, seeds = finals.shape
        # The pairs are all there are: only seeds within a pair are drawn.
        error = math.sqrt(finals.var(axis=1, ddof=1).sum() / seeds) / pairs if seeds > 1 else math.nan
        epsilon = math.inf if config.epsilon is None else config.epsilon
        found.append(
            {
                "line": line,
                "panel": panel,
                "epsilon": config.epsilon,
                "delta": config.delta if config.epsilon is not None else None,
                "episodes": config.episodes,
                "pairs": pairs,
                "runs": finals.size,
                "regret": float(finals.mean()),
                "standard_error": error,
                "bound": least_regret(config.episodes, gaps(config.episodes)[panel], epsilon, config.delta or 0.0),
                "uniform": mine[0].uniform_regret * config.episodes,
            }
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFigure:
    """Regret averaged over the hidden pairs against epsilon, with the bound of each line."""

    name: str = "lower-bound"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One panel for each Δ (bars: two standard errors); writes the averages beside the figure."""
        from matplotlib.figure import Figure

        points = averages(results)
        write_json(path.with_suffix(".json"), {"version": results[0].version, "title": title, "averages": points})
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = figure.subplots(1, 2)
        for ax, panel in zip(axes, dict.fromkeys(point["panel"] for point in points), strict=True):
            for line in LINES:
                color, _, marker = style_of(line, list(LINES))
                mine = [point for point in points if (point["line"], point["panel"]) == (line, panel)]
                x = [point["epsilon"] for point in mine] if mine[0]["epsilon"] else list(EPSILONS)
                y, error, least = (
                    np.broadcast_to([point[key] for point in mine], len(x))
                    for key in ("regret", "standard_error", "bound")
                )
                ax.errorbar(x, y, yerr=2 * error, color=color, marker=marker, markersize=5, capsize=2, label=line)
                ax.plot(x, least, color=color, linestyle=(0, (4, 2)), linewidth=1.0, label=f"bound: {line}")
            ax.axhline(mine[0]["uniform"], color=GREY,
                       linestyle=(0, (1, 1.5)), linewidth=1.0, label="uniform policy")  # fmt: skip
            ax.set_xscale("log")
            ax.set_yscale("log" if panel.endswith("1/2") else "linear")
            ax.set_title(panel, loc="left", fontsize=10)
            ax.set_xlabel("ε", color=GREY)
            ax.grid(color="#e4e4e4", linewidth=0.6)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(colors=GREY, labelsize=8)
        axes[0].set_ylabel("regret, mean over the hidden pairs", color=GREY)
        axes[1].legend(frameon=False, fontsize=7)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        words = f"every one of {len(PAIRS)} hidden pairs alike; bars: two standard errors; regret is simulation-only"
        figure.supxlabel(words, fontsize=8, color=GREY, x=0.01, ha="left")
        save_figure(figure, path)
        return figure
