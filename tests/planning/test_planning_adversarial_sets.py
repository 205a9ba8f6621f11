"""Layered worlds: geometry, upper occupancy bounds, consistent counts and intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flow_doors import upper_occupancy
from layered_instances import KINDS, random_geometry, random_intervals, random_transitions
from layered_oracles import upper_by_linear_programs
from scipy.optimize import linprog

from tacit.errors import InvalidInput
from tacit.planning.layered import (
    MIN_HI,
    known_intervals,
    layered_geometry,
    layered_shape,
    practical_intervals,
    push_forward,
    repair_counts,
    theory_intervals,
)
from tacit.planning.widths import practical_width

WORLD = layered_geometry((1, 3, 2, 1), 2)


def random_policy(rng, geometry):
    rows = rng.dirichlet(np.full(geometry.actions, 0.7), int(geometry.layers[-2]))
    return rows.ravel()


def visits_of(geometry, policy, transitions):
    """q(x,a) of a policy in a world."""
    states, flow = np.empty(int(geometry.layers[-1])), np.empty(len(transitions))
    push_forward(geometry, policy, transitions, states, flow)
    return np.repeat(states[:-1], geometry.actions) * policy


@pytest.mark.parametrize(
    ("widths", "actions"),
    [((1,), 2), ((), 2), ((2, 1), 2), ((1, 3), 2), ((1, 0, 1), 2), ((1, 2, 1), 0), ((1, 1.5, 1), 2)],
)
def test_worlds_that_are_none_are_refused(widths, actions):
    with pytest.raises(InvalidInput):
        layered_geometry(widths, actions)


def test_geometry_and_shape_agree():
    shape = layered_shape(WORLD)
    assert (shape.horizon, shape.pairs, shape.triples) == (3, 12, 2 * 3 + 6 * 2 + 4)
    assert np.bincount(shape.pair_of).tolist() == [3] * 2 + [2] * 6 + [1] * 4


def test_a_flow_has_one_unit_in_every_layer():
    rng = np.random.default_rng(0)
    P = random_transitions(rng, WORLD)
    states, flow = np.empty(7), np.empty(len(P))
    push_forward(WORLD, random_policy(rng, WORLD), P, states, flow)
    for h in range(4):
        assert states[WORLD.layers[h] : WORLD.layers[h + 1]].sum() == pytest.approx(1)
    assert flow.sum() == pytest.approx(3)


def test_upper_bounds_are_the_linear_programs():
    rng = np.random.default_rng(1)
    for k in range(12):
        geometry = random_geometry(rng, most_layers=4, most_states=4, most_actions=3)
        lo, hi = random_intervals(rng, geometry, KINDS[k % 5])
        policy = random_policy(rng, geometry)
        found = upper_occupancy(geometry, policy, lo, hi)
        assert found == pytest.approx(upper_by_linear_programs(geometry, policy, lo, hi), abs=1e-8)


def test_upper_bounds_hold_for_every_world_inside_and_are_reached_by_the_only_one():
    rng = np.random.default_rng(2)
    for _ in range(100):
        geometry = random_geometry(rng)
        P, policy = random_transitions(rng, geometry, zeros=0.2), random_policy(rng, geometry)
        width = rng.uniform(0, 0.3, len(P))
        lo, hi = np.maximum(0, P - width), np.minimum(1, P + width)
        true = visits_of(geometry, policy, P)
        assert (upper_occupancy(geometry, policy, lo, hi) >= true - 1e-12).all()
        assert upper_occupancy(geometry, policy, P, P) == pytest.approx(true, abs=1e-12)
    vacuous = random_intervals(rng, WORLD, "vacuous")
    policy = random_policy(rng, WORLD)
    assert upper_occupancy(WORLD, policy, *vacuous) == pytest.approx(policy)


def test_no_policy_no_bound():
    lo, hi = random_intervals(np.random.default_rng(3), WORLD, "plain")
    for policy in (np.full(12, 0.4), np.full(12, np.nan), np.tile([1.5, -0.5], 6), np.full(11, 0.5)):
        with pytest.raises(InvalidInput):
            upper_occupancy(WORLD, policy, lo, hi)


def repaired(transitions, visits, precision):
    counts, totals = np.empty(len(transitions)), np.empty(len(visits))
    infeasible = repair_counts(WORLD, transitions, visits, precision, counts, totals)
    return counts, totals, infeasible


def test_repaired_counts_solve_the_printed_program():
    rng = np.random.default_rng(4)
    E, seen = 12.0, 0
    for _ in range(25):
        noisy, visits = rng.normal(4, 8, 22), rng.normal(8, 8, 12)
        counts, totals, infeasible = repaired(noisy, visits, E)
        assert infeasible == (visits < -E / 4).sum()
        for pair in range(12):
            first, last = WORLD.edges[pair], WORLD.edges[pair + 1]
            m = last - first
            bar = counts[first:last] - E / (2 * m)
            c, n = noisy[first:last], visits[pair]
            eye, one = np.eye(m), np.ones((m, 1))
            rows = np.vstack([np.hstack([eye, -one]), np.hstack([-eye, -one]), [[1.0] * m + [0]], [[-1.0] * m + [0]]])
            right = np.concatenate([c, -c, [n + E / 4, E / 4 - n]])
            oracle = linprog(np.append(np.zeros(m), 1.0), A_ub=rows, b_ub=right, bounds=[(0, None)] * (m + 1))
            if n < -E / 4:
                assert oracle.status == 2  # no solution
                assert bar.sum() <= E / 4 + 1e-12
                seen += 1
            else:
                assert abs(bar - c).max() == pytest.approx(oracle.fun, abs=1e-8)
                assert abs(bar.sum() - n) <= E / 4 + 1e-12
            assert bar.min() >= -1e-12
            assert totals[pair] == pytest.approx(counts[first:last].sum())
    assert seen > 5


def test_repair_is_idempotent_and_leaves_exact_counts_alone():
    rng = np.random.default_rng(5)
    exact = rng.integers(0, 9, 22).astype(float)
    visits = np.add.reduceat(exact, WORLD.edges[:-1])
    counts, totals, infeasible = repaired(exact, visits, 0.0)
    assert (counts == exact).all()
    assert (totals == visits).all()
    assert infeasible == 0
    E = 6.0
    counts, totals, _ = repaired(rng.normal(3, 6, 22), rng.normal(6, 6, 12), E)
    fans = np.diff(WORLD.edges)
    again, _, _ = repaired(counts - np.repeat(E / (2 * fans), fans), totals - E / 2, E)
    assert again == pytest.approx(counts, abs=1e-12)


def test_theory_widths_are_those_of_the_lemma_and_not_of_the_misprint():
    counts, totals = np.full(22, 50.0), np.add.reduceat(np.full(22, 50.0), WORLD.edges[:-1])
    lo, hi = np.empty(22), np.empty(22)
    E, log_term, multiplier = 3.0, 5.0, 0.4
    theory_intervals(WORLD, counts, totals, E, log_term, multiplier, lo, hi)
    p, n = 1 / 3, 150.0
    width = multiplier * (math.sqrt(2 * p * (1 - p) * log_term / n) + (4 * E + 7 * log_term) / n)
    misprint = multiplier * math.sqrt(2 * p * (1 - p) * log_term / n + (4 * E + 7 * log_term) / n)
    assert hi[0] - p == pytest.approx(width)
    assert hi[0] - p != pytest.approx(misprint)
    assert lo[0] == pytest.approx(max(0.0, p - width))
    assert (lo[-4:] == 1).all()
    assert (hi[-4:] == 1).all()


def test_practical_widths_are_the_one_practical_rule():
    noisy = np.array([60.0, 30.0, 10.0, 5.0, 2.0, 1.0] + [20.0, 30.0] * 6 + [9.0] * 4)
    lo, hi, P = np.empty(22), np.empty(22), np.empty(22)
    practical_intervals(WORLD, noisy, np.zeros(12), 4.0, 1.5, lo, hi, P)
    p, n = 0.6, 100.0
    width = practical_width(1.5, 1, n, 0.0, p * (1 - p), (1 - p) ** 2 + 2 * p * p, 4.0, 0.0)
    assert (lo[0], hi[0]) == pytest.approx((p - width, p + width))
    assert P[:3] == pytest.approx([0.6, 0.3, 0.1])


@pytest.mark.parametrize("rule", ["theory", "practical"])
def test_intervals_always_hold_a_distribution(rule):
    rng = np.random.default_rng(6)
    lo, hi, scratch = np.empty(22), np.empty(22), np.empty(22)
    for _ in range(300):
        E = 10.0 ** rng.uniform(-1, 3)
        noisy, visits = rng.normal(0, E, 22), rng.normal(0, E, 12)
        if rule == "theory":
            counts, totals, _ = repaired(noisy, visits, E)
            theory_intervals(WORLD, counts, totals, E, 5.0, 10.0 ** rng.uniform(-4, 0), lo, hi)
        else:
            practical_intervals(WORLD, noisy, visits, E * E, 10.0 ** rng.uniform(-4, 0), lo, hi, scratch)
        assert (lo >= 0).all()
        assert (lo <= hi).all()
        assert (hi <= 1).all()
        assert (hi >= MIN_HI).all()
        assert (np.add.reduceat(lo, WORLD.edges[:-1]) <= 1 + 1e-12).all()
        assert (np.add.reduceat(hi, WORLD.edges[:-1]) >= 1 - 1e-12).all()


def test_pairs_that_nobody_visited_may_go_anywhere():
    nothing, none = np.zeros(22), np.zeros(12)
    lo, hi = np.empty(22), np.empty(22)
    theory_intervals(WORLD, nothing, none, 0.0, 5.0, 1e-6, lo, hi)
    assert (lo[:18] == 0).all()
    assert (hi == 1).all()
    practical_intervals(WORLD, nothing, none, 0.0, 1e-6, lo, hi, np.empty(22))
    assert (lo[:18] == 0).all()
    assert (hi == 1).all()


def test_known_transitions_are_intervals_of_one_point():
    P = random_transitions(np.random.default_rng(7), WORLD)
    lo, hi = np.empty(22), np.empty(22)
    known_intervals(P, lo, hi)
    assert (lo == P).all()
    assert (hi == P).all()
