"""The closed form against the printed program, and Assumption 4 as a property."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidInput
from tacit.released.consistency import consistent_counts, repair_row, repair_rows, repair_visits

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from slow_consistency import clamp, least_deviation, projection_by_bisection, projection_by_slsqp


def awkward_rows(seed, count):
    """Rows of every kind: inside, above, below the interval; infeasible totals; ties; one successor; E = 0."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        S = int(rng.choice([1, 2, 3, 4, 7, 16]))
        scale = rng.choice([0.1, 3.0, 100.0])
        c = rng.normal(rng.choice([-1, 0, 2]) * scale, scale, S)
        if rng.random() < 0.3:
            c = np.round(c)
        if rng.random() < 0.1:
            c[:] = c[0]
        n = c.sum() + rng.normal(0, 2 * scale) if rng.random() < 0.7 else rng.normal(0, 5 * scale)
        E = float(rng.choice([0.0, 0.3, 4.0, 200.0]))
        yield c, max(float(n), 0.0) if E == 0 else float(n), E


def unshifted(c, n, E):
    out = np.empty_like(c)
    total = repair_row(c, n, E, out)
    assert total == pytest.approx(out.sum(), rel=1e-12, abs=1e-12)
    return out - E / (2 * len(c))


def test_the_closed_form_attains_the_least_deviation_of_the_linear_program():
    for c, n, E in awkward_rows(1, 300):
        x = unshifted(c, n, E)
        least, _ = least_deviation(c, n, E)
        size = np.abs(c).max() + abs(n) + E + 1
        assert np.abs(x - c).max() == pytest.approx(least, abs=1e-7 * size)
        assert x.min() >= -1e-12 * size
        assert abs(x.sum() - clamp(n, E)) <= E / 4 + 1e-9 * size


def test_it_is_the_euclidean_projection_among_the_minimisers():
    for c, n, E in awkward_rows(2, 300):
        np.testing.assert_allclose(
            unshifted(c, n, E), projection_by_bisection(c, n, E), atol=1e-9 * (np.abs(c).max() + abs(n) + E + 1)
        )


def test_a_general_quadratic_solver_finds_the_same_projection():
    for c, n, E in awkward_rows(3, 25):
        t, _ = least_deviation(c, n, E)
        expected = projection_by_slsqp(c, n, E, t)
        np.testing.assert_allclose(unshifted(c, n, E), expected, atol=2e-5 * (np.abs(c).max() + abs(n) + E + 1))


def test_a_vertex_of_the_linear_program_is_no_projection():
    """The two oracles above are different tests: HiGHS' own minimiser is often farther from the noisy row than ours."""
    farther = 0
    for c, n, E in awkward_rows(4, 100):
        ours, theirs = unshifted(c, n, E), least_deviation(c, n, E)[1]
        assert np.sum((ours - c) ** 2) <= np.sum((theirs - c) ** 2) + 1e-6 * (1 + np.sum(c**2))
        farther += np.sum((theirs - c) ** 2) > np.sum((ours - c) ** 2) + 1e-3
    assert farther >= 20


def test_compiled_and_interpreted_agree_bit_for_bit():
    for c, n, E in awkward_rows(5, 50):
        fast, slow = np.empty_like(c), np.empty_like(c)
        assert repair_row(c, n, E, fast) == repair_row.py_func(c, n, E, slow)
        assert fast.tobytes() == slow.tobytes()


def test_rows_are_repaired_one_by_one():
    rng = np.random.default_rng(6)
    c, n = rng.normal(5, 10, (40, 6)), rng.normal(20, 20, 40)
    out, row = np.empty_like(c), np.empty(6)
    repair_rows(c, n, 8.0, out)
    for i in range(40):
        repair_row(c[i], n[i], 8.0, row)
        assert out[i].tobytes() == row.tobytes()
    cells, totals = consistent_counts(c.reshape(4, 5, 2, 6), n.reshape(4, 5, 2), precision=8.0)
    assert cells.tobytes() == out.tobytes()
    np.testing.assert_array_equal(totals, cells.sum(axis=-1))


def test_exact_counts_with_no_noise_come_back_bit_for_bit():
    counts = np.random.default_rng(7).integers(0, 50, (6, 4, 2, 4)).astype(float)
    cells, totals = consistent_counts(counts, counts.sum(axis=-1), precision=0.0)
    np.testing.assert_array_equal(cells, counts)
    np.testing.assert_array_equal(totals, counts.sum(axis=-1))


# Assumption 4 of [bai2024shuffle], 2.3 of [bai2024adversarial] ------------------------------------------------------


@st.composite
def rows_within_the_bound(draw, *, noisy_visits):
    """True counts of one row and noisy versions, each (or their sum) within E/4 of the truth."""
    S = draw(st.integers(1, 8))
    true = np.array(draw(st.lists(st.integers(0, 60), min_size=S, max_size=S)), dtype=float)
    E = draw(st.floats(0.5, 200))
    unit = st.floats(-1, 1)
    noise = np.array(draw(st.lists(unit, min_size=S, max_size=S))) * E / 4
    if noisy_visits:
        return true, true + noise, true.sum() + draw(unit) * E / 4, E
    noise *= min(1.0, E / 4 / max(abs(noise.sum()), 1e-300))
    return true, true + noise, None, E


def violations(true, cells, total, E):
    """Every clause of the assumption, by name."""
    slack = 1e-9 * (1 + true.sum() + E)
    clauses = {
        "never underestimates": total >= true.sum() - slack,
        "at most E too large": total <= true.sum() + E + slack,
        "cells within E": np.all(np.abs(cells - true) <= E + slack),
        "adds up": abs(cells.sum() - total) <= slack,
        "positive": np.all(cells > 0),
    }
    return {name for name, holds in clauses.items() if not holds}


@settings(deadline=None, max_examples=150)
@given(rows_within_the_bound(noisy_visits=True))
def test_assumption_4_holds_with_released_visits(case):
    true, cells, visits, E = case
    repaired, totals = consistent_counts(cells[None], np.array([visits]), precision=E)
    assert violations(true, repaired[0], totals[0], E) == set()


@settings(deadline=None, max_examples=150)
@given(rows_within_the_bound(noisy_visits=False))
def test_assumption_4_holds_when_visits_are_the_sum_of_transitions(case):
    true, cells, _, E = case
    repaired, totals = consistent_counts(cells[None], None, precision=E)
    assert violations(true, repaired[0], totals[0], E) == set()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 100), st.floats(-1, 1), st.floats(0.5, 200))
def test_a_layer_without_transitions_is_a_row_with_one_successor(true, unit, E):
    noisy = np.array([true + unit * E / 4])
    visits = repair_visits(noisy, precision=E)
    _, totals = consistent_counts(noisy[:, None], noisy, precision=E)
    np.testing.assert_allclose(visits, totals, rtol=1e-12)
    assert violations(np.array([float(true)]), visits, visits[0], E) == set()


def half_shift(c, n, E):
    cells, _ = consistent_counts(c[None], np.array([n]), precision=E)
    return cells[0] - E / (4 * len(c)), cells[0].sum() - E / 4


def cells_alone(c, n, E):
    cells = np.maximum(c, 0) + E / (2 * len(c))
    return cells, cells.sum()


def visits_alone(c, n, E):
    cells, _ = consistent_counts(c[None], np.array([n]), precision=E)
    return cells[0], max(n, 0) + E / 2


def no_shift_of_cells(c, n, E):
    cells, totals = consistent_counts(c[None], np.array([n]), precision=E)
    return cells[0] - E / (2 * len(c)), totals[0]


@pytest.mark.parametrize(
    ("twin", "caught"),
    [
        (half_shift, "never underestimates"),
        (cells_alone, "at most E too large"),
        (visits_alone, "adds up"),
        (no_shift_of_cells, "positive"),
    ],
)
def test_broken_twins_violate_the_clause_they_forget(twin, caught):
    found = set()
    rng = np.random.default_rng(8)
    for _ in range(400):
        S, E = int(rng.integers(2, 9)), float(rng.uniform(4, 100))
        true = rng.integers(0, 20, S) * rng.integers(0, 2, S).astype(float)
        c, n = true + rng.choice([-1, 1], S) * E / 4, true.sum() + rng.choice([-1, 1]) * E / 4
        found |= violations(true, *twin(c, n, E), E)
    assert caught in found


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="precision"):
        consistent_counts(np.zeros((2, 3)), np.zeros(2), precision=float("nan"))
    with pytest.raises(InvalidInput, match="visits must have the shape"):
        consistent_counts(np.zeros((2, 3)), np.zeros(3), precision=1.0)
    with pytest.raises(InvalidInput, match="visits must have the shape"):
        consistent_counts(np.zeros((2, 2, 3)), np.zeros(4), precision=1.0)
    with pytest.raises(InvalidInput, match="precision"):
        repair_visits(np.zeros(3), precision=-1.0)
