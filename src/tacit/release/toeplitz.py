"""Factors of running totals in whole numbers: lower triangular Toeplitz matrices that a curator can apply exactly.

    w_k = Σ_{j≤k} C_{k-j} x_j + z_k          what is released: whole numbers
    Σ_{j≤k} x_j + noise = Σ_{j≤k} q_{k-j} w_j,    q(x) = 1 / ((1 - x) C(x))         what anybody computes from it

The column is C_j = ⌊N c_j⌉ with the coefficients c_j of (1 - x)^-a, 0 ≤ a ≤ 1/2: c_0 = 1, c_j = c_{j-1} (j - 1 + a)/j.
a = 1/2 is the square-root factorization, a = 0 the identity (fresh noise for every stage); in between, a person who
reports in several stages is exposed to less, and totals carry more. Everything is computed from the rounded column.

G1  Non-negative and non-increasing, so a person with g reports, at most one per stage, moves w by at most the sum of
    the first g columns times what one report moves: Lemma C9 (integer factorization).
G2  The column is computed in integers: every reader of a study computes the same.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.arrays import Floats
from tacit.errors import require, require_count

SQUARE_ROOT: Final = Fraction(1, 2)
IDENTITY: Final = Fraction(0)
CANDIDATES: Final = tuple(Fraction(n, 16) for n in range(9))
_GUARD: Final = 192
"""Binary digits of the coefficients: far more than any rounding to whole numbers asks for."""


@lru_cache(maxsize=64)
def integer_column(exponent: Fraction, stages: int, scale: int) -> tuple[int, ...]:
    """The first column ⌊scale · c_j⌉, j < stages (G2).

    >>> integer_column(Fraction(1, 2), 4, 1000), integer_column(Fraction(0), 3, 1000)
    ((1000, 500, 375, 312), (1000, 0, 0))
    """
    require_count("stages", stages)
    require(0 <= exponent <= SQUARE_ROOT, "the exponent of a factor must lie in [0, 1/2]", str(exponent))
    p, q = exponent.numerator, exponent.denominator
    one = require_count("scale", scale) << _GUARD
    found, c, half = [scale], one, 1 << (_GUARD - 1)
    for j in range(1, stages):
        c = c * (p + (j - 1) * q) // (j * q)
        # Halves go down, so that the column stays non-increasing and 312.5 is 312.
        found.append((c + half - 1) >> _GUARD)
    return tuple(found)


def column_square(column: tuple[int, ...], reports: int) -> int:
    """‖C e_0 + ... + C e_{g-1}‖²: the largest over all g columns (G1), exactly.

    >>> column_square((2, 1, 1), 1), column_square((2, 1, 1), 2)
    (6, 17)
    """
    g = min(require_count("reports", reports), len(column))
    total, running = 0, 0
    for r, entry in enumerate(column):
        # (C e_0 + ... + C e_{g-1})_r = C_r + C_{r-1} + ... + C_{r-g+1}
        running += entry - (column[r - g] if r >= g else 0)
        total += running * running
    return total


@lru_cache(maxsize=64)
def prefix_weights(column: tuple[int, ...]) -> Floats:
    """The coefficients q_j of 1/((1 - x) C(x)).

    >>> prefix_weights((4, 2))
    array([0.25 , 0.125])
    """
    c: Floats = np.array(column, dtype=np.float64)
    inverse = np.zeros(len(c))
    inverse[0] = 1.0 / c[0]
    for k in range(1, len(c)):
        # Σ_j C_j y_{k-j} = 0
        inverse[k] = -np.dot(c[1 : k + 1], inverse[k - 1 :: -1]) / c[0]
    weights: Floats = np.cumsum(inverse)
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=256)
def best_exponent(stages: int, reports: int) -> Fraction:
    """The exponent with the least noise, squared and summed over all prefixes, for a person with so many reports.

    >>> str(best_exponent(16, 1)), str(best_exponent(16, 16)), str(best_exponent(1, 1))
    ('7/16', '0', '0')
    """

    def noise(exponent: Fraction) -> float:
        column = integer_column(exponent, stages, 1 << 20)
        weights = prefix_weights(column)
        # Σ_k Σ_{j≤k} q_j² at the noise s² ∝ ‖the first g columns‖²
        return column_square(column, reports) * float(np.dot(np.square(weights), np.arange(stages, 0, -1)))

    return min(CANDIDATES, key=lambda exponent: (math.log(noise(exponent)), exponent))
