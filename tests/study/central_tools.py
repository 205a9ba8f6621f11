"""What the tests of central channels share: claims, people, and a comparison of noise with its stated variance."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
SMALL = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
FALSE_ALARM = 1e-6


def central_claim(reports: int = 1, epsilon: float = 1.0, delta: float = 1e-6) -> PrivacyClaim:
    """A person with so many reports, at most one per stage."""
    return PrivacyClaim(
        trust="central",
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=reports, per_stage=1),
        neighbours="replace-one",
        output="other-users-actions",
    )


def simulated(seed: int) -> SimulationNoise:
    """Seeded noise."""
    return SimulationNoise(np.random.default_rng(seed))


def people(shape: Any, count: int, seed: int, *, binary: bool = False) -> Trajectories:
    """Random trajectories, rewards in [0, 1]."""
    rng = np.random.default_rng(seed)
    rewards = rng.random((count, shape.horizon))
    return Trajectories(
        states=rng.integers(0, shape.num_states, (count, shape.horizon + 1)),
        actions=rng.integers(0, shape.num_actions, (count, shape.horizon)),
        rewards=np.rint(rewards) if binary else rewards,
    )


def one(users: Trajectories, i: int) -> Trajectory:
    """One person of them."""
    return Trajectory(users.states[i], users.actions[i], users.rewards[i])


def bodies_of(channel: Any, users: Trajectories, noise: Any) -> list[bytes]:
    """What their devices send."""
    return [channel.encode(one(users, i), noise) for i in range(len(users))]


def require_law(errors: np.ndarray, covariance: np.ndarray, alarm: float = FALSE_ALARM) -> None:
    """Errors [n, d] have mean zero and this covariance, but for the false-alarm rate (normal approximations).

    Union bound over d means and d(d+1)/2 entries of the covariance; the entry (i, j) of n products has the standard
    error √((v_ii v_jj + v_ij²)/n) for Gaussian errors.
    """
    n, d = errors.shape
    z = -NormalDist().inv_cdf(alarm / 2.0 / (d + d * (d + 1) / 2))
    variance = np.diag(covariance)
    assert (np.abs(errors.mean(axis=0)) <= z * np.sqrt(variance / n)).all()
    found = errors.T @ errors / n
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    # Products are skewed: a sum of n of them has tails that a normal one reaches at z (1 + z/√n).
    assert (np.abs(found - covariance) <= z * (1.0 + z / math.sqrt(n)) * error).all()
