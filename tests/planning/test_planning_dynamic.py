"""Backward induction, evaluation and occupancy against recursion, brute force and a linear program."""

from __future__ import annotations

import numpy as np
import slow_planning as slow
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_models import evaluate_many, greatest_visit_probabilities, models, random_policy

from tacit.environments.tabular_worlds import riverswim
from tacit.planning.dynamic import (
    backward_induction,
    evaluate_deterministic,
    evaluate_stochastic,
    linear_values,
    occupancy,
)

SEEDS = st.integers(0, 2**32 - 1)


@given(models())
def test_backward_induction_is_the_recursion(model):
    P, r, _, horizon = model
    Q, V, policy = backward_induction(P, r, horizon)
    slow_Q, slow_V = slow.optimal_values(P, r, horizon)
    np.testing.assert_allclose(Q, slow_Q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(V, slow_V, rtol=0, atol=1e-12)
    # The first of the best actions, by its own Q.
    np.testing.assert_array_equal(policy, Q.argmax(axis=2))


@settings(max_examples=10)
@given(models(max_states=2, max_actions=2, max_horizon=3))
def test_no_policy_of_all_policies_is_better(model):
    P, r, rho, horizon = model
    _, V, best = backward_induction(P, r, horizon)
    S, A = r.shape[1:]
    policies = np.array(list(slow.all_policies(horizon, S, A)))
    values = evaluate_many(P, r, rho, policies)
    assert abs(values.max() - rho @ V[0]) < 1e-12
    assert abs(evaluate_many(P, r, rho, best[None])[0] - rho @ V[0]) < 1e-12
    for i in range(0, len(policies), max(1, len(policies) // 7)):
        assert abs(values[i] - rho @ slow.policy_values(P, r, np.eye(A)[policies[i]])[0]) < 1e-12


@given(models(), SEEDS)
def test_evaluation_is_the_recursion(model, seed):
    P, r, _, horizon = model
    S, A = r.shape[1:]
    rng = np.random.default_rng(seed)
    table = random_policy(rng, horizon, S, A)
    np.testing.assert_allclose(evaluate_stochastic(P, r, table), slow.policy_values(P, r, table), rtol=0, atol=1e-12)
    actions = rng.integers(A, size=(horizon, S))
    V = np.full((horizon + 1, S), np.nan)
    evaluate_deterministic(P, r, actions, V)
    np.testing.assert_allclose(V, slow.policy_values(P, r, np.eye(A)[actions]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(V, evaluate_stochastic(P, r, np.eye(A)[actions]), rtol=0, atol=1e-12)


@settings(max_examples=15)
@given(models(max_states=3, max_actions=2, max_horizon=3), SEEDS)
def test_occupancy_is_the_sum_over_paths(model, seed):
    P, r, rho, horizon = model
    table = random_policy(np.random.default_rng(seed), horizon, *r.shape[1:])
    d = occupancy(P, rho, table)
    np.testing.assert_allclose(d, slow.path_occupancy(P, rho, table), rtol=0, atol=1e-12)
    # ⟨d, r⟩ = ρ·V: two ways to the same value, and V^π(1_{h,s,a}, P) is the visit probability itself.
    rewards = np.broadcast_to(r, (horizon, *r.shape[1:]))
    assert abs((d * rewards).sum() - rho @ evaluate_stochastic(P, r, table)[0]) < 1e-12
    h, s, a = horizon - 1, d.shape[1] - 1, 0
    indicator = np.zeros((horizon, *r.shape[1:]))
    indicator[h, s, a] = 1.0
    assert abs(rho @ evaluate_stochastic(P, indicator, table)[0] - d[h, s, a]) < 1e-12


@settings(max_examples=10)
@given(models(max_states=3, max_actions=2, max_horizon=3))
def test_the_best_occupancy_of_the_linear_program_is_worth_the_optimum(model):
    P, r, rho, horizon = model
    value, best = slow.lp_best_occupancy(P, r, rho, horizon)
    _, V, policy = backward_induction(P, r, horizon)
    assert abs(value - rho @ V[0]) < 1e-8
    # The program's d is the occupancy of the policy it implies, by our own flow.
    mass = best.sum(axis=2, keepdims=True)
    implied = np.where(mass > 1e-12, best / np.where(mass > 1e-12, mass, 1.0), np.eye(r.shape[2])[policy])
    np.testing.assert_allclose(occupancy(P, rho, implied), best, rtol=0, atol=1e-8)


@settings(max_examples=10)
@given(models(max_states=2, max_actions=2, max_horizon=3))
def test_greatest_visit_probabilities_are_the_best_of_all_policies(model):
    P, r, rho, horizon = model
    S, A = r.shape[1:]
    visits = [slow.path_occupancy(P, rho, np.eye(A)[p]).sum(axis=2) for p in slow.all_policies(horizon, S, A)]
    np.testing.assert_allclose(greatest_visit_probabilities(P, rho, horizon), np.max(visits, axis=0), atol=1e-12)


def test_riverswim_has_the_published_values():
    mdp = riverswim()
    P, r = np.array(mdp.stage_P), np.array(mdp.stage_r)
    _, V, policy = backward_induction(P, r, mdp.horizon)
    assert round(float(mdp.rho @ V[0]), 4) == 0.4758
    assert policy[0, 0] == 1
    uniform = np.full((mdp.horizon, 4, 2), 0.5)
    assert round(float(mdp.rho @ evaluate_stochastic(P, r, uniform)[0]), 4) == 0.0316


def test_a_stored_step_axis_changes_nothing():
    mdp = riverswim()
    once, often = np.array(mdp.stage_P), np.ascontiguousarray(mdp.P)
    r_once, r_often = np.array(mdp.stage_r), np.ascontiguousarray(mdp.r)
    for left, right in zip(backward_induction(once, r_once, 6), backward_induction(often, r_often, 6), strict=True):
        np.testing.assert_array_equal(left, right)
    for left, right in zip(linear_values(once, r_often), linear_values(often, r_often), strict=True):
        np.testing.assert_array_equal(left, right)
