"""The analytic Gaussian mechanism: the exact trade between ε, δ and the distance μ = shift / σ.

Adding N(0, σ²) to a vector whose neighbours are at Euclidean distance Δ₂ is exactly as private as telling N(0, 1) from
N(μ, 1) with μ = Δ₂/σ, and composing shifts adds their squares: μ² = Σ (shift/σ)². The curve

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)

is the same in both directions (Lemma P5 (Gaussian curve)). Everything here is rounded to the private side:
`gaussian_delta` and `gaussian_epsilon` never come out too small, `gaussian_mu` never too large, so
`gaussian_delta(epsilon, gaussian_mu(epsilon, delta))` is at most `delta` in floating point too.

Reference: B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import erfcx

from tacit.errors import require_real

__all__ = ["classical_gaussian_sigma", "gaussian_delta", "gaussian_epsilon", "gaussian_mu"]

ULP = 2.0**-52
TINY = 5e-324
ROOT_HALF = math.sqrt(0.5)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The δ at this ε of the pair N(0, 1), N(mu, 1), rounded up.

    >>> f"{gaussian_delta(1.0, 0.2367):.3e}"
    '9.996e-07'
    """
    require_real("epsilon", epsilon, low=0.0)
    require_real("mu", mu, low=0.0)
    if mu == 0.0:
        return 0.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > 39.0:  # φ(39) is below the least positive float
        return TINY
    # φ(far) e^ε = φ(near), hence with the Mills ratio M(x) = Φ(−x)/φ(x):  δ = Φ(−near) − φ(near) M(far)
    # and, where near > 0 and both terms are small,                         δ = φ(near) [M(near) − M(far)].
    density = math.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    second = density * _mills(far)
    first = density * _mills(near) if near > 0.0 else 0.5 * math.erfc(near * ROOT_HALF)
    # Every operation is right to a few units in the last place, and `near` and `far` to a few units of `far`;
    # the exponent magnifies that by |near|, and |M'(x)| ≤ 1/(1 + x²) for x ≥ 0.
    slope = density * far / (1.0 + max(near, 0.0) * near)
    error = ULP * ((8.0 + 4.0 * abs(near) * far) * abs(first - second) + 8.0 * first + 4.0 * slope)
    return min(1.0, max(0.0, first - second) + error + TINY)


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The least ε at this δ of the pair N(0, 1), N(mu, 1), rounded up; infinite when δ = 0 and mu > 0.

    >>> f"{gaussian_epsilon(1e-6, 0.2367):.4f}"
    '1.0000'
    """
    require_real("delta", delta, low=0.0, high=1.0)
    require_real("mu", mu, low=0.0)
    if mu == 0.0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0.0:
        return math.inf
    high = mu
    while gaussian_delta(high, mu) > delta:
        high *= 2.0
    return _boundary(0.0, high, lambda epsilon: gaussian_delta(epsilon, mu) > delta)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ that is (epsilon, delta)-private, rounded down: calibrate σ = Δ₂ / gaussian_mu(epsilon, delta).

    >>> f"{gaussian_mu(1.0, 1e-6):.5f}"
    '0.23670'
    >>> gaussian_delta(1.0, gaussian_mu(1.0, 1e-6)) <= 1e-6
    True
    """
    require_real("epsilon", epsilon, low=0.0)
    require_real("delta", delta, low=0.0, high=1.0)
    if delta == 0.0:
        return 0.0
    high = 1.0
    while gaussian_delta(epsilon, high) <= delta and high < 1e300:
        high *= 2.0
    return _boundary(0.0, high, lambda mu: gaussian_delta(epsilon, mu) <= delta)[0]


def classical_gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The textbook σ = Δ₂ √(2 ln(1.25/δ)) / ε that [he2025policy] Thm. 1 prints with Δ₂ = 2 R_max G / m.

    It is proved for ε ≤ 1 and false for large ε (first violated near ε = 8.4 at δ = 1e-5): the paper calibration only.

    >>> round(classical_gaussian_sigma(1.0, 1e-5), 3)
    4.845
    """
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)
    require_real("sensitivity", sensitivity, low=0.0)
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def _mills(x: float) -> float:
    """The Mills ratio Φ(−x)/φ(x) for x ≥ 0."""
    return math.sqrt(math.pi / 2) * float(erfcx(x * ROOT_HALF))


def _boundary(low: float, high: float, below: Callable[[float], bool]) -> tuple[float, float]:
    """Bisect until the floats are neighbours: `below` holds at the first and fails at the second."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high
