"""Binomial noise on counters: the sum of many noise bits, as a shuffler or a secure sum delivers it.

Each counter is released as its value plus Binomial(bits, probability). One replaced user moves some counters up by one
and others down by one, each with its own independent noise. The pair of one up counter is Binomial(N, p) against
Binomial(N, p) + 1: at k ones

    ℓ(k) = ln P(k)/Q(k) = ln [(N − k + 1) p / (k (1 − p))],   P[ℓ = ∞] = (1 − p)^N,   Q[−ℓ = ∞] = p^N.

The fewest bits that are private are found in `tacit.accounting.bits`.
Reference: [bai2024shuffle] Alg. 4 and its repair.

**Mirrored** binomial noise has as many noise bits that are rarely one as bits that are rarely zero. With X and X'
independent Binomial(N, p), a counter is released as its value plus D = X − X' (plus N, which is public). Its law P is
symmetric and log-concave, so that the pair of a counter that moves by one, up or down, is

    ℓ(k) = ln P(k)/P(k−1),   falling in k,   P[ℓ = ∞] = P(−N).

Bits of one bias have the outcome "no bit is one", whose mass (1 − p)^N sets a floor under their noise at every epsilon;
mirrored bits have no such outcome (Lemma M11 (mirrored bits)). P is convolved from two windows of X, term by positive
term, and kept where |d| is at most half of a window's reach: there the terms left out are below 1e-12 of P(d). By
Bernstein's inequality all else has a probability below 2 e^−81 < 1e-34, and counts as an infinite loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from tacit.accounting.events.protocol import Event
from tacit.accounting.pld import PLD, compose
from tacit.accounting.privacy_loss import Floats
from tacit.errors import NotSupported, require, require_count, require_real

MAX_BITS = 2**63 - 1
DEVIATIONS, MARGIN = 14.0, 60  # the support is cut at ±(14 standard deviations + 60); the rest counts as infinite loss
MAX_ATOMS = 2**17  # of one counter: more neighbouring outcomes than that are gathered into blocks
MAX_OUTCOMES = 2**23  # beyond, blocks are summed by a formula instead of outcome by outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialEvent(Event):
    """Binomial(bits, probability) noise over a shift of +1 or -1 in an integer counter."""

    NAME: ClassVar[str] = "binomial"

    bits: int
    probability: float
    shift: int

    def __post_init__(self) -> None:
        require_count("bits", self.bits, most=MAX_BITS)
        require_real("probability of a noise bit", self.probability, low=0.0, high=1.0, open_low=True)
        require_real("shift", self.shift, low=-1, high=1)

    def pld(self) -> PLD:
        """One counter, up or down."""
        return binomial_pld(self.bits, self.probability, up=int(self.shift > 0), down=int(self.shift < 0))

    def pure(self) -> float:
        """No pure guarantee: the noise is bounded."""
        return math.inf if self.shift else 0.0

    def scaled(self, factor: float) -> BinomialEvent:
        """Refused: a counter that moves by more than one is not described."""
        if factor != 1:
            raise NotSupported(
                f"binomial noise is described over shifts of one only, not over {factor:g} times {self.shift}; "
                "claim for one user and use PrivacyClaim.group"
            )
        return self

    def noisier(self, factor: float) -> BinomialEvent:
        """More bits: the deviation of N bits is √(N p (1-p))."""
        return replace(self, bits=max(1, round(self.bits * factor**2)))

    def signal(self) -> float:
        """One over the variance of the bits."""
        return 1.0 / (self.bits * self.probability * (1.0 - self.probability))


@lru_cache(maxsize=64)
def binomial_pld(bits: int, probability: float, up: int, down: int) -> PLD:
    """The privacy loss of `up` counters that gain one and `down` counters that lose one, each under its own noise.

    >>> round(binomial_pld(2574, 0.5, 18, 18).epsilon(1e-6), 3)
    0.999
    """
    require_count("up", up, least=0)
    require_count("down", down, least=0)
    counter = _counter(bits, probability)
    return compose([(counter, up), (counter.reversed, down)])


def binomial_delta(bits: int, probability: float, up: int, down: int, epsilon: float) -> float:
    """The exact δ at this ε, rounded up.

    >>> binomial_delta(2574, 0.5, 18, 18, 1.0) < 1.01e-6
    True
    """
    return binomial_pld(bits, probability, up, down).delta(epsilon)


def binomial_epsilon(bits: int, probability: float, up: int, down: int, delta: float) -> float:
    """The exact ε at this δ, rounded up; infinite if too few bits leave more than δ uncovered.

    The calibration that [bai2024shuffle] prints for ε = 1, δ = 1e-6, H = 6 and 1000 users gives far more privacy:

    >>> round(binomial_epsilon(452_000, 0.5, 18, 18, 1e-6), 4)
    0.0628
    """
    return binomial_pld(bits, probability, up, down).epsilon(delta)


@lru_cache(maxsize=16)
def _counter(bits: int, probability: float) -> PLD:
    """One up counter: Binomial(bits, probability) against itself plus one."""
    N = require_count("bits", bits, most=MAX_BITS)
    p = require_real("probability of a noise bit", probability, low=0.0, high=1.0)
    require(0.0 < p < 1.0, "the probability of a noise bit must lie strictly between 0 and 1", probability)
    mean, reach = N * p, DEVIATIONS * math.sqrt(N * p * (1.0 - p)) + MARGIN
    first, last = max(0, math.floor(mean - reach)), min(N, math.ceil(mean + reach))
    if last - first > MAX_OUTCOMES:
        return _summed(N, p, reach)
    k = np.arange(first + 1, last + 1, dtype=np.float64)
    # ln P(k) − ln P(k−1): its partial sums are the logarithm of the distribution up to a constant.
    ratio = np.log((N - k + 1.0) / k * (p / (1.0 - p)))
    mass = _normalised(ratio)
    # Beyond the window the distribution falls faster than geometrically with the ratio at the edge.
    below = mass[0] / math.expm1(ratio[0]) if first > 0 else 0.0
    above = mass[-1] / math.expm1(-ratio[-1]) if last < N else 0.0
    # Outcomes first+1 … last have both masses; P alone has the outcome `first`, Q alone the outcome last + 1.
    infinity = (float(mass[0] + below + above), float(mass[-1] + above + below))
    loss, of_p, of_q = _gathered(ratio, mass[1:], mass[:-1])
    if p == 0.5:  # k ↔ N + 1 − k exchanges P and Q
        return PLD.from_symmetric_atoms(loss, of_p, infinity[0])
    return PLD.from_atoms(loss, of_p, of_q, infinity=infinity)


def _gathered(loss: Floats, p: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
    """Falling losses in blocks, each split between its two ends so that P and Q keep their mass (`privacy_loss`)."""
    width = -(-loss.size // MAX_ATOMS)
    if width == 1:
        return loss, p, q
    first = np.arange(0, loss.size, width)
    last = np.minimum(first + width, loss.size) - 1
    high, low = loss[first], loss[last]
    # Share of the upper end: Σ p (1 − e^(low − ℓ)) / (1 − e^(low − high)); a block of one outcome is its own end.
    above = np.add.reduceat(-p * np.expm1(np.repeat(low, last - first + 1) - loss), first)
    upper = np.divide(above, -np.expm1(low - high), out=np.zeros_like(above), where=high > low)
    masses = np.concatenate([upper, np.add.reduceat(p, first) - upper])
    ends = np.concatenate([high, low])
    return ends, masses, masses * np.exp(-ends)


def _summed(N: int, p: float, reach: float) -> PLD:
    """`_counter` for so many bits that outcomes are too many to be listed: blocks of w of them, each by a formula.

    With x = k − Np and h(u) = (1+u) ln(1+u) − u, by Stirling (its correction is below 1e-12 here),

        ln P(k) = −Np h(x/Np) − N(1−p) h(−x/N(1−p)) − ½ ln(k(N−k)) + const,    ℓ(k) = ln P(k) − ln P(k−1).

    A block reaches over 28/2¹⁷ standard deviations, at most 14 from the mean: its log-mass is a straight line of slope
    s = ℓ(centre) with |s| w ≤ 0.003 and a curvature of 5e-8/w². So its mass is w P(centre) (1 + (s² + curvature)
    (w²−1)/24) to 1e-12, rounded up by 1e-11, and the share of the upper end, which keeps the masses of P and Q as
    `_gathered` does, ½ − s(w+1)/12 to 1e-8, rounded up by 1e-6.
    """
    ones, zeros, variance = N * p, N * (1.0 - p), N * p * (1.0 - p)
    w = 2 * math.ceil(reach / MAX_ATOMS) + 1
    blocks = 2 * math.ceil(reach / w) + 1

    def loss(x: Floats) -> Floats:
        return np.asarray(np.log1p((1.0 - x) / zeros) - np.log1p(x / ones))

    def log_mass(x: Floats) -> Floats:
        far = sum(size * _entropy(sign * x / size) for size, sign in ((ones, 1.0), (zeros, -1.0)))
        return np.asarray(-far - 0.5 * (np.log1p(x / ones) + np.log1p(-x / zeros)))

    centre = (round(ones) - ones) + w * (np.arange(blocks, dtype=np.float64) - blocks // 2)
    half, slope = (w - 1) // 2, loss(centre)
    mass = np.exp(log_mass(centre)) * w * (1.0 + (slope**2 - 1.0 / variance) * (w * w - 1.0) / 24.0)
    whole = float(mass.sum())
    # P alone has the outcome before the first block, Q alone the one after the last; beyond, faster than geometric.
    before, after = centre[:1] - half - 1.0, centre[-1:] + half
    edge = [float(np.exp(log_mass(x))[0]) / whole for x in (before, after)]
    below, above = edge[0] / math.expm1(float(loss(before)[0])), edge[1] / math.expm1(-float(loss(after + 1.0)[0]))
    share = np.clip(0.5 - slope * (w + 1.0) / 12.0 + 1e-6, 0.0, 1.0)
    mass = mass / whole * (1.0 + 1e-11)
    ends = np.concatenate([loss(centre - half), loss(centre + half)])
    masses = np.concatenate([mass * share, mass * (1.0 - share)])
    tails = (edge[0] + below + above, edge[1] + below + above)
    if p == 0.5:
        return PLD.from_symmetric_atoms(ends, masses, max(tails))
    return PLD.from_atoms(ends, masses, masses * np.exp(-ends), infinity=tails)


def _entropy(u: Floats) -> Floats:
    """(1+u) ln(1+u) − u for small u, without cancellation: u²/2 − u³/6 + u⁴/12 − u⁵/20."""
    return np.asarray(u * u * (0.5 - u * (1.0 / 6.0 - u * (1.0 / 12.0 - u / 20.0))))


def _normalised(log_ratios: Floats) -> Floats:
    """The masses whose consecutive ratios these are, summing to one over the window (so rounded up as a whole)."""
    logs = np.concatenate([[0.0], np.cumsum(log_ratios)])
    mass = np.exp(logs - logs.max())
    return np.asarray(mass / mass.sum())


X_DEVIATIONS, X_MARGIN = 36.0, 160  # of X, left and right of its mean; D is kept up to half of that
BEYOND: Final = 1e-34
"""What outcomes of D beyond the window add to the infinite loss."""
ROUNDING: Final = 1e-10
"""Losses are rounded up by this: the terms of a convolution are right to about twelve digits."""
WIDEST: Final = 2**14
"""Outcomes of one window; wider noise is left to bits of one bias, which lose nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredEvent(Event):
    """Binomial(bits, probability) minus another of its kind, over a shift of +1 or -1 in an integer counter."""

    NAME: ClassVar[str] = "mirrored-binomial"

    bits: int
    """N: bits of either bias."""
    probability: float
    shift: int

    def __post_init__(self) -> None:
        require_count("bits", self.bits)
        require_real("probability of a noise bit", self.probability, low=0.0, high=0.5, open_low=True)
        require_real("shift", self.shift, low=-1, high=1)

    def pld(self) -> PLD:
        """One counter; up and down are alike."""
        return mirrored_pld(self.bits, self.probability, int(self.shift != 0))

    def pure(self) -> float:
        """No pure guarantee: the noise is bounded."""
        return math.inf if self.shift else 0.0

    def scaled(self, factor: float) -> MirroredEvent:
        """Refused: a counter that moves by more than one is not described."""
        if factor != 1:
            raise NotSupported(
                f"mirrored bits are described over shifts of one only, not over {factor:g} times {self.shift}; "
                "claim for one user and use PrivacyClaim.group"
            )
        return self

    def noisier(self, factor: float) -> MirroredEvent:
        """More bits: the variance is 2 N p (1-p)."""
        return replace(self, bits=max(1, round(self.bits * factor**2)))

    def signal(self) -> float:
        """One over the variance of the noise."""
        return 0.5 / (self.bits * self.probability * (1.0 - self.probability))


@lru_cache(maxsize=64)
def mirrored_pld(bits: int, probability: float, differing: int) -> PLD:
    """The privacy loss of `differing` counters that move by one, each under its own noise.

    The last digits depend on which side of the accountant's grid a loss falls, so on the machine's logarithms:

    >>> 9.97 < mirrored_pld(1000, 0.00312, 22).epsilon(1e-6) <= 10.0
    True
    """
    require_count("differing", differing, least=0)
    _, mass = mirrored_law(bits, probability)
    # P alone has the first outcome.
    loss = np.log(mass[1:]) - np.log(mass[:-1]) + ROUNDING
    counter = PLD.from_symmetric_atoms(loss, mass[1:], float(mass[0]) + BEYOND)
    return compose([(counter, differing)])


@lru_cache(maxsize=16)
def mirrored_law(bits: int, probability: float) -> tuple[int, Floats]:
    """The first outcome of D = X − X' in a window of positive masses, and the masses of all its outcomes.

    >>> first, mass = mirrored_law(1, 0.5)
    >>> first, mass.tolist()
    (-1, [0.25, 0.5, 0.25])
    """
    N, p = require_count("bits", bits), require_real("probability of a noise bit", probability, low=0.0, high=0.5)
    require(p > 0.0, "the probability of a noise bit must lie above 0", probability)
    mean, reach = N * p, X_DEVIATIONS * math.sqrt(N * p * (1.0 - p)) + X_MARGIN
    first, last = max(0, math.floor(mean - reach)), min(N, math.ceil(mean + reach))
    if last - first > WIDEST:
        raise NotSupported(f"mirrored bits are for little noise: a deviation of {math.sqrt(2 * N * p * (1 - p)):.4g}")
    k = np.arange(first + 1, last + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((N - k + 1.0) / k * (p / (1.0 - p))))])
    one = np.exp(logs - logs.max())
    one /= one.sum()
    # P(d) = Σ_k P(X = k + d) P(X' = k), for |d| ≤ reach / 2 and cut where it leaves the range of doubles.
    mass = np.convolve(one, one[::-1])
    d = np.arange(len(mass)) - (len(one) - 1)
    kept = np.flatnonzero((mass > 1e-290) & (np.abs(d) <= reach / 2.0))
    mass = mass[kept]
    return int(d[kept[0]]), np.asarray(mass / mass.sum())
