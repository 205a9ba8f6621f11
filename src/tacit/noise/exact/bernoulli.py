"""Exact coins for deployments: rational, 1/(1 + e^γ), fair, and one probability per lane.

All are [U < p] with the digits of the uniform U drawn as far as the comparison needs them (`inversion`): total
variation distance 0. Coins compare 16 bits first; one in 2^16 needs more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.arrays import Floats
from tacit.noise.exact.bits import Bits, Size, lanes, secure_bits
from tacit.noise.exact.inversion import (
    GUARD,
    Enclosure,
    Law,
    Real,
    Weights,
    ceil_div,
    draw,
    exp_enclosure,
    rational,
)
from tacit.randomness import SecureNoise

_COIN = 16


@dataclass(frozen=True, slots=True)
class RationalCoin:
    """P(1) = p, 0 < p < 1."""

    p: Fraction

    def weights(self, bits: int) -> Weights:
        """1 - p and p."""
        scaled = self.p.numerator << (bits + GUARD)
        return _coin((scaled // self.p.denominator, ceil_div(scaled, self.p.denominator)), bits)


@dataclass(frozen=True, slots=True)
class LogisticCoin:
    """P(1) = o e^-γ/(1 + o e^-γ), γ ≥ 0 and o > 0; for o = 1 that is 1/(1 + e^γ)."""

    gamma: Fraction
    odds: Fraction = Fraction(1)

    def weights(self, bits: int) -> Weights:
        """1 and o e^-γ: weights need not be normalised."""
        unit = 1 << (bits + GUARD)
        low, high = exp_enclosure(self.gamma, bits + GUARD)
        o = self.odds
        scaled = low * o.numerator // o.denominator, ceil_div(high * o.numerator, o.denominator)
        return Weights(outcomes=(0, 1), lower=(unit, scaled[0]), upper=(unit, scaled[1]), rest=0)


def bernoulli(size: Size, noise: SecureNoise, *, probability: Real) -> NDArray[np.bool_]:
    """Independent coins with P(True) = probability, a rational in [0, 1], exactly.

    >>> from fractions import Fraction
    >>> coins = bernoulli(9000, SecureNoise(), probability=Fraction(1, 3))
    >>> bool(2400 < coins.sum() < 3600)  # fails with probability below 1e-35
    True
    """
    count, shape = lanes(size)
    bits = secure_bits(noise)
    p = rational("probability", probability, high=1)
    if p in (0, 1):
        return np.full(shape, p == 1)
    return draw_coins(RationalCoin(p), count, bits).reshape(shape)


def bernoulli_logistic(size: Size, noise: SecureNoise, *, gamma: Real, odds: Real = 1) -> NDArray[np.bool_]:
    """Independent coins with P(True) = odds/(odds + e^gamma), gamma ≥ 0 and odds ≥ 0 rational, exactly.

    Whether randomized response with epsilon = gamma flips the bit: the odds are exactly e^gamma to 1 against.

    >>> bool(bernoulli_logistic(10, SecureNoise(), gamma=300).any())  # true with probability below 1e-129
    False
    """
    count, shape = lanes(size)
    bits = secure_bits(noise)
    coin = LogisticCoin(rational("gamma", gamma), rational("odds", odds))
    return np.full(shape, False) if coin.odds == 0 else draw_coins(coin, count, bits).reshape(shape)


def bernoulli_each(probabilities: ArrayLike, noise: SecureNoise) -> NDArray[np.bool_]:
    """One independent coin per entry, P(True) = that double, exactly: stochastic rounding of values in [0, 1].

    The probabilities may be private data, so nothing raises on them: they are clipped to [0, 1], and NaN counts as 0.

    >>> bernoulli_each(np.array([0.0, 1.0, 7.0, np.nan]), SecureNoise())
    array([False,  True,  True, False])
    """
    p = np.asarray(probabilities, dtype=np.float64)
    return draw_each(p.ravel(), secure_bits(noise)).reshape(p.shape)


def fair_bits(size: Size, noise: SecureNoise) -> NDArray[np.uint8]:
    """Independent fair bits, eight from every random byte.

    >>> bool(set(fair_bits(100, SecureNoise()).tolist()) == {0, 1})  # fails with probability 2^-99
    True
    """
    count, shape = lanes(size)
    result: NDArray[Any] = secure_bits(noise)(count, 1)
    return result.reshape(shape)


def draw_coins(law: Law, count: int, bits: Bits, *, width: int = _COIN) -> NDArray[np.bool_]:
    """`count` independent coins of this law."""
    return draw(law, count, bits, width=width).astype(np.bool_)


def draw_each(p: Floats, bits: Bits, *, width: int = _COIN) -> NDArray[np.bool_]:
    """[U < p] per lane, p clipped to [0, 1] and NaN as 0; a double is dyadic, and every step on it is exact.

    Probabilities may be private, so the work does not depend on them: every lane compares a word, 1 has the digits
    0.111..., and a lane whose word equals its digit (probability 2^-width, whatever p is) compares another one.
    """
    result = np.zeros(p.size, dtype=np.bool_)
    pending, rest = np.arange(p.size), np.minimum(np.where(p > 0.0, p, 0.0), 1.0)
    while pending.size:
        scaled = np.ldexp(rest, width)
        digit = np.minimum(np.floor(scaled), float((1 << width) - 1))
        word = bits(pending.size, width).astype(np.float64)  # exact: width ≤ 53
        result[pending] = word < digit
        tied = word == digit
        pending, rest = pending[tied], (scaled - digit)[tied]
    return result


def _coin(p: Enclosure, bits: int) -> Weights:
    one = 1 << (bits + GUARD)
    return Weights(outcomes=(0, 1), lower=(one - p[1], p[0]), upper=(one - p[0], p[1]), rest=0)
