"""Exact geometric noise, P(k) = (1 - r)·r^k with r = e^-(1/scale), for deployments.

Exact: total variation distance 0 (`blocks`, `inversion`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms.exact.arithmetic import Real, rational
from tacit.mechanisms.exact.bits import Size, lanes, secure_bits
from tacit.mechanisms.exact.blocks import LARGEST_SCALE, GeometricBlocks, block_shift, draw_magnitudes
from tacit.randomness import SecureNoise

__all__ = ["geometric"]


def geometric(size: Size, noise: SecureNoise, *, scale: Real) -> NDArray[np.int64]:
    """Independent k ≥ 0 with P(k) ∝ e^-(k/scale), exactly.

    >>> k = geometric(1000, SecureNoise(), scale=3)
    >>> k.dtype, bool(k.min() >= 0)
    (dtype('int64'), True)
    """
    count, shape = lanes(size)
    b = rational("scale", scale, high=LARGEST_SCALE, open_low=True)
    return draw_magnitudes(GeometricBlocks(b, block_shift(b)), count, secure_bits(noise)).reshape(shape)
