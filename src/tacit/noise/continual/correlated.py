"""Correlated noise over batches: the least noise in what a learner uses, for the price of one batch.

A person is in one batch. Whoever releases C x + N(0, σ²) row by row, with C lower triangular and columns of length at
most 1, pays for one release of σ; the increments x̂ = x + e then carry noise e of covariance σ² X⁻¹, X = C'C. Fresh
noise is X = I. A learner that plans batch t + 1 from the sum of all batches up to t suffers

    Σ_t n_{t+1} Var(e_1 + ... + e_t) = σ² tr(M X⁻¹),     M = L' diag(n) L,   L the lower triangle of ones,

which is convex in X. Under diag X = 1 the least is at X = D^-½ (D^½ M D^½)^½ D^-½ with D = diag (D^½ M D^½)^½.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.arrays import Floats
from tacit.errors import require

ROUNDS: Final = 200
"""Iterations of the fixed point; it contracts by a half, so this is far more than enough."""


@lru_cache(maxsize=64)
def correlated_factor(following: tuple[int, ...]) -> Floats:
    """The lower triangular C[t,j] for batches after which so many users act on what was released up to there.

    >>> C = correlated_factor((100, 200, 400))
    >>> bool(np.allclose(np.tril(C), C)), bool(((C**2).sum(axis=0) <= 1.0).all())
    (True, True)
    """
    n = np.array(following, dtype=np.float64)
    require(len(n) > 0 and bool((n > 0).all()), "after every batch somebody must act on it", len(n))
    L = np.tril(np.ones((len(n), len(n))))
    X = _least(L.T @ (n[:, np.newaxis] * L))
    # Columns of length at most 1, for certain: whatever the rounding, the longest is scaled to just below.
    C = _reverse_cholesky(X)
    longest = float(np.sqrt((C * C).sum(axis=0)).max())
    factor = C / (longest * (1.0 + 1e-12))
    factor.setflags(write=False)
    return factor


def _least(M: Floats) -> Floats:
    """The X of unit diagonal with the least tr(M X⁻¹)."""
    D = np.sqrt(np.diag(M))
    for _ in range(ROUNDS):
        root = _root(np.sqrt(D)[:, np.newaxis] * M * np.sqrt(D))
        after = np.diag(root).copy()
        done = bool(np.allclose(after, D, rtol=1e-12, atol=0.0))
        D = after
        if done:
            break
    root = _root(np.sqrt(D)[:, np.newaxis] * M * np.sqrt(D))
    return np.asarray(root / np.sqrt(D)[:, np.newaxis] / np.sqrt(D))


def _root(matrix: Floats) -> Floats:
    """The positive square root of a positive definite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _reverse_cholesky(X: Floats) -> Floats:
    """The lower triangular C with C'C = X: the Cholesky factor of X read from its last row."""
    return np.asarray(np.linalg.cholesky(X[::-1, ::-1])[::-1, ::-1].T)


def sequential(C: Floats, past: Sequence[Floats], fresh: Floats) -> Floats:
    """The noise of the next increment: e_t = (z_t - Σ_{j<t} C_tj e_j) / C_tt, so that C e = z."""
    t = len(past)
    total = fresh.copy()
    for j, earlier in enumerate(past):
        total -= C[t, j] * earlier
    return np.asarray(total / C[t, t])
