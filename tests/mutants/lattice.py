"""Dense vectors under noise bits, certified with a wrong mu. For the tests of lattice domination only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tacit.accounting.events import LatticeEvent
from tacit.accounting.events.gaussian import gaussian_pld
from tacit.accounting.events.lattice import LatticeLaw, gaussian_mu_of_shift
from tacit.accounting.pld import PLD

__all__ = ["LATTICE_BUGS"]


class _Variance(LatticeEvent):
    """The noise taken for Gaussian noise of its variance."""

    def mu(self) -> float:
        return math.sqrt(self.signal())


class _ShiftOfOne(LatticeEvent):
    """The mu of a shift of one, times the length, for shifts that are larger."""

    def mu(self) -> float:
        law = LatticeLaw.of_bits(self.bits, self.probability)
        return gaussian_mu_of_shift(law, 1, self.slack_each) * math.sqrt(self.square)


class _OneCounter(LatticeEvent):
    """The mu of the counter that changes most, as if no other did."""

    def mu(self) -> float:
        law = LatticeLaw.of_bits(self.bits, self.probability)
        return gaussian_mu_of_shift(law, self.largest, self.slack_each)


class _NoSlack(LatticeEvent):
    """A mu that holds up to a slack, without the slack."""

    def pld(self) -> PLD:
        return gaussian_pld(self.mu())


class _HalfTheBits(LatticeEvent):
    """Twice the noise bits that are there."""

    def mu(self) -> float:
        return LatticeEvent.mu(self) / math.sqrt(2.0)


LATTICE_BUGS: Final[Mapping[str, type[LatticeEvent]]] = {
    "variance for mu": _Variance,
    "mu of a shift of one": _ShiftOfOne,
    "mu of one counter": _OneCounter,
    "slack forgotten": _NoSlack,
    "bits counted twice": _HalfTheBits,
}
"""Wrong events by what is wrong in them."""
