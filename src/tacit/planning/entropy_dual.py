"""The reduced dual of an entropy-regularised flow: its value, its log residual and its Jacobian; see `entropy_flow`.

For prices u(x), with V(x) = -ln Σ_a exp(-c(x,a) - φ(x,a;u)):

    D(u) = - Σ_h ln Σ_{x ∈ X_h} exp(u(x) - V(x))          ln ρ(x) = u(x) - V(x) - ln Σ_layer exp(u - V)
    F(x) = ln inflow(x) - ln ρ(x),     inflow(y) = Σ w(x,a) p(y|x,a),     w(x,a) = ρ(x) π(a|x)

Flows below TINY are computed from logarithms, so F is right at states of any rarity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import lean_kernel
from tacit.planning.layered import LayeredGeometry
from tacit.planning.water_filling import fill

__all__ = [
    "EntropyWork",
    "cold_start",
    "entropy_work",
    "evaluate",
    "flow_cost",
    "jacobian",
    "move_worst",
    "residuals",
]

Floats = NDArray[np.float64]

TINY = 1e-200  # below, flows are computed in logarithms
UNREACHABLE = -800.0  # ln inflow of a state that no transition may enter


class EntropyWork(NamedTuple):
    """Buffers of one run; `prices` carries the warm start from call to call."""

    prices: Floats
    trial: Floats
    t: Floats
    p: Floats
    free: NDArray[np.int8]
    level: Floats
    soft: Floats
    value: Floats
    pi: Floats
    log_rho: Floats
    rho: Floats
    inflow: Floats
    log_inflow: Floats
    residual: Floats
    step: Floats
    row: Floats
    jacobian: Floats


def entropy_work(geometry: LayeredGeometry) -> EntropyWork:
    """Buffers for worlds of this geometry."""
    X, pairs, triples = int(geometry.layers[-1]), len(geometry.edges) - 1, int(geometry.edges[-1])
    return EntropyWork(
        prices=np.zeros(X),
        trial=np.zeros(X),
        t=np.zeros(triples),
        p=np.zeros(triples),
        free=np.zeros(triples, dtype=np.int8),
        level=np.zeros(pairs),
        soft=np.zeros(pairs),
        value=np.zeros(X),
        pi=np.zeros(pairs),
        log_rho=np.zeros(X),
        rho=np.ones(X),
        inflow=np.ones(X),
        log_inflow=np.zeros(X),
        residual=np.zeros(X),
        step=np.zeros(X),
        row=np.zeros(X),
        jacobian=np.zeros((X, X)),
    )


@lean_kernel
def _pairs_of_layer(
    geometry: LayeredGeometry,
    work: EntropyWork,
    h: int,
    u: Floats,
    costs: Floats,
    log_prior: Floats,
    lo: Floats,
    hi: Floats,
) -> None:
    """The best transitions p, the values V(x) = -ln Σ_a exp(-c - φ) and the policy π(a|x) of layer h."""
    layers, edges, A = geometry
    after = layers[h + 1]
    for x in range(layers[h], after):
        least = math.inf
        for pair in range(x * A, x * A + A):
            first, last = edges[pair], edges[pair + 1]
            for i in range(first, last):
                work.t[i] = u[after + i - first] - log_prior[i]
            phi, work.level[pair] = fill(first, last, work.t, lo, hi, work.p, work.free)
            work.soft[pair] = costs[pair] + phi
            least = min(least, work.soft[pair])
        total = 0.0
        for pair in range(x * A, x * A + A):
            work.pi[pair] = math.exp(least - work.soft[pair])
            total += work.pi[pair]
        for pair in range(x * A, x * A + A):
            work.pi[pair] /= total
        work.value[x] = least - math.log(total)


@lean_kernel
def cold_start(
    geometry: LayeredGeometry, work: EntropyWork, costs: Floats, log_prior: Floats, lo: Floats, hi: Floats
) -> None:
    """Soft values from behind, u = V: every layer is then entered and left evenly."""
    layers, u = geometry.layers, work.prices
    H = len(layers) - 2
    u[layers[H]] = 0.0
    for h in range(H - 1, -1, -1):
        _pairs_of_layer(geometry, work, h, u, costs, log_prior, lo, hi)
        for x in range(layers[h], layers[h + 1]):
            u[x] = work.value[x]
    u[0] = 0.0


@lean_kernel
def evaluate(
    geometry: LayeredGeometry,
    work: EntropyWork,
    u: Floats,
    costs: Floats,
    log_prior: Floats,
    lo: Floats,
    hi: Floats,
) -> float:
    """D(u), with p, π, ρ and inflow left in `work`."""
    layers, edges, A = geometry
    dual = 0.0
    for h in range(len(layers) - 2):
        _pairs_of_layer(geometry, work, h, u, costs, log_prior, lo, hi)
        here, after = layers[h], layers[h + 1]
        most = -math.inf
        for x in range(here, after):
            most = max(most, u[x] - work.value[x])
        total = 0.0
        for x in range(here, after):
            total += math.exp(u[x] - work.value[x] - most)
        log_total = most + math.log(total)
        # D = - Σ_h ln Σ_x exp(u(x) - V(x))
        dual -= log_total
        for y in range(after, layers[h + 2]):
            work.inflow[y] = 0.0
        for x in range(here, after):
            work.log_rho[x] = u[x] - work.value[x] - log_total
            work.rho[x] = math.exp(work.log_rho[x])
            for pair in range(x * A, x * A + A):
                weight, first = work.rho[x] * work.pi[pair], edges[pair]
                for i in range(first, edges[pair + 1]):
                    work.inflow[after + i - first] += weight * work.p[i]
    return dual


@lean_kernel
def _log_edge(work: EntropyWork, x: int, pair: int, i: int) -> float:
    """The logarithm of w(x,a) p(y|x,a), even where it underflows."""
    log_w = work.log_rho[x] + work.value[x] - work.soft[pair]
    if work.p[i] > TINY:
        return float(log_w + math.log(work.p[i]))
    return float(log_w + work.level[pair] - work.t[i]) if work.free[i] == 1 else -math.inf


@lean_kernel
def residuals(geometry: LayeredGeometry, work: EntropyWork) -> float:
    """F(y) = ln inflow(y) - ln ρ(y) of every inner state; returns max|F|."""
    layers, edges, A = geometry
    worst = 0.0
    for h in range(1, len(layers) - 2):
        before, here = layers[h - 1], layers[h]
        for y in range(here, layers[h + 1]):
            if work.inflow[y] > TINY:
                work.log_inflow[y] = math.log(work.inflow[y])
            else:
                most = -math.inf
                for pair in range(before * A, here * A):
                    most = max(most, _log_edge(work, pair // A, pair, edges[pair] + y - here))
                total = 0.0
                if most > -math.inf:
                    for pair in range(before * A, here * A):
                        total += math.exp(_log_edge(work, pair // A, pair, edges[pair] + y - here) - most)
                work.log_inflow[y] = most + math.log(total) if total > 0.0 else UNREACHABLE
            work.residual[y] = work.log_inflow[y] - work.log_rho[y]
            size = abs(work.residual[y])
            if not size <= worst:
                worst = size
    return worst


@lean_kernel
def jacobian(geometry: LayeredGeometry, work: EntropyWork) -> None:
    """Minus the derivative of F by u, up to terms that are the same for all states of a layer.

    Such terms only shift F by a constant on each layer, which the normalisation of inflow and ρ undoes. What is left
    is made of conditional probabilities: of the predecessor given the state, and of the successor given the state.
    """
    layers, edges, A = geometry
    J = work.jacobian
    H = len(layers) - 2
    J[0, 0] = 1.0  # the price of the first state stays
    for h in range(1, H):
        before, here, after = layers[h - 1], layers[h], layers[h + 1]
        for y in range(here, after):
            for z in range(before, layers[h + 2]):
                J[y, z] = 0.0
            J[y, y] = 1.0
        for pair in range(before * A, here * A):
            x, first, last = pair // A, edges[pair], edges[pair + 1]
            weight, mass = work.rho[x] * work.pi[pair], 0.0
            for i in range(first, last):
                if work.free[i] == 1:
                    mass += work.p[i]
            for i in range(first, last):
                work.row[i - first] = work.p[i]
                if work.free[i] == 1 and mass > 0.0:
                    work.row[i - first] -= work.p[i] / mass
            for i in range(first, last):
                y = here + i - first
                if work.inflow[y] > TINY:
                    share = weight * work.p[i] / work.inflow[y]
                else:
                    share = math.exp(_log_edge(work, x, pair, i) - work.log_inflow[y])
                if share > 0.0:
                    # share = P(x,a | y);   -∂ ln inflow(y)/∂u: share (p - p_F/P_F + 1{y free}), minus share at x
                    J[y, x] -= share
                    if work.free[i] == 1:
                        J[y, y] += share
                        for j in range(last - first):
                            J[y, here + j] += share * work.row[j]
                    else:
                        for j in range(last - first):
                            J[y, here + j] += share * work.p[first + j]
        if h + 1 < H:
            for pair in range(here * A, after * A):
                x, first = pair // A, edges[pair]
                for i in range(first, edges[pair + 1]):
                    J[x, after + i - first] -= work.pi[pair] * work.p[i]


@lean_kernel
def move_worst(
    geometry: LayeredGeometry, work: EntropyWork, costs: Floats, log_prior: Floats, lo: Floats, hi: Floats
) -> None:
    """Maximise D over the price of the worst state alone: F(x) decreases in u(x), so bisection finds its root."""
    u, x = work.prices, 1
    for y in range(2, len(work.prices) - 1):
        if abs(work.residual[y]) > abs(work.residual[x]):
            x = y
    sign = 1.0 if work.residual[x] > 0.0 else -1.0
    near, reach = u[x], 1.0
    far = near
    for _ in range(60):
        far = near + sign * reach
        u[x] = far
        evaluate(geometry, work, u, costs, log_prior, lo, hi)
        residuals(geometry, work)
        if not sign * work.residual[x] > 0.0:
            break
        near, reach = far, 2.0 * reach
    for _ in range(60):
        u[x] = 0.5 * (near + far)
        evaluate(geometry, work, u, costs, log_prior, lo, hi)
        residuals(geometry, work)
        if sign * work.residual[x] > 0.0:
            near = u[x]
        else:
            far = u[x]


@lean_kernel
def flow_cost(geometry: LayeredGeometry, costs: Floats, log_prior: Floats, occupancy: Floats) -> float:
    """Σ c q + q ln q - q ln prior."""
    edges = geometry.edges
    total = 0.0
    for pair in range(len(edges) - 1):
        for i in range(edges[pair], edges[pair + 1]):
            if occupancy[i] > 0.0:
                total += occupancy[i] * (costs[pair] + math.log(occupancy[i]) - log_prior[i])
    return total
