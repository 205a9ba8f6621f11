"""The privatizers of policy gradients, attacked through the released gradient.

One user of a batch is replaced: of all pairs of contexts, actions and extreme rewards, under a policy that sits on one
action almost surely (where scores are longest) and under a uniform one, the pair whose noise-free gradients are
farthest apart. What is released is projected on the line between the two (Neyman-Pearson for Gaussian noise).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import no_privacy
from tacit.audit.attack import Finding, Target, attack
from tacit.audit.privatizers import View
from tacit.data.trajectories import Trajectories
from tacit.errors import require
from tacit.policies.softmax import softmax_table, tabular_features
from tacit.privatizers.gradient import GradientPrivatizer
from tacit.randomness import SimulationNoise

__all__ = ["audit_gradient", "gradient_view"]

Floats = NDArray[np.float64]


def audit_gradient(
    privatizer: GradientPrivatizer, *, trials: int = 50_000, false_alarm: float = 0.01, seed: int = 0, name: str
) -> Finding:
    """Attack the gradients that one batch releases (all epochs of it)."""
    view = gradient_view(privatizer)
    target = Target(
        kind="privatizer",
        name=f"{privatizer.name}, {name}",
        trust=privatizer.claim.trust,
        calibration=privatizer.calibration,
        view=view.seen,
        claimed=privatizer.claim.epsilon,
        delta=privatizer.claim.delta,
        events=privatizer.events(),
    )
    return attack(target, *view.scores(trials, seed), false_alarm=false_alarm)


def gradient_view(privatizer: GradientPrivatizer) -> View:
    """All gradients that are released of one batch, with its first user replaced."""
    shape = privatizer.shape
    require(shape.horizon == 1 and shape.num_states > 1, "the attack knows bandits with two contexts", shape)
    features = tabular_features()
    silent = replace(privatizer, claim=no_privacy(), calibration="none", sigma=0.0, says=None, rate=1.0)
    found: list[Any] = []
    for table in _tables(shape.num_states, shape.num_actions, shape.dimension):
        alone = [(u, _released(silent, u, table, features, _noise(0))) for u in _candidates(privatizer)]
        for (users, was), (others, became) in combinations(alone, 2):
            found.append((float(np.linalg.norm(became - was)), len(found), table, (users, others), was, became))
    _, _, table, worlds, was, became = max(found)
    # With sampling, a user who takes part counts 1/rate times as much.
    direction, middle = (became - was) / privatizer.rate, (became + was) / 2.0 / privatizer.rate

    def record(users: Any, trials: int, noise: SimulationNoise) -> Floats:
        out = np.empty((trials, privatizer.epochs, shape.dimension))
        for row in out:
            row[:] = _released(privatizer, users, table, features, noise)
        return out

    def score(records: Floats) -> Floats:
        return np.asarray(np.einsum("nkd,kd->n", records - middle, direction) / max(privatizer.sigma, 1e-300) ** 2)

    return View(
        seen="the released gradients",
        worlds=worlds,
        record=record,
        score=score,
        width=privatizer.epochs * shape.dimension,
    )


def _noise(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def _tables(states: int, actions: int, dimension: int) -> list[Floats]:
    """A policy that is almost sure of the first action, and a uniform one."""
    tables = []
    for certainty in (40.0, 0.0):
        table, theta = np.zeros((1, states, actions)), np.zeros(dimension)
        theta.reshape(1, states, actions)[..., 0] = certainty
        softmax_table(tabular_features(), theta, table)
        tables.append(table)
    return tables


def _candidates(privatizer: GradientPrivatizer) -> list[Trajectories]:
    """Batches whose first user may be anybody; the others earn nothing, or as little as they can."""
    m, bounds = privatizer.users_per_batch, privatizer.bounds
    found = []
    for state, action, reward in product((0, 1), (0, 1), (bounds.low, bounds.high)):
        states, actions = np.zeros((m, 2), dtype=np.int64), np.zeros((m, 1), dtype=np.int64)
        states[0], actions[0] = state, action
        rewards = np.full((m, 1), max(bounds.low, 0.0))
        rewards[0] = reward
        found.append(Trajectories(states, actions, rewards))
    return found


def _released(
    privatizer: GradientPrivatizer, users: Trajectories, table: Floats, features: Any, noise: SimulationNoise
) -> Floats:
    state, found = privatizer.begin(features), []
    for _ in range(privatizer.epochs):
        state, released = privatizer.release(state, users, noise, features=features, table=table)
        found.append(released.statistics.gradient)
    return np.array(found)
