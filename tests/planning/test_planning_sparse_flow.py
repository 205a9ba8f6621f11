"""The projection over a declared support against its definition, written out as one dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.environments.registry import make
from tacit.planning.flow_projection import FlowCounts, SparseFlow, counters_of, kept_variance, project
from tacit.released.counts import CountShape
from tacit.support import Support


def laws(support):
    """A and c of the laws of a flow of one person, over [transitions | ones | zeros] as they are released."""
    H, S, A = support.horizon, support.num_states, support.num_actions
    cells, reach = support.released, support.reach
    names = [("N", *map(int, np.unravel_index(c, (max(1, H - 1), S, A, S)))) for c in cells.moves]
    names += [("R", *map(int, np.unravel_index(c, (H, S, A)))) for c in cells.ones]
    names += [("M", *map(int, np.unravel_index(c, (H, S, A)))) for c in cells.zeros]
    place = {name: i for i, name in enumerate(names)}

    def outcomes(h, s):
        return [[place[kind, h, s, a] for kind in "RM" if (kind, h, s, a) in place] for a in range(A)]

    rows, right = [], []
    for h in range(H - 1):
        for s in np.flatnonzero(reach[h]):
            for a in range(A):
                if cells.single[h, s, a] < 0:
                    row = np.zeros(len(names))
                    row[[place["N", h, s, a, t] for t in range(S) if ("N", h, s, a, t) in place]] = 1.0
                    row[outcomes(h, s)[a]] = -1.0
                    rows.append(row)
                    right.append(0.0)
        for t in np.flatnonzero(reach[h + 1]):
            row = np.zeros(len(names))
            for s in np.flatnonzero(reach[h]):
                for a in range(A):
                    if ("N", h, s, a, t) in place:
                        row[place["N", h, s, a, t]] = 1.0
                    if cells.single[h, s, a] == t:
                        row[outcomes(h, s)[a]] += 1.0
            for own in outcomes(h + 1, t):
                row[own] -= 1.0
            rows.append(row)
            right.append(0.0)
    row = np.zeros(len(names))
    for s in np.flatnonzero(reach[0]):
        for own in outcomes(0, s):
            row[own] = 1.0
    return np.array([*rows, row]), np.array([*right, 1.0])


def random_support(coins):
    H, S, A = (int(coins.integers(1, most)) for most in (5, 5, 4))
    moves = coins.random(((H,) if coins.random() < 0.5 else ()) + (S, A, S)) < 0.45
    moves[..., 0] |= ~moves.any(axis=-1)
    starts = coins.random(S) < 0.5
    starts[0] |= ~starts.any()
    return Support(moves=moves, horizon=H, starts=starts, rewards=coins.random((S, A)) < 0.6)


def whole(support, x):
    """A vector over the released counters as `FlowCounts`."""
    cells, size = support.released, (support.horizon, support.num_states, support.num_actions)
    ones, zeros = np.zeros(np.prod(size)), np.zeros(np.prod(size))
    first, second = len(cells.moves), len(cells.moves) + len(cells.ones)
    ones[cells.ones], zeros[cells.zeros] = x[first:second], x[second:]
    return FlowCounts(x[:first], ones.reshape(size), zeros.reshape(size))


@pytest.mark.parametrize("seed", range(12))
def test_the_chain_is_the_dense_projection_and_its_leverages(seed):
    coins = np.random.default_rng(seed)
    support = random_support(coins) if seed else make("riverswim").support
    A, c = laws(support)
    x = coins.normal(size=A.shape[1])
    inverse = np.linalg.inv(A @ A.T)
    wanted = whole(support, x - A.T @ inverse @ (A @ x - 7.0 * c))
    flow = SparseFlow(support)
    for found, right in zip(flow.project(whole(support, x), 7.0), wanted, strict=True):
        assert np.allclose(found, right, atol=1e-9)
    left, cells = 1.0 - np.einsum("ij,ik,kj->j", A, inverse, A), support.released
    first, second = len(cells.moves), len(cells.moves) + len(cells.ones)
    assert np.allclose(flow.kept_rewards.ravel()[cells.ones], left[first:second])
    assert np.allclose(flow.kept_rewards.ravel()[cells.zeros], left[second:])
    if first:
        means = np.bincount(flow.row_of, left[:first]) / np.bincount(flow.row_of)
        assert np.allclose(flow.kept_moves[flow.row], means)


def test_a_support_that_allows_everything_is_the_plain_projection():
    H, S, A = 3, 3, 2
    support = Support(moves=np.ones((S, A, S)), horizon=H)
    coins = np.random.default_rng(0)
    moved, ones, zeros = (coins.normal(size=size) for size in ((H - 1, S, A, S), (H, S, A), (H, S, A)))
    flow = SparseFlow(support)
    found = flow.project(FlowCounts(moved.ravel(), ones, zeros), 10.0)
    plain = project(FlowCounts(moved, ones, zeros), 10.0)
    assert np.allclose(found.moved, plain.moved.ravel())
    assert np.allclose(found.ones, plain.ones)
    assert np.allclose(found.zeros, plain.zeros)
    moves, rewards = kept_variance(H, S, A)
    assert np.allclose(flow.kept_moves[:-1], moves[:, None, None])
    assert np.allclose(flow.kept_rewards, rewards[:, None, None])


@pytest.mark.parametrize("pooled", [False, True])
def test_rows_have_their_possible_successors_and_no_others(pooled):
    support = make("riverswim:states=3,horizon=3").support
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=support)
    found = counters_of(shape, pooled).rows
    row = 0 * 6 if pooled else 1 * 6  # step 1: the left bank and one further can be reached
    assert found.to[found.at[row] : found.at[row + 1]].tolist() == [0]  # left, at the left bank
    assert found.to[found.at[row + 1] : found.at[row + 2]].tolist() == [0, 1]  # right
    assert found.to[found.at[row + 3] : found.at[row + 4]].tolist() == [0, 1, 2]
    last = 2 if pooled else 1 * 3 + 2
    bank = found.to[found.at[2 * last] : found.at[2 * last + 2]].tolist()
    assert bank == []  # the right bank is reached at the last step only, which leads nowhere
