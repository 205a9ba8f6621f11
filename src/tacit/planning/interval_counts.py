"""Released counts of a layered world made consistent, pair by pair: [bai2024adversarial] Eq. 5.1 and 5.2.

The row of each pair is repaired by `tacit.released.consistency.repair_row`: the Euclidean projection onto
{n ≥ 0, |Σ n - Ñ(x,a)| ≤ E/4}, which is one of the many solutions of the printed linear programme, plus E/(2 X_{h+1}) in
every cell. The programme has no solution where the noisy total is below -E/4. With E from theory that is outside the
good event; with E scaled down it is ordinary. Such rows are repaired with the total 0, and counted.

Without noise (E = 0) exact counts come back as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel
from tacit.planning.layered import LayeredGeometry
from tacit.released.consistency import repair_row

__all__ = ["repair_counts"]

Floats = NDArray[np.float64]


@kernel
def repair_counts(
    geometry: LayeredGeometry,
    transitions: Floats,
    visits: Floats,
    precision: float,
    counts: Floats,
    totals: Floats,
) -> int:
    """Write Ñ(x,a,x') into counts[triples] and Ñ(x,a) into totals[pairs]; return how many pairs had no solution.

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
