"""The contract of a statistic: what one person adds to a release, a bounded vector of whole numbers.

    pack, unpack    a person's data as the body that leaves a device under central trust, and back: clipped
    entries         people -> the numbers that each of them adds, `width` of them, and the labels of their counters
    reach           how far apart two people's vectors are, in units of 1/scale: a lemma of docs/lemmas/moments.md
    read            noisy sums -> what learners are given

Releases (`tacit.release.vectors`) multiply a statistic with the noise of each trust model and know nothing else of it.
A new statistic is one class with these members, and one row in `tacit.statistics.table`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from tacit.accounting.claims import Trust
from tacit.arrays import Floats, Ints
from tacit.errors import require
from tacit.protocol import Noise, Query

CHUNK = 4096
"""People whose vectors are held at once."""


@runtime_checkable
class VectorUsers(Protocol):
    """People who add vectors; a release takes them one by one, a simulation all at once."""

    @property
    def users(self) -> int:
        """How many they are."""

    def one(self, k: int) -> Any:
        """The k-th of them."""


class Change(NamedTuple):
    """One way in which replacing a person changes the sums."""

    square: Fraction
    """The squared length of the change, as a share of `length`²."""
    counters: int
    """How many counters change."""


class VectorStatistic:
    """A statistic; subclasses are frozen dataclasses whose fields are public."""

    __slots__ = ()
    NAME: ClassVar[str]
    ASKS: ClassVar[type[Query]]
    SHAPE: ClassVar[type]
    shape: Any

    @classmethod
    @abstractmethod
    def of(cls, shape: Any, trust: Trust, query: Any) -> Self:
        """The statistic that answers this query under this trust model."""

    @property
    @abstractmethod
    def query(self) -> Query:
        """What is asked."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many counters there are, in each stratum."""

    strata: int = 1
    """Groups of people that are known in public before they act; a message of local trust names its group."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many counters one person adds to."""

    @property
    @abstractmethod
    def scale(self) -> int:
        """Entries are whole multiples of 1/scale, a power of two."""

    @property
    @abstractmethod
    def length(self) -> int:
        """The longest change of the sums when a person is replaced, in units of 1/scale: proved."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The longest vector of one person, in units of 1/scale: proved."""

    @abstractmethod
    def changes(self) -> tuple[Change, ...]:
        """Every change is one of these, or shorter in as many counters."""

    @abstractmethod
    def bounds(self) -> tuple[Ints, Ints]:
        """[width] each: the least and the largest that an entry can be."""

    @property
    @abstractmethod
    def body_size(self) -> int:
        """The length of a body in bytes."""

    @abstractmethod
    def pack(self, person: Any, noise: Noise) -> bytes:
        """The body of one person; None: of a cover report, which counts for nothing."""

    @abstractmethod
    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this body."""

    @abstractmethod
    def unpack(self, bodies: Sequence[bytes]) -> Any:
        """The people of these bodies, clipped into the public ranges; cover reports are left out."""

    @abstractmethod
    def people(self, users: Any, noise: Noise) -> Any:
        """The same from users, as devices would send them; a tuple of arrays with one row per person."""

    @abstractmethod
    def stratum(self, people: Any) -> Ints:
        """[n]: the public group of each person; -1: none."""

    @abstractmethod
    def entries(self, people: Any) -> tuple[Ints, Ints]:
        """Labels and amounts, [n, width] each; a person's labels differ, and lie below `size`."""

    @abstractmethod
    def empty(self) -> Any:
        """What is known before the first release."""

    @abstractmethod
    def read(self, sums: Floats, variance: Floats, users: Ints) -> Any:
        """What learners are given: from noisy sums [strata, size], variances of their noise and people [strata]."""

    def sums(self, people: Any) -> Ints:
        """[size]: what these people add up to."""
        found = np.zeros(self.size, dtype=np.int64)
        for part in in_chunks(people):
            labels, amounts = self.entries(part)
            np.add.at(found, labels, amounts)
        return found

    def rounded_sums(self, people: Any, shift: int, dithers: Any) -> Ints:
        """[size]: what they add up to in units of 2^shift/scale, if each of them rounds by a dither."""
        found = np.zeros(self.size)
        for part in in_chunks(people):
            labels, amounts = self.entries(part)
            rounded = dithered(amounts, shift, dithers(amounts.shape))
            # Sums of whole numbers below 2^53 are exact in floating point.
            found += np.bincount(labels.ravel(), weights=rounded.ravel(), minlength=self.size)
        return found.astype(np.int64)

    def require_reach(self) -> None:
        """Raise unless the sizes of the statistic fit together."""
        require(self.scale & (self.scale - 1) == 0, "the scale of a statistic must be a power of two", self.scale)
        most = max(change.square for change in self.changes())
        require(most == 1, "the longest change must be one of the changes", most)


def dithered(amounts: Ints, shift: int, dither: Ints) -> Ints:
    """Amounts over 2^shift, rounded down after a dither of 0..2^shift − 1 is added: unbiased where it is uniform.

    >>> dithered(np.array([-5, 5]), 2, np.array([0, 3])).tolist()
    [-2, 2]
    """
    return (amounts + dither) >> shift


def in_chunks(people: Any) -> Any:
    """The same people, some thousands at a time; `people` is a NamedTuple of arrays."""
    for start in range(0, len(people[0]), CHUNK):
        yield type(people)(*(part[start : start + CHUNK] for part in people))
