"""Central trust, single batches: a curator releases the statistics of one stage with fresh noise, and adds nothing up.

    payload  x + z: the counters of `ReleaseSpec` (all layers in the one-hot encoding, or one layer), in units of 1/M
    s        √g Δ₂ / μ(ε, δ)      for what this stage releases; a person with g reports meets g such stages
    read     batch statistics as shuffle trust gives them, consistent where the query says so: post-processing

G1  Every stage has the least noise for exactly what it releases. All stages have the same μ = Δ₂/s, so a person with g
    reports, at most one per stage, is exposed to √g μ: independent Gaussian noises, Lemma P9 (adaptive budgets).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, Self

import numpy as np
from scipy import special

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.protocol import Noise, Query
from tacit.release.contract import Release, StageSize
from tacit.release.counts_contract import batch_spec, batch_statistics
from tacit.release.curator import LEVELS, CountPlan, CuratorRelease, FreshNoise, require_tight
from tacit.release.fixed_point import fixed_point, total_variation
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.stage import EVERYTHING, CountMemory
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, empty_counts
from tacit.statistics.count_spec import ReleaseSpec
from tacit.statistics.trajectory_body import LevelCounts

STATISTICS: Final = ("transitions", "visits", "rewards")


class CountBatch(CuratorRelease):
    """Counts of a batch of its own, whatever noise they carry."""

    __slots__ = ()
    shape: CountShape
    query: BatchQuery

    @property
    def spec(self) -> ReleaseSpec:
        """The counters of the payload."""
        return batch_spec(self.shape, "tight", self.query.layer)

    @property
    def terms(self) -> list[int]:
        """How many counters' noise transitions, visits and rewards carry."""
        terms = self.spec.noisy_terms()
        return [terms.get(name, 0) for name in STATISTICS]

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return self.spec.families()

    def begin_memory(self) -> CountMemory:
        """Nothing is known yet."""
        return CountMemory(empty_counts(self.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRelease(CountBatch):
    """One stage of its own under central trust; make them with `BatchPlan`."""

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
    name: ClassVar[str] = "central/gaussian batches"

    def __post_init__(self) -> None:
        require(self.shape.staged, "batches of their own keep the steps apart (staged)", self.shape.staged)
        self.require_release(self.target * self.unit)

    @property
    def noise(self) -> FreshNoise:
        """What the curator adds."""
        return FreshNoise(size=self.spec.num_counters, levels=self.levels, unit=self.unit, variance=self.variance)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return self.noise.std

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic."""
        return {name: self.std * math.sqrt(terms) for name, terms in zip(STATISTICS, self.terms, strict=True)}

    def precision(self, failure_prob: float) -> float:
        """E: every entry of every statistic is within E/4 of its exact count but for this probability (union bound)."""
        spec, cells = self.spec, self.shape.num_states * self.shape.num_actions
        layers = set(spec.transitions) | set(spec.visits) | set(spec.outcomes)
        entries = cells * self.shape.num_states * len(spec.transitions) + cells * len(layers)
        entries += cells * len(spec.rewards + spec.outcomes)
        most = max(spec.noisy_terms().values())
        return 4.0 * gaussian_radius(failure_prob / entries, most, self.variance) / self.unit

    def sums(self, people: LevelCounts, query: Query, noise: Noise) -> Ints:
        """The counters of these people."""
        return self.spec.counters(*people)

    def memory_after(self, memory: CountMemory, payload: bytes, people: int) -> CountMemory:
        """The statistics of this stage."""
        spec = self.spec
        noisy = spec.arrays(self.noise.values(payload))
        variance = np.square([*self.noise_std().values()])
        E = 0.0 if self.query.failure_prob is None else self.precision(self.query.failure_prob)
        return CountMemory(batch_statistics(noisy, variance, people, self.query, spec, E))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan(CountPlan):
    """Single batches under central trust: what each would carry, before the learner has planned them.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> plan = BatchPlan(shape=shape, claim=claim)
    >>> everything, layer = (BatchQuery(layer=h, failure_prob=None) for h in (None, 2))
    >>> round(plan.batch_std(1000, everything), 1), round(plan.batch_std(1000, layer), 1)
    (19.8, 6.0)
    """

    shape: CountShape
    claim: PrivacyClaim
    least: Fraction = Fraction(1)
    """The share of the people wanted without whom a stage is not released."""
    levels: int = LEVELS

    answers = BatchQuery
    everything: ClassVar[BatchQuery] = EVERYTHING

    def __post_init__(self) -> None:
        self.require_plan()
        _ = self.alone  # its checks are ours

    @classmethod
    def of(cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None) -> Self:
        """The plan of a request."""
        require_tight(request, BatchQuery)
        require(request.mechanism in (None, "batched"), "single batches have fresh Gaussian noise", request.mechanism)
        return cls(shape=request.shape, claim=make_claim(request) if claim is None else claim, least=least)

    def release_of(self, stage: StageSize) -> BatchRelease:
        """The release of a stage, with the least noise for its statistics."""
        if not isinstance(stage.query, BatchQuery):
            raise InvalidInput(f"{self.name} answers {BatchQuery.words()}; it was asked for {stage.query.words()}")
        unit, variance = _noise(self.shape, self.claim, stage.query.layer)
        return BatchRelease(
            shape=self.shape,
            claim=self.claim,
            query=stage.query,
            target=stage.target,
            least=stage.least,
            levels=self.levels,
            unit=unit,
            variance=variance,
        )

    def exposure(self, channels: Sequence[Release], reports: int) -> Events:
        """What a person with so many reports is exposed to: the stages with the largest Δ₂/s, together (G1)."""
        ranked = sorted(channels, key=_ratio, reverse=True)[: require_count("reports", reports)]
        return tuple(event for channel in ranked for event in channel.events())

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The standard deviation of the noise in one counter; it does not depend on how many report."""
        return self._alone(query).std

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """E of the consistent counts of such a stage; 0 if the query asks for unbiased ones."""
        return 0.0 if query.failure_prob is None else self._alone(query).precision(query.failure_prob)

    def _alone(self, query: BatchQuery) -> BatchRelease:
        return self.release_of(StageSize(target=1, least=1, query=query))


def _ratio(channel: Release) -> float:
    """Δ₂²/s² of one report."""
    if not isinstance(channel, BatchRelease):
        raise InvalidInput(f"single batches have releases of the kind '{BatchRelease.KIND}', not {channel.KIND}")
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
