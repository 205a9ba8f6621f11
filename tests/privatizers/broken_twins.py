"""Privatizers with one planted privacy bug each, and who must catch it.

`TWINS` maps the name of a bug to a function that builds the twin and to the rules of the conformance suite of which at
least one must fire. The rule "certificate" means: the accountant catches it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from tacit.accounting.families import Family
from tacit.audit.bugs.central import ExactVisits, LastUserPublished, PlainCentral
from tacit.data.trajectories import Trajectories
from tacit.mechanisms.continual.tree import LaplaceTree
from tacit.mechanisms.noise.laplace import Laplace
from tacit.mechanisms.noise.layout import exact_vector, transition_cells
from tacit.mechanisms.noise.randomized_response import RandomizedResponse, send_slot
from tacit.mechanisms.noise.unary_encoding import UnaryEncoding
from tacit.privatizers.central import Central, publish
from tacit.privatizers.layout import add_vector, dimension_of
from tacit.privatizers.local import Local
from tacit.privatizers.none import Unprotected
from tacit.privatizers.registry import PrivacyRequest, make_privatizer
from tacit.privatizers.shuffle import Shuffle
from tacit.privatizers.shuffle_messages import Messages
from tacit.privatizers.shuffle_noise import BitNoise
from tacit.privatizers.shuffled import Shuffled
from tacit.privatizers.statistics import count_families
from tacit.protocol import copy_state
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
EPISODES = 16


def configured(trust: str, mechanism: str | None = None, **changes: Any) -> Any:
    """A correct, small privatizer."""
    request: dict[str, Any] = {
        "trust": trust,
        "shape": SHAPE,
        "episodes": 20 if trust == "shuffle" else EPISODES,
        "epsilon": 1.0,
        "delta": 1e-5 if mechanism in ("gaussian", "gaussian-tree", "factorization", "bounded", "binomial") else 0.0,
        "calibration": None,
        "mechanism": mechanism,
        "users_per_batch": 10 if trust == "shuffle" else 1,
    }
    return make_privatizer(PrivacyRequest(**(request | changes)))


def twin(kind: type, original: Any, **changes: Any) -> Any:
    """The same fields in another class."""
    return kind(**{field.name: getattr(original, field.name) for field in fields(original)} | changes)


# ------------------------------------------------------------------------------------------------- local


def python_kernel(encode: Callable[..., None]) -> Callable[..., None]:
    """The release kernel over an encoder in plain Python."""

    def release(parameters: Any, state: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
        encode(parameters, state.message, states, actions, rewards, generator)
        add_vector(state.released, state.message, parameters.complement, actions.shape[0])
        state.released.variance[:] += parameters.variance
        state.released.users[0] += 1

    return release


def scaled(stated: Any, factor: float) -> Any:
    """Parameters of an additive encoder with so many times the noise."""
    parts = (stated.outcome, stated.transition)
    outcome, transition = (part._replace(scale=part.scale * factor) for part in parts)
    return stated._replace(outcome=outcome, transition=transition)


class HalfTheNoise(Local):
    @property
    def parameters(self) -> Any:
        stated = super().parameters
        return scaled(stated, 0.5)


class ScaledNoise(Local):
    """Not a bug by itself: `factor` times the stated noise, for proofs of power."""

    factor = 0.75

    @property
    def parameters(self) -> Any:
        stated = super().parameters
        return scaled(stated, self.factor)


class HalfTheChange(Local):
    """H counters per family instead of 2H: a replaced user counted as if she had been removed."""

    def families(self) -> tuple[Family, ...]:
        return tuple(replace(family, down=0) for family in super().families())


class ForgottenFamily(Local):
    def families(self) -> tuple[Family, ...]:
        return tuple(family for family in super().families() if family.name != "rewards")


class ForgottenEvents(Local):
    def events(self) -> Any:
        return self.transition_mechanism.events(self.families()[0])


class FreeVisits(Local):
    """Three families of noise, accounted for as if they were the complement encoding."""

    def families(self) -> tuple[Family, ...]:
        return count_families(self.shape, "complement")


def noisy(parameters: Any, message: Any, draw: Any) -> None:
    first = transition_cells(2, parameters.stages, parameters.S, parameters.A)
    message[:] = draw
    message[:first] *= parameters.transition.scale
    message[first:] *= parameters.outcome.scale


def data(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any) -> None:
    exact_vector(
        message, parameters.stages, parameters.S, parameters.A, parameters.complement, states, actions, rewards
    )


class SharedNoise(Local):
    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            noisy(parameters, message, generator.laplace())
            data(parameters, message, states, actions, rewards)

        return python_kernel(encode)


class NeighbouringCountersShareNoise(Local):
    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            noisy(parameters, message, np.repeat(generator.laplace(size=len(message) // 2), 2))
            data(parameters, message, states, actions, rewards)

        return python_kernel(encode)


class SameSeedForEveryUser(Local):
    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            noisy(parameters, message, np.random.default_rng(7).laplace(size=len(message)))
            data(parameters, message, states, actions, rewards)

        return python_kernel(encode)


class SameNoiseInEveryBatch(Local):
    """Fresh noise for each user of a batch, but the next batch starts from the same seed."""

    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        seed = int(np.frombuffer(repr(noise.generator.bit_generator.state["state"]["inc"]).encode()[:8], np.int64)[0])
        return super().release(state, batch, SimulationNoise(np.random.default_rng(seed)))


class UnclippedRewards(Local):
    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            noisy(parameters, message, generator.laplace(size=len(message)))
            data(parameters, message, states, actions, np.zeros_like(rewards))
            S, A = parameters.S, parameters.A
            for h, (s, a) in enumerate(zip(np.clip(states, 0, S - 1), np.clip(actions, 0, A - 1), strict=False)):
                cell = transition_cells(len(actions), parameters.stages, S, A) + (h * S + s) * A + a
                message[cell] += rewards[h]
                message[cell + parameters.stages * S * A] -= rewards[h]

        return python_kernel(encode)


class UnclippedStates(Local):
    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            noisy(parameters, message, generator.laplace(size=len(message)))
            for h, (s, a) in enumerate(zip(states, actions, strict=False)):
                message.reshape(-1)[(h * parameters.S + s) * parameters.A + a] += 1.0

        return python_kernel(encode)


class TwoSlots(Local):
    """Two slots, each with all of epsilon."""

    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            message[:] = 0.0
            for slot in generator.choice(2 * len(actions) - 1, 2, replace=False):
                send_slot(parameters, message, slot, states, actions, rewards, generator)
            message /= 2.0

        return python_kernel(encode)


class SlotByData(Local):
    """The slot that is sent tells what was earned in the first step."""

    @property
    def release_kernel(self) -> Any:
        def encode(parameters: Any, message: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            message[:] = 0.0
            slot = 0 if rewards[0] > 0.5 else generator.integers(2 * len(actions) - 1)
            send_slot(parameters, message, slot, states, actions, rewards, generator)

        return python_kernel(encode)


class FlatteringCertificate(Local):
    def certificate(self) -> Any:
        return replace(super().certificate(), epsilon=0.5)


class Talkative(Local):
    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        if isinstance(batch, Trajectories):
            logging.getLogger("twin").info("first reward %r", float(batch.rewards.ravel()[0]))
        return super().release(state, batch, noise)


class RaisesOnData(Local):
    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        if isinstance(batch, Trajectories) and not (np.abs(batch.rewards) <= 1.0).all():
            raise ValueError("a reward is out of range")
        return super().release(state, batch, noise)


class AnyLength(Local):
    """Takes trajectories of any length, and with them more than one user's worth of counts."""

    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        if isinstance(batch, Trajectories) and batch.actions.shape[1] != self.shape.horizon:
            after = copy_state(state)
            for row in zip(batch.states, batch.actions, batch.rewards, strict=True):
                self.release_kernel(self.parameters, after, *row, noise.generator)
            return after, after.released
        return super().release(state, batch, noise)


# ----------------------------------------------------------------------------------------------- central


class Redrawn(LaplaceTree):
    """Draws the noise of all nodes of a prefix anew at every release."""

    @property
    def step(self) -> Any:
        def step(params: Any, stream: Any, generator: Any) -> None:
            stream.time[0] += 1
            terms = int(stream.time[0]).bit_count()
            stream.noise[:] = generator.laplace(scale=params.scale, size=(terms, len(stream.noise))).sum(axis=0)

        return step


class RedrawnAndSaysSo(Redrawn):
    """The same, and the kernel for noise that is handed in does it, too."""

    def draws_at(self, k: int) -> int:
        return k.bit_count()

    @property
    def advance(self) -> Any:
        def advance(params: Any, stream: Any, draws: Any) -> None:
            stream.time[0] += 1
            stream.noise[:] = draws.sum(axis=0)

        return advance


class OffByOne(LaplaceTree):
    """User k sits at leaf k: the first prefix is bare, and every later one carries the noise of the prefix before."""

    @property
    def step(self) -> Any:
        inner = super().step

        def step(params: Any, stream: Any, generator: Any) -> None:
            if stream.time[0] == 0 and not stream.draws.any():
                stream.draws[:] = 1.0  # remembers that the first user came
                stream.noise[:] = 0.0
            else:
                inner(params, stream, generator)

        return step


class LevelShort(LaplaceTree):
    """⌊ln K⌋ levels where there are ⌈log₂ K⌉."""

    @property
    def params(self) -> Any:
        return super().params._replace(levels=4)

    @property
    def levels(self) -> int:
        return math.floor(math.log(self.steps))


class HalfTheStream(LaplaceTree):
    @property
    def step(self) -> Any:
        inner = super().step
        return lambda params, stream, generator: inner(params._replace(scale=params.scale / 2), stream, generator)


class NarrowRadius(LaplaceTree):
    def radius(self, failure_prob: float, terms: int = 1) -> float:
        return 0.5 * super().radius(failure_prob, terms)


class ExactSquares(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.squares[:] = state.exact.squares


class MutatesItsState(Central):
    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        after, released = super().release(state, batch, noise)
        state.exact.visits[:] = after.exact.visits
        return after, released


def central(kind: type, counter: type = LaplaceTree, **changes: Any) -> Any:
    original = configured("central", "laplace-tree")
    return twin(kind, original, counter=twin(counter, original.counter, **changes))


def level_short() -> Any:
    original = configured("central", "laplace-tree")
    scale = original.counter.scale * math.floor(math.log(EPISODES)) / original.counter.levels
    return twin(Central, original, counter=twin(LevelShort, original.counter, scale=scale))


# ----------------------------------------------------------------------------------------------- shuffle


class IntegerMessages(Shuffle):
    """As printed: one message per counter that carries y plus all noise bits, and the integers are shuffled."""

    def encode(self, trajectory: Any, noise: Any) -> Messages:
        bits = super().encode(trajectory, noise)
        held = np.bincount(bits.counters, weights=bits.bits, minlength=self.spec.num_counters + 1)
        counters = np.arange(self.spec.num_counters, dtype=np.uint32)
        return Messages(counters, held[: self.spec.num_counters].astype(np.uint8))

    def shuffle(self, reports: Any, noise: Any) -> Messages:
        order = noise.generator.permutation(sum(len(report) for report in reports))
        counters, values = (np.concatenate([getattr(r, name) for r in reports]) for name in ("counters", "bits"))
        return Messages(counters[order], values[order])

    def analyze(self, messages: Messages) -> Any:
        totals = np.bincount(messages.counters, weights=messages.bits, minlength=self.spec.num_counters)
        return self.spec.arrays(totals - self.bit_noise.total.mean)


class UnpaddedMessages(IntegerMessages):
    """Every bit alone, but only ones are sent and nothing fills the report up."""

    def encode(self, trajectory: Any, noise: Any) -> Messages:
        bits = Shuffle.encode(self, trajectory, noise)
        ones = bits.bits == 1
        return Messages(bits.counters[ones], bits.bits[ones])


class NotShuffled(Shuffle):
    def shuffle(self, reports: Any, noise: Any) -> Messages:
        out = super().shuffle(reports, noise)
        counters, bits = (np.concatenate([getattr(r, name) for r in reports]) for name in ("counters", "bits"))
        return Messages(counters, bits) if len(counters) == len(out) else out


class CalibratedForMore(Shuffle):
    """Events of a batch a hundred times as large as the one that is run."""

    def events(self) -> Any:
        users = 100 * self.bit_noise.users
        return replace(self.bit_noise, users=users, honest_users=users).events(self.families())


class HalfTheBitsInAggregate(Shuffle):
    def aggregate(self, exact: Any, noise: Any, *, constant_rewards: bool = False) -> Any:
        half = replace(self.bit_noise, bits_per_user=max(1, self.bit_noise.bits_per_user // 2))
        quieter = Shuffle(spec=self.spec, bit_noise=half)
        return quieter.aggregate(exact, noise, constant_rewards=constant_rewards)


class SmallBatches(Shuffled):
    """Releases whatever came, with the noise of those who came."""

    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        users = len(batch) if isinstance(batch, Trajectories) else batch.users
        bits = BitNoise(
            users=users,
            honest_users=users,
            bits_per_user=self.protocol.bit_noise.bits_per_user,
            probability=self.protocol.bit_noise.probability,
        )
        return Shuffled.release(
            Shuffled(
                shape=self.shape,
                claim=self.claim,
                calibration=self.calibration,
                protocol=replace(self.protocol, bit_noise=bits),
            ),
            state,
            batch,
            noise,
        )


class SeededSecurity(Shuffled):
    """Answers a request for secure noise with a seed."""

    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        given = SimulationNoise(np.random.default_rng(3)) if isinstance(noise, SecureNoise) else noise
        return super().release(state, batch, given)


def shuffled(protocol: type) -> Any:
    original = configured("shuffle", "binomial")
    return twin(Shuffled, original, protocol=twin(protocol, original.protocol))


class ClaimsWithoutNoise(Unprotected):
    @property
    def claim(self) -> Any:
        return configured("central", "laplace-tree").claim

    @property
    def calibration(self) -> Any:
        return "tight"

    def noise_std(self) -> dict[str, float]:
        return {"transitions": 1.0, "visits": 1.0, "rewards": 1.0}


# ------------------------------------------------------------------------------------------------- table


class Planted(NamedTuple):
    build: Callable[[], Any]
    caught_by: frozenset[str]


def planted(build: Callable[[], Any], *rules: str) -> Planted:
    return Planted(build, frozenset(rules))


def local(kind: type = Local, base: str = "laplace", **changes: Any) -> Any:
    return twin(kind, configured("local", base), **changes)


def laplace(families: tuple[Family, ...]) -> dict[str, Any]:
    noise = Laplace.calibrate(families, 1.0, 0.0, discrete=False)
    return {"mechanism": noise, "transition_mechanism": noise}


def half_the_change() -> Any:
    halved = tuple(replace(family, down=0) for family in count_families(SHAPE, "complement"))
    return local(HalfTheChange, **laplace(halved))


def forgotten_family() -> Any:
    kept = tuple(f for f in count_families(SHAPE, "families") if f.name != "rewards")
    return local(ForgottenFamily, encoding="families", **laplace(kept))


def wrong_slots() -> Any:
    wrong = UnaryEncoding(epsilon=1.0, slots=SHAPE.horizon, feeding=1)
    return local(base="oue", mechanism=wrong, transition_mechanism=wrong)


def response_per_slot() -> Any:
    bit = RandomizedResponse(epsilon=1.0 / (2 * SHAPE.horizon - 1))
    return local(base="rr", mechanism=bit, transition_mechanism=bit)


def scale_of_one_family() -> Any:
    b = Laplace(scale=2.0 * SHAPE.horizon, discrete=False)
    return local(mechanism=b, transition_mechanism=b)


TWINS: dict[str, Planted] = {
    "half the noise": planted(lambda: local(HalfTheNoise), "variance"),
    "H instead of 2H": planted(half_the_change, "families"),
    "forgotten family": planted(forgotten_family, "families"),
    "events forget a family": planted(lambda: local(ForgottenEvents), "events"),
    "complement encoding as if visits were free": planted(
        lambda: local(FreeVisits, encoding="families"), "independent"
    ),
    "three families with the noise of two": planted(lambda: local(encoding="families"), "certificate"),
    "scale of one family only": planted(scale_of_one_family, "certificate"),
    "one bit per slot counted in randomized response": planted(response_per_slot, "certificate"),
    "noise shared between all counters": planted(lambda: local(SharedNoise), "independent"),
    "noise shared between two counters": planted(lambda: local(NeighbouringCountersShareNoise), "independent"),
    "one seed for all users": planted(lambda: local(SameSeedForEveryUser), "replay"),
    "one seed for all batches": planted(lambda: local(SameNoiseInEveryBatch), "independent"),
    "reward not clipped": planted(lambda: local(UnclippedRewards), "families"),
    "state not clipped": planted(lambda: local(UnclippedStates), "silence"),
    "trajectories of any length": planted(lambda: local(AnyLength), "shapes"),
    "wrong number of slots": planted(wrong_slots, "unbiased"),
    "two slots with all of epsilon each": planted(lambda: local(TwoSlots, "oue"), "families"),
    "slot chosen by the data": planted(lambda: local(SlotByData, "oue"), "families"),
    "certificate that flatters": planted(lambda: local(FlatteringCertificate), "certificate"),
    "a log line with a reward": planted(lambda: local(Talkative), "silence"),
    "an error on data": planted(lambda: local(RaisesOnData), "silence"),
    "noise redrawn for the same tree node": planted(lambda: central(PlainCentral, Redrawn), "independent", "variance"),
    "noise redrawn, openly": planted(lambda: central(PlainCentral, RedrawnAndSaysSo), "continual"),
    "off-by-one tree": planted(lambda: central(PlainCentral, OffByOne), "variance"),
    "ln K levels": planted(level_short, "continual"),
    "half the noise in the stream": planted(lambda: central(PlainCentral, HalfTheStream), "variance"),
    "exact visits": planted(lambda: central(ExactVisits), "variance"),
    "exact squares": planted(lambda: central(ExactSquares), "families"),
    "last user published": planted(lambda: central(LastUserPublished), "spent"),
    "state changed in place": planted(lambda: central(MutatesItsState), "state"),
    "radius too small": planted(lambda: central(Central, NarrowRadius), "precise"),
    "a claim without noise": planted(lambda: ClaimsWithoutNoise(shape=SHAPE), "certificate"),
    "integer messages": planted(lambda: shuffled(IntegerMessages), "messages"),
    "unpadded message counts": planted(lambda: shuffled(UnpaddedMessages), "messages"),
    "messages in their order": planted(lambda: shuffled(NotShuffled), "messages"),
    "fewer users than calibrated for": planted(lambda: shuffled(CalibratedForMore), "events"),
    "batches smaller than planned": planted(
        lambda: twin(SmallBatches, configured("shuffle", "binomial")), "batch size"
    ),
    "half the bits in aggregate": planted(lambda: shuffled(HalfTheBitsInAggregate), "variance"),
    "seeded security": planted(lambda: twin(SeededSecurity, configured("shuffle", "binomial")), "noise source"),
}

assert dimension_of(SHAPE) % 2 == 0  # neighbouring counters come in pairs
