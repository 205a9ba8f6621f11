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
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from numbers import Rational
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Ints
from tacit.errors import InvalidInput, require
from tacit.noise.exact.bits import WORD, Bits

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
