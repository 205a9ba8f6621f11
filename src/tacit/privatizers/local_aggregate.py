"""The sum of a whole batch's local messages, drawn at once: Lemma L6 (aggregate draws), as if encoded user by user.

    Laplace    the sum of n Laplace variables of scale b is b (G - G'), two gamma variables of shape n
    Gaussian   the sum of n has standard deviation σ√n
    bounded    no closed form: n draws per counter, added up; from 1,000 users on a normal variable, whose distribution
               function differs by less than 2·10⁻⁵ (simulation only; the guarantee is that of each message)
    rr         of the bits that are one (zero), a binomial number arrives as one
    one slot   users choose their slot multinomially; what each group holds is hypergeometric, layer by layer; bits
               then binomial (oue), or a subset drawn for every sender (subset)

Counts do not say who did what. Where that matters (one slot), all users of the batch must have followed one Markov
policy in one environment, as those of a simulated batch do. The one-bit mechanisms round rewards on the device. From
sums of rewards alone that rounding can be drawn exactly only when all visits of a cell earn the same reward or 0 and 1
(both kinds of rewards that environments have).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.data.counts import ExactCounts
from tacit.kernels import kernel
from tacit.mechanisms.bounded import Bounded
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.one_slot import OneSlot
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.subset_selection import SubsetSelection, add_subset
from tacit.privatizers.statistics import Encoding
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

__all__ = ["LocalMechanism", "aggregate_messages"]

LocalMechanism: TypeAlias = Laplace | Gaussian | RandomizedResponse | Bounded | OneSlot

MANY: Final = 1000
"""From so many users on a sum of bounded noises is drawn as a normal variable."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def aggregate_messages(
    mechanism: LocalMechanism,
    transition_mechanism: LocalMechanism,
    encoding: Encoding,
    shape: CountShape,
    batch: ExactCounts,
    noise: SimulationNoise,
) -> Floats:
    """The sum of the messages of all users of a batch, as one flat vector."""
    one_bit = RandomizedResponse | OneSlot
    if isinstance(mechanism, one_bit) and isinstance(transition_mechanism, one_bit):
        generator = noise.generator
        bits = _rounded(batch, generator)
        slots = [slot.astype(np.int64) for slot in _slots(encoding, bits)]
        senders = np.full(len(slots), batch.users)
        if isinstance(mechanism, OneSlot):
            senders = generator.multinomial(batch.users, np.full(len(slots), 1.0 / len(slots)))
            slots = _one_slot_each(bits, senders, generator)
        kinds = [mechanism if slot % 2 == 0 else transition_mechanism for slot in range(len(slots))]
        sent = zip(kinds, slots, senders, strict=True)
        return _flatten(shape, [_debiased(kind, ones, int(count), generator) for kind, ones, count in sent])
    blocks = _flatten(shape, _slots(encoding, batch))
    first = len(blocks) - 2 * shape.stages * shape.num_states * shape.num_actions
    if encoding == "squares":
        # All visits of a cell earn the same reward, whose squares add up to R²/N, or 0 and 1.
        squares = batch.rewards if batch.binary else batch.rewards**2 / np.maximum(batch.visits, 1)
        blocks = np.concatenate([blocks, (squares if shape.staged else squares.sum(axis=0)).ravel()])
    blocks[:first] += _summed(transition_mechanism, first, batch.users, noise)
    blocks[first:] += _summed(mechanism, len(blocks) - first, batch.users, noise)
    return blocks


def _summed(mechanism: LocalMechanism, size: int, users: int, noise: SimulationNoise) -> Floats:
    """The sum of `users` independent noises in each of `size` counters."""
    generator = noise.generator
    if isinstance(mechanism, Laplace):
        return np.asarray(mechanism.scale * (generator.gamma(users, size=size) - generator.gamma(users, size=size)))
    if isinstance(mechanism, Gaussian):
        return np.asarray(mechanism.sigma * np.sqrt(users) * generator.standard_normal(size))
    if users >= MANY:
        return np.asarray(np.sqrt(users * mechanism.variance) * generator.standard_normal(size))
    return np.asarray(mechanism.sample(users * size, noise).reshape(users, size).sum(axis=0))


def _slots(encoding: Encoding, batch: ExactCounts) -> list[Floats]:
    """Per step: outcomes [2, S, A], then, if there is a successor, transitions [S, A, S]."""
    slots: list[Floats] = []
    for h in range(len(batch.visits)):
        other = batch.visits[h] - batch.rewards[h] if encoding == "complement" else batch.visits[h].astype(np.float64)
        slots.append(np.stack([batch.rewards[h], other]))
        if h < len(batch.visits) - 1:
            slots.append(batch.transitions[h].astype(np.float64))
    return slots


def _rounded(batch: ExactCounts, generator: np.random.Generator) -> ExactCounts:
    """The batch with rewards rounded to {0, 1} visit by visit."""
    if batch.binary:
        return batch
    mean = np.clip(batch.rewards / np.maximum(batch.visits, 1), 0.0, 1.0)
    return replace(batch, rewards=generator.binomial(batch.visits, mean).astype(np.float64), binary=True)


def _one_slot_each(batch: ExactCounts, senders: Ints, generator: np.random.Generator) -> list[Ints]:
    """What the senders of each slot hold in it: the groups flow through the layers, drawn without replacement.

    Slots of one user depend on each other, and sums over the steps show it: so the groups cannot be drawn slot by slot.
    Given the counts, users in one state are exchangeable, because they follow one Markov policy in one environment.
    """
    H, S, A = batch.visits.shape
    at = _shared(batch.visits[0].sum(axis=1), senders, generator)  # [groups, S]: where they are
    slots: list[Ints] = []
    for h in range(H):
        at[0], at[1 : 2 * h] = at[: max(1, 2 * h)].sum(axis=0), 0  # those who have sent: one group, of no interest
        outcomes, moved = np.zeros((2, S, A), dtype=np.int64), np.zeros((S, A, S), dtype=np.int64)
        after = np.zeros_like(at)
        for s in range(S):
            acted = _shared(batch.visits[h, s], at[:, s], generator)  # [groups, A]
            for a in range(A):
                ones, held = int(batch.rewards[h, s, a]), int(acted[2 * h, a])
                earned = generator.hypergeometric(ones, int(batch.visits[h, s, a]) - ones, held)
                outcomes[:, s, a] = earned, held - earned
                if h < H - 1:
                    led = _shared(batch.transitions[h, s, a], acted[:, a], generator)  # [groups, S]
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


def _debiased(
    mechanism: RandomizedResponse | OneSlot, ones: Ints, senders: int, generator: np.random.Generator
) -> Floats:
    """The de-biased sum of one slot's bits over the users who sent it, `ones` of them a one."""
    if isinstance(mechanism, SubsetSelection):
        arrived = np.zeros(ones.size)
        _add_subsets(arrived, ones.ravel(), mechanism.size, mechanism.sampled_keep, generator)
        return mechanism.debias(arrived.reshape(ones.shape), senders)
    one, zero = (
        (1.0 - mechanism.flip, mechanism.flip)
        if isinstance(mechanism, RandomizedResponse)
        else (mechanism.keep, mechanism.rise)
    )
    sent = generator.binomial(ones, one) + generator.binomial(senders - ones, zero)
    return np.asarray(mechanism.gain * (sent - senders * zero))


@kernel
def _add_subsets(arrived: Floats, ones: Ints, size: int, keep: float, generator: np.random.Generator) -> None:
    """Add up the subsets of all senders, drawn one by one."""
    cells = ones.shape[0]
    for hot in range(cells):
        for _ in range(ones[hot]):
            add_subset(arrived, 0, cells, 0, cells, hot, size, keep, 1.0, generator)


def _flatten(shape: CountShape, slots: list[Floats]) -> Floats:
    """Slots in the layout of a message: transitions, rewards, visits or complements; pooled if steps are."""
    outcomes, transitions = np.stack(slots[0::2]), slots[1::2]  # [H, 2, S, A], (H-1) x [S, A, S]
    moved = np.stack(transitions) if transitions else np.zeros((0, *outcomes.shape[2:], outcomes.shape[2]))
    if not shape.staged:
        outcomes = outcomes.sum(axis=0, keepdims=True)
        moved = moved.sum(axis=0, keepdims=True) if len(moved) else moved
    return np.concatenate([moved.ravel(), outcomes[:, 0].ravel(), outcomes[:, 1].ravel()])
