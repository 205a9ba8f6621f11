"""Entropy-regularised flows through a layered world with interval transitions (FTRL and OMD of O-REPS learners).

    min  Σ c(x,a) q(x,a,x') + q ln(q / prior)     over flows q with   lo q(x,a) ≤ q(x,a,x') ≤ hi q(x,a)

is the update [bai2024adversarial] Eq. 3.2 with c = η L̃ and prior 1. The paper solves a dual with two multipliers for
each triple (Lemma C.1). Minimising over these multipliers by `fill` leaves one price u(x) for each inner state:

    s(x,a) = c(x,a) + φ(x,a;u) - u(x)          w(x,a) = exp(-s) / Σ_layer exp(-s)          ρ(x) = Σ_a w(x,a)
    D(u)   = - Σ_h ln Σ_{x ∈ X_h, a} exp(-s(x,a))                    u = 0 at the first and the last state

D is concave with gradient inflow(x) - ρ(x), inflow(y) = Σ w(x,a) p(y|x,a). We solve F(x) = ln inflow(x) - ln ρ(x) = 0
by Newton: in logarithms a state that is reached with probability 1e-30 weighs as much as any other, and everything in
the Jacobian is a conditional probability, so nothing over- or underflows. A step is taken if it brings max|F| below all
that was seen before or increases D enough; if it does neither, the price of the worst state alone is moved to its best.

The policy π(a|x) ∝ exp(-c(x,a) - φ(x,a)) needs no division by q(x). With p pushed forward it gives a feasible flow
whose cost minus D(u) is the duality gap: Lemma F4 (reduced dual), Lemma F5 (duality gap).

For prices u(x), with V(x) = -ln Σ_a exp(-c(x,a) - φ(x,a;u)):

    D(u) = - Σ_h ln Σ_{x ∈ X_h} exp(u(x) - V(x))          ln ρ(x) = u(x) - V(x) - ln Σ_layer exp(u - V)
    F(x) = ln inflow(x) - ln ρ(x),     inflow(y) = Σ w(x,a) p(y|x,a),     w(x,a) = ρ(x) π(a|x)

Flows below TINY are computed from logarithms, so F is right at states of any rarity.

Each pair (x,a) takes the cheapest distribution inside its intervals (`fill`):

    φ = min Σ_y p_y (t_y + ln p_y)    over   lo ≤ p ≤ hi, Σ p = 1

is p_y = clip(exp(λ - t_y), lo_y, hi_y), where λ makes the sum 1. The level λ is found exactly by fixing variables, the
side that weighs more first; nothing is sorted: Lemma F3 (water filling).

Exponentials are anchored at the smallest free price, so that prices of any size keep their order; an entry that
underflows beside it keeps its logarithm λ - t. Where the fixed ends use up the whole mass but for rounding, as mirrored
intervals do (lo of one = 1 - hi of the other), the level is that of the entry which would yield first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Flags, Floats
from tacit.kernels import lean_kernel
from tacit.planning.layered import REACHED, LayeredGeometry, conclude, push_forward, solve_layers

SLACK = 1e-15  # sums of interval ends are exact up to this
MIN_TOTAL = 1e-100  # of exponentials that are left over; below, they are anchored anew
TINY = 1e-200  # below, flows are computed in logarithms
UNREACHABLE = -800.0  # ln inflow of a state that no transition may enter


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
        if total < MIN_TOTAL:
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


class EntropyWork(NamedTuple):
    """Buffers of one run; `prices` carries the warm start from call to call."""

    prices: Floats
    trial: Floats
    t: Floats
    p: Floats
    free: Flags
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
    geometry: LayeredGeometry, work: EntropyWork, u: Floats, costs: Floats, log_prior: Floats, lo: Floats, hi: Floats
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


__all__ = ["EntropyWork", "entropy_work", "solve_entropy_flow"]


TOLERANCE = 1e-9  # of max|F|
MAX_ITERATIONS = 200


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
    """Solve for costs[pairs], writing policy[pairs], occupancy[triples] and the report."""
    layers, edges = geometry.layers, geometry.edges
    u, X = work.prices, layers[-1]
    if not warm:
        cold_start(geometry, work, costs, log_prior, lo, hi)
    dual = evaluate(geometry, work, u, costs, log_prior, lo, hi)
    worst = residuals(geometry, work)
    iterations, fallbacks, best = 0, 0, worst
    while worst > TOLERANCE and iterations < MAX_ITERATIONS:
        iterations += 1
        jacobian(geometry, work)
        for x in range(X):
            work.step[x] = work.residual[x]
        improved = False
        if solve_layers(layers, work.jacobian, work.step):
            slope = 0.0
            for x in range(1, X - 1):
                slope += (work.inflow[x] - work.rho[x]) * work.step[x]
            alpha = 1.0
            for _ in range(12):
                for x in range(X):
                    work.trial[x] = u[x] + alpha * work.step[x]
                work.trial[0], work.trial[X - 1] = 0.0, 0.0
                higher = evaluate(geometry, work, work.trial, costs, log_prior, lo, hi)
                smaller = residuals(geometry, work)
                noise = 1e-14 * (1.0 + abs(dual))
                improved = (
                    smaller <= (1.0 - 0.3 * alpha) * best
                    or (slope > 0.0 and alpha * slope > 8.0 * noise and higher >= dual + 1e-4 * alpha * slope)
                    or (abs(higher - dual) <= noise and smaller <= (1.0 - 0.1 * alpha) * worst)
                )
                if improved:
                    break
                alpha *= 0.5
            if improved:
                for x in range(X):
                    u[x] = work.trial[x]
                dual, worst, best = higher, smaller, min(best, smaller)
        if not improved:
            fallbacks += 1
            evaluate(geometry, work, u, costs, log_prior, lo, hi)
            residuals(geometry, work)
            move_worst(geometry, work, costs, log_prior, lo, hi)
            dual = evaluate(geometry, work, u, costs, log_prior, lo, hi)
            worst = residuals(geometry, work)
    for pair in range(len(edges) - 1):
        policy[pair] = work.pi[pair]
    push_forward(geometry, policy, work.p, work.value, occupancy)
    gap, residual = flow_cost(geometry, costs, log_prior, occupancy) - dual, 0.0
    for x in range(1, X - 1):
        # |inflow / ρ - 1|, at states that the flow reaches
        if work.value[x] > REACHED:
            residual = max(residual, abs(math.expm1(min(work.residual[x], 700.0))))
    conclude(report, gap, dual, residual, iterations, fallbacks)


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
