"""The unprotected event: a number released as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tacit.accounting.events.protocol import Event
from tacit.accounting.pld import PLD


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
