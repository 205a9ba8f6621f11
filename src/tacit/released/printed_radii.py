"""The radii c_{k,1..4} of [garcelon2021local] as printed: Props. 8, 11, 13 and 15, in one form.

    c_{k,i} = max{ least, a_i max{√((k - past) t_i), linear · L_i} √L_i },   L_i = ln(n_i / δ_k),   δ_k = 3δ/(2π²k²)

    Prop. 8   Laplace, scale b          a = (b√8, b√8, b√8, b√(8/S))     t = (1, 1, S, S)  past 0  linear 1  least 0
    Prop. 11  Gaussian, deviation σ     a = σ                            t = (1, 1, S, 1)  past 1  linear 0  least 1
    Prop. 13  randomized response, ε₀   a = g√(H/2), S times that in c₃  t = 1             past 1  linear 0  least 1
    Prop. 15  bounded by R, R₂          a = √2 (R, R, R₂, R₂)            t = (1, 1, S, 1)  past 1  linear 0  least 0

with g = (2e^ε₀ - 1)/(e^ε₀ - 1); n = 6SA, and 6S²A in c₃ and c₄ of Props. 8 and 15; 4SA, and 4S²A in c₄, of Prop. 13.
They are what is printed and not what is proved: several do not cover (`tacit.released.precision` has radii that do).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tacit.arrays import Floats
from tacit.kernels import kernel


class PrintedRadii(NamedTuple):
    """The printed radii of one mechanism; everything but k and δ."""

    amount: Floats
    """[4]: a_i."""
    terms: Floats
    """[4]: t_i."""
    log_numbers: Floats
    """[4]: ln n_i."""
    past: float
    """Whether the sum is said to have k terms (0) or k - 1 (1)."""
    linear: float
    """Whether L_i itself bounds the root from below (Prop. 8)."""
    least: float
    """No radius is smaller."""


@kernel
def printed_radius(radii: PrintedRadii, statistic: int, episode: float, log_failure: float) -> float:
    """c_{k,i} before episode k, where `log_failure` is ln(1/δ_k).

    >>> import numpy as np
    >>> four = np.ones(4)
    >>> gaussian = PrintedRadii(3.0 * four, four, np.log(24.0) * four, past=1.0, linear=0.0, least=1.0)
    >>> printed_radius(gaussian, 0, 1.0, 2.0), round(printed_radius(gaussian, 0, 101.0, 2.0), 3)
    (1.0, 68.266)
    """
    L = float(radii.log_numbers[statistic]) + log_failure
    root = math.sqrt((episode - radii.past) * float(radii.terms[statistic]))
    return max(radii.least, float(radii.amount[statistic]) * max(root, radii.linear * L) * math.sqrt(L))
