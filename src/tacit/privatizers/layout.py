"""Where each counter of a release stands in one flat vector.

    [ transitions (stages with a successor) | rewards | visits, or complements N - R | squares of rewards, if released ]

Noise is drawn for the whole vector; families differ only in what is added to it and in what is read back.

Whatever a user reports is clipped first, on the device or by the curator: states and actions into their public ranges,
rewards into [0, 1], NaN to 0. So nothing raises on data, and no user can move more than `families()` says.
"""

from __future__ import annotations

import math  # noqa: F401  (for the doctests)

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel, lean_kernel
from tacit.released.counts import CountShape, CountStatistics

__all__ = [
    "add_vector",
    "clipped_index",
    "clipped_reward",
    "dimension_of",
    "exact_vector",
    "outcome_cell",
    "transition_cell",
    "transition_cells",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def dimension_of(shape: CountShape, *, squares: bool = False) -> int:
    """The length of the vector; a vector that is longer by one block of cells holds squares of rewards in it.

    >>> dimension_of(CountShape(horizon=6, num_states=4, num_actions=2, staged=True))
    256
    """
    stages, S, A = shape.stages, shape.num_states, shape.num_actions
    return int(transition_cells(shape.horizon, stages, S, A)) + (3 if squares else 2) * stages * S * A


@kernel
def clipped_index(index: int, size: int) -> int:
    """A state or an action in 0..size-1, whatever was reported.

    >>> [clipped_index(i, 4) for i in (-7, 2, 99)]
    [0, 2, 3]
    """
    return max(0, min(index, size - 1))


@kernel
def clipped_reward(reward: float) -> float:
    """A reward in [0, 1], whatever was reported; NaN counts as 0.

    >>> [clipped_reward(r) for r in (-3.0, 0.25, math.inf, math.nan)]
    [0.0, 0.25, 1.0, 0.0]
    """
    return min(reward, 1.0) if reward > 0.0 else 0.0  # a comparison with NaN is false


@kernel
def transition_cells(horizon: int, stages: int, S: int, A: int) -> int:
    """How many counters the transitions take: the last step has no successor."""
    if horizon == 1:
        return 0
    return (stages - 1 if stages > 1 else 1) * S * A * S


@kernel
def transition_cell(stage: int, s: int, a: int, t: int, S: int, A: int) -> int:
    """The place of N(s,a,s')."""
    return ((stage * S + s) * A + a) * S + t


@kernel
def outcome_cell(stage: int, s: int, a: int, S: int, A: int) -> int:
    """The place of R(s,a) behind the transitions; N(s,a) or N - R stands one block of cells further."""
    return (stage * S + s) * A + a


@lean_kernel
def exact_vector(
    vector: Floats, stages: int, S: int, A: int, complement: bool, states: Ints, actions: Ints, rewards: Floats
) -> None:
    """Add one user's exact statistics to the vector."""
    horizon = actions.shape[0]
    base = transition_cells(horizon, stages, S, A)
    block = stages * S * A
    for h in range(horizon):
        stage = min(h, stages - 1)
        s, a, r = clipped_index(states[h], S), clipped_index(actions[h], A), clipped_reward(rewards[h])
        cell = base + outcome_cell(stage, s, a, S, A)
        vector[cell] += r
        # Complement encoding: a visit with reward r puts r into R and 1 - r into N - R.
        vector[cell + block] += 1.0 - r if complement else 1.0
        if vector.shape[0] > base + 2 * block:
            vector[cell + 2 * block] += r * r
        if h < horizon - 1:
            vector[transition_cell(stage, s, a, clipped_index(states[h + 1], S), S, A)] += 1.0


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
