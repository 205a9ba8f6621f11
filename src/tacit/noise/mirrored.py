"""Mirrored binomial noise: as many noise bits that are rarely one as bits that are rarely zero.

That is N + X − X' with X, X' independent Binomial(N, q): the noise of a shuffler without the floor that bits of one
bias have at a large epsilon (Lemma M11 (mirrored bits)). As n grows the law tends to Skellam noise; here it is
exact at every n.

G1  A counter that gains or loses one is certified by the exact accountant (PLD); δ > 0 always. Bits travel as
    messages of their own.
G2  The released noise, the sum minus N, is centred and symmetric with variance 2 N q (1-q).
G3  `radius` is the exact quantile of the noise of n counters; where its law is too wide to be listed, a larger one.
G4  `calibrate` finds bits as many as `Binomial` needs, each no more likely to be odd than it must be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.accounting.bits import least_mirrored_probability
from tacit.accounting.events import Events, MirroredEvent
from tacit.accounting.events.binomial import BEYOND, mirrored_law
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.errors import NotSupported, require, require_count, require_real
from tacit.noise.binomial import Binomial
from tacit.noise.protocol import require_failure_prob, require_simulation
from tacit.randomness import SimulationNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """The sum of `bits` noise bits of this probability q and as many of the opposite one, over a batch of n devices.

    >>> Mirrored(bits=1000, probability=0.0031).std.__round__(2)
    2.49
    """

    bits: int
    """N: bits of either bias, over all users."""
    probability: float

    NAME: ClassVar[str] = "mirrored-binomial"
    SUMMARY: ClassVar[str] = "noise bits of both biases of all users of a shuffled batch"
    PURE: ClassVar[bool] = False
    biases: ClassVar[int] = 2
    """How many times `bits` there are."""

    def __post_init__(self) -> None:
        require_count("bits", self.bits)
        require_real("probability of a noise bit", self.probability, low=0.0, high=0.5, open_low=True)

    @property
    def mean(self) -> float:
        """N q + N (1-q), which the analyzer subtracts."""
        return float(self.bits)

    @property
    def variance(self) -> float:
        """2 N q (1-q) (G2)."""
        return 2.0 * self.bits * self.probability * (1.0 - self.probability)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return math.sqrt(self.variance)

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """The centred noise of whole batches: X − X'."""
        generator = require_simulation(noise)
        up, down = (generator.binomial(self.bits, self.probability, size) for _ in range(2))
        return np.asarray(up - down, dtype=np.float64)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """The least t with P(|noise| > t) at most failure_prob (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        try:
            # A sum of n differences is the difference of two Binomial(nN, q).
            first, mass = mirrored_law(n * self.bits, self.probability)
        except NotSupported:  # X and X' each within t/2 of their mean, but for half of the failures
            half = Binomial(bits=self.bits, probability=self.probability)
            return 2.0 * half.radius(p / 2.0, n)
        above = np.cumsum(mass[::-1])[::-1]  # P(D ≥ d); |D| > t has twice P(D ≥ t + 1)
        inside = np.flatnonzero(2.0 * (above * (1.0 + 1e-9) + BEYOND) <= p)
        return float(max(0, first + int(inside[0]) - 1)) if len(inside) else float(self.bits * n)

    def events(self, family: Family) -> Events:
        """One event per counter that changes: up and down are alike (G1)."""
        require(family.shift == 1.0, "bits cover counters that change by one", given=family.shift)
        return tuple(
            (MirroredEvent(bits=self.bits, probability=self.probability, shift=shift), count)
            for shift, count in ((1, family.up), (-1, family.down))
            if count
        )

    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        """The log ratio ln P(v - shift) - ln P(v) of the centred noise; ±∞ where only one can have happened."""
        k = np.rint(values)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(self._log_mass(k - shift) - self._log_mass(k), nan=0.0))

    def _log_mass(self, k: Floats) -> Floats:
        """The log mass at k; -∞ where it is not a positive double."""
        first, mass = mirrored_law(self.bits, self.probability)
        place = np.asarray(k - first, dtype=np.int64)
        inside = (place >= 0) & (place < len(mass))
        return np.where(inside, np.log(mass[np.clip(place, 0, len(mass) - 1)]), -np.inf)

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, *, users: int = 1) -> Mirrored:
        """The least noise of this kind under which these families together are (epsilon, delta)-private (G4)."""
        bits = Binomial.calibrate(families, epsilon, delta, users=users).bits
        up, down = sum(family.up for family in families), sum(family.down for family in families)
        return cls(bits=bits, probability=least_mirrored_probability(epsilon, delta, up, down, bits))
