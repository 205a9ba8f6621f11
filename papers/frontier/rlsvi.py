"""RLSVI (arXiv 2606.01952, read as its abstract): exploration noise as privacy noise, and what it costs.

    python -m papers.frontier.rlsvi     what is certified for exploration noise alone

RLSVI adds N(0, β²) to every observed target, so a released sum over n visits carries N(0, β² n). Replacing one person
changes the sums of H rows that they leave and of H rows that they enter, at step h by at most H - h + 1. If every row
had at least n visits in each of B cumulative releases with fresh noise, the accountant would certify the Gaussian

    μ² = B · 2 Σ_{m=1..H} m² / (β² n).

Nothing enforces n: a row that only this person visited has n = 1. So noise with a floor is needed, and that is what the
learner `rlsvi` has: the floor is the noise of the central release, and exploration noise is added where that is less.

The experiment compares it with `bucb`, which has the same releases and certificate, at equal (epsilon, delta).
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final, Literal

from papers.panels import PanelFigure
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import GaussianEvent
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["EPSILONS", "FIGURES", "LEARNERS", "SUMMARY", "WORLDS", "certified", "claimed", "runs"]

SUMMARY: Final = "rlsvi, whose exploration counts the privacy noise, against bucb at the same releases and certificate"
DELTA: Final = 1e-6
EPSILONS: Final = (0.3, 1.0, 3.0, 10.0)
WORLDS: Final = ("riverswim", "random-mdp:states=5,actions=3,horizon=5")
LEARNERS: Final = ("bucb", "rlsvi", "rlsvi:explore=full", "rlsvi:explore=released")
SIZES: Final = {"smoke": (2_000, 2), "paper": (20_000, 20)}


def certified(horizon: int, least: int, releases: int = 1, *, beta: float | None = None, delta: float = DELTA) -> float:
    """Epsilon of exploration noise alone, if every row has at least so many visits; β = H/2 unless given.

    >>> round(certified(6, 1)), round(certified(6, 400), 2)
    (31, 0.95)
    """
    squares = 2.0 * sum(m * m for m in range(1, horizon + 1))
    mu = math.sqrt(releases * squares / least) / (horizon / 2.0 if beta is None else beta)
    return epsilon_of(((GaussianEvent(sigma=1.0, shift=mu), 1),), delta)


def claimed(states: int, actions: int, horizon: int, episodes: int, delta: float = DELTA) -> float:
    """The epsilon of the abstract: x + 2 √(x ln(1/δ)) with x = 2AK / (H² ln(2HSA)).

    >>> round(claimed(4, 2, 6, 20_000))
    651
    """
    x = 2.0 * actions * episodes / (horizon**2 * math.log(2.0 * horizon * states * actions))
    return x + 2.0 * math.sqrt(x * math.log(1.0 / delta))


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every learner at every epsilon on both worlds."""
    episodes, seeds = SIZES[scale]
    common: dict[str, Any] = {
        "episodes": episodes,
        "seeds": as_seeds(seeds),
        "constants": "practical",
        "checkpoints": 40,
    }
    return tuple(
        Run(
            label=f"{learner}, ε={epsilon:g}",
            config=RunConfig(
                environment=world, learner=learner, trust="central", epsilon=epsilon, delta=DELTA, **common
            ),
        )
        for world in WORLDS
        for epsilon in EPSILONS
        for learner in LEARNERS
    )


FIGURES: Final = (
    PanelFigure(
        name="rlsvi",
        panels=lambda result: (f"{result.config.world_name}, ε = {result.config.epsilon:g}",),
        line=lambda result: result.label.partition(", ")[0],
        columns=4,
        band="bootstrap",
        log="none",
    ),
)


if __name__ == "__main__":
    for visits in (1, 10, 100, 1_000, 10_000):
        one, many = certified(6, visits), certified(6, visits, 20)
        sys.stdout.write(
            f"H = 6, every row visited {visits} times: epsilon {one:.3g} once, {many:.3g} with 20 releases\n"
        )
    sys.stdout.write(f"claimed at S = 4, A = 2, H = 6, K = 20,000: epsilon {claimed(4, 2, 6, 20_000):.3g}\n")
