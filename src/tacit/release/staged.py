"""Channels as a privatizer: a simulation that runs the very stages of a study.

    Trajectories    every device encodes, the collector releases, anybody reads
    ExactCounts     the channel draws the payload at once (`Release.simulate`), anybody reads

Stages come in the order of the channels, and a channel is asked as many `questions` about the same people as it says:
their bodies are encoded once. So `tacit.simulate(world, learner, Staged(...), ...)` shows what a study
would learn, with noise from the same law and statistics read by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tacit.accounting.certificate import CURVE_DELTAS, Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import other_exposures
from tacit.arrays import Floats
from tacit.data.counts import ExactCounts
from tacit.data.gradients import Dosed
from tacit.data.trajectories import LossUser, Trajectories, Trajectory
from tacit.errors import InvalidInput, PrivacyBudgetExceeded, require
from tacit.protocol import Calibration, Noise, PrivateStatistics, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import Release, ReleasePlan, StageSize
from tacit.release.counts_contract import require_answer
from tacit.release.returns import ReturnRelease
from tacit.release.shuffle.labels import LabelRelease
from tacit.release.stage import reports_of, stage_epsilon
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.moments import MomentQuery
from tacit.released.precision import CountPrecision, Sampling, SumPrecision
from tacit.released.returns import BitNoise
from tacit.statistics.vectors import VectorUsers


class StagedState(NamedTuple):
    """The collector's secret, the public memory, the last release, and how many releases are done."""

    secret: Any
    memory: Any
    released: Any
    done: int
    bodies: tuple[bytes, ...] = ()
    """Of the present stage, as long as it has questions left: sensitive."""

    def __repr__(self) -> str:
        return f"StagedState({self.done} releases)"  # never what people did


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The privatizer that runs these channels, one stage after the other."""

    channels: tuple[Release, ...]
    """One for every stage; empty until the schedule is `planned`."""
    basis: ReleasePlan

    batches: tuple[PlannedBatch, ...] | None = None
    """A simulation whose learner plans batches: its schedule, empty until it is `planned`."""
    repeated: bool = False
    """A simulation of running totals: every stage, however many come, is like the one there is."""

    kernel: ClassVar[None] = None
    parameters: ClassVar[None] = None

    def __post_init__(self) -> None:
        require(not self.repeated or len(self.channels) == 1, "one stage is repeated", len(self.channels))
        if len(self.channels) < 2:
            return
        first = self.channels[0]
        # Batches of several sizes may have several kinds of noise bits, each the least for its size.
        named = self.batches is None
        alike = {(c.KIND, named and c.name, c.claim, type(c.query)) for c in self.channels}
        require(len(alike) == 1, f"all stages must be of one kind, as the first one ({first.name})", len(alike))

    def planned(self, batches: Sequence[PlannedBatch], following: Sequence[int] | None = None) -> Self:
        """The same with the schedule of a run: everyone who is planned for reports."""
        del following
        stages = [StageSize(target=batch.users, least=batch.users, query=batch.query) for batch in batches]
        return replace(self, channels=self.basis.channels(stages), batches=tuple(batches))

    @property
    def first(self) -> Release:
        """The first release: all have the same claim, and noise of the same name."""
        require(len(self.channels) > 0, "a schedule must have at least one stage that reports", 0)
        return self.channels[0]

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        if self.batches is None:
            return self.first.name
        return f"{self._worst().name} batches" if self.channels else _said(self.basis, "name")

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to a person."""
        return self.first.claim if self.channels else _said(self.basis, "claim")

    @property
    def calibration(self) -> Calibration:
        """Where the noise comes from: studies have the least noise, simulations what their plan says."""
        return getattr(self.basis, "calibration", "tight")

    @property
    def shape(self) -> Any:
        """The public shape of the statistics."""
        return self.basis.shape

    @property
    def honest_fraction(self) -> float:
        """Trust shuffle: the least share of a stage's devices whose noise is counted on."""
        if self.batches is not None:
            share: float = _said(self.basis, "honest")
            return share
        shuffled: list[Any] = [channel for channel in self.channels if isinstance(channel, LabelRelease)]
        require(len(shuffled) > 0, "only shuffled stages count on the noise of devices", self.name)
        return float(min(channel.honest / channel.least for channel in shuffled))

    @property
    def users_per_batch(self) -> int | None:
        """How many people every stage of running totals must have; None: as the schedule says."""
        return self.first.target if self.repeated else None

    @property
    def answers(self) -> type[Query]:
        """The queries of the channels."""
        return type(self.first.query) if self.channels else _said(self.basis, "answers")

    def families(self) -> tuple[Family, ...]:
        """What one report can change, in the worst stage."""
        return self._worst().families()

    def events(self) -> Events:
        """Everything that a person is exposed to, at the worst."""
        reports = reports_of(self.first.claim)
        if reports == 1 and (self.repeated or self.batches is not None):
            return self._worst().events()
        return self.basis.exposure(self.channels * reports if self.repeated else self.channels, reports)

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each family, at its largest."""
        stds = [channel.noise_std() for channel in self.channels]
        return {name: max(std[name] for std in stds) for name in stds[0]}

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """What the basis states about the noise in one counter of such a batch."""
        found: float = _said(self.basis, "batch_std")(users, query)
        return found

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """What the basis states about the noise in one counter over a schedule."""
        found: Floats = _said(self.basis, "batch_covariance")(sizes, following)
        return found

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """What the basis states about consistent counts of such a batch."""
        found: float = _said(self.basis, "batch_precision")(users, query)
        return found

    def reports(self) -> tuple[BatchReport, ...]:
        """Claim and cost of every kind of batch of a schedule, where its messages are counted."""
        stated = getattr(self.basis, "reports", None)
        return stated(self.channels) if self.batches is not None and stated is not None else ()

    def moment_std(self, users: int, query: MomentQuery) -> tuple[float, float]:
        """What the basis states about the noise in moments of such a batch."""
        found: tuple[float, float] = _said(self.basis, "moment_std")(users, query)
        return found

    def precision(self) -> SumPrecision | None:
        """What the basis states about sums over people."""
        return _stated(self.basis, "precision")  # type: ignore[no-any-return]

    def count_precision(self) -> CountPrecision:
        """What the basis states about released counts."""
        return _stated(self.basis, "count_precision")  # type: ignore[no-any-return]

    def sampling(self) -> Sampling:
        """What the basis states about people who send a part only."""
        return _stated(self.basis, "sampling")  # type: ignore[no-any-return]

    def bit_noise(self) -> BitNoise:
        """What the basis states about one bit of a return."""
        return _stated(self.basis, "bit_noise")  # type: ignore[no-any-return]

    def certificate(self) -> Certificate:
        """What the exact accountant finds for a person with all reports of the claim's unit."""
        return certify(
            self.events(),
            self.certified_families(),
            self.claim,
            calibration=self.calibration,
            paper_says=getattr(self.basis, "paper_says", None),
            others=self._others(),
            by=self,
        )

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, of the worst stage; nothing is accounted where all stages are alike."""
        worst = self._worst()
        # A study states the largest noise of any stage, a schedule that of its worst one.
        std = self.noise_std() if self.batches is None else worst.noise_std()
        largest, noise = max(std.values()), worst.name.partition("/")[2]
        return tuple(
            CertifiedFamily.of(family, noise=noise, std=std.get(family.name, std.get("rewards", largest)))
            for family in worst.families()
        )

    def _others(self) -> tuple[Events, ...]:
        """What people in stages of other kinds are exposed to, where that costs more at some delta of a curve."""
        schedule = [channel.events() for channel in self.channels]
        if len({frozenset(events) for events in schedule}) == 1:
            return ()
        return other_exposures(schedule, reports_of(self.claim), self.claim.delta, CURVE_DELTAS)

    def begin(self) -> StagedState:
        """Before the first stage."""
        first = self.first
        memory = first.begin_memory()
        return StagedState(secret=first.begin_secret(), memory=memory, released=_released(memory), done=0)

    def release(
        self, state: StagedState, users: Any, query: Query, noise: Noise
    ) -> tuple[StagedState, PrivateStatistics[Any]]:
        """One release of the stage whose turn it is."""
        require_answer(self, query)
        channel, question = self._turn(state.done)
        bodies: tuple[bytes, ...] = ()
        if isinstance(users, ExactCounts) or (isinstance(users, VectorUsers) and isinstance(noise, SimulationNoise)):
            if not isinstance(noise, SimulationNoise):
                raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
            require(channel.questions == 1, "counts are asked once; draw trajectories", channel.questions)
            people = users.users
            secret, payload = channel.simulate(state.secret, users, query, noise)
        else:
            bodies = state.bodies if question else tuple(_encoded(channel, query, users, noise))
            people = len(bodies)
            secret, payload = channel.release(state.secret, bodies, query, noise)
        memory, private = channel.read(state.memory, payload, people)
        kept = bodies if question + 1 < channel.questions else ()
        after = StagedState(secret=secret, memory=memory, released=private.statistics, done=state.done + 1, bodies=kept)
        return after, private

    def stage(self, state: StagedState) -> Release:
        """The release whose turn it is."""
        return self._turn(state.done)[0]

    def _turn(self, done: int) -> tuple[Release, int]:
        """The channel whose turn it is after so many releases, and which of its questions."""
        if self.repeated:
            return self.first, done % self.first.questions
        for channel in self.channels:
            if done < channel.questions:
                return channel, done
            done -= channel.questions
        raise PrivacyBudgetExceeded(f"all {len(self.channels)} stages of the study are released; plan a longer one")

    def _worst(self) -> Release:
        """The stage that tells most."""
        kinds: dict[Events, Release] = {}
        for channel in self.channels:
            kinds.setdefault(channel.events(), channel)
        if len(kinds) < 2:
            return self.first
        delta = self.claim.delta
        return max(kinds.values(), key=lambda channel: stage_epsilon(channel.events(), delta))


def _released(memory: Any) -> Any:
    """What is public before anybody reported."""
    if not hasattr(memory, "released"):
        raise InvalidInput(f"the memory of a channel must have a field `released`, got {type(memory).__name__}")
    return memory.released


def _encoded(channel: Release, query: Query, users: Any, noise: Noise) -> Iterator[bytes]:
    """What the devices of a batch send; bits about returns come one group after the other."""
    if isinstance(channel, ReturnRelease):
        return channel.answers_of(users, query, noise)
    return (channel.encode(one, noise) for one in _people(users))


def _people(users: Any) -> Iterator[Any]:
    """One person after the other."""
    if isinstance(users, Trajectories):
        rows: Sequence[Any] = tuple(zip(users.states, users.actions, users.rewards, strict=True))
        for row in rows:
            yield Trajectory(*row)
    elif isinstance(users, Dosed):
        for state, action, reward in zip(users.states, users.actions, users.rewards, strict=True):
            yield Trajectory(np.array([state]), np.array([action]), np.array([reward]))
    elif isinstance(users, VectorUsers):
        for k in range(users.users):
            yield users.one(k)
    elif isinstance(users, LossUser):
        yield users
    else:
        raise TypeError(f"a channel takes trajectories or counts, got {type(users).__name__}")


def _said(basis: Any, member: str) -> Any:
    found = getattr(basis, member, None)
    if found is None:
        raise InvalidInput(f"a plan of batches must have {member}, got a {type(basis).__name__} without it")
    return found


def _stated(basis: Any, member: str) -> Any:
    found = getattr(basis, member, None)
    if not callable(found):
        raise InvalidInput(f"a basis must state how precise its statistics are, got one without {member}()")
    return found()
