"""Exact inversion behind the samplers: Lemma N4 (exact inversion).

A law on an ordered, possibly infinite list of outcomes x₀, x₁, ... is sampled with one real U, uniform on [0, 1):

    X = x_i  where  i = #{k : U < T_k},   T_k = P(X comes after x_k)    (T₀ ≥ T₁ ≥ ... → 0)

U is never rounded, because it is never finished: its binary digits are drawn only as far as the comparisons need them.
With the first b bits u of U known and integers lower_k ≤ 2^b T_k ≤ upper_k,

    u + 1 ≤ lower_k   ⟹  U < T_k            u ≥ upper_k   ⟹  U ≥ T_k

and when neither holds for some k, more digits of U are drawn and the thresholds are enclosed more narrowly. So the
law is the stated one, with total variation distance 0, and the sampler ends with probability 1; at b = 64 a lane is
undecided with probability below (number of thresholds) · 2^-62: one table look-up per draw.

An enclosure of a real number x at `bits` bits is a pair of integers (lower, upper) with lower ≤ 2^bits · x ≤ upper:
Python integers only, every rounding outwards.

Exact coins for deployments: rational, 1/(1 + e^γ), fair, and one probability per lane.

All are [U < p] with the digits of the uniform U drawn as far as the comparison needs them (`inversion`): total
variation distance 0. Coins compare 16 bits first; one in 2^16 needs more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from numbers import Rational
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require
from tacit.noise.exact.bits import WORD, Bits, Size, lanes, secure_bits
from tacit.randomness import SecureNoise

Enclosure = tuple[int, int]
Real = Fraction | int | float

_HALVINGS = 5  # the Taylor series runs on an argument below 2^-5; any number is correct, this one is fast


def rational(name: str, value: Real, low: Real = 0, high: Real = math.inf, *, open_low: bool = False) -> Fraction:
    """`value` as the rational number it is, within [low, high] (or (low, high]); no rounding at all.

    >>> rational("scale", 0.1), rational("scale", Fraction(1, 10))
    (Fraction(3602879701896397, 36028797018963968), Fraction(1, 10))
    """
    number: Real
    if not isinstance(value, bool) and isinstance(value, Rational):
        number = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, float | np.floating) and math.isfinite(value):
        number = Fraction(*value.as_integer_ratio())
    else:
        raise InvalidInput(f"{name} must be a finite number, got {value!r}; use a Fraction, an int or a float")
    left = "(" if open_low else "["
    inside = (low < number if open_low else low <= number) and number <= high
    require(inside, f"{name} must be in {left}{low}, {high}]", value)
    return number


def exp_enclosure(gamma: Fraction, bits: int) -> Enclosure:
    """Integers around 2^bits · e^-γ, for γ ≥ 0 and bits ≥ 1.

    >>> exp_enclosure(Fraction(1), 20)  # 2^20 / e = 385749.5...
    (385749, 385750)
    >>> exp_enclosure(Fraction(0), 8)
    (256, 256)
    """
    if gamma == 0:
        return 1 << bits, 1 << bits
    if gamma >= bits:  # 2^bits · e^-bits < 1, because e > 2
        return 0, 1
    # e^-γ = (e^-y)^(2^s), y = γ/2^s; a squaring at most doubles the error, so s guard bits (and a few) pay for it.
    s = max(0, math.ceil(gamma).bit_length() + _HALVINGS)
    working = bits + s + 8
    lower, upper = _taylor(gamma.numerator, gamma.denominator << s, working)
    for _ in range(s):
        lower = lower * lower >> working
        upper = ceil_div(upper * upper, 1 << working)
    return lower >> (working - bits), ceil_div(upper, 1 << (working - bits))


def ceil_div(numerator: int, denominator: int) -> int:
    """The least integer that is at least numerator / denominator.

    >>> ceil_div(7, 2), ceil_div(6, 2)
    (4, 3)
    """
    return -(-numerator // denominator)


def _taylor(num: int, den: int, bits: int) -> Enclosure:
    """Integers around 2^bits · e^-y for y = num/den in (0, 1), both at least 0."""
    # e^-y = Σ_k (-y)^k / k!: alternating with decreasing terms, so the rest is at most the last term added.
    low_term = high_term = low_sum = high_sum = 1 << bits
    k = 0
    while high_term > 1:
        k += 1
        low_term = low_term * num // (den * k)
        high_term = ceil_div(high_term * num, den * k)
        if k % 2:
            low_sum, high_sum = low_sum - high_term, high_sum - low_term
        else:
            low_sum, high_sum = low_sum + low_term, high_sum + high_term
    return max(0, low_sum - high_term), high_sum + high_term


GUARD = 64  # further bits to which weights are enclosed, so that thresholds are known to about one unit
CHUNK = 1 << 16  # lanes drawn at once: tables and random words stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Unnormalised probabilities of the first outcomes of a law, enclosed by integers in units of 2^-(bits + GUARD).

    `rest` bounds the sum of all the outcomes that are not listed (0: none are missing).
    """

    outcomes: Sequence[int]
    lower: Sequence[int]
    upper: Sequence[int]
    rest: int


class Law(Hashable, Protocol):
    """A discrete law whose weights can be enclosed to any number of bits."""

    def weights(self, bits: int) -> Weights:
        """Enclose so many outcomes, always in the same order, that the others weigh at most 2^-bits together.

        The weight of all is at least 1, that is, 2^(bits + GUARD) units, so `rest` is at most 2^GUARD.
        """
        ...


def draw(law: Law, count: int, bits: Bits, *, width: int = WORD) -> Ints:
    """`count` independent outcomes, exactly distributed as `law`, whatever the word width."""
    table = _table(law, width)
    result = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        u = bits(min(CHUNK, count - start), width).astype(np.uint64, copy=False)
        # i = #{k : u < lower_k}: U < T_k is certain for k < i. If u ≥ upper_i, then U ≥ T_i ≥ T_k for all k ≥ i.
        index = table.ascending.size - np.searchsorted(table.ascending, u, side="right")
        part = table.outcomes[index]
        for lane in np.flatnonzero(u - table.lower[index] < table.gap[index]):
            part[lane] = extend(law, int(u[lane]), bits, width=width)
        result[start : start + part.size] = part
    return result


def extend(law: Law, u: int, bits: Bits, *, width: int = WORD) -> int:
    """The outcome of a uniform number whose first `width` bits are `u`: draws more of them until it is decided."""
    known = width
    while True:
        outcomes, lower, upper = thresholds(law, known)
        index = _certainly_below(lower, u)
        if u >= upper[index]:
            return outcomes[index]
        u = (u << width) | int(bits(1, width)[0])
        known += width


@lru_cache(maxsize=32)
def thresholds(law: Law, bits: int) -> tuple[list[int], list[int], list[int]]:
    """Outcomes x_k and enclosures of 2^bits · T_k; the last lower one is 0 and the last upper one at most 1.

    Only public parameters enter, so the answer may be remembered.
    """
    w = law.weights(bits)
    one = 1 << bits
    # T_k = after / (after + upto) grows with `after` and falls with `upto`; so both enclosures decrease in k.
    upto_low, upto_high = list(accumulate(w.lower)), list(accumulate(w.upper))
    lower, upper = [], []
    for k in range(len(w.outcomes)):
        after_low = upto_low[-1] - upto_low[k]
        after_high = upto_high[-1] - upto_high[k] + w.rest
        lower.append(after_low * one // (after_low + upto_high[k]))
        upper.append(min(one, ceil_div(after_high * one, after_high + upto_low[k])))
    return list(w.outcomes), lower, upper


def concave_tail(lower_before: int, upper_last: int) -> int | None:
    """A bound on w_last + w_next + ... of a log-concave sequence, from bounds on two consecutive weights.

    Ratios decrease, so w_last·(1 + ρ + ρ² + ...) with ρ = w_last / w_before bounds it; None while ρ is not below 1.

    >>> concave_tail(8, 4)  # 4 + 2 + 1 + ... = 8
    8
    """
    if upper_last >= lower_before:
        return None
    return ceil_div(upper_last * lower_before, lower_before - upper_last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Thresholds at the width of a word, as arrays for the look-up."""

    outcomes: Ints
    lower: NDArray[np.uint64]
    gap: NDArray[np.uint64]  # upper - lower: unlike `upper` it always fits into a word
    ascending: NDArray[np.uint64]  # `lower` reversed


@lru_cache(maxsize=64)
def _table(law: Law, width: int) -> _Table:
    outcomes, lower, upper = thresholds(law, width)
    low = np.array(lower, dtype=np.uint64)
    gap = np.array([high - below for below, high in zip(lower, upper, strict=True)], dtype=np.uint64)
    return _Table(outcomes=np.array(outcomes, dtype=np.int64), lower=low, gap=gap, ascending=low[::-1].copy())


def _certainly_below(lower: Sequence[int], u: int) -> int:
    """#{k : u < lower_k} for decreasing `lower`, by bisection."""
    first, last = 0, len(lower)
    while first < last:
        middle = (first + last) // 2
        if u < lower[middle]:
            first = middle + 1
        else:
            last = middle
    return first


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
