"""The cheapest distribution inside intervals, with entropy: one pair (x,a) of an entropy-regularised flow.

    φ = min Σ_y p_y (t_y + ln p_y)    over   lo ≤ p ≤ hi, Σ p = 1

is attained by p_y = clip(exp(λ - t_y), lo_y, hi_y), where λ makes the sum 1. The level λ is found exactly by fixing
variables: fill as if nothing were fixed, fix either everything above its hi or everything below its lo, whichever side
weighs more (it is then fixed for good), and fill the rest again. Each pass fixes at least one, nothing is sorted: Lemma
F3 (water filling).

Exponentials are anchored at the smallest free price, so that prices of any size keep their order; an entry that
underflows beside it keeps its logarithm λ - t. Where the fixed ends use up the whole mass but for rounding, as mirrored
intervals do (lo of one = 1 - hi of the other), the level is that of the entry which would yield first.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import lean_kernel

__all__ = ["fill"]

SLACK = 1e-15  # sums of interval ends are exact up to this
LEAST_TOTAL = 1e-100  # of exponentials that are left over; below, they are anchored anew

Floats = NDArray[np.float64]
Flags = NDArray[np.int8]


@lean_kernel
def fill(first: int, last: int, t: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags) -> tuple[float, float]:
    """Write p and `free` (1: not at an end of its interval) at first, ..., last - 1; return (φ, λ).

    >>> p, free = np.empty(3), np.empty(3, dtype=np.int8)
    >>> t, lo, hi = np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.0, 0.2]), np.array([0.3, 1.0, 1.0])
    >>> _ = fill(0, 3, t, lo, hi, p, free)
    >>> p.round(12).tolist(), free.tolist()
    ([0.3, 0.5, 0.2], [0, 1, 0])
    """
    for i in range(first, last):
        free[i] = 1
    mass, anchor, total, scale = 1.0, 0.0, 0.0, 0.0
    for _ in range(last - first):
        if total < LEAST_TOTAL:
            anchor = math.inf
            for i in range(first, last):
                if free[i] == 1 and t[i] < anchor:
                    anchor = t[i]
            total = 0.0
            for i in range(first, last):
                if free[i] == 1:
                    p[i] = math.exp(anchor - t[i])
                    total += p[i]
        scale = max(mass, 0.0) / total
        above, below = 0.0, 0.0
        for i in range(first, last):
            if free[i] == 1:
                if p[i] * scale > hi[i]:
                    above += p[i] * scale - hi[i]
                elif p[i] * scale < lo[i]:
                    below += lo[i] - p[i] * scale
        if above <= SLACK and below <= SLACK:
            break
        left, total = 0, 0.0
        for i in range(first, last):
            if free[i] == 1:
                if above >= below and p[i] * scale > hi[i]:
                    p[i], free[i] = hi[i], 0
                    mass -= hi[i]
                elif below >= above and p[i] * scale < lo[i]:
                    p[i], free[i] = lo[i], 0
                    mass -= lo[i]
                else:
                    left += 1
                    total += p[i]
        if left == 0:
            break
    level = anchor + math.log(scale) if scale > 0.0 else -math.inf
    for i in range(first, last):
        if free[i] == 1:
            p[i] *= scale
            if p[i] >= hi[i]:
                # An entry that just reached its hi may hold all the mass beside which others are too small to be seen.
                free[i] = 1 if p[i] <= hi[i] * (1.0 + 1e-12) else 0
                p[i] = hi[i]
            elif p[i] <= lo[i]:
                # An entry that underflowed is not at the end 0 of its interval: λ - t is still its logarithm.
                p[i] = lo[i]
                free[i] = 1 if lo[i] == 0.0 and level > -math.inf else 0
    if mass <= SLACK:
        level = _yielding(first, last, t, lo, hi, p, free)
    phi = 0.0
    for i in range(first, last):
        if free[i] == 1:
            # p (t + ln p) = p λ
            phi += p[i] * level
        elif p[i] > 0.0:
            phi += p[i] * (t[i] + math.log(p[i]))
    return phi, level


@lean_kernel
def _yielding(first: int, last: int, t: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags) -> float:
    """Let the entry at the largest t + ln hi leave its hi, and give what rounding hid to those that are free from 0.

    The level is -inf if no entry can yield; what is free from 0 then stays 0.
    """
    level, which = -math.inf, -1
    for i in range(first, last):
        if p[i] == hi[i] and lo[i] < hi[i] and t[i] + math.log(hi[i]) > level:
            level, which = t[i] + math.log(hi[i]), i
    for i in range(first, last):
        if lo[i] == 0.0 and p[i] <= SLACK:
            free[i] = 1 if which >= 0 and hi[i] > 0.0 else 0
            p[i] = min(hi[i], SLACK, math.exp(min(level - t[i], 0.0)))
        elif i == which:
            free[i] = 1
    return level
