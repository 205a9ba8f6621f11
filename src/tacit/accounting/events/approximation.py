"""Slack: what is really drawn is only close to what was accounted for, and how much that adds to delta.

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
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tacit.accounting.events.protocol import Event, times
from tacit.accounting.pld import PLD
from tacit.errors import require_real

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
