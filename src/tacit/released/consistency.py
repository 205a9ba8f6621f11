"""Noisy counts made consistent: never too small, rows that add up, every cell positive.

What: for each (h, s, a), the row N_noisy(s, a, ·) and its total N_noisy(s, a) become N_tilde with
    N_tilde(s, a) = Σ_s' N_tilde(s, a, s'),   N(s, a) ≤ N_tilde(s, a) ≤ N(s, a) + E,   N_tilde(s, a, s') > 0,
    |N_tilde(s, a, s') − N(s, a, s')| ≤ E,
whenever every noisy number is within E/4 of the truth (Assumption 4 of [bai2024shuffle], 2.3 of [bai2024adversarial]).
It is post-processing: only released numbers and the public constant E enter.

The printed linear program ([bai2024shuffle] Eq. 4, [bai2024adversarial] Eq. 5.1) is

    min t   subject to   x ≥ 0,   |x_i − c_i| ≤ t,   |Σ x − n| ≤ E/4        (c = N_noisy(s, a, ·), n = N_noisy(s, a))

and has many solutions; tacit takes the one nearest to c in Euclidean norm. It has a closed form,

    x_i = (c_i − τ)₊    where τ = 0 if Σ (c_i)₊ lies in [n − E/4, n + E/4], else τ puts Σ x on the nearer end.

which attains the least t and is the projection of c onto the whole feasible set: Lemma F1 (nearest consistent row),
Lemma F2 (private counts).

The program has no solution iff n < −E/4; then n is clamped to 0 first, which only moves it towards the truth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats
from tacit.errors import InvalidInput, require, require_real
from tacit.kernels import kernel


def consistent_counts(
    transitions: NDArray[np.floating], visits: NDArray[np.floating] | None, *, precision: float
) -> tuple[Floats, Floats]:
    """Consistent (transitions [..., S], visits [...]) from noisy ones, whatever the leading axes are.

    Without a released family of visits (`visits=None`) a row's total is the sum of its noisy cells; a quarter of
    `precision` must then bound the error of that sum and of each cell.

    >>> cells, totals = consistent_counts(np.array([[7.0, -3.0, 1.0]]), np.array([6.0]), precision=4.0)
    >>> cells.round(3), totals.round(3)      # x = (6.5, 0, 0.5) sums to the end 6 + E/4, then each cell gets E/(2S)
    (array([[7.167, 0.667, 1.167]]), array([9.]))
    """
    E = require_real("precision", precision, low=0.0)
    cells = np.ascontiguousarray(transitions, dtype=np.float64)
    require(cells.ndim >= 1 and cells.shape[-1] >= 1, "transitions must have a last axis of successors", cells.shape)
    lead, S = cells.shape[:-1], cells.shape[-1]
    rows = cells.reshape(-1, S)
    if visits is None:
        # The row's own sum stands in: |Σ_s' N_noisy(s, a, s') − N(s, a)| ≤ E/4 is all that the proof uses.
        totals = rows.sum(axis=1)
    else:
        given = np.ascontiguousarray(visits, dtype=np.float64)
        if given.shape != lead:
            raise InvalidInput(f"visits must have the shape {lead} of the rows of transitions, got {given.shape}")
        totals = given.reshape(-1)
    out = np.empty_like(rows)
    repair_rows(rows, totals, E, out)
    # The total is the sum of what is released, so the rows add up whatever was rounded before.
    return out.reshape(cells.shape), out.sum(axis=1).reshape(lead)


@kernel
def repair_row(N_noisy: Floats, n_noisy: float, E: float, out: Floats) -> float:
    """One row [S]: write N_tilde(s, a, ·) into `out` (another array than `N_noisy`) and return N_tilde(s, a).

    `out` doubles as the heap that is sorted just as far as the threshold needs, so nothing is allocated.

    >>> out = np.empty(3)
    >>> repair_row(np.array([7.0, -3.0, 1.0]), 6.0, 4.0, out), out.round(3).tolist()
    (9.0, [7.167, 0.667, 1.167])
    """
    S = N_noisy.shape[0]
    # Deviation: the printed program is infeasible below −E/4; the true count is not negative, so 0 is nearer to it.
    n = n_noisy if n_noisy >= -E / 4 else 0.0
    above = 0.0
    for i in range(S):
        above += max(N_noisy[i], 0.0)
    lo, hi = n - E / 4, n + E / 4
    tau = 0.0 if lo <= above <= hi else _threshold(N_noisy, hi if above > hi else lo, out)
    total = 0.0
    for i in range(S):
        # N̄(s,a,s') = (c − τ)₊;  Ñ(s,a,s') = N̄(s,a,s') + E/(2S)    [bai2024shuffle] Eq. 5, [bai2024adversarial] Eq. 5.2
        out[i] = max(N_noisy[i] - tau, 0.0) + E / (2 * S)
        total += out[i]
    return total


@kernel
def repair_rows(N_noisy: Floats, n_noisy: Floats, E: float, out: Floats) -> None:
    """All rows: N_noisy [rows, S] and n_noisy [rows] become N_tilde in `out` [rows, S]; its row sums are N_tilde(s, a).

    A reduction: exact counts and E = 0 come back bit for bit.

    >>> counts, out = np.array([[3.0, 0.0], [0.0, 0.0]]), np.empty((2, 2))
    >>> repair_rows(counts, counts.sum(axis=1), 0.0, out)
    >>> out.tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    for row in range(N_noisy.shape[0]):
        repair_row(N_noisy[row], n_noisy[row], E, out[row])


def repair_visits(n_noisy: NDArray[np.floating], *, precision: float) -> Floats:
    """Visits of a layer without transitions (the last one): N_tilde = max(n, 0) + E/2, between N and N + E.

    It is the program for a row with a single successor.

    >>> repair_visits(np.array([-1.0, 5.0]), precision=4.0).tolist()
    [2.0, 7.0]
    """
    E = require_real("precision", precision, low=0.0)
    return np.maximum(np.asarray(n_noisy, dtype=np.float64), 0.0) + E / 2


@kernel
def _threshold(c: Floats, target: float, heap: Floats) -> float:
    """The τ with Σ (c_i − τ)₊ = target ≥ 0: take the largest entries one by one until the next one stays below τ."""
    S = c.shape[0]
    for i in range(S):
        heap[i] = c[i]
    for i in range(S // 2 - 1, -1, -1):
        _sift_down(heap, i, S)
    total, tau = 0.0, 0.0
    for taken in range(1, S + 1):
        largest = heap[0]
        # With k entries active: τ = (Σ active − target) / k; the next entry joins iff it exceeds τ.
        if taken > 1 and largest <= tau:
            break
        total += largest
        tau = (total - target) / taken
        heap[0] = heap[S - taken]
        _sift_down(heap, 0, S - taken)
    return tau


@kernel
def _sift_down(heap: Floats, start: int, size: int) -> None:
    """Restore the max-heap below `start`."""
    at, value = start, heap[start]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
