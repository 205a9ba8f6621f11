"""Sharing one budget between families: the noise of each, so that the weighted error is least.

Minimise Σ_f w_f · (variance of family f) when all families are released to the same people. Pure privacy adds up
D1_f · n_f / b_f over the families (n_f Laplace noises per counter), Gaussian privacy adds up D2_f / σ_f²; in both cases
the optimum is a line of Lagrange's algebra: Lemma C8 (allocation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.errors import require, require_count, require_real

__all__ = ["GaussianCounter", "allocate_gaussian", "allocate_laplace", "gaussian_shares"]

# Allocated noise is widened by this much, so that rounding in the last place stays on the private side.
_ROUNDING = 1e-12


class GaussianCounter(Protocol):
    """A continual counter that is as private as one Gaussian noise sigma over shift · sensitivity."""

    @classmethod
    def for_steps(cls, steps: int, sigma: float) -> Self:
        """The counter of this kind for this many steps."""

    @property
    def sensitivity(self) -> float:
        """The shift that a user of sensitivity one causes, rounded up."""


F = TypeVar("F", bound=GaussianCounter)


def allocate_laplace(
    families: Sequence[Family], weights: Sequence[float], epsilon: float, counts: Sequence[int]
) -> tuple[float, ...]:
    """The scales b_f that minimise Σ w_f b_f² under pure `epsilon`, when one user meets `counts[f]` noises per counter.

    For a tree the count is `tree_levels(steps)`, for a single release it is 1.

    >>> count, loss = Family(name="P", up=6, down=6, shift=1.0), Family(name="loss", up=42, down=0, shift=1.0)
    >>> [round(b * math.sqrt(28)) for b in allocate_laplace([count, loss], [1.0, 1.0], 1.0, [14, 14])]
    [2938, 4461]
    """
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require(len(families) == len(weights) == len(counts), "families, weights and counts must match", len(weights))
    w = [require_real("weight", weight, low=0.0, open_low=True) for weight in weights]
    # b_f = (D1_f L_f / w_f)^{1/3} · Σ_g (D1_g L_g)^{2/3} w_g^{1/3} / ε
    cost = [family.l1 * require_count("count", n) for family, n in zip(families, counts, strict=True)]
    total = sum(c ** (2 / 3) * v ** (1 / 3) for c, v in zip(cost, w, strict=True)) / epsilon
    return tuple((c / v) ** (1 / 3) * total * (1 + _ROUNDING) for c, v in zip(cost, w, strict=True))


def allocate_gaussian(
    families: Sequence[Family], weights: Sequence[float], epsilon: float, delta: float, steps: int, counter: type[F]
) -> tuple[F, ...]:
    """One counter per family, private together, with the least Σ_f w_f · (variance of the last prefix of f).

    >>> from tacit.mechanisms.continual.factorization import SquareRootFactorization
    >>> P, loss = Family(name="P", up=6, down=6, shift=1.0), Family(name="loss", up=42, down=0, shift=1.0)
    >>> split = allocate_gaussian([P, loss], [1.0, 1.0], 1.0, 1e-6, 10_000, SquareRootFactorization)
    >>> [round(part.max_std, 1) for part in split]
    [99.1, 135.6]
    """
    # v_f = ‖b‖²‖c‖² √(D2_f / w_f) · Σ_g √(D2_g w_g) / μ², where v_f = ‖b‖² σ_f²
    sensitivity = counter.for_steps(steps, 1.0).sensitivity
    sigmas = gaussian_shares(families, weights, gaussian_mu(epsilon, delta) / sensitivity)
    return tuple(counter.for_steps(steps, sigma) for sigma in sigmas)


def gaussian_shares(families: Sequence[Family], weights: Sequence[float], mu: float) -> tuple[float, ...]:
    """The deviations σ_f that minimise Σ w_f σ_f² subject to Σ D2_f / σ_f² = μ².

    >>> one = Family(name="count", up=1, down=0, shift=1.0)
    >>> [round(sigma, 6) for sigma in gaussian_shares([one, one], [1.0, 1.0], 1.0)]
    [1.414214, 1.414214]
    """
    require(len(families) == len(weights) > 0, "there must be one weight for every family", given=len(weights))
    w = [require_real("weight", weight, low=0.0, open_low=True) for weight in weights]
    # σ_f² = √(D2_f / w_f) · Σ_g √(D2_g w_g) / μ²
    total = sum(math.sqrt(family.l2_squared * v) for family, v in zip(families, w, strict=True)) / mu**2
    shares = [math.sqrt(family.l2_squared / v) * total for family, v in zip(families, w, strict=True)]
    return tuple(math.sqrt(share) * (1 + _ROUNDING) for share in shares)
