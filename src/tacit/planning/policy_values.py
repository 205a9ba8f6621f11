"""Values of many policies at once, over possible successors: what a simulator asks about the groups of a batch.

The same operations in the same order as `dynamic.evaluate_stochastic`, without those that add a zero.
"""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.lazy_jit import lazy_jit


def _work(start: Ints, to: Ints, p: Floats, r: Floats, tables: Floats) -> int:
    J, H, S, A = tables.shape
    return int(J * H * S * (A + len(to) * A // (len(start) - 1)))


@lazy_jit(_work)
@kernel
def first_values(start: Ints, to: Ints, p: Floats, r: Floats, tables: Floats) -> Floats:
    """V_1[j,s] of policies with probabilities tables[j,h,s,a]; the successors of row i are to[start[i] : start[i+1]].

    >>> start, to = np.array([0, 1, 2]), np.array([1, 1])
    >>> first_values(start, to, np.ones(2), np.array([[[0.0], [1.0]]]), np.ones((1, 3, 2, 1))).tolist()
    [[2.0, 3.0]]
    """
    J, H, S, A = tables.shape
    stages, paid = (len(start) - 1) // (S * A), r.shape[0]
    found = np.zeros((J, S))
    V, ahead = np.zeros(S), np.zeros(S)
    for j in range(J):
        ahead[:] = 0.0
        for h in range(H - 1, -1, -1):
            stage, pays = min(h, stages - 1), min(h, paid - 1)
            for s in range(S):
                value = 0.0
                for a in range(A):
                    if tables[j, h, s, a] > 0.0:
                        # V_h(s) = Σ_a π(a|s) [ r_h(s,a) + Σ_s' P_h(s'|s,a) V_{h+1}(s') ]
                        total = r[pays, s, a]
                        row = (stage * S + s) * A + a
                        for c in range(start[row], start[row + 1]):
                            total += p[c] * ahead[to[c]]
                        value += tables[j, h, s, a] * total
                V[s] = value
            ahead[:] = V
        found[j] = V
    return found
