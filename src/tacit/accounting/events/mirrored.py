"""Mirrored binomial noise on counters: as many noise bits that are rarely one as bits that are rarely zero.

With X and X' independent Binomial(N, p), a counter is released as its value plus D = X − X' (plus N, which is public).
Its law P is symmetric and log-concave, so that the pair of a counter that moves by one, up or down, is

    ℓ(k) = ln P(k)/P(k−1),   falling in k,   P[ℓ = ∞] = P(−N).

Bits of one bias have the outcome "no bit is one", whose mass (1 − p)^N sets a floor under their noise at every epsilon;
mirrored bits have no such outcome (Lemma M9 (mirrored bits)). P is convolved from two windows, term by positive term.
What the windows leave out has a probability below τ = 3e-52 (Bernstein's inequality at 18 deviations and 80 more), at
most (1 + e^ε) τ ≤ 1e-20 of delta for ε ≤ 72: that much is counted as an infinite loss.
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
from tacit.accounting.search import least_real
from tacit.errors import NotSupported, require, require_count, require_real

__all__ = ["LARGEST_EPSILON", "MirroredEvent", "least_mirrored_probability", "mirrored_law", "mirrored_pld"]

DEVIATIONS, MARGIN = 18.0, 80
LARGEST_EPSILON: Final = 72.0
"""Up to here the outcomes beyond the windows are covered by `BEYOND`."""
BEYOND: Final = 1e-20
"""What outcomes beyond the windows add to the infinite loss."""
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

    >>> round(mirrored_pld(1000, 0.00312, 22).epsilon(1e-6), 2)
    9.98
    """
    require_count("differing", differing, least=0)
    _, mass = mirrored_law(bits, probability)
    # P alone has the first outcome; beyond the window of D nothing is left that `BEYOND` does not cover.
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
    mean, reach = N * p, DEVIATIONS * math.sqrt(N * p * (1.0 - p)) + MARGIN
    first, last = max(0, math.floor(mean - reach)), min(N, math.ceil(mean + reach))
    if last - first > WIDEST:
        raise NotSupported(f"mirrored bits are for little noise: a deviation of {math.sqrt(2 * N * p * (1 - p)):.4g}")
    k = np.arange(first + 1, last + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((N - k + 1.0) / k * (p / (1.0 - p))))])
    one = np.exp(logs - logs.max())
    one /= one.sum()
    # P(d) = Σ_k P(X = k + d) P(X' = k); only sums of positive terms, cut where they leave the range of doubles.
    mass = np.convolve(one, one[::-1])
    kept = np.flatnonzero(mass > 1e-290)
    mass = mass[kept[0] : kept[-1] + 1]
    return int(kept[0]) - (len(one) - 1), np.asarray(mass / mass.sum())


@lru_cache(maxsize=1024)
def least_mirrored_probability(epsilon: float, delta: float, differing: int, bits: int, guess: float) -> float | None:
    """The least probability of `bits` noise bits of either bias that is (epsilon, delta)-private, rounded up.

    None: even fair bits are not, or epsilon is above what the accountant covers. `guess` is where the search begins.

    >>> round(least_mirrored_probability(10.0, 1e-6, 22, 1000, 0.003), 5)
    0.00311
    """
    if epsilon > LARGEST_EPSILON:
        return None

    def excess(probability: float) -> float:
        found = mirrored_pld.__wrapped__(bits, min(probability, 0.5), differing).delta(epsilon)
        return math.log(found / delta) if found > 0.0 else -math.inf

    try:
        return min(0.5, least_real(excess, min(guess, 0.25))) if excess(0.5) <= 0.0 else None
    except NotSupported:
        return None
