"""The loop: plain REINFORCE without noise, one meaning at two speeds, θ_U, short batches, PPO and natural gradients."""

import math

import numpy as np
import pytest
from contract_calls import told
from gradient_tools import BANDIT, fitted, learner_of, privatizer_of, shape_of, small_mdp, table_of
from slow_gradients import user_gradient

from tacit.audit.learners import final_parameters, matched_distinguisher
from tacit.data.gradients import draw_users
from tacit.data.trajectories import prepare_world
from tacit.learners.gradient import natural_ascend, plan_gradient
from tacit.policies.softmax import public_features, tabular_features
from tacit.randomness import seed_streams
from tacit.released.gradients import empty_gradient
from tacit.simulation.simulate import log_checkpoints, simulate


def go(mdp, learner, privatizer, episodes, seed=0, compiled=False):
    """A run; fused loops take seconds to compile, and one test here asks whether both speeds are the same run."""
    marks = log_checkpoints(episodes, 20)
    speed = "compiled" if compiled else "interpreted"
    learner = fitted(learner, privatizer)
    return simulate(mdp, learner, privatizer, episodes=episodes, seed=seed, checkpoints=marks, speed=speed)


@pytest.mark.parametrize("barrier", [0.0, 0.2])
def test_without_noise_it_is_reinforce_step_by_step(barrier):
    mdp, m, episodes = small_mdp(), 7, 45
    learner = learner_of(mdp, step=0.8, barrier=barrier)
    privatizer = privatizer_of(learner.shape, epsilon=None, users=m, clip=1.3)
    found = go(mdp, learner, privatizer, episodes, seed=4)
    # The same users, one by one, in plain Python; 45 users are six batches and three who are left over.
    streams, world, theta = seed_streams(4), prepare_world(mdp), np.zeros((3, 3, 3))
    for _ in range(6):
        table = table_of(tabular_features(), theta.ravel(), learner.shape)
        states, actions, rewards = np.zeros((m, 3), int), np.zeros((m, 3), int), np.zeros((m, 3))
        draw_users(world, table, streams.world, states, actions, rewards)
        gradient = sum(
            user_gradient(theta, None, 3, s, a, r, clip=1.3) for s, a, r in zip(states, actions, rewards, strict=True)
        )
        theta = theta + 0.8 * (gradient / m + barrier / 9 * (1 / 3 - table))
    assert found.policy_changes == 6
    np.testing.assert_allclose(found.belief.theta.reshape(theta.shape), theta, atol=1e-12)


EPOCHS = {"epochs": 3, "surrogate": 0.2, "rate": 0.5}


@pytest.mark.parametrize(
    ("more", "features"),
    [
        # Every option and both kinds of features; their product, each loop compiled anew, before a merge.
        (EPOCHS, None),
        ({"baseline": None}, public_features(3, 3, 4)),
        pytest.param({}, None, marks=pytest.mark.slow),
        pytest.param({}, public_features(3, 3, 4), marks=pytest.mark.slow),
        pytest.param(EPOCHS, public_features(3, 3, 4), marks=pytest.mark.slow),
        pytest.param({"baseline": None}, None, marks=pytest.mark.slow),
    ],
)
def test_compiled_and_interpreted_are_bit_identical(more, features):
    mdp = small_mdp()
    learner = learner_of(mdp, features=features, barrier=0.1, baseline=0.5, update=natural_ascend, damping=0.1)
    privatizer = privatizer_of(learner.shape, users=20, clip=1.0, tabular=features is None, **more)
    fast, slow = (go(mdp, learner, privatizer, 215, compiled=compiled) for compiled in (True, False))
    assert fast.belief.theta.tobytes() == slow.belief.theta.tobytes()
    assert fast.regret.tobytes() == slow.regret.tobytes()
    assert fast.objective == slow.objective
    assert np.abs(fast.belief.theta).max() > 0.01


def test_a_short_last_batch_acts_and_is_never_released():
    learner = learner_of(BANDIT)
    privatizer = privatizer_of(learner.shape, users=50)
    whole, longer = go(BANDIT, learner, privatizer, 100), go(BANDIT, learner, privatizer, 149)
    assert whole.belief.theta.tobytes() == longer.belief.theta.tobytes()
    assert longer.policy_changes == 2
    assert longer.regret[-1] > whole.regret[-1]


def test_the_curve_of_regret_is_the_gap_of_the_users():
    learner = learner_of(BANDIT, step=0.0)  # never moves: the uniform policy for ever
    found = go(BANDIT, learner, privatizer_of(learner.shape, epsilon=None, users=10), 20_000)
    gap = found.objective.optimal - found.objective.final
    assert found.regret[-1] == pytest.approx(20_000 * gap, rel=0.02)
    assert found.objective.average == pytest.approx(found.objective.final)
    assert found.objective.uniform == pytest.approx(found.objective.final)


@pytest.mark.statistical
def test_theta_u_is_uniform_among_the_iterates():
    # False-alarm rate 1e-4 by a chi-square over 8 iterates and 10,000 runs; a weight of 25% more on one is rejected.
    from scipy.stats import chi2

    learner = learner_of(BANDIT)
    generator, T, runs = np.random.default_rng(11), 8, 10_000
    kept = np.zeros(T)
    belief = learner.begin()
    for _ in range(runs):
        belief.iterates[0] = 0
        for t in range(T):
            belief.theta[0] = t
            plan_gradient(learner.parameters, belief, generator)
        kept[int(belief.sampled[0])] += 1
    limit = chi2.isf(1e-4, T - 1)
    assert ((kept - runs / T) ** 2 / (runs / T)).sum() < limit
    skewed = kept.copy()
    skewed[3] *= 1.25
    expected = skewed.sum() / T
    assert ((skewed - expected) ** 2 / expected).sum() > limit


def test_one_epoch_of_ppo_is_policy_gradient():
    mdp = small_mdp()
    learner = learner_of(mdp)
    plain = privatizer_of(learner.shape, users=20, clip=1.0)
    ppo = privatizer_of(learner.shape, users=20, clip=1.0, epochs=1, surrogate=0.2)
    assert plain.sigma == ppo.sigma
    one, other = (go(mdp, learner, privatizer, 400) for privatizer in (plain, ppo))
    assert one.belief.theta.tobytes() == other.belief.theta.tobytes()
    twice = go(mdp, learner, privatizer_of(learner.shape, users=20, clip=1.0, epochs=2, surrogate=0.2), 400)
    assert twice.belief.theta.tobytes() != one.belief.theta.tobytes()


def test_a_ratio_beyond_the_radius_adds_nothing():
    from tacit.data.gradients import Bounds, add_gradients, begin_sums

    shape, kind = shape_of(BANDIT), tabular_features()
    behaviour = table_of(kind, np.zeros(12), shape)
    theta = np.zeros((3, 4))
    theta[0, 1] = 2.0  # action 1 became far more likely in context 0, action 0 less
    table = table_of(kind, theta.ravel(), shape)
    bounds = Bounds(low=-1.0, high=1.0, clip=math.inf, surrogate=0.2)
    sums = begin_sums(kind, 1, 3, 4, 1)

    def weight(action, reward):
        add_gradients(
            bounds, kind, table, behaviour, np.zeros((1, 1), int), np.full((1, 1), action), np.full((1, 1), reward),
            np.ones(1, bool), 0.0, sums,
        )  # fmt: skip
        return float(np.abs(sums.weights).sum())

    assert weight(1, 1.0) == 0.0  # already more likely than 1 + radius, and wanted to be more so
    assert weight(1, -1.0) > 0.0
    assert weight(0, -1.0) == 0.0
    assert weight(0, 1.0) > 0.0


@pytest.mark.parametrize("features", [None, public_features(3, 3, 4)])
def test_natural_gradients_solve_the_linear_system(features):
    mdp, damping = small_mdp(), 0.05
    learner = learner_of(mdp, step=1.0, features=features, update=natural_ascend, damping=damping)
    generator = np.random.default_rng(12)
    belief = learner.begin()
    belief.theta[:] = generator.normal(size=belief.theta.shape)
    belief, _ = learner.plan(belief, generator)
    released = empty_gradient(learner.shape.dimension)
    released.gradient[:] = generator.normal(size=released.gradient.shape)
    moved = told(learner, belief, released).theta - belief.theta
    # F = E_{(l,s) ~ Unif, a ~ π} [score scoreᵀ], from plain scores
    from slow_gradients import score

    L, d = learner.shape.stages, learner.shape.dimension
    theta = belief.theta.reshape((L, 3, 3) if features is None else (L, 4))
    F = np.zeros((d, d))
    for h in range(L):
        for s in range(3):
            for a in range(3):
                g = score(theta, features, L, h, s, a).ravel()
                F += belief.table[h, s, a] * np.outer(g, g) / (L * 3)
    np.testing.assert_allclose(moved, np.linalg.solve(F + damping * np.eye(d), released.gradient), atol=1e-9)


def test_a_released_baseline_comes_from_earlier_batches_only():
    learner = learner_of(BANDIT, baseline=0.5)
    privatizer = privatizer_of(learner.shape, users=2000, baseline=None, epsilon=5.0)
    belief, released = learner.begin(), empty_gradient(12)
    assert belief.baseline[0] == 0.5
    released.reward[0], released.variance[1] = 0.9, 0.01
    belief = told(learner, belief, released)
    assert belief.baseline[0] == pytest.approx(0.9)
    released.reward[0], released.variance[1] = 0.1, 0.03
    belief = told(learner, belief, released)
    assert belief.baseline[0] == pytest.approx((90 + 0.1 / 0.03) / (100 + 1 / 0.03))
    released.reward[0], released.variance[1] = 40.0, 1e-6
    assert told(learner, belief, released).baseline[0] == 1.0  # kept within the interval of rewards
    assert np.isfinite(go(BANDIT, learner, privatizer, 20_000).belief.theta).all()


@pytest.mark.statistical
def test_the_audit_hook_finds_exactly_the_noise_that_is_there():
    # Neighbours that differ most: the scores of the best distinguisher are two normal distributions μ = Δ/σ apart.
    # False-alarm rate 1e-3 (μ̂ is normal with deviation √(2/n)); noise 25% too small is told apart with the same test.
    from dataclasses import replace

    from tacit.data.trajectories import Trajectories

    learner = learner_of(BANDIT, step=1.0)
    privatizer = privatizer_of(learner.shape, users=3, epsilon=2.0)
    # Deterministic policies make the scores long; from θ = 0 the worst pair is two contexts with reward 1.
    one = Trajectories(np.array([[0], [1], [1]]), np.array([[1], [2], [2]]), np.ones((3, 1)))
    other = Trajectories(np.array([[2], [1], [1]]), np.array([[3], [2], [2]]), np.ones((3, 1)))
    learner = fitted(learner, privatizer)
    distinguish = matched_distinguisher(learner, privatizer, one, other)
    silent = privatizer_of(learner.shape, users=3, epsilon=None)
    length = 2 * distinguish(final_parameters(learner, silent, one, runs=1, seed=0)[0])
    assert length <= privatizer.sensitivity
    n = 1000

    def separation(mechanism):
        groups = [
            [distinguish(theta) for theta in final_parameters(learner, mechanism, users, runs=n, seed=seed)]
            for seed, users in ((1, one), (2, other))
        ]
        return (np.mean(groups[0]) - np.mean(groups[1])) / privatizer.sigma, np.std(groups[0]) / privatizer.sigma

    limit = 3.3 * math.sqrt(2 / n)
    mean, std = separation(privatizer)
    assert abs(mean - length / privatizer.sigma) < limit
    assert abs(std - 1.0) < 3.3 / math.sqrt(2 * n)
    _, broken = separation(replace(privatizer, sigma=0.75 * privatizer.sigma))
    assert abs(broken - 1.0) > 3.3 / math.sqrt(2 * n)
