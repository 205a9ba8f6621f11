"""The pure event: one use of a mechanism whose privacy loss is ±ε, attained, as one randomized bit has it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from tacit.accounting.events.protocol import Event, times
from tacit.accounting.pld import PLD
from tacit.errors import require, require_real


@dataclass(frozen=True, slots=True, kw_only=True)
class PureEvent(Event):
    """One use of a mechanism whose loss is ±epsilon, attained: one randomized bit, one unary-encoded slot."""

    NAME: ClassVar[str] = "pure"

    epsilon: float

    def __post_init__(self) -> None:
        require_real("epsilon of an event", self.epsilon, low=0.0)

    def pld(self) -> PLD:
        """Two outcomes: the worst pair that is epsilon-private."""
        return PLD.from_guarantee(self.epsilon, 0.0)

    def pure(self) -> Fraction:
        """Epsilon itself."""
        return Fraction(self.epsilon)

    def scaled(self, factor: float) -> PureEvent:
        """Group privacy: `factor` users, one after the other, change the odds by e^epsilon each."""
        require(float(factor).is_integer(), "a pure guarantee holds for a whole number of users", given=factor)
        return replace(self, epsilon=times(self.epsilon, factor))

    def noisier(self, factor: float) -> PureEvent:
        """Epsilon divided by the factor."""
        return replace(self, epsilon=self.epsilon / factor)

    def signal(self) -> float:
        """(E_P X − E_Q X)² ≤ χ²(P‖Q) Var_Q X, and χ² ≤ 4 sinh²(ε/2), attained by one randomized bit."""
        return 4.0 * math.sinh(min(self.epsilon, 700.0) / 2.0) ** 2
