"""Gaussian noise: approximate differential privacy by the exact ("analytic") trade between ε and δ.

G1  Families with total squared L2 sensitivity Δ₂² are exactly as private as N(0,1) against N(μ,1), μ = Δ₂/σ, at all ε.
    The discrete twin on the integers, P(z) ∝ exp(-z²/2σ²), is certified by its own exact accountant for whole shifts.
G2  The noise is centred, with variance σ² (at most σ² for the discrete twin).
G3  `radius` is the exact quantile σ √n Φ⁻¹(1 − p/2) of the sum of n terms, rounded up; for the discrete twin it is the
    exact quantile of one term, and σ √(2n ln(2/p)) for sums (discrete Gaussian noise is sub-Gaussian with σ²).
G4  `calibrate` finds the least σ = Δ₂/μ(ε, δ), rounded to the private side; it refuses δ = 0, which no Gaussian gives.

`discrete=True` describes the noise of a deployment (the samplers in `tacit.noise.exact` draw it from the
operating system); continuous floating-point noise is for simulations, it must never be released at full precision.

Reference: B. Balle and Y.-X. Wang (ICML 2018); C. Canonne, G. Kamath and T. Steinke (NeurIPS 2020);
[garcelon2021local] Alg. 4; [he2025policy] Thm. 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import scipy

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.additive import Additive, Amount, additive_encoder, lattice_encoder
from tacit.noise.exact import discrete_gaussian
from tacit.noise.protocol import Shape, require_failure_prob, require_no_squares, require_simulation, require_whole
from tacit.randomness import SecureNoise, SimulationNoise

# Beyond this the discrete twin is not enumerated: its variance is σ² to the last digit, its radius is sub-Gaussian.
_LARGE = 1e5


@kernel
def gaussian_unit(generator: np.random.Generator) -> float:
    """Gaussian noise of standard deviation 1."""
    return generator.standard_normal()


@kernel
def discrete_draw(sigma: float, generator: np.random.Generator) -> float:
    """An integer with P(z) ∝ exp(-z²/2σ²), by rejection from discrete Laplace noise of scale t = ⌊σ⌋ + 1."""
    t = math.floor(sigma) + 1.0
    while True:
        up = math.floor(t * generator.standard_exponential())
        y = float(up - math.floor(t * generator.standard_exponential()))
        if generator.random() < math.exp(-((abs(y) - sigma**2 / t) ** 2) / (2.0 * sigma**2)):
            return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(Additive):
    """Gaussian noise of one standard deviation.

    >>> visits = Family(name="visits", up=6, down=6, shift=1.0)
    >>> round(Gaussian.calibrate((visits,), epsilon=1.0, delta=1e-6).sigma, 2)   # √12 / 0.2367
    14.63
    """

    sigma: float
    discrete: bool = False

    NAME: ClassVar[str] = "gaussian"
    SUMMARY: ClassVar[str] = "Gaussian noise in every counter"
    PURE: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_real("sigma", self.sigma, low=0.0, open_low=True)

    @property
    def variance(self) -> float:
        """σ², or Σ z² P(z) on the integers, which differs for small σ only (G2)."""
        if not self.discrete or self.sigma > _LARGE:
            return self.sigma**2
        z, masses = _positive_half(self.sigma)
        return float(2.0 * (masses * z**2).sum())

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """Centred noise for simulations."""
        generator = require_simulation(noise)
        if not self.discrete:
            return generator.normal(0.0, self.sigma, size)
        return _sample_discrete(self.sigma, math.prod(np.atleast_1d(size)), generator).reshape(size)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|sum of `terms` noises| > t) <= failure_prob (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        if self.discrete and (n > 1 or self.sigma > _LARGE):
            return self.sigma * math.sqrt(2.0 * n * math.log(2.0 / p)) * (1 + 1e-12)
        if self.discrete:
            _, masses = _positive_half(self.sigma)
            tails = 2.0 * np.cumsum(masses[::-1])[::-1] * (1 + 1e-9)  # P(|Z| ≥ z) at z = 1, 2, ...
            return float(np.searchsorted(-tails, -p))
        return self.sigma * math.sqrt(n) * -float(scipy.special.ndtri(p / 2)) * (1 + 1e-12)

    def events(self, family: Family) -> Events:
        """One event per differing counter (G1)."""
        require_whole(family, discrete=self.discrete)
        event = GaussianEvent(sigma=self.sigma, shift=family.shift, discrete=self.discrete)
        return ((event, family.differing),) if family.differing else ()

    @property
    def whole(self) -> bool:
        """Whether the noise is integers."""
        return self.discrete

    @property
    def parameters(self) -> Amount:
        """What the encoder needs."""
        return Amount(scale=self.sigma)

    @property
    def subgamma(self) -> float:
        """0: sub-Gaussian; on the integers 1, where the variance falls short of σ²."""
        return 1.0 if self.discrete else 0.0

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel."""
        return lattice_encoder(discrete_draw) if self.discrete else additive_encoder(gaussian_unit)

    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        """(v² - (v - s)²)/2σ², on the integers as well."""
        return np.asarray((values - 0.5 * np.asarray(shift)) * shift / self.sigma**2)

    def summed(self, size: int, users: int, noise: SimulationNoise) -> Floats:
        """The sum of `users` independent noises in each of `size` counters."""
        if self.discrete:
            return np.asarray(self.sample((users, size), noise).sum(axis=0))
        return np.asarray(self.sigma * np.sqrt(users) * noise.generator.standard_normal(size))

    def integers(self, size: int, noise: SecureNoise) -> Ints:
        """Exact discrete Gaussian noise."""
        if not self.discrete:
            raise NotSupported("continuous noise must not be released: build the mechanism with discrete=True")
        return discrete_gaussian(size, noise, variance=Fraction(self.sigma) ** 2)

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> tuple[Self, Self]:
        """The constant of Prop. 11 and of the proof of Prop. 10, whose claim is false; see `printed`."""
        require_no_squares(squares)
        return cls.printed(shape, epsilon, delta, "proof")

    @classmethod
    def printed(cls, shape: Shape, epsilon: float, delta: float, c: str) -> tuple[Self, Self]:
        """The printed σ = cH/ε: c² = 4 ln(24/δ) of the "proof", or c = 4 ln(24/δ) of the "statement" of Prop. 10."""
        if c not in ("proof", "statement"):
            raise InvalidInput(f"c of gaussian must be 'proof' or 'statement', got {c!r}")
        chosen = cls(sigma=paper_gaussian_sigma(shape.horizon, epsilon, delta, proved_constant=c == "proof"))
        return chosen, chosen

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, *, discrete: bool = False) -> Self:
        """The least common σ under which these families together are (epsilon, delta)-private (G4)."""
        if delta == 0.0:
            raise NotSupported(
                "Gaussian noise never gives pure differential privacy (delta = 0): use a positive delta, or the "
                "mechanism 'laplace', 'rr' or 'oue'"
            )
        # σ = Δ₂ / μ(ε, δ)
        l2 = math.sqrt(sum(family.l2_squared for family in families))
        enough = l2 / gaussian_mu(epsilon, delta)
        return least_noise(
            lambda sigma: cls(sigma=sigma, discrete=discrete), families, epsilon=epsilon, delta=delta, enough=enough
        )


def paper_gaussian_sigma(horizon: int, epsilon: float, delta: float, *, proved_constant: bool) -> float:
    """The printed σ = cH/ε of [garcelon2021local], in its two readings.

    The statement (Prop. 10) asks for c > 4 ln(24/δ): true, with 6.8 times the noise needed (H=6, (1, 1e-5) is really
    0.124). Its proof and Prop. 11 (`proved_constant=True`) ask for c² ≥ 4 ln(24/δ): false, (1, 1e-5) is really 1.14.

    >>> round(paper_gaussian_sigma(6, 1.0, 1e-5, proved_constant=True), 1)
    46.0
    >>> round(paper_gaussian_sigma(6, 1.0, 1e-5, proved_constant=False), 1)
    352.6
    """
    H = require_count("horizon", horizon)
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)
    square = 4.0 * math.log(24.0 / delta)
    return (math.sqrt(square) if proved_constant else square) * H / epsilon


def _positive_half(sigma: float) -> tuple[Floats, Floats]:
    """The values z = 1, 2, ... of the discrete Gaussian distribution and their probabilities."""
    z = np.arange(1.0, math.ceil(39.0 * sigma) + 3.0)
    weights = np.exp(-0.5 * (z / sigma) ** 2)
    return z, weights / (1.0 + 2.0 * weights.sum())


def _sample_discrete(sigma: float, count: int, generator: np.random.Generator) -> Floats:
    """Rejection from the discrete Laplace distribution of scale t = ⌊σ⌋ + 1 (Canonne, Kamath and Steinke, Alg. 3)."""
    t = math.floor(sigma) + 1.0
    success = -math.expm1(-1.0 / t)
    found = np.empty(0)
    while found.size < count:
        tries = 2 * (count - found.size) + 16
        y = (generator.geometric(success, tries) - generator.geometric(success, tries)).astype(np.float64)
        accepted = generator.random(tries) < np.exp(-((np.abs(y) - sigma**2 / t) ** 2) / (2.0 * sigma**2))
        found = np.concatenate([found, y[accepted]])
    return found[:count]
