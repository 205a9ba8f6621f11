"""The experiment `he2025policy/neural`: a neural policy in private; Assumption 2 of [he2025policy] speaks of such.

    world      CartPole-v1 in 900 bins of place, speed, angle and its speed; 25 decisions of four steps: a return of 100
    people     10,000 in batches of 250: forty updates; ε = 0.2, 1, 5 at δ = 1e-5, and without privacy
    learners   a network with 16 hidden units (114 weights): plain steps (DP-PG) and trust-region steps (DP-TRPO);
               the table of the same world (1,802 parameters) with plain steps
    measured   the return during the run, and of the final policy with 500 fresh episodes; 20 seeds

Steps and radii are those of the practical rule, clip 1, baselines released. Grid, people and batch were chosen after a
look at seed 0 with 20,000 people; the seeds 100 to 119 were used for nothing before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from papers.panels import PanelFigure
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig
from tacit.runs.result import Result

__all__ = ["FIGURES", "LEARNERS", "WORLD", "final_returns", "runs"]

WORLD: Final = "gymnasium:CartPole-v1,grid=fine,evaluation=500"
LEARNERS: Final = {
    "network, DP-PG": "dp-pg:policy=neural",
    "network, DP-TRPO": "dp-trpo:policy=neural",
    "table, DP-PG": "dp-pg:time_homogeneous=true",
}
EPSILONS: Final = (0.2, 1.0, 5.0)
DELTA: Final = 1e-5
SIZES: Final = {"smoke": (1_000, (100, 101)), "paper": (10_000, tuple(range(100, 120)))}
"""People and seeds."""
UPDATES: Final = 40


def runs(scale: str) -> tuple[Run, ...]:
    """Three learners at three epsilons, and the networks without privacy."""
    episodes, seeds = SIZES[scale]
    found = []
    for epsilon in (*EPSILONS, None):
        for label, learner in LEARNERS.items():
            if epsilon is None and label.startswith("table"):
                continue  # without noise a table keeps its first baseline, and would be no fair reference
            claim: dict[str, Any] = {} if epsilon is None else {"trust": "central", "epsilon": epsilon, "delta": DELTA}
            config = RunConfig(
                environment=WORLD,
                learner=learner,
                episodes=episodes,
                seeds=seeds,
                batch=episodes // UPDATES,
                checkpoints=40,
                **claim,
            )
            shown = "no privacy" if epsilon is None else f"ε={epsilon:g}"
            found.append(Run(label=f"{label}, {shown}", config=config))
    return tuple(found)


def final_returns(results: Sequence[Result]) -> dict[str, tuple[float, float]]:
    """The mean and the standard deviation over seeds of the return of the final policy, by label."""
    found = {}
    for result in results:
        values = np.array([measured.final.mean for measured in result.returns])
        found[result.label] = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return found


FIGURES: Final = (
    PanelFigure(
        name="returns",
        band="std",
        log="none",
        title="CartPole in private: a network and a table",
        panels=lambda result: ("no privacy" if result.config.epsilon is None else f"ε = {result.config.epsilon:g}",),
        line=lambda result: result.label.rpartition(", ")[0],
        columns=4,
    ),
)
