"""One optimistic policy after another within a batch: each is planned as if the ones before it had reported already.

A batch is too large for a single optimistic policy: all users would explore the same way. So every policy of a batch
adds the visits that it would make in the model ("hallucinated" visits) to the counts before the next one is planned;
widths shrink where users are already on their way, and the next policy looks elsewhere.

Unknown rows are worth all that remains, until enough users are on their way to make them known; then their promise
fades in proportion. This last rule is ad hoc.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel
from tacit.planning.widths import practical_width

__all__ = ["optimistic_policies"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def optimistic_policies(
    P: Floats,
    rho: Floats,
    r: Floats,
    n: Floats,
    variance: Floats,
    z: float,
    visits: float,
    enough: float,
    coins: Floats,
    policies: Ints,
) -> None:
    """Write policies[j,h,s], j = 0, 1, ...: each user group j makes `visits` episodes; `enough` make a row known.

    coins[j,h,s] in [0, 1) break ties, all alike.
    """
    J, H, S = policies.shape
    A = r.shape[2]
    fake = np.zeros((H, S, A))
    V = np.zeros((H + 1, S))
    Q = np.zeros(A)
    for j in range(J):
        for h in range(H - 1, -1, -1):
            remaining = H - h
            for s in range(S):
                best, ties = -np.inf, 0
                for a in range(A):
                    if n[h, s, a] <= 0.0:
                        # Worth everything; fading once `enough` users are on their way
                        Q[a] = remaining * min(1.0, enough / max(fake[h, s, a], 1e-9))
                    else:
                        mean, squares, spread = 0.0, 0.0, 0.0
                        if h < H - 1:
                            for t in range(S):
                                mean += P[h, s, a, t] * V[h + 1, t]
                            for t in range(S):
                                gap = V[h + 1, t] - mean
                                squares += P[h, s, a, t] * gap * gap
                                spread += gap * gap
                        count = n[h, s, a] + fake[h, s, a]
                        b = practical_width(z, remaining, count, r[h, s, a], squares, spread, variance[0], variance[2])
                        Q[a] = min(float(remaining), r[h, s, a] + mean + b)
                    ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                    best = max(best, Q[a])
                V[h, s] = best
                skip = int(coins[j, h, s] * ties)
                for a in range(A):
                    if Q[a] == best:
                        if skip == 0:
                            policies[j, h, s] = a
                            break
                        skip -= 1
        at = rho.copy()
        for h in range(H):
            following = np.zeros(S)
            for s in range(S):
                a = policies[j, h, s]
                fake[h, s, a] += visits * at[s]
                if h < H - 1:
                    for t in range(S):
                        following[t] += at[s] * P[h, s, a, t]
            at = following
