"""Where each counter of a message stands in one flat vector, and one user's statistics in it.

    [ transitions (stages with a successor) | rewards | visits, or complements N - R | squares of rewards, if released ]

Whatever a user reports is clipped first, on the device or by the curator: states and actions into their public ranges,
rewards into [0, 1], NaN to 0. So nothing raises on data, and no user can move more than `families()` says.

One-bit and integer noise needs whole counts: there a reward is rounded to {0, 1} at random, with itself as probability.
Then every step is a slot of outcomes (even numbers), all but the last one a slot of transitions (odd ones), and a slot
is one one-hot vector (two for outcomes, unless complements make one of them).

Slots on a device and in aggregate: one-hot vectors of a trajectory, sent bit by bit or as subsets.

Kernels write a slot into a message, de-biased on arrival; a mechanism brings the kernel that sends one vector. In
aggregate, what the senders of each slot hold is drawn without drawing the users: those who chose a slot are a random
group, and the groups flow through the layers, hypergeometrically. Counts do not say who did what; so all users of the
batch must have followed one Markov policy in one environment, as those of a simulated batch do.
"""

from __future__ import annotations

import math  # noqa: F401  (for the doctests)
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel, lean_kernel
from tacit.noise.protocol import Counts, EncoderParameters, Encoding, Shape
from tacit.noise.support_index import SupportIndex, places_of, position_of, slot_places, true_category


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
    if shape.support is not None:
        return [slot_places(places_of(shape), slot, shape.stages)]
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
    if shape.support is not None:
        row, stage = min(h, shape.stages - 1) * S * A + cell, min(h, shape.stages - 1)
        following = row * S + clipped_index(int(states[h + 1]), S) if slot % 2 else -1
        return [true_category(places_of(shape), slot, stage, row, following, bool(ones[h]))]
    if slot % 2 == 1:
        return [cell * S + clipped_index(int(states[h + 1]), S)]
    if encoding == "complement":
        return [cell if ones[h] else S * A + cell]
    return [cell if ones[h] else -1, cell]


def slot_bits(encoding: Encoding, shape: Shape, slot: int) -> list[int]:
    """How many bits each one-hot vector of a slot has: those of `slot_cells`, and categories that nobody reads."""
    places = places_of(shape)
    if places.declared:
        return [places.moved if slot % 2 else places.outcomes]
    return [len(cells) for cells in slot_cells(encoding, shape, slot)]


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


class Bits(NamedTuple):
    """How the bits of one one-hot vector are randomized and de-biased."""

    keep: float
    """The probability that a one is sent as one."""
    rise: float
    """The probability that a zero is sent as one."""
    gain: float
    """The factor of the de-biasing."""


@lean_kernel
def send_bits(
    bits: Bits, message: Floats, first: int, half: int, jump: int, cells: int, hot: int, generator: np.random.Generator
) -> None:
    """Send a one-hot vector; cell i stands at message[first + i], or from `half` on `jump` further."""
    # n̂ = (bit - q) / (p - q), times the number of slots where only one is sent
    for i in range(cells):
        c = first + i + (jump if i >= half else 0)
        sent = generator.random() < (bits.keep if i == hot else bits.rise)
        message[c] += bits.gain * ((1.0 if sent else 0.0) - bits.rise)


@cache
def slot_sender(send: Callable[..., None]) -> Callable[..., None]:
    """The kernel that writes one slot of a trajectory into a message; `send` sends one vector, as `send_bits` does."""

    @lean_kernel
    def send_category(
        parameters: EncoderParameters,
        message: Floats,
        slot: int,
        stage: int,
        s: int,
        a: int,
        states: Ints,
        rewards: Floats,
        generator: np.random.Generator,
    ) -> None:
        places, h, S = parameters.places, slot // 2, parameters.S
        scratch = message.shape[0] - max(places.moved, places.outcomes)
        row = outcome_cell(stage, s, a, S, parameters.A)
        if slot % 2 == 1:
            hot = true_category(places, slot, stage, row, row * S + clipped_index(states[h + 1], S), False)
            send(parameters.transition, message, scratch, places.moved, 0, places.moved, hot, generator)
            first, count = places.first_move[stage], places.first_move[stage + 1] - places.first_move[stage]
            for i in range(count):
                message[first + i] += message[scratch + i]
        else:
            one = generator.random() < rewards[h]
            hot = true_category(places, slot, stage, row, -1, one)
            send(parameters.outcome, message, scratch, places.outcomes, 0, places.outcomes, hot, generator)
            first = places.moves.shape[0] + places.first_one[stage]
            ones = places.first_one[stage + 1] - places.first_one[stage]
            for i in range(ones):
                message[first + i] += message[scratch + i]
            first = places.moves.shape[0] + places.ones.shape[0] + places.first_zero[stage]
            count = places.first_zero[stage + 1] - places.first_zero[stage]
            for i in range(count):
                message[first + i] += message[scratch + ones + i]
        for c in range(scratch, message.shape[0]):
            message[c] = 0.0

    @lean_kernel
    def send_slot(
        parameters: EncoderParameters,
        message: Floats,
        slot: int,
        states: Ints,
        actions: Ints,
        rewards: Floats,
        generator: np.random.Generator,
    ) -> None:
        stages, S, A = parameters.stages, parameters.S, parameters.A
        horizon = actions.shape[0]
        h = slot // 2
        stage = min(h, stages - 1)
        s, a = clipped_index(states[h], S), clipped_index(actions[h], A)
        if parameters.places.declared:
            send_category(parameters, message, slot, stage, s, a, states, rewards, generator)
            return
        base = transition_cells(horizon, stages, S, A)
        block = stages * S * A
        if slot % 2 == 1:
            first = transition_cell(stage, 0, 0, 0, S, A)
            hot = transition_cell(stage, s, a, clipped_index(states[h + 1], S), S, A) - first
            send(parameters.transition, message, first, S * A * S, 0, S * A * S, hot, generator)
            return
        first = base + outcome_cell(stage, 0, 0, S, A)
        cell = base + outcome_cell(stage, s, a, S, A) - first
        one = generator.random() < rewards[h]  # certain from 1 on, never for NaN: a clip of its own
        bits = parameters.outcome
        if parameters.complement:
            # (s,a) with reward 1, or (s,a) with reward 0: one of the two blocks holds the one
            hot = cell if one else S * A + cell
            send(bits, message, first, S * A, block - S * A, 2 * S * A, hot, generator)
        else:
            send(bits, message, first, S * A, 0, S * A, cell if one else -1, generator)
            send(bits, message, first + block, S * A, 0, S * A, cell, generator)

    return send_slot


def held_slots(counts: Counts, rewards: Floats, senders: Ints, generator: np.random.Generator) -> list[Ints]:
    """What the senders of each slot hold in it: the groups flow through the layers, drawn without replacement.

    Slots of one user depend on each other, and sums over the steps show it: so the groups cannot be drawn slot by slot.
    Given the counts, users in one state are exchangeable, because they follow one Markov policy in one environment.
    """
    H, S, A = counts.visits.shape
    at = _shared(counts.visits[0].sum(axis=1), senders, generator)  # [groups, S]: where they are
    slots: list[Ints] = []
    for h in range(H):
        at[0], at[1 : 2 * h] = at[: max(1, 2 * h)].sum(axis=0), 0  # those who have sent: one group, of no interest
        outcomes, moved = np.zeros((2, S, A), dtype=np.int64), np.zeros((S, A, S), dtype=np.int64)
        after = np.zeros_like(at)
        for s in np.flatnonzero(counts.visits[h].any(axis=1)):  # nobody takes no coins
            acted = _shared(counts.visits[h, s], at[:, s], generator)  # [groups, A]
            for a in np.flatnonzero(counts.visits[h, s]):
                ones, held = int(rewards[h, s, a]), int(acted[2 * h, a])
                earned = generator.hypergeometric(ones, int(counts.visits[h, s, a]) - ones, held)
                outcomes[:, s, a] = earned, held - earned
                if h < H - 1:
                    led = _shared(counts.transitions[h, s, a], acted[:, a], generator)  # [groups, S]
                    moved[s, a] = led[2 * h + 1]
                    after += led
        slots += [outcomes, moved] if h < H - 1 else [outcomes]
        at = after
    return slots


def _shared(cells: Ints, groups: Ints, generator: np.random.Generator) -> Ints:
    """How groups of these sizes share cells of these sizes, when who is in which cell is drawn at random."""
    table = np.zeros((len(groups), len(cells)), dtype=np.int64)
    filled = np.flatnonzero(cells)
    if len(filled) <= 1:  # nothing to draw: a deterministic policy, or nobody there
        table[:, filled] = groups[:, np.newaxis]
        return table
    left = cells.astype(np.int64)
    present = np.flatnonzero(groups)
    for g in present[:-1]:
        table[g] = generator.multivariate_hypergeometric(left, int(groups[g]), method="marginals")
        left = left - table[g]
    table[present[-1]] = left
    return table
