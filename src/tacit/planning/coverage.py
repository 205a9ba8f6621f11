"""A policy that covers every policy of a set as evenly as possible, with a certificate: Frank-Wolfe on occupancies.

    min over y   sup over d   Σ d_h(s,a) / y_h(s,a)           y, d in D = { d : <u, d> ≥ c }     [bai2025secure] Eq. 3

The minimum is n, the number of coordinates that D reaches (at most H·S·A), and it is attained where Σ log y is largest
(Lemma F11 (coverage)). So Frank-Wolfe climbs Σ log y: the gradient is 1/y, the best direction is one call of the
constrained oracle with w = 1/y, and that very value is the certificate sup_d <1/y, d>. It stops at sup ≤ (1 +
tolerance) n. Coordinates that D does not reach count as 0/0 = 0. D is convex (mixtures of the active policies), and y
belongs to one Markov policy.

The start is the uniform policy, mixed with the most valuable one until it lies in D: a few to a few dozen iterations,
independent of H·S·A oracles for single coordinates.

The oracle is `two_point`, exact by dynamic programming:

    max <w, d>   over occupancy measures d of the model (P, rho) with   <u, d> ≥ c

is a Markov decision process with one constraint. Its optimum lies on a segment between two deterministic
policies, so the Lagrangian dual is found by a secant: keep an infeasible policy `lo` and a feasible one `hi`, maximise
w + λu for the slope λ of the segment, and replace one end until nothing lies above the segment. Every step is one
backward induction, O(H S² A); a handful of steps suffices (2.8 on average, 9 at most on random models), and the value
equals that of the linear program over all H·S·A variables: Lemma F12 (one constraint).

Rows of P may sum to less than one: the missing mass ends the episode (an absorbing state worth nothing).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.planning.dynamic import linear_values, occupancy

SLACK = 1e-12
"""Relative gain below which nothing lies above the segment, and by which rounding may miss the constraint."""
MAX_PROGRAMS = 200
"""More steps than any model needs: the secant visits each vertex of the dual function once."""
MAX_ITERATIONS = 2000
"""Iterations after which the best so far is returned, with its true certificate."""


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
    V, policy = linear_values(P, w)
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


@kernel
def two_point(
    P: Floats, rho: Floats, w: Floats, u: Floats, c: float, highest: Floats
) -> tuple[float, Floats, int, bool]:
    """The largest <w, d> among those with <u, d> ≥ c: (value, d, how many dynamic programs it took, feasible).

    `highest` is an occupancy with the largest <u, d>; it is returned if no policy meets the constraint. Otherwise d is
    a mixture of at most two deterministic policies.

    >>> P, rho = np.ones((1, 1, 2, 1)), np.ones(1)
    >>> w, u = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]])
    >>> value, d, _, _ = two_point(P, rho, w, u, 0.25, u)
    >>> value, d.ravel().tolist()
    (0.75, [0.75, 0.25])
    """
    value, lo = linear_maximum(P, rho, w)
    if inner(u, lo) >= c:
        return value, lo, 1, True
    hi = highest
    u_hi = inner(u, hi)
    if u_hi <= c:
        return inner(w, hi), hi, 1, u_hi >= c - SLACK * max(1.0, abs(c))
    programs = 1
    w_lo, u_lo, w_hi = inner(w, lo), inner(u, lo), inner(w, hi)
    while programs < MAX_PROGRAMS and u_hi > u_lo:
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
    while iterations < MAX_ITERATIONS:
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
