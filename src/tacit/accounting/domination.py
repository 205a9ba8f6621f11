"""Lattice domination: the Gaussian that is at least as revealing as whole-number noise, up to a slack.

Noise X on the integers with a log-concave law (any sum of independent bits, the discrete Gaussian) covers a shift c.
The best tests of X against X + c are thresholds, so their errors are the vertices α = P(X ≥ k), β = P(X < k − c) of a
polygon. Let d > 0. The shift is dominated by N(0, 1) against N(μ, 1), beside an outcome of probability d that tells
everything, as soon as each vertex lies on or above the curve of that pair,

    β ≥ (1 − d) Φ(−μ − Φ⁻¹(α/(1 − d))),      that is,     μ ≥ −Φ⁻¹(α/(1 − d)) − Φ⁻¹(β/(1 − d))

where α < 1 − d and β < 1 − d; other vertices ask for nothing (Lemma P15 (lattice domination)). `gaussian_mu_of_shift`
is the largest right-hand side, in either order and for either sign of the shift, rounded up; infinite where the ends of
the law show more than d. Independent coordinates compose as Gaussians do, μ² = Σ μ_(c_j)² ≤ κ² Σ c_j² with κ the
`steepest` μ_c/c, and their slacks add up (Lemma P16 (dominated vectors)).

>>> round(1.0 / gaussian_mu_of_shift(LatticeLaw.of_bits(625, 0.5), 1, 1e-12) / 12.5, 3)
0.987
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import ndtri

from tacit.accounting.privacy_loss import ULP, Floats
from tacit.errors import NotSupported, require, require_count, require_real

MIN_SLACK: Final = 1e-30
"""A smaller slack is not told apart from what lies outside of a window."""
DEVIATIONS, MARGIN = 14.0, 60
MAX_OUTCOMES: Final = 2**20
STEPS: Final = 128
"""Shifts up to here are looked at one by one, larger ones in steps of one part in so many."""


@dataclass(frozen=True, slots=True, eq=False)
class LatticeLaw:
    """A log-concave law on the integers: masses of neighbouring outcomes, in a window that misses next to nothing."""

    mass: Floats
    outside: float
    """The mass of all other outcomes is at most this."""
    error: float
    """The relative error of a mass, and of a sum of masses from one end."""

    @classmethod
    def of_bits(cls, bits: int, probability: float) -> LatticeLaw:
        """The sum of so many independent bits.

        >>> LatticeLaw.of_bits(2, 0.5).mass.tolist()
        [0.25, 0.5, 0.25]
        """
        N, p = require_count("bits", bits), require_real("probability of a noise bit", probability, low=0.0, high=1.0)
        require(0.0 < p < 1.0, "the probability of a noise bit must lie strictly between 0 and 1", probability)
        reach = _reach(math.sqrt(N * p * (1.0 - p)))
        first, last = max(0, math.floor(N * p) - reach), min(N, math.floor(N * p) + reach)
        k = np.arange(first + 1, last + 1, dtype=np.float64)
        # ln P(k) − ln P(k − 1)
        return cls._stepping(np.log((N - k + 1.0) / k * (p / (1.0 - p))), first > 0, last < N)

    @classmethod
    def discrete_gaussian(cls, sigma: float) -> LatticeLaw:
        """P(z) ∝ exp(−z²/(2σ²)).

        >>> law = LatticeLaw.discrete_gaussian(1.0)
        >>> round(1.0 / gaussian_mu_of_shift(law, 1, 1e-12) ** 2, 3)  # a variance that is less by a twelfth
        0.914
        """
        reach = _reach(require_real("sigma", sigma, low=0.0, open_low=True))
        # ln P(z) − ln P(z − 1) = (1 − 2z)/2σ²
        z = np.arange(1 - reach, reach + 1, dtype=np.float64)
        return cls._stepping((1.0 - 2.0 * z) / (2.0 * sigma**2), True, True)

    @classmethod
    def _stepping(cls, steps: Floats, before: bool, after: bool) -> LatticeLaw:
        """From the steps of the logarithm in a window; whether there are outcomes before and after it."""
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        logs -= logs.max()
        kept = np.flatnonzero(logs > -660.0)
        first, last = int(kept[0]), int(kept[-1])
        mass = np.exp(logs[first : last + 1])
        mass /= mass.sum()
        # Steps fall: beyond an end the masses fall at least geometrically, with the ratio of the step that leaves it.
        outside = 0.0
        if before or first > 0:
            outside += float(mass[0]) / math.expm1(steps[max(first - 1, 0)])
        if after or last < logs.size - 1:
            outside += float(mass[-1]) / math.expm1(-steps[min(last, steps.size - 1)])
        return cls(mass, 2.0 * outside, ULP * (mass.size + 16.0) * (8.0 - float(logs[kept].min())))


def _reach(deviation: float) -> int:
    reach = math.ceil(DEVIATIONS * deviation) + MARGIN
    if 2 * reach > MAX_OUTCOMES:
        raise NotSupported(f"noise of a deviation of {deviation:.4g} has too many outcomes: use the exact accountant")
    return reach


def gaussian_mu_of_shift(law: LatticeLaw, shift: int, slack: float) -> float:
    """μ_c(d): the least μ whose Gaussian dominates a shift of the noise up to this slack, rounded up.

    Bits so few that their ends show more than the slack are dominated by none:

    >>> gaussian_mu_of_shift(LatticeLaw.of_bits(30, 0.5), 1, 1e-12)
    inf
    """
    c, d = require_count("shift", abs(shift), least=0), require_real("slack", slack, low=MIN_SLACK, high=0.5)
    require(law.outside <= 1e-3 * d, f"a slack must exceed what lies outside of the window, {law.outside:.2g}", d)
    if c == 0:
        return 0.0
    up, down = 1.0 + law.error, law.outside
    below = np.concatenate([[0.0], np.cumsum(law.mass)])  # P(X < k), for k from the first outcome to one past the last
    above = np.concatenate([np.cumsum(law.mass[::-1])[::-1], [0.0]])  # P(X ≥ k)
    ends = np.zeros(c), np.ones(c)
    alpha, not_alpha = np.concatenate([above, ends[0]]), np.concatenate([below, ends[1]])
    beta, not_beta = np.concatenate([ends[0], below]), np.concatenate([ends[1], above])

    def quantile(error: Floats, other: Floats) -> Floats:
        # −Φ⁻¹(p), p = error/(1 − d) and 1 − p = (other − d)/(1 − d), from whichever of the two is small.
        low = np.minimum(error / up * (1.0 - down) / (1.0 - d), 0.5)
        high = np.clip((other * up + down - d) / (1.0 - d), 0.0, 0.5)
        return np.asarray(np.where(error > 0.5, ndtri(high), -ndtri(low)))

    first, second = quantile(alpha, not_alpha), quantile(beta, not_beta)
    # An error of at least 1 − d asks for nothing.
    asks = (not_alpha * up + down > d) & (not_beta * up + down > d)
    rounding = 2.0**-44 * (1.0 + np.abs(first) + np.abs(second))
    needed = np.where(asks, first, 0.0) + np.where(asks, second, 0.0) + rounding
    return float(needed[asks].max(initial=0.0))


@lru_cache(maxsize=1024)
def steepest(law: LatticeLaw, most: int, slack: float) -> float:
    """κ = max of μ_c/c over shifts c = 1, ..., `most`, rounded up: a vector of such shifts has μ ≤ κ times its length.

    μ_c grows with c, so a shift within a step is charged the μ of the end of the step over the beginning.

    >>> 12.0 < 1.0 / steepest(LatticeLaw.of_bits(625, 0.5), 4, 1e-12) < 12.34
    True
    """
    found, c = 0.0, 0
    while c < require_count("most", most):
        after = min(most, c + max(1, c // STEPS))
        found = max(found, gaussian_mu_of_shift(law, after, slack) / (c + 1.0))
        c = after if math.isfinite(found) else most
    return math.nextafter(found, math.inf)
