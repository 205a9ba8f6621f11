"""The exact maximum of a linear function over occupancy measures with one linear constraint, by dynamic programming.

    max <w, d>   over occupancy measures d of the model (P, rho) with   <u, d> ≥ c

is a constrained Markov decision process with one constraint. Its optimum lies on a segment between two deterministic
policies, so the Lagrangian dual is found by a secant: keep an infeasible policy `lo` and a feasible one `hi`, maximise
w + λu for the slope λ of the segment, and replace one end until nothing lies above the segment. Every step is one
backward induction, O(H S² A); a handful of steps suffices (2.8 on average, 9 at most on random models), and the value
equals that of the linear program over all H·S·A variables: Lemma F12 (one constraint).

Rows of P may sum to less than one: the missing mass ends the episode (an absorbing state worth nothing).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel

__all__ = ["ConstrainedOptimum", "blend", "constrained_maximum", "inner", "linear_maximum", "two_point"]

Floats = NDArray[np.float64]

SLACK = 1e-12
"""Relative gain below which nothing lies above the segment, and by which rounding may miss the constraint."""
LIMIT = 200
"""More steps than any model needs: the secant visits each vertex of the dual function once."""


class ConstrainedOptimum(NamedTuple):
    """The optimum and how it was found."""

    value: float
    """<w, d>"""
    occupancy: Floats
    """d[h,s,a], a mixture of at most two deterministic policies."""
    programs: int
    """How many dynamic programs it took."""
    feasible: bool
    """Whether any policy meets the constraint; if none does, d is the one that comes nearest."""


@kernel
def inner(left: Floats, right: Floats) -> float:
    """<left, right> over all steps, states and actions."""
    total = 0.0
    H, S, A = left.shape
    for h in range(H):
        for s in range(S):
            for a in range(A):
                total += left[h, s, a] * right[h, s, a]
    return total


@kernel
def blend(left: Floats, weight: float, right: Floats, other: float) -> Floats:
    """Weight · left + other · right, by loops: array expressions take numba many seconds to compile."""
    H, S, A = left.shape
    out = np.empty((H, S, A))
    for h in range(H):
        for s in range(S):
            for a in range(A):
                out[h, s, a] = weight * left[h, s, a] + other * right[h, s, a]
    return out


@kernel
def linear_maximum(P: Floats, rho: Floats, w: Floats) -> tuple[float, Floats]:
    """The largest <w, d> over all policies, and the occupancy d of a deterministic policy that attains it.

    >>> P = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    >>> w = np.array([[[0.0, 0.0], [0.0, 0.0]], [[0.1, 0.0], [1.0, 0.0]]])
    >>> value, d = linear_maximum(P, np.array([1.0, 0.0]), w)
    >>> value, d[0].tolist(), d[1].tolist()
    (1.0, [[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]])
    """
    H, S, A = w.shape
    V = np.zeros((H + 1, S))
    policy = np.zeros((H, S), dtype=np.int64)
    for h in range(H - 1, -1, -1):
        stage = min(h, P.shape[0] - 1)
        for s in range(S):
            for a in range(A):
                Q = w[h, s, a]
                if h < H - 1:
                    for t in range(S):
                        Q += P[stage, s, a, t] * V[h + 1, t]
                if a == 0 or Q > V[h, s]:
                    V[h, s] = Q
                    policy[h, s] = a
    d = np.zeros((H, S, A))
    at = rho.copy()
    for h in range(H):
        stage = min(h, P.shape[0] - 1)
        following = np.zeros(S)
        for s in range(S):
            if at[s] > 0.0:
                a = policy[h, s]
                d[h, s, a] = at[s]
                if h < H - 1:
                    for t in range(S):
                        following[t] += at[s] * P[stage, s, a, t]
        at = following
    value = 0.0
    for s in range(S):
        value += rho[s] * V[0, s]
    return value, d


def constrained_maximum(P: Floats, rho: Floats, w: Floats, u: Floats, c: float) -> ConstrainedOptimum:
    """The occupancy measure with the largest <w, d> among those with <u, d> ≥ c.

    >>> P, rho = np.ones((1, 1, 2, 1)), np.ones(1)
    >>> w, u = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]])
    >>> best = constrained_maximum(P, rho, w, u, 0.25)
    >>> best.value, best.occupancy.ravel().tolist()
    (0.75, [0.75, 0.25])
    """
    _, highest = linear_maximum(P, rho, u)
    value, d, programs, feasible = two_point(P, rho, w, u, c, highest)
    return ConstrainedOptimum(value=value, occupancy=d, programs=programs + 1, feasible=feasible)


@kernel
def two_point(
    P: Floats, rho: Floats, w: Floats, u: Floats, c: float, highest: Floats
) -> tuple[float, Floats, int, bool]:
    """`constrained_maximum` when `highest`, an occupancy with the largest <u, d>, is known already."""
    value, lo = linear_maximum(P, rho, w)
    if inner(u, lo) >= c:
        return value, lo, 1, True
    hi = highest
    u_hi = inner(u, hi)
    if u_hi <= c:
        return inner(w, hi), hi, 1, u_hi >= c - SLACK * max(1.0, abs(c))
    programs = 1
    w_lo, u_lo, w_hi = inner(w, lo), inner(u, lo), inner(w, hi)
    while programs < LIMIT and u_hi > u_lo:
        # λ = (<w,lo> - <w,hi>) / (<u,hi> - <u,lo>): both ends are worth the same under w + λu
        slope = (w_lo - w_hi) / (u_hi - u_lo)
        if slope <= 0.0:
            return w_hi, hi, programs, True
        reached, d = linear_maximum(P, rho, blend(w, 1.0, u, slope))
        programs += 1
        level = w_lo + slope * u_lo
        if reached <= level + SLACK * max(1.0, abs(level)):
            break
        w_d, u_d = inner(w, d), inner(u, d)
        if u_d >= c:
            hi, w_hi, u_hi = d, w_d, u_d
        else:
            lo, w_lo, u_lo = d, w_d, u_d
    share = (u_hi - c) / (u_hi - u_lo) if u_hi > u_lo else 0.0
    # The mixture that meets the constraint exactly: <u, d> = c
    return share * w_lo + (1.0 - share) * w_hi, blend(lo, share, hi, 1.0 - share), programs, True
