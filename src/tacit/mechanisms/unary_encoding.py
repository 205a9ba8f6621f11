"""Optimized unary encoding of one slot: a one-hot vector, bit by bit, with a one kept half the time.

A slot is one family at one step; its data are a one-hot vector. A user draws one of `slots` slots without looking at
the data and sends only that vector, with all of ε: a one is sent as one with probability p = 1/2, a zero with
q = 1/(e^ε+1). A counter adds up the bits of `feeding` slots: one, or H of them when it is aggregated over the steps.

G1  A replaced vector costs ε, exactly: two bits differ, and their likelihood ratio is at most (1-q)/q = e^ε. A user who
    sends one slot pays ε once in all, however many slots there are to choose from.
G2  `debias` is unbiased over the bits and the choice of the slot. A user with N ones among the `feeding` bits of a
    counter adds the variance  slots · feeding · 4e^ε/(e^ε-1)²  (the noise)  +  2 slots N - N²  (the sampling).
G3  `radius` covers the error of a sum over n users, whatever their bits: the Chernoff bound of the worst bits with the
    choice of the slot included.
G4  `calibrate` takes all of ε for the one slot, rounded to the private side.

Three families over H = 6 steps (18 slots), ε = 1, counters aggregated over the steps: noise variance 398 per user
(Laplace noise as printed: 2592), plus a sampling variance of at most 180.

Reference: T. Wang, J. Blocki, N. Li and S. Jha, "Locally differentially private protocols for frequency estimation",
USENIX Security 2017; the one-slot design is not in the papers that tacit implements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.errors import require, require_count, require_real
from tacit.mechanisms.protocol import require_failure_prob, require_simulation
from tacit.mechanisms.randomized_response import debiasing_variance, flip_probability
from tacit.randomness import SimulationNoise

__all__ = ["UnaryEncoding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryEncoding:
    """The bits of one slot out of `slots`, for counters fed by `feeding` slots each.

    >>> mechanism = UnaryEncoding(epsilon=1.0, slots=18, feeding=6)
    >>> round(math.sqrt(mechanism.noise_variance), 2), mechanism.sampling_variance
    (19.94, 180.0)
    """

    epsilon: float
    slots: int
    feeding: int

    def __post_init__(self) -> None:
        require_real("epsilon of one slot", self.epsilon, low=0.0, open_low=True)
        require_count("slots", self.slots)
        require_count("feeding slots", self.feeding)
        require(self.feeding <= self.slots, f"a counter is fed by at most all {self.slots} slots", self.feeding)

    @property
    def keep(self) -> float:
        """P(a one is sent as one), p = 1/2."""
        return 0.5

    @property
    def rise(self) -> float:
        """P(a zero is sent as one), q = 1/(e^ε+1)."""
        return flip_probability(self.epsilon)

    @property
    def gain(self) -> float:
        """The factor slots/(p-q) of the de-biasing; p - q = tanh(ε/2)/2."""
        return 2.0 * self.slots / math.tanh(self.epsilon / 2.0)

    @property
    def noise_variance(self) -> float:
        """The variance that the random bits add to a counter, per user: slots · feeding · q(1-q)/(p-q)² (G2)."""
        # q(1-q)/(p-q)² = 4e^ε/(e^ε-1)²
        return self.slots * self.feeding * 4.0 * debiasing_variance(self.epsilon)

    @property
    def sampling_variance(self) -> float:
        """The most that choosing one slot adds, per user: 2 slots N - N² at N = feeding (G2)."""
        return float(2 * self.slots * self.feeding - self.feeding**2)

    @property
    def variance(self) -> float:
        """The largest variance of a counter, per user: noise and sampling."""
        return self.noise_variance + self.sampling_variance

    @property
    def std(self) -> float:
        """The largest standard deviation of a counter, per user."""
        return math.sqrt(self.variance)

    def randomize(self, bits: ArrayLike, noise: SimulationNoise) -> NDArray[np.int64]:
        """The sent bits of the chosen slot."""
        exact = np.asarray(bits, dtype=np.int64)
        uniform = require_simulation(noise).random(exact.shape)
        return np.asarray(uniform < np.where(exact == 1, self.keep, self.rise), dtype=np.int64)

    def debias(self, ones: ArrayLike, senders: ArrayLike = 1) -> NDArray[np.float64]:
        """The unbiased estimate of a counter: `senders` users sent a slot that feeds it, `ones` of them a one."""
        # n̂ = slots/(p-q) (ñ − q · senders)
        return self.gain * (np.asarray(ones, dtype=np.float64) - self.rise * np.asarray(senders, dtype=np.float64))

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> NDArray[np.float64]:
        """Centred noise of one user in counters whose bits are all zero: mostly another slot is sent."""
        generator = require_simulation(noise)
        sends = generator.random(size) < self.feeding / self.slots
        return self.debias(sends & (generator.random(size) < self.rise), sends)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|error of a counter over `terms` users| > t) <= failure_prob, for all bits (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        log_two = math.log(2.0 / p)
        up, down = self.gain * (1.0 - self.rise), self.gain * self.rise  # the estimate of one sent bit: up or -down
        ones = np.arange(self.feeding + 1)  # N, whatever it is
        one, zero = ones / self.slots, (self.feeding - ones) / self.slots

        def cumulant(rate: float) -> float:
            # ln E exp(λ (estimate − N)), estimate = up or −down if a feeding slot is sent and 0 otherwise
            rise, fall = math.expm1(rate * up), math.expm1(-rate * down)
            inner = one * (self.keep * rise + (1.0 - self.keep) * fall) + zero * (
                self.rise * rise + (1.0 - self.rise) * fall
            )
            return float(np.max(np.log1p(inner) - rate * ones))

        # P(|S| > t) ≤ 2 exp(n max κ(±λ) − λt); Gaussian tails say where to look for λ.
        guess = math.sqrt(2.0 * log_two / (n * self.variance))
        bounds = (1e-3 * guess, min(3.0 * guess, 500.0 / up))
        found = scipy.optimize.minimize_scalar(
            lambda x: (log_two + n * max(cumulant(x), cumulant(-x))) / x, bounds=bounds, method="bounded"
        )
        return min(float(found.fun), n * max(up, down + self.feeding)) * (1 + 1e-9)

    def events(self, family: Family) -> Events:
        """One event per replaced one-hot vector (G1); the one sent slot is the family Family(up=1, down=1, shift=1)."""
        require(family.shift == 1.0, "unary encoding covers one-hot vectors", given=family.shift)
        vectors = max(family.up, family.down)
        return ((PureEvent(epsilon=self.epsilon), vectors),) if vectors else ()

    @classmethod
    def calibrate(
        cls, families: Sequence[Family], epsilon: float, delta: float, *, slots: int = 1, feeding: int = 1
    ) -> UnaryEncoding:
        """The largest ε per vector under which these families together are (epsilon, delta)-private (G4)."""
        # The knob of the search is 1/ε, which grows with the noise.
        vectors = sum(max(family.up, family.down) for family in families)
        enough = vectors / require_real("epsilon", epsilon, low=0.0, open_low=True)
        return least_noise(
            lambda knob: cls(epsilon=1.0 / knob, slots=slots, feeding=feeding),
            families,
            epsilon=epsilon,
            delta=delta,
            enough=enough,
        )
