"""The compiled flow of people: the counts and the coins of NumPy's multinomials, bit for bit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tacit.data.counts import compiled_walk, flow_counts, flow_groups, sparse_transitions, walk_in_python
from tacit.environments import make
from tacit.environments.tabular import TabularMDP
from tacit.policies import DeterministicPolicy, StochasticPolicy, uniform_policy
from tacit.policies.tables import tables_of
from tacit.simulation.judges.tabular import first_values, gaps_of, truth_of


def staged_world():
    coins = np.random.default_rng(5)
    P = coins.dirichlet(np.ones(4), size=(3, 4, 2)) * (coins.random((3, 4, 2, 4)) < 0.6)
    P[..., 2] += P.sum(axis=-1) == 0.0
    P /= P.sum(axis=-1, keepdims=True)
    r = coins.random((3, 4, 2)).round()
    return TabularMDP(P=P, r=0.25 + 0.5 * r, rho=[0.5, 0.0, 0.5, 0.0], horizon=3, reward_kind="deterministic")


WORLDS = {"riverswim": make("riverswim"), "treatment": make("treatment"), "staged": staged_world()}


def plain(mdp, groups, generator):
    """The definition: one multinomial after the other, over all states."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    moves, visits, rewards = np.zeros((H, S, A, S), np.int64), np.zeros((H, S, A), np.int64), np.zeros((H, S, A))
    starts = []
    for policy, users in groups:
        table = policy.probabilities(A)
        table, P, rho = (rows / rows.sum(axis=-1, keepdims=True) for rows in (table, mdp.stage_P, mdp.rho))
        at = generator.multinomial(users, rho)
        starts.append(at)
        for h in range(H):
            acted = generator.multinomial(at, table[h])
            led = generator.multinomial(acted, P[min(h, len(P) - 1)])
            r = np.broadcast_to(mdp.stage_r[min(h, len(mdp.stage_r) - 1)], (S, A))
            rewards[h] += generator.binomial(acted, r) if mdp.reward_kind == "bernoulli" else acted * r
            visits[h] += acted
            moves[h] += led
            at = led.sum(axis=(0, 1))
    return np.array(starts), visits, moves, rewards


def groups_of(mdp, coins):
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    fixed = [DeterministicPolicy(coins.integers(0, A, (H, S))) for _ in range(3)]
    mixed = StochasticPolicy(coins.dirichlet(np.ones(A), size=(H, S)))
    return [(policy, int(10 ** coins.uniform(0, 4))) for policy in (*fixed, mixed, uniform_policy(H, S, A))]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("seed", range(6))
def test_both_forms_have_the_counts_and_coins_of_the_definition(world, seed):
    mdp = WORLDS[world]
    groups = groups_of(mdp, np.random.default_rng(seed))
    generator = np.random.default_rng(100 + seed)
    wanted, after = plain(mdp, groups, generator), generator.random()
    tables = tables_of([policy for policy, _ in groups], mdp.num_actions)
    tables = tables / tables.sum(axis=-1, keepdims=True)
    for form in (compiled_walk, walk_in_python):
        found, generator = [np.zeros_like(part) for part in wanted], np.random.default_rng(100 + seed)
        form(sparse_transitions(mdp), tables, np.array([users for _, users in groups]), generator, *found)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert generator.random() == after


def test_groups_are_one_batch_and_know_their_first_states():
    mdp = WORLDS["treatment"]
    groups = groups_of(mdp, np.random.default_rng(1))
    found = flow_groups(mdp, groups, np.random.default_rng(2))
    starts, visits, moves, rewards = plain(mdp, groups, np.random.default_rng(2))
    np.testing.assert_array_equal(np.array(found.groups), starts)
    np.testing.assert_array_equal(found.transitions, moves)
    np.testing.assert_array_equal(found.visits, visits)
    np.testing.assert_array_equal(found.rewards, rewards)
    assert found.users == sum(users for _, users in groups)
    [(policy, users), *_] = groups
    alone = flow_counts(mdp, policy, users, np.random.default_rng(2))
    assert alone.groups == ()
    np.testing.assert_array_equal(alone.starts, starts[0])


@pytest.mark.parametrize("users", [0, -3, 2.5])
def test_nobody_and_parts_of_somebody_are_refused(users):
    mdp = WORLDS["riverswim"]
    with pytest.raises(ValueError, match="users must be"):
        flow_counts(mdp, uniform_policy(6, 4, 2), users, np.random.default_rng(0))


def test_a_policy_of_another_world_is_refused():
    with pytest.raises(ValueError, match="must have the shape"):
        flow_counts(WORLDS["riverswim"], uniform_policy(5, 4, 2), 3, np.random.default_rng(0))


@pytest.mark.parametrize("world", WORLDS)
def test_values_of_groups_are_those_of_each_policy_bit_for_bit(world):
    mdp = WORLDS[world]
    policies = [policy for policy, _ in groups_of(mdp, np.random.default_rng(3))]
    truth, road = truth_of(mdp), sparse_transitions(mdp)
    tables = tables_of(policies, mdp.num_actions)
    for form in (first_values.compiled, first_values._original):
        V = form(road.start, road.to, road.chance, truth.r, tables)
        for values, policy in zip(V, policies, strict=True):
            np.testing.assert_array_equal(truth.best - values, gaps_of(truth, policy, mdp.num_actions))


def test_shares_never_exceed_one():
    """What is left of 1 after some cells can round below the next one: .3 / (1 - .3 - .3 - .1) > 1, in floats."""
    cells = next(
        p
        for p in (np.array(row) / 100 for row in product(range(5, 60), repeat=3))
        if 0.0 < 1.0 - p[0] - p[1] < p[2] and abs(p.sum() - 1.0) < 1e-12
    )
    P = np.tile(np.append(cells, 0.0), (4, 2, 1))
    world = TabularMDP(P=P, r=np.zeros((4, 2)), rho=np.append(cells, 0.0), horizon=2, reward_kind="deterministic")
    roads, tables = sparse_transitions(world), np.full((1, 2, 4, 2), 0.5)
    rounded = roads._replace(rho=np.append(cells, 0.0), p=np.tile(cells, 8))  # as they may come, not normalised again
    found = [np.zeros((1, 4), np.int64), *(np.zeros(shape, np.int64) for shape in ((2, 4, 2), (2, 4, 2, 4)))]
    compiled_walk.py_func(rounded, tables, np.array([1000]), np.random.default_rng(0), *found, np.zeros((2, 4, 2)))
    assert found[0].sum() == found[1][0].sum() == found[2][1].sum() == 1000
    assert found[0][0, 3] == 0
