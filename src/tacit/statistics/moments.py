"""Moments of features and rewards: Σ x xᵀ and Σ x (r − 1/2) of every slot, in whole numbers.

A row x becomes whole numbers X = N x, rounded towards zero, so ‖X‖ ≤ N; a reward r a level k of 0..L by stochastic
rounding, T = 2k − L. A person adds to its slot, in units of 1/(256 N²) (Lemma S12 (moments)):

    181 X_i²                     x_i²/√2, but for 1 part in 10,000
    256 X_i X_j for i < j        x_i x_j
    (256 N/L) T X_i              2 x_i (r − 1/2)

With `gram` false only the last d numbers are added: what people under local trust send. Where a public lot decides who
takes which action (`lots`), people of one lot are then a stratum, and a message is about that slot alone.

G1  Nothing raises on what a person did: NaN and infinite entries are 0, longer rows are shortened to 1, actions and
    rewards are clipped. The length of a row is bounded in whole numbers.
G2  Where lots are strata, a person who took another action than that of the lot counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from tacit.accounting.claims import Trust
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import FeatureUsers
from tacit.errors import InvalidInput, require
from tacit.noise.exact import bernoulli_each
from tacit.protocol import Noise
from tacit.randomness import SimulationNoise
from tacit.released.moments import MomentQuery, MomentShape, MomentStatistics, empty_moments
from tacit.statistics.vectors import Change, VectorStatistic, in_chunks

LEVELS: Final = 16
"""L: rewards are multiples of 1/16; rounding adds a variance of at most 1/1024."""
DIAGONAL: Final = 181
BESIDE: Final = 256
"""181² < 2 · 128²."""
LABEL: Final = np.dtype("<i2")
COVER: Final = -1
"""A body of nothing else is a cover report: no slot has this number."""


class Rows(NamedTuple):
    """What people sent, in the public ranges: sensitive, but for the lots."""

    x: Ints
    """[n,d]: X, of length at most N."""
    slots: Ints
    """[n]"""
    levels: Ints
    """[n]: rewards in 0..L."""
    lots: Ints
    """[n]: the public lot; -1: none."""

    def __repr__(self) -> str:
        return f"Rows({len(self.slots)} people)"  # never what they did


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentVector(VectorStatistic):
    """What one person adds to the moments of a batch.

    >>> shape = MomentShape(features=10, actions=4, shared=False)
    >>> statistic = MomentVector.of(shape, "central", MomentQuery(lots=False))
    >>> statistic.size, statistic.width, statistic.length / statistic.scale
    (260, 65, 2.0)
    """

    shape: MomentShape
    gram: bool
    """Whether x xᵀ is added, too."""
    lots: bool
    """Whether a public lot decides who takes which action."""

    NAME: ClassVar[str] = "moments"
    ASKS: ClassVar[type[MomentQuery]] = MomentQuery
    SHAPE: ClassVar[type[MomentShape]] = MomentShape

    def __post_init__(self) -> None:
        require(isinstance(self.shape, MomentShape), "moments need a MomentShape", type(self.shape).__name__)
        for name in ("gram", "lots"):
            require(isinstance(getattr(self, name), bool), f"{name} must be true or false", "another")

    @classmethod
    def of(cls, shape: MomentShape, trust: Trust, query: MomentQuery) -> Self:
        """All moments; under local trust those of rewards."""
        return cls(shape=shape, gram=trust != "local", lots=query.lots)

    @property
    def query(self) -> MomentQuery:
        """What is asked."""
        return MomentQuery(lots=self.lots)

    @property
    def strata(self) -> int:  # type: ignore[override]
        """Under local trust one for every lot; a shared parameter has no use for lots."""
        return self.shape.slots if self.lots and not self.gram else 1

    @property
    def width(self) -> int:
        """The numbers of one slot."""
        return self.shape.features + (self.shape.triangle if self.gram else 0)

    @property
    def size(self) -> int:
        """Those of all slots; of one where the slot is the stratum."""
        return self.width * (self.shape.slots // self.strata)

    @property
    def scale(self) -> int:
        """256 N²."""
        return BESIDE * self.shape.grid**2

    @property
    def length(self) -> int:
        """Lemma S12 (moments)."""
        return 2 * self.scale

    @property
    def longest(self) -> int:
        """Lemma S12 (moments), rounded up."""
        return isqrt(self.length**2 * 3 // 8) + 1 if self.gram else self.scale

    def changes(self) -> tuple[Change, ...]:
        """Within a slot, or from one slot to another (Lemma S12 (moments))."""
        same = Change(Fraction(1), self.width)
        if self.size == self.width:
            return (same,)
        return (same, Change(Fraction(3, 4) if self.gram else Fraction(1, 2), 2 * self.width))

    def bounds(self) -> tuple[Ints, Ints]:
        """Squares are not negative; |x_i x_j| is at most 1/2."""
        N2 = self.shape.grid**2
        rewards = np.full(self.shape.features, BESIDE * N2)
        if not self.gram:
            return -rewards, rewards
        rows, columns = _triangle(self.shape.features)
        high = np.where(rows == columns, DIAGONAL * N2, BESIDE // 2 * N2)
        return np.concatenate([np.where(rows == columns, 0, -high), -rewards]), np.concatenate([high, rewards])

    @property
    def body_size(self) -> int:
        """Row, slot, level and lot, 16 bits each."""
        return LABEL.itemsize * (self.shape.features + 3)

    def pack(self, person: FeatureUsers | None, noise: Noise) -> bytes:
        """The body of one person (G1)."""
        if person is None:
            return np.full(self.shape.features + 3, COVER, dtype=LABEL).tobytes()
        require(person.users == 1, "a body is of one person", person.users)
        return np.concatenate([np.ravel(part) for part in self.people(person, noise)]).astype(LABEL).tobytes()

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        require(len(body) == self.body_size, f"a body must have {self.body_size} bytes", len(body))
        labels = np.frombuffer(body, dtype=LABEL)
        if (labels == COVER).all():
            return
        same = np.concatenate([np.ravel(part) for part in self.unpack([body])])
        if not np.array_equal(same, labels.astype(np.int64)):
            raise InvalidInput("the numbers of a body must lie in the public ranges; encode with the release's own")

    def unpack(self, bodies: Sequence[bytes]) -> Rows:
        """What these people sent; what slipped past `check` is clipped."""
        d = self.shape.features
        labels = np.frombuffer(b"".join(bodies), dtype=LABEL).reshape(len(bodies), d + 3).astype(np.int64)
        labels = labels[~(labels == COVER).all(axis=1)]
        return Rows(
            bounded(labels[:, :d], self.shape.grid),
            np.clip(labels[:, d], 0, self.shape.slots - 1),
            np.clip(labels[:, d + 1], 0, LEVELS),
            np.clip(labels[:, d + 2], -1, self.shape.slots - 1),
        )

    def people(self, users: FeatureUsers, noise: Noise) -> Rows:
        """Rows in whole numbers, rewards rounded by a coin."""
        n, last = users.users, self.shape.slots - 1
        fits = users.x.shape == (n, self.shape.features) and users.rewards.shape == users.lots.shape == (n,)
        require(fits, f"users must have rows of {self.shape.features} features", users.x.shape)
        slots = np.zeros(n, dtype=np.int64) if self.shape.shared else np.clip(users.actions, 0, last).astype(np.int64)
        lots = np.clip(np.zeros(n, dtype=np.int64) if self.shape.shared else users.lots, -1, last).astype(np.int64)
        x = whole_rows(users.x, self.shape.grid)
        if self.strata > 1:
            x[slots != lots] = 0  # (G2)
        r = np.asarray(users.rewards, dtype=np.float64)
        level = np.where(r > 0.0, np.minimum(r, 1.0), 0.0) * LEVELS  # NaN is not above zero
        whole = np.floor(level)
        rest = level - whole
        up = noise.generator.random(n) < rest if isinstance(noise, SimulationNoise) else bernoulli_each(rest, noise)
        return Rows(x, slots, np.asarray(whole + up, dtype=np.int64), lots)

    def stratum(self, people: Rows) -> Ints:
        """The lot of each person, where lots are strata."""
        return people.lots if self.strata > 1 else np.zeros(len(people.slots), dtype=np.int64)

    def entries(self, people: Rows) -> tuple[Ints, Ints]:
        """Row by row: the triangle, then the rewards."""
        rewards = people.x * ((2 * people.levels - LEVELS) * (BESIDE * self.shape.grid // LEVELS))[:, None]
        amounts = rewards
        if self.gram:
            rows, columns = _triangle(self.shape.features)
            weight = np.where(rows == columns, DIAGONAL, BESIDE)
            amounts = np.concatenate([people.x[:, rows] * people.x[:, columns] * weight, rewards], axis=1)
        first = np.zeros(len(people.slots), dtype=np.int64) if self.strata > 1 else people.slots * self.width
        return first[:, None] + np.arange(self.width), amounts

    def sums(self, people: Rows) -> Ints:
        """The same sums by products of matrices, which are exact: whole numbers below 2^53."""
        if self.strata > 1:
            return VectorStatistic.sums(self, people)
        d, found = self.shape.features, np.zeros((self.shape.slots, self.width), dtype=np.int64)
        rows, columns = _triangle(d)
        weight = np.where(rows == columns, DIAGONAL, BESIDE)
        for part in in_chunks(people):
            for slot in range(self.shape.slots):
                chosen = part.slots == slot
                x = part.x[chosen].astype(np.float64)
                rewards = (2 * part.levels[chosen] - LEVELS).astype(np.float64) @ x
                found[slot, -d:] += rewards.astype(np.int64) * (BESIDE * self.shape.grid // LEVELS)
                if self.gram:
                    found[slot, :-d] += (x.T @ x)[rows, columns].astype(np.int64) * weight
        return found.ravel()

    def empty(self) -> MomentStatistics:
        """Nothing is known."""
        return empty_moments(self.shape)

    def read(self, sums: Floats, variance: Floats, users: Ints) -> MomentStatistics:
        """G and v of every slot; `variance` is that of the noise in one sum of a stratum."""
        d, M = self.shape.features, self.shape.slots
        blocks = sums.reshape(M, self.width)
        each = np.broadcast_to(variance, M) if self.strata == 1 else variance
        gram, of_gram = np.zeros((M, d, d)), np.full(M, np.inf)
        if self.gram:
            rows, columns = _triangle(d)
            scaled = blocks[:, :-d] * np.where(rows == columns, BESIDE / DIAGONAL, 1.0)
            gram[:, rows, columns] = gram[:, columns, rows] = scaled
            of_gram = each * (BESIDE / DIAGONAL) ** 2
        known = users if self.strata > 1 or M == 1 else np.full(M, -1)
        return MomentStatistics(gram, blocks[:, -d:] / 2.0, of_gram, each / 4.0, users.sum(keepdims=True), known)


def whole_rows(x: Floats, grid: int) -> Ints:
    """Rows in whole multiples of 1/grid, towards zero; longer rows than 1 are shortened, NaN and infinities are 0 (G1).

    >>> whole_rows(np.array([[0.3, -0.3], [3.0, 4.0], [np.nan, 0.5]]), 1024).tolist()
    [[307, -307], [614, 819], [0, 512]]
    """
    finite = np.where(np.isfinite(x), x, 0.0)
    square = np.zeros(len(finite))
    with np.errstate(over="ignore"):
        for column in finite.T:  # one after the other: the same in every language
            square += column * column
    # Rounding errors are far below 1/grid², so the whole squared length is at most grid².
    return np.trunc(finite / np.maximum(np.sqrt(square), 1.0)[:, None] * grid).astype(np.int64)


def bounded(x: Ints, grid: int) -> Ints:
    """Whole rows of length at most `grid`; longer ones, which no device sends, are zero."""
    inside = np.abs(x).max(axis=1, initial=0) <= grid
    inside &= (np.where(inside[:, None], x, 0) ** 2).sum(axis=1) <= grid**2
    return np.where(inside[:, None], x, 0)


@lru_cache(maxsize=64)
def _triangle(d: int) -> tuple[Ints, Ints]:
    """Rows and columns of the entries on and above the diagonal, row by row."""
    rows, columns = np.triu_indices(d)
    return rows.astype(np.int64), columns.astype(np.int64)
