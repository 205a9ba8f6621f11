"""Appendix I of [garcelon2021local] as an experiment: what Eq. 113 promises for M_sh, and what I.2 says about regret.

With one bit per reward (m = 1) M_sh flips 6H - 2 bits of a replaced trajectory, each at ε₀/(6H - 2) for a local level
ε₀: it is randomized response (Alg. 5) with a shuffler that protects nobody (`reshuffled`). So its regret is that of
LDP-OBI with randomized response at ε₀, which runs here beside Laplace noise at the same ε₀; I.2 says that shuffling
does not help at a fixed local level, and bounds regret by H²S²A√(KH) / (e^(ε₀/H) - 1).

Beside the figure stand, for every k: the central level that Eq. 113 prints, whether its condition on p holds, the level
that the transcript really has (the local one), and how many reports of a simulated transcript `link` recovers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from papers.garcelon2021local.experiments import ENVIRONMENT
from papers.garcelon2021local.reshuffled import ReshuffledReports, link, resend
from papers.panels import slope_guide
from tacit.data.trajectories import Trajectories
from tacit.environments.registry import make
from tacit.errors import require_count, require_real
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReshuffledFigure", "amplified", "linked_share", "regret_bound", "runs"]

LEVELS: Final = (2.0, 20.0)
DELTA: Final = 1e-6
HORIZON: Final = 2
POWERS: Final = range(2, 10)
MECHANISMS: Final = {"M_sh (m = 1)": "rr", "Laplace": "laplace"}
SIZES: Final = {"smoke": (20_000, 2), "paper": (10_000_000, 20)}
USERS: Final = 60
"""Of the transcript that is attacked."""


def amplified(episode: int, horizon: int, bit_epsilon: float, delta: float) -> float | None:
    """ε_{k,c} of Eq. 113 as printed, or None where its condition p ≥ 14 ln(4/δ₀)/((k-1)H) does not hold.

    >>> amplified(100, 2, 0.2, 1e-6) is None
    True
    >>> round(amplified(10**8, 2, 0.2, 1e-6), 5)
    0.00363
    """
    n = (require_count("episode", episode, least=2) - 1) * require_count("horizon", horizon)
    p = 2.0 / (math.exp(require_real("epsilon of one bit", bit_epsilon, low=0.0, open_low=True)) + 1.0)
    if p < 14.0 * math.log(4.0 / delta) / n:
        return None
    left = p - math.sqrt(2.0 * p * math.log(2.0 / delta) / n)
    return 32.0 * math.log(4.0 / delta) / math.sqrt(n) / math.sqrt(left) * (1.0 - left)


def regret_bound(states: int, actions: int, horizon: int, episodes: int, epsilon: float) -> float:
    """H²S²A√(KH) / (e^(ε₀/H) - 1), the bound of I.2 without its constants and logarithms."""
    return horizon**2 * states**2 * actions * math.sqrt(episodes * horizon) / math.expm1(epsilon / horizon)


def linked_share(bit_epsilon: float, *, users: int = USERS, seed: int = 0) -> float:
    """The share of reports of a simulated transcript that two consecutive outputs of the shuffler give away."""
    mdp, generator = make(ENVIRONMENT), np.random.default_rng(seed)
    shape = CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=True)
    states = generator.integers(mdp.num_states, size=(users, mdp.horizon + 1))
    actions = generator.integers(mdp.num_actions, size=(users, mdp.horizon))
    rewards = generator.integers(2, size=(users, mdp.horizon)).astype(np.float64)
    randomizer = ReshuffledReports(shape=shape, epsilon=bit_epsilon, reward_bits=1)
    reports = randomizer.report(Trajectories(states, actions, rewards), SimulationNoise(generator))
    shown = [resend(reports[:k], generator) for k in range(users + 1)]
    return float(np.mean([link(shown[k], shown[k + 1]) == reports[k] for k in range(users)]))


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """LDP-OBI with M_sh and with Laplace noise at the same local level, under the practical rule."""
    episodes, seeds = SIZES[scale]
    return tuple(
        Run(
            label=f"{name}, ε₀={level:g}",
            config=RunConfig(
                environment=ENVIRONMENT,
                learner="ldp-obi:time_homogeneous=true,replan=geometric",
                episodes=episodes,
                seeds=as_seeds(seeds),
                constants="practical",
                trust="local",
                epsilon=level,
                delta=0.0,
                calibration="paper",
                mechanism=mechanism,
                checkpoints=40,
            ),
        )
        for level in LEVELS
        for name, mechanism in MECHANISMS.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshuffledFigure:
    """Eq. 113 against the level that holds (left), and the regret of I.2 (right)."""

    name: str = "reshuffled"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Draw, and write the numbers as JSON beside the figure."""
        from matplotlib.figure import Figure

        promised = {level: _promised(level) for level in LEVELS}
        said = [
            {
                "run": r.label,
                "episodes": r.config.episodes,
                "regret": float(r.regret[:, -1].mean()),
                "of_uniform": float(r.regret[:, -1].mean() / (r.uniform_regret * r.config.episodes)),
                "printed_bound": regret_bound(r.resolved.states, r.resolved.actions, r.resolved.horizon,
                                              r.config.episodes, r.config.epsilon or math.nan),
            }
            for r in results
        ]  # fmt: skip
        levels = [{"local_level": level, "eq113": rows, "linked": linked_share(_bit(level))} for level, rows in
                  promised.items()]  # fmt: skip
        write_json(path.with_suffix(".json"), {"version": results[0].version, "levels": levels, "regret": said})
        figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        names = [f"ε₀ = {level:g}" for level in LEVELS]
        for level, name in zip(LEVELS, names, strict=True):
            color, dash, marker = style_of(name, names)
            rows = [row for row in promised[level] if row["printed"] is not None]
            left.plot([row["k"] for row in rows], [row["printed"] for row in rows], color=color, linestyle=dash,
                      marker=marker, markersize=4, label=f"Eq. 113, {name}")  # fmt: skip
            left.axhline(level, color=color, linewidth=1.0, linestyle=(0, (1, 1.5)), label=f"what holds, {name}")
        labels = [r.label for r in results]
        for r in results:
            color, dash, marker = style_of(r.label, labels)
            low, high = r.regret.min(axis=0), r.regret.max(axis=0)
            right.fill_between(r.episodes, low, high, color=color, alpha=0.16, linewidth=0)
            right.plot(r.episodes, r.regret.mean(axis=0), color=color, linestyle=dash, marker=marker, markersize=3,
                       markevery=5, label=r.label)  # fmt: skip
        left.set_ylabel("central epsilon", color=GREY)
        right.set_ylabel("cumulative regret", color=GREY)
        for ax, words in ((left, "what shuffling is said to give"), (right, "regret at a fixed local level (I.2)")):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_title(words, loc="left", fontsize=10)
            ax.set_xlabel("episode", color=GREY)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False, fontsize=8)
        right.set_ylim(bottom=min(float(r.regret.mean(axis=0).min()) for r in results) / 2.0)
        slope_guide(right, per_episode=False)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        caption = f"mean of {len(results[0].seeds)} seeds; band: least to greatest; regret is simulation-only"
        figure.supxlabel(caption, fontsize=8, color=GREY, x=0.01, ha="left")
        save_figure(figure, path)
        return figure


def _bit(level: float) -> float:
    """ε of one bit for this local level, m = 1."""
    return level / (6 * HORIZON - 2)


def _promised(level: float) -> list[dict[str, Any]]:
    return [{"k": 10**j, "printed": amplified(10**j, HORIZON, _bit(level), DELTA), "holds": level} for j in POWERS]
