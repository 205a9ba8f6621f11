"""Log-barrier mirror descent on flows through a layered world with interval transitions (UOB-LBPS).

    min  Σ b q - ln q,   b = c(x,a) + 1/q_k(x,a,x'),     over flows q with   lo q(x,a) ≤ q(x,a,x') ≤ hi q(x,a)

is the update [bai2024adversarial] Eq. 4.3 times η, with c = η l̂ of either sign; q_k need not be feasible. Every state
but the last (v = 0 there) has a price v(x) for flow conservation, and then the pairs separate (`split_flow`):

    d = b + v(x') - v(x)          D(v) = v(x_0) + Σ_{x,a} f(d(x,a,·))

D is concave with gradient inflow - outflow. We solve 1/outflow(x) = 1/inflow(x) by Newton: flows are like 1/d, so their
reciprocals are nearly linear in v, whatever their size. The start v = 0, where every q would be near q_k, is the warm
start (if some b is negative, v falls along the layers so that every d is positive). A step is halved until it shrinks
the residual (early on) or increases D; if none does, damped Newton on D takes over. If that ends nowhere, q_k was far
from feasible: the barrier is then given a large weight, which is reduced by and by.

The policy and the splits pushed forward give a feasible flow whose cost minus D(v) is the duality gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInput
from tacit.kernels import lean_kernel
from tacit.planning.barrier_row import split_flow
from tacit.planning.flow_report import (
    CONVERGED,
    DUAL,
    FALLBACKS,
    GAP,
    GAP_LIMIT,
    ITERATIONS,
    REACHED,
    REPORT_SIZE,
    RESIDUAL,
    RESIDUAL_LIMIT,
    FlowSolution,
    accepted,
    flow_costs,
    flow_intervals,
)
from tacit.planning.layered import LayeredGeometry, push_forward
from tacit.planning.layered_newton import solve_layers

__all__ = ["FLOOR", "BarrierWork", "barrier_flow", "barrier_work", "solve_barrier_flow"]

Floats = NDArray[np.float64]

FLOOR = 1e-150  # of q_k; hits are counted
TOLERANCE = 1e-9  # of max|ln(inflow/outflow)|
DIRECT = 30  # iterations before the detour
MOST_ITERATIONS = 60  # for each weight of the detour
LOOSE = 0.1  # tolerance on the way
COOLING = 10.0


class BarrierWork(NamedTuple):
    """Buffers of one run; `floored` counts how often an entry of q_k was raised to FLOOR."""

    floored: NDArray[np.int64]
    prices: Floats
    b: Floats
    d: Floats
    trial: Floats
    p: Floats
    free: NDArray[np.int8]
    flow: Floats
    inflow: Floats
    outflow: Floats
    states: Floats
    step: Floats
    into: Floats
    out: Floats
    matrix: Floats


def barrier_work(geometry: LayeredGeometry) -> BarrierWork:
    """Buffers for worlds of this geometry."""
    X, pairs, triples = int(geometry.layers[-1]), len(geometry.edges) - 1, int(geometry.edges[-1])
    return BarrierWork(
        floored=np.zeros(1, dtype=np.int64),
        prices=np.zeros(X),
        b=np.empty(triples),
        d=np.empty(triples),
        trial=np.empty(triples),
        p=np.empty(triples),
        free=np.empty(triples, dtype=np.int8),
        flow=np.empty(pairs),
        inflow=np.ones(X),
        outflow=np.ones(X),
        states=np.ones(X),
        step=np.zeros(X),
        into=np.ones(X),
        out=np.ones(X),
        matrix=np.zeros((X, X)),
    )


def barrier_flow(
    geometry: LayeredGeometry,
    costs: NDArray[np.floating],
    previous: NDArray[np.floating],
    lo: NDArray[np.floating],
    hi: NDArray[np.floating],
) -> FlowSolution:
    """The flow after one step of mirror descent from previous[triples] > 0 with costs[pairs].

    >>> from tacit.planning.layered import layered_geometry
    >>> choice, one = layered_geometry((1, 1), 2), np.ones(2)
    >>> barrier_flow(choice, np.array([1.0, 0.0]), np.array([0.5, 0.5]), one, one).policy.round(3).tolist()
    [0.382, 0.618]
    """
    low, high = flow_intervals(geometry, lo, hi)
    c, q = flow_costs("costs", costs, len(geometry.edges) - 1), flow_costs("previous", previous, len(low))
    if not (q > 0).all():
        raise InvalidInput("previous must be positive; floor it first")
    if not (high > 0).all():
        raise InvalidInput("hi must be positive: a log barrier has no solution with transitions that are ruled out")
    work, report = barrier_work(geometry), np.empty(REPORT_SIZE)
    policy, occupancy = np.empty(len(c)), np.empty(len(low))
    solve_barrier_flow(geometry, work, c, q, low, high, policy, occupancy, report)
    return accepted(policy, occupancy, work.prices.copy(), report)


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
    """Solve for costs[pairs] and previous[triples], writing policy, occupancy and the report; see `flow_report`.

    `occupancy` may be the array `previous` itself.
    """
    layers, edges, A = geometry
    X = layers[-1]
    most = _start(geometry, work, costs, previous)
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
            direct, limit, weight = False, MOST_ITERATIONS, max(COOLING, most)
            _level(geometry, work, weight)
        else:
            ratio = min(weight, COOLING)
            weight = 1.0 if ratio == weight else weight / ratio
            for x in range(X - 1):
                work.prices[x] *= ratio
            _price(geometry, work, weight)
    for x in range(X - 1):
        for pair in range(x * A, x * A + A):
            policy[pair] = work.flow[pair] / work.outflow[x]
    push_forward(geometry, policy, work.p, work.states, occupancy)
    report[GAP], report[DUAL], report[RESIDUAL] = -dual, dual, 0.0
    for i in range(edges[-1]):
        report[GAP] += work.b[i] * occupancy[i] - math.log(occupancy[i])
    for x in range(X - 1):
        if work.states[x] > REACHED:
            report[RESIDUAL] = max(report[RESIDUAL], abs(work.inflow[x] / work.outflow[x] - 1.0))
    report[ITERATIONS], report[FALLBACKS] = iterations, fallbacks
    good = abs(report[GAP]) <= GAP_LIMIT * (1.0 + abs(dual)) and report[RESIDUAL] <= RESIDUAL_LIMIT
    report[CONVERGED] = 1.0 if good else 0.0


@lean_kernel
def _newton(
    geometry: LayeredGeometry, work: BarrierWork, lo: Floats, hi: Floats, tolerance: float, most: int
) -> tuple[float, float, int, int]:
    """Newton from work.prices; returns (D, max|ln(inflow/outflow)|, iterations, damped iterations)."""
    v, X = work.prices, geometry.layers[-1]
    dual = _evaluate(geometry, work, work.d, v[0], lo, hi)
    if not dual > -math.inf:
        return dual, math.inf, 0, 0
    worst = _residuals(work)
    iterations, damped, stalled, damping = 0, 0, 0, -1.0
    while worst > tolerance and iterations < most and stalled < 3:
        iterations += 1
        slope = _newton_step(geometry, work, damping)
        alpha, improved, higher, smaller = 1.0, False, dual, worst
        noise = 1e-14 * (1.0 + abs(dual))
        for _ in range(30 if slope > -math.inf else 0):
            _move(geometry, work, alpha)
            higher = _evaluate(geometry, work, work.trial, v[0] + alpha * work.step[0], lo, hi)
            if higher > -math.inf:
                smaller = _residuals(work)
                rounding = abs(higher - dual) <= noise
                improved = (
                    (rounding and smaller < worst)
                    or (smaller <= (1.0 - 0.3 * alpha) * worst and iterations < 15)
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
            dual, worst = higher, smaller
        else:
            damped += 1
            stalled += 1 if damping > 1e-2 else 0
            damping = 0.0 if damping < 0.0 else max(1e-12, 100.0 * damping)
            _evaluate(geometry, work, work.d, v[0], lo, hi)
    return dual, worst, iterations, damped


@lean_kernel
def _start(geometry: LayeredGeometry, work: BarrierWork, costs: Floats, previous: Floats) -> float:
    """The linear costs b, and prices at which every d is positive: 0 unless some b is not. Returns max|b|."""
    edges = geometry.edges
    least, most = math.inf, 0.0
    for pair in range(len(edges) - 1):
        for i in range(edges[pair], edges[pair + 1]):
            before = previous[i]
            if before < FLOOR:
                before = FLOOR
                work.floored[0] += 1
            # b = c + 1/q_k
            work.b[i] = costs[pair] + 1.0 / before
            work.d[i] = work.b[i]
            least, most = min(least, work.b[i]), max(most, abs(work.b[i]))
    for x in range(len(work.prices)):
        work.prices[x] = 0.0
    if not least > 0.0:
        _level(geometry, work, 1.0)
    return most


@lean_kernel
def _level(geometry: LayeredGeometry, work: BarrierWork, weight: float) -> None:
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
    _price(geometry, work, weight)


@lean_kernel
def _price(geometry: LayeredGeometry, work: BarrierWork, weight: float) -> None:
    """The priced costs d = b/weight + v(x') - v(x)."""
    layers, edges, A = geometry
    for h in range(len(layers) - 2):
        after = layers[h + 1]
        for pair in range(layers[h] * A, after * A):
            first, back = edges[pair], work.prices[pair // A]
            for i in range(first, edges[pair + 1]):
                work.d[i] = work.b[i] / weight + (work.prices[after + i - first] - back)


@lean_kernel
def _move(geometry: LayeredGeometry, work: BarrierWork, alpha: float) -> None:
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
def _evaluate(geometry: LayeredGeometry, work: BarrierWork, d: Floats, price: float, lo: Floats, hi: Floats) -> float:
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
                value, Q = split_flow(first, last, d, lo, hi, work.p, work.free)
                if not value > -math.inf:
                    return -math.inf
                dual += value
                work.flow[pair] = Q
                work.outflow[x] += Q
                for i in range(first, last):
                    work.inflow[after + i - first] += Q * work.p[i]
    return dual


@lean_kernel
def _stiffness(first: int, last: int, Q: float, p: Floats, free: NDArray[np.int8]) -> tuple[float, float, float, float]:
    """(Q_F, S, σ, 1'K1) of one pair, see `_assemble`."""
    loose, S, pinned = 0.0, 0.0, 0
    for i in range(first, last):
        if free[i] == 1:
            loose += Q * p[i]
            S += (Q * p[i]) ** 2
        else:
            pinned += 1
    if loose == 0.0:
        return 0.0, 0.0, 0.0, Q * Q / pinned
    sigma = pinned / (loose * loose)
    return loose, S, sigma, S * (Q / loose) * (Q / loose) / (1.0 + sigma * S)


@lean_kernel
def _newton_step(geometry: LayeredGeometry, work: BarrierWork, damping: float) -> float:
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
def _residuals(work: BarrierWork) -> float:
    """The largest |ln(inflow/outflow)|."""
    worst = 0.0
    for x in range(len(work.prices) - 1):
        size = abs(math.log(work.inflow[x] / work.outflow[x]))
        if not size <= worst:
            worst = size
    return worst


@lean_kernel
def _assemble(geometry: LayeredGeometry, work: BarrierWork) -> None:
    """Minus the derivative of (inflow, outflow) by the prices, weighted by `into`² and `out`².

    One pair contributes K = -∂q/∂d; with F its free successors,

        a = q_F², S = Σ a, t = q/Q_F on the pinned ones, σ = (number pinned)/Q_F²
        K = diag(a) + (a t' + t a' + S t t' - σ a a') / (1 + σ S)         and q q'/m where all are pinned.
    """
    layers, edges, A = geometry
    M = work.matrix
    H = len(layers) - 2
    for h in range(H):
        for x in range(layers[h], layers[h + 1]):
            for y in range(layers[max(h - 1, 0)], layers[h + 2]):
                M[x, y] = 0.0
    for h in range(H):
        after = layers[h + 1]
        for pair in range(layers[h] * A, after * A):
            x, first, last = pair // A, edges[pair], edges[pair + 1]
            loose, S, sigma, whole = _stiffness(first, last, work.flow[pair], work.p, work.free)
            M[x, x] += whole * work.out[x] ** 2
            for i in range(first, last):
                row, q = 0.0, work.flow[pair] * work.p[i]
                for j in range(first, last):
                    r = work.flow[pair] * work.p[j]
                    if loose == 0.0:
                        k = q * r / (last - first)
                    elif work.free[i] == 1 and work.free[j] == 1:
                        k = -sigma / (1.0 + sigma * S) * (q * q) * (r * r)
                        if i == j:
                            k += q * q
                    elif work.free[i] == 1:
                        k = (q * q) * (r / loose) / (1.0 + sigma * S)
                    elif work.free[j] == 1:
                        k = (r * r) * (q / loose) / (1.0 + sigma * S)
                    else:
                        k = (q / loose) * (r / loose) * S / (1.0 + sigma * S)
                    row += k
                    if h + 1 < H:
                        M[after + i - first, after + j - first] += k * work.into[after + i - first] ** 2
                if h + 1 < H:
                    M[x, after + i - first] -= row * work.out[x] ** 2
                    M[after + i - first, x] -= row * work.into[after + i - first] ** 2
