"""One user's statistics in a message of additive noise: over all counters, or over those of a declared support."""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import lean_kernel
from tacit.noise.layout import (
    clipped_index,
    clipped_reward,
    exact_vector,
    outcome_cell,
    rounded_vector,
    transition_cells,
)
from tacit.noise.protocol import EncoderParameters
from tacit.noise.support_index import SupportIndex, position_of


@lean_kernel
def message_parts(parameters: EncoderParameters, message: Floats, horizon: int) -> tuple[int, int]:
    """How many counters of transitions a message has, and how many in all; scratch space may come behind them."""
    places = parameters.places
    if places.declared:
        return places.moves.shape[0], message.shape[0] - max(places.moved, places.outcomes)
    return transition_cells(horizon, parameters.stages, parameters.S, parameters.A), message.shape[0]


@lean_kernel
def user_vector(
    parameters: EncoderParameters,
    vector: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    rounded: bool,
    generator: np.random.Generator,
) -> None:
    """Add one user's statistics to the vector, with rewards as they are or rounded to 0 or 1 at random."""
    stages, S, A, complement = parameters.stages, parameters.S, parameters.A, parameters.complement
    places = parameters.places
    if places.declared:
        placed_vector(places, vector, stages, S, A, complement, states, actions, rewards, rounded, generator)
    elif rounded:
        rounded_vector(vector, stages, S, A, complement, states, actions, rewards, generator)
    else:
        exact_vector(vector, stages, S, A, complement, states, actions, rewards)


@lean_kernel
def placed_vector(
    places: SupportIndex,
    vector: Floats,
    stages: int,
    S: int,
    A: int,
    complement: bool,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    rounded: bool,
    generator: np.random.Generator,
) -> None:
    """The same over a declared support: a step that it excludes sets no counter (Lemma S9 (declared support))."""
    horizon = actions.shape[0]
    first = places.moves.shape[0]
    other = first + places.ones.shape[0]
    for h in range(horizon):
        s, a = clipped_index(states[h], S), clipped_index(actions[h], A)
        r = clipped_reward(rewards[h])
        if rounded:
            r = 1.0 if generator.random() < rewards[h] else 0.0  # certain from 1 on, never for NaN: a clip of its own
        row = outcome_cell(min(h, stages - 1), s, a, S, A)
        zero, one = position_of(places.zeros, row), position_of(places.ones, row)
        if one < 0:
            r = 0.0  # a reward where none can be counts as a visit without one
        else:
            vector[first + one] += r
            if not complement:  # squares of rewards are released
                vector[other + places.zeros.shape[0] + one] += r * r
        if zero >= 0:
            vector[other + zero] += 1.0 - r if complement else 1.0
        if h < horizon - 1:
            move = position_of(places.moves, row * S + clipped_index(states[h + 1], S))
            if move >= 0:
                vector[move] += 1.0
