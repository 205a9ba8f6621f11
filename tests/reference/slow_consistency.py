"""Slow twins of `tacit.released.consistency`: the printed program itself, by solvers and by bisection."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, minimize


def clamp(n, E):
    """The printed program has no solution below −E/4."""
    return 0.0 if n < -E / 4 else n


def least_deviation(c, n, E):
    """(t*, a minimiser) of min t s.t. x ≥ 0, |x − c| ≤ t, |Σx − n| ≤ E/4, by HiGHS."""
    S = len(c)
    n = clamp(n, E)
    eye, ones = np.eye(S), np.ones((S, 1))
    A = np.vstack(
        [np.hstack([eye, -ones]), np.hstack([-eye, -ones]), np.append(np.ones(S), 0), np.append(-np.ones(S), 0)]
    )
    b = np.concatenate([c, -c, [n + E / 4, -n + E / 4]])
    result = linprog(np.append(np.zeros(S), 1.0), A_ub=A, b_ub=b, bounds=[(0, None)] * (S + 1), method="highs")
    assert result.status == 0, result.message
    return result.fun, result.x[:S]


def projection_by_bisection(c, n, E):
    """The minimiser nearest to c: bisect for t*, then for the multiplier of the sum over the box of minimisers."""
    n = clamp(n, E)
    lo, hi = n - E / 4, n + E / 4

    def feasible(t):
        low, high = np.maximum(c - t, 0), c + t
        return np.all(high >= 0) and low.sum() <= hi and high.sum() >= lo

    a, b = 0.0, np.abs(c).sum() + abs(n) + E + 1
    for _ in range(200):
        t = (a + b) / 2
        a, b = (a, t) if feasible(t) else (t, b)
    low, high = np.maximum(c - b, 0), c + b
    x = np.clip(c, low, high)
    if lo <= x.sum() <= hi:
        return x
    target = hi if x.sum() > hi else lo
    left, right = -(np.abs(c).max() + abs(target) + 1), np.abs(c).max() + abs(target) + 1
    for _ in range(200):
        mid = (left + right) / 2
        left, right = (mid, right) if np.clip(c - mid, low, high).sum() > target else (left, mid)
    return np.clip(c - (left + right) / 2, low, high)


def projection_by_slsqp(c, n, E, t):
    """The same by a general solver for constrained least squares."""
    n = clamp(n, E)
    low, high = np.maximum(c - t, 0), np.maximum(c + t, 0)
    start = least_deviation(c, n, E)[1]
    result = minimize(
        lambda x: 0.5 * np.sum((x - c) ** 2),
        start,
        jac=lambda x: x - c,
        bounds=list(zip(low, high + 1e-12, strict=True)),
        constraints=[
            {"type": "ineq", "fun": lambda x: n + E / 4 - x.sum(), "jac": lambda x: -np.ones_like(x)},
            {"type": "ineq", "fun": lambda x: x.sum() - n + E / 4, "jac": lambda x: np.ones_like(x)},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return result.x
