"""Sensitive: users in the arms of a comparison, each as one step with one bit about their return.

    X = clip((G − low)/(high − low), 0, 1)        G the return, [low, high] public and declared beforehand
    bit = 1 with probability X                    so the bits of an arm have the mean of X, and are binomial

A user's trajectory becomes that of a world with one state and one action for every arm, which lasts one step: what is
known to the privatizers of counts and returns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tacit.arrays import Floats
from tacit.data.trajectories import Trajectories
from tacit.errors import require, require_real


def require_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    """The declared bounds of a return, the lower one first."""
    must = "the bounds of a return must be two numbers, the lower one first"
    require(len(bounds) == 2, must, bounds)
    low, high = (require_real("a bound of returns", bound) for bound in bounds)
    require(low < high, must, tuple(bounds))
    require(math.isfinite(high - low), "the range of a return must be a finite number", tuple(bounds))
    return low, high


def returns_of(users: Trajectories) -> Floats:
    """[users]: sums of rewards, each clipped to [0, 1]; NaN earns nothing."""
    clean = np.nan_to_num(users.rewards, nan=0.0, posinf=1.0, neginf=0.0)
    return np.asarray(np.clip(clean, 0.0, 1.0).sum(axis=1))


def shares_of(users: Trajectories, bounds: Sequence[float]) -> Floats:
    """[users]: returns as shares of the declared range, clipped to it.

    >>> one = Trajectories(np.zeros((2, 3), int), np.zeros((2, 2), int), np.array([[0.5, 0.5], [1.0, 7.0]]))
    >>> shares_of(one, (0.0, 4.0)).tolist(), shares_of(one, (1.0, 1.5)).tolist()
    ([0.25, 0.5], [0.0, 1.0])
    """
    low, high = require_bounds(bounds)
    return np.asarray(np.clip((returns_of(users) - low) / (high - low), 0.0, 1.0))


def as_one_step(shares: Sequence[Floats], rng: np.random.Generator) -> Trajectories:
    """Users of the arms, one arm after the other: state 0, the arm as action, and the rounded return as reward.

    >>> drawn = as_one_step([np.array([0.0, 1.0]), np.array([1.0])], np.random.default_rng(0))
    >>> drawn.actions[:, 0].tolist(), drawn.rewards[:, 0].tolist()
    ([0, 0, 1], [0.0, 1.0, 1.0])
    """
    all_shares = np.concatenate([np.asarray(part, dtype=np.float64) for part in shares])
    arms = np.repeat(np.arange(len(shares)), [len(part) for part in shares])
    bits = (rng.random(len(all_shares)) < all_shares).astype(np.float64)
    states = np.zeros((len(bits), 2), dtype=np.int64)
    return Trajectories(states, arms.astype(np.int64)[:, np.newaxis], bits[:, np.newaxis])
