"""Factorization counters: Gaussian noise, correlated over time, for approximate privacy.

The matrix A of prefix sums (lower triangular, all ones) is split as A = B C into lower triangular Toeplitz matrices;
the released prefixes are A x + B z with z independent N(0, σ²). The noise of prefix k has variance σ² Σ_{j<k} b_j², and
one user of sensitivity s is as exposed as by one Gaussian noise of deviation σ over the shift s ‖c‖, where
‖c‖² = Σ_{j<K} c_j².

`BufferedToeplitz` has a rational b with four poles: it streams with four numbers per counter. Its error is that of the
square-root factorization (B = C, b(x) = 1/√(1−x): c_0 = 1, c_j = c_{j-1} (2j−1)/(2j)) to 0.2% at K = 20,000 (1.5% at
10⁶), and it is certified by the exact norm of its own C.

The same holds under adaptive use (later users may depend on everything released): Lemma C2 (factorization).

The buffered stream needs one Gaussian draw and a few multiplications per counter and step.
The noise of prefix k is (B z)_k = z_k + Σ_i ω_i s_i, where buffer i holds s_i = Σ_{j<k} θ_i^{k-1-j} z_j and decays by
its rate p_i = 1 − θ_i with every step. Nothing else is kept, so the memory does not depend on the number of steps.

References: H. Fichtenberger, M. Henzinger, J. Upadhyay, ICML 2023 (square root); see `buffered_rates` for the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, PrivacyBudgetExceeded, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.continual.buffered_rates import (
    buffer_weights,
    buffered_rates,
    earliest_norm,
    noise_norm,
    strategy_norm,
)
from tacit.noise.continual.counter import Prefixes, require_prefix
from tacit.noise.protocol import require_failure_prob

# Norms are sums of positive terms, right to about 1e-14; they enter sensitivities widened by this much.
_ROUNDING = 1e-12


class BufferedParams(NamedTuple):
    """What the kernels need of a buffered factorization: all public."""

    releases: int
    sigma: float
    rates: Floats  # [buffers], p_i
    weights: Floats  # [buffers], ω_i


class BufferedState(NamedTuple):
    """The noise of d counters."""

    time: Ints  # [1], users so far
    buffers: Floats  # [buffers, d]
    draws: Floats  # [1, d], fresh noise of this step
    noise: Floats  # [d], noise of the current prefix


@kernel
def buffered_advance(params: BufferedParams, state: BufferedState, draws: Floats) -> None:
    """Count one more user: draws[0] is the fresh noise z of this step."""
    if state.time[0] >= params.releases:
        raise PrivacyBudgetExceeded("all releases of this counter are spent; calibrate one with more steps")
    state.time[0] += 1
    size = state.noise.shape[0]
    for c in range(size):
        state.noise[c] = draws[0, c]
    for i in range(params.rates.shape[0]):
        rate, weight = params.rates[i], params.weights[i]
        for c in range(size):
            # noise_k = z_k + Σ_i ω_i s_i,    s_i ← θ_i s_i + z_k
            state.noise[c] += weight * state.buffers[i, c]
            state.buffers[i, c] += draws[0, c] - rate * state.buffers[i, c]


@kernel
def buffered_step(params: BufferedParams, state: BufferedState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Gaussian noise."""
    for c in range(state.noise.shape[0]):
        state.draws[0, c] = params.sigma * generator.standard_normal()
    buffered_advance(params, state, state.draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factorization(Prefixes):
    """What factorizations share: K steps, node noise sigma."""

    steps: int
    sigma: float

    def __post_init__(self) -> None:
        require_count("steps", self.steps)
        require_real("sigma", self.sigma, low=0.0, open_low=True)

    @property
    def releases(self) -> int:
        """How many prefixes may be released: 1..releases."""
        return self.steps

    @property
    def subgamma(self) -> float:
        """Gaussian noise is sub-Gaussian."""
        return 0.0

    @classmethod
    def for_steps(cls, steps: int, sigma: float) -> Self:
        """The factorization of this kind for this many steps."""
        return cls(steps=steps, sigma=sigma)

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, steps: int) -> Self:
        """The least common noise for all `families` together."""
        if delta == 0.0:
            raise NotSupported("Gaussian noise never gives pure privacy (delta = 0): use a positive delta, or KaryTree")
        # σ = ‖c‖ Δ₂ / μ(ε, δ)
        l2 = math.sqrt(sum(family.l2_squared for family in families))
        enough = cls.for_steps(steps, 1.0).sensitivity * l2 / gaussian_mu(epsilon, delta)
        return least_noise(
            lambda sigma: cls.for_steps(steps, sigma), families, epsilon=epsilon, delta=delta, enough=enough
        )

    @classmethod
    def for_releases(cls, families: Sequence[Family], epsilon: float, delta: float, releases: int) -> Self:
        """The counter with the least noise that publishes prefixes 1..releases: every step."""
        return cls.calibrate(families, epsilon, delta, releases)

    @property
    def sensitivity(self) -> float:
        """‖c‖, rounded up: the shift of the equivalent single Gaussian noise for a user of sensitivity one."""
        raise NotImplementedError

    def norm_at(self, k: int) -> float:
        """Σ_{j<k} b_j²: the variance of prefix k in units of σ²."""
        raise NotImplementedError

    def variance_at(self, k: int) -> float:
        """The noise variance of prefix k."""
        return self.sigma**2 * self.norm_at(require_prefix(k, self.steps))

    @property
    def max_std(self) -> float:
        """The largest standard deviation of any released prefix: that of the last."""
        return self.std_at(self.steps)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """The exact two-sided quantile of the sum of `terms` independent last prefixes, rounded up."""
        quantile = -float(special.ndtri(require_failure_prob(failure_prob) / 2))
        return self.max_std * math.sqrt(require_count("terms", terms)) * quantile * (1 + _ROUNDING)

    def events(self, family: Family) -> Events:
        """What one user is exposed to: one Gaussian noise over shift · ‖c‖ for every differing counter."""
        return ((GaussianEvent(sigma=self.sigma, shift=family.shift * self.sensitivity), family.differing),)

    def person_sensitivity(self, reports: int) -> float:
        """‖Σ_{i≤g} C e_i‖, rounded up: the shift of the earliest g steps together, the largest of any g steps."""
        raise NotImplementedError

    def person_events(self, families: Sequence[Family], reports: int) -> Events:
        """What a person with several reports is exposed to: Lemma C10 (several reports), (a)."""
        norm = self.person_sensitivity(min(reports, self.steps))
        return tuple(
            (GaussianEvent(sigma=self.sigma, shift=family.shift * norm), family.differing) for family in families
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedToeplitz(Factorization):
    """A factorization whose noise streams through a few decaying buffers; memory does not depend on the steps.

    G1. Exposure: for every differing counter one Gaussian noise over shift · ‖c‖, with the exact norm of the C that
        belongs to these poles and zeros, under adaptive use.
    G2. Error: prefix k has variance σ² Σ_{j<k} b_j², in closed form.
    G3. Radius: the exact Gaussian quantile.
    G4. Covariance: the stream's noise is B z exactly (the impulse response of the kernel is b).
    G5. Calibration: `calibrate` is private for the target it was given, and 0.1% less noise is not.

    >>> one = [Family(name="count", up=1, down=0, shift=1.0)]
    >>> round(BufferedToeplitz.calibrate(one, 1.0, 1e-6, 20_000).max_std, 1)
    17.9
    """

    poles: tuple[float, ...]
    zeros: tuple[float, ...]

    NAME: ClassVar[str] = "buffered-toeplitz"
    SUMMARY: ClassVar[str] = "factorization with Gaussian noise through four buffers"
    PURE: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Factorization.__post_init__(self)
        buffer_weights(self.poles, self.zeros)  # refuses rates that do not interlace

    @classmethod
    def for_steps(cls, steps: int, sigma: float) -> Self:
        """The factorization with the tabulated rates for this many steps."""
        poles, zeros = buffered_rates(steps)
        return cls(steps=steps, sigma=sigma, poles=poles, zeros=zeros)

    @property
    def sensitivity(self) -> float:
        """‖c‖ of its own C over K steps, rounded up."""
        return math.sqrt(_strategy_norm(self.poles, self.zeros, self.steps)) * (1 + _ROUNDING)

    def person_sensitivity(self, reports: int) -> float:
        """‖Σ_{i≤g} C e_i‖ of its own C over K steps, rounded up."""
        return math.sqrt(earliest_norm(self.poles, self.zeros, self.steps, reports)) * (1 + _ROUNDING)

    def norm_at(self, k: int) -> float:
        """Σ_{j<k} b_j²."""
        return _noise_norm(self.poles, self.zeros, k)

    @property
    def params(self) -> BufferedParams:
        """The parameters of the kernels."""
        weights = _weights(self.poles, self.zeros).copy()
        return BufferedParams(self.releases, float(self.sigma), np.array(self.poles), weights)

    step = staticmethod(buffered_step)
    advance = staticmethod(buffered_advance)

    def begin(self, dimension: int) -> BufferedState:
        """The stream before the first user, for `dimension` counters."""
        params = self.params
        require_count("dimension", dimension)
        return BufferedState(
            time=np.zeros(1, dtype=np.int64),
            buffers=np.zeros((params.rates.size, dimension)),
            draws=np.zeros((1, dimension)),
            noise=np.zeros(dimension),
        )

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes: one."""
        require_count("prefix", k)
        return 1


def square_root_coefficients(steps: int) -> Floats:
    """The coefficients of 1/√(1−x): c_0 = 1, c_j = c_{j-1} (2j−1)/(2j).

    >>> square_root_coefficients(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    j = np.arange(1, require_count("steps", steps), dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


@lru_cache(maxsize=256)
def _weights(poles: tuple[float, ...], zeros: tuple[float, ...]) -> Floats:
    """The weights of the buffers of a mechanism whose rates were checked; every release asks for them."""
    return buffer_weights(poles, zeros)


_noise_norm, _strategy_norm = lru_cache(maxsize=256)(noise_norm), lru_cache(maxsize=256)(strategy_norm)
"""Of the same mechanisms: runs of a sweep ask for them again and again."""
