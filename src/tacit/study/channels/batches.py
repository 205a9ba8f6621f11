"""Central trust, single batches: a curator releases the statistics of one stage with fresh noise, and adds nothing up.

    payload  x + z: the counters of `ReleaseSpec` (all layers in the one-hot encoding, or one layer), in units of 1/M
    read     batch statistics as shuffle trust gives them, consistent where the query says so: post-processing

G1  Every stage has the least noise for exactly what it releases. All stages have the same μ = Δ₂/σ, so a person with g
    reports, at most one per stage, is exposed to √g μ: independent Gaussian noises, Lemma P9 (adaptive budgets).
G2  The noise does not depend on how many report; `least` is enforced all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from scipy import special

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.privatizers.shuffle.batches import batch_spec, batch_statistics
from tacit.privatizers.shuffle.roles import TrajectoryLike
from tacit.privatizers.shuffle.spec import ReleaseSpec
from tacit.protocol import Noise, Private, Query
from tacit.randomness import SimulationNoise
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CountPrecision, Sampling, everything_sent
from tacit.study.channels.bodies import LevelCounts, TrajectoryBody
from tacit.study.channels.central import MOST, require_people, require_unit, shape_dict, shape_of
from tacit.study.channels.central_basis import LEVELS
from tacit.study.channels.fixed_point import (
    draw_noise,
    fixed_point,
    from_payload,
    require_entries,
    require_fixed_point,
    slack,
    spread,
    to_payload,
    total_variation,
)
from tacit.study.contract import Channel, ChargedAt, StageSize

__all__ = ["CentralBatchBasis", "CentralBatchChannel", "Released", "gaussian_radius"]

STATISTICS: Final = ("transitions", "visits", "rewards")


class Released(NamedTuple):
    """How many stages were released: all that anybody has to remember."""

    releases: Ints
    """[1]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralBatchChannel:
    """One stage of its own under central trust; make them with `CentralBatchBasis`."""

    shape: CountShape
    claim: PrivacyClaim
    query: BatchQuery
    target: int
    least: int
    levels: int
    unit: int
    """M: payloads count in units of 1/M."""
    variance: int
    """s²: of the noise in one number of the payload, in units of 1/M²."""

    KIND: ClassVar[str] = "central-batch"
    TRUST: ClassVar[Trust] = "central"
    CHARGED_AT: ClassVar[ChargedAt] = "release"
    questions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require(self.shape.staged, "batches of their own keep the steps apart (staged)", self.shape.staged)
        require(require_count("least", self.least) <= self.target, "least must be at most the target", self.least)
        require_fixed_point(self.unit, self.variance)
        require(self.unit % self.body.levels == 0, f"levels must divide the unit {self.unit}", self.levels)
        require(self.target * self.unit < MOST, "the sums of a stage must fit into 62 bits", self.target * self.unit)
        self.spec.families()  # refuses a layer that does not exist

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        return "central/gaussian batches"

    @property
    def body(self) -> TrajectoryBody:
        """The format of bodies."""
        shape = self.shape
        return TrajectoryBody(
            horizon=shape.horizon, num_states=shape.num_states, num_actions=shape.num_actions, levels=self.levels
        )

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return self.body.size

    @property
    def spec(self) -> ReleaseSpec:
        """The counters of the payload."""
        return batch_spec(self.shape, "tight", self.query.layer)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return math.sqrt(self.variance) / self.unit

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return self.spec.families()

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic."""
        terms = self.spec.noisy_terms()
        return {name: self.std * math.sqrt(terms.get(name, 0)) for name in STATISTICS}

    def events(self) -> Events:
        """What one report costs, whoever else reports."""
        sigma = spread(self.variance, self.unit)
        gaussian = tuple((GaussianEvent(sigma=sigma, shift=f.shift), f.differing) for f in self.families())
        return (*gaussian, *slack(self.claim, self.spec.num_counters, self.variance))

    def events_at(self, people: int) -> Events:
        """The same, however many report (G2)."""
        require_people(people, self.least, self.target)
        return self.events()

    def precision(self, failure_prob: float) -> float:
        """E: every entry of every statistic is within E/4 of its exact count but for this probability (union bound)."""
        spec, cells = self.spec, self.shape.num_states * self.shape.num_actions
        layers = set(spec.transitions) | set(spec.visits) | set(spec.outcomes)
        entries = cells * self.shape.num_states * len(spec.transitions) + cells * len(layers)
        entries += cells * len(spec.rewards + spec.outcomes)
        most = max(spec.noisy_terms().values())
        return 4.0 * gaussian_radius(failure_prob / entries, most, self.variance) / self.unit

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report, which counts for nothing."""
        return self.body.encode(trajectory, noise)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        self.body.check(body)

    def begin_secret(self) -> Released:
        """Nobody came yet; nothing is kept of them."""
        return Released(np.zeros(1, dtype=np.int64))

    def release(self, secret: Released, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[Released, bytes]:
        """The curator: count, draw the noise once, and hand out whole numbers."""
        require_people(len(bodies), self.least, self.target)
        self._open(query)
        return self._released(secret, self.body.counts(self.body.decode(bodies)), noise)

    def simulate(
        self, secret: Released, users: Trajectories | ExactCounts, query: Query, noise: SimulationNoise
    ) -> tuple[Released, bytes]:
        """Simulation only: the same law from trajectories or exact counts."""
        require_people(len(users) if isinstance(users, Trajectories) else users.users, self.least, self.target)
        self._open(query)
        return self._released(secret, self.body.simulated(users, noise), noise)

    def begin_memory(self) -> Released:
        """Nothing is known yet."""
        return Released(np.zeros(1, dtype=np.int64))

    def read(self, memory: Released, payload: bytes, people: int) -> tuple[Released, Private[CountStatistics]]:
        """Anybody: the statistics of this stage."""
        require_people(people, self.least, self.target)
        spec = self.spec
        noisy = spec.arrays(from_payload(payload, spec.num_counters) / self.unit)
        variance = np.square([*self.noise_std().values()])
        E = 0.0 if self.query.failure_prob is None else self.precision(self.query.failure_prob)
        found = batch_statistics(noisy, variance, people, self.query, spec, E)
        return Released(memory.releases + 1), Private(found, self.claim)

    def _open(self, query: Query) -> None:
        require(query == self.query, f"this stage releases {self.query}", query)

    def _released(self, secret: Released, counts: LevelCounts, noise: Noise) -> tuple[Released, bytes]:
        sums = self.spec.counters(*counts) * (self.unit // self.levels)
        z = draw_noise(self.spec.num_counters, self.variance, noise)
        return Released(secret.releases + 1), to_payload(sums + z)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; every number is exact."""
        return {
            "kind": self.KIND,
            "shape": shape_dict(self.shape),
            "claim": self.claim.to_dict(),
            "query": {"layer": self.query.layer, "failure_prob": self.query.failure_prob},
            "target": self.target,
            "least": self.least,
            "levels": self.levels,
            "unit": self.unit,
            "variance": self.variance,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The channel that `to_dict` wrote."""
        counts = ("target", "least", "levels", "unit", "variance")
        require_entries(plain, cls.KIND, ("shape", "claim", "query", *counts))
        asked = plain["query"]
        if not isinstance(asked, Mapping) or set(asked) != {"layer", "failure_prob"}:
            raise InvalidInput("the query of a batch has the entries layer and failure_prob")
        return cls(
            shape=shape_of(plain["shape"]),
            claim=PrivacyClaim.from_dict(plain["claim"]),
            query=BatchQuery(layer=asked["layer"], failure_prob=asked["failure_prob"]),
            **{name: require_count(name, plain[name]) for name in counts},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralBatchBasis:
    """Single batches under central trust: what each would carry, before the learner has planned them.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> basis = CentralBatchBasis(shape=shape, claim=claim)
    >>> everything, layer = (BatchQuery(layer=h, failure_prob=None) for h in (None, 2))
    >>> round(basis.batch_std(1000, everything), 1), round(basis.batch_std(1000, layer), 1)
    (19.8, 6.0)
    """

    shape: CountShape
    claim: PrivacyClaim
    levels: int = LEVELS

    answers = BatchQuery

    def __post_init__(self) -> None:
        self._channel(BatchQuery(layer=None, failure_prob=None), 1, 1)  # its checks are ours

    @property
    def name(self) -> str:
        """For tables."""
        return "central/gaussian batches"

    def channels(self, stages: Sequence[StageSize]) -> tuple[Channel, ...]:
        """One channel for every stage that reports, each with the least noise for its statistics."""
        found = []
        for stage in stages:
            if not isinstance(stage.query, BatchQuery):
                raise InvalidInput(f"{self.name} answers {BatchQuery.words()}; it was asked for {stage.query.words()}")
            found.append(self._channel(stage.query, stage.target, stage.least))
        return tuple(found)

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """What a person with so many reports is exposed to: the stages with the largest Δ₂/s, together (G1)."""
        ranked = sorted(channels, key=_ratio, reverse=True)[: require_count("reports", reports)]
        return tuple(event for channel in ranked for event in channel.events())

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The standard deviation of the noise in one counter; it does not depend on how many report."""
        return self._channel(query, users, 1).std

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """E of the consistent counts of such a stage; 0 if the query asks for unbiased ones."""
        if query.failure_prob is None:
            return 0.0
        return self._channel(query, users, 1).precision(query.failure_prob)

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic of a stage that releases everything."""
        return self._channel(BatchQuery(layer=None, failure_prob=None), 1, 1).noise_std()

    def families(self) -> tuple[Family, ...]:
        """What one report can change in a stage that releases everything."""
        return batch_spec(self.shape, "tight", None).families()

    def precision(self) -> None:
        """Noise is added to batches, not to the messages of single users."""

    def count_precision(self) -> CountPrecision:
        """Discrete Gaussian noise is sub-Gaussian: Lemma N3 (discrete twins)."""
        return CountPrecision(scale=np.zeros(3))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def _channel(self, query: BatchQuery, target: int, least: int) -> CentralBatchChannel:
        unit, variance = _noise(self.shape, self.claim, query.layer)
        return CentralBatchChannel(
            shape=self.shape,
            claim=self.claim,
            query=query,
            target=target,
            least=least,
            levels=self.levels,
            unit=unit,
            variance=variance,
        )


def gaussian_radius(failure_prob: float, terms: int, variance: int) -> float:
    """What the sum of so many discrete Gaussians leaves with at most this probability, in units.

    A continuous quantile and half a unit per term, at a probability that is lessened by the distance of the two laws:
    Lemma N7 (rounded Gaussian). Where that leaves nothing, the sub-Gaussian radius.
    """
    require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
    deviation = math.sqrt(terms * variance)
    left = failure_prob - total_variation(terms, variance)
    if left < failure_prob / 2.0:
        return deviation * math.sqrt(2.0 * math.log(2.0 / failure_prob))
    return -float(special.ndtri(left / 2.0)) * (1.0 + 1e-12) * deviation + terms / 2.0


def _ratio(channel: Channel) -> float:
    """Δ₂²/s² of one report."""
    if not isinstance(channel, CentralBatchChannel):
        raise InvalidInput(f"single batches have channels of the kind '{CentralBatchChannel.KIND}', not {channel.KIND}")
    moved = sum(family.l2_squared for family in channel.families())
    return moved * channel.unit**2 / channel.variance


@lru_cache(maxsize=1024)
def _noise(shape: CountShape, claim: PrivacyClaim, layer: int | None) -> tuple[int, int]:
    """Unit and variance for a person with g reports in g stages."""
    spec, reports = batch_spec(shape, "tight", layer), claim.unit.reports
    moved = math.sqrt(reports * sum(family.l2_squared for family in spec.families()))
    # Of all stages, those that release everything have the most numbers: the slack is shared by g of them.
    noisy = reports * batch_spec(shape, "tight", None).num_counters
    return fixed_point(claim, noisy, lambda unit: moved * unit)
