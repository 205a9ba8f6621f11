"""The k-ary tree with subtraction: the identity that makes it online and adaptively private, and its error."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_counters import kary_exposure, kary_nodes

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import PureEvent
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, PrivacyBudgetExceeded
from tacit.noise.continual import kary_tree as kary_tree_stream
from tacit.noise.continual.counter import sample_path
from tacit.noise.continual.kary_tree import (
    KaryTree,
    balanced_digits,
    best_arity,
    kary_levels,
)
from tacit.noise.continual.tree import LaplaceTree
from tacit.noise.laplace import laplace_sum_tail
from tacit.randomness import SimulationNoise

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

from counter_checks import covariance_misfit, impulse_response
from slow_counters import kary_tree_matrices, prefix_matrix

ONE = Family(name="count", up=1, down=0, shift=1.0)
VISITS = Family(name="visits", up=6, down=6, shift=1.0)
SHAPES = [(1, 3), (2, 3), (4, 3), (5, 3), (40, 3), (60, 5), (62, 5), (63, 5), (200, 7)]


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


@pytest.mark.parametrize(("last", "arity"), SHAPES)
def test_kary_tree_g1_no_user_is_in_more_nodes_than_levels(last: int, arity: int) -> None:
    _, C, _ = kary_tree_matrices(last, arity)
    tree = KaryTree(steps=last + 1, release_final=False, arity=arity, scale=2.0)
    assert C.sum(axis=0).max() == kary_exposure(last, arity) == kary_levels(last, arity) == tree.levels
    assert tree.events(VISITS) == ((PureEvent(epsilon=tree.levels / 2.0), 12),)
    assert epsilon_of(tree.events(VISITS), 0.0) == pytest.approx(12 * tree.levels / 2.0)


@pytest.mark.parametrize(("last", "arity"), SHAPES)
def test_kary_tree_g1_future_users_cancel_exactly(last: int, arity: int) -> None:
    """B C = A, also for users who have not arrived: what the adaptive proof needs, (B C e_i)_t = 0 for t < i."""
    B, C, _ = kary_tree_matrices(last, arity)
    product = B @ C
    assert np.array_equal(product[:, :last], prefix_matrix(last))
    assert not product[:, last:].any()
    early = (B != 0) @ C  # yet nodes with users of the future are in use
    assert last < 2 or early[np.triu_indices(last, 1, early.shape[1])].any()


def test_kary_tree_g1_the_loss_under_an_adaptive_adversary_is_at_most_epsilon_and_attained() -> None:
    """Base 3: prefix 2 already uses the two nodes of user 3, and user 3's change is chosen after seeing prefix 2."""
    b, grid = 1.5, np.arange(-30, 31)
    v, w = np.meshgrid(grid, grid)  # v = Z_block + x_3 (prefix 3), w = Z_block − Z_leaf (prefix 2)
    change = np.where(w > 2, -1, 1)

    def log_density(x_3):  # of (w, v), up to a constant: Z_block = v − x_3, Z_leaf = v − x_3 − w
        return -(np.abs(v - x_3) + np.abs(v - x_3 - w)) / b

    loss = log_density(0) - log_density(change)
    ((event, _),) = KaryTree(steps=4, release_final=False, arity=3, scale=b).events(ONE)
    assert np.abs(loss).max() == pytest.approx(event.epsilon)
    assert event.epsilon == pytest.approx(2 / b)


def test_broken_twins_are_caught() -> None:
    """One level too few, or noise redrawn while its node is in use."""
    _, C, _ = kary_tree_matrices(200, 7)
    assert math.floor(math.log(200, 7)) < C.sum(axis=0).max()  # levels from an unrounded logarithm
    # Every other prefix from fresh node noise: no longer B Z.
    path = sample_path(KaryTree(steps=13, release_final=True, arity=3, scale=2.0), 20_000, seeded(2))
    B, _, _ = kary_tree_matrices(13, 3)
    fresh = sample_path(KaryTree(steps=13, release_final=True, arity=3, scale=2.0), 20_000, seeded(3))
    mixed = np.where(np.arange(13)[:, None] % 2 == 0, path, fresh)
    assert covariance_misfit(mixed, 8.0 * B @ B.T) > 5.5


@pytest.mark.statistical
def test_kary_tree_g2_error_and_covariance_of_the_stream() -> None:
    """False alarms below 1e-5 (largest of 91 z-scores under 5.5); a scale 25% off is rejected."""
    tree = KaryTree(steps=13, release_final=True, arity=3, scale=2.0)
    B, _, _ = kary_tree_matrices(13, 3)
    expected = B @ B.T * tree.node_variance
    assert np.diag(expected) == pytest.approx([tree.variance_at(k) for k in range(1, 14)])
    path = sample_path(tree, 40_000, seeded(1))
    assert covariance_misfit(path, expected) < 5.5
    assert covariance_misfit(1.25 * path, expected) > 5.5


@pytest.mark.parametrize(("last", "arity"), SHAPES)
def test_kary_tree_g4_the_stream_is_the_matrix_b_exactly(last: int, arity: int) -> None:
    B, _, nodes = kary_tree_matrices(last, arity)
    tree = KaryTree(steps=last, release_final=True, arity=arity, scale=1.0)
    streamed = impulse_response(tree, len(nodes))
    # The two number their nodes differently; sorted columns are the same set.
    assert np.array_equal(streamed[:, np.lexsort(streamed)], B[:, np.lexsort(B)])
    for k in range(1, last + 1):
        assert {
            (index * arity**level, arity**level, sign) for level, index, sign in kary_nodes(k, arity, tree.levels)
        } == {(*nodes[j], int(B[k - 1, j])) for j in np.flatnonzero(B[k - 1])}
        assert tree.terms_at(k) == np.abs(B[k - 1]).sum()


def test_kary_tree_g3_radius_covers_exactly() -> None:
    tree = KaryTree(steps=1000, release_final=False, arity=7, scale=2.0)
    for p in (0.05, 1e-6):
        t = tree.radius(p) / 2.0
        assert laplace_sum_tail(tree.max_terms, t) <= p < laplace_sum_tail(tree.max_terms, 0.9999 * t)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_kary_tree_g5_calibration_is_private_and_least(delta: float) -> None:
    tree = KaryTree.calibrate([VISITS, ONE], 1.0, delta, 1024)
    assert epsilon_of(tree.events(VISITS) + tree.events(ONE), delta) <= 1.0
    less = KaryTree(steps=1024, release_final=False, arity=tree.arity, scale=0.999 * tree.scale)
    assert epsilon_of(less.events(VISITS) + less.events(ONE), delta) > 1.0


@given(last=st.integers(1, 4000), half=st.integers(1, 20))
@settings(deadline=None, max_examples=40)
def test_digits_and_the_largest_number_of_terms(last: int, half: int) -> None:
    arity = 2 * half + 1
    tree = KaryTree(steps=last, release_final=True, arity=arity, scale=1.0)
    digits = balanced_digits(last, arity, tree.levels)
    assert sum(digit * arity**j for j, digit in enumerate(digits)) == last
    assert max(map(abs, digits)) <= half
    assert max(tree.terms_at(k) for k in range(1, last + 1)) == tree.max_terms


def test_a_third_of_the_binary_tree_at_20000() -> None:
    """15-ary Laplace has std 29 where the binary tree has 79."""
    tree = KaryTree.calibrate([ONE], 1.0, 0.0, 20_000)
    binary = LaplaceTree.calibrate([ONE], 1.0, 0.0, 20_000)
    assert (tree.arity, tree.levels) == (15, 4)
    assert tree.max_std == pytest.approx(29.4, abs=0.05)
    assert binary.max_std / tree.max_std == pytest.approx(2.70, abs=0.01)
    assert all(best_arity(20_000) == 15 for _ in range(2))
    with pytest.raises(InvalidInput, match="odd"):
        KaryTree.calibrate([ONE], 1.0, 0.0, 20_000, arity=14)


def test_the_budget_ends_and_memory_stays_small() -> None:
    tree = KaryTree(steps=6, release_final=False, arity=3, scale=4.0)
    state, generator = tree.begin(40), np.random.default_rng(1)
    for _ in range(5):
        tree.step(tree.params, state, generator)
    with pytest.raises(PrivacyBudgetExceeded):
        tree.step(tree.params, state, generator)
    assert sum(part.nbytes for part in KaryTree.calibrate([ONE], 1.0, 0.0, 10**8).begin(288)) < 2_000_000


def test_interpreted_and_compiled_streams_agree_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = KaryTree(steps=150, release_final=True, arity=5, scale=7.3)
    path = sample_path(tree, 5, seeded(4))
    for name in ("fill_laplace", "kary_draws_needed", "kary_advance"):
        monkeypatch.setattr(kary_tree_stream, name, getattr(kary_tree_stream, name).py_func)
    state, generator = tree.begin(5), np.random.default_rng(4)
    for k, row in enumerate(path, start=1):
        assert kary_tree_stream.kary_draws_needed(tree.params, state) == tree.draws_at(k)
        tree.step.py_func(tree.params, state, generator)  # type: ignore[attr-defined]
        assert np.array_equal(state.noise, row)
