"""Noise bits under a whole vector of whole numbers: moments, gradients on a grid, anything dense.

A person changes at most `changed` counters, each by at most `largest`, by whole numbers whose squares sum to at most
`square`; every counter has its own sum of noise bits. Which such change tells most is not known for bits, and need not
be: each counter is dominated by a Gaussian up to a slack, so the vector is dominated by a Gaussian of

    μ² = κ² · square,   κ = max of μ_c/c over c = 1, ..., largest,

up to changed · slack_each (Lemma P16 (dominated vectors)). Noise whose ends show more than that protects nothing here:
its epsilon is infinite, though counters that move by one may have a finite one (`BinomialEvent`, `MirroredEvent`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from tacit.accounting.domination import MIN_SLACK, LatticeLaw, steepest
from tacit.accounting.events.gaussian import gaussian_pld
from tacit.accounting.events.mirrored import BEYOND, ROUNDING, mirrored_law
from tacit.accounting.events.protocol import Event, require_whole
from tacit.accounting.pld import PLD
from tacit.errors import require, require_count, require_real


@dataclass(frozen=True, slots=True, kw_only=True)
class LatticeEvent(Event):
    """Sums of noise bits over a change of a vector of whole numbers, as private as the Gaussian that dominates it.

    >>> from tacit.accounting.composition import epsilon_of
    >>> noise = {"bits": 4000, "probability": 0.5, "mirrored": False, "slack_each": 1e-10}
    >>> event = LatticeEvent(**noise, largest=8, square=64, changed=20)
    >>> round(epsilon_of(((event, 1),), 1e-6), 3)  # a Gaussian of this variance: 1.074
    1.076
    """

    NAME: ClassVar[str] = "lattice"

    bits: int
    """Of each bias."""
    probability: float
    mirrored: bool
    """Whether there are as many bits of the opposite bias."""
    largest: int
    square: int
    changed: int
    slack_each: float
    """Of one counter: the probability that is set aside for its dominating Gaussian to hold."""

    def __post_init__(self) -> None:
        require_count("bits", self.bits)
        require_real("probability of a noise bit", self.probability, low=0.0, high=0.5, open_low=True)
        require(isinstance(self.mirrored, bool), "mirrored must be true or false", given=self.mirrored)
        for name in ("largest", "square", "changed"):
            require_count(name, getattr(self, name), least=0)
        require_real("slack_each", self.slack_each, low=MIN_SLACK, high=0.5)

    def mu(self) -> float:
        """The μ of the Gaussian that dominates the change, rounded up; infinite if there is none."""
        # A vector of whole numbers has no entry above its length, and no more of them than its squared length.
        largest = min(self.largest, math.isqrt(self.square))
        if min(largest, self.changed) == 0:
            return 0.0
        law = _law(self.bits, self.probability, self.mirrored)
        return steepest(law, largest, self.slack_each) * math.sqrt(self.square) * (1.0 + 2.0**-50)

    def pld(self) -> PLD:
        """That Gaussian, with the slack as infinite loss."""
        mu, slack = self.mu(), min(self.changed, self.square) * self.slack_each * (1.0 + 2.0**-50)
        if mu == 0.0:
            return PLD.from_guarantee(0.0, 0.0)
        if math.isinf(mu) or slack >= 1.0:
            return PLD.unprotected()
        # δ(ε) ≤ δ_μ(ε) + changed · slack_each
        gaussian = gaussian_pld(mu).forward
        both = replace(gaussian, infinity=gaussian.infinity + slack)
        return PLD(both, both)

    def pure(self) -> float:
        """No pure guarantee: the noise is bounded."""
        return math.inf if min(self.largest, self.square, self.changed) else 0.0

    def scaled(self, factor: float) -> LatticeEvent:
        """The changes of so many persons together: longer by the factor, in as many times the counters."""
        g = require_count("persons", require_whole(factor))
        return replace(self, largest=g * self.largest, square=g * g * self.square, changed=g * self.changed)

    def noisier(self, factor: float) -> LatticeEvent:
        """More bits: their variance is proportional to their number."""
        return replace(self, bits=max(1, round(self.bits * factor**2)))

    def signal(self) -> float:
        """The squared length of the change over the variance of the bits."""
        return self.square / ((1 + self.mirrored) * self.bits * self.probability * (1.0 - self.probability))


@lru_cache(maxsize=16)
def _law(bits: int, probability: float, mirrored: bool) -> LatticeLaw:
    if not mirrored:
        return LatticeLaw.of_bits(bits, probability)
    return LatticeLaw(mirrored_law(bits, probability)[1], BEYOND, ROUNDING)
