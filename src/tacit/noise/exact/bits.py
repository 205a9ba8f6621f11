"""Random words for the exact samplers, and the only door through which they come from the operating system.

A sampler's core asks a `Bits` for `count` independent integers, uniform on [0, 2^width), and decides everything else by
comparing integers. The public samplers get theirs from `secure_bits`, which accepts `SecureNoise` and nothing else; the
tests give the same cores a replayed or an exhaustively enumerated `Bits`, so that what is tested is what runs.

Nothing is kept between two requests: the bytes of one request are dropped with its result, there is no buffer that a
later call, another thread or a forked process could share. (CPython cannot promise to overwrite freed memory.)

*Uniform integers*: words of just enough bits, those not below the bound are drawn again: no modulo bias.
*Permutation*: independent uniform keys are sorted; if two are equal all are drawn again. Given that they are distinct,
every order of independent, identically distributed keys has the same probability, 1/n!.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Ints
from tacit.errors import require, require_count
from tacit.randomness import SecureNoise

WORD = 64  # bits per random word; the cores take any other width, so that tests can enumerate all words
_MAX_LANES = 1 << 32  # up to here two of the 64-bit keys are equal with probability at most 1/2
_WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

Size = int | tuple[int, ...]


class Bits(Protocol):
    """A source of independent uniform integers on [0, 2^width), 1 ≤ width ≤ 64."""

    def __call__(self, count: int, width: int) -> NDArray[np.unsignedinteger[Any]]:
        """Draw `count` integers, unsigned and of the narrowest type that holds `width` bits."""
        ...


def secure_bits(noise: SecureNoise) -> Bits:
    """Words from the operating system's CSPRNG; a seeded generator, or anything else, is a TypeError.

    >>> bool(secure_bits(SecureNoise())(1000, 3).max() < 8)
    True
    """
    # The very class, not a subclass: a subclass could override `random_bytes` with something seeded.
    if type(noise) is not SecureNoise:
        raise TypeError(
            f"deployment noise needs tacit.randomness.SecureNoise, got {type(noise).__name__}; "
            "seeded generators are for simulations and give no privacy"
        )

    def draw(count: int, width: int) -> NDArray[np.unsignedinteger[Any]]:
        if width == 1:
            packed = np.frombuffer(noise.random_bytes(-(-count // 8)), dtype=np.uint8)
            return np.unpackbits(packed, count=count)
        dtype = word_dtype(width)
        words = np.frombuffer(noise.random_bytes(count * dtype.itemsize), dtype=dtype)
        # Dropping high bits of a uniform word leaves a uniform shorter word.
        return words if width == 8 * dtype.itemsize else words & dtype.type((1 << width) - 1)

    return draw


def word_dtype(width: int) -> np.dtype[Any]:
    """The narrowest unsigned type of at least `width` bits.

    >>> word_dtype(1), word_dtype(17)
    (dtype('uint8'), dtype('uint32'))
    """
    return np.dtype(next(kind for bits, kind in _WIDTHS.items() if width <= bits))


def lanes(size: Size) -> tuple[int, tuple[int, ...]]:
    """The number of samples and the shape of the answer.

    >>> lanes(5), lanes((2, 3))
    ((5, (5,)), (6, (2, 3)))
    """
    shape = tuple(require_count("size", side, least=0) for side in (size if isinstance(size, tuple) else (size,)))
    return math.prod(shape), shape


def uniform_integers(size: Size, noise: SecureNoise, *, below: int) -> Ints:
    """Independent integers, uniform on [0, below), exactly; 1 ≤ below ≤ 2^63.

    >>> sorted(set(uniform_integers(2000, SecureNoise(), below=3).tolist()))  # fails with probability below 1e-351
    [0, 1, 2]
    """
    count, shape = lanes(size)
    bits = secure_bits(noise)
    limit = require_count("below", below, 1, 1 << 63)
    return draw_below(limit, count, bits).reshape(shape)


def permutation(count: int, noise: SecureNoise) -> Ints:
    """A uniformly random order of 0, ..., count - 1; each of the count! orders is equally likely, exactly.

    >>> sorted(permutation(5, SecureNoise()).tolist())
    [0, 1, 2, 3, 4]
    """
    number = require_count("count", count, least=0)
    require(number <= _MAX_LANES, "count must be at most 2^32", number)
    return draw_order(number, secure_bits(noise))


def draw_below(limit: int, count: int, bits: Bits) -> Ints:
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


def draw_order(count: int, bits: Bits, *, width: int = WORD) -> Ints:
    """A uniform order of `count` things, by sorting distinct keys of `width` bits."""
    while True:
        keys = bits(count, width)
        order = np.argsort(keys)
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64, copy=False)
