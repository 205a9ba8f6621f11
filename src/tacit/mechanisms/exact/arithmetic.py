"""Exact parameters and rigorous enclosures: Python integers only, every rounding outwards.

An enclosure of a real number x at `bits` bits is a pair of integers (lower, upper) with lower ≤ 2^bits · x ≤ upper.
The samplers need nothing else: wherever an enclosure is too wide to decide a comparison they ask for more bits.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational

import numpy as np

from tacit.errors import InvalidInput, require

__all__ = ["Enclosure", "Real", "ceil_div", "exp_enclosure", "rational"]

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
