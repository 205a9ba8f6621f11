"""Noise bits under a whole vector of whole numbers: moments, gradients on a grid, anything dense.

A person changes at most `changed` counters, each by at most `largest`, by whole numbers whose squares sum to at most
`square`; every counter has its own sum of noise bits. Which such change tells most is not known for bits, and need not
be: each counter is dominated by a Gaussian up to a slack, so the vector is dominated by a Gaussian of

    μ² = κ² · square,   κ = max of μ_c/c over c = 1, ..., largest,

up to changed · slack_each (Lemma P16 (dominated vectors)). Where whole numbers are real ones that each person rounded
by a dither, `square` is that of the real change, and `dithered_square` says what it counts for: Lemma P17 (dithered
vectors).
Noise whose ends show more than the slack protects nothing here: its epsilon is infinite, though counters that move by
one may have a finite one (`BinomialEvent`, `MirroredEvent`).

Noise X on the integers with a log-concave law (any sum of independent bits, the discrete Gaussian) covers a shift c.
The best tests of X against X + c are thresholds, so their errors are the vertices α = P(X ≥ k), β = P(X < k − c) of a
polygon. Let d > 0. The shift is dominated by N(0, 1) against N(μ, 1), beside an outcome of probability d that tells
everything, as soon as each vertex lies on or above the curve of that pair,

    β ≥ (1 − d) Φ(−μ − Φ⁻¹(α/(1 − d))),      that is,     μ ≥ −Φ⁻¹(α/(1 − d)) − Φ⁻¹(β/(1 − d))

where α < 1 − d and β < 1 − d; other vertices ask for nothing (Lemma P15 (lattice domination)). `gaussian_mu_of_shift`
is the largest right-hand side, in either order and for either sign of the shift, rounded up; infinite where the ends of
the law show more than d. Independent coordinates compose as Gaussians do, μ² = Σ μ_(c_j)² ≤ κ² Σ c_j² with κ the
`steepest` μ_c/c, and their slacks add up (Lemma P16 (dominated vectors)).

>>> round(1.0 / gaussian_mu_of_shift(LatticeLaw.of_bits(625, 0.5), 1, 1e-12) / 12.5, 3)
0.987
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
import scipy

from tacit.accounting.events.binomial import BEYOND, ROUNDING, mirrored_law
from tacit.accounting.events.gaussian import gaussian_delta, gaussian_epsilon, gaussian_pld
from tacit.accounting.events.protocol import Event, require_whole
from tacit.accounting.pld import PLD
from tacit.accounting.privacy_loss import ULP, Floats
from tacit.errors import NotSupported, require, require_count, require_real

MIN_SLACK: Final = 1e-30
"""A smaller slack is not told apart from what lies outside of a window."""
DEVIATIONS, MARGIN = 14.0, 60
MAX_OUTCOMES: Final = 2**20
STEPS: Final = 128
"""Shifts up to here are looked at one by one, larger ones in steps of one part in so many."""


@dataclass(frozen=True, slots=True, eq=False)
class LatticeLaw:
    """A log-concave law on the integers: masses of neighbouring outcomes, in a window that misses next to nothing."""

    mass: Floats
    outside: float
    """The mass of all other outcomes is at most this."""
    error: float
    """The relative error of a mass, and of a sum of masses from one end."""

    @classmethod
    def of_bits(cls, bits: int, probability: float) -> LatticeLaw:
        """The sum of so many independent bits.

        >>> LatticeLaw.of_bits(2, 0.5).mass.tolist()
        [0.25, 0.5, 0.25]
        """
        N, p = require_count("bits", bits), require_real("probability of a noise bit", probability, low=0.0, high=1.0)
        require(0.0 < p < 1.0, "the probability of a noise bit must lie strictly between 0 and 1", probability)
        reach = _reach(math.sqrt(N * p * (1.0 - p)))
        first, last = max(0, math.floor(N * p) - reach), min(N, math.floor(N * p) + reach)
        k = np.arange(first + 1, last + 1, dtype=np.float64)
        # ln P(k) − ln P(k − 1)
        return cls._stepping(np.log((N - k + 1.0) / k * (p / (1.0 - p))), first > 0, last < N)

    @classmethod
    def discrete_gaussian(cls, sigma: float) -> LatticeLaw:
        """P(z) ∝ exp(−z²/(2σ²)).

        >>> law = LatticeLaw.discrete_gaussian(1.0)
        >>> round(1.0 / gaussian_mu_of_shift(law, 1, 1e-12) ** 2, 3)  # a variance that is less by a twelfth
        0.914
        """
        reach = _reach(require_real("sigma", sigma, low=0.0, open_low=True))
        # ln P(z) − ln P(z − 1) = (1 − 2z)/2σ²
        z = np.arange(1 - reach, reach + 1, dtype=np.float64)
        return cls._stepping((1.0 - 2.0 * z) / (2.0 * sigma**2), True, True)

    @classmethod
    def _stepping(cls, steps: Floats, before: bool, after: bool) -> LatticeLaw:
        """From the steps of the logarithm in a window; whether there are outcomes before and after it."""
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        logs -= logs.max()
        kept = np.flatnonzero(logs > -660.0)
        first, last = int(kept[0]), int(kept[-1])
        mass = np.exp(logs[first : last + 1])
        mass /= mass.sum()
        # Steps fall: beyond an end the masses fall at least geometrically, with the ratio of the step that leaves it.
        outside = 0.0
        if before or first > 0:
            outside += float(mass[0]) / math.expm1(steps[max(first - 1, 0)])
        if after or last < logs.size - 1:
            outside += float(mass[-1]) / math.expm1(-steps[min(last, steps.size - 1)])
        return cls(mass, 2.0 * outside, ULP * (mass.size + 16.0) * (8.0 - float(logs[kept].min())))


def _reach(deviation: float) -> int:
    reach = math.ceil(DEVIATIONS * deviation) + MARGIN
    if 2 * reach > MAX_OUTCOMES:
        raise NotSupported(f"noise of a deviation of {deviation:.4g} has too many outcomes: use the exact accountant")
    return reach


def gaussian_mu_of_shift(law: LatticeLaw, shift: int, slack: float) -> float:
    """μ_c(d): the least μ whose Gaussian dominates a shift of the noise up to this slack, rounded up.

    Bits so few that their ends show more than the slack are dominated by none:

    >>> gaussian_mu_of_shift(LatticeLaw.of_bits(30, 0.5), 1, 1e-12)
    inf
    """
    c, d = require_count("shift", abs(shift), least=0), require_real("slack", slack, low=MIN_SLACK, high=0.5)
    require(law.outside <= 1e-3 * d, f"a slack must exceed what lies outside of the window, {law.outside:.2g}", d)
    if c == 0:
        return 0.0
    up, down = 1.0 + law.error, law.outside
    below = np.concatenate([[0.0], np.cumsum(law.mass)])  # P(X < k), for k from the first outcome to one past the last
    above = np.concatenate([np.cumsum(law.mass[::-1])[::-1], [0.0]])  # P(X ≥ k)
    ends = np.zeros(c), np.ones(c)
    alpha, not_alpha = np.concatenate([above, ends[0]]), np.concatenate([below, ends[1]])
    beta, not_beta = np.concatenate([ends[0], below]), np.concatenate([ends[1], above])

    def quantile(error: Floats, other: Floats) -> Floats:
        # −Φ⁻¹(p), p = error/(1 − d) and 1 − p = (other − d)/(1 − d), from whichever of the two is small.
        low = np.minimum(error / up * (1.0 - down) / (1.0 - d), 0.5)
        high = np.clip((other * up + down - d) / (1.0 - d), 0.0, 0.5)
        return np.asarray(np.where(error > 0.5, scipy.special.ndtri(high), -scipy.special.ndtri(low)))

    first, second = quantile(alpha, not_alpha), quantile(beta, not_beta)
    # An error of at least 1 − d asks for nothing.
    asks = (not_alpha * up + down > d) & (not_beta * up + down > d)
    rounding = 2.0**-44 * (1.0 + np.abs(first) + np.abs(second))
    needed = np.where(asks, first, 0.0) + np.where(asks, second, 0.0) + rounding
    return float(needed[asks].max(initial=0.0))


@lru_cache(maxsize=1024)
def steepest(law: LatticeLaw, most: int, slack: float) -> float:
    """κ = max of μ_c/c over shifts c = 1, ..., `most`, rounded up: a vector of such shifts has μ ≤ κ times its length.

    μ_c grows with c, so a shift within a step is charged the μ of the end of the step over the beginning.

    >>> 12.0 < 1.0 / steepest(LatticeLaw.of_bits(625, 0.5), 4, 1e-12) < 12.34
    True
    """
    found, c = 0.0, 0
    while c < require_count("most", most):
        after = min(most, c + max(1, c // STEPS))
        found = max(found, gaussian_mu_of_shift(law, after, slack) / (c + 1.0))
        c = after if math.isfinite(found) else most
    return math.nextafter(found, math.inf)


TILT_ERROR: Final = 1e-6
"""The relative error of a computed slope of ln δ is below this."""


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
    rounded: int = 0
    """How many of the counters that change are rounded by a dither: then `square` is that of the change before."""

    def __post_init__(self) -> None:
        require_count("bits", self.bits)
        require_real("probability of a noise bit", self.probability, low=0.0, high=0.5, open_low=True)
        require(isinstance(self.mirrored, bool), "mirrored must be true or false", given=self.mirrored)
        for name in ("largest", "square", "changed", "rounded"):
            require_count(name, getattr(self, name), least=0)
        require_real("slack_each", self.slack_each, low=MIN_SLACK, high=0.5)

    def mu(self) -> float:
        """The μ of the Gaussian that dominates the change, rounded up; infinite if there is none."""
        # A vector of whole numbers has no entry above its length, and no more of them than its squared length.
        largest = self.largest if self.rounded else min(self.largest, math.isqrt(self.square))
        if min(largest, self.changed, self.square) == 0:
            return 0.0
        kappa = steepest(_law(self.bits, self.probability, self.mirrored), largest, self.slack_each)
        if math.isinf(kappa):
            return math.inf
        square = dithered_square(kappa, self.square, self.rounded, self._slack_of_rounding)
        return kappa * math.sqrt(square) * (1.0 + 2.0**-50)

    @property
    def _slack_of_rounding(self) -> float:
        return self.changed * self.slack_each if self.rounded else 0.0

    def slack_in_all(self) -> float:
        """The probability that is set aside: of all counters that change, and as much again for rounding."""
        changed = self.changed if self.rounded else min(self.changed, self.square)
        return (changed * self.slack_each + self._slack_of_rounding) * (1.0 + 2.0**-50)

    def pld(self) -> PLD:
        """That Gaussian, with the slack as infinite loss."""
        mu, slack = self.mu(), self.slack_in_all()
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
        """The changes of so many persons together: longer by the factor, in as many times the counters.

        Rounded ones: the squared length is at most g times the sum of g squared lengths, whose mean and spread (m and v
        of Lemma P17 (dithered vectors)) are at most those of a change with g³ times the square and the counters.
        """
        g = require_count("persons", require_whole(factor))
        longer = g**3 if self.rounded and g > 1 else g * g
        return replace(
            self,
            largest=g * self.largest,
            square=longer * self.square,
            changed=g * self.changed,
            rounded=longer * self.rounded,
        )

    def noisier(self, factor: float) -> LatticeEvent:
        """More bits: their variance is proportional to their number."""
        return replace(self, bits=max(1, round(self.bits * factor**2)))

    def signal(self) -> float:
        """The squared length of the change over the variance of the bits."""
        return self.square / ((1 + self.mirrored) * self.bits * self.probability * (1.0 - self.probability))


@lru_cache(maxsize=1024)
def dithered_square(kappa: float, square: int, rounded: int, slack: float) -> float:
    """What a squared change counts for after so many of its counters were rounded by a dither, for this slack.

    w = m + Λv with Λ so large that κ² λ_ε(κ²w) ≤ 2Λ at the ε where δ_(κ√w)(ε) = slack: Lemma P17 (dithered vectors).

    >>> round(dithered_square(1 / 68, 256, 65, 1e-9) / 256, 3)
    1.112
    """
    if rounded == 0:
        return float(square)
    middle, spread = square + rounded / 4.0, (math.sqrt(square) + math.sqrt(rounded) / 2.0) ** 2
    tilt = 0.0
    while math.isfinite(tilt):
        found = (middle + tilt * spread) * (1.0 + 2.0**-40)
        mu = kappa * math.sqrt(found)
        epsilon = gaussian_epsilon(slack, mu)
        # h'/h at μ², h = δ_μ(ε): φ(μ/2 − ε/μ)/(2μ δ_μ(ε)), rounded up; the division by a δ that is rounded up is undone
        near = mu / 2.0 - epsilon / mu
        density = math.exp(-near * near / 2.0) / math.sqrt(2.0 * math.pi)
        needed = kappa**2 * density / (2.0 * mu * gaussian_delta(epsilon, mu)) * (1.0 + TILT_ERROR)
        if needed <= 2.0 * tilt:
            return found
        tilt = needed / 2.0 * (1.0 + TILT_ERROR)
    return math.inf


@lru_cache(maxsize=16)
def _law(bits: int, probability: float, mirrored: bool) -> LatticeLaw:
    if not mirrored:
        return LatticeLaw.of_bits(bits, probability)
    return LatticeLaw(mirrored_law(bits, probability)[1], BEYOND, ROUNDING)
