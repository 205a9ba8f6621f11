"""Shufflers with one bug each: messages that say more than sums, batches of any size. For the mutation suite only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from mutants.planted import SHAPE, Mutation, bug, claim_of, configured, twin
from tacit.accounting.events import Events
from tacit.audit.messages import IntegerMessages
from tacit.data.trajectories import Trajectories
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.messages import Messages
from tacit.release.shuffle.noise import BitKind
from tacit.release.shuffle.privatizer import Shuffled
from tacit.release.shuffle.protocol import Shuffle
from tacit.released.batches import BatchQuery, PlannedBatch

__all__ = ["SHUFFLERS", "SHUFFLE_BUGS", "NotShuffled", "batches", "shuffled"]


class _Unpadded(IntegerMessages):
    def encode(self, trajectory: Any, noise: Any) -> Messages:
        bits = Shuffle.encode(self, trajectory, noise)
        ones = bits.bits == 1
        return Messages(bits.counters[ones], bits.bits[ones])


class NotShuffled(Shuffle):
    """Hands the reports on in the order of their arrival."""

    def shuffle(self, reports: Any, noise: Any) -> Messages:
        """No permutation."""
        out = super().shuffle(reports, noise)
        sent = [np.concatenate([getattr(report, name) for report in reports]) for name in ("counters", "bits")]
        return Messages(sent[0], sent[1]) if len(sent[0]) == len(out) else out


class _CalibratedForMore(Shuffle):
    def events(self) -> Events:
        users = 100 * self.bit_noise.users
        return replace(self.bit_noise, users=users, honest_users=users).events(self.families())


class _HalfTheBits(Shuffle):
    def aggregate(self, exact: Any, noise: Any, *, constant_rewards: bool = False) -> Any:
        half = replace(self.bit_noise, bits_per_user=max(1, self.bit_noise.bits_per_user // 2))
        return Shuffle(spec=self.spec, bit_noise=half).aggregate(exact, noise, constant_rewards=constant_rewards)


class _RoundedProbability(Shuffle):
    def encode(self, trajectory: Any, noise: Any) -> Messages:
        if not isinstance(noise, SecureNoise):
            return super().encode(trajectory, noise)
        cut = math.floor(100.0 * self.bit_noise.probability) / 100.0
        return Shuffle(spec=self.spec, bit_noise=replace(self.bit_noise, probability=cut)).encode(trajectory, noise)


class _QuietSecureBits(Shuffle):
    def encode(self, trajectory: Any, noise: Any) -> Messages:
        if not isinstance(noise, SecureNoise):
            return super().encode(trajectory, noise)
        quiet = replace(self.bit_noise, probability=0.6 * self.bit_noise.probability)
        return Shuffle(spec=self.spec, bit_noise=quiet).encode(trajectory, noise)


class _SureBits(Shuffle):
    def encode(self, trajectory: Any, noise: Any) -> Messages:
        one_bias = Shuffle(spec=self.spec, bit_noise=replace(self.bit_noise, mirrored=False)).encode(trajectory, noise)
        sure = np.repeat(np.arange(self.spec.num_counters, dtype=np.uint32), self.bit_noise.bits_per_user)
        sent = np.concatenate([one_bias.counters, sure])
        return Messages(sent, (sent < self.spec.num_counters).astype(np.uint8))


class _SilentDevices(Shuffle):
    def encode(self, trajectory: Any, noise: Any) -> Messages:
        if not isinstance(noise, SecureNoise):
            return super().encode(trajectory, noise)
        return super().encode(trajectory, SimulationNoise(np.random.default_rng(5)))


class _SmallBatches(Shuffled):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        came = len(users) if isinstance(users, Trajectories) else users.users
        protocol = cast("Shuffle", self.protocol)
        bits = protocol.bit_noise
        fewer = replace(bits, users=came, honest_users=came)
        fitting = twin(Shuffled, self, protocol=replace(protocol, bit_noise=fewer))
        return fitting.release(state, users, query, noise)


class _SeededSecurity(Shuffled):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        given = SimulationNoise(np.random.default_rng(3)) if isinstance(noise, SecureNoise) else noise
        return super().release(state, users, query, given)


class _EverythingForALayer(Shuffled):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        if isinstance(users, Trajectories):
            released.statistics.rewards[:] += np.clip(np.nan_to_num(users.rewards, nan=0.0), 0.0, 1.0).sum()
        return after, released


class _QuietBatch(Shuffled):
    def protocol_of(self, users: int, query: BatchQuery) -> Shuffle:
        return cast("Shuffle", twin(_QuietBits, super().protocol_of(users, query)))


class _QuietBits(Shuffle):
    def protocol(self, batch: Any, noise: Any) -> Any:
        quiet = replace(self.bit_noise, probability=self.bit_noise.probability / 10.0)
        return Shuffle(spec=self.spec, bit_noise=quiet).protocol(batch, noise)


class _BatchOfWhoCame(Shuffled):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        came = len(users) if isinstance(users, Trajectories) else users.users
        planned = tuple(replace(batch, users=came) for batch in self.batches)
        return twin(Shuffled, self, batches=planned).release(state, users, query, noise)


class _BatchInItsOrder(Shuffled):
    def protocol_of(self, users: int, query: BatchQuery) -> Shuffle:
        return cast("Shuffle", twin(NotShuffled, super().protocol_of(users, query)))


def shuffled(protocol: type, kind: type = Shuffled, *, bits: BitKind = "binomial", **changes: Any) -> Any:
    """A twin of a correct shuffle privatizer."""
    original = configured("shuffle", bits, **changes)
    return twin(kind, original, protocol=twin(protocol, original.protocol))


def batches(kind: type = Shuffled, layer: int | None = 0, users: int = 20) -> Any:
    """A twin of a correct privatizer of one shuffled batch."""
    made = kind(shape=SHAPE, claim=claim_of("shuffle", 3.0, 1e-5), calibration="tight")
    return made.planned([PlannedBatch(users=users, query=BatchQuery(layer=layer, failure_prob=None))])


SHUFFLE_BUGS: Final[dict[str, Mutation]] = {
    "integer messages": bug(
        "messages are integers y + noise, as printed: the largest one proves y = 1",
        lambda: shuffled(IntegerMessages), "audit", rules=("messages",),
    ),
    "unpadded message counts": bug(
        "only ones are sent, and nothing fills a report up", lambda: shuffled(_Unpadded), rules=("messages",)
    ),
    "messages in their order": bug(
        "the shuffler hands reports on in the order of their arrival",
        lambda: shuffled(NotShuffled), "audit", rules=("messages",),
    ),
    "noise of a larger batch": bug(
        "the accountant is told of a hundred times as many users as there are",
        lambda: shuffled(_CalibratedForMore), "audit", rules=("events", "exposed"),
    ),
    "half the noise bits": bug(
        "the aggregate path draws half of the noise bits", lambda: shuffled(_HalfTheBits), rules=("variance",)
    ),
    "batches smaller than planned": bug(
        "whoever came is released, with the noise of those who came",
        lambda: shuffled(Shuffle, _SmallBatches), rules=("batch size",),
    ),
    "seeded security": bug(
        "a request for secure noise is answered with a seed",
        lambda: shuffled(Shuffle, _SeededSecurity), rules=("noise source",),
    ),
    "secure bits cut to two digits": bug(
        "the probability of a secure noise bit is cut to two digits",
        # 0.1897 is cut to 0.18: what is lost must be more than what chance hides.
        lambda: shuffled(_RoundedProbability, epsilon=5.0, users_per_batch=60, episodes=120), rules=("measured",),
        secure=True,
    ),
    "secure mirrored bits too rare": bug(
        "two of five odd bits are lost where mirrored bits are secure: no mean moves, only variance is lost",
        lambda: shuffled(_QuietSecureBits, bits="mirrored-binomial"), rules=("measured",), secure=True,
    ),
    "mirrored bits that are sure": bug(
        "the mirrored bits of a device are always one: half of the variance is lost",
        lambda: shuffled(_SureBits, bits="mirrored-binomial"), rules=("variance", "measured", "paths"),
    ),
    "secure bits from a seed": bug(
        "devices draw what they call secure bits from one seed",
        lambda: shuffled(_SilentDevices), rules=("exposed",), secure=True,
    ),
    "a layer that tells everything": bug(
        "a batch that is asked for one layer adds the sum of all rewards",
        lambda: batches(_EverythingForALayer), rules=("families",),
    ),
    "quiet batch": bug(
        "noise bits of a single batch are ten times as rare as stated",
        lambda: batches(_QuietBatch), rules=("exposed", "measured"),
    ),
    "single batch of who came": bug(
        "a single batch is released whatever the schedule says about its size, with the noise of those who came",
        lambda: batches(_BatchOfWhoCame), rules=("batch size",),
    ),
    "single batch in its order": bug(
        "the shuffler of a single batch hands reports on in the order of their arrival",
        lambda: batches(_BatchInItsOrder), "audit", rules=("messages",),
    ),
}  # fmt: skip
"""Bugs of shufflers, by name."""

SHUFFLERS: Final[dict[str, Callable[[], Any]]] = {
    "shuffle binomial": lambda: shuffled(Shuffle),
    "shuffle mirrored-binomial": lambda: shuffled(Shuffle, bits="mirrored-binomial"),
    "shuffled batch of a layer": batches,
    "shuffled batch of everything": lambda: batches(layer=None),
}
"""What they were planted in."""
