"""UCBVI against its slow twin, against the truth, and on the task it is for."""

from __future__ import annotations

import numpy as np
import pytest
from contract_calls import shown, told
from learner_tools import exact_statistics, homogeneous_mdp, shape_of, small_mdp
from slow_ucbvi import SlowUCBVI

from tacit.data.counts import flow_counts
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import riverswim
from tacit.errors import InvalidInput
from tacit.learners.ucbvi import UCBVI
from tacit.planning.dynamic import backward_induction
from tacit.planning.widths import practical_width
from tacit.policies import uniform_policy
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import sampling_of
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.precision import Sampling
from tacit.simulation.simulate import simulate

RULES = ["hoeffding", "bernstein", "practical"]


def fast_and_slow(mdp, rule, *, staged, episodes=50, z=0.7, failure_prob=0.05):
    sizes = {"horizon": mdp.horizon, "num_states": mdp.num_states, "num_actions": mdp.num_actions}
    slow = SlowUCBVI(**sizes, staged=staged, rule=rule, episodes=episodes, z=z, failure_prob=failure_prob)
    theory = rule != "practical"
    fast = UCBVI(
        shape=shape_of(mdp, staged=staged),
        episodes=episodes,
        constants="theory" if theory else "practical",
        bonus=rule if theory else "hoeffding",
        z=None if theory else z,
        failure_prob=failure_prob,
    )
    return fast, slow


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("horizon", [1, 4])
def test_fifty_episodes_are_those_of_the_slow_twin(rule, staged, horizon):
    mdp = small_mdp(1, horizon=horizon)
    fast, slow = fast_and_slow(mdp, rule, staged=staged)
    world, privatizer = prepare_world(mdp), Unprotected(shape=fast.shape)
    coins, twin_coins, steps = (np.random.default_rng(seed) for seed in (7, 7, 8))
    belief, state, noise = fast.begin(), privatizer.begin(), SimulationNoise(np.random.default_rng(9))
    for _ in range(50):
        belief, plan = fast.plan(belief, coins)
        policy = slow.plan(twin_coins.random((mdp.horizon, mdp.num_states)))
        np.testing.assert_allclose(belief.Q, slow.Q, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(plan.policy.actions, policy)
        user = roll_out(world, plan.policy, 1, steps)
        slow.observe(user.states[0], user.actions[0], user.rewards[0])
        state, released = shown(privatizer, state, user, noise)
        belief = told(fast, belief, released)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("users", [10**3, 10**6, 10**9])
def test_large_batches_are_planned_like_the_slow_twin(rule, staged, users):
    # With theory constants fifty episodes never leave the ceiling; here every term of the widths counts.
    mdp = small_mdp(2)
    fast, slow = fast_and_slow(mdp, rule, staged=staged)
    released = exact_statistics(mdp, uniform_policy(4, 3, 2), users, staged=staged)
    belief, _ = fast.plan(told(fast, fast.begin(), released), np.random.default_rng(0))
    slow.moves, slow.visits, slow.rewards = released.transitions, released.visits, released.rewards
    slow.plan(np.random.default_rng(0).random((4, 3)))
    np.testing.assert_allclose(belief.Q, slow.Q, rtol=0, atol=1e-11)
    if users == 10**9:
        assert (belief.Q < np.arange(4, 0, -1)[:, None, None] - 0.01).all()


@pytest.mark.parametrize("staged", [True, False])
def test_noisy_statistics_are_planned_like_the_slow_twin(staged):
    mdp = small_mdp(3)
    fast, slow = fast_and_slow(mdp, "practical", staged=staged)
    exact = exact_statistics(mdp, uniform_policy(4, 3, 2), 2000, staged=staged)
    rng = np.random.default_rng(4)
    variance = np.array([400.0, 300.0, 200.0])
    noisy = exact._replace(
        transitions=exact.transitions + rng.normal(0, 20.0, exact.transitions.shape),
        visits=exact.visits + rng.normal(0, np.sqrt(300), exact.visits.shape),
        rewards=exact.rewards + rng.normal(0, np.sqrt(200), exact.rewards.shape),
        variance=variance,
    )
    if staged:
        noisy.transitions[-1] = 0.0
    belief, plan = fast.plan(told(fast, fast.begin(), noisy), np.random.default_rng(0))
    slow.moves, slow.visits, slow.rewards, slow.noise = noisy.transitions, noisy.visits, noisy.rewards, tuple(variance)
    policy = slow.plan(np.random.default_rng(0).random((4, 3)))
    np.testing.assert_allclose(belief.Q, slow.Q, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(plan.policy.actions, policy)
    # The noise is inside the widths: without its variance the same numbers look more certain.
    blind = told(fast, fast.begin(), noisy._replace(variance=np.zeros(3)))
    assert fast.plan(blind, np.random.default_rng(0))[0].V[0].sum() < belief.V[0].sum()


def test_whole_numbered_noise_that_repeats_a_value_hides_no_change():
    mdp = small_mdp(3)
    fast, _ = fast_and_slow(mdp, "practical", staged=True)
    released = exact_statistics(mdp, uniform_policy(4, 3, 2), 500, staged=True)._replace(variance=np.full(3, 4.0))
    belief = told(fast, fast.begin(), released)
    moved = released._replace(transitions=np.roll(released.transitions, 1, axis=3))
    after = told(fast, belief, moved)
    assert np.abs(after.P_hat - belief.P_hat).max() > 0.1


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
@pytest.mark.parametrize("staged", [True, False])
def test_optimism_holds_with_theory_constants(bonus, staged):
    # Far below the ceiling, so that the test could fail; without a bonus it does (last line).
    below = 0
    for seed in range(20):
        mdp = homogeneous_mdp(seed)
        best, _, _ = backward_induction(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)
        released = exact_statistics(mdp, uniform_policy(4, 3, 2), 10**8, staged=staged, seed=seed)
        learner = UCBVI(shape=shape_of(mdp, staged=staged), episodes=10**8, bonus=bonus)
        belief, _ = learner.plan(told(learner, learner.begin(), released), np.random.default_rng(0))
        assert (belief.Q >= best).all()
        assert (belief.Q[0] < 3.9).any()
        plain = UCBVI(shape=shape_of(mdp, staged=staged), episodes=10**8, constants="practical", z=0.0)
        belief, _ = plain.plan(told(plain, plain.begin(), released), np.random.default_rng(0))
        below += int((belief.Q < best).any())
    assert below == 20


def test_values_never_rise_again_under_theory_constants():
    mdp = small_mdp(5)
    learner = UCBVI(shape=shape_of(mdp, staged=True), episodes=10**6)
    few, many = (exact_statistics(mdp, uniform_policy(4, 3, 2), n, staged=True) for n in (10**6, 10**7))
    late, _ = learner.plan(told(learner, learner.begin(), many), np.random.default_rng(0))
    again, _ = learner.plan(told(learner, late, few), np.random.default_rng(0))
    fresh, _ = learner.plan(told(learner, learner.begin(), few), np.random.default_rng(0))
    assert (again.Q <= late.Q).all()
    assert (fresh.Q > late.Q + 1e-3).any()


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_riverswim_is_learned_with_practical_constants(staged, seed):
    mdp = riverswim()
    learner = UCBVI(shape=shape_of(mdp, staged=staged), episodes=20_000, constants="practical", z=0.5)
    run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=20_000, seed=seed)
    assert run.regret[-1] < 0.02 * 8884  # of the uniform policy


def test_a_one_step_problem_is_learned():
    mdp = TabularMDP(P=np.ones((1, 2, 1)), r=[[0.2, 0.8]], rho=[1.0], horizon=1)
    for staged in (True, False):
        learner = UCBVI(shape=shape_of(mdp, staged=staged), episodes=2000, constants="practical", z=0.5)
        run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=2000, seed=0)
        assert run.regret[-1] < 0.05 * 2000 * 0.3


def test_ties_are_broken_evenly():
    # All actions of an unknown state tie; 30,000 coins on 5 actions, false-alarm rate 1e-6 (6 standard errors).
    mdp = small_mdp(0, actions=5, horizon=1)
    learner = UCBVI(shape=shape_of(mdp, staged=True), episodes=10)
    coins, belief = np.random.default_rng(0), learner.begin()
    chosen = np.zeros(5)
    for _ in range(10_000):
        belief, plan = learner.plan(belief, coins)
        chosen += np.bincount(plan.policy.actions.ravel(), minlength=5)
    assert (np.abs(chosen - 6000) < 6 * np.sqrt(30_000 * 0.2 * 0.8)).all()


def test_options_are_checked():
    shape = shape_of(small_mdp(), staged=True)
    for wrong in ({"constants": "magic"}, {"bonus": "magic"}, {"z": 1.0}, {"failure_prob": 0.0}, {"failure_prob": 2.0}):
        with pytest.raises(InvalidInput):
            UCBVI(shape=shape, episodes=10, **wrong)
    with pytest.raises(InvalidInput):
        UCBVI(shape=shape, episodes=10, constants="practical", z=float("nan"))


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ["subset", "oue"])
def test_widths_of_sampled_slots_are_the_spread_of_the_estimates(mechanism):
    """Q̂ of the last step is a mean reward: over 600 releases its spread is what the width says, within 15%.

    False alarms below 1e-6 (a variance over 600 draws has a standard error of 6%, its root of 3%). Power: the stated
    variance without its parts (all of it as noise), or counts taken for users, is off by more than 15%.
    """
    mdp = homogeneous_mdp(3, states=2, actions=2, horizon=2)
    shape = shape_of(mdp, staged=True)
    request = PrivacyRequest(
        trust="local", shape=shape, episodes=10, epsilon=4.0, delta=0.0, calibration=None, mechanism=mechanism,
        users_per_batch=1,
    )  # fmt: skip
    privatizer = make_privatizer(request)
    sampling = sampling_of(privatizer)
    generator, users = np.random.default_rng(5), 4000
    estimates, widths = [], {"right": [], "all noise": [], "counts are users": []}
    for _ in range(600):
        batch = flow_counts(mdp, uniform_policy(2, 2, 2), users, generator)
        _, released = shown(privatizer, privatizer.begin(), batch, SimulationNoise(generator))
        n, total = released.visits[1, 0, 0], released.rewards[1, 0, 0]
        r, noise = total / n, sampling.noise_share * released.variance
        estimates.append(r)
        # The rewards' noise and, through the visits, the complements': r̂ = R/(R + C)
        parts = ((1.0 - r) ** 2 + r**2) * np.array([noise[2], released.variance[2], noise[2]])
        for name, part, weight in zip(widths, parts, (sampling.weight, sampling.weight, 1.0), strict=True):
            widths[name].append(practical_width(1.0, 0, n, r, 0.0, 0.0, 0.0, part, weight))
    spread = float(np.std(estimates))
    close = {name: abs(float(np.mean(found)) / spread - 1.0) < 0.15 for name, found in widths.items()}
    assert close == {"right": True, "all noise": False, "counts are users": False}


def test_the_learner_takes_sampling_into_account():
    shape = shape_of(small_mdp(1, horizon=3), staged=True)
    sampling = Sampling(weight=5.0, noise_share=np.array([0.5, 0.25, 0.125]))
    learner = UCBVI(shape=shape, episodes=10, constants="practical", sampling=sampling)
    plain = UCBVI(shape=shape, episodes=10, constants="practical")
    released = exact_statistics(small_mdp(1, horizon=3), uniform_policy(3, 3, 2), 10_000, staged=True)
    released.variance[:] = 8.0
    beliefs = [told(one, one.begin(), released) for one in (learner, plain)]
    assert beliefs[0].variance.tolist() == [4.0, 2.0, 1.0]
    assert beliefs[1].variance.tolist() == [8.0, 8.0, 8.0]
    wide, narrow = (
        one.plan(belief, np.random.default_rng(0))[0].Q for one, belief in zip((learner, plain), beliefs, strict=True)
    )
    assert (wide >= narrow).all()
    assert (wide > narrow).any()
