"""Randomized response: every bit is kept with probability e^ε₀/(e^ε₀+1) and flipped otherwise, then de-biased.

G1  Each bit that differs costs ε₀, exactly; D differing bits are (D ε₀, 0)-private (Lemma L1 (randomized response)).
G2  `debias(randomize(bit))` is unbiased, and its variance is e^ε₀/(e^ε₀-1)², whatever the bit.
G3  `radius` covers the error of a sum of n de-biased bits, whatever the bits: the Chernoff bound over the worst bits,
    never above Hoeffding's (e^ε₀+1)/(e^ε₀-1) √(n/2 ln(2/p)), never beyond what n bits can reach.
G4  `calibrate` finds the largest ε₀ = ε/D, rounded to the private side.
G5  No bit is certain: a seeded uniform number is a multiple of 2⁻⁵³, and the probability of a flip is rounded up to
    one, 2⁻⁵³ at least, so that sampling keeps the certified ε₀, however large (beyond 36.7 it is more private).

A released counter adds up many bits (over users, and over the steps of one user): its noise is a sum of as many terms.

Reference: [garcelon2021local] Alg. 5, with the missing de-biasing line; its printed radius is too small (see below).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius
from numpy.typing import ArrayLike

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count, require_real
from tacit.kernels import lean_kernel
from tacit.noise.additive import WholeMessage
from tacit.noise.layout import (
    Bits,
    flattened,
    rounded_rewards,
    send_bits,
    slot_counts,
    slot_sender,
)
from tacit.noise.one_slot import bit_ratio
from tacit.noise.protocol import (
    Counts,
    EncoderParameters,
    Encoding,
    Shape,
    require_failure_prob,
    require_no_squares,
    require_simulation,
)
from tacit.noise.support_index import category_counts, gathered, slots_of
from tacit.randomness import SimulationNoise

MIN_PROBABILITY = 2.0**-53
"""The least probability that a comparison with a seeded uniform number can have."""


send_slot = slot_sender(send_bits)

_NO_NOISE = 60.0  # an epsilon at which nothing is flipped: e⁻⁶⁰ vanishes beside 1


@lean_kernel
def response_encoder(
    parameters: EncoderParameters,
    message: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Every bit of every step is sent, each kept with probability `keep` and flipped otherwise."""
    message[:] = 0.0
    for slot in parameters.places.slots:
        send_slot(parameters, message, slot, states, actions, rewards, generator)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(WholeMessage):
    """One randomized bit at a time.

    >>> bit = RandomizedResponse(epsilon=math.log(3.0))
    >>> round(bit.flip, 12), round(bit.variance, 12)
    (0.25, 0.75)
    """

    epsilon: float

    NAME: ClassVar[str] = "rr"
    SUMMARY: ClassVar[str] = "randomized response: every bit of every step, flipped at random"
    PURE: ClassVar[bool] = True
    ENCODINGS: ClassVar[tuple[Encoding, ...]] = ("families", "complement")
    COUPLED: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_real("epsilon of one bit", self.epsilon, low=0.0, open_low=True)

    @property
    def flip(self) -> float:
        """The probability of a flip, 1/(e^ε₀+1), and never zero (G5)."""
        return max(flip_probability(self.epsilon), MIN_PROBABILITY)

    @property
    def gain(self) -> float:
        """The factor (e^ε₀+1)/(e^ε₀-1) of the de-biasing, which is also the range of one term."""
        return 1.0 / math.tanh(self.epsilon / 2.0)

    @property
    def variance(self) -> float:
        """e^ε₀/(e^ε₀-1)² per bit (G2)."""
        return debiasing_variance(self.epsilon)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one bit."""
        return math.sqrt(self.variance)

    def randomize(self, bits: ArrayLike, noise: SimulationNoise) -> Ints:
        """Flip each bit with probability `flip`."""
        exact = np.asarray(bits, dtype=np.int64)
        flips = require_simulation(noise).random(exact.shape) < self.flip
        return np.where(flips, 1 - exact, exact)

    def debias(self, ones: ArrayLike, terms: ArrayLike = 1) -> Floats:
        """The unbiased estimate of a sum of `terms` bits of which `ones` came out as one."""
        # n̂ = (e^ε₀+1)/(e^ε₀-1) (ñ − n/(e^ε₀+1))
        return self.gain * (np.asarray(ones, dtype=np.float64) - self.flip * np.asarray(terms, dtype=np.float64))

    def arrived(self, ones: Ints, senders: int, generator: np.random.Generator) -> Floats:
        """The de-biased sum of the bits of so many users, `ones` of them one: a binomial number arrives as one."""
        sent = generator.binomial(ones, 1.0 - self.flip) + generator.binomial(senders - ones, self.flip)
        return np.asarray(self.gain * (sent - senders * self.flip))

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """Centred noise of single bits that are zero (for a bit that is one, it is mirrored)."""
        return self.debias(require_simulation(noise).random(size) < self.flip)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|error of a de-biased sum of `terms` bits| > t) <= failure_prob, for all bits (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        log_two, f = math.log(2.0 / p), self.flip

        def cumulant(rate: float) -> float:
            # ln E exp(rate · centred flip) of a zero; a one is mirrored, so the worst bits have the larger of ±rate.
            return max(math.log1p(f * math.expm1(x)) - f * x for x in (rate, -rate))

        # P(|S| > t) ≤ 2 exp(n κ(λ) − λ t / gain), and Hoeffding's κ(λ) ≤ λ²/8 says where to look for λ.
        hoeffding = math.sqrt(8.0 * log_two / n)
        bounds = (0.1 * hoeffding, 10.0 * hoeffding)
        found = scipy.optimize.minimize_scalar(
            lambda x: (log_two + n * cumulant(x)) / x, bounds=bounds, method="bounded"
        )
        chernoff = min(float(found.fun), (log_two + n * cumulant(hoeffding)) / hoeffding)
        return self.gain * min(chernoff, n * (1.0 - f)) * (1 + 1e-9)

    def events(self, family: Family) -> Events:
        """One event per differing bit (G1); a counter of several bits differs in as many."""
        require(float(family.shift).is_integer(), "randomized response covers whole bits", given=family.shift)
        bits = family.differing * int(family.shift)
        return ((PureEvent(epsilon=self.epsilon), bits),) if bits else ()

    def user_variance(self, steps: int) -> float:
        """One noisy bit per step."""
        return self.variance * steps

    def sum_noise(self, cells: int, steps: int) -> tuple[float, float]:
        """Independent bits: variances add up; each is bounded by the gain."""
        return cells * self.user_variance(steps), self.gain / 3.0

    encoder = staticmethod(response_encoder)

    @property
    def parameters(self) -> Bits:
        """What the encoder needs."""
        return Bits(keep=private_keep(self.flip), rise=self.flip, gain=self.gain)

    def total(
        self, transition: Self, encoding: Encoding, shape: Shape, counts: Counts, noise: SimulationNoise
    ) -> Floats:
        """What `arrived` of every slot."""
        generator = noise.generator
        held = slot_counts(encoding, counts, rounded_rewards(counts, generator))
        slots, arrived = slots_of(shape), list[Floats]()
        for slot in slots:
            ones = category_counts(shape, int(slot), held[slot], counts.users)
            arrived.append((transition if slot % 2 else self).arrived(ones, counts.users, generator))
        told = shape.support
        return flattened(shape, arrived) if told is None else gathered(told, shape.staged, arrived)

    def quiet(self) -> Self:
        """Nothing is flipped."""
        return replace(self, epsilon=_NO_NOISE)

    def likelihood_ratio(self, values: Floats, before: Floats, after: Floats) -> Floats:
        """That of one bit; the server knows the gain, so a de-biased bit is 0 or 1 again."""
        sent = values / self.gain + self.flip > 0.5
        ratio = bit_ratio(sent, before == 1.0, after == 1.0, 1.0 - self.flip, self.flip)
        return np.asarray(ratio * (np.abs(values) > 1e-12))

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> tuple[Self, Self]:
        """The printed ε/(6H) of Alg. 5."""
        del delta
        require_no_squares(squares)
        chosen = cls(epsilon=paper_response_epsilon(shape.horizon, epsilon))
        return chosen, chosen

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float) -> Self:
        """The largest ε₀ under which these families together are (epsilon, delta)-private (G4)."""
        # Pure: ε₀ = ε / D; the knob of the search is 1/ε₀, which grows with the noise.
        bits = sum(family.l1 for family in families)
        enough = bits / require_real("epsilon", epsilon, low=0.0, open_low=True)
        return least_noise(lambda knob: cls(epsilon=1.0 / knob), families, epsilon=epsilon, delta=delta, enough=enough)


def flip_probability(epsilon: float) -> float:
    """1/(e^ε+1), for every ε.

    >>> flip_probability(0.0), flip_probability(1e6)
    (0.5, 0.0)
    """
    return math.exp(-epsilon) / (1.0 + math.exp(-epsilon))


def private_keep(lie: float, cells: int = 2) -> float:
    """The largest p that `random() < p` meets exactly and that leaves at least `lie` for the other answers (G5).

    1 - `lie` itself is rounded to a multiple of 2⁻⁵³, to 1 from ε = 37 on. Here `lie` is rounded up, beyond what
    its own rounding and an uneven choice among so many cells can lose.

    >>> private_keep(0.25) < 0.75, private_keep(1e-30) == 1.0 - 2.0**-53
    (True, True)
    """
    units = math.ceil(lie * (1.0 + cells * 2.0**-50) * 2.0**53)
    return 1.0 - max(1, units) * MIN_PROBABILITY


def debiasing_variance(epsilon: float) -> float:
    """e^ε/(e^ε-1)², for every ε above 0.

    >>> round(debiasing_variance(math.log(3.0)), 12), debiasing_variance(1e6)
    (0.75, 0.0)
    """
    return math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def paper_response_epsilon(horizon: int, epsilon: float) -> float:
    """The printed ε₀ = ε/(6H) of [garcelon2021local] Alg. 5: true, it really gives (6H-2)/(6H) ε.

    >>> round(1 / paper_response_epsilon(6, 1.0), 9)
    36.0
    """
    return require_real("epsilon", epsilon, low=0.0, open_low=True) / (6.0 * require_count("horizon", horizon))
