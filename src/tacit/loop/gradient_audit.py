"""The audit's hook: two neighbouring batches of users in, final policies out, and a distinguisher that looks at them.

An audit repeats a training run on two data sets that differ in one user and asks how well anybody could tell the two
apart from the final parameters alone. For one release the best test is known: project θ on the line between the two
noise-free outcomes (Neyman-Pearson for Gaussian noise). Simulation only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import no_privacy
from tacit.data.trajectories import Trajectories
from tacit.errors import require, require_count
from tacit.learners.gradient import GradientLearner
from tacit.policies.softmax import softmax_table
from tacit.privatizers.gradient import GradientPrivatizer
from tacit.randomness import SimulationNoise

__all__ = ["Distinguisher", "final_parameters", "matched_distinguisher"]

Floats = NDArray[np.float64]
Distinguisher = Callable[[Floats], float]
"""Final parameters -> a score: the larger, the more it looks like the first data set."""


def final_parameters(
    learner: GradientLearner, privatizer: GradientPrivatizer, users: Trajectories, *, runs: int, seed: int
) -> Floats:
    """θ after one batch of these very users, [runs, d]: only the noise differs between runs."""
    noise = SimulationNoise(np.random.default_rng(seed))
    features, found = learner.parameters.features, []
    for _ in range(require_count("runs", runs)):
        belief = learner.plan(learner.begin(), noise.generator)
        state, behaviour = privatizer.begin(features), belief.table.copy()
        for _ in range(privatizer.epochs):
            softmax_table(features, belief.theta, belief.table)
            state, released = privatizer.release(
                state, users, noise, features=features, table=belief.table, behaviour=behaviour,
                baseline=float(belief.baseline[0]),
            )  # fmt: skip
            belief = learner.update(belief, released.statistics)
        found.append(belief.theta)
    return np.array(found)


def matched_distinguisher(
    learner: GradientLearner, privatizer: GradientPrivatizer, one: Trajectories, other: Trajectories
) -> Distinguisher:
    """The projection on the line between the two noise-free outcomes, zero half-way."""
    silent = replace(privatizer, claim=no_privacy(), calibration="none", sigma=0.0, says=None)
    first, second = (final_parameters(learner, silent, users, runs=1, seed=0)[0] for users in (one, other))
    require(bool((first != second).any()), "the two data sets must differ in what they teach", "no difference")
    direction = (first - second) / np.linalg.norm(first - second)
    middle = float(direction @ (first + second)) / 2.0
    return lambda theta: float(direction @ theta) - middle
