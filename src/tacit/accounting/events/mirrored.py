"""Mirrored binomial noise on counters: as many noise bits that are rarely one as bits that are rarely zero.

With X and X' independent Binomial(N, p), a counter is released as its value plus D = X − X' (plus N, which is public).
Its law P is symmetric and log-concave, so that the pair of a counter that moves by one, up or down, is

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

DEVIATIONS, MARGIN = 36.0, 160  # of X, left and right of its mean; D is kept up to half of that
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
    mean, reach = N * p, DEVIATIONS * math.sqrt(N * p * (1.0 - p)) + MARGIN
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
