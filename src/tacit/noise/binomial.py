"""Binomial noise: the sum of the noise bits that all users of a batch send along, as the shuffler delivers it.

G1  A counter that gains or loses one under Binomial(N, p) noise is certified by the exact accountant (PLD), up and down
    counters separately; δ > 0 always. It holds for the sum of single bits: bits must travel as messages of their own,
    a message with the sum of one user's bits gives that user away.
G2  The released noise, the sum minus its mean, is centred with variance N p (1-p).
G3  `radius` is the exact quantile of Binomial(n N, p) around its mean.
G4  `calibrate` finds the fewest fair bits, as many for everybody, rounded to the private side.

Reference: [bai2024shuffle] Alg. 4, [bai2025secure]; A. Cheu et al. (2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from tacit.accounting.bits import least_bits
from tacit.accounting.events import BinomialEvent, Events
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.errors import NotSupported, require, require_count, require_real
from tacit.noise.protocol import require_failure_prob, require_simulation
from tacit.randomness import SimulationNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class Binomial:
    """The sum of `bits` noise bits, each one with this probability, over all users of a batch together.

    >>> families = (Family(name="all three", up=18, down=18, shift=1.0),)
    >>> Binomial.calibrate(families, epsilon=1.0, delta=1e-6).std.__round__(1)
    25.4
    """

    bits: int
    probability: float

    NAME: ClassVar[str] = "binomial"
    SUMMARY: ClassVar[str] = "noise bits of all users of a shuffled batch"
    PURE: ClassVar[bool] = False
    biases: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_count("bits", self.bits, most=2**63 - 1)
        require_real("probability of a noise bit", self.probability, low=0.0, high=0.5, open_low=True)

    @property
    def mean(self) -> float:
        """N p, which the analyzer subtracts."""
        return self.bits * self.probability

    @property
    def variance(self) -> float:
        """N p (1-p) (G2)."""
        return self.bits * self.probability * (1.0 - self.probability)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return math.sqrt(self.variance)

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """The centred noise of whole batches: one draw for the sum of all bits."""
        return np.asarray(require_simulation(noise).binomial(self.bits, self.probability, size) - self.mean)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """The least t with P(sum - mean > t) and P(mean - sum > t) each at most failure_prob/2 (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        # A sum of n Binomial(N, p) is Binomial(nN, p).
        N, q = n * self.bits, self.probability
        upper = _least_cut(N, lambda k: binomial_tail(k, N, q) <= p / 2)  # P(sum > upper) ≤ p/2
        lower = N - _least_cut(N, lambda k: binomial_tail(k, N, 1.0 - q) <= p / 2)  # the same for the zeros
        return max(upper - n * self.mean, n * self.mean - lower)

    def events(self, family: Family) -> Events:
        """One event per counter that goes up, another per counter that goes down (G1)."""
        require(family.shift == 1.0, "bits cover counters that change by one", given=family.shift)
        return tuple(
            (BinomialEvent(bits=self.bits, probability=self.probability, shift=shift), count)
            for shift, count in ((1, family.up), (-1, family.down))
            if count
        )

    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        """The log ratio ln P(v - shift) - ln P(v) of the centred noise; ±∞ where only one can have happened."""
        k = np.rint(values + self.mean)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(self._log_choice(k - shift) - self._log_choice(k), nan=0.0))

    def _log_choice(self, k: Floats) -> Floats:
        """The log mass at k, up to a constant; -∞ outside 0..N."""
        inside = (k >= 0) & (k <= self.bits)
        safe = np.where(inside, k, 0.0)
        odds = math.log(self.probability) - math.log1p(-self.probability)
        ones, others = (scipy.special.gammaln(count + 1.0) for count in (safe, self.bits - safe))
        return np.where(inside, safe * odds - ones - others, -np.inf)

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, *, users: int = 1) -> Binomial:
        """The fewest fair bits under which these families together are (epsilon, delta)-private (G4).

        With `users`, the fewest of which everybody adds as many as everybody else.
        """
        up, down = _pattern(families)
        _require_delta(delta)
        return cls(bits=least_bits(epsilon, delta, up, down, users), probability=0.5)


def binomial_tail(k: int, bits: int, probability: float) -> float:
    """P(Binomial(bits, probability) > k), by the incomplete beta function: accurate far out in the tail.

    >>> round(binomial_tail(1, 3, 0.5), 12), binomial_tail(3, 3, 0.5)
    (0.5, 0.0)
    """
    if k >= bits:
        return 0.0
    return float(scipy.special.betainc(k + 1.0, bits - k, probability)) if k >= 0 else 1.0


def paper_threshold(horizon: int, epsilon: float, delta: float) -> float:
    """The printed τ = 96 ln(2/β)/ε'² with ε' = ε/(3H) of [bai2024shuffle] Alg. 4, in fair bits per counter.

    >>> round(paper_threshold(6, 1.0, 1e-6))
    451277
    """
    H = require_count("horizon", horizon)
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)
    return 96.0 * math.log(2.0 / delta) * (3.0 * H / epsilon) ** 2


def paper_binomial(horizon: int, epsilon: float, delta: float, *, users: int, cells: int | None = None) -> Binomial:
    """The printed noise of [bai2024shuffle] Alg. 4; with `cells` = HXA that of [bai2025secure], which splits β.

    What it really gives: the proof counts half of what a replaced user changes and does not compose β, but the constant
    96 absorbs both. Sent as single bits it is (ε, β)-private, with about 16 times the noise: for H = 6 and 1000 users a
    claim of (1, 1e-6) is really 0.063 (0.055 with `cells`). As printed, with one integer message per user, it is false.

    >>> paper_binomial(6, 1.0, 1e-6, users=1000)
    Binomial(bits=452000, probability=0.5)
    """
    n = require_count("users", users)
    split = delta if cells is None else delta / require_count("cells", cells)
    tau = paper_threshold(horizon, epsilon, split)
    if n <= tau:
        return Binomial(bits=math.ceil(tau / n) * n, probability=0.5)  # m = ⌈τ/n⌉ fair bits each
    return Binomial(bits=n, probability=tau / (2.0 * n))


def _least_cut(bits: int, enough: Callable[[int], bool]) -> int:
    """The least k in 0..bits for which `enough` holds; it must hold at `bits` and from its first k on."""
    low, high = -1, bits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _pattern(families: Sequence[Family]) -> tuple[int, int]:
    for family in families:
        require(family.shift == 1.0, "bits cover counters that change by one", given=family.shift)
    return sum(family.up for family in families), sum(family.down for family in families)


def _require_delta(delta: float) -> None:
    if delta == 0.0:
        raise NotSupported(
            "noise bits never give pure differential privacy (delta = 0): use a positive delta, or a local mechanism "
            "('laplace', 'rr' or 'oue')"
        )
