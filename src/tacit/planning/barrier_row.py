"""One pair (x,a) of a flow with a log barrier: how much flow, and how it splits among the successors.

    f(d) = min Σ d_i q_i - Σ ln q_i     over   lo_i Q ≤ q_i ≤ hi_i Q,   Q = Σ q

With p = q/Q, s = 1/Q and a scalar θ (what the multipliers of the intervals add up to), e_i = d_i - θ, its optimality
conditions are

    p_i = clip(s / e_i, lo_i, hi_i)  (hi_i where e_i ≤ 0),     Σ p = 1,
    E(θ) = θ + Σ_pinned p_i e_i - (number of pinned) s = 0.

If no interval binds, θ = 0 and q = 1/d. Otherwise: for each θ the first two are solved exactly by fixing variables, as
in `entropy_dual.fill`, and E is increasing in θ, so a bracketed Newton iteration in one variable finds the root. Where
all are pinned, s follows from p alone, s = <d,p>/m, and θ only has to leave every multiplier its sign. At the end
Q = m/<d,p>, the best flow for this split: Lemma F6 (barrier rows).
"""

from __future__ import annotations

import math

from tacit.arrays import Flags, Floats
from tacit.kernels import lean_kernel

SLACK = 1e-15  # sums of interval ends are exact up to this
MAX_STEPS = 200
TOO_LARGE = math.inf
EXACT = 1e-12


@lean_kernel
def split_flow(
    first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, guess: float
) -> tuple[float, float, float]:
    """Write the split p and `free` (1: free, 0: at lo, -1: at hi) at first, ..., last - 1; return (f, Q, θ).

    f = -inf says that the problem is unbounded: some allowed split has <d,p> ≤ 0. What `free` and the guess for θ say
    before (of a similar problem) only saves time.

    >>> import numpy as np
    >>> p, free = np.empty(2), np.ones(2, dtype=np.int8)
    >>> d, lo, hi = np.array([1.0, 3.0]), np.array([0.0, 0.5]), np.array([1.0, 1.0])
    >>> f, Q, theta = split_flow(0, 2, d, lo, hi, p, free, 0.0)
    >>> p.tolist(), Q        # 1/d splits (3/4, 1/4); the interval wants at least one half: Q = 2/<d,p>
    ([0.5, 0.5], 1.0)
    """
    m, least, total = last - first, math.inf, 0.0
    for i in range(first, last):
        least = min(least, d[i])
        if d[i] > 0.0:
            total += 1.0 / d[i]
    if least > 0.0:
        inside = True
        for i in range(first, last):
            reach = d[i] * total
            if not lo[i] * reach <= 1.0 <= hi[i] * reach:
                inside = False
                break
        if inside:
            for i in range(first, last):
                p[i] = 1.0 / (d[i] * total)
                free[i] = 1
            return m - _sum_of_logs(first, last, total, p), total, 0.0
    elif not _least_mean(first, last, d, lo, hi, least, p) > 0.0:
        return -math.inf, math.nan, 0.0
    if guess == 0.0 and least <= 0.0:
        guess = least - max(1.0, -least)
    theta = _search(first, last, d, lo, hi, p, free, guess)
    if theta == TOO_LARGE:
        return -math.inf, math.nan, 0.0
    mean = 0.0
    for i in range(first, last):
        mean += d[i] * p[i]
    if not mean > 0.0:
        return -math.inf, math.nan, 0.0
    Q = m / mean
    return m - _sum_of_logs(first, last, Q, p), Q, theta


@lean_kernel
def _sum_of_logs(first: int, last: int, Q: float, p: Floats) -> float:
    """Σ ln (Q p), by the logarithm of the product as long as it is of ordinary size."""
    total, product = 0.0, 1.0
    for i in range(first, last):
        product *= Q * p[i]
        if not 1e-100 < product < 1e100:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@lean_kernel
def _search(first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, start: float) -> float:
    """Find θ with E(θ) = 0 from `start`, by Newton in a bracket that grows until it holds the root; ∞ if it fails."""
    theta, below, above, reach = start, -math.inf, math.inf, 1.0
    for _ in range(MAX_STEPS):
        s, error, step = _at(first, last, d, lo, hi, p, free, theta)
        # An error in θ is an error of the same size in e ≥ s.
        if abs(error) <= EXACT * s + 1e-15 * abs(theta):
            return theta
        if error > 0.0:
            above = theta
        else:
            below = theta
        after = theta + step
        if not below < after < above:
            if below > -math.inf and above < math.inf:
                after = 0.5 * (below + above)
            else:
                reach *= 4.0
                width = reach * (abs(theta) + (s if s > 0.0 else 1.0))
                after = theta - width if error > 0.0 else theta + width
        if abs(after - theta) <= 4e-16 * (abs(theta) + s) or after in (below, above):
            return theta if error < TOO_LARGE else TOO_LARGE
        theta = after
    return TOO_LARGE


@lean_kernel
def _at(
    first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, theta: float
) -> tuple[float, float, float]:
    """Fill at θ: returns (s, E(θ), the Newton step for θ). E = ∞ where θ is too large for any split."""
    s = _as_before(first, last, d, lo, hi, p, free, theta)
    if s < 0.0:
        s = _fill(first, last, d, lo, hi, p, free, theta)
        if s < 0.0:
            return 0.0, TOO_LARGE, 0.0
    pinned, fixed, loose, square, error = 0, 0.0, 0.0, 0.0, theta
    for i in range(first, last):
        if free[i] == 1:
            loose += p[i]
            square += p[i] * p[i]
        else:
            pinned += 1
            fixed += p[i]
            error += p[i] * (d[i] - theta)
    if loose == 0.0:
        return _all_pinned(first, last, d, lo, hi, p, free, theta)
    error -= pinned * s
    # dE/dθ = 1 - Σ_pinned p + (number of pinned) Σ_free p² / Σ_free p
    slope = max(0.0, 1.0 - fixed) + pinned * square / loose
    return s, error, -error / slope if slope > 0.0 else 0.0


@lean_kernel
def _as_before(first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, theta: float) -> float:
    """Fill at θ with the same entries pinned as before; s, or -1 if that is no solution."""
    mass, total = 1.0, 0.0
    for i in range(first, last):
        if free[i] == 1:
            if not d[i] > theta:
                return -1.0
            p[i] = 1.0 / (d[i] - theta)
            total += p[i]
        else:
            p[i] = lo[i] if free[i] == 0 else hi[i]
            mass -= p[i]
    if not mass > SLACK or total == 0.0:
        return -1.0
    s = mass / total
    for i in range(first, last):
        if free[i] == 1:
            p[i] *= s
            if not lo[i] <= p[i] <= hi[i]:
                return -1.0
        elif free[i] == 0:
            if lo[i] * (d[i] - theta) < s:
                return -1.0
        elif hi[i] * (d[i] - theta) > s:
            return -1.0
    return s


@lean_kernel
def _fill(first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, theta: float) -> float:
    """Fill at θ by fixing variables; s, or -1 if θ is too large for any split."""
    mass, left, needed = 1.0, 0, 0.0
    for i in range(first, last):
        free[i] = 1
        if d[i] <= theta:
            free[i] = -1
            p[i] = hi[i]
            mass -= hi[i]
        else:
            left += 1
            needed += lo[i]
    if mass < needed - SLACK:
        return -1.0
    s = 0.0
    while left > 0:
        total = 0.0
        for i in range(first, last):
            if free[i] == 1:
                p[i] = 1.0 / (d[i] - theta)
                total += p[i]
        s = max(mass, 0.0) / total
        over, under = 0.0, 0.0
        for i in range(first, last):
            if free[i] == 1:
                p[i] *= s
                if p[i] > hi[i]:
                    over += p[i] - hi[i]
                elif p[i] < lo[i]:
                    under += lo[i] - p[i]
        if over <= SLACK and under <= SLACK:
            break
        for i in range(first, last):
            if free[i] == 1:
                if over >= under and p[i] > hi[i]:
                    p[i], free[i] = hi[i], -1
                elif under >= over and p[i] < lo[i]:
                    p[i], free[i] = lo[i], 0
                else:
                    continue
                mass -= p[i]
                left -= 1
    if mass <= SLACK and left > 0:
        s = _yielding(first, last, d, lo, hi, p, free, theta)
        if s <= 0.0:
            return -1.0
    for i in range(first, last):
        if free[i] == 2:
            free[i] = 1
        elif free[i] == 1:
            # An entry that just reached its hi may hold all the mass beside which others are too small to be seen.
            if p[i] <= lo[i]:
                p[i], free[i] = lo[i], 0
            elif p[i] >= hi[i]:
                free[i] = 1 if p[i] <= hi[i] * (1.0 + 1e-12) else -1
                p[i] = hi[i]
    return s


@lean_kernel
def _all_pinned(
    first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, theta: float
) -> tuple[float, float, float]:
    """Nothing is free: s = <d,p>/m, and θ must lie above d - s/hi of those at hi and below d - s/lo of those at lo."""
    mean = 0.0
    for i in range(first, last):
        mean += d[i] * p[i]
    s = mean / (last - first)
    least, most = -math.inf, math.inf
    for i in range(first, last):
        if lo[i] < hi[i]:
            if free[i] == -1:
                least = max(least, d[i] - s / hi[i])
            else:
                most = min(most, d[i] - s / lo[i] if lo[i] > 0.0 else -math.inf)
    if theta < least - 1e-15 * (abs(theta) + s):
        return s, -(last - first) * s, least - theta
    if theta > most + 1e-15 * (abs(theta) + s):
        return s, (last - first) * s, most - theta
    return s, 0.0, 0.0


@lean_kernel
def _yielding(first: int, last: int, d: Floats, lo: Floats, hi: Floats, p: Floats, free: Flags, theta: float) -> float:
    """Pinned entries use up the whole mass but for rounding: s is where the first of them leaves its hi, max hi e.

    That one is marked by 2.
    """
    s, which = 0.0, -1
    for i in range(first, last):
        if free[i] == -1 and lo[i] < hi[i] and hi[i] * (d[i] - theta) > s:
            s, which = hi[i] * (d[i] - theta), i
    for i in range(first, last):
        if free[i] == 1:
            p[i] = min(hi[i], SLACK, s / (d[i] - theta))
    if which >= 0:
        free[which] = 2
    return s


@lean_kernel
def _least_mean(first: int, last: int, d: Floats, lo: Floats, hi: Floats, least: float, taken: Floats) -> float:
    """The smallest <d,p> over lo ≤ p ≤ hi, Σ p = 1, or a positive number below it; `taken` is scratch."""
    mean, spare = 0.0, 1.0
    for i in range(first, last):
        taken[i] = 0.0
        mean += lo[i] * d[i]
        spare -= lo[i]
    spare = max(spare, 0.0)
    if mean + spare * least > 0.0:
        return mean + spare * least
    while spare > 0.0:
        best = -1
        for i in range(first, last):
            if taken[i] == 0.0 and (best < 0 or d[i] < d[best]):
                best = i
        if best < 0:
            break
        taken[best] = 1.0
        extra = min(spare, hi[best] - lo[best])
        mean += extra * d[best]
        spare -= extra
    return mean
