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
from tacit.kernels import inlined, kernel, lean_kernel
from tacit.noise.protocol import Counts, EncoderParameters, Encoding, Shape
from tacit.noise.support_index import SupportIndex, move_in, places_in, places_of, slot_places, true_category


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
def outcome_cell(stage: int, s: int, a: int, S: int, A: int) -> int:
    """The place of R(s,a) behind the transitions; N(s,a) or N - R stands one block of cells further."""
    return (stage * S + s) * A + a


@inlined
@lean_kernel
def _add_step(
    places: SupportIndex, vector: Floats, row: int, following: int, S: int, r: float, complement: bool, moves_on: bool
) -> None:
    """Add one step; one that a declared support excludes sets no counter (Lemma S9 (declared support))."""
    first, other = places.num_moves, places.num_moves + places.num_ones
    zero, one = places_in(places, row)
    if one < 0:
        r = 0.0  # a reward where none can be counts as a visit without one
    else:
        vector[first + one] += r
        if vector.shape[0] > other + places.num_zeros:  # squares of rewards are released
            vector[other + places.num_zeros + one] += r * r
    if zero >= 0:
        # Complement encoding: a visit with reward r puts r into R and 1 - r into N - R.
        vector[other + zero] += 1.0 - r if complement else 1.0
    if moves_on:
        move = move_in(places, row * S + following)
        if move >= 0:
            vector[move] += 1.0


@lean_kernel
def exact_vector(
    places: SupportIndex,
    vector: Floats,
    stages: int,
    S: int,
    A: int,
    complement: bool,
    states: Ints,
    actions: Ints,
    rewards: Floats,
) -> None:
    """Add one user's exact statistics to the vector."""
    horizon = actions.shape[0]
    for h in range(horizon):
        row = outcome_cell(min(h, stages - 1), clipped_index(states[h], S), clipped_index(actions[h], A), S, A)
        following = clipped_index(states[h + 1], S) if h < horizon - 1 else 0
        _add_step(places, vector, row, following, S, clipped_reward(rewards[h]), complement, h < horizon - 1)


@lean_kernel
def rounded_vector(
    parameters: EncoderParameters,
    vector: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Add one user's statistics to the vector, with rewards rounded to 0 or 1 at random."""
    stages, S, A, horizon = parameters.stages, parameters.S, parameters.A, actions.shape[0]
    for h in range(horizon):
        row = outcome_cell(min(h, stages - 1), clipped_index(states[h], S), clipped_index(actions[h], A), S, A)
        r = 1.0 if generator.random() < rewards[h] else 0.0  # certain from 1 on, never for NaN: a clip of its own
        following = clipped_index(states[h + 1], S) if h < horizon - 1 else 0
        _add_step(parameters.places, vector, row, following, S, r, parameters.complement, h < horizon - 1)


def slot_cells(shape: Shape, slot: int) -> Ints:
    """Where the cells of the one-hot vector of a slot stand in a message, in the complement encoding."""
    return slot_places(places_of(shape), slot, shape.stages)


def hot_cell(shape: Shape, slot: int, states: Ints, actions: Ints, ones: Ints) -> int:
    """Which cell of the one-hot vector of a slot is the true one. `ones` are rewards of 0 or 1."""
    S, A, h = shape.num_states, shape.num_actions, slot // 2
    stage = min(h, shape.stages - 1)
    row = outcome_cell(stage, clipped_index(int(states[h]), S), clipped_index(int(actions[h]), A), S, A)
    following = row * S + clipped_index(int(states[h + 1]), S) if slot % 2 else -1
    return int(true_category(places_of(shape), slot, stage, row, following, bool(ones[h])))


def slot_bits(shape: Shape, slot: int) -> int:
    """How many bits the one-hot vector of a slot has: those of `slot_cells`, and categories that nobody reads."""
    return places_of(shape).moved if slot % 2 else places_of(shape).outcomes


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


@inlined
@lean_kernel
def send_bits(
    bits: Bits,
    message: Floats,
    first: int,
    half: int,
    jump: int,
    cells: int,
    kept: int,
    hot: int,
    generator: np.random.Generator,
) -> None:
    """Send a one-hot vector; cell i < kept stands at message[first + i], or from `half` on `jump` further."""
    # n̂ = (bit - q) / (p - q), times the number of slots where only one is sent
    start, skip = max(0, first), max(0, jump)  # visibly not negative: no index below is checked
    for i in range(kept):
        sent = generator.random() < (bits.keep if i == hot else bits.rise)
        message[start + i + (skip if i >= half else 0)] += bits.gain * ((1.0 if sent else 0.0) - bits.rise)
    for _ in range(kept, cells):
        generator.random()  # of what nobody reads


@cache
def slot_sender(send: Callable[..., None]) -> Callable[..., None]:
    """The kernel that writes one slot of a trajectory into a message; `send` sends one vector, as `send_bits` does."""

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
        places, S, h = parameters.places, parameters.S, slot // 2
        stage = max(0, min(h, parameters.stages - 1))  # visibly not negative
        row = outcome_cell(stage, clipped_index(states[h], S), clipped_index(actions[h], parameters.A), S, parameters.A)
        if slot % 2 == 1:
            first, cells = places.first_move[stage], places.moved
            kept = places.first_move[stage + 1] - first
            move = move_in(places, row * S + clipped_index(states[h + 1], S))
            hot = move - first if move >= 0 else kept
            send(parameters.transition, message, first, cells, 0, cells, kept, hot, generator)
            return
        first = places.num_moves + places.first_one[stage]
        ones = places.first_one[stage + 1] - places.first_one[stage]
        behind = places.num_ones + places.first_zero[stage] - places.first_one[stage]
        one = generator.random() < rewards[h]  # certain from 1 on, never for NaN: a clip of its own
        bits, (zero, earned) = parameters.outcome, places_in(places, row)
        if parameters.complement:
            # (s,a) with reward 1, or (s,a) with reward 0: one of the two blocks holds the one
            kept = ones + places.first_zero[stage + 1] - places.first_zero[stage]
            hot = kept if zero < 0 else ones + zero - places.first_zero[stage]
            if one and earned >= 0:
                hot = earned - places.first_one[stage]
            send(bits, message, first, ones, behind - ones, places.outcomes, kept, hot, generator)
        else:
            cell = zero - places.first_zero[stage]
            send(bits, message, first, ones, 0, ones, ones, cell if one else -1, generator)
            send(bits, message, first + behind, ones, 0, ones, ones, cell, generator)

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
