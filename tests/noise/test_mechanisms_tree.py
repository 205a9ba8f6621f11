"""The binary tree: what is released, how often one user is in it, how far it errs; and twins that must be caught."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from slow_counters import released_nodes, tree_exposure

from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import LaplaceEvent
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, PrivacyBudgetExceeded
from tacit.kernels import kernel
from tacit.noise import laplace
from tacit.noise.continual import tree as tree_stream
from tacit.noise.continual.counter import allocate_laplace, sample_path
from tacit.noise.continual.tree import (
    LaplaceTree,
    tree_levels,
)
from tacit.noise.laplace import (
    discrete_laplace_variance,
    laplace_radius,
    laplace_sum_chernoff,
    laplace_sum_radius,
    laplace_sum_tail,
)
from tacit.randomness import SimulationNoise

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

from counter_checks import covariance_misfit, impulse_response
from slow_counters import binary_tree_matrices, prefix_matrix

ONE = Family(name="count", up=1, down=0, shift=1.0)
P, N = (Family(name=name, up=6, down=6, shift=1.0) for name in ("P", "N"))
LOSS = Family(name="loss", up=42, down=0, shift=1.0)
LENGTHS = (8, 10, 16, 100, 1000)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def faults(nodes_of, users_of, steps: int, claimed: int) -> list[str]:
    """Replay a tree: every prefix must be the disjoint union of complete nodes, and nobody in more than `claimed`."""
    found, released = [], set()
    for k in range(1, steps):
        users = [user for node in nodes_of(k) for user in users_of(node)]
        if sorted(users) != list(range(1, k + 1)):
            found.append(f"prefix {k} is not the sum of its nodes")
        released.update(nodes_of(k))
    exposure = np.bincount([user for node in released for user in users_of(node)])
    if exposure.max() > claimed:
        found.append(f"a user is in {exposure.max()} released nodes, {claimed} are paid for")
    return found


def users_of(node: tuple[int, int]) -> range:
    level, index = node
    return range((index << level) + 1, ((index + 1) << level) + 1)


@pytest.mark.parametrize("K", LENGTHS)
def test_laplace_tree_g1_exposure_by_enumeration(K: int) -> None:
    tree = LaplaceTree(steps=K, release_final=False, scale=3.0)
    assert faults(released_nodes, users_of, K, tree.levels) == []
    assert tree_exposure(K) == tree.levels == tree_levels(K) == math.ceil(math.log2(K))
    assert tree_exposure(K, release_final=True) == tree_levels(K, release_final=True) == K.bit_length()
    ((event, count),) = tree.events(P)
    assert (event, count) == (LaplaceEvent(scale=3.0, shift=1.0, discrete=False), 12 * tree.levels)
    assert epsilon_of(tree.events(P), 0.0) == pytest.approx(12 * tree.levels / 3.0)


@given(K=st.integers(1, 3000), final=st.booleans())
@settings(deadline=None, max_examples=30)
def test_exposure_is_the_number_of_levels_for_every_length(K: int, final: bool) -> None:
    tree = LaplaceTree(steps=K, release_final=final, scale=1.0)
    if tree.releases:
        assert tree_exposure(K, release_final=final) == tree.levels
        assert max(tree.terms_at(k) for k in range(1, tree.releases + 1)) == tree.max_terms


def test_broken_twins_of_the_indices_are_caught() -> None:
    def one_leaf_late(node: tuple[int, int]) -> range:  # user k at leaf k, as printed: leaf 0 stays empty
        level, index = node
        return range(max(1, index << level), (index + 1) << level)

    assert faults(released_nodes, one_leaf_late, 100, tree_levels(100))
    assert faults(released_nodes, users_of, 100, math.ceil(math.log(100)))  # levels from ln K
    assert faults(released_nodes, users_of, 100, math.floor(math.log2(100)))  # unrounded log₂ K
    assert not faults(released_nodes, users_of, 100, tree_levels(100))


@pytest.mark.parametrize("last", [1, 2, 7, 12, 33])
def test_laplace_tree_g4_the_stream_is_the_matrix_b_exactly(last: int) -> None:
    B, C, nodes = binary_tree_matrices(last)
    assert np.array_equal(B @ C, prefix_matrix(last))
    tree = LaplaceTree(steps=last, release_final=True, scale=1.0)
    # Nodes are numbered in the order of their first use, in both; so the response to unit draws is B itself.
    assert np.array_equal(impulse_response(tree, len(nodes)), B)
    assert C.sum(axis=0).max() == tree.levels


@pytest.mark.statistical
@pytest.mark.parametrize(
    "tree",
    [
        LaplaceTree(steps=8, release_final=False, scale=3.0),
        LaplaceTree(steps=8, release_final=False, scale=3.0, padded=True),
    ],
    ids=["laplace", "padded"],
)
def test_laplace_tree_g2_error_and_covariance_of_the_stream(tree: LaplaceTree) -> None:
    """False alarms below 1e-5 (largest of 28 z-scores under 5.5); a scale 25% off, or redrawn noise, is rejected."""
    B, _, _ = binary_tree_matrices(7)
    expected = B @ B.T * (tree.variance_at(1) / tree.terms_at(1))
    expected[np.diag_indices(7)] = [tree.variance_at(k) for k in range(1, 8)]
    path = sample_path(tree, 40_000, seeded(1))
    assert covariance_misfit(path, expected) < 5.5
    assert covariance_misfit(1.25 * path, expected) > 5.5
    redrawn = np.concatenate([sample_path(tree, 40_000, seeded(10 + k))[k : k + 1] for k in range(7)])
    assert covariance_misfit(redrawn, expected) > 5.5  # fresh node noise at every step: caught
    assert tree.max_std == pytest.approx(max(tree.std_at(k) for k in range(1, 8)))


def test_the_padded_variant_has_exactly_levels_terms_everywhere() -> None:
    tree = LaplaceTree(steps=1000, release_final=False, scale=2.0, padded=True)
    plain = LaplaceTree(steps=1000, release_final=False, scale=2.0)
    assert {tree.std_at(k) for k in (1, 2, 511, 999)} == {2.0 * math.sqrt(2 * 10)}
    assert {tree.draws_at(k) + k.bit_count() for k in (1, 2, 511, 999)} == {11}
    assert tree.events(P) == plain.events(P)  # fresh noise is post-processing
    assert plain.max_std < tree.max_std


def test_laplace_tree_g3_radius_covers_exactly() -> None:
    tree = LaplaceTree(steps=1000, release_final=False, scale=2.0)
    for p in (0.05, 1e-6):
        t = tree.radius(p) / 2.0
        assert laplace_sum_tail(tree.max_terms, t) <= p < laplace_sum_tail(tree.max_terms, 0.9999 * t)
        closed = math.sqrt(8 * max(tree.max_terms, math.log(2 / p)) * math.log(2 / p))
        assert t < laplace_sum_chernoff(tree.max_terms, p) < closed  # Lemma N6 (closed Laplace radius)
    assert tree.radius(0.05, terms=4) == pytest.approx(2.0 * laplace_sum_radius(4 * tree.max_terms, 0.05))


@pytest.mark.parametrize("n", [1, 2, 5, 14])
def test_the_tail_of_a_sum_of_laplace_variables_against_its_bessel_density(n: int) -> None:
    def density(t):
        order = mpmath.mpf(n) - mpmath.mpf(1) / 2
        scale = mpmath.sqrt(mpmath.pi) * mpmath.gamma(n) * mpmath.mpf(2) ** order
        return t**order * mpmath.besselk(order, t) / scale

    for t in (0.3, 4.0, 25.0):
        exact = 2 * mpmath.quad(density, [t, t + 5, t + 20, t + 80])
        assert laplace_sum_tail(n, t) == pytest.approx(float(exact), rel=1e-8)


def test_chernoff_covers_the_discrete_sum() -> None:
    b, n, p = 1.5, 6, 1e-3
    z = np.arange(-200, 201)
    pmf = np.exp(-np.abs(z) / b)
    pmf /= pmf.sum()
    assert discrete_laplace_variance(b) == pytest.approx(float(pmf @ z**2))
    total = pmf
    for _ in range(n - 1):
        total = np.convolve(total, pmf)
    values = np.arange(total.size) - total.size // 2
    radius = laplace_radius(n, p, scale=b, discrete=True)
    assert 0.0 < total[np.abs(values) > radius].sum() <= p


@pytest.mark.parametrize(("delta", "final"), [(0.0, False), (0.0, True), (1e-6, False)])
def test_laplace_tree_g5_calibration_is_private_and_least(delta: float, final: bool) -> None:
    tree = LaplaceTree.calibrate([P, N], 1.0, delta, 1024, release_final=final)
    assert epsilon_of(tree.events(P) + tree.events(N), delta) <= 1.0
    less = LaplaceTree(steps=1024, release_final=final, scale=0.999 * tree.scale)
    assert epsilon_of(less.events(P) + less.events(N), delta) > 1.0


def test_the_numbers_of_the_central_laplace_tree() -> None:
    """docs/guarantees.md, rows 8 and 9, and Lemma C8 (allocation): H=6, K=1e4, X'A=42."""
    L = tree_levels(10_000)
    assert L == 14
    paper = LaplaceTree(steps=10_000, release_final=False, scale=3 * 6 * L, padded=True)
    events = [pair for family in (N, P, LOSS) for pair in paper.events(family)]
    assert paper.max_std == pytest.approx(1333.4, abs=0.1)
    assert epsilon_of(tuple(events), 0.0) == pytest.approx(3.667, abs=1e-3)
    assert epsilon_of(tuple(events), 1e-6) == pytest.approx(0.484, abs=1e-3)
    full = LaplaceTree.calibrate([N, P, LOSS], 1.0, 1e-6, 10_000)
    assert full.scale / paper.scale == pytest.approx(0.508, abs=1e-3)
    assert delta_of(tuple(pair for f in (N, P, LOSS) for pair in full.events(f)), 1.0) <= 1e-6


def test_pure_allocation_is_optimal_and_has_the_notes_numbers() -> None:
    b = allocate_laplace([P, LOSS], [1.0, 1.0], 1.0, [14, 14])
    assert [scale * math.sqrt(28) for scale in b] == pytest.approx([2938, 4461], abs=0.5)
    families, weights, counts = [N, P, LOSS], [2.0, 1.0, 0.5], [14, 14, 1]
    b = allocate_laplace(families, weights, 0.7, counts)
    costs = np.array([f.l1 * n for f, n in zip(families, counts, strict=True)])
    assert 0.7 * (1 - 1e-9) < costs @ (1 / np.array(b)) <= 0.7
    oracle = optimize.minimize(  # over the budget shares
        lambda v: np.dot(weights, (costs * np.exp(v).sum() / np.exp(v) / 0.7) ** 2), np.zeros(3), tol=1e-12
    )
    assert np.dot(weights, np.square(b)) == pytest.approx(oracle.fun, rel=1e-6)


def test_the_binary_tree_at_20000() -> None:
    assert LaplaceTree.calibrate([ONE], 1.0, 0.0, 20_000).max_std == pytest.approx(79.4, abs=0.05)


def test_the_kernel_ends_with_the_budget() -> None:
    tree = LaplaceTree(steps=4, release_final=False, scale=1.0)
    state, noise = tree.begin(2), seeded(3)
    for _ in range(3):
        tree.step(tree.params, state, noise.generator)
    with pytest.raises(PrivacyBudgetExceeded):
        tree.step(tree.params, state, noise.generator)


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan])
def test_bad_input_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput):
        LaplaceTree(steps=bad, release_final=False, scale=1.0)  # type: ignore[arg-type]
    if bad != 1.5:
        with pytest.raises(InvalidInput):
            LaplaceTree(steps=5, release_final=False, scale=bad)
        with pytest.raises(InvalidInput):
            LaplaceTree.calibrate([ONE], bad, 0.0, 5)
    with pytest.raises(InvalidInput):
        LaplaceTree(steps=5, release_final=False, scale=1.0).std_at(5)


@pytest.mark.parametrize("padded", [False, True])
def test_interpreted_and_compiled_streams_agree_to_the_bit(padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = [
        LaplaceTree(steps=70, release_final=True, scale=7.3, padded=padded),
    ]
    compiled = [sample_path(tree, 5, seeded(4)) for tree in trees]
    monkeypatch.setattr(laplace, "laplace_draw", laplace.laplace_draw.py_func)
    for name in ("fill_laplace", "draws_needed", "tree_advance"):
        monkeypatch.setattr(tree_stream, name, getattr(tree_stream, name).py_func)
    for tree, path in zip(trees, compiled, strict=True):
        state, generator = tree.begin(5), np.random.default_rng(4)
        for row in path:
            tree.step.py_func(tree.params, state, generator)  # type: ignore[attr-defined]
            assert np.array_equal(state.noise, row)


def test_the_stream_fuses_into_a_larger_loop_and_its_memory_does_not_grow() -> None:
    step = tree_stream.laplace_tree_step

    @kernel
    def loop(params, state, generator, times):
        for _ in range(times):
            step(params, state, generator)

    tree = LaplaceTree(steps=10**8, release_final=False, scale=1.0)
    state = tree.begin(288)
    before = sum(part.nbytes for part in state)
    assert before < 100_000
    loop(tree.params, state, np.random.default_rng(0), 1000)
    assert state.time[0] == 1000
    assert sum(part.nbytes for part in state) == before
    short = LaplaceTree(steps=2000, release_final=False, scale=1.0)
    assert np.array_equal(sample_path(short, 288, seeded(0))[999], state.noise)
