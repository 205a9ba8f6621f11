"""The pure event: one use of a mechanism whose privacy loss is ±ε, attained, as one randomized bit has it.

Slack (`ApproximationEvent`): what is drawn is only close to what was accounted for, and how much that adds to δ.

Numbers on a grid stand for real ones, a block of fixed length may overflow with a tiny probability: in both worlds the
law of what is released is within a distance tv, in total variation, of a law whose events are known. By Lemma P13
(close laws) the released pair then has

    δ'(ε) ≤ δ(ε) + (1 + e^ε) tv

with δ the curve of those events. An event has to be a number that adds up, so this event fixes the largest ε at which
it will be asked, `up_to`: there it adds (1 + e^up_to) tv to δ, below it at most that, and beyond it nothing is
promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from tacit.accounting.events.protocol import Event, times
from tacit.accounting.pld import PLD
from tacit.errors import require, require_real

ROUND_UP = 1.0 + 2.0**-49
"""Covers the rounding of exp, of the sum and of the product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximationEvent(Event):
    """A distance `tv` in total variation between what is released and what was accounted for, priced for ε ≤ `up_to`.

    >>> from tacit.accounting.composition import delta_of
    >>> events = ((ApproximationEvent(tv=1e-9, up_to=1.0), 2),)
    >>> [round(delta_of(events, epsilon) * 1e9, 4) for epsilon in (0.5, 1.0)], delta_of(events, 1.1)
    ([7.4366, 7.4366], 1.0)
    """

    NAME: ClassVar[str] = "slack"

    tv: float
    up_to: float

    def __post_init__(self) -> None:
        require_real("tv of a slack", self.tv, low=0.0, high=1.0)
        require_real("up_to of a slack", self.up_to, low=0.0, hint="the largest epsilon at which it will be asked")

    def slack(self) -> tuple[Fraction, float]:
        """(1 + e^up_to) tv, rounded up, and up_to."""
        try:
            added = min(1.0, (1.0 + math.exp(self.up_to)) * self.tv * ROUND_UP)
        except OverflowError:
            added = 1.0
        return Fraction(added if self.tv else 0.0), self.up_to

    def pld(self) -> PLD:
        """What it adds, at infinite loss: for ε ≤ up_to only; the accountant adds it to δ instead."""
        added, _ = self.slack()
        return PLD.from_guarantee(0.0, float(added))

    def pure(self) -> float:
        """No pure guarantee: anything may happen with probability tv."""
        return math.inf if self.tv else 0.0

    def scaled(self, factor: float) -> ApproximationEvent:
        """So many times the distance: one for each report whose law is only close, at most 1."""
        return ApproximationEvent(tv=min(1.0, times(self.tv, factor)), up_to=self.up_to)

    def noisier(self, factor: float) -> ApproximationEvent:
        """The same: a distance of laws says nothing about their noise."""
        return self

    def signal(self) -> float:
        """An indicator of outcomes of probability tv in one world and 0 in the other: tv²/(tv (1 − tv))."""
        return self.tv / (1.0 - self.tv) if self.tv < 1.0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprotectedEvent(Event):
    """Released as it is: epsilon is infinite."""

    NAME: ClassVar[str] = "unprotected"
    PROTECTS: ClassVar[bool] = False

    def pld(self) -> PLD:
        """A pair that one look tells apart."""
        return PLD.unprotected()

    def pure(self) -> float:
        """Infinite."""
        return math.inf

    def scaled(self, factor: float) -> UnprotectedEvent:
        """The same: nothing is protected already."""
        return self

    def noisier(self, factor: float) -> UnprotectedEvent:
        """The same: any number of times no noise is none."""
        return self

    def signal(self) -> float:
        """Infinite."""
        return math.inf


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
