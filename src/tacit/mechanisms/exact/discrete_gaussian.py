"""Exact discrete Gaussian noise, P(z) ∝ e^-(z²/2σ²) on the integers, for deployments.

Guarantee: the noise has exactly this law, total variation distance 0 (`blocks`, `inversion`). An integer vector of
L2 sensitivity Δ plus this noise is Δ²/2σ²-zCDP (Canonne, Kamath and Steinke 2020, "The discrete Gaussian for
differential privacy"), the same as for the continuous Gaussian; the variance is at most σ².
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms.exact.arithmetic import Real, rational
from tacit.mechanisms.exact.bits import Size, lanes, secure_bits
from tacit.mechanisms.exact.blocks import LARGEST_SCALE, GaussianBlocks, block_shift, draw_symmetric
from tacit.randomness import SecureNoise

__all__ = ["discrete_gaussian"]


def discrete_gaussian(size: Size, noise: SecureNoise, *, variance: Real) -> NDArray[np.int64]:
    """Independent integers z with P(z) ∝ e^-(z²/(2·variance)), exactly.

    The parameter is σ², not σ, because σ² is what must be rational; it is at most 2^80. A float is taken exactly as it
    is: for a standard deviation s that must not be missed, give `Fraction(s)**2` rather than the rounded `s * s`.

    >>> z = discrete_gaussian(1000, SecureNoise(), variance=100)
    >>> bool(abs(z).max() < 150)  # fails with probability e^-100
    True
    """
    count, shape = lanes(size)
    v = rational("variance", variance, high=LARGEST_SCALE**2, open_low=True)
    # The block length need not be exact, only a fixed function of the parameter: ⌊σ⌋ by integer square root.
    law = GaussianBlocks(v, block_shift(Fraction(math.isqrt(int(v)))))
    return draw_symmetric(law, count, secure_bits(noise)).reshape(shape)
