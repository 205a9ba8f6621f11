"""Trajectories and flows have the distribution of the model, and counting counts."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import scipy.stats

from tacit.data.counts import ExactCounts, count_trajectories, flow_counts
from tacit.data.trajectories import Trajectories, prepare_world, roll_out
from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import riverswim
from tacit.errors import InvalidInput
from tacit.planning.dynamic import occupancy
from tacit.policies import DeterministicPolicy, StochasticPolicy, uniform_policy


def small_mdp(*, reward_kind="bernoulli", staged=True, shift=0.0) -> TabularMDP:
    """3 states, 2 actions, 4 steps; `shift` moves a share of one transition probability somewhere else."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(3), size=(4, 3, 2) if staged else (3, 2))
    P[..., 1, 0, :] = 0.0, 0.5, 0.5  # an impossible transition among the others
    moved = shift * P[..., 0, 0, 0]
    P[..., 0, 0, 0] -= moved
    P[..., 0, 0, 1] += moved
    r = rng.random((4, 3, 2) if staged else (3, 2))
    return TabularMDP(P=P, r=r, rho=[0.5, 0.3, 0.2], horizon=4, reward_kind=reward_kind)


def small_policy() -> StochasticPolicy:
    table = np.random.default_rng(4).dirichlet(np.ones(2), size=(4, 3))
    table[1, 0] = 0.0, 1.0
    return StochasticPolicy(table)


def smallest_p_value(counts: ExactCounts, mdp: TabularMDP, table: np.ndarray) -> float:
    """Chi-squared of N_h(s,a,s') against the exact flow at every step; Bonferroni over the steps."""
    d = occupancy(np.array(mdp.P), mdp.rho, table)
    values = []
    for h in range(mdp.horizon):
        expected = counts.users * (d[h][..., None] * mdp.P[h]).ravel()
        seen = counts.transitions[h].ravel()
        assert not seen[expected == 0.0].any()
        keep = expected > 0.0
        values.append(scipy.stats.chisquare(seen[keep], expected[keep] * seen.sum() / expected.sum()).pvalue)
    return min(1.0, mdp.horizon * min(values))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["trajectories", "flow"])
def test_counts_follow_the_exact_occupancy(kind):
    # False-alarm rate 1e-3 for the fixed seed; the power is shown on a model with one probability 25% off.
    mdp, policy, users = small_mdp(), small_policy(), 40_000
    if kind == "flow":
        counts = flow_counts(mdp, policy, users, np.random.default_rng(11))
    else:
        counts = count_trajectories(roll_out(prepare_world(mdp), policy, users, np.random.default_rng(12)), 3, 2)
    assert smallest_p_value(counts, mdp, policy.table) > 1e-3
    assert smallest_p_value(counts, small_mdp(shift=0.25), policy.table) < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["trajectories", "flow"])
def test_counts_have_binomial_mean_and_variance(kind):
    # N_h(s,a) ~ Binomial(users, d): 5 standard errors over 24 cells and 2 moments, false-alarm rate below 3e-5.
    mdp, policy, users, batches = small_mdp(), small_policy(), 60, 3000
    rng, world = np.random.default_rng(21), prepare_world(mdp)
    if kind == "flow":
        sample = np.array([flow_counts(mdp, policy, users, rng).visits for _ in range(batches)])
    else:
        many = roll_out(world, policy, users * batches, rng)
        sample = np.array(
            [
                count_trajectories(Trajectories(many.states[i], many.actions[i], many.rewards[i]), 3, 2).visits
                for i in np.arange(users * batches).reshape(batches, users)
            ]
        )
    d = occupancy(np.array(mdp.P), mdp.rho, policy.table)
    mean, variance = users * d, users * d * (1.0 - d)
    assert (np.abs(sample.mean(axis=0) - mean) <= 5.0 * np.sqrt(variance / batches) + 1e-12).all()
    large = variance > 3.0
    # Var of the sample variance: (μ₄ - σ⁴)/R, with μ₄ = σ²(1 + (3·users - 6) d(1-d)) of a binomial
    fourth = variance * (1.0 + (3.0 * users - 6.0) * d * (1.0 - d))
    error = np.sqrt((fourth - variance**2) / batches)
    off = np.abs(sample.var(axis=0) - variance)
    assert large.sum() >= 10
    assert (off[large] <= 5.0 * error[large]).all()
    # Power: a variance 25% off is noticed in at least half of these cells.
    assert (np.abs(1.25 * sample.var(axis=0) - variance)[large] > 5.0 * error[large]).sum() >= large.sum() // 2


@pytest.mark.statistical
def test_bernoulli_rewards_have_their_mean_given_the_visits():
    # R_h(s,a) | N ~ Binomial(N, r): exact two-sided p-values, Bonferroni; false-alarm rate 1e-3.
    mdp, policy = small_mdp(), small_policy()
    for counts in (
        flow_counts(mdp, policy, 20_000, np.random.default_rng(5)),
        count_trajectories(roll_out(prepare_world(mdp), policy, 20_000, np.random.default_rng(6)), 3, 2),
    ):
        cells = np.argwhere(counts.visits > 0)

        def least(scale, counts=counts, cells=cells):
            values = [
                scipy.stats.binomtest(
                    int(counts.rewards[h, s, a]), int(counts.visits[h, s, a]), min(1.0, scale * mdp.r[h, s, a])
                ).pvalue
                for h, s, a in cells
            ]
            return len(cells) * min(values)

        assert least(1.0) > 1e-3
        assert least(0.75) < 1e-9


def test_deterministic_rewards_are_the_mean():
    mdp, policy = small_mdp(reward_kind="deterministic"), small_policy()
    flow = flow_counts(mdp, policy, 1000, np.random.default_rng(0))
    np.testing.assert_allclose(flow.rewards, flow.visits * mdp.r)
    batch = roll_out(prepare_world(mdp), policy, 500, np.random.default_rng(0))
    for h in range(4):
        np.testing.assert_array_equal(batch.rewards[:, h], mdp.r[h, batch.states[:, h], batch.actions[:, h]])


def test_bernoulli_rewards_are_coins_and_certain_rewards_need_none():
    mdp = riverswim()
    batch = roll_out(prepare_world(mdp), uniform_policy(6, 4, 2), 2000, np.random.default_rng(0))
    assert set(np.unique(batch.rewards)) == {0.0, 1.0}
    best = (batch.states[:, :6] == 3) & (batch.actions == 1)
    assert batch.rewards[best].all()
    nothing = ~best & ~((batch.states[:, :6] == 0) & (batch.actions == 0))
    assert not batch.rewards[nothing].any()


@pytest.mark.parametrize("staged", [True, False])
def test_counting_is_the_plain_loop(staged):
    mdp = small_mdp(staged=staged)
    batch = roll_out(prepare_world(mdp), small_policy(), 300, np.random.default_rng(9))
    moves, paid = collections.Counter(), collections.Counter()
    for i in range(len(batch)):
        for h in range(4):
            s, a, t = int(batch.states[i, h]), int(batch.actions[i, h]), int(batch.states[i, h + 1])
            moves[h, s, a, t] += 1
            paid[h, s, a] += float(batch.rewards[i, h])
    counts = count_trajectories(batch, 3, 2)
    for index in np.ndindex(4, 3, 2, 3):
        assert counts.transitions[index] == moves[index]
    for index in np.ndindex(4, 3, 2):
        assert counts.rewards[index] == paid[index]
    assert counts.users == 300 == counts.starts.sum()


@pytest.mark.parametrize("kind", ["trajectories", "flow"])
def test_nobody_is_lost_between_two_steps(kind):
    mdp, policy = small_mdp(), small_policy()
    if kind == "flow":
        counts = flow_counts(mdp, policy, 5000, np.random.default_rng(1))
    else:
        counts = count_trajectories(roll_out(prepare_world(mdp), policy, 5000, np.random.default_rng(1)), 3, 2)
    np.testing.assert_array_equal(counts.transitions.sum(axis=3), counts.visits)
    np.testing.assert_array_equal(counts.visits[0].sum(axis=1), counts.starts)
    for h in range(3):
        np.testing.assert_array_equal(counts.transitions[h].sum(axis=(0, 1)), counts.visits[h + 1].sum(axis=1))


def test_a_deterministic_policy_is_followed_to_the_letter():
    mdp = small_mdp()
    actions = np.random.default_rng(2).integers(2, size=(4, 3))
    policy = DeterministicPolicy(actions)
    batch = roll_out(prepare_world(mdp), policy, 200, np.random.default_rng(3))
    for h in range(4):
        np.testing.assert_array_equal(batch.actions[:, h], actions[h, batch.states[:, h]])
    flow = flow_counts(mdp, policy, 200, np.random.default_rng(3))
    assert not flow.visits[np.eye(2)[actions] == 0.0].any()


def test_rows_that_miss_one_by_rounding_still_flow():
    mdp = small_mdp()
    table = small_policy().table * (1.0 + 5e-10)
    assert flow_counts(mdp, StochasticPolicy(table), 100, np.random.default_rng(0)).users == 100


def test_misfits_are_refused_before_a_kernel_reads_past_its_arrays():
    mdp = small_mdp()
    world, rng = prepare_world(mdp), np.random.default_rng(0)
    for policy in (
        DeterministicPolicy(np.full((4, 3), 2)),
        DeterministicPolicy(np.zeros((4, 2), dtype=np.int64)),
        DeterministicPolicy(np.zeros((5, 3), dtype=np.int64)),
        uniform_policy(4, 3, 3),
    ):
        with pytest.raises(InvalidInput):
            roll_out(world, policy, 10, rng)
        with pytest.raises(InvalidInput):
            flow_counts(mdp, policy, 10, rng)
    with pytest.raises(InvalidInput):
        roll_out(world, small_policy(), 0, rng)
    batch = roll_out(world, small_policy(), 10, rng)
    with pytest.raises(InvalidInput) as refused:
        count_trajectories(batch, 2, 2)
    assert not any(character.isdigit() for character in str(refused.value))


def test_sensitive_values_do_not_show():
    batch = roll_out(prepare_world(small_mdp()), small_policy(), 10, np.random.default_rng(0))
    assert repr(batch) == "Trajectories(10 users)"
    assert repr(count_trajectories(batch, 3, 2)) == "ExactCounts(10 users)"


def test_states_without_a_last_successor_are_counted():
    """They were read beyond the array once."""
    states, actions = np.array([[0, 1], [1, 1]]), np.array([[0, 0], [1, 0]])
    with_last = Trajectories(np.append(states, states[:, -1:], axis=1), actions, np.zeros((2, 2)))
    without = Trajectories(states, actions, np.zeros((2, 2)))
    one, two = (count_trajectories(batch, 2, 2) for batch in (without, with_last))
    assert np.array_equal(one.transitions, two.transitions)
    with pytest.raises(InvalidInput, match="must have 2 steps"):
        count_trajectories(Trajectories(states[:, :1], actions, np.zeros((2, 2))), 2, 2)
