"""The basis of single batches under central trust: how noisy a stage would be, before the learner has planned any.

    s = √g Δ₂ / μ(ε, δ)      for what this stage releases; a person with g reports meets g such stages

All stages have the same Δ₂/s, whatever they release, so no g of them are worse than any others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.errors import InvalidInput, require, require_count
from tacit.release.batch_release import CentralBatchChannel
from tacit.release.contract import Channel, StageSize
from tacit.release.fixed_point import fixed_point
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.shuffle.batches import batch_spec
from tacit.release.totals_plan import LEVELS, least_people, require_share, require_tight
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["CentralBatchBasis"]


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
    least: Fraction = Fraction(1)
    """The share of the people wanted without whom a stage is not released."""
    levels: int = LEVELS

    answers = BatchQuery

    def __post_init__(self) -> None:
        require_share(self.least)
        self._channel(BatchQuery(layer=None, failure_prob=None), 1, 1)  # its checks are ours

    @classmethod
    def of(cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None) -> Self:
        """The basis of a request."""
        require_tight(request, BatchQuery)
        require(request.mechanism in (None, "batched"), "single batches have fresh Gaussian noise", request.mechanism)
        return cls(shape=request.shape, claim=make_claim(request) if claim is None else claim, least=least)

    def least_of(self, target: int) -> int:
        """How many reports a stage of this target needs."""
        return least_people(self.least, target)

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

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """Fresh noise in every stage of all layers: the stages' variances, and no covariance."""
        del following
        everything = BatchQuery(layer=None, failure_prob=None)
        return np.diag([self.batch_std(users, everything) ** 2 for users in sizes])

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
