"""Laplace noise: pure differential privacy, one scale for all counters.

G1  Families with total L1 sensitivity Δ₁ are (Δ₁/scale, 0)-private, exactly (Lemma P6 (pure pairs)). At δ > 0 the exact
    accountant finds less where many counters differ by little, next to nothing where one counter differs by much.
G2  The noise is centred, with variance 2 scale²; the discrete twin on the integers, P(z) ∝ exp(-|z|/scale), has the
    same guarantee for whole shifts and a variance smaller by about 1/6.
G3  `radius` covers: exact quantiles of the sum (one term, or continuous noise), else the Chernoff bound
    t = min_{0<λ<1/b} [ln(2/p) − n ln(1 − b²λ²)]/λ.
G4  `calibrate` finds the least scale, rounded to the private side.

`discrete=True` describes the noise of a deployment (the samplers in `tacit.mechanisms.exact` draw it from the
operating system); continuous floating-point noise is for simulations, it must never be released at full precision.

Reference: [garcelon2021local] Alg. 3, [bai2024adversarial] Sec. 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, LaplaceEvent
from tacit.accounting.families import Family
from tacit.errors import require, require_count, require_real
from tacit.mechanisms.laplace_sum import discrete_laplace_variance, laplace_sum_chernoff, laplace_sum_radius
from tacit.mechanisms.protocol import require_failure_prob, require_simulation
from tacit.randomness import SimulationNoise

__all__ = ["Laplace", "paper_laplace_scale"]

# The exact quantile of a sum costs one special function per term; beyond this the Chernoff bound is tight enough.
_EXACT_TERMS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """Laplace noise of one scale, continuous or on the integers.

    >>> Laplace(scale=36.0, discrete=False).std.__round__(1)
    50.9
    >>> visits = Family(name="visits", up=6, down=6, shift=1.0)
    >>> Laplace.calibrate((visits,), epsilon=0.5, delta=0.0, discrete=False).scale
    24.0
    """

    scale: float
    discrete: bool

    def __post_init__(self) -> None:
        require_real("scale", self.scale, low=0.0, open_low=True)

    @property
    def variance(self) -> float:
        """2b², or 2q/(1-q)² with q = e^{-1/b} on the integers (G2)."""
        return discrete_laplace_variance(self.scale) if self.discrete else 2.0 * self.scale**2

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return math.sqrt(self.variance)

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> NDArray[np.float64]:
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
        if self.discrete or n > _EXACT_TERMS:
            return self.scale * laplace_sum_chernoff(n, p)
        return self.scale * laplace_sum_radius(n, p)

    def events(self, family: Family) -> Events:
        """One event per differing counter (G1)."""
        require(
            not self.discrete or float(family.shift).is_integer(),
            "discrete noise covers whole shifts",
            given=family.shift,
            hint="round rewards to {0, 1} at random on the device",
        )
        event = LaplaceEvent(scale=self.scale, shift=family.shift, discrete=self.discrete)
        return ((event, family.differing),) if family.differing else ()

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, *, discrete: bool = False) -> Laplace:
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
