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
"""

from __future__ import annotations

import math

from tacit.arrays import Floats
from tacit.kernels import lean_kernel
from tacit.planning.barrier_dual import (
    FLOOR,
    BarrierWork,
    barrier_work,
    evaluate,
    level,
    move,
    newton_step,
    price_costs,
    residuals,
    start,
)
from tacit.planning.flow_report import REACHED, conclude
from tacit.planning.layered import LayeredGeometry, push_forward

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
    """Solve for costs[pairs] and previous[triples], writing policy, occupancy and the report; see `flow_report`.

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
