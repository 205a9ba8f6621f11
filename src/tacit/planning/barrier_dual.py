"""The reduced dual of a log-barrier flow: its value, its flows and a Newton step for its prices; see `barrier_flow`.

d = b + v(x') - v(x)          D(v) = v(x_0) + Σ_{x,a} f(d(x,a,·))          ∂D/∂v(x) = inflow(x) - outflow(x)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Flags, Floats, Ints
from tacit.kernels import lean_kernel
from tacit.planning.barrier_row import split_flow
from tacit.planning.flow_report import solve_layers
from tacit.planning.layered import LayeredGeometry

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
