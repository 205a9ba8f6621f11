"""Log-barrier flows: certificates under stress, general solvers, closed forms, derivatives, refusals."""

from __future__ import annotations

import time

import mpmath as mp
import numpy as np
import pytest
from flow_doors import Unsolved, barrier_flow
from layered_instances import KINDS, random_barrier_instance, random_intervals, random_transitions
from layered_oracles import BarrierProgram, structure
from scipy.optimize import brentq, minimize

from tacit.errors import InvalidInput
from tacit.planning.barrier_flow import (
    FLOOR,
    barrier_work,
    evaluate,
    newton_step,
    solve_barrier_flow,
    split_flow,
    start,
)
from tacit.planning.layered import (
    CONVERGED,
    DUAL,
    GAP,
    ITERATIONS,
    REPORT_SIZE,
    RESIDUAL,
    layered_geometry,
    push_forward,
)

WORLD = layered_geometry((1, 3, 2, 3, 1), 2)
STRESS = [1000, pytest.param(5000, marks=pytest.mark.slow)]
"""Hard instances with every change, and before a merge."""


def solve(geometry, costs, previous, lo, hi, *, work=None):
    """The kernel, without the door's refusal."""
    work = barrier_work(geometry) if work is None else work
    policy, occupancy, report = np.empty(len(costs)), np.empty(len(lo)), np.empty(REPORT_SIZE)
    solve_barrier_flow(geometry, work, costs, previous, lo, hi, policy, occupancy, report)
    return policy, occupancy, report


def random_flow(rng, geometry):
    """The occupancy of a random policy in a random world."""
    rows = rng.dirichlet(np.ones(geometry.actions), int(geometry.layers[-2]))
    states, flow = np.empty(int(geometry.layers[-1])), np.empty(int(geometry.edges[-1]))
    push_forward(geometry, rows.ravel(), np.maximum(random_transitions(rng, geometry), 1e-3), states, flow)
    return flow


def wide(rng, geometry, kind):
    """Intervals that are not so narrow that Clarabel gives up."""
    lo, hi = random_intervals(rng, geometry, kind)
    single = np.repeat(np.diff(geometry.edges) == 1, np.diff(geometry.edges))
    return np.where(single, 1.0, np.maximum(0, lo - 0.02)), np.minimum(1, hi + 0.02)


@pytest.mark.parametrize("number", STRESS)
def test_thousands_of_hard_instances_are_certified(number):
    rng = np.random.default_rng(2024)
    refused = 0
    iterations = []
    for _ in range(number):
        _, _, report = solve(*random_barrier_instance(rng))
        assert abs(report[GAP]) <= 1e-9 * (1 + abs(report[DUAL]))
        if report[CONVERGED] == 0.0:
            # Narrow intervals force flow through triples with q_k = 3e-13: prices of 1e11 leave no digits for flows of
            # order 1, and the residual says so.
            assert report[DUAL] > 1e10
            refused += 1
        else:
            assert report[RESIDUAL] <= 1e-6
        iterations.append(report[ITERATIONS])
    assert refused <= number // 200
    assert np.mean(iterations) < 16


def test_previous_flows_that_are_no_flows_at_all():
    rng = np.random.default_rng(5)
    for _ in range(200):
        geometry, costs, previous, lo, hi = random_barrier_instance(rng, wild=True)
        _, _, report = solve(geometry, costs, previous, lo, hi)
        assert abs(report[GAP]) <= 1e-9 * (1 + abs(report[DUAL]))
        assert report[CONVERGED] == 1.0 or report[DUAL] > 1e9


def test_the_general_solver_finds_the_same_cost():
    rng = np.random.default_rng(1)
    compared = 0
    for widths, A in [((1, 1), 3), ((1, 2, 2, 1), 2), ((1, 3, 1, 2, 1), 1), ((1, 3, 3, 3, 1), 2), ((1, 4, 2, 4, 1), 3)]:
        geometry = layered_geometry(widths, A)
        pair, source, target = structure(geometry)
        program = BarrierProgram(geometry)
        for k in range(10):
            lo, hi = wide(rng, geometry, KINDS[k % 4])
            costs, previous = rng.uniform(-1, 3, len(geometry.edges) - 1), random_flow(rng, geometry)
            found, oracle = barrier_flow(geometry, costs, previous, lo, hi), program.solve(costs, previous, lo, hi)
            q, X = found.occupancy, int(geometry.layers[-1])
            Q = np.bincount(pair, q)[pair]
            assert max((lo * Q - q).max(), (q - hi * Q).max()) <= 1e-12
            assert np.bincount(target, q, X)[1:-1] == pytest.approx(np.bincount(source, q, X)[1:-1], rel=1e-9)
            if np.isfinite(oracle):
                assert found.objective == pytest.approx(oracle, rel=1e-6, abs=1e-6)
                compared += 1
    assert compared >= 40


def test_one_pair_against_a_general_minimiser():
    rng = np.random.default_rng(2)
    bound = 0
    for k in range(60):
        m = int(rng.integers(2, 6))
        P, width = rng.dirichlet(np.ones(m)), rng.uniform(0.01, 0.4, m)
        lo, hi = np.maximum(0, P - width), np.minimum(1, P + width)
        d = rng.uniform(0.2, 5, m)
        if k % 4 == 0 and hi[0] < 1:
            d[0] = -0.5 * d[1:].min() * (1 - hi[0]) / hi[0]  # negative, and bounded only by the intervals
        p, free = np.empty(m), np.ones(m, dtype=np.int8)
        f, Q, theta = split_flow(0, m, d, lo, hi, p, free, 0.0)
        free[:] = rng.integers(-1, 2, m)
        again = split_flow(0, m, d, lo, hi, p, free, theta + rng.normal(0, 3))
        assert again[0] == pytest.approx(f, abs=1e-11)  # the guess only saves time
        rows = np.vstack([np.eye(m) - lo[:, None], hi[:, None] - np.eye(m)])
        oracle = minimize(
            lambda q, d=d: d @ q - np.log(q).sum(),
            P * 2,
            jac=lambda q, d=d: d - 1 / q,
            bounds=[(1e-9, None)] * m,
            constraints={"type": "ineq", "fun": lambda q, rows=rows: rows @ q, "jac": lambda q, rows=rows: rows},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert f == pytest.approx(oracle.fun, abs=1e-6)
        assert f <= oracle.fun + 1e-9
        assert p.sum() == pytest.approx(1, abs=1e-14)
        assert Q == pytest.approx(m / (d @ p))
        bound += not (free == 1).all()
    assert bound > 30


def test_a_pair_without_a_least_cost_is_noticed():
    p, free = np.empty(2), np.ones(2, dtype=np.int8)
    f, _, _ = split_flow(0, 2, np.array([-1.0, 1.0]), np.array([0.0, 0.2]), np.array([0.8, 1.0]), p, free, 0.0)
    assert f == -np.inf


def test_without_costs_a_feasible_flow_stays():
    rng = np.random.default_rng(3)
    P = np.maximum(random_transitions(rng, WORLD), 1e-2)
    P /= np.repeat(np.add.reduceat(P, WORLD.edges[:-1]), np.diff(WORLD.edges))
    states, flow = np.empty(10), np.empty(len(P))
    push_forward(WORLD, np.full(18, 0.5), P, states, flow)
    stays = barrier_flow(WORLD, np.zeros(18), flow, 0.9 * P, np.minimum(1.0, 1.1 * P))
    assert stays.iterations == 0
    assert stays.occupancy == pytest.approx(flow, rel=1e-12)


@pytest.mark.parametrize("small", [1e-30, 1e-100])
def test_flows_that_are_nearly_nothing_are_right_relatively(small):
    # One step: q_i = 1/(c_i + 1/q_k - v) with Σ q = 1, in forty digits.
    costs, previous = np.array([0.3, 0.8, 0.5]), np.array([0.6, 0.4, small])
    found = barrier_flow(layered_geometry((1, 1), 3), costs, previous, np.ones(3), np.ones(3))
    with mp.workdps(40):
        b = [mp.mpf(c) + 1 / mp.mpf(q) for c, q in zip(costs, previous, strict=True)]
        v = mp.findroot(lambda v: sum(1 / (x - v) for x in b) - 1, 0.1)
        exact = [float(1 / (x - v)) for x in b]
    assert found.occupancy == pytest.approx(exact, rel=1e-9)


def test_states_that_are_hardly_ever_reached():
    # A branch at 1e-30: beside 1/q_k, costs and prices of order 1 are nothing, and one rescaled price w balances it,
    # Σ_out 1/(1/q_k - w) = Σ_in 1/(1/q_k + w).
    geometry = layered_geometry((1, 2, 2, 1), 2)
    lo, hi = np.zeros(16), np.ones(16)
    lo[12:] = 1.0
    rng = np.random.default_rng(4)
    previous = random_flow(rng, geometry)
    enter, leave = previous[[1, 3]].copy(), rng.uniform(0.1, 1, 4)
    previous[[1, 3]] *= 1e-30
    previous[8:12] = 1e-30 * leave
    found = barrier_flow(geometry, rng.uniform(0, 1, 10), previous, lo, hi)
    w = brentq(
        lambda w: (1 / (1 / leave - w)).sum() - (1 / (1 / enter + w)).sum(),
        -(1 / enter).min() * (1 - 1e-9),
        (1 / leave).min() * (1 - 1e-9),
        xtol=1e-15,
    )
    exact = 1 / (1 / leave - w)
    assert found.occupancy[8:12] == pytest.approx(1e-30 * exact, rel=1e-9)
    assert found.policy[4:6] == pytest.approx(exact.reshape(2, 2).sum(axis=1) / exact.sum(), rel=1e-9)


def test_the_newton_matrix_is_the_derivative():
    rng = np.random.default_rng(6)
    lo, hi = wide(rng, WORLD, "plain")
    work = barrier_work(WORLD)
    start(WORLD, work, rng.uniform(0, 1, 18), random_flow(rng, WORLD))
    base = evaluate(WORLD, work, work.d, 0.0, lo, hi)
    d, gradient = work.d.copy(), (work.inflow - work.outflow)[:-1].copy()
    newton_step(WORLD, work, 0.0)
    step = work.step[:-1].copy()
    _, source, target = structure(WORLD)
    small = 1e-6

    def at(direction):
        v = np.append(direction, 0.0)
        value = evaluate(WORLD, work, d + v[target] - v[source], v[0], lo, hi)
        return value, (work.inflow - work.outflow)[:-1].copy()

    # The gradient of D, and minus its second derivative times the step gives back the gradient.
    assert (at(small * step)[0] - at(-small * step)[0]) / (2 * small) == pytest.approx(gradient @ step, rel=1e-5)
    change = (at(small * step)[1] - at(-small * step)[1]) / (2 * small)
    assert -change == pytest.approx(gradient, rel=1e-4, abs=1e-6)
    assert np.isfinite(base)


def test_zero_flows_are_floored_and_counted():
    work = barrier_work(WORLD)
    previous = random_flow(np.random.default_rng(7), WORLD)
    previous[[2, 5]] = 0.0
    lo, hi = random_intervals(np.random.default_rng(7), WORLD, "vacuous")
    policy, occupancy, report = solve(WORLD, np.zeros(18), previous, lo, hi, work=work)
    assert work.floored[0] == 2
    assert report[CONVERGED] == 1.0
    assert np.isfinite(policy).all()
    assert occupancy[2] >= FLOOR


def test_the_answer_may_overwrite_the_previous_flow():
    rng = np.random.default_rng(8)
    lo, hi = wide(rng, WORLD, "plain")
    costs, previous = rng.uniform(0, 1, 18), random_flow(rng, WORLD)
    _, apart, _ = solve(WORLD, costs, previous, lo, hi)
    solve_barrier_flow(WORLD, barrier_work(WORLD), costs, previous, lo, hi, np.empty(18), previous, np.empty(6))
    assert (previous == apart).all()


@pytest.mark.parametrize(
    ("costs", "previous", "hi"),
    [
        ([np.nan, 0.0], [0.5, 0.5], [1.0, 1.0]),
        ([0.0, 0.0], [0.0, 0.5], [1.0, 1.0]),
        ([0.0, 0.0], [-0.5, 0.5], [1.0, 1.0]),
        ([0.0, 0.0], [np.inf, 0.5], [1.0, 1.0]),
        ([0.0, 0.0], [0.5, 0.5], [0.9, 1.0]),
        ([0.0, 0.0, 0.0], [0.5, 0.5], [1.0, 1.0]),
    ],
)
def test_what_is_no_problem_is_refused(costs, previous, hi):
    geometry = layered_geometry((1, 1), 2)
    with pytest.raises(InvalidInput):
        barrier_flow(geometry, np.array(costs), np.array(previous), np.ones(2), np.array(hi))


def test_a_transition_that_is_ruled_out_has_no_barrier():
    geometry = layered_geometry((1, 2, 1), 1)
    known = np.array([0.0, 1.0, 1.0, 1.0])
    with pytest.raises(InvalidInput, match="hi must be positive"):
        barrier_flow(geometry, np.zeros(3), np.full(4, 0.5), known, known)


def test_no_certificate_no_answer():
    # Prices of 1e13 against flows of order 1: refused, not returned with four digits.
    geometry = layered_geometry((1, 2, 2, 2, 1), 1)
    rng = np.random.default_rng(9)
    P = random_transitions(rng, geometry)
    lo, hi = np.maximum(0, P - 1e-7), np.minimum(1, P + 1e-7)
    lo[-2:], hi[-2:] = 1.0, 1.0
    lo[10:], hi[10:] = 1.0, 1.0
    refused = 0
    for _ in range(30):
        previous = 10 ** rng.uniform(-16, 0, len(P))
        _, _, report = solve(geometry, np.zeros(7), previous, lo, hi)
        if report[CONVERGED] == 0.0:
            refused += 1
            with pytest.raises(Unsolved):
                barrier_flow(geometry, np.zeros(7), previous, lo, hi)
    assert refused > 0
    costs = np.zeros(18)
    costs[3] = np.nan
    flow = random_flow(rng, WORLD)
    assert solve(WORLD, costs, flow, *random_intervals(rng, WORLD, "plain"))[2][CONVERGED] == 0.0


def test_at_least_fifty_times_faster_than_a_parametrised_program():
    rng = np.random.default_rng(10)
    geometry = layered_geometry((1, 5, 5, 5, 5, 1), 3)
    program = BarrierProgram(geometry)
    lo, hi = wide(rng, geometry, "plain")
    flow = random_flow(rng, geometry)
    work, theirs, ours = barrier_work(geometry), [], []
    for _ in range(4):
        costs = rng.uniform(0, 1, len(geometry.edges) - 1)
        start = time.process_time()
        program.solve(costs, flow, lo, hi)
        theirs.append(time.process_time() - start)
        start = time.process_time()
        for _ in range(20):
            solve(geometry, costs, flow, lo, hi, work=work)
        ours.append((time.process_time() - start) / 20)
        flow = solve(geometry, costs, flow, lo, hi)[1]
    assert min(theirs) / min(ours) >= 50
