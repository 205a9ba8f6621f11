"""Private UCB-PO against its slow twin, and what it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contract_calls import told
from learner_tools import exact_statistics, shape_of, small_mdp
from slow_private import optimistic_values, po_rows

from tacit.environments.tabular_worlds import riverswim
from tacit.errors import InvalidInput
from tacit.learners.private_po import PrivateUCBPO
from tacit.planning.widths import practical_width
from tacit.policies import StochasticPolicy, uniform_policy
from tacit.release.none import Unprotected
from tacit.released.precision import CountPrecision, Sampling, now_radius, precision_log_term
from tacit.simulation.simulate import simulate

UNIFORM = uniform_policy(4, 3, 2)


@pytest.mark.parametrize("std", [0.0, 20.0])
def test_evaluation_and_mirror_steps_are_those_of_the_slow_twin(std):
    # std = 0: the twin is non-private optimistic policy optimisation with the same bonus.
    mdp, K = small_mdp(2), 50
    shape, precision = shape_of(mdp, staged=True), CountPrecision(scale=np.zeros(3))
    learner = PrivateUCBPO(shape=shape, episodes=K, precision=precision)
    rng, L = np.random.default_rng(0), precision_log_term(shape, K, 0.05 / 2)
    belief, pi, eta = learner.begin(), np.full((4, 3, 2), 0.5), math.sqrt(2 * math.log(2) / (16 * K))
    for k in range(1, 6):
        released = exact_statistics(mdp, UNIFORM, 10**6 * k, staged=True, seed=k)
        moved = released.transitions + rng.normal(0, std, released.transitions.shape) if std else released.transitions
        moved[-1] = 0.0
        released = released._replace(transitions=moved, variance=np.full(3, std**2))
        E = now_radius(precision, released.variance, 0, L)
        belief = told(learner, belief, released)
        P, r, bonus = po_rows(
            released.transitions, released.visits, released.rewards, episodes=K, failure_prob=0.05, E1=E, E2=E
        )
        Q, V = optimistic_values(P, r, bonus, pi)
        np.testing.assert_allclose(belief.Q, Q, rtol=0, atol=1e-11)
        np.testing.assert_allclose(belief.V, V, rtol=0, atol=1e-11)
        pi = pi * np.exp(eta * Q)
        pi /= pi.sum(axis=2, keepdims=True)
        np.testing.assert_allclose(belief.pi, pi, rtol=0, atol=1e-11)
    assert np.abs(pi - 0.5).max() > 0.01


@pytest.mark.statistical
def test_drawn_policies_have_the_frequencies_of_the_stochastic_one():
    # 20,000 draws: a standard error of at most 0.0036; false alarms beyond 6 of them.
    mdp = small_mdp(2, actions=3)
    learner = PrivateUCBPO(shape=shape_of(mdp, staged=True), episodes=4)
    belief = learner.begin()
    for _ in range(3):
        released = exact_statistics(mdp, uniform_policy(4, 3, 3), 10**7, staged=True)
        belief = told(learner, belief, released)
    coins, counts = np.random.default_rng(0), np.zeros((4, 3, 3))
    for _ in range(20_000):
        learner.kernels.plan(learner.parameters, belief, coins)
        counts[np.arange(4)[:, None], np.arange(3)[None, :], belief.policy] += 1
    assert np.abs(counts / 20_000 - belief.pi).max() < 0.022
    assert np.abs(belief.pi - 1 / 3).max() > 2 * 0.022  # so the uniform policy would be found out


def test_a_batch_follows_the_stochastic_policy_itself():
    mdp = small_mdp(2)
    learner = PrivateUCBPO(shape=shape_of(mdp, staged=True), episodes=100, users_per_batch=20)
    _, plan = learner.plan(learner.begin(), np.random.default_rng(0))
    assert isinstance(plan.policy, StochasticPolicy)
    assert plan.users == 20
    run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=100, seed=0)
    assert run.regret[-1] > 0.0


def test_riverswim_is_learned_with_the_practical_rule():
    mdp = riverswim()
    learner = PrivateUCBPO(shape=shape_of(mdp, staged=True), episodes=20_000, constants="practical", z=1.0)
    run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=20_000, seed=0)
    assert run.regret[-1] < 0.5 * 8884


def test_options_are_checked():
    shape = shape_of(small_mdp(), staged=True)
    for wrong in ({"constants": "none"}, {"z": 1.0}, {"failure_prob": 2.0}):
        with pytest.raises(InvalidInput):
            PrivateUCBPO(shape=shape, episodes=10, **wrong)
    with pytest.raises(InvalidInput, match="staged"):
        PrivateUCBPO(shape=shape_of(small_mdp(), staged=False), episodes=10)


def test_sampling_weighs_counts_and_is_no_noise():
    """The last step has no successors: its width is the shared rule's, at the weight and with the noise alone."""
    mdp = small_mdp(2)
    sampling = Sampling(weight=5.0, noise_share=np.array([0.5, 0.25, 0.125]))
    released = exact_statistics(mdp, UNIFORM, 10_000, staged=True)
    released.variance[:] = 8.0
    learner = PrivateUCBPO(shape=shape_of(mdp, staged=True), episodes=10, constants="practical", sampling=sampling)
    belief = told(learner, learner.begin(), released)
    assert belief.variance.tolist() == [4.0, 2.0, 1.0]
    n, r = released.visits[-1], released.rewards[-1] / released.visits[-1]
    for s in range(3):
        for a in range(2):
            width = practical_width(1.0, 1, n[s, a], r[s, a], 0.0, 0.0, 4.0, 1.0, 5.0)
            assert belief.Q[-1, s, a] == pytest.approx(min(1.0, r[s, a] + width), rel=1e-12)
    assert (belief.Q[-1] < 1.0).any()
