"""Where each counter of a message stands in one flat vector, and one user's statistics in it.

    [ transitions (stages with a successor) | rewards | visits, or complements N - R | squares of rewards, if released ]

Whatever a user reports is clipped first, on the device or by the curator: states and actions into their public ranges,
rewards into [0, 1], NaN to 0. So nothing raises on data, and no user can move more than `families()` says.

One-bit and integer noise needs whole counts: there a reward is rounded to {0, 1} at random, with itself as probability.
Then every step is a slot of outcomes (even numbers), all but the last one a slot of transitions (odd ones), and a slot
is one one-hot vector (two for outcomes, unless complements make one of them).
"""

from __future__ import annotations

import math  # noqa: F401  (for the doctests)

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel, lean_kernel
from tacit.mechanisms.protocol import Counts, Encoding, Shape

__all__ = [
    "clipped_index",
    "clipped_reward",
    "exact_vector",
    "flattened",
    "hot_cells",
    "outcome_cell",
    "rounded_rewards",
    "rounded_vector",
    "slot_cells",
    "slot_counts",
    "transition_cell",
    "transition_cells",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
def rounded_vector(
    vector: Floats,
    stages: int,
    S: int,
    A: int,
    complement: bool,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Add one user's statistics to the vector, with rewards rounded to 0 or 1 at random."""
    horizon = actions.shape[0]
    base = transition_cells(horizon, stages, S, A)
    block = stages * S * A
    for h in range(horizon):
        stage = min(h, stages - 1)
        s, a = clipped_index(states[h], S), clipped_index(actions[h], A)
        r = 1.0 if generator.random() < rewards[h] else 0.0  # certain from 1 on, never for NaN: a clip of its own
        cell = base + outcome_cell(stage, s, a, S, A)
        vector[cell] += r
        vector[cell + block] += 1.0 - r if complement else 1.0
        if vector.shape[0] > base + 2 * block:
            vector[cell + 2 * block] += r
        if h < horizon - 1:
            vector[transition_cell(stage, s, a, clipped_index(states[h + 1], S), S, A)] += 1.0


def slot_cells(encoding: Encoding, shape: Shape, slot: int) -> list[Ints]:
    """Where the cells of each one-hot vector of a slot stand in a message."""
    S, A, stage = shape.num_states, shape.num_actions, min(slot // 2, shape.stages - 1)
    if slot % 2 == 1:
        return [transition_cell(stage, 0, 0, 0, S, A) + np.arange(S * A * S)]
    first = transition_cells(shape.horizon, shape.stages, S, A) + outcome_cell(stage, 0, 0, S, A)
    earned = first + np.arange(S * A)
    other = earned + shape.stages * S * A
    return [np.concatenate([earned, other])] if encoding == "complement" else [earned, other]


def hot_cells(encoding: Encoding, shape: Shape, slot: int, states: Ints, actions: Ints, ones: Ints) -> list[int]:
    """Which cell of each one-hot vector of a slot is the true one; -1 for none. `ones` are rewards of 0 or 1."""
    S, A, h = shape.num_states, shape.num_actions, slot // 2
    s, a = clipped_index(int(states[h]), S), clipped_index(int(actions[h]), A)
    cell = s * A + a
    if slot % 2 == 1:
        return [cell * S + clipped_index(int(states[h + 1]), S)]
    if encoding == "complement":
        return [cell if ones[h] else S * A + cell]
    return [cell if ones[h] else -1, cell]


def slot_counts(encoding: Encoding, counts: Counts, rewards: Floats) -> list[Floats]:
    """Per step: outcomes [2, S, A], then, if there is a successor, transitions [S, A, S]."""
    slots: list[Floats] = []
    for h in range(len(counts.visits)):
        other = counts.visits[h] - rewards[h] if encoding == "complement" else counts.visits[h].astype(np.float64)
        slots.append(np.stack([rewards[h], other]))
        if h < len(counts.visits) - 1:
            slots.append(counts.transitions[h].astype(np.float64))
    return slots


def rounded_rewards(counts: Counts, generator: np.random.Generator) -> Floats:
    """The sums of rewards that were rounded to {0, 1} visit by visit.

    From sums alone that can be drawn exactly only when all visits of a cell earn the same reward or 0 and 1: both kinds
    of rewards that environments have.
    """
    if counts.binary:
        return counts.rewards
    mean = np.clip(counts.rewards / np.maximum(counts.visits, 1), 0.0, 1.0)
    return np.asarray(generator.binomial(counts.visits, mean), dtype=np.float64)


def flattened(shape: Shape, slots: list[Floats]) -> Floats:
    """Slots in the layout of a message: transitions, rewards, visits or complements; pooled if steps are."""
    outcomes, transitions = np.stack(slots[0::2]), slots[1::2]  # [H, 2, S, A], (H-1) x [S, A, S]
    moved = np.stack(transitions) if transitions else np.zeros((0, *outcomes.shape[2:], outcomes.shape[2]))
    if not shape.staged:
        outcomes = outcomes.sum(axis=0, keepdims=True)
        moved = moved.sum(axis=0, keepdims=True) if len(moved) else moved
    return np.concatenate([moved.ravel(), outcomes[:, 0].ravel(), outcomes[:, 1].ravel()])
