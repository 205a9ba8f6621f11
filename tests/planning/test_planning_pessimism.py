"""Pessimistic planning: the optimum where counts are plenty, and never what the log does not show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.planning.dynamic import backward_induction
from tacit.planning.pessimism import pessimistic_plan
from tacit.released.counts import CountShape, empty_counts


def counts_of(P, r, rho, visits):
    """Counts of so many visits to every row, as they are expected."""
    H, S, A = r.shape
    counts = empty_counts(CountShape(horizon=H, num_states=S, num_actions=A, staged=True))
    counts.visits[:] = visits
    counts.rewards[:] = visits * r
    counts.transitions[:-1] = visits * P[:-1]
    counts.visits[0] *= rho[:, None] * S
    counts.rewards[0] *= rho[:, None] * S
    counts.transitions[0] *= rho[:, None, None] * S
    return counts


@pytest.fixture
def world():
    rng = np.random.default_rng(11)
    H, S, A = 5, 4, 3
    return rng.dirichlet(np.ones(S), size=(H, S, A)), rng.random((H, S, A)), rng.dirichlet(np.ones(S))


def test_with_plenty_of_counts_it_is_dynamic_programming(world):
    P, r, rho = world
    plan = pessimistic_plan(counts_of(P, r, rho, 1e12))
    _, V, policy = backward_induction(P, r, 5)
    np.testing.assert_array_equal(plan.actions, policy)
    assert plan.value == pytest.approx(float(rho @ V[0]), rel=1e-6)
    assert plan.floor == pytest.approx(plan.value, rel=1e-4)
    assert plan.supported.all()


def test_without_widths_it_is_the_policy_of_the_model(world):
    P, r, rho = world
    plan = pessimistic_plan(counts_of(P, r, rho, 1000.0), z=0.0)
    np.testing.assert_array_equal(plan.actions, backward_induction(P, r, 5)[2])
    assert plan.floor == pytest.approx(plan.value)


def test_what_the_log_does_not_show_is_never_chosen_over_what_it_does(world):
    P, r, rho = world
    counts = counts_of(P, r, rho, 20.0)  # widths exceed every estimate: all lower bounds are cut at zero
    counts.visits[:, :, 2], counts.rewards[:, :, 2], counts.transitions[:, :, 2] = 0.0, 0.0, 0.0
    plan = pessimistic_plan(counts, default=2)
    assert (plan.actions != 2).all()
    assert plan.floor <= plan.value


def test_a_state_without_counts_gets_the_default_and_is_reported(world):
    P, r, rho = world
    counts = counts_of(P, r, rho, 1e6)
    counts.visits[3, 1], counts.rewards[3, 1], counts.transitions[3, 1] = 0.0, 0.0, 0.0
    plan = pessimistic_plan(counts, default=1)
    assert plan.actions[3, 1] == 1
    assert not plan.supported[3, 1]
    assert plan.supported.sum() == 19


def test_noise_alone_is_no_support():
    """Rows without a visit, 400 releases of 24 rows: some row passes in at most a share of 0.05 (seed fixed)."""
    rng, shape = np.random.default_rng(2), CountShape(horizon=3, num_states=4, num_actions=2, staged=True)
    passed = 0
    for _ in range(400):
        counts = empty_counts(shape)
        counts.variance[:] = [25.0, 50.0, 25.0]
        counts.visits[:] = rng.normal(0.0, math.sqrt(50.0), counts.visits.shape)
        counts.rewards[:] = rng.normal(0.0, 5.0, counts.rewards.shape)
        counts.transitions[:-1] = rng.normal(0.0, 5.0, counts.transitions[:-1].shape)
        passed += bool(pessimistic_plan(counts).supported.any())
    assert passed <= 0.05 * 400
    counts.visits[1, 2, 0], counts.transitions[1, 2, 0] = 60.0, [60.0, 0.0, 0.0, 0.0]
    assert pessimistic_plan(counts).supported[1, 2]


def test_a_rarely_tried_action_must_be_better_by_its_width():
    counts = empty_counts(CountShape(horizon=1, num_states=1, num_actions=2, staged=True))
    counts.visits[0, 0], counts.rewards[0, 0] = [1e6, 10.0], [0.6e6, 7.0]
    assert pessimistic_plan(counts).actions.tolist() == [[0]]
    assert pessimistic_plan(counts, z=0.0).actions.tolist() == [[1]]
    counts.visits[0, 0], counts.rewards[0, 0] = [1e6, 1e4], [0.6e6, 0.7e4]
    assert pessimistic_plan(counts).actions.tolist() == [[1]]


@pytest.mark.parametrize(("z", "default"), [(-1.0, 0), (float("nan"), 0), (1.0, 3), (1.0, -1)])
def test_bad_parameters_are_refused(world, z, default):
    with pytest.raises(InvalidInput):
        pessimistic_plan(counts_of(*world, 10.0), z=z, default=default)
