"""Shuffle trust: every batch is one complete run of the shuffle protocol over its own users, with fresh noise.

`Shuffled` answers one of two queries, as configured:

Totals      running totals: all batches have one size and go through one `protocol`; the totals add them up, which is
            post-processing.
BatchQuery  single batches on a schedule (sizes and statistics of all batches, fixed before the first user comes). Every
            batch has its own statistics and the least noise for exactly that: a batch that releases one layer needs a
            third of the noise of one that releases everything. Nothing is added up: a release is that of its batch.

Guarantees (each has a test of its name):
G1  A transcript of B batches over disjoint users has the guarantee of its worst batch (B-batch SDP, Lemma P7 (parallel
    composition)): one user is in one batch, and what a learner does with the other batches is post-processing.
    A person who is in several batches, at most once in each, meets the noise of each of them: the g batches that cost
    most compose (Lemma P14 (several stages)).
G2  A batch that is not the next one of the schedule, or has fewer reports than planned, is never released.
G3  `Unprotected` is the same path without noise: a learner that is given zero noise does the same under both.

`tight` sends the one-hot encoding (4H - 2 differing counters) with the least noise of the exact accountant; `paper`
sends three families with the noise as printed, every bit as its own message.

References: [bai2024shuffle] and [bai2025secure], Definition 3 and Section V.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

from tacit.accounting.certificate import CURVE_DELTAS, Certificate, CertifiedFamily
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages, largest_report_epsilon, other_exposures, worst_exposure
from tacit.arrays import Floats
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, require
from tacit.noise.binomial import Binomial
from tacit.protocol import Calibration, Noise, Private, Query, Totals
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import Batch, certificate_of, certified_families, require_answer, require_shape
from tacit.release.shuffle.batches import (
    STATISTICS,
    BatchState,
    added_totals,
    batch_kind,
    batch_spec,
    batch_statistics,
    next_users,
    statistic_std,
    total_std,
)
from tacit.release.shuffle.noise import BitKind, PaperVariant
from tacit.release.shuffle.protocol import Shuffle
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["LEAST_USERS", "Shuffled"]

LEAST_USERS = 2
"""A shuffler with a single user hides nobody."""
ROOM = 1e-3
"""The share of epsilon that is left for batches of different kinds, each calibrated as if all were of its own kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """Batches through the shuffler; without `protocol` and `batches` it only says how much noise batches would carry.

    >>> from tacit.accounting.claims import OUTPUTS, PrivacyUnit
    >>> claim = PrivacyClaim(trust="shuffle", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output=OUTPUTS["shuffle"][0])
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> shuffle = Shuffled(shape=shape, claim=claim, calibration="tight")
    >>> everything, layer = (BatchQuery(layer=h, failure_prob=None) for h in (None, 2))
    >>> round(shuffle.batch_std(1000, everything), 1), round(shuffle.batch_std(1000, layer), 1)
    (19.8, 6.5)
    """

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    protocol: Shuffle | None = None
    """Running totals: what every batch goes through. None: single batches, each with a protocol of its own."""
    variant: PaperVariant = "2025"
    """Whose printed noise `calibration="paper"` means for single batches."""
    batches: tuple[PlannedBatch, ...] = ()
    """The schedule of single batches, empty until it is `planned`."""
    kind: BitKind | None = None
    """Which noise bits single batches have; None: the least noise. Running totals take that of their protocol."""
    honest: float = 1.0
    """The share of devices of single batches whose noise is counted on; running totals take that of their protocol."""

    kernel = None
    parameters = None

    def __post_init__(self) -> None:
        if self.claim.trust != "shuffle":
            raise InvalidInput(f"Shuffled needs a claim with trust 'shuffle', got {self.claim.trust!r}")
        require(self.calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", self.calibration)
        if self.protocol is None:
            require(self.shape.staged, "batches of their own keep the steps apart (staged)", self.shape.staged)
            return
        require(not self.batches, "running totals take batches of one size and no schedule", len(self.batches))
        spec, shape = self.protocol.spec, self.shape
        sizes = (spec.horizon, spec.num_states, spec.num_actions)
        wanted = (shape.horizon, shape.num_states, shape.num_actions)
        require(sizes == wanted, f"the protocol must have the horizon, states, actions {wanted} of the release", sizes)
        # Extra blocks cost a delta that no event describes: the certificate would leave it out.
        none = self.protocol.overflow_prob == 0.0
        require(none, "running totals take a protocol without overflowing blocks", self.protocol.overflow_prob)

    @property
    def answers(self) -> type[Query]:
        """Running totals, or the batches of the schedule."""
        return BatchQuery if self.protocol is None else Totals

    def planned(self, batches: Sequence[PlannedBatch], following: Sequence[int] | None = None) -> Self:
        """The same with the schedule of a run; fresh noise does not depend on who acts on it."""
        del following
        for batch in batches:
            require(batch.users >= LEAST_USERS, f"a batch must have at least {LEAST_USERS} users", batch.users)
        return replace(self, batches=tuple(batches))

    @property
    def name(self) -> str:
        """For tables."""
        if self.protocol is None:
            return f"shuffle/{self._worst_law() if self.batches else self.kind or Binomial.NAME} batches"
        return f"shuffle/{self._worst_law()}"

    @property
    def users_per_batch(self) -> int | None:
        """How many users every batch of running totals must have; None: single batches, as the schedule says."""
        return None if self.protocol is None else self.protocol.bit_noise.users

    @property
    def honest_fraction(self) -> float:
        """The share of a batch's devices whose noise is counted on."""
        if self.protocol is None:
            return self.honest
        return self.protocol.bit_noise.honest_users / self.protocol.bit_noise.users

    def protocol_of(self, users: int, query: BatchQuery) -> Shuffle:
        """The shuffle protocol of one batch."""
        return _protocol(
            self.shape, self.claim, self.calibration, self.variant, self.kind, self.honest, users, query.layer
        )

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The standard deviation of the noise in one counter of such a batch."""
        return self.protocol_of(users, query).bit_noise.total.std

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """Fresh noise in every batch of all layers: the batches' variances, and no covariance."""
        del following
        everything = BatchQuery(layer=None, failure_prob=None)
        return np.diag([self.batch_std(users, everything) ** 2 for users in sizes])

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """E of the consistent counts of such a batch; 0 if the query asks for unbiased ones."""
        if query.failure_prob is None:
            return 0.0
        return _precision(self.protocol_of(users, query), query.failure_prob)

    def families(self) -> tuple[Family, ...]:
        """What one user can change, in the worst batch."""
        return self._worst().families()

    def events(self) -> Events:
        """The exposure of one person in the worst batches: in one, or in as many as the unit says (G1)."""
        reports = self.claim.unit.reports
        if reports == 1 or self.protocol is not None:
            return in_stages(self._worst().events(), reports)
        schedule = [self.protocol_of(batch.users, batch.query).events() for batch in self._planned()]
        return worst_exposure(schedule, reports, self.claim.delta)

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic: of what one batch adds to totals, or of the worst batch."""
        if self.protocol is not None:
            return total_std(self.protocol, self.shape)
        stds = [statistic_std(self.protocol_of(batch.users, batch.query)) for batch in self._planned()]
        return {name: max(std[name] for std in stds) for name in STATISTICS}

    def precision(self) -> None:
        """Noise is added to batches, not to the messages of single users."""

    def count_precision(self) -> CountPrecision:
        """Shuffled bits: a centred bit is bounded by 1, its scale is 1/3."""
        return CountPrecision(scale=np.full(3, 1.0 / 3.0))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def certificate(self) -> Certificate:
        """What the exact accountant finds for the worst batch, which is what it finds for the whole run (G1)."""
        printed = None
        if self.calibration == "paper":
            printed = f"({self.claim.epsilon:g}, {self.claim.delta:g})-SDP by tau = 96 ln(2/beta')/eps'^2 noise bits"
        return certificate_of(
            self,
            noise=self._worst_law(),
            std=self._stated_std(),
            paper_says=printed,
            several=True,
            others=() if self.protocol is not None else self._others(),
        )

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        return certified_families(self, noise=self._worst_law(), std=self._stated_std())

    def _stated_std(self) -> dict[str, float]:
        # Every counter of one batch has the same noise.
        return {"rewards": self._worst().bit_noise.total.std} if self.protocol is None else self.noise_std()

    def reports(self) -> tuple[BatchReport, ...]:
        """Certificate and message cost of every kind of batch in the schedule, in its order."""
        kinds = Counter((batch.users, batch_kind(self.shape, batch.query)) for batch in self.batches)
        named = {(batch.users, batch_kind(self.shape, batch.query)): batch for batch in reversed(self.batches)}
        found = []
        for (users, kind), count in kinds.items():
            protocol = self.protocol_of(users, named[users, kind].query)
            cost = protocol.cost()
            found.append(
                BatchReport(
                    users=users,
                    statistic=kind,
                    batches=count,
                    epsilon=_epsilon(protocol, self.claim.delta),
                    delta=self.claim.delta,
                    noise=protocol.bit_noise.total.NAME,
                    std=protocol.bit_noise.total.std,
                    bits_per_user=protocol.bit_noise.bits_per_user,
                    messages_per_user=cost.messages_per_user,
                    bytes_per_user=cost.bytes_per_user,
                )
            )
        return tuple(found)

    def begin(self) -> BatchState:
        """No batch yet."""
        return BatchState(released=empty_counts(self.shape), done=0)

    def release(
        self, state: BatchState, users: Batch, query: Totals | BatchQuery, noise: Noise
    ) -> tuple[BatchState, Private[CountStatistics]]:
        """One batch through its protocol: real messages for trajectories, the aggregate path for exact counts."""
        require_answer(self, query)
        protocol = self.protocol
        if isinstance(query, BatchQuery):
            protocol = self.protocol_of(next_users(self.batches, state, query), query)
        if protocol is None:
            raise InvalidInput("running totals need the protocol of their batches; give one, or ask for single batches")
        if isinstance(users, Trajectories):
            noisy = protocol.protocol(users, noise)  # its shuffler aborts incomplete batches
        elif isinstance(noise, SimulationNoise):
            counts = require_shape(users, self.shape)
            noisy = protocol.aggregate(counts, noise, constant_rewards=not users.binary)  # aborts too
        else:
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        came = protocol.bit_noise.users
        if isinstance(query, BatchQuery):
            variance, E = np.square([*statistic_std(protocol).values()]), self.batch_precision(came, query)
            released = batch_statistics(noisy, variance, came, query, protocol.spec, E)
        else:
            released = added_totals(state.released, noisy, protocol, self.shape)
        return BatchState(released=released, done=state.done + 1), Private(released, self.claim)

    def _planned(self) -> tuple[PlannedBatch, ...]:
        require(len(self.batches) > 0, "a schedule must have at least one batch that reports", 0)
        return self.batches

    def _others(self) -> tuple[Events, ...]:
        """What people in batches of other kinds are exposed to, where that costs more at some delta of a curve."""
        kinds = dict.fromkeys(self.protocol_of(batch.users, batch.query) for batch in self._planned())
        if len(kinds) == 1:
            return ()
        schedule = [self.protocol_of(batch.users, batch.query).events() for batch in self._planned()]
        return other_exposures(schedule, self.claim.unit.reports, self.claim.delta, CURVE_DELTAS)

    def _worst_law(self) -> str:
        """The name of the noise of the batch that tells most."""
        return self._worst().bit_noise.total.NAME

    def _worst(self) -> Shuffle:
        """The protocol of the batch that tells most."""
        if self.protocol is not None:
            return self.protocol
        protocols = {self.protocol_of(batch.users, batch.query): None for batch in self._planned()}
        return max(protocols, key=lambda protocol: _epsilon(protocol, self.claim.delta))


@lru_cache(maxsize=4096)  # calibrations are remembered
def _protocol(
    shape: CountShape,
    claim: PrivacyClaim,
    calibration: Calibration,
    variant: PaperVariant,
    kind: BitKind | None,
    honest: float,
    users: int,
    layer: int | None,
) -> Shuffle:
    spec = batch_spec(shape, calibration, layer)
    if calibration == "paper":
        return Shuffle.paper(
            spec, epsilon=claim.epsilon, delta=claim.delta, users=users, variant=variant, honest_fraction=honest
        )
    if layer is not None and layer > 0 and shape.horizon > 2:
        # Every layer but the last one needs the same noise: calibrate once.
        first = _protocol(shape, claim, calibration, variant, kind, honest, users, 0)
        return replace(first, spec=spec)

    def one_report(epsilon: float) -> Shuffle:
        return Shuffle.tight(spec, epsilon=epsilon, delta=claim.delta, users=users, honest_fraction=honest, kind=kind)

    if claim.unit.one:
        return one_report(claim.epsilon)
    # Batches of other kinds may come in between: `certificate` composes the worst of them, a little room is left.
    room, reports = (1.0 - ROOM) * claim.epsilon, claim.unit.reports
    return largest_report_epsilon(one_report, lambda one: in_stages(one.events(), reports), room, claim.delta)


@lru_cache(maxsize=4096)
def _epsilon(protocol: Shuffle, delta: float) -> float:
    return epsilon_of(protocol.events(), delta)


@lru_cache(maxsize=4096)
def _precision(protocol: Shuffle, failure_prob: float) -> float:
    return protocol.precision(failure_prob)
