"""Correlated noise over batches: the factor is lawful and optimal, and the noise has the stated covariance."""

import cvxpy as cp
import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.release.central_batches import correlated_factor, sequential

FOLLOWING = (100, 125, 156, 195, 4000)


def objective(C, n):
    inverse = np.linalg.inv(C)
    prefixes = np.tril(np.ones(C.shape)) @ inverse
    return float((np.array(n) * (prefixes**2).sum(axis=1)).sum())


@pytest.mark.parametrize("following", [(5,), (3, 3), FOLLOWING, tuple(range(1, 30))])
def test_the_factor_is_lower_triangular_with_columns_of_length_one(following):
    C = correlated_factor(following)
    assert np.array_equal(np.tril(C), C)
    lengths = np.sqrt((C**2).sum(axis=0))
    assert (lengths <= 1.0).all()
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-6)


def test_no_other_matrix_has_less_noise():
    """The same problem by a semidefinite solver: min tr(M X⁻¹) under diag X ≤ 1."""
    n = np.array(FOLLOWING, dtype=float)
    L = np.tril(np.ones((len(n), len(n))))
    root = np.sqrt(n)[:, None] * L
    X = cp.Variable((len(n), len(n)), PSD=True)
    # tr(M X⁻¹) = Σ_i w_i' X⁻¹ w_i over the rows w_i of the root
    problem = cp.Problem(cp.Minimize(sum(cp.matrix_frac(w, X) for w in root)), [cp.diag(X) <= 1])
    problem.solve(solver=cp.CLARABEL)
    found = objective(correlated_factor(FOLLOWING), FOLLOWING)
    assert found == pytest.approx(problem.value, rel=1e-5)
    fresh = objective(np.eye(len(n)), FOLLOWING)
    assert found < 0.75 * fresh


def test_noise_drawn_one_after_the_other_solves_the_system():
    C = correlated_factor(FOLLOWING)
    fresh = np.random.default_rng(0).normal(size=(5, 7))
    past = []
    for z in fresh:
        past.append(sequential(C, past, z))
    np.testing.assert_allclose(C @ np.array(past), fresh, atol=1e-9)


def test_a_batch_on_which_nobody_acts_is_refused():
    with pytest.raises(InvalidInput, match="must have users who act"):
        correlated_factor((3, 0))
