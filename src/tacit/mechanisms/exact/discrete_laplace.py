"""Exact discrete Laplace noise, P(z) ∝ e^-(|z|/scale) on the integers, for deployments.

Guarantee: the noise has exactly this law, total variation distance 0 (`blocks`, `inversion`). So an integer of
sensitivity Δ plus this noise with scale b is Δ/b-DP with nothing lost to sampling: P(z)/P(z + Δ) ≤ e^(Δ/b) holds with
real numbers for every integer z, and every integer is reachable from every input. Variance: 2r/(1 - r)², r = e^-(1/b).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms.exact.arithmetic import Real, rational
from tacit.mechanisms.exact.bits import Size, lanes, secure_bits
from tacit.mechanisms.exact.blocks import LARGEST_SCALE, GeometricBlocks, block_shift, draw_symmetric
from tacit.randomness import SecureNoise

__all__ = ["discrete_laplace"]


def discrete_laplace(size: Size, noise: SecureNoise, *, scale: Real) -> NDArray[np.int64]:
    """Independent integers z with P(z) ∝ e^-(|z|/scale), exactly.

    `scale` is a positive rational (a float is taken exactly as it is) of at most 2^40.

    >>> from fractions import Fraction
    >>> z = discrete_laplace((2, 500), SecureNoise(), scale=Fraction(34, 1))
    >>> z.shape, z.dtype
    ((2, 500), dtype('int64'))
    """
    count, shape = lanes(size)
    b = rational("scale", scale, high=LARGEST_SCALE, open_low=True)
    return draw_symmetric(GeometricBlocks(b, block_shift(b)), count, secure_bits(noise)).reshape(shape)
