"""A statistic of its own, in one file: in how many of three rooms people slept, one number of 0 to 4 for each room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.statistics.vectors import Change, VectorStatistic

MOST = 4


class Sleepers(NamedTuple):
    """Nights of each person in each room."""

    nights: Ints

    @property
    def users(self) -> int:
        """How many they are."""
        return len(self.nights)

    def one(self, k: int) -> Sleepers:
        """The k-th of them."""
        return Sleepers(self.nights[k : k + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomShape:
    """The number of rooms."""

    rooms: int
    staged: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomQuery:
    """Asks for the nights."""

    @staticmethod
    def words() -> str:
        """What is asked."""
        return "nights in rooms"


class RoomStatistics(NamedTuple):
    """Noisy nights in each room."""

    nights: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights(VectorStatistic):
    """Up to four nights in every room."""

    shape: RoomShape

    NAME: ClassVar[str] = "nights"
    ASKS: ClassVar[type[RoomQuery]] = RoomQuery
    SHAPE: ClassVar[type[RoomShape]] = RoomShape
    query: ClassVar[RoomQuery] = RoomQuery()
    scale: ClassVar[int] = 1 << 20

    @classmethod
    def of(cls, shape: RoomShape, trust: Any, query: RoomQuery) -> Self:
        """The same under every trust model."""
        return cls(shape=shape)

    @property
    def size(self) -> int:
        """One number per room."""
        return self.shape.rooms

    @property
    def width(self) -> int:
        """All of them."""
        return self.shape.rooms

    @property
    def length(self) -> int:
        """Every room may change by four nights."""
        return int(np.ceil(self.scale * MOST * self.shape.rooms**0.5))

    @property
    def longest(self) -> int:
        """The same as from nothing."""
        return self.length

    def changes(self) -> tuple[Change, ...]:
        """All numbers may change."""
        return (Change(Fraction(1), self.size),)

    def bounds(self) -> tuple[Ints, Ints]:
        """No night, or four."""
        return np.zeros(self.size, dtype=np.int64), np.full(self.size, self.scale * MOST)

    @property
    def body_size(self) -> int:
        """One byte per room."""
        return self.shape.rooms

    def pack(self, person: Sleepers | None, noise: Any) -> bytes:
        """A cover report has no nights."""
        nights = np.zeros(self.size) if person is None else self.people(person, noise).nights
        return nights.astype(np.uint8).tobytes()

    def check(self, body: bytes) -> None:
        """Raise unless the body has one length."""
        assert len(body) == self.body_size

    def unpack(self, bodies: Sequence[bytes]) -> Sleepers:
        """Clipped."""
        rows = np.frombuffer(b"".join(bodies), dtype=np.uint8).reshape(len(bodies), self.size)
        return Sleepers(np.minimum(rows, MOST).astype(np.int64))

    def people(self, users: Sleepers, noise: Any) -> Sleepers:
        """Clipped."""
        return Sleepers(np.clip(users.nights, 0, MOST))

    def stratum(self, people: Sleepers) -> Ints:
        """There is one."""
        return np.zeros(people.users, dtype=np.int64)

    def entries(self, people: Sleepers) -> tuple[Ints, Ints]:
        """Every room, in units of 1/scale."""
        return np.tile(np.arange(self.size), (people.users, 1)), people.nights * self.scale

    def empty(self) -> RoomStatistics:
        """Nothing is known."""
        return RoomStatistics(np.zeros(self.size))

    def read(self, sums: Floats, variance: Floats, users: Ints) -> RoomStatistics:
        """The sums themselves."""
        return RoomStatistics(sums[0])
