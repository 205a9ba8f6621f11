"""Ties between actions are broken at random: the first action would mean "left" in RiverSwim, which never explores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import inlined, lean_kernel

__all__ = ["break_ties"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@inlined
@lean_kernel
def break_ties(Q: Floats, V: Floats, ties: Ints, policy: Ints, generator: np.random.Generator) -> None:
    """Write one of the best actions of each state, all alike, to policy[h,s]; V[h,s] is the best Q, `ties` counts them.

    >>> policy = np.zeros((1, 1), dtype=np.int64)
    >>> Q, V, ties = np.array([[[1.0, 3.0, 3.0]]]), np.array([[3.0]]), np.array([[2]])
    >>> generator = np.random.default_rng(0)
    >>> chosen = set()
    >>> for _ in range(50):
    ...     break_ties(Q, V, ties, policy, generator)
    ...     chosen.add(int(policy[0, 0]))
    >>> sorted(chosen)
    [1, 2]
    """
    H, S, A = Q.shape
    for h in range(H):
        for s in range(S):
            # Without a branch that no processor could predict.
            skip, choice = int(generator.random() * ties[h, s]), 0
            for a in range(A):
                tied = int(Q[h, s, a] == V[h, s])
                choice = a if tied & (skip == 0) else choice
                skip -= tied
            policy[h, s] = choice
