"""A policy that covers every policy of a set as evenly as possible, with a certificate: Frank-Wolfe on occupancies.

    min over y   sup over d   Σ d_h(s,a) / y_h(s,a)           y, d in D = { d : <u, d> ≥ c }     [bai2025secure] Eq. 3

The minimum is n, the number of coordinates that D reaches (at most H·S·A), and it is attained where Σ log y is largest
(Lemma F11 (coverage)). So Frank-Wolfe climbs Σ log y: the gradient is 1/y, the best direction is one call of the
constrained oracle with w = 1/y, and that very value is the certificate sup_d <1/y, d>. It stops at sup ≤ (1 +
tolerance) n. Coordinates that D does not reach count as 0/0 = 0. D is convex (mixtures of the active policies), and y
belongs to one Markov policy.

The start is the uniform policy, mixed with the most valuable one until it lies in D: a few to a few dozen iterations,
independent of H·S·A oracles for single coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel
from tacit.planning.constrained import blend, inner, linear_maximum, two_point
from tacit.planning.dynamic import occupancy

__all__ = ["Coverage", "cover", "policy_of"]

Floats = NDArray[np.float64]

LIMIT = 2000
"""Iterations after which the best so far is returned, with its true certificate."""


class Coverage(NamedTuple):
    """An occupancy that covers the set, and how well it is known to do so."""

    occupancy: Floats
    """y[h,s,a]"""
    sup: float
    """The certificate: no policy of the set has Σ d/y above it."""
    reached: int
    """n: how many coordinates the set reaches."""
    iterations: int

    def within(self, tolerance: float) -> bool:
        """Whether sup ≤ (1 + tolerance) n."""
        return self.sup <= (1.0 + tolerance) * self.reached * (1.0 + 1e-12)


def cover(P: Floats, rho: Floats, u: Floats, c: float, *, tolerance: float) -> Coverage:
    """Cover all policies with <u, d> ≥ c in the model (P, rho).

    >>> P, rho = np.ones((1, 1, 2, 1)), np.ones(1)
    >>> found = cover(P, rho, np.zeros((1, 1, 2)), 0.0, tolerance=0.01)
    >>> found.occupancy.ravel().tolist(), found.sup, found.reached
    ([0.5, 0.5], 2.0, 2)
    """
    y, sup, reached, iterations = frank_wolfe(P, rho, u, c, tolerance)
    return Coverage(occupancy=y, sup=sup, reached=reached, iterations=iterations)


def policy_of(y: Floats) -> Floats:
    """The Markov policy π(a|s) = y(s,a) / Σ_a y(s,a) of an occupancy, uniform where it never comes.

    >>> policy_of(np.array([[[0.3, 0.1], [0.0, 0.0]]])).round(3).tolist()
    [[[0.75, 0.25], [0.5, 0.5]]]
    """
    total = y.sum(axis=2, keepdims=True)
    even = np.full_like(y, 1.0 / y.shape[2])
    table = np.where(total > 0.0, y / np.where(total > 0.0, total, 1.0), even)
    return np.asarray(table / table.sum(axis=2, keepdims=True))


@kernel
def frank_wolfe(P: Floats, rho: Floats, u: Floats, c: float, tolerance: float) -> tuple[Floats, float, int, int]:
    """(y, sup, n, iterations)."""
    H, S, A = u.shape
    _, highest = linear_maximum(P, rho, u)
    even = np.empty((H, S, A))
    even[:] = 1.0 / A
    y = occupancy(P, rho, even)
    u_y, u_high = inner(u, y), inner(u, highest)
    if u_y < c:
        # The least share of the most valuable policy that makes the mixture feasible
        share = (c - u_y) / (u_high - u_y) if u_high > u_y else 1.0
        share = min(1.0, max(0.0, share))
        y = blend(y, 1.0 - share, highest, share)
    reached = 0
    for h in range(H):
        for s in range(S):
            for a in range(A):
                reached += int(y[h, s, a] > 0.0)
    w = np.zeros((H, S, A))
    sup = np.inf
    best, best_sup = y, np.inf
    iterations = 0
    while iterations < LIMIT:
        iterations += 1
        for h in range(H):
            for s in range(S):
                for a in range(A):
                    w[h, s, a] = 1.0 / y[h, s, a] if y[h, s, a] > 0.0 else 0.0
        sup, d, _, _ = two_point(P, rho, w, u, c, highest)
        if sup < best_sup:
            best, best_sup = y, sup
        if sup <= (1.0 + tolerance) * reached:
            break
        step = _line_search(y, d)
        if step <= 0.0:
            break
        y = blend(y, 1.0 - step, d, step)
    return best, best_sup, reached, iterations


@kernel
def _line_search(y: Floats, d: Floats) -> float:
    """The γ that maximises Σ log((1-γ) y + γ d), by bisection of its decreasing derivative."""
    H, S, A = y.shape
    low, high = 0.0, 1.0
    for _ in range(50):
        step = 0.5 * (low + high)
        slope = 0.0
        for h in range(H):
            for s in range(S):
                for a in range(A):
                    if y[h, s, a] > 0.0:
                        gap = d[h, s, a] - y[h, s, a]
                        slope += gap / (y[h, s, a] + step * gap)
        if slope > 0.0:
            low = step
        else:
            high = step
    return low
