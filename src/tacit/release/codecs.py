"""Messages of local trust as bytes: what a device puts into them, what a reader makes of them, and what it refuses.

    SlotCodec       subset, oue       slot u8 (u16) | bits of its vector, 8 per byte, zeros up to the longest slot
    BitsCodec       rr                all bits of all slots, 8 per byte
    IntegersCodec   laplace, gaussian one integer per counter, i16 (i32, i64 where the noise is wider), within a limit

Each has one length. A body is drawn with exact coins and integers from secure noise, and from seeded noise with the
same law. A reader adds integers up before it de-biases anything: the sum does not depend on the order of the bodies,
bit for bit.

A cover report is the message of nobody: additive noise and bits of an empty vector (`laplace`, `gaussian`, `rr`, `oue`)
estimate zero in every counter. A subset has a fixed size, so nobody can be represented as nothing: a cover report
draws the true cell uniformly. A cell is then sent with probability k/d = q + (p - q)/d, so that in the estimates the
report is a person who is spread evenly over the d cells of every slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, require
from tacit.noise.additive import Additive
from tacit.noise.exact import bernoulli_logistic, uniform_integers
from tacit.noise.layout import exact_vector, hot_cell, slot_bits, slot_cells
from tacit.noise.one_slot import OneSlot
from tacit.noise.protocol import Encoding, Randomizer
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.support_index import places_of, slots_of
from tacit.protocol import Noise
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.roles import rounded_rewards
from tacit.released.counts import CountShape
from tacit.statistics.count_vectors import dimension_of

User = tuple[Ints, Ints, Floats]
SCALES: Final = 64
"""A device clips its integers, noise included, at so many scales: more than that has a probability below e^-63."""
NO_CELL: Final = -1


@dataclass(frozen=True, slots=True)
class SlotCodec:
    """One slot: its number and the bits of its vector."""

    shape: CountShape
    encoding: Encoding
    outcome: OneSlot
    transition: OneSlot

    @property
    def slots(self) -> Ints:
        """The numbers of all slots: outcomes 0, 2, ..., transitions 1, 3, ..."""
        return slots_of(self.shape)

    @property
    def _head(self) -> int:
        return 1 if 2 * self.shape.horizon - 1 <= 256 else 2

    @property
    def _cells(self) -> tuple[int, int]:
        """The cells of a slot of outcomes and of transitions."""
        return slot_bits(self.shape, 0), slot_bits(self.shape, 1)

    @property
    def _longest(self) -> int:
        return max(self._cells) if len(self.slots) > 1 else self._cells[0]

    @property
    def size(self) -> int:
        """The length of a body."""
        return self._head + -(-self._longest // 8)

    def encode(self, user: User | None, noise: Noise) -> bytes:
        """The slot, drawn without looking at the data, and its bits."""
        slot = int(self.slots[uniform_below(len(self.slots), noise)])
        hot = self._hot(slot, user, noise)
        bits = self._mechanism(slot).sent_bits(self._cells[slot % 2], hot, noise)
        padded = np.zeros(8 * (self.size - self._head), dtype=np.uint8)
        padded[: len(bits)] = bits
        return slot.to_bytes(self._head, "little") + np.packbits(padded, bitorder="little").tobytes()

    def _mechanism(self, slot: int) -> OneSlot:
        return self.transition if slot % 2 else self.outcome

    def _hot(self, slot: int, user: User | None, noise: Noise) -> int:
        """The true cell; of nobody none, or any where there must be one."""
        if user is None:
            return uniform_below(self._cells[slot % 2], noise) if isinstance(self.outcome, SubsetSelection) else NO_CELL
        states, actions, rewards = user
        ones = rounded_rewards(rewards, noise).astype(np.int64)
        return hot_cell(self.shape, slot, states, actions, ones)

    def check(self, body: bytes) -> None:
        """A slot that exists, no bits beyond its cells, and, of a subset, as many as it has."""
        require(len(body) == self.size, f"a message must have {self.size} bytes", len(body))
        slots, bits = self._unpacked([body])
        slot = int(slots[0])
        require(slot in self.slots, f"the slot of a message must be one of {len(self.slots)}", "another")
        beyond = bool(bits[0, self._cells[slot % 2] :].any())
        require(not beyond, "a message must have no bits beyond the cells of its slot", "some")
        mechanism = self._mechanism(slot)
        if isinstance(mechanism, SubsetSelection):
            sized = int(bits[0].sum()) == mechanism.size
            require(sized, f"a subset of this slot must have {mechanism.size} cells", "another number")

    def total(self, bodies: Sequence[bytes]) -> Floats:
        """De-biased sums of every slot, in its cells; where steps are pooled, slots add up in their order."""
        slots, bits = self._unpacked(bodies)
        every = [slots == slot for slot in self.slots]
        return self.debiased(
            [bits[own].sum(axis=0, dtype=np.int64) for own in every], [int(own.sum()) for own in every]
        )

    def debiased(self, ones: Sequence[Ints], senders: Sequence[int]) -> Floats:
        """The unbiased message from the ones and the senders of every slot."""
        message = np.zeros(dimension_of(self.shape))
        for slot, own, count in zip(map(int, self.slots), ones, senders, strict=True):
            cells = slot_cells(self.shape, slot)
            message[cells] += self._mechanism(slot).debias(own[: len(cells)], count)
        return message

    def _unpacked(self, bodies: Sequence[bytes]) -> tuple[Ints, Any]:
        raw = np.frombuffer(b"".join(bodies), dtype=np.uint8).reshape(len(bodies), self.size)
        heads = raw[:, : self._head].astype(np.int64) @ (256 ** np.arange(self._head))
        return heads, np.unpackbits(raw[:, self._head :], axis=1, bitorder="little")


@dataclass(frozen=True, slots=True)
class BitsCodec:
    """All bits of all slots, in the order of `RandomizedResponse.secure`."""

    shape: CountShape
    encoding: Encoding
    outcome: RandomizedResponse
    transition: RandomizedResponse

    @property
    def bits(self) -> int:
        """How many bits a message has."""
        return sum(count for _, _, count in self._vectors)

    @property
    def _vectors(self) -> list[tuple[RandomizedResponse, Ints, int]]:
        return _vectors(self)

    @property
    def size(self) -> int:
        """The length of a body."""
        return -(-self.bits // 8)

    def encode(self, user: User | None, noise: Noise) -> bytes:
        """Every bit, kept or flipped."""
        sent, used = self._exact(user, noise), 0
        for own, _, count in self._vectors:
            part = slice(used, used + count)
            sent[part] = flipped(own, sent[part], noise)
            used += count
        return np.packbits(sent.astype(np.uint8), bitorder="little").tobytes()

    def _exact(self, user: User | None, noise: Noise) -> Ints:
        exact = np.zeros(self.bits, dtype=np.int64)
        if user is None:
            return exact
        states, actions, rewards = user
        ones, used = rounded_rewards(rewards, noise).astype(np.int64), 0
        for slot in map(int, slots_of(self.shape)):
            hot, count = hot_cell(self.shape, slot, states, actions, ones), slot_bits(self.shape, slot)
            exact[used + hot] = 1
            if self.encoding == "families" and slot % 2 == 0:  # a visit is counted whatever it earned
                exact[used + count // 2 + hot % (count // 2)] = 1
            used += count
        return exact

    def check(self, body: bytes) -> None:
        """The right length, and zeros behind the last bit."""
        require(len(body) == self.size, f"a message must have {self.size} bytes", len(body))
        left = 8 * self.size - self.bits
        require(left == 0 or body[-1] >> (8 - left) == 0, "a message must end with zeros", "others")

    def total(self, bodies: Sequence[bytes]) -> Floats:
        """De-biased sums, added up where steps are pooled."""
        raw = np.frombuffer(b"".join(bodies), dtype=np.uint8).reshape(len(bodies), self.size)
        ones = np.zeros(8 * self.size, dtype=np.int64)
        for start in range(0, len(raw), 4096):  # bits take eight times the room
            ones += np.unpackbits(raw[start : start + 4096], axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
        return self.debiased(ones, len(bodies))

    def debiased(self, ones: Ints, people: int) -> Floats:
        """The unbiased message from the ones of every bit."""
        message, used = np.zeros(dimension_of(self.shape)), 0
        for own, cells, count in self._vectors:
            # Categories that nobody reads come behind those of the counters.
            message[cells] += own.debias(ones[used : used + len(cells)], people)
            used += count
        return message


@dataclass(frozen=True, slots=True)
class IntegersCodec:
    """One integer per counter."""

    shape: CountShape
    encoding: Encoding
    outcome: Additive
    transition: Additive

    @property
    def limit(self) -> int:
        """What no integer exceeds: clipping is post-processing, and a forged report cannot move a sum any further."""
        scale = max(self.outcome.parameters.scale, self.transition.parameters.scale)
        return self.shape.horizon + math.ceil(SCALES * scale)

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(next(f"<i{size}" for size in (2, 4, 8) if self.limit < 256**size // 2))

    @property
    def counters(self) -> int:
        """How many there are."""
        return dimension_of(self.shape, squares=self.encoding == "squares")

    @property
    def size(self) -> int:
        """The length of a body."""
        return self.counters * self._type.itemsize

    def encode(self, user: User | None, noise: Noise) -> bytes:
        """Whole counts plus whole noise."""
        sent: Ints = self._exact(user, noise) + self._noise(noise)
        return np.clip(sent, -self.limit, self.limit).astype(self._type).tobytes()

    def _noise(self, noise: Noise) -> Ints:
        shape = self.shape
        first = places_of(shape).num_moves
        parts = ((self.transition, first), (self.outcome, self.counters - first))
        if isinstance(noise, SecureNoise):
            return np.concatenate([own.integers(size, noise) for own, size in parts])
        return np.concatenate([_sampled(own, size, noise) for own, size in parts])

    def _exact(self, user: User | None, noise: Noise) -> Ints:
        shape, encoding = self.shape, self.encoding
        vector = np.zeros(self.counters)
        if user is not None:
            states, actions, rewards = user
            sizes, complement = (shape.stages, shape.num_states, shape.num_actions), encoding == "complement"
            ones = rounded_rewards(rewards, noise).astype(np.float64)
            exact_vector(places_of(shape), vector, *sizes, complement, states, actions, ones)
        return vector.astype(np.int64)

    def check(self, body: bytes) -> None:
        """The right length, and nothing beyond the limit."""
        require(len(body) == self.size, f"a message must have {self.size} bytes", len(body))
        sent = np.frombuffer(body, dtype=self._type)
        inside = bool((sent >= -self.limit).all() and (sent <= self.limit).all())
        require(inside, f"the integers of a message must lie within {self.limit} of zero", "another")

    def total(self, bodies: Sequence[bytes]) -> Floats:
        """Sums of integers."""
        raw = np.frombuffer(b"".join(bodies), dtype=self._type).reshape(len(bodies), self.counters)
        return np.asarray(raw.sum(axis=0, dtype=np.int64), dtype=np.float64)


MessageCodec = SlotCodec | BitsCodec | IntegersCodec
"""The bytes of one randomizer: `size` of a body, `encode`, `check`, and `total`, the sum of unbiased messages."""


@lru_cache(maxsize=64)  # every device of a stage asks
def codec_of(shape: CountShape, encoding: Encoding, outcome: Randomizer, transition: Randomizer) -> MessageCodec:
    """The bytes of a randomizer, or a refusal where it has no exact integer form."""
    if isinstance(outcome, OneSlot) and isinstance(transition, OneSlot):
        return SlotCodec(shape, encoding, outcome, transition)
    if isinstance(outcome, RandomizedResponse) and isinstance(transition, RandomizedResponse):
        return BitsCodec(shape, encoding, outcome, transition)
    if isinstance(outcome, Additive) and isinstance(transition, Additive) and outcome.whole and transition.whole:
        return IntegersCodec(shape, encoding, outcome, transition)
    raise NotSupported(
        f"{outcome.NAME} noise has no exact integer form that a device could send; use subset, oue, rr, "
        "laplace or gaussian"
    )


@lru_cache(maxsize=64)
def _vectors(wire: BitsCodec) -> list[tuple[RandomizedResponse, Ints, int]]:
    """Of every vector: its noise, the counters of its first bits, and how many bits it has."""
    shape = wire.shape
    return [
        (wire.transition if slot % 2 else wire.outcome, slot_cells(shape, slot), slot_bits(shape, slot))
        for slot in map(int, slots_of(shape))
    ]


def uniform_below(limit: int, noise: Noise) -> int:
    """A uniform number below `limit`."""
    if isinstance(noise, SimulationNoise):
        return int(noise.generator.integers(limit))
    return int(uniform_integers(1, noise, below=limit)[0])


def _sampled(own: Any, size: int, noise: SimulationNoise) -> Ints:
    return np.asarray(own.sample(size, noise), dtype=np.int64)


def flipped(own: RandomizedResponse, bits: Ints, noise: Noise) -> Ints:
    """Every bit, kept or flipped."""
    if isinstance(noise, SimulationNoise):
        return own.randomize(bits, noise)
    return bits ^ bernoulli_logistic(len(bits), noise, gamma=own.epsilon).astype(np.int64)
