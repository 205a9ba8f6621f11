"""How precise released sums are: the functions c_{k,1..4} of [garcelon2021local] Assumption 3, for any local mechanism.

The noise of one user in one statistic has variance at most v and is sub-gamma with scale c:

    ln E exp(λX) ≤ λ² v / (2 (1 - cλ))      Gaussian: c = 0;  Laplace of scale b: v = 2b², c = b;  |X| ≤ R: c = R/3

so that the sum over n users, each with fresh noise, stays within

    √(2 n v L) + c L        with probability at least 1 - 2 e^{-L},

also when the users' data depend on the noise of earlier users (the noise is a martingale difference). For Laplace noise
this is √2 tighter than the printed b max{√n, √L} √(8L); for randomized response and Gaussian noise it repairs printed
radii that are too small.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel

__all__ = ["CELL", "REWARD", "ROW", "VISIT", "SumPrecision", "exact_sums", "sum_radius"]

REWARD, VISIT, ROW, CELL = 0, 1, 2, 3
"""The statistics of c_{k,1}, c_{k,2}, c_{k,3}, c_{k,4}: R(s,a), N(s,a), Σ_s' N(s,a,s'), N(s,a,s')."""


class SumPrecision(NamedTuple):
    """Variance and sub-gamma scale of one user's noise in each of the four statistics."""

    variance: NDArray[np.float64]
    scale: NDArray[np.float64]


def exact_sums() -> SumPrecision:
    """No noise at all."""
    return SumPrecision(variance=np.zeros(4), scale=np.zeros(4))


@kernel
def sum_radius(precision: SumPrecision, statistic: int, users: float, log_term: float) -> float:
    """√(2 n v L) + c L: exceeded by the noise of a sum over n users with probability at most 2 e^{-L}.

    >>> laplace = SumPrecision(variance=np.full(4, 2.0), scale=np.ones(4))
    >>> sum_radius(laplace, REWARD, 100.0, 2.0)
    30.284271247461902
    """
    spread = 2.0 * users * float(precision.variance[statistic]) * log_term
    return math.sqrt(spread) + float(precision.scale[statistic]) * log_term
