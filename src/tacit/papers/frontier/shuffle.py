"""The experiment `frontier/shuffle`: what the shuffle model costs, as published and as little as it can, at one claim.

    SDP-PE printed     the explicit algorithm with the printed noise (where its A^(HS) policies can be listed)
    SDP-PE tight       the same with the least noise for the claim
    SDP-PE+            polynomial time, the learner to use
    SDP-BUCB           optimism on the same batches

Epsilon 0.1, 1 and 10 at delta 1e-6; K from 2·10⁴ to 2·10⁶; 20 seeds; the practical rule with z = 1 for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import FigureSpec
from tacit.runs.result import Result

__all__ = ["ENVIRONMENTS", "FIGURES", "SUMMARY", "runs", "summary_table"]

SUMMARY: Final = "shuffle model: SDP-PE printed and tight, SDP-PE+ and SDP-BUCB, three epsilons, up to 2·10⁶ users"
DELTA: Final = 1e-6
ENVIRONMENTS: Final = {
    "riverswim": True,
    "riverswim:states=5,horizon=8": False,
    "riverswim:states=6,horizon=12": False,
    "random-mdp:states=4,actions=2,horizon=6": True,
    "treatment": False,
}
"""Each environment, and whether all its policies can be listed."""
EPISODES: Final = {"smoke": (4_000,), "paper": (20_000, 200_000, 2_000_000)}
EPSILONS: Final = {"smoke": (1.0,), "paper": (0.1, 1.0, 10.0)}
SEEDS: Final = {"smoke": 2, "paper": 20}
EXPLICIT: Final[dict[str, dict[str, Any]]] = {
    "SDP-PE printed": {"learner": "sdp-pe", "calibration": "paper"},
    "SDP-PE tight": {"learner": "sdp-pe"},
}
IMPLICIT: Final[dict[str, dict[str, Any]]] = {
    "SDP-PE plus": {"learner": "sdp-pe-plus"},
    "SDP-BUCB": {"learner": "sdp-bucb"},
}


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every environment, epsilon, length and learner; the smoke scale has two environments and one of the rest."""
    chosen = list(ENVIRONMENTS) if scale == "paper" else ["riverswim", "treatment"]
    found: list[Run] = []
    for environment in chosen:
        for episodes in EPISODES[scale]:
            for epsilon in EPSILONS[scale]:
                learners = {**(EXPLICIT if ENVIRONMENTS[environment] else {}), **IMPLICIT}
                for label, options in learners.items():
                    config = RunConfig(
                        environment=environment,
                        episodes=episodes,
                        seeds=as_seeds(SEEDS[scale]),
                        constants="practical",
                        trust="shuffle",
                        epsilon=epsilon,
                        delta=DELTA,
                        checkpoints=20,
                        **options,
                    )
                    found.append(Run(label=f"{label}, ε={epsilon:g}, K={episodes:,}", config=config))
    return tuple(found)


def summary_table(results: Sequence[Result]) -> str:
    """Regret as a share of the uniform policy's, with the 95% bootstrap interval of its mean over the seeds."""
    lines = ["| environment | run | certified epsilon | of uniform | 95% interval |", "|---|---|---|---|---|"]
    for result in results:
        share = result.regret[:, -1] / (result.uniform_regret * result.config.episodes)
        drawn = np.random.default_rng(0).integers(len(share), size=(2000, len(share)))
        low, high = np.quantile(share[drawn].mean(axis=1), [0.025, 0.975])
        lines.append(
            f"| {result.config.environment_name} | {result.label} | {result.certificate.epsilon:.4g} "
            f"| {share.mean():.3f} | {low:.3f} to {high:.3f} |"
        )
    return "\n".join(lines)


def _of(epsilon: float) -> Callable[[Result], bool]:
    """The runs at this epsilon; a smoke run has one epsilon and shows it in every figure."""
    return lambda result: result.config.epsilon == epsilon or result.config.episodes in EPISODES["smoke"]


def _panel(result: Result) -> str:
    return f"{result.config.environment_name}, K = {result.config.episodes:,}"


FIGURES: Final = tuple(
    FigureSpec(
        name=f"regret-epsilon-{epsilon:g}",
        band="bootstrap",
        select=_of(epsilon),
        panel=_panel,
    )
    for epsilon in EPSILONS["paper"]
)
