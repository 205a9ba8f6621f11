"""Exact uniform integers and permutations for deployments (the shuffler's order).

*Uniform integers*: words of just enough bits, those not below the bound are drawn again: no modulo bias.
*Permutation*: independent uniform keys are sorted; if two are equal all are drawn again. Given that they are distinct,
every order of independent, identically distributed keys has the same probability, 1/n!.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import require, require_count
from tacit.mechanisms.exact.bits import WORD, Bits, Size, lanes, secure_bits
from tacit.randomness import SecureNoise

__all__ = ["draw_below", "draw_order", "permutation", "uniform_integers"]

_MOST_LANES = 1 << 32  # up to here two of the 64-bit keys are equal with probability at most 1/2


def uniform_integers(size: Size, noise: SecureNoise, *, below: int) -> NDArray[np.int64]:
    """Independent integers, uniform on [0, below), exactly; 1 ≤ below ≤ 2^63.

    >>> sorted(set(uniform_integers(2000, SecureNoise(), below=3).tolist()))  # fails with probability below 1e-351
    [0, 1, 2]
    """
    count, shape = lanes(size)
    bits = secure_bits(noise)
    limit = require_count("below", below)
    require(limit <= 1 << 63, "below must be at most 2^63", limit)
    return draw_below(limit, count, bits).reshape(shape)


def permutation(count: int, noise: SecureNoise) -> NDArray[np.int64]:
    """A uniformly random order of 0, ..., count - 1; each of the count! orders is equally likely, exactly.

    >>> sorted(permutation(5, SecureNoise()).tolist())
    [0, 1, 2, 3, 4]
    """
    number = require_count("count", count, least=0)
    require(number <= _MOST_LANES, "count must be at most 2^32", number)
    return draw_order(number, secure_bits(noise))


def draw_below(limit: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """`count` independent integers, uniform on [0, limit)."""
    result = np.zeros(count, dtype=np.int64)
    width = (limit - 1).bit_length()
    pending = np.arange(count if width else 0)
    while pending.size:
        word: NDArray[Any] = bits(pending.size, width)
        keep = word <= limit - 1
        result[pending[keep]] = word[keep]
        pending = pending[~keep]
    return result


def draw_order(count: int, bits: Bits, *, width: int = WORD) -> NDArray[np.int64]:
    """A uniform order of `count` things, by sorting distinct keys of `width` bits."""
    while True:
        keys = bits(count, width)
        order = np.argsort(keys)
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64, copy=False)
