"""Shufflers with one bug each: messages that say more than sums, batches of any size. For the mutation suite only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from mutants.planted import SHAPE, Mutation, bug, claim_of, configured, twin
from tacit.accounting.events import Events
from tacit.audit.mechanisms import IntegerMessages
from tacit.data.trajectories import Trajectories
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.shuffle.labels import BitKind
from tacit.release.shuffle_release import ShufflePlan, ShuffleRelease
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery, PlannedBatch

__all__ = ["SHUFFLERS", "SHUFFLE_BUGS", "NotShuffled", "batches", "shuffled"]


class _Unpadded(IntegerMessages):
    def encode(self, trajectory: Any, noise: Any) -> bytes:
        labels = np.frombuffer(ShuffleRelease.encode(self, trajectory, noise), dtype=self.labels)
        ones = labels[labels < self.spec.num_counters].astype("<u4")
        return (ones + self.spec.num_counters + 1).tobytes()


class NotShuffled(ShuffleRelease):
    """Hands the reports on in the order of their arrival."""

    def shuffle(self, bodies: Any, noise: Any) -> Any:
        """No permutation."""
        out = super().shuffle(bodies, noise)
        sent = np.frombuffer(b"".join(bodies), dtype=self.labels).astype(np.uint32)
        return sent if len(sent) == len(out) else out


class _CalibratedForMore(ShuffleRelease):
    def events_at(self, people: int) -> Events:
        return self.bit_noise(100 * people).events(self.families())


class _HalfTheBits(ShuffleRelease):
    def simulate(self, secret: Any, users: Any, query: Any, noise: Any) -> Any:
        if isinstance(users, Trajectories):
            return super().simulate(secret, users, query, noise)
        half = _with(self, bits_per_user=max(1, self.bits_per_user // 2))
        drawn = np.frombuffer(half.simulate(secret, users, query, noise)[1], dtype="<i8")
        lost = self.law(users.users).mean - half.law(users.users).mean
        return secret, (drawn + round(lost)).astype("<i8").tobytes()


class _RoundedProbability(ShuffleRelease):
    def encode(self, trajectory: Any, noise: Any) -> bytes:
        if not isinstance(noise, SecureNoise):
            return super().encode(trajectory, noise)
        return _with(self, probability=math.floor(100.0 * float(self.probability)) / 100.0).encode(trajectory, noise)


class _QuietSecureBits(ShuffleRelease):
    def encode(self, trajectory: Any, noise: Any) -> bytes:
        if not isinstance(noise, SecureNoise):
            return super().encode(trajectory, noise)
        return _with(self, probability=0.6 * float(self.probability)).encode(trajectory, noise)


class _SureBits(ShuffleRelease):
    def encode(self, trajectory: Any, noise: Any) -> bytes:
        C, m = self.spec.num_counters, self.bits_per_user
        body = _with(self, mirrored=False).encode(trajectory, noise)
        sent = np.concatenate([np.frombuffer(body, dtype=self.labels), np.repeat(np.arange(C), m)])
        return np.sort(sent).astype(self.labels).tobytes()


class _SilentDevices(ShuffleRelease):
    def encode(self, trajectory: Any, noise: Any) -> bytes:
        if not isinstance(noise, SecureNoise):
            return super().encode(trajectory, noise)
        return super().encode(trajectory, SimulationNoise(np.random.default_rng(5)))


class _SmallBatches(Staged):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        came = len(users) if isinstance(users, Trajectories) else users.users
        fitting = replace(self.first, target=came, least=came, honest=came)  # type: ignore[type-var]
        return twin(Staged, self, channels=(fitting,)).release(state, users, query, noise)


class _SeededSecurity(Staged):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        given = SimulationNoise(np.random.default_rng(3)) if isinstance(noise, SecureNoise) else noise
        return super().release(state, users, query, given)


class _EverythingForALayer(Staged):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        if isinstance(users, Trajectories):
            released.statistics.rewards[:] += np.clip(np.nan_to_num(users.rewards, nan=0.0), 0.0, 1.0).sum()
        return after, released


class _QuietBits(ShuffleRelease):
    def encode(self, trajectory: Any, noise: Any) -> bytes:
        return _with(self, probability=float(self.probability) / 10.0).encode(trajectory, noise)


class _BatchOfWhoCame(Staged):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        came = len(users) if isinstance(users, Trajectories) else users.users
        fitting = tuple(replace(one, target=came, least=came, honest=came) for one in self.channels)  # type: ignore[type-var]
        return twin(Staged, self, channels=fitting).release(state, users, query, noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned(ShufflePlan):
    """A plan whose stages are twins."""

    stage: ClassVar[type] = ShuffleRelease

    def release_of(self, stage: StageSize) -> Any:
        return twin(self.stage, ShufflePlan.release_of(self, stage))


class _QuietPlan(_Planned):
    stage = _QuietBits


class _OrderedPlan(_Planned):
    stage = NotShuffled


def _with(release: ShuffleRelease, **changes: Any) -> ShuffleRelease:
    """The same release, correct, with another noise; its block holds all of it."""
    if "probability" in changes:
        changes["probability"] = Fraction(changes["probability"])
    given = {"bits_per_user": release.bits_per_user, "mirrored": release.mirrored} | changes
    bits = release.spec.num_counters * given["bits_per_user"] * (2 if given["mirrored"] else 1)
    found: ShuffleRelease = twin(ShuffleRelease, release, **given, block=bits)
    return found


def shuffled(release: type, kind: type = Staged, *, bits: BitKind = "binomial", **changes: Any) -> Any:
    """A twin of a correct shuffle privatizer."""
    original = configured("shuffle", bits, **changes)
    return twin(kind, original, channels=(twin(release, original.first),))


def batches(kind: type = Staged, layer: int | None = 0, users: int = 20, plan: type = ShufflePlan) -> Any:
    """A twin of a correct privatizer of one shuffled batch."""
    made = plan(shape=SHAPE, claim=claim_of("shuffle", 3.0, 1e-5), overflow=0.0)
    schedule = [PlannedBatch(users=users, query=BatchQuery(layer=layer, failure_prob=None))]
    return kind(channels=(), basis=made, batches=()).planned(schedule)


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
        lambda: shuffled(ShuffleRelease, _SmallBatches), rules=("batch size",),
    ),
    "seeded security": bug(
        "a request for secure noise is answered with a seed",
        lambda: shuffled(ShuffleRelease, _SeededSecurity), rules=("noise source",),
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
        lambda: batches(plan=_QuietPlan), rules=("exposed", "measured"),
    ),
    "single batch of who came": bug(
        "a single batch is released whatever the schedule says about its size, with the noise of those who came",
        lambda: batches(_BatchOfWhoCame), rules=("batch size",),
    ),
    "single batch in its order": bug(
        "the shuffler of a single batch hands reports on in the order of their arrival",
        lambda: batches(plan=_OrderedPlan), "audit", rules=("messages",),
    ),
}  # fmt: skip
"""Bugs of shufflers, by name."""

SHUFFLERS: Final[dict[str, Callable[[], Any]]] = {
    "shuffle binomial": lambda: shuffled(ShuffleRelease),
    "shuffle mirrored-binomial": lambda: shuffled(ShuffleRelease, bits="mirrored-binomial"),
    "shuffled batch of a layer": batches,
    "shuffled batch of everything": lambda: batches(layer=None),
}
"""What they were planted in."""
