"""Weighted returns in whole numbers: what one person adds to the off-policy values of several policies.

    u    the mean weight over the declared cap, in [0, 1];   s   the weighted mean reward minus 1/2, in [-1/2, 1/2]
    c    the share of weights that were cut at the cap, in [0, 1]
    f (u s, 0.6 u, 0.5 u², 0.3 u² s, 0.4 u² s², 0.1 c)       for each policy, f its share

U, C in 0..N and S = 2 N s in -N..N are whole numbers; the factors are whole parts of 256, rounded down, so vectors are
no longer and no farther apart than those of Lemma S11 (weighted returns), but for what is cut to whole numbers.

G1  Replacing a person moves the sums by at most √(1.11 Σ f²) and 512 √(2P) units of 1/scale, P policies: Lemma S11
    (weighted returns).
G2  Nothing raises on data: what is not in its range is cut, and NaN is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from tacit.accounting.claims import Trust
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import WeightedUsers
from tacit.errors import InvalidInput, require
from tacit.protocol import Noise
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.released.weighted_returns import (
    NUMBERS,
    WHOLE,
    WeightQuery,
    WeightShape,
    WeightStatistics,
    empty_weights,
)
from tacit.statistics.vectors import Change, VectorStatistic

GRID: Final = 1024
"""N"""
FACTORS: Final = (1.0, 0.6, 0.5, 0.3, 0.4, 0.1)
LABEL: Final = np.dtype("<i2")
COVER: Final = -2000
"""A body of nothing else is a cover report: no level is so small."""


class Levels(NamedTuple):
    """What people sent, in the public ranges: sensitive."""

    u: Ints
    """[n, policies]: 0..N."""
    s: Ints
    """[n, policies]: -N..N."""
    c: Ints
    """[n, policies]: 0..N."""

    def __repr__(self) -> str:
        return f"Levels({len(self.u)} people)"  # never what they did


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedReturns(VectorStatistic):
    """What one person adds to the values of policies.

    >>> statistic = WeightedReturns.of(WeightShape(shares=(256, 76)), "central", WeightQuery())
    >>> statistic.size, 1.09 < statistic.length / statistic.scale < 1.12
    (12, True)
    """

    shape: WeightShape

    NAME: ClassVar[str] = "weighted returns"
    ASKS: ClassVar[type[WeightQuery]] = WeightQuery
    SHAPE: ClassVar[type[WeightShape]] = WeightShape

    def __post_init__(self) -> None:
        require(isinstance(self.shape, WeightShape), "weighted returns need a WeightShape", type(self.shape).__name__)

    @classmethod
    def of(cls, shape: WeightShape, trust: Trust, query: WeightQuery) -> Self:
        """The same under every trust model."""
        del trust, query
        return cls(shape=shape)

    @property
    def query(self) -> WeightQuery:
        """What is asked."""
        return WeightQuery()

    @property
    def size(self) -> int:
        """Six numbers of every policy."""
        return NUMBERS * self.shape.policies

    @property
    def width(self) -> int:
        """A person adds to all of them."""
        return self.size

    @property
    def scale(self) -> int:
        """256 · 2N²."""
        return WHOLE * 2 * GRID * GRID

    @property
    def factors(self) -> Ints:
        """[policies, 6]: whole parts of 256, rounded down."""
        return np.array([[math.floor(share * factor) for factor in FACTORS] for share in self.shape.shares])

    @property
    def _shares(self) -> float:
        return math.sqrt(sum((share / WHOLE) ** 2 for share in self.shape.shares))

    @property
    def length(self) -> int:
        """Lemma S11 (weighted returns); of each policy two entries are cut, by less than 1 times a factor below 256."""
        cut = 2 * WHOLE * (math.isqrt(2 * self.shape.policies) + 1)
        return math.ceil(math.sqrt(1.11) * self._shares * self.scale * (1.0 + 1e-9)) + cut

    @property
    def longest(self) -> int:
        """Where u = c = 1 and s = 1/2 the squares of (1/2, .6, .5, .15, .1, .1) add up to .9025; cutting shortens."""
        return math.ceil(math.sqrt(0.9025) * self._shares * self.scale * (1.0 + 1e-9))

    def changes(self) -> tuple[Change, ...]:
        """All numbers may change."""
        return (Change(Fraction(1), self.size),)

    def bounds(self) -> tuple[Ints, Ints]:
        """Of u s and the others, where u = c = 1 and s = ±1/2."""
        one = np.array([1, 2, 2, 1, 1, 2]) * GRID * GRID  # u² s² ≤ 1/4, rounded up
        low = np.where([True, False, False, True, False, False], -one, 0)
        return (self.factors * low).ravel(), (self.factors * one).ravel()

    @property
    def body_size(self) -> int:
        """Three numbers of 16 bits for every policy."""
        return 3 * self.shape.policies * LABEL.itemsize

    def pack(self, person: WeightedUsers | None, noise: Noise) -> bytes:
        """The body of one person (G2)."""
        if person is None:
            return np.full(3 * self.shape.policies, COVER, dtype=LABEL).tobytes()
        require(person.users == 1, "a body is of one person", person.users)
        return np.concatenate([np.ravel(part) for part in self.people(person, noise)]).astype(LABEL).tobytes()

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        require(len(body) == self.body_size, f"a body must have {self.body_size} bytes", len(body))
        labels = np.frombuffer(body, dtype=LABEL).astype(np.int64)
        if (labels == COVER).all():
            return
        if not np.array_equal(np.concatenate([np.ravel(part) for part in self.unpack([body])]), labels):
            raise InvalidInput("the numbers of a body must lie in the public ranges; encode with the release's own")

    def unpack(self, bodies: Sequence[bytes]) -> Levels:
        """What these people sent; what slipped past `check` is cut."""
        labels = np.frombuffer(b"".join(bodies), dtype=LABEL).reshape(len(bodies), 3, self.shape.policies)
        u, s, c = np.moveaxis(labels[~(labels == COVER).all(axis=(1, 2))].astype(np.int64), 1, 0)
        return Levels(np.clip(u, 0, GRID), np.clip(s, -GRID, GRID), np.clip(c, 0, GRID))

    def people(self, users: WeightedUsers, noise: Noise) -> Levels:
        """The nearest levels; no coin is drawn, and yet noise is refused that is none."""
        if not isinstance(noise, SecureNoise | SimulationNoise):
            raise TypeError(f"noise must be SecureNoise or SimulationNoise, got {type(noise).__name__}")
        wanted = (users.users, self.shape.policies)
        require(all(part.shape == wanted for part in users), f"users must have numbers [{wanted}]", users.u.shape)

        def level(part: Floats, low: int, factor: int) -> Ints:
            clean = np.nan_to_num(np.asarray(part, dtype=np.float64), nan=0.0)
            return np.rint(np.clip(clean, low / factor, GRID / factor) * factor).astype(np.int64)

        return Levels(level(users.u, 0, GRID), level(users.s, -GRID, 2 * GRID), level(users.c, 0, GRID))

    def stratum(self, people: Levels) -> Ints:
        """There is one."""
        return np.zeros(len(people.u), dtype=np.int64)

    def entries(self, people: Levels) -> tuple[Ints, Ints]:
        """In units of 1/scale: u s = U S/(2N²), u² s = U² S/(2N³), u² s² = U² S²/(4N⁴), towards zero."""
        u, s, c = people
        squares, weighted = u * u, u * s
        cubic = np.sign(s) * (squares * np.abs(s) // GRID)
        parts = [weighted, 2 * GRID * u, 2 * squares, cubic, weighted * weighted // (2 * GRID * GRID), 2 * GRID * c]
        amounts = (np.stack(parts, axis=2) * self.factors).reshape(len(u), self.size)
        return np.broadcast_to(np.arange(self.size), amounts.shape).copy(), amounts

    def empty(self) -> WeightStatistics:
        """Nothing is known."""
        return empty_weights(self.shape)

    def read(self, sums: Floats, variance: Floats, users: Ints) -> WeightStatistics:
        """The sums without factors."""
        factors = np.maximum(self.factors, 1) / WHOLE
        found = sums.reshape(self.shape.policies, NUMBERS) / factors
        return WeightStatistics(found, float(variance[0]) / factors**2, users.sum(keepdims=True))
