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
"""

from __future__ import annotations

import math

from tacit.arrays import Floats
from tacit.kernels import lean_kernel
from tacit.planning.entropy_dual import EntropyWork, cold_start, entropy_work, evaluate, jacobian, residuals
from tacit.planning.flow_report import REACHED, conclude, solve_layers
from tacit.planning.layered import LayeredGeometry, push_forward

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
    """Solve for costs[pairs], writing policy[pairs], occupancy[triples] and the report; see `flow_report`."""
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
