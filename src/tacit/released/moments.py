"""Moments of features and rewards: what a learner with features may ask of one batch, and what it is told.

A person is a row x of d features with ‖x‖ ≤ 1, an action a and a reward r in [0, 1]. A batch releases, for every slot,

    G = Σ x xᵀ + noise,    v = Σ x (r − 1/2) + noise

over the people of that slot: those who took the action a, or everyone where one parameter is shared by all actions
(x is then the row of the chosen action). Noise in the entries above the diagonal of G and in v is independent. An entry
beside the diagonal carries half of the variance of one on it: the law does not depend on the basis of the features.

Under local trust G is not released: its variance is infinite. Where a public lot decided who takes which action
(`MomentQuery.lots`), a message says in the clear which slot it is about, and carries less noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count

MAX_FEATURES: Final = 200
"""A Gram matrix of more features has more than 20,000 noisy entries, which no batch of people can pay for."""
GRID: Final = 1024
"""Rows are whole multiples of one part in so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentShape:
    """The public sizes of moments.

    >>> MomentShape(features=10, actions=4, shared=False).slots, MomentShape(features=10, actions=4, shared=True).slots
    (4, 1)
    """

    features: int
    """d: the numbers of a row, the intercept included."""
    actions: int
    """A"""
    shared: bool
    """Whether all actions share one parameter; otherwise each has its own."""
    staged: ClassVar[bool] = True
    """There is one step."""
    grid: int = GRID
    """N: devices send rows in whole multiples of 1/N, rounded towards zero."""

    def __post_init__(self) -> None:
        hint = "choose fewer features; categories count once per value"
        d = require_count("features", self.features)
        require(d <= MAX_FEATURES, f"features must be at most {MAX_FEATURES} numbers", d, hint)
        require_count("actions", self.actions)
        require(isinstance(self.shared, bool), "shared must be true or false", self.shared)
        N = require_count("grid", self.grid, 2, GRID)
        require(N & (N - 1) == 0, f"grid must be a power of two of at most {GRID}", N)

    @property
    def slots(self) -> int:
        """M: the blocks of a release, one for every action or one for all."""
        return 1 if self.shared else self.actions

    @property
    def triangle(self) -> int:
        """Entries of G on and above the diagonal: d (d + 1)/2."""
        return self.features * (self.features + 1) // 2

    @property
    def numbers(self) -> int:
        """What a release has in all: M (d (d + 1)/2 + d)."""
        return self.slots * (self.triangle + self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentQuery:
    """The query for the moments of one batch: all of them, of the people of that batch alone."""

    lots: bool
    """Whether a public lot, and not the policy, decides who takes which action: then actions tell nothing."""

    def __post_init__(self) -> None:
        require(isinstance(self.lots, bool), "lots must be true or false", self.lots)

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "moments of features and rewards"


class MomentStatistics(NamedTuple):
    """The moments of one batch."""

    gram: Floats
    """[M,d,d]: Σ x xᵀ of every slot, symmetric; with noise, not positive definite. Zeros where it is not released."""
    rewards: Floats
    """[M,d]: Σ x (r − 1/2)."""
    gram_variance: Floats
    """[M]: of the noise in an entry on the diagonal of G; those beside it have half of that. Infinite: no G."""
    reward_variance: Floats
    """[M]: of the noise in an entry of v."""
    users: Ints
    """[1]: how many people reported."""
    slot_users: Ints
    """[M]: how many of them are known to be in a slot, because a public lot put them there; -1: not known."""


class MomentNoise(Protocol):
    """The public calibration of batches: how much noise a batch of this size would carry."""

    def moment_std(self, users: int, query: MomentQuery) -> tuple[float, float]:
        """The deviation of the noise on the diagonal of G, and in an entry of v.

        (0, 0) without privacy. Under local trust G is not released, and its deviation is infinite. With lots, as many
        people are in every slot.
        """
        ...


def empty_moments(shape: MomentShape) -> MomentStatistics:
    """Moments before there are people.

    >>> empty_moments(MomentShape(features=3, actions=2, shared=False)).gram.shape
    (2, 3, 3)
    """
    d, M = shape.features, shape.slots
    zero, counts = np.zeros(M), (np.zeros(1, dtype=np.int64), np.full(M, -1))
    return MomentStatistics(np.zeros((M, d, d)), np.zeros((M, d)), zero, zero.copy(), *counts)
