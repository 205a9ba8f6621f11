"""The sum of a whole batch's local messages, drawn at once: the same distribution as encoding user by user.

    Laplace    the sum of n Laplace variables of scale b is b (G - G'), two gamma variables of shape n
    Gaussian   the sum of n has standard deviation σ√n
    bounded    no closed form: n draws per counter, added up
    rr         of the bits that are one (zero), a binomial number arrives as one
    oue        users choose their slot multinomially; the ones among them are hypergeometric; bits then binomial

The one-bit mechanisms round rewards on the device. From sums of rewards alone that rounding can be drawn exactly only
when all visits of a cell earn the same reward or 0 and 1 (both kinds of rewards that environments have).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.data.counts import ExactCounts
from tacit.mechanisms.bounded import Bounded
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.unary_encoding import UnaryEncoding
from tacit.privatizers.statistics import Encoding
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

__all__ = ["LocalMechanism", "aggregate_messages"]

LocalMechanism: TypeAlias = Laplace | Gaussian | RandomizedResponse | Bounded | UnaryEncoding

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
    if isinstance(mechanism, RandomizedResponse | UnaryEncoding):
        slots = [slot.astype(np.int64) for slot in _slots(encoding, _rounded(batch, noise.generator))]
        return _flatten(shape, _sent(mechanism, slots, batch.users, noise.generator))
    blocks = _flatten(shape, _slots(encoding, batch))
    first = len(blocks) - 2 * shape.stages * shape.num_states * shape.num_actions
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
    total = np.zeros(size)
    for _ in range(users):
        total += mechanism.sample(size, noise)
    return total


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


def _sent(
    mechanism: RandomizedResponse | UnaryEncoding, slots: list[Ints], users: int, generator: np.random.Generator
) -> list[Floats]:
    """The de-biased sum of every slot's bits over the users who sent it."""
    if isinstance(mechanism, RandomizedResponse):
        keep, rise, gain = 1.0 - mechanism.flip, mechanism.flip, mechanism.gain
        senders = np.full(len(slots), users)
    else:
        keep, rise, gain = mechanism.keep, mechanism.rise, mechanism.gain
        senders = generator.multinomial(users, np.full(len(slots), 1.0 / len(slots)))
    estimates: list[Floats] = []
    for ones, count in zip(slots, senders, strict=True):
        among = ones
        if count < users:
            # Each user holds a one in one cell of the slot: who sends is a draw without replacement.
            among = generator.multivariate_hypergeometric(ones.ravel(), count, method="marginals").reshape(ones.shape)
        arrived = generator.binomial(among, keep) + generator.binomial(count - among, rise)
        estimates.append(gain * (arrived - count * rise))
    return estimates


def _flatten(shape: CountShape, slots: list[Floats]) -> Floats:
    """Slots in the layout of a message: transitions, rewards, visits or complements; pooled if steps are."""
    outcomes, transitions = np.stack(slots[0::2]), slots[1::2]  # [H, 2, S, A], (H-1) x [S, A, S]
    moved = np.stack(transitions) if transitions else np.zeros((0, *outcomes.shape[2:], outcomes.shape[2]))
    if not shape.staged:
        outcomes = outcomes.sum(axis=0, keepdims=True)
        moved = moved.sum(axis=0, keepdims=True) if len(moved) else moved
    return np.concatenate([moved.ravel(), outcomes[:, 0].ravel(), outcomes[:, 1].ravel()])
