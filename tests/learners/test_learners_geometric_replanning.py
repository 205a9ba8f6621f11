"""Replanning rarely: the same run while batches have one user, the same regret afterwards; refused elsewhere."""

import numpy as np
import pytest
from contract_calls import shown, told
from scipy import integrate

import tacit
from tacit.accounting.events.bounded import bounded_density
from tacit.data.counts import flow_counts
from tacit.environments.registry import make
from tacit.errors import NotSupported
from tacit.learners.private_po import PrivateUCBPO, RarelyImproved
from tacit.learners.psrl import PSRL
from tacit.learners.schedules import RarelyReplanned
from tacit.noise.bounded import NORMAL_APPROX_FROM
from tacit.randomness import SimulationNoise
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape

LOCAL = {"trust": "local", "epsilon": 20.0, "delta": 0.0, "mechanism": "laplace"}
SCHEDULED = {"trust": "central", "epsilon": 1.0, "delta": 1e-6, "mechanism": "batched"}


@pytest.mark.parametrize(
    ("learner", "privacy"),
    [
        ("ucbvi", {}),
        ("psrl", {}),
        ("ldp-obi", LOCAL),
        ("ldp-psrl", LOCAL),
        ("dp-ucbvi", SCHEDULED),
        ("private-ucb-vi", SCHEDULED | {"constants": "theory"}),
        ("pucb", LOCAL | {"constants": "theory"}),
    ],
    ids=str,
)
def test_while_batches_have_one_user_it_is_the_learner_itself(learner, privacy):
    # ⌊k/200⌋ is at most one for the first 400 users.
    every, rarely = (
        tacit.run(environment="riverswim", learner=f"{learner}:replan={replan}", episodes=400, seeds=1, **privacy)
        for replan in ("every", "geometric")
    )
    assert every.regret.tobytes() == rarely.regret.tobytes()


@pytest.mark.slow  # what is seldom planned is compared with the rule itself above
def test_later_the_regret_is_the_same_within_one_percent():
    # UCB-VI without noise has nearly no spread between seeds here; a lag of 20% would cost more than 1%.
    every, rarely = (
        tacit.run(environment="random-mdp:seed=3", learner=f"ucbvi:time_homogeneous=true,replan={replan}",
                  episodes=200_000, seeds=2)
        for replan in ("every", "geometric")
    )  # fmt: skip
    assert rarely.regret[:, -1].mean() == pytest.approx(every.regret[:, -1].mean(), rel=0.01)


def test_state_goes_in_and_comes_out():
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=False)
    learner, privatizer = RarelyReplanned(PSRL(shape=shape)), Unprotected(shape=shape)
    given = learner.begin()
    before = [field.copy() for field in given.belief]
    planned, plan = learner.plan(given, np.random.default_rng(0))
    batch = flow_counts(make("random-mdp"), plan.policy, 500, np.random.default_rng(1))
    _, released = shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(2)))
    updated = told(learner, planned, released)
    assert [field.tobytes() for field in given.belief] == [field.tobytes() for field in before]
    assert (given.users, planned.users, updated.users) == (0, 0, 500)
    assert learner.plan(updated, np.random.default_rng(0))[1].users == 2


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_other_trust_models_have_batches_of_their_own(trust):
    with pytest.raises(NotSupported, match="replan=geometric"):
        tacit.run(environment="riverswim", learner="ucbvi:replan=geometric", episodes=2000, seeds=1, trust=trust,
                  epsilon=1.0, delta=1e-6, constants="practical")  # fmt: skip


def test_policy_optimisation_takes_one_longer_step():
    # Two users under one π: π ∝ exp(2 η Q̃), and batches follow π itself.
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
    learner, privatizer = (
        RarelyImproved(PrivateUCBPO(shape=shape, episodes=1000, constants="practical")),
        Unprotected(shape=shape),
    )
    known = learner.begin()._replace(users=400)
    _, plan = learner.plan(known, np.random.default_rng(0))
    assert plan.users == 2
    assert (plan.policy.probabilities(2) == 0.5).all()
    batch = flow_counts(make("random-mdp"), plan.policy, 402, np.random.default_rng(1))
    _, released = shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(2)))
    after = told(learner, known, released).belief
    eta = learner.inner.parameters.eta
    ratio = np.log(after.pi[..., 0] / after.pi[..., 1])
    np.testing.assert_allclose(ratio, 2 * eta * (after.Q[..., 0] - after.Q[..., 1]), atol=1e-12)
    assert (after.Q[..., 0] != after.Q[..., 1]).any()
    assert (known.belief.pi == 0.5).all()


def test_the_sum_of_many_bounded_noises_is_normal():
    # F_n(x) - Φ(x) = κ₄ He₃(x) φ(x) / (24 n) + o(1/n) for a symmetric law; the cumulant by integration.
    total, second, fourth = (
        integrate.quad(lambda x, p=power: x**p * float(bounded_density(np.array([x]), 1.0)[0]), -1, 1)[0]
        for power in (0, 2, 4)
    )
    kurtosis = fourth / total / (second / total) ** 2 - 3.0
    x = np.linspace(-4, 4, 2001)
    hermite = (x**3 - 3 * x) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    assert 0.0 < np.abs(kurtosis * hermite).max() / (24 * NORMAL_APPROX_FROM) < 2e-5
