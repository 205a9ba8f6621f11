"""The contract of a channel: what one stage of a study asks of a person, and what leaves on the way to the learner.

    device      body = encode(trajectory, noise)                       all that leaves the person
    collector   secret, payload = release(secret, bodies, query, noise)      the only place of the collector that draws
    anybody     memory, released = read(memory, payload, n)            floats are computed here, in public

G1  Only integers leave: a body and a payload are bytes of labels, bits and whole numbers.
G2  A channel is public and complete: it is written into the study (`to_dict`) with the exact numbers of its noise, and
    whoever reads it draws the same noise and derives the same events without calibrating anything.
G3  `events` is what one report of one person in this stage costs when `least` people report; with more it costs less.
G4  The same object serves simulations: `simulate` draws a payload from the exact law of `release` over `encode`.
G5  Nothing here raises on what a person did: a trajectory is clipped into the public sizes, NaN is zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.trajectories import TrajectoryLike
from tacit.errors import require, require_count
from tacit.protocol import Noise, PrivateStatistics, Query
from tacit.randomness import SimulationNoise

ChargedAt = Literal["open", "release"]
"""When a stage is paid: before it opens where every message is public once it left a device, else at its release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSize:
    """The public size of a stage that reports: so many people are wanted, so many are needed, and what is asked."""

    target: int
    least: int
    query: Query
    """What is asked, as far as it is fixed beforehand: totals, a batch query, or the kind of a gradient's."""

    def __post_init__(self) -> None:
        require_count("target", self.target)
        least = require_count("least", self.least)
        require(least <= self.target, f"least must be at most the target of {self.target} people", least)


class Release(Protocol):
    """One stage between people and the learner; a frozen dataclass of exact public numbers."""

    KIND: ClassVar[str]
    """What it is called on disk, a key of `tacit.release.registry.CHANNELS`."""
    TRUST: ClassVar[Trust]
    CHARGED_AT: ClassVar[ChargedAt]

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        ...

    @property
    def claim(self) -> PrivacyClaim:
        """What the study promises a person, over all reports that the claim's unit allows."""
        ...

    @property
    def query(self) -> Query:
        """What is asked, as far as it is fixed beforehand."""
        ...

    @property
    def questions(self) -> int:
        """How many times the same people are asked: `release` and `read` are called so often, on the same bodies."""
        ...

    @property
    def target(self) -> int:
        """How many people are wanted."""
        ...

    @property
    def least(self) -> int:
        """How many reports are needed: with fewer, nothing is released."""
        ...

    @property
    def body_size(self) -> int:
        """The length of a body in bytes; a block that overflows (shuffle) may make it a public multiple longer."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values, with `kind`; noise as exact integers or fractions [numerator, denominator]."""
        ...

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The channel that `to_dict` wrote; anything missing, unknown or out of range is `InvalidInput`."""
        ...

    def families(self) -> tuple[Family, ...]:
        """What one report can change, at the worst."""
        ...

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each released family, at its largest: when `target` people report."""
        ...

    def events(self) -> Events:
        """What one report of one person costs, at `least` people (G3), over all questions."""
        ...

    def events_at(self, people: int) -> Events:
        """The same when so many report: what the certificate of a finished stage shows; `people` >= `least`."""
        ...

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report, of the same length."""
        ...

    def check(self, body: bytes) -> None:
        """Raise `InvalidInput` unless a body has a length and labels that some device could have sent."""
        ...

    def begin_secret(self) -> Any:
        """What the collector keeps for itself before the first stage: a NamedTuple of arrays."""
        ...

    def release(self, secret: Any, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[Any, bytes]:
        """The collector: draw the noise that it owes, once, and hand out the payload.

        Fewer than `least` bodies are `PrivacyViolation`, more than `target` or another query `InvalidInput`.
        """
        ...

    def begin_memory(self) -> Any:
        """What is known in public before the first stage: a NamedTuple of arrays."""
        ...

    def read(self, memory: Any, payload: bytes, people: int) -> tuple[Any, PrivateStatistics[Any]]:
        """Anybody: the statistics that a learner takes, from integers; no noise, no secrets."""
        ...

    def skip(self, memory: Any, payload: bytes, people: int) -> Any:
        """Anybody: the memory after a release that nobody learns from; the same one where releases stand alone."""
        ...

    def simulate(self, secret: Any, users: Any, query: Query, noise: SimulationNoise) -> tuple[Any, bytes]:
        """Simulation only: secret and payload with the law of `release` over `encode`, from trajectories or counts."""
        ...


class ReleasePlan(Protocol):
    """What a study knows about its noise before the learner is built; then it makes the channels.

    It also has what `tacit.release.counts_contract` asks of a privatizer that a learner is told about: `precision`,
    `count_precision`, `sampling`, `noise_std`, and `batch_std` / `batch_precision` for learners in stages.
    """

    @property
    def shape(self) -> Any:
        """The public shape of the statistics."""
        ...

    def channels(self, stages: Sequence[StageSize]) -> tuple[Release, ...]:
        """One channel for every stage that reports."""
        ...

    def exposure(self, channels: Sequence[Release], reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to at the worst, over the study."""
        ...
