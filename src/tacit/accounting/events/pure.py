"""Events of pure mechanisms, slack, and Laplace noise.

A pure event is one use of a mechanism whose privacy loss is ±ε, attained, as one randomized bit has it.

Slack (`ApproximationEvent`): what is drawn is only close to what was accounted for, and how much that adds to δ.

Numbers on a grid stand for real ones, a block of fixed length may overflow with a tiny probability: in both worlds the
law of what is released is within a distance tv, in total variation, of a law whose events are known. By Lemma P13
(close laws) the released pair then has

    δ'(ε) ≤ δ(ε) + (1 + e^ε) tv

with δ the curve of those events. An event has to be a number that adds up, so this event fixes the largest ε at which
it will be asked, `up_to`: there it adds (1 + e^up_to) tv to δ, below it at most that, and beyond it nothing is
promised.

Laplace noise, continuous and on the integers, has the exact privacy loss of one shifted counter. With t = |shift| /
scale every loss lies in [−t, t], and the end points are attained: pure ε = Σ t, and no smaller ε is pure. At δ > 0 the
composition of many small shifts is far better than that sum; one large shift gains nothing.

- Continuous: P[ℓ = t] = 1/2; in between, P[a < ℓ ≤ b] = ½ e^(−t/2) (e^(b/2) − e^(a/2)); P[ℓ = −t] = ½ e^(−t).
- On the integers, P(z) ∝ e^(−|z|/scale) under a whole shift s: ℓ = (s − 2z)/scale at z = 1 … s − 1. The extreme losses
  are the same, so the pure ε is the same; integer noise costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tacit.accounting.events.protocol import Event, require_whole, times
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


CELLS = 4096


MAX_EXPONENT = 600.0  # beyond, exp overflows


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceEvent(Event):
    """Laplace noise of this scale (continuous, or discrete on the integers) over one shift."""

    NAME: ClassVar[str] = "laplace"

    scale: float
    shift: float
    discrete: bool

    def __post_init__(self) -> None:
        require_real("scale", self.scale, low=0.0, open_low=True)
        require_real("shift", self.shift, low=0.0)

    def pld(self) -> PLD:
        """The atoms of the integers, or the losses between −t and t in cells.

        >>> LaplaceEvent(scale=36.0, shift=6.0, discrete=False).pld().epsilon(0.0) == 6.0 / 36.0
        True
        """
        if self.shift == 0.0:
            return PLD.from_guarantee(0.0, 0.0)
        return (
            _discrete(require_whole(self.shift), self.scale) if self.discrete else _continuous(self.shift / self.scale)
        )

    def pure(self) -> Fraction:
        """shift/scale, exactly."""
        return Fraction(self.shift) / Fraction(self.scale)

    def renyi(self, order: float) -> float:
        """D_α = ln(α e^((α−1)ε)/(2α − 1) + (α − 1) e^(−αε)/(2α − 1)) / (α − 1), for continuous noise."""
        epsilon = float(self.pure())
        if self.discrete or order * epsilon > MAX_EXPONENT:
            return math.inf
        grown, shrunk = order * math.exp((order - 1.0) * epsilon), (order - 1.0) * math.exp(-order * epsilon)
        return math.log((grown + shrunk) / (2.0 * order - 1.0)) / (order - 1.0)

    def scaled(self, factor: float) -> LaplaceEvent:
        """A larger shift; a whole one on the integers."""
        shift = times(self.shift, factor)
        return replace(self, shift=float(require_whole(shift)) if self.discrete else shift)

    def noisier(self, factor: float) -> LaplaceEvent:
        """A larger scale."""
        return replace(self, scale=self.scale * factor)

    def signal(self) -> float:
        """shift² over the variance of the noise."""
        return self.shift**2 / laplace_variance(self.scale, discrete=self.discrete)


def laplace_variance(scale: float, *, discrete: bool) -> float:
    """The variance of the noise."""
    return discrete_laplace_variance(scale) if discrete else 2.0 * scale**2


def discrete_laplace_variance(scale: float) -> float:
    """The variance of P(z) ∝ exp(-|z|/scale) on the integers.

    >>> round(discrete_laplace_variance(10.0), 3)
    199.833
    """
    b = require_real("scale", scale, low=0.0, open_low=True)
    # 2q/(1-q)² with q = e^{-1/b}, written without cancellation: 1 / (2 sinh²(1/2b))
    return 0.5 / math.sinh(min(0.5 / b, 300.0)) ** 2


def _continuous(t: float) -> PLD:
    """Cut the losses between −t and t into cells and split each between its ends."""
    edges = np.linspace(-t, t, CELLS + 1)
    h = 2.0 * t / CELLS
    cell = 0.5 * np.exp(0.5 * (edges[:-1] - t)) * math.expm1(0.5 * h)
    # P and Q masses of a cell are in the ratio e^(h/2) e^(lower end): the upper end takes 1/(1 + e^(−h/2)) of it.
    upper = cell / (1.0 + math.exp(-0.5 * h))
    masses = np.zeros(CELLS + 1)
    masses[1:] += upper
    masses[:-1] += cell - upper
    masses[0] += 0.5 * math.exp(-t)
    masses[-1] += 0.5
    return PLD.from_symmetric_atoms(edges, masses)


def _discrete(shift: int, scale: float) -> PLD:
    """One atom for z ≤ 0, one for each z between, one for z ≥ shift."""
    z = np.arange(shift + 1, dtype=np.float64)
    r = math.exp(-1.0 / scale)
    # P(z) = (1 − r)/(1 + r) r^|z|, hence P[z ≤ 0] = 1/(1 + r) and P[z ≥ s] = r^s/(1 + r).
    masses = np.exp(-z / scale) / (1.0 + r)
    masses[1:-1] *= -math.expm1(-1.0 / scale)
    return PLD.from_symmetric_atoms((shift - 2.0 * z) / scale, masses)
