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

References: H. Fichtenberger, M. Henzinger, J. Upadhyay, ICML 2023 (square root); the other below.

The rational approximation of 1/√(1−x) and its exact norms.

With poles θ_i = 1 − p_i and zeros λ_i = 1 − q_i (the *rates* p, q are what is stored: they stay exact near 1),

    b(x) = Π (1 − λ_i x) / Π (1 − θ_i x) = 1 + Σ ω_i x / (1 − θ_i x),
    c(x) = 1 / ((1 − x) b(x)) = γ_0 / (1 − x) + Σ γ_i / (1 − λ_i x).

If the rates interlace, p_1 < q_1 < p_2 < q_2 < … ≤ 1, all weights ω and γ are positive; so the sums of squares of the
coefficients of b and c over any number of steps are sums of positive geometric series, without any cancellation.

How the rates were found has no bearing on privacy: whatever they are, the sensitivity is the norm of their own c.
The table holds the minimisers of ‖b‖·‖c‖ for K = 10³..10⁸, to four digits; rates in between
are interpolated in ln K, which costs less than 0.01% of the error.

Reference: K. Dvijotham, H. B. McMahan, K. Pillutla, T. Steinke, A. Thakurta, "Efficient and near-optimal noise
generation for streaming differential privacy", FOCS 2024. There C is the buffered matrix; here B is, which saves the
fifth buffer and has the same error, because the objective is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np
import scipy

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, PrivacyBudgetExceeded, require, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.continual.counter import Prefixes, require_prefix
from tacit.noise.protocol import require_failure_prob

Rates: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""(rates of the poles of b, rates of its zeros), interlacing."""

_TABLE: Final[dict[int, Rates]] = {
    10**3: ((7.870e-4, 1.130e-2, 7.908e-2, 4.392e-1), (3.717e-3, 3.055e-2, 1.958e-1, 7.972e-1)),
    10**4: ((1.015e-4, 2.036e-3, 2.542e-2, 2.751e-1), (5.398e-4, 7.261e-3, 8.693e-2, 6.881e-1)),
    10**5: ((1.328e-5, 3.872e-4, 8.423e-3, 1.681e-1), (8.165e-5, 1.813e-3, 3.868e-2, 5.816e-1)),
    10**6: ((1.796e-6, 8.075e-5, 2.965e-3, 1.033e-1), (1.338e-5, 4.902e-4, 1.783e-2, 4.864e-1)),
    10**7: ((2.379e-7, 1.724e-5, 1.060e-3, 6.306e-2), (2.216e-6, 1.353e-4, 8.275e-3, 4.014e-1)),
    10**8: ((3.048e-8, 3.620e-6, 3.744e-4, 3.796e-2), (3.584e-7, 3.683e-5, 3.799e-3, 3.261e-1)),
}


@cache
def buffered_rates(steps: int) -> Rates:
    """Four poles and four zeros for a stream of this length, from the table.

    >>> buffered_rates(10_000)[0][0]
    0.0001015
    """
    K = min(max(require_count("steps", steps), min(_TABLE)), max(_TABLE))
    if K in _TABLE:
        return _TABLE[K]
    known = sorted(_TABLE)
    logs = np.log([np.ravel(_TABLE[length]) for length in known])
    found = np.exp([np.interp(math.log(K), np.log(known), column) for column in logs.T])
    half = len(found) // 2
    return tuple(map(float, found[:half])), tuple(map(float, found[half:]))


def buffer_weights(poles: Sequence[float], zeros: Sequence[float]) -> Floats:
    """The weights ω of the buffers: b(x) = 1 + Σ ω_i x / (1 − θ_i x)."""
    p, q = _interlaced(poles, zeros)
    # ω_i = Π_j (θ_i − λ_j) / Π_{j≠i} (θ_i − θ_j)
    return np.array([np.prod(q - p[i]) / np.prod(np.delete(p, i) - p[i]) for i in range(p.size)])


def noise_norm(poles: Sequence[float], zeros: Sequence[float], steps: int) -> float:
    """Σ_{j<K} b_j²: the variance of prefix K in units of σ². b_0 = 1, b_j = Σ ω_i θ_i^{j-1}.

    >>> noise_norm((0.5,), (1.0,), 2)
    1.25
    """
    p, _ = _interlaced(poles, zeros)
    weights = buffer_weights(poles, zeros)
    return float(1.0 + weights @ _geometric(p, steps - 1) @ weights)


def strategy_norm(poles: Sequence[float], zeros: Sequence[float], steps: int) -> float:
    """Σ_{j<K} c_j²: the squared shift that one user of sensitivity one causes, over the whole stream.

    >>> strategy_norm((0.5,), (1.0,), 3)                # c = (1 − x/2) / (1 − x) = 1 + x/2 + x²/2 + …
    1.5
    """
    r, weights = _strategy(poles, zeros)
    return float(weights @ _geometric(r, steps) @ weights)


def earliest_norm(poles: Sequence[float], zeros: Sequence[float], steps: int, columns: int) -> float:
    """‖Σ_{i≤g} C e_i‖² of the first g columns: the squared shift of one user in each of the first g steps.

    >>> earliest_norm((0.5,), (1.0,), 3, 1), earliest_norm((0.5,), (1.0,), 3, 2)     # (1, 1.5, 1)
    (1.5, 4.25)
    """
    g = require_count("columns", columns)
    require(g <= steps, f"there must be at most {steps} columns", g)
    r, weights = _strategy(poles, zeros)
    total = 0.0
    for last in range(g):
        # ⟨C e_i, C e_l⟩ = Σ_{s<K-l} c_s c_{s+l-i}, i < l from 0 on: twice, and once where i = l
        shared = _geometric(r, steps - last)
        total += float(weights @ shared @ weights)
        for gap in range(1, last + 1):
            total += 2.0 * float(weights @ shared @ (weights * (1.0 - r) ** gap))
    return total


def _strategy(poles: Sequence[float], zeros: Sequence[float]) -> tuple[Floats, Floats]:
    """Rates and positive weights γ of c_j = Σ γ_a (1 − r_a)^j."""
    p, q = _interlaced(poles, zeros)
    r = np.concatenate([[0.0], q])
    # γ_a = Π_j (π_a − θ_j) / Π_{b≠a} (π_a − π_b) over the poles π = (1, λ_1, …, λ_d) of c
    return r, np.array([np.prod(p - r[a]) / np.prod(np.delete(r, a) - r[a]) for a in range(r.size)])


def _geometric(rates: Floats, steps: int) -> Floats:
    """Σ_{j<n} ((1 − r_a)(1 − r_b))^j for all pairs, accurate for tiny rates and n·rate of any size."""
    a, b = rates[:, None], rates[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = a + b - a * b  # 1 − (1 − a)(1 − b)
        total = -np.expm1(steps * (np.log1p(-a) + np.log1p(-b))) / gap
    return np.where(gap == 0.0, float(steps), np.where(steps == 0, 0.0, total))


def _interlaced(poles: Sequence[float], zeros: Sequence[float]) -> tuple[Floats, Floats]:
    require(len(poles) == len(zeros) > 0, "there must be as many zeros as poles, and at least one", given=len(zeros))
    for rate in (*poles, *zeros):
        require_real("rate", rate, low=0.0, high=1.0, open_low=True)
    p, q = np.asarray(poles, dtype=np.float64), np.asarray(zeros, dtype=np.float64)
    order = np.ravel(np.stack([p, q], axis=1))
    require(bool(np.all(np.diff(order) > 0.0)), "rates must interlace: p_1 < q_1 < p_2 < q_2 < …", given=list(order))
    return p, q


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
        quantile = -float(scipy.special.ndtri(require_failure_prob(failure_prob) / 2))
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


@lru_cache(maxsize=256)
def _weights(poles: tuple[float, ...], zeros: tuple[float, ...]) -> Floats:
    """The weights of the buffers of a mechanism whose rates were checked; every release asks for them."""
    return buffer_weights(poles, zeros)


_noise_norm, _strategy_norm = lru_cache(maxsize=256)(noise_norm), lru_cache(maxsize=256)(strategy_norm)
"""Of the same mechanisms: runs of a sweep ask for them again and again."""
