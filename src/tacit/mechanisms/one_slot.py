"""One slot of a trajectory, sent with all of ε: what unary encoding and subset selection have in common.

A slot is one family at one step; its data are a one-hot vector. A user draws one of `slots` slots without looking at
the data and sends a randomized version of that vector only, in which the one arrives as one with probability p and each
zero arrives as one with probability q. A counter adds up the bits of `feeding` slots: one, or H of them when it is
aggregated over the steps.

G1  A replaced vector costs ε, exactly. A user who sends one slot pays ε once in all, however many slots there are.
G2  `debias` is unbiased over the bits and the choice of the slot. A user with N ones among the `feeding` bits of a
    counter adds the variance  slots · feeding · q(1-q)/(p-q)²  (the noise)  +  w N - N²,  w = slots (1-2q)/(p-q)  (the
    sampling, Lemma L2 (one slot)): an estimate from n counts is as uncertain as if it rested on n/w users.
G3  `radius` covers the error of a sum over n users, whatever their bits: the Chernoff bound of the worst bits with the
    choice of the slot included.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.errors import require, require_count, require_real
from tacit.mechanisms.protocol import require_failure_prob, require_simulation
from tacit.randomness import SimulationNoise

__all__ = ["OneSlot", "calibrated_slot"]

SlotT = TypeVar("SlotT", bound="OneSlot")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSlot(ABC):
    """One slot out of `slots`, for counters fed by `feeding` slots each."""

    epsilon: float
    slots: int
    feeding: int

    def __post_init__(self) -> None:
        require_real("epsilon of one slot", self.epsilon, low=0.0, open_low=True)
        require_count("slots", self.slots)
        require_count("feeding slots", self.feeding)
        require(self.feeding <= self.slots, f"a counter is fed by at most all {self.slots} slots", self.feeding)

    @property
    @abstractmethod
    def keep(self) -> float:
        """P(a one arrives as one), p."""

    @property
    @abstractmethod
    def rise(self) -> float:
        """P(a zero arrives as one), q."""

    @property
    @abstractmethod
    def contrast(self) -> float:
        """The difference p - q, without cancellation."""

    @property
    def gain(self) -> float:
        """The factor slots/(p-q) of the de-biasing."""
        return self.slots / self.contrast

    @property
    def noise_variance(self) -> float:
        """The variance that the random bits add to a counter, per user: slots · feeding · q(1-q)/(p-q)² (G2)."""
        return self.slots * self.feeding * self.rise * (1.0 - self.rise) / self.contrast**2

    @property
    def weight(self) -> float:
        """What one counted user stands for: w = slots (1-2q)/(p-q) (G2)."""
        return self.slots * (1.0 - 2.0 * self.rise) / self.contrast

    @property
    def sampling_variance(self) -> float:
        """The most that choosing one slot adds, per user: w N - N² at the worst N up to `feeding` (G2)."""
        return self._sampling(self.weight)

    @property
    def variance(self) -> float:
        """The largest variance of a counter, per user: noise and sampling."""
        return self.noise_variance + self.sampling_variance

    @property
    def std(self) -> float:
        """The largest standard deviation of a counter, per user."""
        return math.sqrt(self.variance)

    def variance_at(self, ones: float) -> float:
        """The variance of a counter that holds `ones` of a user, or of a user on average: noise + w N - N² (G2)."""
        return self.noise_variance + self.weight * ones - ones**2

    def sum_variance(self, cells: int) -> float:
        """The largest variance of a sum over so many cells of every feeding slot, per user: noise and sampling."""
        p, q, m = self.keep, self.rise, cells
        # E (Σ bits - m q)² without and with the true cell among them
        empty = m * q * (1.0 - q) + m * (m - 1) * self.covariance
        held = p * (1.0 - p) + (m - 1) * q * (1.0 - q) + (m - 1) * (m - 2) * self.covariance
        held += 2.0 * (m - 1) * self.true_covariance + self.contrast**2
        scale = self.slots / self.contrast**2
        excess = scale * (held - empty)
        return scale * self.feeding * empty + self._sampling(excess)

    def _sampling(self, weight: float) -> float:
        """The largest w N - N² over N = 0, ..., feeding."""
        return max(weight * ones - ones**2 for ones in range(self.feeding + 1))

    @property
    def covariance(self) -> float:
        """Of the bits of two cells that are not the true one."""
        return 0.0

    @property
    def true_covariance(self) -> float:
        """Of the bits of the true cell and another one."""
        return 0.0

    def reach(self, cells: int) -> float:
        """The most that the sum over so many cells can be off, for one user."""
        return self.gain * cells + self.feeding

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
        guess = math.sqrt(2.0 * log_two / (n * max(self.variance, 1e-12)))
        bounds = (1e-3 * guess, min(3.0 * guess, 500.0 / up))
        found = scipy.optimize.minimize_scalar(
            lambda x: (log_two + n * max(cumulant(x), cumulant(-x))) / x, bounds=bounds, method="bounded"
        )
        return min(float(found.fun), n * max(up, down + self.feeding)) * (1 + 1e-9)

    def events(self, family: Family) -> Events:
        """One event per replaced one-hot vector (G1); the one sent slot is the family Family(up=1, down=1, shift=1)."""
        require(family.shift == 1.0, "one slot covers one-hot vectors", given=family.shift)
        vectors = max(family.up, family.down)
        return ((PureEvent(epsilon=self.epsilon), vectors),) if vectors else ()


def calibrated_slot(make: Callable[[float], SlotT], families: Sequence[Family], epsilon: float, delta: float) -> SlotT:
    """The mechanism with the largest ε per vector under which these families together are (epsilon, delta)-private."""
    # The knob of the search is 1/ε, which grows with the noise.
    vectors = sum(max(family.up, family.down) for family in families)
    enough = vectors / require_real("epsilon", epsilon, low=0.0, open_low=True)
    return least_noise(lambda knob: make(1.0 / knob), families, epsilon=epsilon, delta=delta, enough=enough)
