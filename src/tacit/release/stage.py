"""What the releases of all stages share, and what their plans share.

plan      before sizes are known: how much noise a stage of any size would carry; then it makes the releases
release   one stage: encode on the device, release by the collector, read in public (`tacit.release.contract`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import worst_exposure
from tacit.arrays import Floats
from tacit.errors import InvalidInput, PrivacyViolation, require, require_count
from tacit.protocol import Query
from tacit.release.contract import ChargedAt, Release, StageSize
from tacit.release.documents import Documented
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountStatistics
from tacit.statistics.vectors import VectorStatistic

EVERYTHING = BatchQuery(layer=None, failure_prob=None)
"""All layers of a batch, unbiased."""


class NoSecret(NamedTuple):
    """What a collector keeps for itself that draws nothing and remembers nothing."""


class CountMemory(NamedTuple):
    """The public memory of releases of counts: what was released last, running totals or a single batch."""

    released: CountStatistics


class StageRelease(Documented):
    """One stage between people and the learner; subclasses are frozen dataclasses of exact public numbers."""

    __slots__ = ()
    CHARGED_AT: ClassVar[ChargedAt]
    questions: ClassVar[int] = 1
    claim: PrivacyClaim
    target: int
    least: int

    def events(self) -> Events:
        """What one report costs, at `least` people."""
        raise NotImplementedError

    def events_at(self, people: int) -> Events:
        """The same when so many report; noise that depends on their number says otherwise."""
        require_people(people, self.least, self.target)
        return self.events()

    def require_sizes(self, least: int = 1) -> None:
        """Raise unless so many people can be wanted, and so many be needed."""
        needed = require_count("least", self.least, least=least)
        require(needed <= require_count("target", self.target), f"least must be at most {self.target}", needed)

    def require_query(self, query: Query, wanted: Query) -> None:
        """Raise unless this is the question of the stage: type and value, because tuples of two kinds may be equal."""
        asked = type(query) is type(wanted) and query == wanted
        require(asked, f"this stage asks for {wanted.words()}", query)

    def begin_secret(self) -> Any:
        """Nothing."""
        return NoSecret()

    def skip(self, memory: Any, payload: bytes, people: int) -> Any:
        """Nothing is missed: a stage that stands alone leaves the others as they are."""
        return memory


class VectorMemory(NamedTuple):
    """What everybody knows: the statistics that were released last."""

    released: Any


class VectorStage:
    """What releases of vectors share, whatever the trust."""

    __slots__ = ()
    statistic: VectorStatistic
    claim: PrivacyClaim
    target: int
    least: int

    @property
    def query(self) -> Query:
        """What is asked."""
        return self.statistic.query

    def families(self) -> tuple[Family, ...]:
        """What one report can change: one vector, by its Euclidean length."""
        return (Family(name=self.statistic.NAME, up=1, down=0, shift=self.statistic.length / self.statistic.scale),)

    def begin_memory(self) -> VectorMemory:
        """Nothing is known yet."""
        return VectorMemory(self.statistic.empty())

    def noise_variance(self, people: int) -> float:
        """Of the noise in one sum, in natural units, when so many report."""
        raise NotImplementedError

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in one sum, at its largest."""
        return {self.statistic.NAME: math.sqrt(self.noise_variance(self.target))}

    def known(self, values: Floats, people: int) -> VectorMemory:
        """The statistics of these noisy sums, in natural units."""
        variance, users = np.array([self.noise_variance(people)]), np.array([people])
        return VectorMemory(self.statistic.read(values[np.newaxis], variance, users))

    def forecast(self, people: int) -> Any:
        """What would be released of so many people who add nothing, without noise: its variances."""
        strata = self.statistic.strata
        users = np.full(strata, people // strata)
        variance = np.array([self.noise_variance(int(number)) for number in users])
        return self.statistic.read(np.zeros((strata, self.statistic.size)), variance, users)


class StagePlan:
    """What is known about the noise before the learner is built; subclasses are frozen dataclasses."""

    __slots__ = ()
    MIN_PEOPLE: ClassVar[int] = 1
    claim: PrivacyClaim
    least: Fraction

    def release_of(self, stage: StageSize) -> Release:
        """The release of one stage, calibrated for its least number of people."""
        raise NotImplementedError

    def channels(self, stages: Sequence[StageSize]) -> tuple[Release, ...]:
        """One release for every stage that reports."""
        return tuple(self.release_of(stage) for stage in stages)

    def exposure(self, channels: Sequence[Release], reports: int) -> Events:
        """What a person with so many reports meets: the stages that cost most (Lemma P14 (several stages))."""
        return worst_exposure([channel.events() for channel in channels], reports, self.claim.delta)

    def least_of(self, target: int) -> int:
        """How many reports a stage of this target needs."""
        return min(target, max(self.MIN_PEOPLE, math.ceil(self.least * target)))

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The standard deviation of the noise in one counter when all that are wanted report."""
        raise InvalidInput(f"{type(self).__name__} releases no single batches")

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """Fresh noise in every stage of all layers: the stages' variances, and no covariance."""
        del following
        return np.diag([self.batch_std(users, EVERYTHING) ** 2 for users in sizes])


@lru_cache(maxsize=4096)
def stage_epsilon(events: Events, delta: float) -> float:
    """The epsilon of these events, remembered: runs of a sweep ask for the same stages."""
    return epsilon_of(events, delta)


def reports_of(claim: PrivacyClaim) -> int:
    """How many reports of one person a claim covers; several of them in one stage are not offered."""
    once = claim.unit.per_stage == 1
    require(once, "a study takes at most one report per person and stage", claim.unit.per_stage, "claim per_stage 1")
    return claim.unit.reports


def require_people(people: int, least: int, target: int) -> None:
    """Abort a stage with too few reports, before anything is released, and refuse more than were asked for.

    >>> require_people(89, 90, 100)
    Traceback (most recent call last):
    ...
    tacit.errors.PrivacyViolation: the stage has 89 reports and needs 90, as every person who reports was promised: \
nothing is released; wait for more, or declare the stage void
    """
    require_count("people", people, least=0)
    if people < least:
        raise PrivacyViolation(
            f"the stage has {people} reports and needs {least}, as every person who reports was promised: nothing is "
            "released; wait for more, or declare the stage void"
        )
    require(people <= target, f"a stage has at most the {target} reports that were asked for", people)
