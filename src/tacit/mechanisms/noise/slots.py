"""Slots on a device and in aggregate: one-hot vectors of a trajectory, sent bit by bit or as subsets.

Kernels write a slot into a message, de-biased on arrival; a mechanism brings the kernel that sends one vector. In
aggregate, what the senders of each slot hold is drawn without drawing the users: those who chose a slot are a random
group, and the groups flow through the layers, hypergeometrically. Counts do not say who did what; so all users of the
batch must have followed one Markov policy in one environment, as those of a simulated batch do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import lean_kernel
from tacit.mechanisms.noise.layout import clipped_index, outcome_cell, transition_cell, transition_cells
from tacit.mechanisms.protocol import Counts, EncoderParameters

__all__ = ["Bits", "held_slots", "send_bits", "slot_sender"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    bits: Bits,
    message: Floats,
    first: int,
    half: int,
    jump: int,
    cells: int,
    hot: int,
    generator: np.random.Generator,
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
        for s in range(S):
            acted = _shared(counts.visits[h, s], at[:, s], generator)  # [groups, A]
            for a in range(A):
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
