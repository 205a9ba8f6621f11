"""Laplace noise: pure differential privacy, one scale for all counters.

G1  Families with total L1 sensitivity Δ₁ are (Δ₁/scale, 0)-private, exactly: the loss is attained. At δ > 0 the exact
    accountant finds less where many counters differ by little, next to nothing where one counter differs by much.
G2  The noise is centred, with variance 2 scale²; the discrete twin on the integers, P(z) ∝ exp(-|z|/scale), has the
    same guarantee for whole shifts and a variance smaller by about 1/6.
G3  `radius` covers: exact quantiles of the sum (one term, or continuous noise), else the Chernoff bound
    t = min_{0<λ<1/b} [ln(2/p) − n ln(1 − b²λ²)]/λ.
G4  `calibrate` finds the least scale, rounded to the private side.

`discrete=True` describes the noise of a deployment (the samplers in `tacit.noise.exact` draw it from the
operating system); continuous floating-point noise is for simulations, it must never be released at full precision.
The sum of n Laplace variables of scale b is b (G - G'), two gamma variables of shape n; on the integers it is the
difference of two negative binomial ones.

Trees add up nodes of Laplace noise, too: the tail of a sum is a mixture of Gammas with positive weights, exact to
rounding (Lemma N2 (sums of Laplace noise)); on the integers the Chernoff bound of the continuous sum holds as it is
(Lemma N3 (discrete twins)).

Reference: [garcelon2021local] Alg. 3, [bai2024adversarial] Sec. 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, LaplaceEvent
from tacit.accounting.events.pure import discrete_laplace_variance
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require_count, require_real
from tacit.gammas import MIN_COMPILED_DRAWS, gamma_difference
from tacit.kernels import kernel, lean_kernel
from tacit.noise.additive import Additive, Amount, lattice_encoder
from tacit.noise.exact import discrete_laplace
from tacit.noise.layout import exact_vector
from tacit.noise.protocol import EncoderParameters, Shape, require_failure_prob, require_simulation, require_whole
from tacit.randomness import SecureNoise, SimulationNoise

__all__ = [
    "Laplace",
    "discrete_laplace_variance",
    "fill_laplace",
    "laplace_draw",
    "laplace_radius",
    "laplace_sum_chernoff",
    "laplace_sum_radius",
    "laplace_sum_tail",
    "paper_laplace_scale",
]


# The exact quantile of a sum costs one special function per term; beyond this the Chernoff bound is tight enough.
_EXACT_TERMS = 500
# The exact quantile is widened by this much, so that the rounding of special functions stays on the covering side.
_ROUNDING = 1e-9


@kernel
def laplace_draw(generator: np.random.Generator) -> float:
    """One unit-scale Laplace variable from one uniform; symmetric, and never infinite."""
    u = generator.random()
    if u < 0.5:
        return math.log(2.0 * (u + 1.1102230246251565e-16))  # u is a multiple of 2⁻⁵³, so u + 2⁻⁵³ mirrors 1 − u
    return -math.log(2.0 * (1.0 - u))


@kernel
def fill_laplace(draws: Floats, rows: int, scale: float, generator: np.random.Generator) -> None:
    """Fresh Laplace noise in the first `rows` rows of `draws`."""
    for row in range(rows):
        for c in range(draws.shape[1]):
            draws[row, c] = scale * laplace_draw(generator)


def laplace_sum_tail(terms: int, distance: float) -> float:
    """P(|sum of `terms` independent unit-scale Laplace variables| > distance), exact.

    >>> round(laplace_sum_tail(1, 2.0) / math.exp(-2.0), 12)
    1.0
    """
    n = require_count("terms", terms)
    t = require_real("distance", distance, low=0.0)
    # P(S > t) = Σ_{l<n} 2^{-n-l} C(n+l-1, l) · P(Gamma(n-l) > t)
    j = np.arange(n)
    # ln w_l = ln C(n+l-1, l) − (n+l) ln 2
    log_weight = (
        scipy.special.gammaln(n + j) - scipy.special.gammaln(j + 1) - scipy.special.gammaln(n) - (n + j) * math.log(2.0)
    )
    # P(|S| > t) = 2 Σ_l w_l Q(n-l, t)
    return float(2.0 * np.sum(np.exp(log_weight) * scipy.special.gammaincc(n - j, t)))


def laplace_sum_chernoff(terms: int, failure_prob: float) -> float:
    """A radius left with at most `failure_prob` by `terms` unit-scale Laplace variables, continuous or discrete.

    >>> laplace_sum_chernoff(15, 1e-6) < math.sqrt(8 * 15 * math.log(2e6))
    True
    """
    n = require_count("terms", terms)
    log_two = math.log(2.0 / _probability(failure_prob))
    # t = min_{0<λ<1} [ln(2/p) − n ln(1 − λ²)] / λ; any λ is valid, so the minimiser need not be exact.
    found = scipy.optimize.minimize_scalar(
        lambda rate: (log_two - n * math.log1p(-(rate**2))) / rate, bounds=(1e-9, 1 - 1e-12), method="bounded"
    )
    return float(found.fun) * (1 + _ROUNDING)


def laplace_sum_radius(terms: int, failure_prob: float) -> float:
    """The exact two-sided quantile of the sum of `terms` unit-scale Laplace variables, rounded up.

    >>> round(laplace_sum_radius(1, 0.05), 6) == round(-math.log(0.05), 6)
    True
    """
    p = _probability(failure_prob)
    high = laplace_sum_chernoff(terms, p)
    if laplace_sum_tail(terms, 0.0) <= p:
        return 0.0
    root = scipy.optimize.brentq(lambda t: laplace_sum_tail(terms, t) - p, 0.0, high, xtol=1e-12 * high, rtol=1e-14)
    return float(root) * (1 + _ROUNDING)


def laplace_radius(terms: int, failure_prob: float, *, scale: float, discrete: bool) -> float:
    """The best radius on offer for `terms` noises of this scale: the exact quantile, or else Chernoff.

    >>> [round(laplace_radius(15, 0.05, scale=2.0, discrete=discrete), 1) for discrete in (False, True)]
    [21.6, 31.4]
    """
    bound = laplace_sum_chernoff if discrete or terms > _EXACT_TERMS else laplace_sum_radius
    return scale * bound(terms, failure_prob)


def _probability(failure_prob: float) -> float:
    return require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)


SIGNS = 52
"""So many fair coins are taken from one uniform number, which has 53 random bits."""
COINS = 2.0**SIGNS


@lean_kernel
def laplace_encoder(
    parameters: EncoderParameters,
    message: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Independent Laplace noise in every counter, as exponential variates with random signs: no logarithms."""
    first, size = parameters.places.num_moves, message.shape[0]
    for start in range(0, size, SIGNS):
        coins = int(generator.random() * COINS)
        for c in range(start, min(size, start + SIGNS)):
            scale = parameters.transition.scale if c < first else parameters.outcome.scale
            # Lap(b) = ± b Exp(1)
            message[c] = (1.0 - 2.0 * (coins & 1)) * scale * generator.standard_exponential()
            coins >>= 1
    sizes = parameters.stages, parameters.S, parameters.A
    exact_vector(parameters.places, message, *sizes, parameters.complement, states, actions, rewards)


@kernel
def discrete_draw(scale: float, generator: np.random.Generator) -> float:
    """An integer with P(z) ∝ exp(-|z|/scale): the difference of two geometric variables ⌊b Exp(1)⌋."""
    up = math.floor(scale * generator.standard_exponential())
    return up - math.floor(scale * generator.standard_exponential())


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(Additive):
    """Laplace noise of one scale, continuous or on the integers.

    >>> Laplace(scale=36.0, discrete=False).std.__round__(1)
    50.9
    >>> visits = Family(name="visits", up=6, down=6, shift=1.0)
    >>> Laplace.calibrate((visits,), epsilon=0.5, delta=0.0, discrete=False).scale
    24.0
    """

    scale: float
    discrete: bool

    NAME: ClassVar[str] = "laplace"
    SUMMARY: ClassVar[str] = "Laplace noise in every counter"
    PURE: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_real("scale", self.scale, low=0.0, open_low=True)

    @property
    def variance(self) -> float:
        """2b², or 2q/(1-q)² with q = e^{-1/b} on the integers (G2)."""
        return discrete_laplace_variance(self.scale) if self.discrete else 2.0 * self.scale**2

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """Centred noise for simulations."""
        generator = require_simulation(noise)
        if not self.discrete:
            return generator.laplace(0.0, self.scale, size)
        # The difference of two independent geometric variables has P(z) ∝ q^|z|.
        success = -math.expm1(-1.0 / self.scale)
        return np.asarray(generator.geometric(success, size) - generator.geometric(success, size), dtype=np.float64)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|sum of `terms` noises| > t) <= failure_prob (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        if self.discrete and n == 1:
            # P(|Z| > t) = 2 q^(t+1)/(1+q) for whole t, q = e^{-1/b}
            tail = math.log(2.0) - math.log1p(math.exp(-1.0 / self.scale))
            return float(max(0, math.ceil(self.scale * (tail - math.log(p)) * (1 + 1e-12) - 1.0)))
        return laplace_radius(n, p, scale=self.scale, discrete=self.discrete)

    def events(self, family: Family) -> Events:
        """One event per differing counter (G1)."""
        require_whole(family, discrete=self.discrete)
        event = LaplaceEvent(scale=self.scale, shift=family.shift, discrete=self.discrete)
        return ((event, family.differing),) if family.differing else ()

    @property
    def whole(self) -> bool:
        """Whether the noise is integers."""
        return self.discrete

    @property
    def parameters(self) -> Amount:
        """What the encoder needs."""
        return Amount(scale=self.scale)

    @property
    def subgamma(self) -> float:
        """The scale b; on the integers at least 1, where the variance falls short of 2b²."""
        return max(self.scale, 1.0) if self.discrete else self.scale

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel."""
        return lattice_encoder(discrete_draw) if self.discrete else laplace_encoder

    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        """(|v| - |v - s|)/b, on the integers as well."""
        return np.asarray((np.abs(values) - np.abs(values - shift)) / self.scale)

    def summed(self, size: int, users: int, noise: SimulationNoise) -> Floats:
        """The sum of `users` independent noises in each of `size` counters."""
        generator = noise.generator
        if self.discrete:
            success = -math.expm1(-1.0 / self.scale)
            up, down = (generator.negative_binomial(users, success, size) for _ in range(2))
            return np.asarray(up - down, dtype=np.float64)
        if size >= MIN_COMPILED_DRAWS:  # the same variates, faster
            return np.asarray(self.scale * gamma_difference(float(users), size, generator))
        return np.asarray(self.scale * (generator.gamma(users, size=size) - generator.gamma(users, size=size)))

    def integers(self, size: int, noise: SecureNoise) -> Ints:
        """Exact discrete Laplace noise."""
        if not self.discrete:
            raise NotSupported("continuous noise must not be released: build the mechanism with discrete=True")
        return discrete_laplace(size, noise, scale=self.scale)

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> tuple[Self, Self]:
        """6H/ε, or 8H/ε with the squares of LDP-PSRL."""
        del delta
        scale = paper_laplace_scale(shape.horizon, epsilon, families=4 if squares else 3)
        chosen = cls(scale=scale, discrete=False)
        return chosen, chosen

    @classmethod
    def printed(cls, shape: Shape, epsilon: float, delta: float, scale: str) -> tuple[Self, Self]:
        """6H/ε of [garcelon2021local], or 3H/ε of [bai2024adversarial] Sec. 5.2, whose claim is false."""
        if scale not in ("6H", "3H"):
            raise InvalidInput(f"scale of laplace must be '6H' or '3H', got {scale!r}")
        outcome, _ = cls.paper(shape, epsilon, delta, squares=False)
        chosen = outcome if scale == "6H" else cls(scale=outcome.scale / 2.0, discrete=False)
        return chosen, chosen

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, *, discrete: bool = False) -> Self:
        """The least common scale under which these families together are (epsilon, delta)-private (G4)."""
        # Pure differential privacy needs b = Δ₁/ε; a δ can only help.
        pure = sum(family.l1 for family in families) / require_real("epsilon", epsilon, low=0.0, open_low=True)
        return least_noise(
            lambda scale: cls(scale=scale, discrete=discrete), families, epsilon=epsilon, delta=delta, enough=pure
        )


def paper_laplace_scale(horizon: int, epsilon: float, *, families: int = 3) -> float:
    """The printed scale 6H/ε of [garcelon2021local] Alg. 3 (8H/ε for the four families of LDP-PSRL).

    What it really gives: (6H-2)/(6H) ε, because the last step has no transition: the claim is true, with a little
    slack (tight: (6H-2)/ε; complement encoding: (4H-2)/ε). [bai2024adversarial] prints half of it, 3H/ε, for its Local
    Privatizer: that gives 2ε (bandit feedback), its claim of ε-LDP is false.

    >>> paper_laplace_scale(6, 1.0)
    36.0
    """
    return 2.0 * families * require_count("horizon", horizon) / require_real("epsilon", epsilon, low=0.0, open_low=True)
