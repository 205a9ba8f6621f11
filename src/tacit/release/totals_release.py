"""Central trust, running totals: a curator sees trajectories and releases whole numbers from which totals follow.

    x_k      sums of stage k in units of 1/levels: transitions, rewards R, complements N - R; whole numbers, secret
    payload  k, then w_k = Σ_{j≤k} C_{k-j} x_j + z_k        whole numbers in units of 1/M, z_k discrete Gaussian
    s        Δ₂ ‖first g columns of C‖ / μ(ε, δ)            with the rounded C, and a thousandth of δ for whole numbers

C is the square-root factorization, fresh noise for every stage (`batched`, the identity), or something between; the
least total noise for a person with g reports decides, unless a mechanism is named (`tacit.release.curator`).

G1  Sensitivities are those of `count_families`: Lemma C9 (integer factorization).
G2  A stage that never was released does not take a place: w_k is the k-th release, whichever stage it belongs to; all
    releases of a study are alike and the first column, which is the longest, is charged.
    Totals follow from all payloads so far, so a payload is refused out of order; one that is not learned from is
    skipped. With fresh noise it is then left out of the totals; with a factor it stays in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, UnknownName, require, require_count
from tacit.noise.support_index import places_of, taken
from tacit.protocol import TOTALS, Noise, Query, Totals
from tacit.release.contract import Release, StageSize
from tacit.release.curator import (
    IDENTITY,
    LEVELS,
    SQUARE_ROOT,
    CountPlan,
    CuratorRelease,
    FactorNoise,
    best_exponent,
    column_square,
    integer_column,
    require_tight,
)
from tacit.release.fixed_point import fixed_point
from tacit.release.request import PrivacyRequest, make_claim
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_vectors import add_vector, count_families, dimension_of

MECHANISMS: Final[Mapping[str, Fraction]] = {"factorization": SQUARE_ROOT, "batched": IDENTITY}


class TotalsMemory(NamedTuple):
    """What everybody knows: the payloads so far."""

    releases: Ints
    """[1]"""
    past: Ints
    """[releases, D]; [1, D], their sum, where every stage has fresh noise."""
    reports: Ints
    """[1]: how many the payloads cover."""
    released: CountStatistics
    """The totals that were read last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRelease(CuratorRelease):
    """One stage of running totals under central trust; make them with `TotalsPlan`."""

    shape: CountShape
    claim: PrivacyClaim
    releases: int
    """How many stages may be released: T."""
    target: int
    least: int
    levels: int
    """Rewards are multiples of 1/levels."""
    unit: int
    """M: payloads count in units of 1/M."""
    exponent: Fraction
    """Of the factor (1 - x)^-a: 1/2 is the square root, 0 fresh noise for every stage."""
    variance: int
    """s²: of the noise in one number of the payload, in units of 1/M²."""

    KIND: ClassVar[str] = "central-totals"
    query: ClassVar[Totals] = TOTALS

    def __post_init__(self) -> None:
        # C_j ≤ M/levels and a person adds at most H·levels to a sum.
        self.require_release(self.releases * self.target * self.shape.horizon * self.unit)

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        return factor_name(self.exponent)

    @property
    def noise(self) -> FactorNoise:
        """What the curator adds, over all releases."""
        return FactorNoise(
            size=dimension_of(self.shape),
            levels=self.levels,
            unit=self.unit,
            variance=self.variance,
            releases=self.releases,
            exponent=self.exponent,
        )

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sums of its stage."""
        return count_families(self.shape, "complement")

    def exposed(self, reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to over all releases."""
        return self.noise.events(self.families(), self.claim, reports)

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any totals of the study: that of the last, a sum of the most squares."""
        return totals_std(self.shape, math.sqrt(self.noise.variance_at(self.releases)))

    def sums(self, people: Any, query: Query, noise: Noise) -> Ints:
        """The vector [transitions | rewards | complements] of a stage, pooled over the steps unless staged."""
        parts = (people.transitions[:-1], people.rewards, people.visits - people.rewards)
        pooled = not self.shape.staged and self.shape.horizon > 1
        everything = np.concatenate([(part.sum(axis=0) if pooled else part).ravel() for part in parts])
        # Over a declared support, the counters that can move: Lemma S9 (declared support)
        return np.asarray(taken(self.shape, "complement", everything), dtype=np.int64)

    def begin_memory(self) -> TotalsMemory:
        """Nothing is known yet."""
        none = np.zeros(1, dtype=np.int64)
        return TotalsMemory(none, self.noise.begin_past(), none.copy(), empty_counts(self.shape))

    def memory_after(self, memory: TotalsMemory, payload: bytes, people: int) -> TotalsMemory:
        """The totals after this release."""
        done, noise = int(memory.releases[0]), self.noise
        past, totals = noise.totals(memory.past, payload, done)
        reports = memory.reports + people
        found = empty_counts(self.shape)
        add_vector(found, totals, places_of(self.shape), True)
        found.variance[:] = totals_variance(self.shape, noise.variance_at(done + 1))
        found.users[0] = reports[0]
        return TotalsMemory(memory.releases + 1, past, reports, found)

    def skip(self, memory: TotalsMemory, payload: bytes, people: int) -> TotalsMemory:
        """Fresh noise: the stage is left out of all totals. A factor: later totals hold it, so its payload is kept."""
        if self.noise.fresh:
            return memory
        kept: TotalsMemory = self.read(memory, payload, people)[0]
        return kept._replace(released=memory.released)


def totals_variance(shape: CountShape, each: float, *, complement: bool = True) -> Floats:
    """[transitions, visits, rewards]: the noise variance of totals whose counters carry `each`.

    N = R + (N - R) carries two noises; where no transition has a counter, all of them follow from visits.
    """
    visits = 2.0 * each if complement else each
    moved = visits if places_of(shape).all_sure else each
    return np.array([moved if shape.horizon > 1 else 0.0, visits, each])


def totals_std(shape: CountShape, std: float, *, complement: bool = True) -> dict[str, float]:
    """The same as deviations, by name."""
    terms = np.sqrt(totals_variance(shape, 1.0, complement=complement))
    return {name: std * float(root) for name, root in zip(("transitions", "visits", "rewards"), terms, strict=True)}


def factor_name(exponent: Fraction) -> str:
    """The name of a factor, for tables."""
    if exponent == IDENTITY:
        return "central/batched"
    return "central/factorization" + ("" if exponent == SQUARE_ROOT else f", exponent {exponent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsPlan(CountPlan):
    """Running totals over at most `releases` stages under central trust.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> for mechanism in ("factorization", "batched", None):
    ...     plan = TotalsPlan(shape=shape, claim=claim, releases=16, mechanism=mechanism)
    ...     print(plan.name, round(plan.noise_std()["transitions"], 1))
    central/factorization 38.5
    central/batched 79.3
    central/factorization, exponent 7/16 39.1
    """

    shape: CountShape
    claim: PrivacyClaim
    releases: int
    """How many stages may be released: T."""
    least: Fraction = Fraction(1)
    """The share of the people wanted without whom a stage is not released."""
    levels: int = LEVELS
    mechanism: str | None = None
    """None: the least noise, squared and summed over all totals, for a person with g reports."""

    answers = Totals
    everything: ClassVar[Totals] = TOTALS

    def __post_init__(self) -> None:
        self.require_plan()
        require_count("releases", self.releases)
        if self.mechanism is not None and self.mechanism not in MECHANISMS:
            raise UnknownName("mechanism of running totals", self.mechanism, MECHANISMS)
        _ = self.alone  # its checks are ours

    @classmethod
    def of(
        cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None, releases: int | None = None
    ) -> Self:
        """The plan of a request: as many releases as its episodes fill stages, unless another number is given."""
        require_tight(request, Totals)
        stages = -(-request.episodes // request.users_per_batch)
        return cls(
            shape=request.shape,
            claim=make_claim(request) if claim is None else claim,
            releases=stages if releases is None else releases,
            least=least,
            mechanism=request.mechanism,
        )

    @property
    def exponent(self) -> Fraction:
        """Of the factor; 0: fresh noise for every stage."""
        if self.mechanism is not None:
            return MECHANISMS[self.mechanism]
        return best_exponent(self.releases, self.claim.unit.reports)

    def release_of(self, stage: StageSize) -> TotalsRelease:
        """The release of a stage: all have the same noise."""
        exponent = self.exponent
        unit, variance = _noise(self.shape, self.claim, self.releases, self.levels, exponent)
        made = TotalsRelease(
            shape=self.shape,
            claim=self.claim,
            releases=self.releases,
            target=stage.target,
            least=stage.least,
            levels=self.levels,
            unit=unit,
            exponent=exponent,
            variance=variance,
        )
        made.require_asked(stage.query)
        return made

    def channels(self, stages: Sequence[StageSize]) -> tuple[Release, ...]:
        """One release for every stage that reports."""
        require(len(stages) <= self.releases, f"this plan is for {self.releases} releases", len(stages))
        return CountPlan.channels(self, stages)

    def exposure(self, channels: Sequence[Release], reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to: the first columns together."""
        require(len(channels) <= self.releases, f"this plan is for {self.releases} releases", len(channels))
        require_count("reports", reports)
        noises = {(c.shape, c.noise) if isinstance(c, TotalsRelease) else None for c in channels}
        if len(noises) > 1 or None in noises:
            raise InvalidInput("the releases of running totals must all have the same noise; make them with one plan")
        return channels[0].exposed(min(reports, len(channels))) if channels else ()  # type: ignore[attr-defined]

    def events(self) -> Events:
        """What a person of the claim's unit is exposed to over the whole study."""
        one: TotalsRelease = self.alone
        return one.exposed(self.claim.unit.reports)


@lru_cache(maxsize=256)
def _noise(shape: CountShape, claim: PrivacyClaim, releases: int, levels: int, exponent: Fraction) -> tuple[int, int]:
    """Unit and variance for a person with g reports."""
    reports = claim.unit.reports
    noisy = dimension_of(shape) * (min(reports, releases) if exponent == IDENTITY else releases)
    moved = math.sqrt(sum(family.l2_squared for family in count_families(shape, "complement")))

    def shift(unit: int) -> float:
        # Δ₂ in units of 1/levels times the columns of C
        column = integer_column(exponent, releases, unit // levels)
        return moved * levels * math.sqrt(column_square(column, reports))

    return fixed_point(claim, noisy, shift)
