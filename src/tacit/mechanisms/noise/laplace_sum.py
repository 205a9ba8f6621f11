"""Laplace variables: kernels that draw them, the exact tail of their sums, and radii that cover.

A prefix of a Laplace tree is a sum of n node noises. With unit scale, the sum is the difference of two Gamma(n)
variables, and partial fractions of its characteristic function (1 − s²)⁻ⁿ turn it into a mixture of Gammas:

    P(S > t) = Σ_{l<n} 2^{-n-l} C(n+l-1, l) · P(Gamma(n-l) > t),        t ≥ 0.

Every term is positive (Lemma N2 (sums of Laplace noise)), so nothing cancels: exact to rounding. For the discrete
Laplace distribution the Chernoff bound of the continuous one holds as it is (Lemma N3 (discrete twins)): its moment
generating function 1 / (1 − (sinh(λ/2) / sinh(1/2b))²) lies below 1 / (1 − b²λ²), because sinh(x)/x grows.
"""

from __future__ import annotations

import math

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius
from numpy.typing import NDArray

from tacit.accounting.events.laplace import discrete_laplace_variance
from tacit.errors import require_count, require_real
from tacit.kernels import kernel

__all__ = [
    "discrete_laplace_variance",
    "fill_laplace",
    "laplace_draw",
    "laplace_radius",
    "laplace_sum_chernoff",
    "laplace_sum_radius",
    "laplace_sum_tail",
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
def fill_laplace(
    draws: NDArray[np.float64], rows: int, scale: float, discrete: bool, generator: np.random.Generator
) -> None:
    """Fresh Laplace noise, continuous or on the integers, in the first `rows` rows of `draws`."""
    for row in range(rows):
        for c in range(draws.shape[1]):
            if discrete:
                # ⌊b E⌋ is geometric with ratio e^{-1/b}; the difference of two is the discrete Laplace.
                up = math.floor(-scale * math.log(1.0 - generator.random()))
                down = math.floor(-scale * math.log(1.0 - generator.random()))
                draws[row, c] = up - down
            else:
                draws[row, c] = scale * laplace_draw(generator)


def laplace_sum_tail(terms: int, distance: float) -> float:
    """P(|sum of `terms` independent unit-scale Laplace variables| > distance), exact.

    >>> round(laplace_sum_tail(1, 2.0) / math.exp(-2.0), 12)
    1.0
    """
    n = require_count("terms", terms)
    t = require_real("distance", distance, low=0.0)
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
