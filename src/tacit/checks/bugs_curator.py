"""Curators and shufflers with one bug each: tree noise that is redrawn, late or short, messages that say more than the
sums. For the mutation suite only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from tacit.accounting.events import Events
from tacit.checks.messages import IntegerMessages
from tacit.checks.planted import SHAPE, Mutation, bug, claim_of, configured, twin
from tacit.data.trajectories import Trajectories
from tacit.errors import BudgetSpent
from tacit.mechanisms.continual.tree import LaplaceTree
from tacit.privatizers.central import Central, publish
from tacit.privatizers.none import Unprotected
from tacit.privatizers.shuffle.messages import Messages
from tacit.privatizers.shuffle.noise import BitNoise
from tacit.privatizers.shuffle.privatizer import Shuffled
from tacit.privatizers.shuffle.protocol import Shuffle
from tacit.privatizers.statistics import add_trajectory
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.released.batches import BatchQuery, PlannedBatch

__all__ = ["CURATORS", "CURATOR_BUGS", "NotShuffled", "PlainCentral", "batches", "central", "shuffled"]

Step = Callable[..., None]


class _Redrawn(LaplaceTree):
    @property
    def step(self) -> Step:  # type: ignore[override]
        def step(params: Any, stream: Any, generator: Any) -> None:
            stream.time[0] += 1
            terms = int(stream.time[0]).bit_count()
            stream.noise[:] = generator.laplace(scale=params.scale, size=(terms, len(stream.noise))).sum(axis=0)

        return step


class _OffByOne(LaplaceTree):
    @property
    def step(self) -> Step:  # type: ignore[override]
        inner = super().step

        def step(params: Any, stream: Any, generator: Any) -> None:
            if stream.time[0] == 0 and not stream.draws.any():
                stream.draws[:] = 1.0  # remembers that the first user came
                stream.noise[:] = 0.0
            else:
                inner(params, stream, generator)

        return step


class _LevelShort(LaplaceTree):
    @property
    def params(self) -> Any:
        return super().params._replace(levels=super().levels)

    @property
    def levels(self) -> int:
        return math.floor(math.log(self.steps))


class _HalfTheStream(LaplaceTree):
    @property
    def step(self) -> Step:  # type: ignore[override]
        inner = super().step
        return lambda params, stream, generator: inner(params._replace(scale=params.scale / 2), stream, generator)


class _NarrowRadius(LaplaceTree):
    def radius(self, failure_prob: float, terms: int = 1) -> float:
        return 0.5 * super().radius(failure_prob, terms)


class PlainCentral(Central):
    """Central in plain Python, so that counters in plain Python fit in. Not a bug by itself."""

    @property
    def kernel(self) -> Step:
        """Count, then publish."""

        def release(parameters: Any, state: Any, users: Any, query: Any, coins: Any) -> None:
            if state.stream.time[0] > parameters.releases:
                raise BudgetSpent("all releases of this counter are spent; calibrate for more episodes")
            add_trajectory(state.exact, users.states, users.actions, users.rewards)
            if state.stream.time[0] < parameters.releases:
                self.counter.step(parameters.counter, state.stream, coins)
                self.published(state)
            else:
                self.afterwards(state)

        return release

    def published(self, state: Any) -> None:
        """What is shown after a user."""
        publish(self.parameters, state)

    def afterwards(self, state: Any) -> None:
        """What happens with the last user."""
        state.stream.time[0] += 1


class _ExactVisits(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.visits[:] = state.exact.visits


class _ExactSquares(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.squares[:] = state.exact.squares


class _LastUserPublished(PlainCentral):
    def afterwards(self, state: Any) -> None:
        publish(self.parameters, state)


class _TellingVariance(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.variance[2] += 1e-6 * state.exact.rewards.sum()


class _MutatesItsState(Central):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        state.exact.visits[:] = after.exact.visits
        return after, released


class _ClaimsWithoutNoise(Unprotected):
    @property
    def claim(self) -> Any:
        return claim_of("central", 1.0, 0.0)

    @property
    def calibration(self) -> Any:
        return "tight"

    def noise_std(self) -> dict[str, float]:
        return {"transitions": 1.0, "visits": 1.0, "rewards": 1.0}


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
        fewer = BitNoise(users=came, honest_users=came, bits_per_user=bits.bits_per_user, probability=bits.probability)
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


def central(kind: type, counter: type = LaplaceTree, **changes: Any) -> Any:
    """A twin of a correct central privatizer with a Laplace tree."""
    original = configured("central", "laplace-tree")
    return twin(kind, original, counter=twin(counter, original.counter, **changes))


def shuffled(protocol: type, kind: type = Shuffled, **changes: Any) -> Any:
    """A twin of a correct shuffle privatizer."""
    original = configured("shuffle", "binomial", **changes)
    return twin(kind, original, protocol=twin(protocol, original.protocol))


def batches(kind: type = Shuffled, layer: int | None = 0, users: int = 20) -> Any:
    """A twin of a correct privatizer of one shuffled batch."""
    made = kind(shape=SHAPE, claim=claim_of("shuffle", 3.0, 1e-5), calibration="tight")
    return made.planned([PlannedBatch(users=users, query=BatchQuery(layer=layer, failure_prob=None))])


def _level_short() -> Any:
    original = configured("central", "laplace-tree")
    scale = original.counter.scale * math.floor(math.log(original.counter.steps)) / original.counter.levels
    return twin(Central, original, counter=twin(_LevelShort, original.counter, scale=scale))


CURATOR_BUGS: Final[dict[str, Mutation]] = {
    "tree noise halved": bug(
        "every node of the tree has half of the stated noise",
        lambda: central(PlainCentral, _HalfTheStream), "audit", rules=("variance", "exposed"),
    ),
    "tree noise redrawn": bug(
        "the noise of a tree node is drawn anew at every release",
        lambda: central(PlainCentral, _Redrawn), rules=("independent", "variance"),
    ),
    "ln K for log2 K levels": bug(
        "noise for ⌊ln K⌋ levels of the tree, of which there are ⌈log₂ K⌉", _level_short, rules=("continual",)
    ),
    "off-by-one tree": bug(
        "user k sits at leaf k, as printed: the first prefix has no noise at all",
        lambda: central(PlainCentral, _OffByOne), "audit", rules=("variance", "exposed"),
    ),
    "exact visits": bug(
        "visits are published without noise", lambda: central(_ExactVisits), rules=("variance", "exposed")
    ),
    "exact squares": bug(
        "squares of rewards are published without noise", lambda: central(_ExactSquares), rules=("families",)
    ),
    "telling variance": bug(
        "the variance beside a release has the sum of rewards in its sixth decimal",
        lambda: central(_TellingVariance), rules=("fields",),
    ),
    "last user published": bug(
        "one release more than was paid for, with the noise of the one before",
        lambda: central(_LastUserPublished), rules=("spent",),
    ),
    "state changed in place": bug(
        "a release changes the state that it was given", lambda: central(_MutatesItsState), rules=("state",)
    ),
    "radius too small": bug(
        "the stated precision is half of the true one", lambda: central(Central, _NarrowRadius), rules=("precise",)
    ),
    "a claim without noise": bug(
        "exact counts are released under a claim", lambda: _ClaimsWithoutNoise(shape=SHAPE), "accountant"
    ),
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
}  # fmt: skip
"""Bugs of curators and shufflers, by name."""

CURATORS: Final[dict[str, Callable[[], Any]]] = {
    "central laplace-tree": lambda: central(PlainCentral),
    "shuffle binomial": lambda: shuffled(Shuffle),
    "shuffled batch of a layer": batches,
    "shuffled batch of everything": lambda: batches(layer=None),
}
"""What they were planted in."""
