"""Optimized unary encoding of one slot: a one-hot vector, bit by bit, with a one kept half the time.

A one is sent as one with probability p = 1/2, a zero with q = 1/(e^ε+1), independently of each other. What it shares
with subset selection, above all the choice of the slot, is in `one_slot`; its guarantees hold here:

G1  A replaced vector costs ε, exactly: two bits differ, and their likelihood ratio is at most (1-q)/q = e^ε
    (Lemma L3 (unary encoding)).
G2  q(1-q)/(p-q)² = 4e^ε/(e^ε-1)², and a counted user stands for w = 2 slots.
G3  `radius` covers the error of a sum over n users, whatever their bits.
G4  `calibrate` takes all of ε for the one slot, rounded to the private side.

Three families over H = 6 steps (18 slots), ε = 1, counters aggregated over the steps: noise variance 398 per user
(Laplace noise as printed: 2592), plus a sampling variance of at most 180.

Reference: T. Wang, J. Blocki, N. Li and S. Jha, "Locally differentially private protocols for frequency estimation",
USENIX Security 2017; the one-slot design is not in the papers that tacit implements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.noise.exact import bernoulli_logistic, fair_bits
from tacit.noise.layout import Bits, send_bits
from tacit.noise.one_slot import OneSlot, calibrated_slot, feeding_slots, one_slot_encoder
from tacit.noise.protocol import Shape, require_simulation
from tacit.noise.randomized_response import MIN_PROBABILITY, debiasing_variance, flip_probability
from tacit.noise.support_index import slots_of
from tacit.randomness import SecureNoise, SimulationNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryEncoding(OneSlot):
    """The bits of one slot out of `slots`, for counters fed by `feeding` slots each.

    >>> mechanism = UnaryEncoding(epsilon=1.0, slots=18, feeding=6)
    >>> round(math.sqrt(mechanism.noise_variance), 2), mechanism.sampling_variance
    (19.94, 180.0)
    """

    NAME: ClassVar[str] = "oue"
    SUMMARY: ClassVar[str] = "one slot with all of epsilon, in optimized unary encoding"

    @property
    def keep(self) -> float:
        """P(a one is sent as one), p = 1/2."""
        return 0.5

    @property
    def rise(self) -> float:
        """P(a zero is sent as one), q = 1/(e^ε+1), and never zero (G1)."""
        return max(flip_probability(self.epsilon), MIN_PROBABILITY)

    @property
    def contrast(self) -> float:
        """P - q = tanh(ε/2)/2."""
        return math.tanh(self.epsilon / 2.0) / 2.0

    @property
    def noise_variance(self) -> float:
        """Slots · feeding · 4e^ε/(e^ε-1)² (G2)."""
        return self.slots * self.feeding * 4.0 * debiasing_variance(self.epsilon)

    @property
    def weight(self) -> float:
        """What one counted user stands for: (1-2q)/(p-q) = 2 times the slots."""
        return 2.0 * self.slots

    def randomize(self, bits: ArrayLike, noise: SimulationNoise) -> Ints:
        """The sent bits of the chosen slot."""
        exact = np.asarray(bits, dtype=np.int64)
        uniform = require_simulation(noise).random(exact.shape)
        return np.asarray(uniform < np.where(exact == 1, self.keep, self.rise), dtype=np.int64)

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel."""
        return one_slot_encoder(send_bits)

    @property
    def parameters(self) -> Bits:
        """What the encoder needs."""
        return Bits(keep=self.keep, rise=self.rise, gain=self.gain)

    def arrived(self, ones: Ints, senders: int, generator: np.random.Generator) -> Floats:
        """Of the bits that are one (zero), a binomial number arrives as one."""
        sent = generator.binomial(ones, self.keep) + generator.binomial(senders - ones, self.rise)
        return np.asarray(self.gain * (sent - senders * self.rise))

    def sent_bits(self, cells: int, hot: int, noise: SimulationNoise | SecureNoise) -> Ints:
        """Exact coins: fair for the one, e^ε to 1 against for the zeros."""
        if isinstance(noise, SimulationNoise):
            return self.randomize(np.arange(cells) == hot, noise)
        # The one of an empty vector, hot = -1, is in an extra cell at the end, which stays at home.
        bits = bernoulli_logistic(cells + (hot < 0), noise, gamma=self.epsilon).astype(np.int64)
        bits[hot] = fair_bits(1, noise)[0]
        return bits[:cells]

    @classmethod
    def tight(cls, shape: Shape, families: Sequence[Family], epsilon: float, delta: float) -> tuple[Self, Self]:
        """All of ε for the one slot."""
        del families, delta
        slots = len(slots_of(shape))
        outcome, moved = (cls(epsilon=epsilon, slots=slots, feeding=n) for n in feeding_slots(shape))
        return outcome, moved

    @classmethod
    def calibrate(
        cls, families: Sequence[Family], epsilon: float, delta: float, *, slots: int = 1, feeding: int = 1
    ) -> UnaryEncoding:
        """The largest ε per vector under which these families together are (epsilon, delta)-private (G4)."""
        return calibrated_slot(lambda most: cls(epsilon=most, slots=slots, feeding=feeding), families, epsilon, delta)
