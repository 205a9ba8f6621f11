"""A contextual bandit with real-valued actions: which dose for which patient. The world of Gaussian policies.

    context s ~ ρ with public features x_s,   action a ∈ ℝ,   reward ~ Bernoulli(exp(-(a - t_s)²/(2 w²)))

Under the Gaussian policy a ~ N(θ·x_s, τ²) everything has a closed form:

    J(θ) = Σ_s ρ_s q exp(-(θ·x_s - t_s)²/(2 (w² + τ²))),   q = w/√(w² + τ²),
    F(θ) = Σ_s ρ_s x_s x_sᵀ/τ²,

so the Fisher matrix is constant. With one feature per context, scaled to √k, it is I/τ² in every dimension: the policy
is Fisher-non-degenerate ([he2025policy] Assumption 2) with μ = 1/τ² whatever k is. It is not a `TabularMDP`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from tacit.arrays import Floats
from tacit.environments.tabular import check_probabilities
from tacit.errors import require, require_count, require_real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DoseBandit:
    """Contexts with features[s,j], shares rho[s], best doses target[s] and the width w of what still helps."""

    features: Floats
    rho: Floats
    target: Floats
    width: float
    deviation: float
    """τ: the standard deviation of the Gaussian policies that are played here."""
    name: str = "dose-bandit"

    def __post_init__(self) -> None:
        S = len(self.rho)
        require(self.features.ndim == 2 and len(self.features) == S, f"features must be [{S}, k]", self.features.shape)
        require(self.target.shape == (S,), f"target must have {S} entries", self.target.shape)
        for array in (self.features, self.rho, self.target):
            require(bool(np.isfinite(array).all()), "all numbers must be finite", "not finite")
            array.setflags(write=False)
        check_probabilities("rho", self.rho, "")
        require_real("width", self.width, low=0.0, open_low=True)
        require_real("deviation", self.deviation, low=0.0, open_low=True)

    @property
    def num_states(self) -> int:
        """The number of contexts."""
        return len(self.rho)

    @property
    def num_actions(self) -> int:
        """None can be counted: actions are real numbers."""
        return 0

    @property
    def horizon(self) -> int:
        """One step."""
        return 1

    @property
    def dimension(self) -> int:
        """The number k of features."""
        return int(self.features.shape[1])

    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what happens."""
        digest = hashlib.sha256(repr((self.width.hex(), self.deviation.hex())).encode())
        for array in (self.features, self.rho, self.target):
            digest.update(array.astype("<f8").tobytes())
        return digest.hexdigest()

    def objective(self, theta: Floats) -> float:
        """J(θ), exactly.

        >>> bandit = dose_bandit(contexts=2)
        >>> bandit.objective(np.zeros(2)) < bandit.optimal_value
        True
        """
        spread = self.width**2 + self.deviation**2
        gap = self.features @ theta - self.target
        return float(self.rho @ (self.width / math.sqrt(spread) * np.exp(-(gap**2) / (2.0 * spread))))

    @property
    def optimal_value(self) -> float:
        """J* of the best Gaussian policy: every mean at its target, which one feature per context makes possible."""
        best = np.asarray(np.linalg.lstsq(self.features, self.target, rcond=None)[0], dtype=np.float64)
        reached = bool(np.allclose(self.features @ best, self.target, atol=1e-9))
        require(reached, "the targets must be linear in the features", "they are not")
        return self.objective(best)


def dose_bandit(*, contexts: int = 4, seed: int = 0, deviation: float = 0.5) -> DoseBandit:
    """Equally frequent contexts, one feature each, best doses at distances between 1/2 and 1 from zero.

    `deviation` is that of the policies, τ: the Fisher matrix is I/τ².

    >>> dose_bandit(contexts=3).dimension
    3
    """
    S = require_count("contexts", contexts)
    generator = np.random.default_rng(require_count("seed", seed, least=0))
    target = generator.uniform(0.5, 1.0, S) * generator.choice([-1.0, 1.0], S)
    return DoseBandit(
        features=math.sqrt(S) * np.eye(S), rho=np.full(S, 1.0 / S), target=target, width=1.0, deviation=deviation
    )
