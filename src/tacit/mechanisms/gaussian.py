"""Gaussian noise: approximate differential privacy by the exact ("analytic") trade between ε and δ.

G1  Families with total squared L2 sensitivity Δ₂² are exactly as private as N(0,1) against N(μ,1), μ = Δ₂/σ, at all ε.
G2  The noise is centred, with variance σ².
G3  `radius` is the exact quantile σ √n Φ⁻¹(1 − p/2) of the sum of n terms, rounded up.
G4  `calibrate` finds the least σ = Δ₂/μ(ε, δ), rounded to the private side; it refuses δ = 0, which no Gaussian gives.

Reference: B. Balle and Y.-X. Wang (ICML 2018); [garcelon2021local] Alg. 4; [he2025policy] Thm. 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.families import Family
from tacit.accounting.gaussian import gaussian_mu
from tacit.errors import NotSupported, require_count, require_real
from tacit.mechanisms.protocol import require_failure_prob, require_simulation
from tacit.randomness import SimulationNoise

__all__ = ["Gaussian", "paper_gaussian_radius", "paper_gaussian_sigma"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Gaussian noise of one standard deviation.

    >>> visits = Family(name="visits", up=6, down=6, shift=1.0)
    >>> round(Gaussian.calibrate((visits,), epsilon=1.0, delta=1e-6).sigma, 2)   # √12 / 0.2367
    14.63
    """

    sigma: float

    def __post_init__(self) -> None:
        require_real("sigma", self.sigma, low=0.0, open_low=True)

    @property
    def variance(self) -> float:
        """σ² (G2)."""
        return self.sigma**2

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return self.sigma

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> NDArray[np.float64]:
        """Centred noise for simulations."""
        return require_simulation(noise).normal(0.0, self.sigma, size)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """The t with P(|sum of `terms` noises| > t) = failure_prob (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        return self.sigma * math.sqrt(n) * -float(ndtri(p / 2)) * (1 + 1e-12)

    def events(self, family: Family) -> Events:
        """One event per differing counter (G1)."""
        event = GaussianEvent(sigma=self.sigma, shift=family.shift)
        return ((event, family.differing),) if family.differing else ()

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float) -> Gaussian:
        """The least common σ under which these families together are (epsilon, delta)-private (G4)."""
        if delta == 0.0:
            raise NotSupported(
                "Gaussian noise never gives pure differential privacy (delta = 0): use a positive delta, or the "
                "mechanism 'laplace', 'rr' or 'oue'"
            )
        # σ = Δ₂ / μ(ε, δ)
        l2 = math.sqrt(sum(family.l2_squared for family in families))
        enough = l2 / gaussian_mu(epsilon, delta)
        return least_noise(lambda sigma: cls(sigma=sigma), families, epsilon=epsilon, delta=delta, enough=enough)


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


def paper_gaussian_radius(sigma: float, failure_prob: float, terms: int = 1) -> float:
    """The printed radius σ √(n ln(2/p)) of [garcelon2021local] Prop. 11: too small, it lacks a factor √2.

    A coverage test rejects it; it is kept to reproduce the paper's curves and must not carry a guarantee.

    >>> round(paper_gaussian_radius(1.0, 0.003), 2), round(Gaussian(sigma=1.0).radius(0.003), 2)
    (2.55, 2.97)
    """
    return sigma * math.sqrt(require_count("terms", terms) * math.log(2.0 / require_failure_prob(failure_prob)))
