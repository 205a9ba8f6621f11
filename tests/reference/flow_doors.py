"""Plain Python doors to the flow kernels of `tacit.planning`: input is checked, and nothing comes back uncertified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats
from tacit.errors import InvalidInput, TacitError, require
from tacit.planning.barrier_flow import barrier_work, solve_barrier_flow
from tacit.planning.entropy_flow import entropy_work, solve_entropy_flow
from tacit.planning.layered import (
    CONVERGED,
    DUAL,
    FALLBACKS,
    GAP,
    ITERATIONS,
    REPORT_SIZE,
    RESIDUAL,
    LayeredGeometry,
    bound_occupancy,
    upper_work,
)


class Unsolved(TacitError):
    """A solver ended without a certificate; the answer is withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSolution:
    """A certified optimal flow."""

    policy: Floats
    """[pairs]: π(a|x), for states that the flow never reaches, too."""
    occupancy: Floats
    """[triples]: q(x,a,x')."""
    prices: Floats
    """[X]: the dual variable of flow conservation at each state."""
    objective: float
    """What the occupancy costs."""
    gap: float
    """Objective minus the dual value: no feasible flow is better by more."""
    residual: float
    iterations: int
    fallbacks: int


def accepted(policy: Floats, occupancy: Floats, prices: Floats, report: Floats) -> FlowSolution:
    """The solution, if the report certifies it.

    >>> import numpy as np
    >>> accepted(np.ones(1), np.ones(1), np.zeros(2), np.array([0.5, 1.0, 0.0, 200.0, 3.0, 0.0]))
    Traceback (most recent call last):
    ...
    flow_doors.Unsolved: no certificate after 200 iterations: gap 0.5 at dual value 1, residual 0
    """
    gap, dual, residual, iterations = (float(report[i]) for i in (GAP, DUAL, RESIDUAL, ITERATIONS))
    if report[CONVERGED] != 1.0:
        raise Unsolved(
            f"no certificate after {iterations:.0f} iterations: "
            f"gap {gap:g} at dual value {dual:g}, residual {residual:g}"
        )
    return FlowSolution(
        policy=policy,
        occupancy=occupancy,
        prices=prices,
        objective=dual + gap,
        gap=gap,
        residual=residual,
        iterations=int(iterations),
        fallbacks=int(report[FALLBACKS]),
    )


def flow_costs(name: str, values: NDArray[np.floating], size: int) -> Floats:
    """A finite table of this size, as float64."""
    table = np.ascontiguousarray(values, dtype=np.float64)
    require(table.shape == (size,), f"{name} must have the shape ({size},)", given=table.shape)
    if not np.isfinite(table).all():
        raise InvalidInput(f"{name} must be finite, got {int((~np.isfinite(table)).sum())} entries that are not")
    return table


def flow_intervals(
    geometry: LayeredGeometry, lo: NDArray[np.floating], hi: NDArray[np.floating]
) -> tuple[Floats, Floats]:
    """Intervals [triples] that hold a distribution for every pair: 0 ≤ lo ≤ hi ≤ 1, Σ lo ≤ 1 ≤ Σ hi."""
    size = int(geometry.edges[-1])
    low, high = flow_costs("lo", lo, size), flow_costs("hi", hi, size)
    require(bool((low >= 0).all() and (high <= 1).all()), "intervals must lie in [0, 1]", (low.min(), high.max()))
    require(bool((low <= high).all()), "lo must not exceed hi", given=float((low - high).max()))
    least, most = np.add.reduceat(low, geometry.edges[:-1]), np.add.reduceat(high, geometry.edges[:-1])
    require(
        bool((least <= 1 + 1e-12).all() and (most >= 1 - 1e-12).all()),
        "the intervals of every pair must hold a distribution: Σ lo ≤ 1 ≤ Σ hi",
        given=(float(least.max()), float(most.min())),
    )
    return low, high


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


def upper_occupancy(
    geometry: LayeredGeometry, policy: NDArray[np.floating], lo: NDArray[np.floating], hi: NDArray[np.floating]
) -> Floats:
    """The bound u(x,a) of every pair for policy[pairs].

    >>> from tacit.planning.layered import layered_geometry
    >>> fork = layered_geometry((1, 2, 1), 1)
    >>> upper_occupancy(fork, np.ones(3), np.array([0.1, 0.6, 1, 1]), np.array([0.5, 1, 1, 1])).tolist()
    [1.0, 0.4, 0.9]
    """
    low, high = flow_intervals(geometry, lo, hi)
    pi = flow_costs("policy", policy, len(geometry.edges) - 1)
    sums = pi.reshape(-1, geometry.actions).sum(axis=1)
    fits = bool((pi >= 0).all() and (abs(sums - 1) <= 1e-9).all())
    require(fits, "policy must hold a distribution over actions for every state", given=(pi.min(), sums.max()))
    upper = np.empty(len(pi))
    bound_occupancy(geometry, upper_work(geometry), pi, low, high, upper)
    return upper
