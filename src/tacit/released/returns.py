"""One bit about a return: what a learner may ask of people who follow public policies, and what it is told.

Everybody of a batch is in a group, and each group follows one policy that the learner has drawn by its own coins. A
person with the return G = r₁ + ... + r_H (every reward in [0, 1]) answers with one bit:

    mean    1 with probability min(G, C)/C       a group's share of ones is E min(G, C)/C
    tail    1 if G > c                           a group's share of ones is P(G > c)

Groups, kind and level are public; the bit leaves the device randomized.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count, require_real

Bit: TypeAlias = Literal["mean", "tail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnQuery:
    """The query for one bit about everybody's return.

    >>> ReturnQuery(groups=(5, 5), bit="mean", level=2.0).users
    10
    """

    groups: tuple[int, ...]
    """The users of each group; they come one group after the other."""
    bit: Bit
    level: float
    """The range C of a rounded return, or the threshold c of a tail."""

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "one bit about returns"

    def __post_init__(self) -> None:
        require(len(self.groups) > 0, "groups must have at least one entry", self.groups, "give at least one group")
        for users in self.groups:
            require_count("users of a group", users)
        require(self.bit in get_args(Bit), f"the bit must be one of {', '.join(get_args(Bit))}", self.bit)
        require_real("level", self.level, low=0.0, open_low=True)

    @property
    def users(self) -> int:
        """Everybody who is asked."""
        return sum(self.groups)


class ReturnStatistics(NamedTuple):
    """The answers of one batch."""

    ones: Floats
    """[groups]: how many randomized bits are one."""
    groups: Ints
    """[groups]: how many people answered."""
    variance: Floats
    """[1]: the noise variance of the ones of the largest group."""
    users: Ints
    """[1]: how many people answered in all."""

    def first(self, groups: int) -> ReturnStatistics:
        """The answers of so many groups: nobody was asked in others, whatever reports of a study say."""
        require(len(self.ones) >= groups, f"answers must come from {groups} groups", len(self.ones))
        return self._replace(ones=self.ones[:groups], groups=self.groups[:groups])


class BitNoise(NamedTuple):
    """The public noise of one bit: E answer = flip + (1 − 2 flip) bit; de-biased, its noise has this variance."""

    flip: float
    variance: float

    def debias(self, ones: Floats, users: Floats) -> Floats:
        """The unbiased estimate of how many bits are one.

        >>> BitNoise(flip=0.25, variance=0.75).debias(np.array([3.0]), np.array([4.0]))
        array([4.])
        """
        # n̂ = (ñ − n f)/(1 − 2f)
        return np.asarray((ones - self.flip * users) / (1.0 - 2.0 * self.flip))


def no_returns() -> ReturnStatistics:
    """Nobody has answered."""
    return ReturnStatistics(
        ones=np.zeros(0), groups=np.zeros(0, dtype=np.int64), variance=np.zeros(1), users=np.zeros(1, dtype=np.int64)
    )
