"""Where each counter of a release stands in one flat vector.

    [ transitions (stages with a successor) | rewards | visits, or complements N - R | squares of rewards, if released ]

Noise is drawn for the whole vector; families differ only in what is added to it and in what is read back. Places of
single counters and one user's own vector: `tacit.mechanisms.noise.layout`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import lean_kernel
from tacit.mechanisms.noise.layout import transition_cells
from tacit.released.counts import CountShape, CountStatistics

__all__ = ["add_vector", "dimension_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def dimension_of(shape: CountShape, *, squares: bool = False) -> int:
    """The length of the vector; a vector that is longer by one block of cells holds squares of rewards in it.

    >>> dimension_of(CountShape(horizon=6, num_states=4, num_actions=2, staged=True))
    256
    """
    stages, S, A = shape.stages, shape.num_states, shape.num_actions
    return int(transition_cells(shape.horizon, stages, S, A)) + (3 if squares else 2) * stages * S * A


@lean_kernel
def add_vector(released: CountStatistics, vector: Floats, complement: bool, horizon: int) -> None:
    """The analyzer: add a (noisy) vector to the released totals."""
    stages, S, A = released.visits.shape
    c = 0
    if horizon > 1:
        for h in range(stages - 1 if stages > 1 else 1):
            for s in range(S):
                for a in range(A):
                    for t in range(S):
                        released.transitions[h, s, a, t] += vector[c]
                        c += 1
    block = stages * S * A
    squares = vector.shape[0] > c + 2 * block
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                reward, other = vector[c], vector[c + block]
                released.rewards[h, s, a] += reward
                # Not released: rewards count as binary, their own squares.
                released.squares[h, s, a] += vector[c + 2 * block] if squares else reward
                # Ñ = R̃ + (N - R)~
                released.visits[h, s, a] += reward + other if complement else other
                c += 1
