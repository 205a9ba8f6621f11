"""PUCB and private UCB-VI against their slow twins; without noise the twins know nothing of privacy."""

from __future__ import annotations

import numpy as np
import pytest
from contract_calls import told
from learner_tools import exact_statistics, shape_of, small_mdp
from slow_private import hoeffding_rows, optimistic_values

from tacit.errors import InvalidInput
from tacit.learners.fixed_bonus import PUCB, PrivateUCBVI
from tacit.policies import uniform_policy
from tacit.released.precision import CountPrecision, now_radius, precision_log_term
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

UNIFORM = uniform_policy(4, 3, 2)
KINDS = {"pucb": PUCB, "vi": PrivateUCBVI}


def planned(learner, released):
    return learner.plan(told(learner, learner.begin(), released), np.random.default_rng(0))[0]


def noisy(released, std, seed):
    rng = np.random.default_rng(seed)
    moved = released.transitions + rng.normal(0, std, released.transitions.shape)
    moved[-1] = 0.0
    return released._replace(
        transitions=moved,
        visits=released.visits + rng.normal(0, std, released.visits.shape),
        rewards=released.rewards + rng.normal(0, std, released.rewards.shape),
        variance=np.array([std**2, std**2, std**2]),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("users", [3, 10**3, 10**6])
def test_without_noise_it_is_the_non_private_learner_with_the_same_bonus(kind, users):
    mdp = small_mdp(4)
    released = exact_statistics(mdp, UNIFORM, users, staged=True)
    belief = planned(KINDS[kind](shape=shape_of(mdp, staged=True), episodes=1000), released)
    rows = hoeffding_rows(
        released.transitions, released.visits, released.rewards, episodes=1000, failure_prob=0.05, kind=kind
    )
    Q, V = optimistic_values(*rows)
    np.testing.assert_allclose(belief.Q, Q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(belief.V, V, rtol=0, atol=1e-11)
    if users == 10**6:
        assert (belief.Q[0] < 3.9).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("users", [10**4, 10**7])
def test_with_noise_it_is_the_slow_twin(kind, users):
    mdp = small_mdp(4)
    shape, precision = shape_of(mdp, staged=True), CountPrecision(scale=np.array([1.0, 2.0, 3.0]))
    released = noisy(exact_statistics(mdp, UNIFORM, users, staged=True), 20.0, 0)
    L = precision_log_term(shape, 1000, 0.05 / 2)
    radii = [now_radius(precision, released.variance, f, L) for f in range(3)]
    belief = planned(KINDS[kind](shape=shape, episodes=1000, precision=precision), released)
    rows = hoeffding_rows(
        released.transitions, released.visits, released.rewards, episodes=1000, failure_prob=0.05, kind=kind,
        E1=max(radii), E2=radii[0],
    )  # fmt: skip
    np.testing.assert_allclose(belief.Q, optimistic_values(*rows)[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["pucb", "private-ucb-vi"])
def test_by_name_under_central_trust(name):
    for constants, expected in (("theory", "theory"), (None, "practical")):
        config = RunConfig(
            environment="riverswim", learner=name, episodes=300, seeds=(0,), trust="central", epsilon=10.0,
            delta=1e-6, constants=constants,
        )  # fmt: skip
        parts = assemble(config)
        assert (parts.learner.name, parts.learner.constants) == (name, expected)
        assert simulate(parts.mdp, parts.learner, parts.privatizer, episodes=300, seed=0).regret[-1] > 0.0
    with pytest.raises(InvalidInput, match="z belongs"):
        assemble(RunConfig(environment="riverswim", learner=name, episodes=9, seeds=(0,), constants="theory", z=1.0))


def test_steps_are_kept_apart():
    for learner in KINDS.values():
        with pytest.raises(InvalidInput, match="staged"):
            learner(shape=shape_of(small_mdp(), staged=False), episodes=10)
