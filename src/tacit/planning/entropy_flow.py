"""Entropy-regularised flows through a layered world with interval transitions (FTRL and OMD of O-REPS learners).

    min  Σ c(x,a) q(x,a,x') + q ln(q / prior)     over flows q with   lo q(x,a) ≤ q(x,a,x') ≤ hi q(x,a)

is the update [bai2024adversarial] Eq. 3.2 with c = η L̃ and prior 1. The paper solves a dual with two multipliers for
each triple (Lemma C.1). Minimising over these multipliers by `fill` leaves one price u(x) for each inner state:

    s(x,a) = c(x,a) + φ(x,a;u) - u(x)          w(x,a) = exp(-s) / Σ_layer exp(-s)          ρ(x) = Σ_a w(x,a)
    D(u)   = - Σ_h ln Σ_{x ∈ X_h, a} exp(-s(x,a))                    u = 0 at the first and the last state

D is concave with gradient inflow(x) - ρ(x), inflow(y) = Σ w(x,a) p(y|x,a). We solve F(x) = ln inflow(x) - ln ρ(x) = 0
by Newton: in logarithms a state that is reached with probability 1e-30 weighs as much as any other, and everything in
the Jacobian is a conditional probability, so nothing over- or underflows. A step is taken if it shrinks max|F| (early
on) or increases D enough; a step that does neither is replaced by moving the worst state alone, which always helps.

The policy π(a|x) ∝ exp(-c(x,a) - φ(x,a)) needs no division by q(x). With p pushed forward it gives a feasible flow
whose cost minus D(u) is the duality gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInput
from tacit.kernels import lean_kernel
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
from tacit.planning.water_filling import fill

__all__ = ["EntropyWork", "entropy_flow", "entropy_work", "solve_entropy_flow"]

Floats = NDArray[np.float64]

TOLERANCE = 1e-9  # of max|F|
MOST_ITERATIONS = 200
EARLY = 15  # steps in which a shrinking residual is reason enough
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
    jacobian: Floats


def entropy_work(geometry: LayeredGeometry) -> EntropyWork:
    """Buffers for worlds of this geometry."""
    X, pairs, triples = int(geometry.layers[-1]), len(geometry.edges) - 1, int(geometry.edges[-1])
    return EntropyWork(
        prices=np.zeros(X),
        trial=np.zeros(X),
        t=np.empty(triples),
        p=np.empty(triples),
        free=np.empty(triples, dtype=np.int8),
        level=np.empty(pairs),
        soft=np.empty(pairs),
        value=np.empty(X),
        pi=np.empty(pairs),
        log_rho=np.zeros(X),
        rho=np.ones(X),
        inflow=np.ones(X),
        log_inflow=np.zeros(X),
        residual=np.zeros(X),
        step=np.zeros(X),
        jacobian=np.zeros((X, X)),
    )


def entropy_flow(
    geometry: LayeredGeometry,
    costs: NDArray[np.floating],
    lo: NDArray[np.floating],
    hi: NDArray[np.floating],
    *,
    prior: NDArray[np.floating] | None = None,
) -> FlowSolution:
    """The cheapest flow for costs[pairs] within the intervals, relative to a positive prior[triples] (1 if left out).

    >>> from tacit.planning.layered import layered_geometry
    >>> fork = layered_geometry((1, 2, 1), 1)
    >>> known = np.array([0.25, 0.75, 1.0, 1.0])
    >>> entropy_flow(fork, np.array([0.0, 3.0, 1.0]), known, known).occupancy.round(3).tolist()
    [0.25, 0.75, 0.25, 0.75]
    """
    low, high = flow_intervals(geometry, lo, hi)
    c = flow_costs("costs", costs, len(geometry.edges) - 1)
    log_prior = np.zeros(len(low))
    if prior is not None:
        weights = flow_costs("prior", prior, len(low))
        if not (weights > 0).all():
            raise InvalidInput("prior must be positive; floor it first")
        log_prior = np.log(weights)
    work, report = entropy_work(geometry), np.empty(REPORT_SIZE)
    policy, occupancy = np.empty(len(c)), np.empty(len(low))
    solve_entropy_flow(geometry, work, c, log_prior, low, high, False, policy, occupancy, report)
    return accepted(policy, occupancy, work.prices.copy(), report)


@lean_kernel
def solve_entropy_flow(
    geometry: LayeredGeometry,
    work: EntropyWork,
    costs: Floats,
    log_prior: Floats,
    lo: Floats,
    hi: Floats,
    warm: bool,
    policy: Floats,
    occupancy: Floats,
    report: Floats,
) -> None:
    """Solve for costs[pairs], writing policy[pairs], occupancy[triples] and the report; see `flow_report`."""
    layers, edges, A = geometry
    u, X = work.prices, layers[-1]
    if not warm:
        _cold_start(geometry, work, costs, log_prior, lo, hi)
    dual = _evaluate(geometry, work, u, costs, log_prior, lo, hi)
    worst = _residuals(geometry, work)
    iterations, fallbacks = 0, 0
    while worst > TOLERANCE and iterations < MOST_ITERATIONS:
        iterations += 1
        _jacobian(geometry, work)
        for x in range(X):
            work.step[x] = work.residual[x]
        improved = False
        if solve_layers(layers, 1, work.jacobian, work.step):
            slope = 0.0
            for x in range(1, X - 1):
                slope += (work.inflow[x] - work.rho[x]) * work.step[x]
            alpha = 1.0
            for _ in range(12):
                for x in range(X):
                    work.trial[x] = u[x] + alpha * work.step[x]
                work.trial[0], work.trial[X - 1] = 0.0, 0.0
                higher = _evaluate(geometry, work, work.trial, costs, log_prior, lo, hi)
                smaller = _residuals(geometry, work)
                noise = 1e-14 * (1.0 + abs(dual))
                improved = (
                    (iterations <= EARLY and smaller <= (1.0 - 0.3 * alpha) * worst)
                    or (slope > 0.0 and alpha * slope > 8.0 * noise and higher >= dual + 1e-4 * alpha * slope)
                    or (abs(higher - dual) <= noise and smaller <= (1.0 - 0.1 * alpha) * worst)
                )
                if improved:
                    break
                alpha *= 0.5
            if improved:
                for x in range(X):
                    u[x] = work.trial[x]
                dual, worst = higher, smaller
        if not improved:
            fallbacks += 1
            _evaluate(geometry, work, u, costs, log_prior, lo, hi)
            _residuals(geometry, work)
            _move_worst(geometry, work, costs, log_prior, lo, hi)
            dual = _evaluate(geometry, work, u, costs, log_prior, lo, hi)
            worst = _residuals(geometry, work)
    for pair in range(len(edges) - 1):
        policy[pair] = work.pi[pair]
    push_forward(geometry, policy, work.p, work.value, occupancy)
    report[GAP] = _cost(geometry, costs, log_prior, occupancy) - dual
    report[DUAL] = dual
    report[RESIDUAL] = 0.0
    for x in range(1, X - 1):
        # |inflow / ρ - 1|, at states that the flow reaches
        if work.value[x] > REACHED:
            report[RESIDUAL] = max(report[RESIDUAL], abs(math.expm1(min(work.residual[x], 700.0))))
    report[ITERATIONS], report[FALLBACKS] = iterations, fallbacks
    good = abs(report[GAP]) <= GAP_LIMIT * (1.0 + abs(dual)) and report[RESIDUAL] <= RESIDUAL_LIMIT
    report[CONVERGED] = 1.0 if good else 0.0


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
def _cold_start(
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
def _evaluate(
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
    if work.p[i] > 0.0:
        log_p = math.log(work.p[i])
    else:
        log_p = work.level[pair] - work.t[i] if work.free[i] == 1 else -math.inf
    return work.log_rho[x] + work.value[x] - work.soft[pair] + log_p


@lean_kernel
def _residuals(geometry: LayeredGeometry, work: EntropyWork) -> float:
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
def _jacobian(geometry: LayeredGeometry, work: EntropyWork) -> None:
    """Minus the derivative of F by u, up to terms that are the same for all states of a layer.

    Such terms only shift F by a constant on each layer, which the normalisation of inflow and ρ undoes. What is left
    is made of conditional probabilities: of the predecessor given the state, and of the successor given the state.
    """
    layers, edges, A = geometry
    J = work.jacobian
    H = len(layers) - 2
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
                y = here + i - first
                if work.inflow[y] > TINY:
                    share = weight * work.p[i] / work.inflow[y]
                else:
                    share = math.exp(_log_edge(work, x, pair, i) - work.log_inflow[y])
                if share > 0.0:
                    # share = P(x,a | y);   -∂ ln inflow(y)/∂u: share (p - p_F/P_F + 1{y free}), minus share at x
                    J[y, x] -= share
                    loose = work.free[i] == 1 and mass > 0.0
                    if work.free[i] == 1:
                        J[y, y] += share
                    for j in range(first, last):
                        if loose and work.free[j] == 1:
                            J[y, here + j - first] += share * work.p[j] * (1.0 - 1.0 / mass)
                        else:
                            J[y, here + j - first] += share * work.p[j]
        if h + 1 < H:
            for pair in range(here * A, after * A):
                x, first = pair // A, edges[pair]
                for i in range(first, edges[pair + 1]):
                    J[x, after + i - first] -= work.pi[pair] * work.p[i]


@lean_kernel
def _move_worst(
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
        _evaluate(geometry, work, u, costs, log_prior, lo, hi)
        _residuals(geometry, work)
        if not sign * work.residual[x] > 0.0:
            break
        near, reach = far, 2.0 * reach
    for _ in range(60):
        u[x] = 0.5 * (near + far)
        _evaluate(geometry, work, u, costs, log_prior, lo, hi)
        _residuals(geometry, work)
        if sign * work.residual[x] > 0.0:
            near = u[x]
        else:
            far = u[x]


@lean_kernel
def _cost(geometry: LayeredGeometry, costs: Floats, log_prior: Floats, occupancy: Floats) -> float:
    """Σ c q + q ln q - q ln prior."""
    edges = geometry.edges
    total = 0.0
    for pair in range(len(edges) - 1):
        for i in range(edges[pair], edges[pair + 1]):
            if occupancy[i] > 0.0:
                total += occupancy[i] * (costs[pair] + math.log(occupancy[i]) - log_prior[i])
    return total
