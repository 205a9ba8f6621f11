"""Confidence intervals lo ≤ P(x'|x,a) ≤ hi of every transition of a layered world, from released counts.

`theory_intervals` is the set of [bai2024adversarial] Eq. 3.1 around P̃ = Ñ(x,a,x')/Ñ(x,a), on repaired counts:

    width = √(2 P̃ (1 - P̃) ln ι / Ñ(x,a)) + (4 E + 7 ln ι) / Ñ(x,a)

Deviation: the second term is printed inside the root; Lemma E.11 and the proofs need it outside.
At published sizes it is vacuous below about 10⁶ episodes (ε = 1), hence `practical_intervals`: the one practical rule
of `tacit.planning.widths`, applied to the value 1{x'}, with the variance of the noise instead of a bound on it.

Both sets hold a distribution for every pair, Σ lo ≤ 1 ≤ Σ hi. A pair that nobody visited may go anywhere (never
P̃ = 0 ± width), and no successor is ruled out for good: hi ≥ 1e-9, or its price would diverge.
"""

from __future__ import annotations

import math

from tacit.arrays import Floats
from tacit.kernels import kernel, lean_kernel
from tacit.planning.layered import LayeredGeometry
from tacit.planning.widths import practical_width, row_model
from tacit.released.consistency import repair_row

MIN_HI = 1e-9


@kernel
def repair_counts(
    geometry: LayeredGeometry, transitions: Floats, visits: Floats, precision: float, counts: Floats, totals: Floats
) -> int:
    """Write Ñ(x,a,x') into counts[triples] and Ñ(x,a) into totals[pairs]; return how many pairs had no solution.

    [bai2024adversarial] Eq. 5.1 and 5.2, pair by pair: `repair_row` is the Euclidean projection onto {n ≥ 0, |Σ n -
    Ñ(x,a)| ≤ E/4}, one of the many solutions of the printed linear programme, plus E/(2 X_{h+1}) in every cell. The
    programme has no solution where the noisy total is below -E/4. With E from theory that is outside the good event;
    with E scaled down it is ordinary. Such rows are repaired with the total 0. Without noise (E = 0) exact counts come
    back as they are.

    >>> import numpy as np
    >>> from tacit.planning.layered import layered_geometry
    >>> fork, counts, totals = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(3)
    >>> noisy, visits = np.array([7.0, -3.0, 1.0, -9.0]), np.array([3.0, 1.0, -9.0])
    >>> repair_counts(fork, noisy, visits, 4.0, counts, totals), counts.tolist(), totals.tolist()
    (1, [5.0, 1.0, 3.0, 2.0], [6.0, 3.0, 2.0])
    """
    edges = geometry.edges
    infeasible = 0
    for pair in range(len(edges) - 1):
        first, last = edges[pair], edges[pair + 1]
        if not visits[pair] >= -precision / 4:
            infeasible += 1
        totals[pair] = repair_row(transitions[first:last], visits[pair], precision, counts[first:last])
    return infeasible


@lean_kernel
def theory_intervals(
    geometry: LayeredGeometry,
    counts: Floats,
    totals: Floats,
    precision: float,
    log_term: float,
    multiplier: float,
    lo: Floats,
    hi: Floats,
) -> None:
    """Eq. 3.1 for repaired counts[triples] and totals[pairs]; E = precision, ln ι = log_term, times a multiplier.

    >>> import numpy as np
    >>> from tacit.planning.layered import layered_geometry
    >>> fork, lo, hi = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(4)
    >>> counts, totals = np.array([160.0, 40.0, 5.0, 0.0]), np.array([200.0, 5.0, 0.0])
    >>> theory_intervals(fork, counts, totals, 0.0, 2.0, 1.0, lo, hi)
    >>> lo.round(3).tolist(), hi.round(3).tolist()
    ([0.673, 0.073, 1.0, 1.0], [0.927, 0.327, 1.0, 1.0])
    """
    edges = geometry.edges
    for pair in range(len(edges) - 1):
        first, last, n = edges[pair], edges[pair + 1], totals[pair]
        for i in range(first, last):
            p, width = 0.0, 1.0
            if n > 0.0:
                p = counts[i] / n
                # β = √(2 P̃(1-P̃) ln ι / Ñ) + (4E + 7 ln ι)/Ñ
                spread = math.sqrt(2.0 * max(0.0, p * (1.0 - p)) * log_term / n)
                width = multiplier * (spread + (4.0 * precision + 7.0 * log_term) / n)
            _interval(last - first, p, width, i, lo, hi)


@kernel
def practical_intervals(
    geometry: LayeredGeometry,
    transitions: Floats,
    visits: Floats,
    count_variance: float,
    z: float,
    lo: Floats,
    hi: Floats,
    scratch: Floats,
) -> None:
    """The practical rule for released transitions[triples], unrepaired; scratch[triples] receives P̃.

    >>> import numpy as np
    >>> from tacit.planning.layered import layered_geometry
    >>> fork, lo, hi = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(4)
    >>> noisy, visits = np.array([163.0, 37.0, 6.0, -2.0]), np.array([200.0, 6.0, -2.0])
    >>> practical_intervals(fork, noisy, visits, 9.0, 1.0, lo, hi, np.empty(4))
    >>> lo.round(3).tolist(), hi.round(3).tolist()
    ([0.783, 0.153, 1.0, 1.0], [0.847, 0.217, 1.0, 1.0])
    """
    edges = geometry.edges
    for pair in range(len(edges) - 1):
        first, last = edges[pair], edges[pair + 1]
        m = last - first
        n, _ = row_model(transitions[first:last], visits[pair], 0.0, count_variance, scratch[first:last])
        for i in range(first, last):
            p, width = 0.0, 1.0
            if n > 0.0:
                p = scratch[i]
                # V = 1{x'}: Var V = p(1-p), and Σ_y (V(y) - p)² = (1-p)² + (m-1) p²
                spread = (1.0 - p) * (1.0 - p) + (m - 1) * p * p
                width = practical_width(z, 1, n, 0.0, max(0.0, p * (1.0 - p)), spread, count_variance, 0.0)
            _interval(m, p, width, i, lo, hi)


@lean_kernel
def known_intervals(transitions: Floats, lo: Floats, hi: Floats) -> None:
    """Known transitions[triples] (O-REPS): lo = hi = P.

    >>> import numpy as np
    >>> lo, hi = np.empty(2), np.empty(2)
    >>> known_intervals(np.array([0.3, 0.7]), lo, hi)
    >>> lo.tolist() == hi.tolist() == [0.3, 0.7]
    True
    """
    for i in range(len(transitions)):
        lo[i] = transitions[i]
        hi[i] = transitions[i]


@lean_kernel
def _interval(successors: int, p: float, width: float, i: int, lo: Floats, hi: Floats) -> None:
    """P̃ ± width within [0, 1]; a single successor is certain."""
    if successors == 1:
        lo[i], hi[i] = 1.0, 1.0
    else:
        lo[i] = max(0.0, p - width)
        hi[i] = max(MIN_HI, min(1.0, p + width))
