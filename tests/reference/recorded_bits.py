"""Slow twins of the exact samplers that read recorded random bytes: the laws by mpmath, the layout of words as stated.

What a secure path asked of the operating system is recorded (`recording`); `Recorded` hands the same bytes to samplers
that share nothing with the library's but the order in which words are taken: words of the fewest bytes, little endian,
high bits dropped; single bits from the top of every byte; one word per lane, then more words for undecided lanes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from types import SimpleNamespace
from unittest import mock

import mpmath

PRECISION = 400
"""Binary digits of every probability: an error would need a uniform number within 2^-300 of a threshold."""
COIN, WORD, GAUSS = 16, 64, 256


class Misread(AssertionError):
    """Bytes are missing, or left over: the release did not take its words as the samplers do."""


@contextmanager
def recording() -> Iterator[bytearray]:
    """Collect all bytes that `SecureNoise` hands out, in order."""
    found = bytearray()

    def urandom(count: int) -> bytes:
        made = os.urandom(count)
        found.extend(made)
        return made

    with mock.patch("tacit.randomness.os", SimpleNamespace(urandom=urandom)):
        yield found


@contextmanager
def replaying(data: bytes) -> Iterator[None]:
    """Let `SecureNoise` hand out these bytes again; more than there are is `Misread`."""
    source = Recorded(data)
    with mock.patch("tacit.randomness.os", SimpleNamespace(urandom=source.take)):
        yield


class Recorded:
    """The samplers over recorded bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.used = bytes(data), 0

    def take(self, count: int) -> bytes:
        self.used += count
        if self.used > len(self.data):
            raise Misread("more bytes are needed than were drawn")
        return self.data[self.used - count : self.used]

    def finish(self) -> None:
        if self.used != len(self.data):
            raise Misread(f"{len(self.data) - self.used} bytes were drawn and not needed")

    def words(self, count: int, width: int) -> list[int]:
        if width == 1:
            packed = self.take(-(-count // 8))
            return [packed[i // 8] >> (7 - i % 8) & 1 for i in range(count)]
        size = next(size for size in (1, 2, 4, 8) if width <= 8 * size)
        data = self.take(count * size)
        return [int.from_bytes(data[i : i + size], "little") % 2**width for i in range(0, count * size, size)]

    def fair(self, count: int) -> list[int]:
        return self.words(count, 1)

    def below(self, limit: int, count: int = 1) -> list[int]:
        found: list[int | None] = [None] * count
        width = (limit - 1).bit_length()
        if width == 0:
            return [0] * count
        while None in found:
            places = [i for i, one in enumerate(found) if one is None]
            for place, word in zip(places, self.words(len(places), width), strict=True):
                found[place] = word if word < limit else None
        return [one for one in found if one is not None]

    def order(self, count: int) -> list[int]:
        while True:
            keys = self.words(count, WORD)
            if len(set(keys)) == count:
                return sorted(range(count), key=keys.__getitem__)

    def coins(self, p: mpmath.mpf, count: int) -> list[int]:
        """[U < p]; a lane is undecided while p lies inside the digits that are known."""
        found = []
        for word in self.words(count, COIN):
            found.append((word, COIN))
        result = []
        for word, width in found:
            u, known = word, width
            with mpmath.workprec(PRECISION):
                while u < p * 2**known < u + 1:
                    u, known = u << COIN | self.words(1, COIN)[0], known + COIN
                result.append(int(u < p * 2**known))
        return result

    def bernoulli(self, count: int, probability: Fraction | float) -> list[int]:
        p = Fraction(probability)
        if p in (0, 1):
            return [int(p)] * count
        return self.coins(_real(p), count)

    def logistic(self, count: int, gamma: float, odds: Fraction | int = 1) -> list[int]:
        if odds == 0:
            return [0] * count
        with mpmath.workprec(PRECISION):
            weight = _real(Fraction(odds)) * mpmath.exp(-_real(Fraction(gamma)))
            return self.coins(weight / (1 + weight), count)

    def each(self, probabilities: list[float]) -> list[int]:
        """One word per lane whatever the probability; equal digits take another word."""
        rest = [Fraction(min(max(p, 0.0), 1.0)) if p == p else Fraction(0) for p in probabilities]
        result, pending = [0] * len(rest), list(range(len(rest)))
        while pending:
            tied = []
            for lane, word in zip(pending, self.words(len(pending), COIN), strict=True):
                digit = min(int(rest[lane] * 2**COIN), 2**COIN - 1)
                result[lane], rest[lane] = int(word < digit), rest[lane] * 2**COIN - digit
                if word == digit:
                    tied.append(lane)
            pending = tied
        return result

    def laplace(self, count: int, scale: Fraction | float) -> list[int]:
        b = Fraction(scale)
        return self._symmetric(count, lambda n: n / b, _shift(b), ("laplace", b))

    def gaussian(self, count: int, variance: Fraction | int) -> list[int]:
        v = Fraction(variance)
        return self._symmetric(count, lambda n: n * n / (2 * v), _shift(Fraction(isqrt(int(v)))), ("gaussian", v))

    def _symmetric(
        self, count: int, gamma: Callable[[int], Fraction], shift: int, name: tuple[str, Fraction]
    ) -> list[int]:
        """P(z) ∝ e^-γ(|z|): a block by inversion, a place in it, a coin, a sign; -0 is drawn again."""
        found: list[int | None] = [None] * count
        thresholds = _thresholds(name, shift)
        while None in found:
            places = [i for i, one in enumerate(found) if one is None]
            n = len(places)
            blocks = [_inverted(thresholds, word) for word in self.words(n, WORD)]
            inside = self.words(n, shift) if shift else [0] * n
            kept = [True] * n
            if shift:
                for i, coin in enumerate(self.words(n, WORD)):
                    value = (blocks[i] << shift) + inside[i]
                    with mpmath.workprec(PRECISION):
                        bound = mpmath.exp(-_real(gamma(value) - gamma(blocks[i] << shift))) * 2**WORD
                        assert not coin < bound < coin + 1  # probability 2^-64
                        kept[i] = bool(coin < bound)
            for i, bit in enumerate(self.words(n, 1)):
                value = (blocks[i] << shift) + inside[i]
                if kept[i] and not (bit and value == 0):
                    found[places[i]] = -value if bit else value
        return [one for one in found if one is not None]


def _real(x: Fraction) -> mpmath.mpf:
    with mpmath.workprec(PRECISION):
        return mpmath.mpf(x.numerator) / x.denominator


def _shift(scale: Fraction) -> int:
    return max(0, int(scale / GAUSS).bit_length() - 1)


@lru_cache(maxsize=64)
def _thresholds(name: tuple[str, Fraction], shift: int) -> list[mpmath.mpf]:
    """2^64 P(the block comes after the k-th), as far as that is not far below one."""
    kind, parameter = name
    with mpmath.workprec(PRECISION):
        scale = _real(parameter)
        weights = []
        while not weights or weights[-1] > mpmath.mpf(2) ** -100:
            n = mpmath.mpf(len(weights) << shift)
            weights.append(mpmath.exp(-n / scale if kind == "laplace" else -n * n / (2 * scale)))
        after, found = mpmath.mpf(0), []
        total = mpmath.fsum(weights)
        for weight in reversed(weights):
            found.append(after / total * 2**WORD)
            after += weight
        return found[::-1]


def _inverted(thresholds: list[mpmath.mpf], u: int) -> int:
    """#{k : U < T_k}, for thresholds that decrease."""
    low, high = 0, len(thresholds)
    while low < high:
        middle = (low + high) // 2
        if u < thresholds[middle]:
            low = middle + 1
        else:
            high = middle
    assert low == 0 or u + 1 <= thresholds[low - 1]  # undecided with probability 2^-50
    return low
