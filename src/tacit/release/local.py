"""Counts under local trust: every user randomizes on a device of their own, and trusts no other party.

Roles: the encoder is the randomizer on the device, the shuffler is the identity, the analyzer adds the messages up.

G1  Each user sends one message, covered by the randomizer's noise over the families of the encoding; users are
    disjoint. A person who is several users sends that many messages, which compose (Lemma P14 (several stages)).
G2  The message is unbiased for the user's statistics, with the stated noise variance.
G3  Everything the server does is post-processing of the messages.

`Local` is the plan of such messages, and their simulation: it draws continuous noise where a device would draw whole
numbers, unless it was made for devices, and the messages of many users at once. The stages that `release_of` makes
send the same messages as bytes.
`paper` uses three families with the printed noise; `tight` the complement encoding with the least noise.

One stage (`LocalRelease`): every device sends one randomized message, and a collector is a letter box.

    device      body = one message of the randomizer, in integers and of one length (`codecs`)
    anybody     sums of the integers, de-biased, added to running totals

G4  The law of a body is the randomizer's, exactly, with secure noise: also beyond epsilon = 37, where probabilities
    cannot be told from one in floating point. (Integers are clipped afterwards at 64 scales, which they leave with a
    probability below e^-63.) Randomizers without an exact integer form are refused.
G5  Everything read from a payload is a function of sums of integers, the same on every machine that rounds as IEEE 754
    says.
G6  Parameters are written as exact fractions; a reader builds the same randomizer without calibrating.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily
from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.arrays import Floats
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, TrajectoryLike, Walked
from tacit.errors import InvalidInput, NotSupported, UnknownName, require
from tacit.kernels import lean_kernel
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.one_slot import OneSlot, feeding_slots
from tacit.noise.protocol import EncoderParameters, Encoding, Randomizer, require_randomizer
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.support_index import places_of, slots_of
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.protocol import TOTALS, Calibration, Kernel, Noise, PrivateStatistics, Query, Totals, copy_state
from tacit.randomness import SimulationNoise
from tacit.release.codecs import MessageCodec, codec_of
from tacit.release.contract import ChargedAt, StageSize
from tacit.release.counts_contract import (
    Batch,
    certificate_of,
    certified_families,
    release_users,
    require_answer,
    require_placed,
    require_shape,
)
from tacit.release.documents import CODECS, count_query_to_plain, require_entries
from tacit.release.stage import CountMemory, StagePlan, StageRelease, require_people
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CELL, REWARD, ROW, VISIT, CountPrecision, Sampling, SumPrecision
from tacit.statistics.count_vectors import add_vector, count_families, dimension_of


def unfolded(counts: ExactCounts, generator: np.random.Generator) -> Trajectories:
    """Simulation only: trajectories with exactly these counts, drawn from their law given the counts.

    The people in one state are exchangeable if they all follow one Markov policy in one environment: who of them takes
    which action, goes where and earns what is a random matching, layer by layer.
    """
    if counts.groups:
        raise NotSupported("counts of people who follow several policies do not say who did what; draw trajectories")
    H, S, A = counts.visits.shape
    n = counts.users
    states, actions = np.zeros((n, H + 1), dtype=np.int64), np.zeros((n, H), dtype=np.int64)
    rewards = np.zeros((n, H))
    states[:, 0] = generator.permutation(np.repeat(np.arange(S), counts.starts))
    for h in range(H):
        for s in range(S):
            there = generator.permutation(np.flatnonzero(states[:, h] == s))
            # The cells (a, s') in a row, each as often as it is counted; who gets which is a random matching.
            cells = np.repeat(np.arange(A * S), counts.transitions[h, s].ravel())
            actions[there, h], states[there, h + 1] = cells // S, cells % S
            for a in range(A):
                acted = generator.permutation(there[actions[there, h] == a])
                earned = counts.rewards[h, s, a]
                if counts.binary:
                    rewards[acted[: round(float(earned))], h] = 1.0
                elif len(acted):
                    rewards[acted, h] = earned / len(acted)
    return Trajectories(states=states, actions=actions, rewards=rewards)


RANDOMIZERS: Final[Mapping[str, type[Randomizer]]] = {
    "subset": SubsetSelection,
    "oue": UnaryEncoding,
    "rr": RandomizedResponse,
    "laplace": Laplace,
    "gaussian": Gaussian,
}
"""The randomizers that a device can draw exactly, as integers."""

ENCODINGS: Final[tuple[Encoding, ...]] = ("complement", "squares")


class LetterBox(StageRelease):
    """One stage of randomized messages, which a collector only sorts; subclasses say what a message is and stands for.

    G1  A body is private whoever reads it: nothing is added or hidden later, and what other people send does not help.
        So a stage is paid before it opens, and it can be released with any number of reports.
    G2  A payload is in the order of its bytes: it does not say who reported when.
    """

    __slots__ = ()
    TRUST: ClassVar[Trust] = "local"
    CHARGED_AT: ClassVar[ChargedAt] = "open"

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        raise NotImplementedError

    def check(self, body: bytes) -> None:
        """Raise unless some device could have sent this body."""
        raise NotImplementedError

    def asked(self, query: Query) -> Query:
        """The query, if messages answer it."""
        raise NotImplementedError

    def release(self, secret: Any, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[Any, bytes]:
        """All bodies in the order of their bytes; nothing is drawn."""
        require_people(len(bodies), self.least, self.target)
        self.asked(query)
        for body in bodies:
            self.check(body)
        return secret, b"".join(sorted(bodies))

    def bodies(self, payload: bytes, people: int) -> list[bytes]:
        """The messages of a payload, if it is one that `release` can have made from so many."""
        require_people(people, self.least, self.target)
        size = self.body_size
        require(len(payload) == people * size, f"a payload must have {people} messages of {size} bytes", len(payload))
        found = [payload[start : start + size] for start in range(0, len(payload), size)]
        for body in found:
            self.check(body)
        require(found == sorted(found), "the messages of a payload must be sorted", "another order")
        return found


def alone(person: TrajectoryLike) -> Trajectories:
    """A batch of one person."""
    states, actions, rewards = (np.asarray(part) for part in (person.states, person.actions, person.rewards))
    return Trajectories(states[np.newaxis], actions[np.newaxis], rewards[np.newaxis])


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """What one person sends about counts, simulated or on the wire; it knows no noise but by `Randomizer`."""

    shape: CountShape
    claim: PrivacyClaim
    encoding: Encoding
    outcome: Randomizer
    """The noise of rewards, visits and complements."""
    transition: Randomizer
    """The noise of transitions: of the same kind, possibly of another size."""

    def __post_init__(self) -> None:
        if self.claim.trust != "local":
            raise InvalidInput(f"Local needs a claim with trust 'local', got {self.claim.trust!r}")
        require_placed(self.shape, self.encoding)
        require_randomizer(self.outcome)
        if type(self.outcome) is not type(self.transition):
            raise InvalidInput("all families must use the same kind of noise")
        kind, able = self.outcome, " or ".join(self.outcome.ENCODINGS)
        must = f"{kind.NAME} ({kind.SUMMARY}) needs the encoding {able}"
        require(self.encoding in kind.ENCODINGS, must, self.encoding, "choose another mechanism or encoding")

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return f"local/{self.outcome.NAME}"

    @property
    def wire(self) -> MessageCodec:
        """The bytes of a message; refused where the noise has no exact integer form."""
        noise: Any = (self.outcome, self.transition)
        return codec_of(self.shape, self.encoding, *noise)

    @property
    def dimension(self) -> int:
        """How many counters a message has."""
        return dimension_of(self.shape, squares=self.encoding == "squares")

    @property
    def variance(self) -> Floats:
        """[3]: what one message adds to the variance of a counter of transitions, visits and rewards."""
        found = self._variances(sampling=True)
        return np.array([found["transitions"], found["visits"], found["rewards"]])

    def families(self) -> tuple[Family, ...]:
        """What one message can change."""
        return count_families(self.shape, self.encoding)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation that one user's noise adds to a counter (one-slot: its sampling variance on top)."""
        return {name: value**0.5 for name, value in self._variances(sampling=False).items()}

    @property
    def _steps(self) -> tuple[int, int]:
        """How many steps feed a counter of outcomes and of transitions."""
        steps = 1 if self.shape.staged else self.shape.horizon
        return steps, max(1, steps - 1)

    def _variances(self, *, sampling: bool) -> dict[str, float]:
        both = zip((self.outcome, self.transition), self._steps, strict=True)
        outcome, moved = (
            one.user_variance(steps) + (one.sampling_variance if sampling else 0.0) for one, steps in both
        )
        visits = outcome * (1 + (self.encoding == "complement"))
        moved = visits if places_of(self.shape).all_sure else moved
        found = {"transitions": moved if self.shape.horizon > 1 else 0.0, "visits": visits, "rewards": outcome}
        return found | {"squares": outcome} if self.encoding == "squares" else found

    def add(self, counts: CountStatistics, vector: Floats) -> None:
        """Add the de-biased counters of some messages to counts, in place."""
        add_vector(counts, vector, places_of(self.shape), self.encoding == "complement")

    def totals(self, before: CountStatistics, vector: Floats, people: int) -> CountStatistics:
        """Running totals with the de-biased counters of so many messages added."""
        released: CountStatistics = copy_state(before)
        self.add(released, vector)
        released.variance[:] += people * self.variance
        released.users[0] += people
        return released


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRelease(LetterBox, Messages):
    """One stage of randomized messages about counts; a plan (`Local`) makes it."""

    target: int
    least: int

    KIND: ClassVar[str] = "local"
    FIXED: ClassVar[Mapping[str, Any]] = {"query": count_query_to_plain(TOTALS)}
    query: ClassVar[Totals] = TOTALS

    def __post_init__(self) -> None:
        self.require_sizes()
        if RANDOMIZERS.get(self.outcome.NAME) is not type(self.outcome):
            raise UnknownName("local mechanism with an exact integer form", self.outcome.NAME, RANDOMIZERS)
        require(self.encoding in ENCODINGS, f"the encoding must be {' or '.join(ENCODINGS)}", self.encoding)
        Messages.__post_init__(self)
        _require_fitting(self.shape, self.outcome, self.transition)
        _ = self.wire  # its refusals are ours

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return self.wire.size

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; doubles of the noise are fractions (G6)."""
        return LetterBox.to_dict(self) | {"mechanism": self.outcome.NAME}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LocalRelease:
        """The release that `to_dict` wrote; anything missing, unknown or out of range is `InvalidInput`."""
        given = dict(plain) if isinstance(plain, Mapping) else {}
        name = str(given.pop("mechanism", None))
        if name not in RANDOMIZERS:
            raise UnknownName("local mechanism with an exact integer form", name, RANDOMIZERS)
        noise = {part: _from_plain(RANDOMIZERS[name], given.get(part)) for part in ("outcome", "transition")}
        return super(LocalRelease, cls).from_dict(given | noise)

    def events(self) -> Events:
        """What one message costs, however many others there are."""
        return self.outcome.exposure(self.transition, self.families())

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one randomized message; None is a cover report. What is out of range is clipped further on."""
        if trajectory is None:
            return self.wire.encode(None, noise)
        one = require_shape(alone(trajectory), self.shape)
        return self.wire.encode((one.states[0], one.actions[0], one.rewards[0]), noise)

    def check(self, body: bytes) -> None:
        """Raise unless some device could have sent this body."""
        self.wire.check(body)

    def asked(self, query: Query) -> Query:
        """Running totals, and nothing else."""
        self.require_query(query, TOTALS)
        return query

    def begin_memory(self) -> CountMemory:
        """Empty totals."""
        return CountMemory(released=empty_counts(self.shape))

    def read(
        self, memory: CountMemory, payload: bytes, people: int
    ) -> tuple[CountMemory, PrivateStatistics[CountStatistics]]:
        """Running totals with this stage added."""
        released = self.totals(memory.released, self.wire.total(self.bodies(payload, people)), people)
        return CountMemory(released=released), PrivateStatistics(released, self.claim)

    def simulate(self, secret: Any, users: Batch, query: Query, noise: SimulationNoise) -> tuple[Any, bytes]:
        """A payload from trajectories, or from people drawn to match exact counts."""
        drawn = users if isinstance(users, Trajectories) else unfolded(users, noise.generator)
        batch = require_shape(drawn, self.shape)
        rows = zip(batch.states, batch.actions, batch.rewards, strict=True)
        return self.release(secret, [self.wire.encode(row, noise) for row in rows], query, noise)


def _require_fitting(shape: CountShape, outcome: Randomizer, transition: Randomizer) -> None:
    """Raise unless the sizes that a randomizer was given are those of the statistics."""
    rows, places, slots = shape.num_states * shape.num_actions, places_of(shape), len(slots_of(shape))
    sizes = (places.outcomes, max(1, places.moved)) if places.declared else (2 * rows, rows * shape.num_states)
    for kind, feeding, cells in zip((outcome, transition), feeding_slots(shape), sizes, strict=True):
        if isinstance(kind, OneSlot):
            fits = kind.slots == slots and kind.feeding == feeding
            require(fits, f"this shape has {slots} slots, {feeding} of them for a counter", (kind.slots, kind.feeding))
        if isinstance(kind, SubsetSelection):
            require(kind.cells == cells, f"this slot has {cells} cells", kind.cells)
        if isinstance(kind, Laplace | Gaussian):
            require(kind.discrete, "noise that leaves a device must be whole numbers", "continuous noise")


def _to_plain(noise: Any) -> dict[str, Any]:
    """The fields of a randomizer; doubles as fractions."""
    return {item.name: CODECS[str(item.type)][0](getattr(noise, item.name)) for item in fields(noise)}


def _from_plain(kind: Any, plain: object) -> Any:
    """The randomizer that `_to_plain` wrote."""
    readers = {item.name: CODECS[str(item.type)][1] for item in fields(kind)}
    given = require_entries(f"a mechanism '{kind.NAME}'", plain, readers)
    return kind(**{name: read(name, given[name]) for name, read in readers.items()})


# `LocalRelease.from_dict` reads the noise before anything else, because its kind stands in an entry of its own.
CODECS["Randomizer"] = (_to_plain, lambda _, made: made)
CODECS["Encoding"] = (str, lambda _, plain: plain)


class LocalState(NamedTuple):
    """The server's memory: the last message and the sum of all."""

    message: Floats
    released: CountStatistics


@cache
def local_kernel(encode: Callable[..., None]) -> Callable[..., None]:
    """The release kernel over one encoder."""

    @lean_kernel
    def release(
        parameters: EncoderParameters, state: LocalState, users: Walked, query: Totals, generator: np.random.Generator
    ) -> None:
        encode(parameters, state.message, users.states, users.actions, users.rewards, generator)
        add_vector(state.released, state.message, parameters.places, parameters.complement)
        for family in range(3):
            state.released.variance[family] += parameters.variance[family]
        state.released.users[0] += 1

    return release


@dataclass(frozen=True, slots=True, kw_only=True)
class Local(Messages, StagePlan):
    """Randomizers on the users' devices, sums on the server: what learners are told, the simulation and the stages."""

    calibration: Calibration

    answers = Totals

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel: `(parameters, message, states, actions, rewards, generator)`."""
        return self.outcome.encoder

    @property
    def kernel(self) -> Kernel:
        """The kernel that takes in one user."""
        return local_kernel(self.encoder)

    @property
    def parameters(self) -> EncoderParameters:
        """Public parameters of the encoder."""
        return EncoderParameters(
            stages=self.shape.stages,
            S=self.shape.num_states,
            A=self.shape.num_actions,
            complement=self.encoding == "complement",
            outcome=self.outcome.parameters,
            transition=self.transition.parameters,
            variance=self.variance,
            places=places_of(self.shape),
        )

    def release_of(self, stage: StageSize) -> LocalRelease:
        """One stage: the same noise in all of them."""
        require(isinstance(stage.query, Totals), "local messages are added up to running totals", stage.query)
        return LocalRelease(
            shape=self.shape,
            claim=self.claim,
            encoding=self.encoding,
            outcome=self.outcome,
            transition=self.transition,
            target=stage.target,
            least=stage.least,
        )

    def events(self) -> Events:
        """The exposure of one person: every report is one message, with noise of its own (G1)."""
        return in_stages(self.outcome.exposure(self.transition, self.families()), self.claim.unit.reports)

    def precision(self) -> SumPrecision:
        """How far the noise of a sum over users can go: the c_{k,1..4} of [garcelon2021local] Assumption 3."""
        (outcome, moved), (steps, hops) = (self.outcome, self.transition), self._steps
        summed = 2 if self.encoding == "complement" else 1  # counters that add up to N(s,a)
        each = [outcome.sum_noise(cells, steps) for cells in (1, summed)]
        support = self.shape.support
        successors = self.shape.num_states if support is None else support.most_successors
        each += [moved.sum_noise(cells, hops) for cells in (successors, 1)]
        variance, scale = np.array(each).T
        if len(places_of(self.shape).sure_row):
            # The transitions of a sure row are its visits.
            for place in (ROW, CELL):
                variance[place], scale[place] = (max(part[place], part[VISIT]) for part in (variance, scale))
        return SumPrecision(variance=variance.copy(), scale=scale.copy())

    def count_precision(self) -> CountPrecision:
        """The sub-gamma scales of the noise in transitions, visits and rewards."""
        scale = self.precision().scale
        return CountPrecision(scale=np.array([scale[CELL], scale[VISIT], scale[REWARD]]))

    def sampling(self) -> Sampling:
        """What it costs if users send a part of their trajectory only."""
        outcome, moved = self.outcome, self.transition
        share = np.array([moved.noise_share, outcome.noise_share, outcome.noise_share])
        return Sampling(weight=max(outcome.weight, moved.weight), noise_share=share)

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        delta = "" if self.outcome.PURE else f" at delta {self.claim.delta:g}"
        printed = f"epsilon {self.claim.epsilon:g}-LDP{delta}, {self.name} noise"
        paper = printed if self.calibration == "paper" else None
        return certificate_of(self, noise=self.outcome.NAME, std=self.noise_std(), paper_says=paper, several=True)

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        return certified_families(self, noise=self.outcome.NAME, std=self.noise_std())

    def begin(self) -> LocalState:
        """Before the first user."""
        return LocalState(message=np.zeros(self.dimension), released=empty_counts(self.shape))

    def release(
        self, state: LocalState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[LocalState, PrivateStatistics[CountStatistics]]:
        """Let every user of a batch send one message; exact counts take the aggregate path."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: LocalState = release_users(self, state, users, query, noise)
            return after, PrivateStatistics(after.released, self.claim)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        batch = require_shape(users, self.shape)
        vector = self.outcome.total(self.transition, self.encoding, self.shape, batch, noise)
        released = self.totals(state.released, vector, batch.users)
        return LocalState(message=state.message.copy(), released=released), PrivateStatistics(released, self.claim)
