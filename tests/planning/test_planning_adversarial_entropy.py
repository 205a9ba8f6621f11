"""Entropy-regularised flows: certificates under stress, general solvers, closed forms, symmetries, refusals."""

from __future__ import annotations

import time

import numpy as np
import pytest
from flow_doors import Unsolved, accepted, entropy_flow
from layered_instances import KINDS, random_entropy_instance, random_intervals, random_transitions
from layered_oracles import EntropyProgram, structure
from slow_flows import exact_policy

from tacit.errors import InvalidInput
from tacit.planning.entropy_flow import entropy_work, evaluate, move_worst, residuals, solve_entropy_flow
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


def solve(geometry, costs, lo, hi, *, work=None, warm=False):
    """The kernel, without the door's refusal."""
    work = entropy_work(geometry) if work is None else work
    policy, occupancy, report = np.empty(len(costs)), np.empty(len(lo)), np.empty(REPORT_SIZE)
    solve_entropy_flow(geometry, work, costs, np.zeros(len(lo)), lo, hi, warm, policy, occupancy, report)
    return policy, occupancy, report


def softmax(costs, A):
    rows = np.exp(-(costs - costs.min()).reshape(-1, A))
    return (rows / rows.sum(axis=1, keepdims=True)).ravel()


def infeasibility(geometry, q, lo, hi):
    """How far a flow breaks conservation and intervals, absolutely."""
    pair, source, target = structure(geometry)
    X = int(geometry.layers[-1])
    into, out = np.bincount(target, q, X), np.bincount(source, q, X)
    into[0], out[-1] = 1.0, 1.0
    Q = np.bincount(pair, q)[pair]
    return max(abs(into - out).max(), (lo * Q - q).max(), (q - hi * Q).max(), (-q).max())


@pytest.mark.parametrize("number", STRESS)
def test_thousands_of_hard_instances_are_certified(number):
    rng = np.random.default_rng(2024)
    gaps, residuals, iterations, everywhere = [], [], [], []
    for _ in range(number):
        geometry, costs, lo, hi = random_entropy_instance(rng)
        work = entropy_work(geometry)
        _, _, report = solve(geometry, costs, lo, hi, work=work)
        assert report[CONVERGED] == 1.0
        gaps.append(abs(report[GAP]))
        residuals.append(report[RESIDUAL])
        iterations.append(report[ITERATIONS])
        everywhere.append(abs(work.residual).max())
    assert max(gaps) <= 1e-9
    assert max(residuals) <= 1e-8
    assert np.mean(np.array(everywhere) <= 1e-8) >= 0.999  # states of any rarity, 1e-300 included
    assert np.mean(iterations) < 4  # Newton, not a crawl


def test_the_general_solver_finds_the_same_cost():
    rng = np.random.default_rng(1)
    compared = 0
    for widths, A in [((1, 1), 3), ((1, 2, 2, 1), 2), ((1, 3, 1, 2, 1), 1), ((1, 3, 3, 3, 1), 2), ((1, 4, 2, 4, 1), 3)]:
        geometry = layered_geometry(widths, A)
        program = EntropyProgram(geometry)
        for k in range(10):
            lo, hi = random_intervals(rng, geometry, KINDS[k % 4])
            costs = rng.uniform(-1, 1, len(geometry.edges) - 1) * 10 ** rng.uniform(-1, 1.5)
            found, oracle = entropy_flow(geometry, costs, lo, hi), program.solve(costs, lo, hi)
            assert infeasibility(geometry, found.occupancy, lo, hi) <= 1e-12
            if np.isfinite(oracle):
                assert found.objective == pytest.approx(oracle, rel=1e-6, abs=1e-6)
                compared += 1
    assert compared >= 40  # Clarabel gives up on the rest


def test_a_set_that_says_nothing_makes_the_policy_myopic_in_one_step():
    rng = np.random.default_rng(2)
    costs = rng.uniform(0, 5, len(WORLD.edges) - 1)
    lo, hi = random_intervals(rng, WORLD, "vacuous")
    policy, _, report = solve(WORLD, costs, lo, hi)
    assert report[ITERATIONS] <= 1
    assert policy == pytest.approx(softmax(costs, 2), rel=1e-12)


def test_one_step_and_no_choice_have_closed_forms():
    rng = np.random.default_rng(3)
    costs = rng.uniform(-3, 3, 4)
    one = entropy_flow(layered_geometry((1, 1), 4), costs, np.ones(4), np.ones(4))
    assert one.policy == pytest.approx(softmax(costs, 4), rel=1e-12)
    assert one.objective == pytest.approx(-np.log(np.exp(-costs).sum()), rel=1e-12)
    forced = layered_geometry((1, 3, 2, 1), 1)
    P = random_transitions(rng, forced)
    states, flow = np.empty(7), np.empty(len(P))
    push_forward(forced, np.ones(6), P, states, flow)
    assert entropy_flow(forced, rng.uniform(0, 9, 6), P, P).occupancy == pytest.approx(flow, rel=1e-12)


def test_costs_shifted_by_layer_change_nothing_but_the_objective():
    rng = np.random.default_rng(4)
    lo, hi = random_intervals(rng, WORLD, "plain")
    costs = rng.uniform(0, 3, len(WORLD.edges) - 1)
    shifts = rng.uniform(-5, 5, 4)
    layer = np.searchsorted(WORLD.layers, np.arange(9), side="right") - 1
    moved = costs + np.repeat(shifts[layer], 2)
    before, after = entropy_flow(WORLD, costs, lo, hi), entropy_flow(WORLD, moved, lo, hi)
    assert after.occupancy == pytest.approx(before.occupancy, rel=1e-8)
    assert after.objective == pytest.approx(before.objective + shifts.sum(), rel=1e-10)


def test_states_of_a_layer_may_trade_names():
    rng = np.random.default_rng(5)
    lo, hi = random_intervals(rng, WORLD, "plain")
    costs = rng.uniform(0, 3, len(WORLD.edges) - 1)
    new = np.array([0, 3, 1, 2, 5, 4, 8, 6, 7, 9])  # old state x becomes new[x]
    pair, _, target = structure(WORLD)
    pair_to = new[np.arange(18) // 2] * 2 + np.arange(18) % 2
    named = {(int(p), int(y)): i for i, (p, y) in enumerate(zip(pair, target, strict=True))}
    triple_to = np.array([named[int(pair_to[p]), int(new[y])] for p, y in zip(pair, target, strict=True)])
    moved = [np.empty_like(a) for a in (costs, lo, hi)]
    for there, here, where in zip(moved, (costs, lo, hi), (pair_to, triple_to, triple_to), strict=True):
        there[where] = here
    before, after = entropy_flow(WORLD, costs, lo, hi), entropy_flow(WORLD, *moved)
    assert after.occupancy[triple_to] == pytest.approx(before.occupancy, rel=1e-8)
    assert after.policy[pair_to] == pytest.approx(before.policy, rel=1e-8)


def test_prices_may_start_anywhere():
    rng = np.random.default_rng(6)
    lo, hi = random_intervals(rng, WORLD, "plain")
    costs = rng.uniform(0, 3, len(WORLD.edges) - 1)
    policy, _, _ = solve(WORLD, costs, lo, hi)
    work = entropy_work(WORLD)
    for _ in range(20):
        work.prices[1:-1] = rng.normal(0, 30, 8)
        again, _, report = solve(WORLD, costs, lo, hi, work=work, warm=True)
        assert report[CONVERGED] == 1.0
        assert again == pytest.approx(policy, rel=1e-7)


def test_moving_the_worst_state_alone_raises_the_dual():
    rng = np.random.default_rng(11)
    for _ in range(20):
        geometry, costs, lo, hi = random_entropy_instance(rng)
        if len(geometry.layers) == 3:
            continue  # one step: there is no inner state
        work, prior = entropy_work(geometry), np.zeros(len(lo))
        work.prices[1:-1] = rng.normal(0, 5, len(work.prices) - 2)
        before = evaluate(geometry, work, work.prices, costs, prior, lo, hi)
        residuals(geometry, work)
        worst = 1 + int(np.argmax(abs(work.residual[1:-1])))
        move_worst(geometry, work, costs, prior, lo, hi)
        after = evaluate(geometry, work, work.prices, costs, prior, lo, hi)
        residuals(geometry, work)
        assert after >= before - 1e-12 * (1 + abs(before))
        assert abs(work.residual[worst]) <= 1e-6


def test_a_feasible_prior_without_costs_stays_and_its_scale_does_not_matter():
    rng = np.random.default_rng(7)
    lo, hi = random_intervals(rng, WORLD, "plain")
    first = entropy_flow(WORLD, rng.uniform(0, 3, 18), lo, hi).occupancy
    stays = entropy_flow(WORLD, np.zeros(18), lo, hi, prior=first)
    assert stays.occupancy == pytest.approx(first, rel=1e-8)
    assert stays.objective == pytest.approx(0.0, abs=1e-9)
    costs = rng.uniform(0, 3, 18)
    scaled = entropy_flow(WORLD, costs, lo, hi, prior=7.0 * first)
    assert scaled.occupancy == pytest.approx(entropy_flow(WORLD, costs, lo, hi, prior=first).occupancy, rel=1e-8)


def test_mirror_descent_steps_add_up_to_the_leader():
    # Where the set says nothing no interval binds, and two steps of descent are one leader.
    rng = np.random.default_rng(8)
    lo, hi = random_intervals(rng, WORLD, "vacuous")
    steps = rng.uniform(0, 2, (2, 18))
    flow = entropy_flow(WORLD, np.zeros(18), lo, hi).occupancy
    for costs in steps:
        flow = entropy_flow(WORLD, costs, lo, hi, prior=flow).occupancy
    assert flow == pytest.approx(entropy_flow(WORLD, steps.sum(axis=0), lo, hi).occupancy, rel=1e-7)


@pytest.mark.parametrize("depth", [70.0, 1500.0])
def test_policies_at_states_that_are_hardly_ever_reached(depth):
    # State 2 costs so much that q(2) is about exp(-depth); its policy must still be right to nine digits.
    geometry = layered_geometry((1, 2, 2, 1), 2)
    costs = np.array([0.3, 0.1, 0.2, 0.5, depth, depth + 0.7, 0.4, 0.1, 0.9, 0.3])
    lo = np.array([0.2, 0.0, 0.1, 0.0, 0.3, 0.2, 0.1, 0.4, 0.2, 0.1, 0.5, 0.0, 1, 1, 1, 1])
    hi = np.array([1.0, 0.8, 1.0, 0.9, 0.6, 0.7, 0.5, 0.9, 0.9, 0.8, 1.0, 0.5, 1, 1, 1, 1])
    found = entropy_flow(geometry, costs, lo, hi)
    exact, inflow = exact_policy(geometry, costs, lo, hi, found.prices)
    assert inflow[2] < np.exp(-0.4 * depth)
    assert found.policy == pytest.approx(exact, rel=1e-9)


def test_ends_of_intervals_that_leave_nothing_over():
    # hi of one and lo of the other add up to 1, up to rounding: the third is squeezed to (nearly) nothing.
    geometry = layered_geometry((1, 3, 1), 1)
    lo, hi = np.array([0.7, 0.0, 0.1, 1, 1, 1]), np.array([0.9, 1e-6, 0.3, 1, 1, 1])
    for cost in (-400.0, 0.0, 400.0):
        found = entropy_flow(geometry, np.array([0.0, -400.0, 0.0, cost]), lo, hi)
        assert infeasibility(geometry, found.occupancy, lo, hi) <= 1e-12
    ruled_out = np.array([0.4, 0.0, 0.6, 1, 1, 1])
    assert entropy_flow(geometry, np.zeros(4), ruled_out, ruled_out).occupancy[1] == 0.0


@pytest.mark.parametrize(
    ("costs", "lo", "hi", "prior"),
    [
        ([np.nan, 0.0], [1.0, 1.0], [1.0, 1.0], None),
        ([np.inf, 0.0], [1.0, 1.0], [1.0, 1.0], None),
        ([0.0], [1.0, 1.0], [1.0, 1.0], None),
        ([0.0, 0.0], [-0.1, 1.0], [1.0, 1.0], None),
        ([0.0, 0.0], [1.0, 1.0], [1.0, 1.1], None),
        ([0.0, 0.0], [0.9, 1.0], [0.8, 1.0], None),
        ([0.0, 0.0], [0.0, 1.0], [0.5, 1.0], None),
        ([0.0, 0.0], [np.nan, 1.0], [1.0, 1.0], None),
        ([0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]),
    ],
)
def test_what_is_no_problem_is_refused(costs, lo, hi, prior):
    geometry = layered_geometry((1, 1), 2)
    prior = None if prior is None else np.array(prior)
    with pytest.raises(InvalidInput):
        entropy_flow(geometry, np.array(costs), np.array(lo), np.array(hi), prior=prior)


def test_no_certificate_no_answer():
    lo, hi = random_intervals(np.random.default_rng(9), WORLD, "plain")
    costs = np.zeros(18)
    costs[3] = np.nan
    _, _, report = solve(WORLD, costs, lo, hi)
    assert report[CONVERGED] == 0.0
    with pytest.raises(Unsolved):
        accepted(np.ones(18), lo, np.zeros(10), report)
    _, _, good = solve(WORLD, np.zeros(18), lo, hi)
    for entry, size in ((GAP, 1e-7), (RESIDUAL, 1e-5)):
        broken = good.copy()
        broken[entry] = size * (1 + abs(good[DUAL]))
        broken[CONVERGED] = 0.0
        with pytest.raises(Unsolved):
            accepted(np.ones(18), lo, np.zeros(10), broken)


def test_at_least_fifty_times_faster_than_a_parametrised_program():
    rng = np.random.default_rng(10)
    geometry = layered_geometry((1, 5, 5, 5, 5, 1), 3)
    program = EntropyProgram(geometry)
    cases = []
    for _ in range(4):
        lo, hi = random_intervals(rng, geometry, "plain")
        cases.append((rng.uniform(0, 3, len(geometry.edges) - 1), lo, hi))
    program.solve(*cases[0])
    work, theirs, ours = entropy_work(geometry), [], []
    for case in cases:
        start = time.process_time()
        program.solve(*case)
        theirs.append(time.process_time() - start)
        start = time.process_time()
        for _ in range(20):
            solve(geometry, *case, work=work)
        ours.append((time.process_time() - start) / 20)
    assert min(theirs) / min(ours) >= 50
