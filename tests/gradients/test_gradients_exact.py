"""Gradients against finite differences, plain Python and the exact gradient of the world."""

import math

import numpy as np
import pytest
from gradient_tools import (
    BANDIT,
    FEATURES,
    UNIT,
    learner_of,
    random_users,
    shape_of,
    small_mdp,
    table_of,
    user_gradients,
)
from slow_gradients import log_policy, score, user_gradient

from tacit.data.gradients import Bounds, in_range
from tacit.learners.gradient import add_barrier
from tacit.policies.softmax import public_features, score_bound, tabular_features
from tacit.simulation.judges.softmax import begin_gradient_tally, evaluate, gradient_truth

CASES = [(True, None), (False, None), (True, FEATURES), (False, FEATURES)]


def objective_of(mdp, features, table, dimension):
    """J and ∇J of one softmax policy table[l,s,a]."""
    tally = begin_gradient_tally(mdp, table.shape[0], dimension)
    return float(evaluate(gradient_truth(mdp), features, np.ascontiguousarray(table), tally)), tally.gradient


@pytest.mark.parametrize(("staged", "features"), CASES)
@pytest.mark.parametrize("clip", [math.inf, 0.7])
def test_user_gradients_are_those_of_plain_python(staged, features, clip):
    generator = np.random.default_rng(5)
    mdp = small_mdp()
    shape = shape_of(mdp, staged=staged, features=features)
    theta = generator.normal(size=shape.dimension)
    users = random_users(generator, shape, 20)
    kind = tabular_features() if features is None else features
    found = user_gradients(
        UNIT._replace(clip=clip), kind, table_of(kind, theta, shape), users, dimension=shape.dimension, baseline=0.3
    )
    square = theta.reshape(shape.stages, 3, 3) if features is None else theta.reshape(shape.stages, -1)
    slow = [
        user_gradient(square, features, shape.stages, s, a, r, baseline=0.3, clip=clip).ravel()
        for s, a, r in zip(users.states, users.actions, users.rewards, strict=True)
    ]
    np.testing.assert_allclose(found, slow, atol=1e-10)
    if clip < math.inf:
        norms = np.linalg.norm(found, axis=1)
        assert norms.max() <= clip
        assert (norms > 0.999 * clip).sum() > 3  # the clip did something


@pytest.mark.parametrize("features", [None, FEATURES])
def test_scores_are_the_finite_differences_of_log_probabilities(features):
    generator = np.random.default_rng(6)
    theta = generator.normal(size=(2, 3, 3) if features is None else (2, 4))
    for s, a, h in ((0, 1, 0), (2, 2, 5)):
        exact = score(theta, features, 2, h, s, a)
        for j in np.ndindex(theta.shape):
            up, down = theta.copy(), theta.copy()
            up[j] += 1e-6
            down[j] -= 1e-6
            slope = (log_policy(up, features, 2, h, s, a) - log_policy(down, features, 2, h, s, a)) / 2e-6
            assert exact[j] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize(("staged", "features"), CASES)
def test_the_exact_gradient_is_the_finite_difference_of_the_objective(staged, features):
    generator = np.random.default_rng(7)
    mdp = small_mdp()
    kind = tabular_features() if features is None else features
    shape = shape_of(mdp, staged=staged, features=features)
    theta = generator.normal(size=shape.dimension)
    _, gradient = objective_of(mdp, kind, table_of(kind, theta, shape), shape.dimension)
    for j in range(shape.dimension):
        step = 1e-6 * np.eye(shape.dimension)[j]
        up, _ = objective_of(mdp, kind, table_of(kind, theta + step, shape), shape.dimension)
        down, _ = objective_of(mdp, kind, table_of(kind, theta - step, shape), shape.dimension)
        assert gradient[j] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def test_the_mean_of_user_gradients_is_the_exact_gradient():
    # Enumerates every trajectory of a bandit: no chance, no tolerance but rounding.
    shape, theta = shape_of(BANDIT), np.random.default_rng(8).normal(size=12)
    kind = tabular_features()
    table = table_of(kind, theta, shape)
    total = np.zeros(12)
    from tacit.data.trajectories import Trajectories

    for s in range(3):
        for a in range(4):
            one = Trajectories(np.array([[s]]), np.array([[a]]), np.array([[1.0]]))
            g = user_gradients(UNIT, kind, table, one, dimension=12)[0]
            total += BANDIT.rho[s] * table[0, s, a] * BANDIT.r[0, s, a] * g
    np.testing.assert_allclose(total, objective_of(BANDIT, kind, table, 12)[1], atol=1e-12)


def test_the_barrier_gradient_is_data_free_and_right():
    learner = learner_of(small_mdp(), barrier=0.3)
    belief = learner.begin()
    belief.theta[:] = np.random.default_rng(9).normal(size=belief.theta.shape)
    belief, _ = learner.plan(belief, np.random.default_rng(0))
    # Its only arguments are public: parameters and belief. There is no batch to look at.
    gradient = np.zeros(belief.theta.shape)
    add_barrier(learner.parameters, belief, gradient)

    def barrier(theta):
        table = table_of(tabular_features(), theta, learner.shape)
        L, S, A = table.shape
        return 0.3 / (L * S * A) * np.log(table).sum()

    for j in range(len(gradient)):
        step = 1e-6 * np.eye(len(gradient))[j]
        slope = (barrier(belief.theta + step) - barrier(belief.theta - step)) / 2e-6
        assert gradient[j] == pytest.approx(slope, abs=1e-8)


def test_the_score_of_softmax_is_small_in_the_mean_and_root_two_at_worst():
    # The error of [he2025policy] App. C: E_a ‖1_a - π‖² ≤ 1 - 1/A, but sup ‖1_a - π‖ = √2.
    generator = np.random.default_rng(10)
    for A in (2, 4, 10):
        policies = [*generator.dirichlet(np.full(A, 0.3), size=200), np.full(A, 1 / A), np.eye(A)[0]]
        for pi in policies:
            squares = ((np.eye(A) - pi) ** 2).sum(axis=1)  # over the action
            assert pi @ squares <= 1 - 1 / A + 1e-12
            assert np.sqrt(squares.max()) <= score_bound(tabular_features()) + 1e-12
        assert np.sqrt(((np.eye(A)[1] - np.eye(A)[0]) ** 2).sum()) == pytest.approx(math.sqrt(2))
        assert math.sqrt(2) > math.sqrt(1 - 1 / A)
    assert score_bound(public_features(5, 3, 6)) <= 2.0


def test_rewards_outside_the_declared_interval_are_clipped_and_nan_is_the_least():
    shape, kind = shape_of(BANDIT), tabular_features()
    table = table_of(kind, np.zeros(12), shape)
    from tacit.data.trajectories import Trajectories

    rewards = np.array([[7.0], [-3.0], [np.nan], [1.0], [0.0], [0.0]])
    users = Trajectories(np.zeros((6, 1), int), np.ones((6, 1), int), rewards)
    found = user_gradients(Bounds(0.0, 1.0, math.inf, math.inf), kind, table, users, dimension=12)
    assert (found[:3] == found[3:]).all()


def test_indices_that_a_device_made_up_are_moved_into_range():
    shape, kind = shape_of(BANDIT), tabular_features()
    table = table_of(kind, np.zeros(12), shape)
    from tacit.data.trajectories import Trajectories

    users = Trajectories(np.array([[99], [2]]), np.array([[-5], [0]]), np.ones((2, 1)))
    found = user_gradients(UNIT, kind, table, users, dimension=12)
    assert (found[0] == found[1]).all()
    strange = Trajectories(np.array([[np.nan], [np.inf], [-1e30]]), np.full((3, 1), np.nan), np.ones((3, 1)))
    moved = in_range(strange, 3, 4, 1)
    assert set(moved.states.ravel()) <= {0, 1, 2}
    assert set(moved.actions.ravel()) <= {0, 1, 2, 3}
