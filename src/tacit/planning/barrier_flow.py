"""Log-barrier mirror descent on flows through a layered world with interval transitions (UOB-LBPS).

    min  Σ b q - ln q,   b = c(x,a) + 1/q_k(x,a,x'),     over flows q with   lo q(x,a) ≤ q(x,a,x') ≤ hi q(x,a)

is the update [bai2024adversarial] Eq. 4.3 times η, with c = η l̂ of either sign; q_k need not be feasible. Every state
but the last (v = 0 there) has a price v(x) for flow conservation, and then the pairs separate (`split_flow`):

    d = b + v(x') - v(x)          D(v) = v(x_0) + Σ_{x,a} f(d(x,a,·))

D is concave with gradient inflow - outflow. We solve 1/outflow(x) = 1/inflow(x) by Newton: flows are like 1/d, so their
reciprocals are nearly linear in v, whatever their size. The start v = 0, where every q would be near q_k, is the warm
start (if some b is negative, v falls along the layers so that every d is positive). A step is halved until it shrinks
the residual below all that was seen before or increases D; if none does, damped Newton on D takes over. If that ends
nowhere, q_k was far from feasible: the barrier is then given a large weight, which is reduced step by step.

The policy and the splits pushed forward give a feasible flow whose cost minus D(v) is the duality gap: Lemma F6
(barrier rows).

One pair (x,a) of a flow with a log barrier: how much flow, and how it splits among the successors.

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
from typing import NamedTuple

import numpy as np

from tacit.arrays import Flags, Floats, Ints
from tacit.kernels import lean_kernel
from tacit.planning.layered import REACHED, LayeredGeometry, conclude, push_forward, solve_layers

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


FLOOR = 1e-150  # of q_k; hits are counted


class BarrierWork(NamedTuple):
    """Buffers of one run; `floored` counts how often an entry of q_k was raised to FLOOR."""

    floored: Ints
    prices: Floats
    b: Floats
    d: Floats
    trial: Floats
    p: Floats
    free: Flags
    flow: Floats
    theta: Floats
    inflow: Floats
    outflow: Floats
    states: Floats
    step: Floats
    into: Floats
    out: Floats
    for_free: Floats
    for_pinned: Floats
    matrix: Floats


def barrier_work(geometry: LayeredGeometry) -> BarrierWork:
    """Buffers for worlds of this geometry."""
    X, pairs, triples = int(geometry.layers[-1]), len(geometry.edges) - 1, int(geometry.edges[-1])
    return BarrierWork(
        floored=np.zeros(1, dtype=np.int64),
        prices=np.zeros(X),
        b=np.zeros(triples),
        d=np.zeros(triples),
        trial=np.zeros(triples),
        p=np.zeros(triples),
        free=np.ones(triples, dtype=np.int8),
        flow=np.zeros(pairs),
        theta=np.zeros(pairs),
        inflow=np.ones(X),
        outflow=np.ones(X),
        states=np.ones(X),
        step=np.zeros(X),
        into=np.ones(X),
        out=np.ones(X),
        for_free=np.zeros(X),
        for_pinned=np.zeros(X),
        matrix=np.zeros((X, X)),
    )


@lean_kernel
def start(geometry: LayeredGeometry, work: BarrierWork, costs: Floats, previous: Floats) -> float:
    """The linear costs b, and prices at which every d is positive: 0 unless some b is not. Returns max|b|."""
    edges = geometry.edges
    least, most = math.inf, 0.0
    for pair in range(len(edges) - 1):
        work.theta[pair] = 0.0
        for i in range(edges[pair], edges[pair + 1]):
            before = previous[i]
            if before < FLOOR:
                before = FLOOR
                work.floored[0] += 1
            # b = c + 1/q_k
            work.b[i] = costs[pair] + 1.0 / before
            work.d[i] = work.b[i]
            work.free[i] = 1
            least, most = min(least, work.b[i]), max(most, abs(work.b[i]))
    for x in range(len(work.prices)):
        work.prices[x] = 0.0
    if not least > 0.0:
        level(geometry, work, 1.0)
    return most


@lean_kernel
def level(geometry: LayeredGeometry, work: BarrierWork, weight: float) -> None:
    """Prices that are constant on each layer, for costs b/weight: the least d of a layer with W triples is W."""
    layers, edges, A = geometry
    price = 0.0
    for h in range(len(layers) - 3, -1, -1):
        start, end = edges[layers[h] * A], edges[layers[h + 1] * A]
        least = math.inf
        for i in range(start, end):
            least = min(least, work.b[i] / weight)
        # v(x') - v(x) = W - min b
        price -= end - start - least
        for x in range(layers[h], layers[h + 1]):
            work.prices[x] = price
    price_costs(geometry, work, weight)


@lean_kernel
def price_costs(geometry: LayeredGeometry, work: BarrierWork, weight: float) -> None:
    """The priced costs d = b/weight + v(x') - v(x)."""
    layers, edges, A = geometry
    for h in range(len(layers) - 2):
        after = layers[h + 1]
        for pair in range(layers[h] * A, after * A):
            first, back = edges[pair], work.prices[pair // A]
            for i in range(first, edges[pair + 1]):
                work.d[i] = work.b[i] / weight + (work.prices[after + i - first] - back)


@lean_kernel
def move(geometry: LayeredGeometry, work: BarrierWork, alpha: float) -> None:
    """Write d after a step into `trial`.

    While prices move, d moves by differences of steps and is not computed anew: prices may be 1e12 times larger, and
    their rounding would show in d. What rounding does to d here is a change of b far below its effect on the cost.
    """
    layers, edges, A = geometry
    H = len(layers) - 2
    for h in range(H):
        after = layers[h + 1]
        for pair in range(layers[h] * A, after * A):
            first, back = edges[pair], work.step[pair // A]
            for i in range(first, edges[pair + 1]):
                ahead = work.step[after + i - first] if h + 1 < H else 0.0
                work.trial[i] = work.d[i] + alpha * (ahead - back)


@lean_kernel
def evaluate(geometry: LayeredGeometry, work: BarrierWork, d: Floats, price: float, lo: Floats, hi: Floats) -> float:
    """D = v(x_0) + Σ f(d), with splits, flows, inflow and outflow left in `work`; -inf outside its domain."""
    layers, edges, A = geometry
    dual = price
    work.inflow[0] = 1.0
    for h in range(len(layers) - 2):
        after = layers[h + 1]
        for y in range(after, layers[h + 2]):
            work.inflow[y] = 0.0
        for x in range(layers[h], after):
            work.outflow[x] = 0.0
            for pair in range(x * A, x * A + A):
                first, last = edges[pair], edges[pair + 1]
                value, Q, work.theta[pair] = split_flow(first, last, d, lo, hi, work.p, work.free, work.theta[pair])
                if not value > -math.inf:
                    return -math.inf
                dual += value
                work.flow[pair] = Q
                work.outflow[x] += Q
                for i in range(first, last):
                    work.inflow[after + i - first] += Q * work.p[i]
    return dual


@lean_kernel
def newton_step(geometry: LayeredGeometry, work: BarrierWork, damping: float) -> float:
    """A step for the prices; returns the slope of D along it, or -inf if there is none.

    damping < 0: Newton for 1/outflow = 1/inflow. Otherwise Newton for D, damped.
    """
    layers, X = geometry.layers, geometry.layers[-1]
    for x in range(X - 1):
        work.into[x] = 1.0 / work.inflow[x] if damping < 0.0 else 1.0
        work.out[x] = 1.0 / work.outflow[x] if damping < 0.0 else 1.0
    _assemble(geometry, work)
    for x in range(X - 1):
        if damping < 0.0:
            work.step[x] = work.out[x] - work.into[x]
        else:
            work.step[x] = work.inflow[x] - work.outflow[x]
            work.matrix[x, x] *= 1.0 + damping
    if not solve_layers(layers, work.matrix, work.step):
        return -math.inf
    slope = 0.0
    for x in range(X - 1):
        slope += work.step[x] * (work.inflow[x] - work.outflow[x])
    return slope


@lean_kernel
def residuals(work: BarrierWork) -> float:
    """The largest |ln(inflow/outflow)|."""
    worst = 0.0
    for x in range(len(work.prices) - 1):
        if not (work.inflow[x] > 0.0 and work.outflow[x] > 0.0):
            return math.inf
        size = abs(math.log(work.inflow[x] / work.outflow[x]))
        if not size <= worst:
            worst = size
    return worst


@lean_kernel
def _assemble(geometry: LayeredGeometry, work: BarrierWork) -> None:
    """Minus the derivative of (inflow, outflow) by the prices, weighted by `into`² and `out`².

    One pair contributes K = -∂q/∂d. With n pinned successors, Q_F the flow to the free ones, u = q²/Q_F on these and
    S = Σ u/Q_F,

        K_ij = q_i² 1{i=j} - n u_i u_j / (1 + n S)  (both free),   u_i q_j / (1 + n S)  (j pinned),
               q_i q_j S / (1 + n S)  (both pinned; q_i q_j / n if none is free).
    """
    layers, edges, A = geometry
    M, for_free, for_pinned = work.matrix, work.for_free, work.for_pinned
    H = len(layers) - 2
    for h in range(H):
        for x in range(layers[h], layers[h + 1]):
            for y in range(layers[max(h - 1, 0)], layers[h + 2]):
                M[x, y] = 0.0
    for h in range(H):
        after = layers[h + 1]
        for pair in range(layers[h] * A, after * A):
            x, first, Q = pair // A, edges[pair], work.flow[pair]
            m = edges[pair + 1] - first
            loose, S, pinned = 0.0, 0.0, 0
            for k in range(m):
                if work.free[first + k] == 1:
                    loose += Q * work.p[first + k]
                else:
                    pinned += 1
            share, gain = 0.0, 1.0 / m
            if loose > 0.0:
                for k in range(m):
                    if work.free[first + k] == 1:
                        S += (Q * work.p[first + k] / loose) ** 2
                share, gain = 1.0 / (1.0 + pinned * S), S / (1.0 + pinned * S)
            M[x, x] += gain * (Q * work.out[x]) ** 2
            if h + 1 == H:
                continue
            for k in range(m):
                q = Q * work.p[first + k]
                if work.free[first + k] == 1 and loose > 0.0:
                    for_free[k] = -pinned * share * (q * q / loose)
                    for_pinned[k] = share * (q * q / loose)
                else:
                    for_free[k] = share * q
                    for_pinned[k] = gain * q
            for k in range(m):
                q, y = Q * work.p[first + k], after + k
                into = work.into[y] * work.into[y]
                if work.free[first + k] == 1 and loose > 0.0:
                    u = q * q / loose
                    M[y, y] += into * q * q
                    for j in range(m):
                        M[y, after + j] += into * u * for_free[j]
                    row = u * share * Q
                else:
                    for j in range(m):
                        M[y, after + j] += into * q * for_pinned[j]
                    row = q * gain * Q
                M[x, y] -= row * work.out[x] * work.out[x]
                M[y, x] -= row * into


__all__ = ["FLOOR", "BarrierWork", "barrier_work", "solve_barrier_flow"]


TOLERANCE = 1e-9  # of max|ln(inflow/outflow)|
DIRECT = 30  # iterations before the detour
MAX_ITERATIONS = 60  # for each weight of the detour
LOOSE = 0.1  # tolerance on the way
COOLING = 10.0


@lean_kernel
def solve_barrier_flow(
    geometry: LayeredGeometry,
    work: BarrierWork,
    costs: Floats,
    previous: Floats,
    lo: Floats,
    hi: Floats,
    policy: Floats,
    occupancy: Floats,
    report: Floats,
) -> None:
    """Solve for costs[pairs] and previous[triples], writing policy, occupancy and the report.

    `occupancy` may be the array `previous` itself.
    """
    layers, edges, A = geometry
    X = layers[-1]
    most = start(geometry, work, costs, previous)
    weight, limit, iterations, fallbacks, direct = 1.0, DIRECT, 0, 0, True
    while True:
        final = weight == 1.0
        dual, worst, more, damped = _newton(geometry, work, lo, hi, TOLERANCE if final else LOOSE, limit)
        iterations += more
        fallbacks += damped
        if (final and (worst <= TOLERANCE or not direct)) or not worst < math.inf:
            break
        if direct:
            # Far from the previous flow: weigh the barrier so that nothing else matters, then less and less.
            direct, limit, weight = False, MAX_ITERATIONS, max(COOLING, most)
            level(geometry, work, weight)
        else:
            ratio = min(weight, COOLING)
            weight = 1.0 if ratio == weight else weight / ratio
            for x in range(X - 1):
                work.prices[x] *= ratio
            price_costs(geometry, work, weight)
    for x in range(X - 1):
        for pair in range(x * A, x * A + A):
            policy[pair] = work.flow[pair] / work.outflow[x]
    push_forward(geometry, policy, work.p, work.states, occupancy)
    gap, residual = -dual, 0.0
    for i in range(edges[-1]):
        gap += work.b[i] * occupancy[i] - math.log(occupancy[i])
    for x in range(X - 1):
        if work.states[x] > REACHED:
            residual = max(residual, abs(work.inflow[x] / work.outflow[x] - 1.0))
    conclude(report, gap, dual, residual, iterations, fallbacks)


@lean_kernel
def _newton(
    geometry: LayeredGeometry, work: BarrierWork, lo: Floats, hi: Floats, tolerance: float, most: int
) -> tuple[float, float, int, int]:
    """Newton from work.prices; returns (D, max|ln(inflow/outflow)|, iterations, damped iterations)."""
    v, X = work.prices, geometry.layers[-1]
    dual = evaluate(geometry, work, work.d, v[0], lo, hi)
    worst = residuals(work) if dual > -math.inf else math.inf
    if not worst < math.inf:
        return dual, math.inf, 0, 0
    iterations, damped, stalled, damping, best = 0, 0, 0, -1.0, worst
    while worst > tolerance and iterations < most and stalled < 3:
        iterations += 1
        slope = newton_step(geometry, work, damping)
        alpha, improved, higher, smaller = 1.0, False, dual, worst
        noise = 1e-14 * (1.0 + abs(dual))
        for _ in range(30 if slope > -math.inf else 0):
            move(geometry, work, alpha)
            higher = evaluate(geometry, work, work.trial, v[0] + alpha * work.step[0], lo, hi)
            if higher > -math.inf:
                smaller = residuals(work)
                rounding = abs(higher - dual) <= noise
                improved = (
                    (rounding and smaller < worst)
                    or smaller <= (1.0 - 0.3 * alpha) * best
                    or (not rounding and slope > 0.0 and higher >= dual + 1e-4 * alpha * slope)
                )
                if improved:
                    stalled = stalled + 1 if rounding and smaller > 0.5 * worst else 0
                    break
            alpha *= 0.5
        if improved:
            for x in range(X - 1):
                v[x] += alpha * work.step[x]
            for i in range(len(work.d)):
                work.d[i] = work.trial[i]
            dual, worst, best = higher, smaller, min(best, smaller)
        else:
            damped += 1
            stalled += 1 if damping > 1e-2 else 0
            damping = 0.0 if damping < 0.0 else max(1e-12, 100.0 * damping)
            evaluate(geometry, work, work.d, v[0], lo, hi)
    return dual, worst, iterations, damped
