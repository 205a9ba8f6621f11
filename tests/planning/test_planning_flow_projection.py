"""The flow projection against a dense least-squares oracle, and what it does to counts that people really walked."""

import numpy as np
import pytest

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.registry import make
from tacit.planning.flow_projection import FlowCounts, kept_variance, project
from tacit.policies import uniform_policy

SIZES = [(1, 3, 2), (2, 3, 2), (3, 2, 3), (5, 4, 2), (4, 1, 3), (3, 3, 1)]


def laws(H, S, A):
    """The constraint matrix, row by row as the docstring has it, and which right-hand sides are n."""
    moved = np.arange((H - 1) * S * A * S).reshape(H - 1, S, A, S)
    ones = moved.size + np.arange(H * S * A).reshape(H, S, A)
    zeros = ones + ones.size
    total = moved.size + 2 * ones.size
    rows, right = [], []
    for h in range(H - 1):
        for s, a in np.ndindex(S, A):
            row = np.zeros(total)
            row[moved[h, s, a]] = 1.0
            row[[ones[h, s, a], zeros[h, s, a]]] = -1.0
            rows.append(row)
            right.append(0.0)
        for t in range(S):
            row = np.zeros(total)
            row[moved[h, :, :, t].ravel()] = 1.0
            row[np.concatenate([ones[h + 1, t], zeros[h + 1, t]])] = -1.0
            rows.append(row)
            right.append(0.0)
    row = np.zeros(total)
    row[np.concatenate([ones[0].ravel(), zeros[0].ravel()])] = 1.0
    return np.array([*rows, row]), np.array([*right, 1.0])


def split(x, H, S, A):
    cut = (H - 1) * S * A * S
    moved, rest = x[:cut].reshape(H - 1, S, A, S), x[cut:].reshape(2, H, S, A)
    return FlowCounts(moved, rest[0], rest[1])


def joined(counts):
    return np.concatenate([part.ravel() for part in counts])


@pytest.mark.parametrize(("H", "S", "A"), SIZES)
def test_it_is_the_least_squares_repair(H, S, A):
    M, c = laws(H, S, A)
    x = np.random.default_rng(1).normal(size=M.shape[1])
    wanted = x - M.T @ np.linalg.solve(M @ M.T, M @ x - 7.0 * c)
    np.testing.assert_allclose(joined(project(split(x, H, S, A), 7.0)), wanted, atol=1e-12)


@pytest.mark.parametrize(("H", "S", "A"), SIZES)
def test_what_it_leaves_of_a_variance_is_one_minus_the_leverage(H, S, A):
    M, _ = laws(H, S, A)
    kept = split(1.0 - np.diag(M.T @ np.linalg.solve(M @ M.T, M)), H, S, A)
    moved, rewards = kept_variance(H, S, A)
    for h in range(H):
        np.testing.assert_allclose(kept.ones[h], rewards[h], atol=1e-12)
        np.testing.assert_allclose(kept.zeros[h], rewards[h], atol=1e-12)
        if h < H - 1:
            np.testing.assert_allclose(kept.moved[h], moved[h], atol=1e-12)


def test_what_people_walked_is_left_alone():
    mdp = make("riverswim")
    users = roll_out(prepare_world(mdp), uniform_policy(6, 4, 2), 500, np.random.default_rng(0))
    counts = count_trajectories(users, 4, 2)
    exact = FlowCounts(counts.transitions[:-1] * 1.0, counts.rewards, counts.visits - counts.rewards)
    np.testing.assert_allclose(joined(project(exact, 500.0)), joined(exact), atol=1e-9)
    # Another number of people is another flow.
    assert np.abs(joined(project(exact, 400.0)) - joined(exact)).max() > 1.0
