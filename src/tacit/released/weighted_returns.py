"""Weighted returns: what policies would have earned, asked of people whose devices compute their own weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count

WHOLE: Final = 256
"""Shares of policies are whole parts of this."""
NUMBERS: Final = 6
"""Of one policy: u s, u, u², u² s, u² s², c (`tacit.statistics.weighted_returns`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightShape:
    """The public sizes: the share of each policy in a person's vector, in parts of 256.

    >>> WeightShape(shares=(256, 76)).policies
    2
    """

    shares: tuple[int, ...]
    staged: ClassVar[bool] = True
    """There is one vector of a person."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))
        require(0 < len(self.shares) <= 100, "there must be 1 to 100 policies", len(self.shares))
        for share in self.shares:
            require_count("share", share, 1, WHOLE)

    @property
    def policies(self) -> int:
        """How many there are."""
        return len(self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightQuery:
    """Everyone's vector is asked for."""

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "weights and weighted returns of policies"


class WeightStatistics(NamedTuple):
    """Sums over people, with noise."""

    sums: Floats
    """[policies, 6]: u s, u, u², u² s, u² s², c."""
    variance: Floats
    """[policies, 6]: of the noise in each of them."""
    users: Ints
    """[1]"""


def empty_weights(shape: WeightShape) -> WeightStatistics:
    """Nothing was released."""
    none = np.zeros((shape.policies, NUMBERS))
    return WeightStatistics(none, none.copy(), np.zeros(1, dtype=np.int64))
