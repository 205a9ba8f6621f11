"""The local channel: every device sends one randomized message, and a collector is a letter box.

    device      body = one message of the mechanism, in integers and of one length (`wires`)
    collector   payload = all bodies, sorted
    anybody     sums of the integers, de-biased, added to running totals

G1  Every body is private by itself, whoever reads it: nothing is added or hidden later. So a stage is paid before it
    opens, and it can be released with any number of reports.
G2  The law of a body is the mechanism's, exactly, with secure noise: also beyond epsilon = 37, where probabilities
    cannot be told from one in floating point. (Integers are clipped afterwards at 64 scales, which they leave with a
    probability below e^-63.) Mechanisms without an exact integer form are refused.
G3  A payload is in the order of its bytes: it does not say who reported when. Everything read from it is a function of
    sums of integers, the same on every machine that rounds as IEEE 754 says.
G4  Parameters are written as exact fractions; a reader builds the same mechanism without calibrating.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories, TrajectoryLike
from tacit.errors import InvalidInput, UnknownName, require, require_count
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.one_slot import OneSlot, feeding_slots
from tacit.noise.places import places_of, slots_of
from tacit.noise.protocol import Encoding, Randomizer
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.protocol import TOTALS, Noise, Private, Query, Totals, copy_state
from tacit.randomness import SimulationNoise
from tacit.release.codecs import Wire, wire_of
from tacit.release.contract import ChargedAt
from tacit.release.counts_contract import Batch, require_shape
from tacit.release.documents import (
    claim_from_plain,
    count_query_from_plain,
    count_query_to_plain,
    float_from_plain,
    fraction_to_plain,
    require_entries,
    shape_from_plain,
    shape_to_plain,
)
from tacit.release.local import Local
from tacit.release.stage import CountMemory, NoSecret, require_people
from tacit.release.unfold import unfolded
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_vectors import add_placed, add_vector

__all__ = ["RANDOMIZERS", "LocalChannel"]

RANDOMIZERS: Final[Mapping[str, type[Randomizer]]] = {
    "subset": SubsetSelection,
    "oue": UnaryEncoding,
    "rr": RandomizedResponse,
    "laplace": Laplace,
    "gaussian": Gaussian,
}
"""The mechanisms that a device can draw exactly, as integers."""

ENTRIES: Final = (
    *("kind", "claim", "shape", "query", "target", "least"),
    *("encoding", "mechanism", "outcome", "transition"),
)
ENCODINGS: Final[tuple[Encoding, ...]] = ("complement", "squares")
KINDS: Final = {"float": float, "int": int, "bool": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChannel:
    """One stage of randomized messages; make it with `LocalBasis`."""

    claim: PrivacyClaim
    shape: CountShape
    target: int
    least: int
    encoding: Encoding
    outcome: Randomizer
    """The noise of rewards, visits and complements."""
    transition: Randomizer
    """The noise of transitions."""

    KIND: ClassVar[str] = "local"
    TRUST: ClassVar[Trust] = "local"
    CHARGED_AT: ClassVar[ChargedAt] = "open"
    questions: ClassVar[int] = 1
    query: ClassVar[Totals] = TOTALS

    def __post_init__(self) -> None:
        least = require_count("least", self.least)
        require(least <= require_count("target", self.target), f"least must be at most the target {self.target}", least)
        if RANDOMIZERS.get(self.outcome.NAME) is not type(self.outcome):
            raise UnknownName("local mechanism with an exact integer form", self.outcome.NAME, RANDOMIZERS)
        _require_fitting(self.shape, self.outcome, self.transition)
        _ = self.wire  # its refusals are ours

    @property
    def local(self) -> Local:
        """The same as the privatizer of simulations describes it."""
        return _local(self)

    @property
    def wire(self) -> Wire:
        """The bytes of a message."""
        return wire_of(self.local)

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return self.local.name

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return self.wire.size

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; doubles of the noise are fractions (G4)."""
        return {
            "kind": self.KIND,
            "claim": self.claim.to_dict(),
            "shape": shape_to_plain(self.shape),
            "query": count_query_to_plain(self.query),
            "target": self.target,
            "least": self.least,
            "encoding": self.encoding,
            "mechanism": self.outcome.NAME,
            "outcome": _to_plain(self.outcome),
            "transition": _to_plain(self.transition),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LocalChannel:
        """The channel that `to_dict` wrote; anything missing, unknown or out of range is `InvalidInput`."""
        given = require_entries("a local channel", plain, ENTRIES)
        require(given["kind"] == cls.KIND, f"the kind of this channel is '{cls.KIND}'", given["kind"])
        asked = count_query_from_plain(given["query"])
        require(asked == TOTALS, "local messages are added up to running totals", given["query"])
        name = str(given["mechanism"])
        if name not in RANDOMIZERS:
            raise UnknownName("local mechanism with an exact integer form", name, RANDOMIZERS)
        return cls(
            claim=claim_from_plain(given["claim"], cls.TRUST),
            shape=shape_from_plain(given["shape"]),
            target=require_count("target", given["target"]),
            least=require_count("least", given["least"]),
            encoding=_encoding(given["encoding"]),
            outcome=_from_plain(RANDOMIZERS[name], given["outcome"]),
            transition=_from_plain(RANDOMIZERS[name], given["transition"]),
        )

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return self.local.families()

    def noise_std(self) -> dict[str, float]:
        """The deviation that one person's noise adds to a counter."""
        return self.local.noise_std()

    def events(self) -> Events:
        """What one message costs, however many others there are."""
        return self.outcome.exposure(self.transition, self.families())

    def events_at(self, people: int) -> Events:
        """The same: nobody else's noise helps."""
        require_people(people, self.least, self.target)
        return self.events()

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one randomized message; None is a cover report (`wires`)."""
        return self.wire.encode(None if trajectory is None else _user(trajectory, self.shape), noise)

    def check(self, body: bytes) -> None:
        """Raise unless some device could have sent this body."""
        self.wire.check(body)

    def begin_secret(self) -> NoSecret:
        """Nothing."""
        return NoSecret()

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[NoSecret, bytes]:
        """All bodies in the order of their bytes; nothing is drawn (G1, G3)."""
        require_people(len(bodies), self.least, self.target)
        require(
            type(query) is type(self.query) and query == self.query, f"this stage asks for {self.query.words()}", query
        )
        for body in bodies:
            self.check(body)
        return secret, b"".join(sorted(bodies))

    def begin_memory(self) -> CountMemory:
        """Nobody reported yet."""
        return CountMemory(released=empty_counts(self.shape))

    def read(self, memory: CountMemory, payload: bytes, people: int) -> tuple[CountMemory, Private[CountStatistics]]:
        """Running totals with this stage added."""
        require_people(people, self.least, self.target)
        size, local = self.body_size, self.local
        require(len(payload) == people * size, f"a payload must have {people} messages of {size} bytes", len(payload))
        bodies = [payload[start : start + size] for start in range(0, len(payload), size)]
        for body in bodies:
            self.check(body)
        require(bodies == sorted(bodies), "the messages of a payload must be sorted", "another order")
        released = copy_state(memory.released)
        self.add(released, self.wire.total(bodies))
        released.variance[:] += people * local.parameters.variance
        released.users[0] += people
        return CountMemory(released=released), Private(released, self.claim)

    def add(self, counts: CountStatistics, vector: Floats) -> None:
        """Add the de-biased counters of some messages to counts, in place."""
        complement = self.encoding == "complement"
        if self.shape.support is None:
            add_vector(counts, vector, complement, self.shape.horizon)
        else:
            add_placed(counts, vector, places_of(self.shape), complement)

    def skip(self, memory: CountMemory, payload: bytes, people: int) -> CountMemory:
        """Nothing is missed: a stage that is not added up leaves the others as they are."""
        return memory

    def simulate(self, secret: NoSecret, users: Batch, query: Query, noise: SimulationNoise) -> tuple[NoSecret, bytes]:
        """A payload from trajectories, or from people drawn to match exact counts."""
        drawn = users if isinstance(users, Trajectories) else unfolded(users, noise.generator)
        batch = require_shape(drawn, self.shape)
        rows = zip(batch.states, batch.actions, batch.rewards, strict=True)
        return self.release(secret, [self.wire.encode(row, noise) for row in rows], query, noise)


def _encoding(plain: object) -> Encoding:
    """An encoding that a channel knows."""
    for known in ENCODINGS:
        if plain == known:
            return known
    raise InvalidInput(f"the encoding of a local channel must be {' or '.join(ENCODINGS)}, got {plain!r}")


@lru_cache(maxsize=64)  # every device of a stage asks
def _local(channel: LocalChannel) -> Local:
    return Local(
        shape=channel.shape,
        claim=channel.claim,
        calibration="tight",
        encoding=channel.encoding,
        mechanism=channel.outcome,
        transition_mechanism=channel.transition,
    )


def _user(trajectory: TrajectoryLike, shape: CountShape) -> tuple[Ints, Ints, Floats]:
    """One person's episode with the public lengths; what lies outside the public ranges is clipped further on."""
    states, actions, rewards = (
        np.asarray(part)[np.newaxis] for part in (trajectory.states, trajectory.actions, trajectory.rewards)
    )
    one = require_shape(Trajectories(states, actions, rewards), shape)
    return one.states[0], one.actions[0], one.rewards[0]


def _require_fitting(shape: CountShape, outcome: Randomizer, transition: Randomizer) -> None:
    """Raise unless the sizes that a mechanism was given are those of the statistics."""
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


def _to_plain(mechanism: Any) -> dict[str, Any]:
    """The fields of a mechanism; doubles as fractions."""
    values = {item.name: getattr(mechanism, item.name) for item in fields(mechanism)}
    return {name: fraction_to_plain(value) if isinstance(value, float) else value for name, value in values.items()}


def _from_plain(kind: Any, plain: object) -> Any:
    """The mechanism that `_to_plain` wrote."""
    wanted = {item.name: KINDS[str(item.type)] for item in fields(kind)}
    given = require_entries(f"a mechanism '{kind.NAME}'", plain, wanted)
    values: dict[str, Any] = {}
    for name, type_ in wanted.items():
        if type_ is float:
            values[name] = float_from_plain(name, given[name])
        else:
            require(type(given[name]) is type_, f"{name} must be of type {type_.__name__}", given[name])
            values[name] = given[name]
    return kind(**values)
