"""The audit's hook: two neighbouring batches of users in, final policies out, and a distinguisher that looks at them.

An audit repeats a training run on two data sets that differ in one user and asks how well anybody could tell the two
apart from the final parameters alone. For one release the best test is known: project θ on the line between the two
noise-free outcomes (Neyman-Pearson for Gaussian noise). Simulation only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import no_privacy
from tacit.data.trajectories import Trajectories
from tacit.errors import require, require_count
from tacit.learners.gradient import SoftmaxLearner
from tacit.loop.round import interpret
from tacit.privatizers.gradient import SoftmaxGradients
from tacit.protocol import Measures, Plan
from tacit.randomness import Streams

__all__ = ["Distinguisher", "final_parameters", "matched_distinguisher"]

Floats = NDArray[np.float64]
Distinguisher = Callable[[Floats], float]
"""Final parameters -> a score: the larger, the more it looks like the first data set."""


def final_parameters(
    learner: SoftmaxLearner, privatizer: SoftmaxGradients, users: Trajectories, *, runs: int, seed: int
) -> Floats:
    """θ after one batch of these very users, [runs, d]: only the noise differs between runs."""
    coins = np.random.default_rng(seed)
    streams = Streams(world=coins, learner=coins, noise=coins)
    found = []
    for _ in range(require_count("runs", runs)):
        ended = interpret(learner, privatizer, _Fixed(users), _Nobody(), len(users), streams, lambda done: None)
        found.append(ended.belief.theta)
    return np.array(found)


class _Fixed:
    """The same users whatever the policy."""

    act, buffers, chunk = None, None, 0

    def __init__(self, users: Trajectories) -> None:
        self._users = users

    def arrays(self, done: int, users: int) -> None:
        """Nothing is drawn."""

    def draw(self, plan: Plan[Any], users: int, coins: np.random.Generator) -> Trajectories:
        """The given users."""
        return self._users


class _Nobody:
    """Nobody keeps a score."""

    truth = tally = curves = None
    count = record = staticmethod(lambda *given: None)

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: Trajectories, done: int, number: int) -> None:
        """Nothing is counted."""

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """No score."""
        return Measures(np.zeros(0), 0, {})


def matched_distinguisher(
    learner: SoftmaxLearner, privatizer: SoftmaxGradients, one: Trajectories, other: Trajectories
) -> Distinguisher:
    """The projection on the line between the two noise-free outcomes, zero half-way."""
    silent = replace(privatizer, claim=no_privacy(), calibration="none", sigma=0.0, says=None)
    first, second = (final_parameters(learner, silent, users, runs=1, seed=0)[0] for users in (one, other))
    require(bool((first != second).any()), "the two data sets must differ in what they teach", "no difference")
    direction = (first - second) / np.linalg.norm(first - second)
    middle = float(direction @ (first + second)) / 2.0
    return lambda theta: float(direction @ theta) - middle
