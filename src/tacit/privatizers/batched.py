"""Batches of their own, for learners that come in stages: each batch is one complete run of the shuffle protocol.

`BatchShuffle` knows the schedule of the whole run (sizes and statistics of all batches, fixed before the first user
comes). Every batch has its own users, its own statistics and the least noise for exactly that: a batch that releases
one layer needs a third of the noise of one that releases everything. Nothing is added up here; a release is that of its
batch alone.

Guarantees (each has a test of its name):
G1  A transcript of B batches over disjoint users has the guarantee of its worst batch (B-batch SDP, Lemma P7 (parallel
    composition)): one user is in one batch, and what a learner does with the other batches is post-processing.
G2  A batch that is not the next one of the schedule, or has fewer reports than planned, is never released.
G3  `BatchUnprotected` is the same path without noise: a learner that is given zero noise does the same under both.

References: [bai2024shuffle] and [bai2025secure], Definition 3 and Section V.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, require
from tacit.privatizers.batch_release import BatchState, batch_kind, batch_spec, batch_statistics, next_users
from tacit.privatizers.contract import Batch, require_answer, require_shape
from tacit.privatizers.shuffle import Shuffle
from tacit.privatizers.shuffle_noise import PaperVariant
from tacit.protocol import Calibration, Noise, Private
from tacit.randomness import SimulationNoise
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["LEAST_USERS", "BatchShuffle"]

LEAST_USERS = 2
"""A shuffler with a single user hides nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShuffle:
    """Batches of their own through the shuffler; without `batches` it only answers how much noise they would carry.

    >>> from tacit.accounting.claims import OUTPUTS, PrivacyUnit
    >>> claim = PrivacyClaim(trust="shuffle", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(trajectories=1),
    ...                      neighbours="replace-one", output=OUTPUTS["shuffle"][0])
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> shuffle = BatchShuffle(shape=shape, claim=claim, calibration="tight")
    >>> everything, layer = (BatchQuery(layer=h, failure_prob=None) for h in (None, 2))
    >>> round(shuffle.std(1000, everything), 1), round(shuffle.std(1000, layer), 1)
    (19.8, 6.5)
    """

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    variant: PaperVariant = "2025"
    """Whose printed noise `calibration="paper"` means."""
    batches: tuple[PlannedBatch, ...] = ()
    honest_fraction: float = 1.0
    """The share of a batch's devices whose noise is counted on."""

    answers = BatchQuery
    kernel = None
    parameters = None

    def __post_init__(self) -> None:
        if self.claim.trust != "shuffle":
            raise InvalidInput(f"BatchShuffle needs a claim with trust 'shuffle', got {self.claim.trust!r}")
        require(self.calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", self.calibration)
        require(self.shape.staged, "batches of their own keep the steps apart (staged)", self.shape.staged)

    def planned(self, batches: Sequence[PlannedBatch]) -> Self:
        """The same with the schedule of a run."""
        for batch in batches:
            require(batch.users >= LEAST_USERS, f"a batch must have at least {LEAST_USERS} users", batch.users)
        return replace(self, batches=tuple(batches))

    @property
    def name(self) -> str:
        """For tables."""
        return "shuffle/binomial batches"

    def protocol(self, users: int, request: BatchQuery) -> Shuffle:
        """The shuffle protocol of one batch."""
        return _protocol(
            self.shape, self.claim, self.calibration, self.variant, self.honest_fraction, users, request.layer
        )

    def std(self, users: int, request: BatchQuery) -> float:
        """The standard deviation of the noise in one counter of such a batch."""
        return self.protocol(users, request).bit_noise.total.std

    def precision(self, users: int, request: BatchQuery) -> float:
        """E of the consistent counts of such a batch; 0 if the request asks for unbiased ones."""
        if request.failure_prob is None:
            return 0.0
        return _precision(self.protocol(users, request), request.failure_prob)

    def families(self) -> tuple[Family, ...]:
        """What one user can change, in the worst batch."""
        return self._worst().families()

    def events(self) -> Events:
        """The exposure of one user in the worst batch: everybody is in one batch only."""
        return self._worst().events()

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each statistic, at its largest over the batches."""
        stds = [_all_std(self.protocol(batch.users, batch.query)) for batch in self._planned()]
        return {name: max(std[name] for std in stds) for name in stds[0]}

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
        worst = self._worst()
        std = worst.bit_noise.total.std
        families = [CertifiedFamily.of(family, noise="binomial", std=std) for family in worst.families()]
        return certify(worst.events(), families, self.claim, calibration=self.calibration, paper_says=printed)

    def reports(self) -> tuple[BatchReport, ...]:
        """Certificate and message cost of every kind of batch in the schedule, in its order."""
        kinds = Counter((batch.users, batch_kind(self.shape, batch.query)) for batch in self.batches)
        named = {(batch.users, batch_kind(self.shape, batch.query)): batch for batch in reversed(self.batches)}
        found = []
        for (users, kind), count in kinds.items():
            protocol = self.protocol(users, named[users, kind].query)
            cost = protocol.cost()
            found.append(
                BatchReport(
                    users=users,
                    statistic=kind,
                    batches=count,
                    epsilon=_epsilon(protocol, self.claim.delta),
                    delta=self.claim.delta,
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
        self, state: BatchState, users: Batch, query: BatchQuery, noise: Noise
    ) -> tuple[BatchState, Private[CountStatistics]]:
        """The next batch of the schedule: real messages for trajectories, the aggregate path for exact counts."""
        require_answer(self, query)
        planned = next_users(self.batches, state, query)
        protocol = self.protocol(planned, query)
        if isinstance(users, Trajectories):
            noisy = protocol.protocol(users, noise)  # its shuffler aborts incomplete batches
        elif isinstance(noise, SimulationNoise):
            noisy = protocol.aggregate(
                require_shape(users, self.shape), noise, constant_rewards=not users.binary
            )  # aborts too
        else:
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        std, E = _all_std(protocol), self.precision(planned, query)
        released = batch_statistics(noisy, np.square([*std.values()]), planned, query, protocol.spec, E)
        return BatchState(released=released, done=state.done + 1), Private(released, self.claim)

    def _planned(self) -> tuple[PlannedBatch, ...]:
        require(len(self.batches) > 0, "a schedule must have at least one batch that reports", 0)
        return self.batches

    def _worst(self) -> Shuffle:
        protocols = {self.protocol(batch.users, batch.query): None for batch in self._planned()}
        return max(protocols, key=lambda protocol: _epsilon(protocol, self.claim.delta))


@lru_cache(maxsize=4096)  # calibrations are remembered
def _protocol(
    shape: CountShape,
    claim: PrivacyClaim,
    calibration: Calibration,
    variant: PaperVariant,
    honest: float,
    users: int,
    layer: int | None,
) -> Shuffle:
    spec = batch_spec(shape, calibration, layer)
    if calibration == "paper":
        return Shuffle.paper(
            spec,
            epsilon=claim.epsilon,
            delta=claim.delta,
            users=users,
            variant=variant,
            honest_fraction=honest,
        )
    if layer is not None and layer > 0 and shape.horizon > 2:
        # Every layer but the last one needs the same noise: calibrate once.
        first = _protocol(shape, claim, calibration, variant, honest, users, 0)
        return replace(first, spec=spec)
    return Shuffle.tight(spec, epsilon=claim.epsilon, delta=claim.delta, users=users, honest_fraction=honest)


def _all_std(protocol: Shuffle) -> dict[str, float]:
    std = protocol.noise_std()
    return {name: std.get(name, 0.0) for name in ("transitions", "visits", "rewards")}


@lru_cache(maxsize=4096)
def _epsilon(protocol: Shuffle, delta: float) -> float:
    return epsilon_of(protocol.events(), delta)


@lru_cache(maxsize=4096)
def _precision(protocol: Shuffle, failure_prob: float) -> float:
    return protocol.precision(failure_prob)
