"""Exact binomial noise, Binomial(trials, p) with rational p, for deployments: the sum of a shuffled batch's noise bits.

Exact inversion from the mode outwards (`inversion`): total variation distance 0, and a draw costs one table look-up
however many bits it stands for. More trials than one table can hold are drawn as a sum of independent binomials, which
is the same law.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from tacit.errors import require, require_count
from tacit.mechanisms.exact.arithmetic import Enclosure, Real, ceil_div, rational
from tacit.mechanisms.exact.bits import WORD, Bits, Size, lanes, secure_bits
from tacit.mechanisms.exact.inversion import GUARD, Weights, concave_tail, draw
from tacit.randomness import SecureNoise

__all__ = ["BinomialLaw", "binomial", "draw_binomial"]

_TABLE_VARIANCE = 1 << 20  # the table has about 19 entries per standard deviation
_MOST_TRIALS = 1 << 40


@dataclass(frozen=True, slots=True)
class BinomialLaw:
    """Binomial(n, p), n ≥ 1 and 0 < p < 1; outcomes in the order mode, mode + 1, mode - 1, mode + 2, ..."""

    n: int
    p: Fraction

    def weights(self, bits: int) -> Weights:
        """P(k) / P(mode), by the ratios of neighbours, outwards on both sides until the rest weighs at most 2^GUARD."""
        mode = floor((self.n + 1) * self.p)  # at most n, because p < 1
        one = 1 << (bits + GUARD)
        outcomes, enclosures = [mode], [(one, one)]
        sides = [self._side(mode, one, up=True), self._side(mode, one, up=False)]
        nearest = [next(side) for side in sides]
        while sum(rest for *_, rest in nearest) > 1 << GUARD:
            for i, side in enumerate(sides):
                k, enclosure, _ = nearest[i]
                if enclosure[1] > 0:
                    outcomes.append(k)
                    enclosures.append(enclosure)
                    nearest[i] = next(side)
        lower, upper = zip(*enclosures, strict=True)
        return Weights(outcomes=outcomes, lower=lower, upper=upper, rest=sum(rest for *_, rest in nearest))

    def _side(self, mode: int, one: int, *, up: bool) -> Iterator[tuple[int, Enclosure, int]]:
        """(k, enclosure of P(k)/P(mode), bound on that of k and all beyond), outwards; then zeros for ever."""
        # P(k+1)/P(k) = (n-k)/(k+1) · p/(1-p)     P(k-1)/P(k) = k/(n-k+1) · (1-p)/p
        yes, no = self.p.numerator, self.p.denominator - self.p.numerator
        k, (low, high) = mode, (one, one)
        while True:
            num, den = ((self.n - k) * yes, (k + 1) * no) if up else (k * no, (self.n - k + 1) * yes)
            before, low, high = low, low * num // den, ceil_div(high * num, den)
            k += 1 if up else -1
            tail = concave_tail(before, high) if high else 0
            # No bound yet (two equal weights at the mode): as good as infinite, so that the loop goes on.
            yield k, (low, high), one if tail is None else tail


def binomial(size: Size, noise: SecureNoise, *, trials: int, probability: Real = Fraction(1, 2)) -> NDArray[np.int64]:
    """Independent Binomial(trials, probability) integers, exactly; not centred.

    >>> from fractions import Fraction
    >>> z = binomial(1000, SecureNoise(), trials=2574)
    >>> bool(abs(z - 1287).max() < 25.4 * 12)  # fails with probability below 1e-28
    True
    """
    count, shape = lanes(size)
    bits = secure_bits(noise)
    n = require_count("trials", trials, least=0)
    require(n <= _MOST_TRIALS, "trials must be at most 2^40", n)
    p = rational("probability", probability, high=1)
    return draw_binomial(n, p, count, bits).reshape(shape)


def draw_binomial(n: int, p: Fraction, count: int, bits: Bits, *, width: int = WORD) -> NDArray[np.int64]:
    """`count` independent Binomial(n, p) integers."""
    total = np.zeros(count, dtype=np.int64)
    if p in (0, 1):
        return total + n * int(p)
    # Binomial(n) is the sum of independent Binomial(n_i), n = Σ n_i: as few and as equal parts as fit the table.
    parts = max(1, int(ceil_div(n * (p * (1 - p)).numerator, (p * (1 - p)).denominator * _TABLE_VARIANCE)))
    for i in range(parts):
        part = n // parts + (i < n % parts)
        if part:
            total += draw(BinomialLaw(part, p), count, bits, width=width)
    return total
