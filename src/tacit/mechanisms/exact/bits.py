"""Random words for the exact samplers, and the only door through which they come from the operating system.

A sampler's core asks a `Bits` for `count` independent integers, uniform on [0, 2^width), and decides everything else by
comparing integers. The public samplers get theirs from `secure_bits`, which accepts `SecureNoise` and nothing else; the
tests give the same cores a replayed or an exhaustively enumerated `Bits`, so that what is tested is what runs.

Nothing is kept between two requests: the bytes of one request are dropped with its result, there is no buffer that a
later call, another thread or a forked process could share. (CPython cannot promise to overwrite freed memory.)
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import require_count
from tacit.randomness import SecureNoise

__all__ = ["WORD", "Bits", "Size", "lanes", "secure_bits", "word_dtype"]

WORD = 64  # bits per random word; the cores take any other width, so that tests can enumerate all words
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
            "seeded generators are for simulations and protect nobody"
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
