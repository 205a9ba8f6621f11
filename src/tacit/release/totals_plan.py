"""The basis of running totals under central trust: which factor, which unit, how much noise, before anybody comes.

    s = Δ₂ ‖first g columns of C‖ / μ(ε, δ)      with the rounded C, and a thousandth of δ for whole numbers

`mechanism`: "factorization" (the square root), "batched" (fresh noise for every stage), or None: whatever has the least
noise, squared and summed over all totals, for a person with g reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.protocol import Query, Totals
from tacit.release.contract import Channel, StageSize
from tacit.release.fixed_point import fixed_point
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.toeplitz import IDENTITY, SQUARE_ROOT, best_exponent, column_square, integer_column
from tacit.release.totals_release import CentralChannel, factor_name, require_unit
from tacit.released.counts import CountShape
from tacit.released.precision import CountPrecision, Sampling, everything_sent
from tacit.statistics.count_vectors import count_families, dimension_of

__all__ = ["LEVELS", "MECHANISMS", "CentralBasis", "least_people", "require_share", "require_tight"]

LEVELS: Final = 16
"""Rewards are multiples of 1/16: rounding adds a deviation of at most 1/32 per visit."""
MECHANISMS: Final[Mapping[str, Fraction]] = {"factorization": SQUARE_ROOT, "batched": IDENTITY}


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralBasis:
    """Running totals over at most `releases` stages under central trust.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> for mechanism in ("factorization", "batched", None):
    ...     basis = CentralBasis(shape=shape, claim=claim, releases=16, mechanism=mechanism)
    ...     print(basis.name, round(basis.noise_std()["transitions"], 1))
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
    """None: the least noise."""

    answers = Totals

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require_count("releases", self.releases)
        require_share(self.least)
        if self.mechanism is not None and self.mechanism not in MECHANISMS:
            raise UnknownName("mechanism of running totals", self.mechanism, MECHANISMS)
        self._channel(1, 1)  # its checks are ours

    @classmethod
    def of(
        cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None, releases: int | None = None
    ) -> Self:
        """The basis of a request: as many releases as its episodes fill stages, unless another number is given."""
        require_tight(request, Totals)
        stages = -(-request.episodes // request.users_per_batch)
        return cls(
            shape=request.shape,
            claim=make_claim(request) if claim is None else claim,
            releases=stages if releases is None else releases,
            least=least,
            mechanism=request.mechanism,
        )

    def least_of(self, target: int) -> int:
        """How many reports a stage of this target needs."""
        return least_people(self.least, target)

    @property
    def exponent(self) -> Fraction:
        """Of the factor; 0: fresh noise for every stage."""
        if self.mechanism is not None:
            return MECHANISMS[self.mechanism]
        return best_exponent(self.releases, self.claim.unit.reports)

    @property
    def name(self) -> str:
        """For tables."""
        return factor_name(self.exponent)

    def channels(self, stages: Sequence[StageSize]) -> tuple[Channel, ...]:
        """One channel for every stage that reports, all with the same noise."""
        require(len(stages) <= self.releases, f"this basis is for {self.releases} releases", len(stages))
        for stage in stages:
            if not isinstance(stage.query, Totals):
                raise InvalidInput(f"{self.name} answers running totals; it was asked for {stage.query.words()}")
        return tuple(self._channel(stage.target, stage.least) for stage in stages)

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to: the first columns together."""
        require(len(channels) <= self.releases, f"this basis is for {self.releases} releases", len(channels))
        require_count("reports", reports)
        if not channels:
            return ()
        first = channels[0]
        alike = isinstance(first, CentralChannel) and all(
            isinstance(channel, CentralChannel)
            and (channel.unit, channel.variance, channel.exponent, channel.releases, channel.shape)
            == (first.unit, first.variance, first.exponent, first.releases, first.shape)
            for channel in channels
        )
        if not alike or not isinstance(first, CentralChannel):
            raise InvalidInput("the channels of running totals must all have the same noise; make them with one basis")
        return first.exposed(min(reports, len(channels)))

    def events(self) -> Events:
        """What a person of the claim's unit is exposed to over the whole study."""
        return self._channel(1, 1).exposed(self.claim.unit.reports)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sums of its stage."""
        return count_families(self.shape, "complement")

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any totals: that of the last."""
        return self._channel(1, 1).noise_std()

    def precision(self) -> None:
        """Prefixes are released, not sums over users."""

    def count_precision(self) -> CountPrecision:
        """Discrete Gaussian noise is sub-Gaussian: Lemma N3 (discrete twins)."""
        return CountPrecision(scale=np.zeros(3))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def _channel(self, target: int, least: int) -> CentralChannel:
        exponent = self.exponent
        unit, variance = _noise(self.shape, self.claim, self.releases, self.levels, exponent)
        return CentralChannel(
            shape=self.shape,
            claim=self.claim,
            releases=self.releases,
            target=target,
            least=least,
            levels=self.levels,
            unit=unit,
            exponent=exponent,
            variance=variance,
        )


def require_share(least: object) -> None:
    """Raise unless this is the share of people without whom a stage is not released."""
    share = isinstance(least, Fraction) and 0 < least <= 1
    require(share, "least must be a fraction above 0 and at most 1", least)


def least_people(least: Fraction, target: int) -> int:
    """How many people that share is, of so many."""
    return max(1, math.ceil(least * target))


def require_tight(request: PrivacyRequest, asks: type[Query]) -> None:
    """Raise unless a request is one for the least noise that the accountant certifies, and for such queries."""
    if request.calibrated != "tight":
        raise NotSupported("channels of a study have the least noise; leave the calibration out, or say 'tight'")
    require(request.asks is asks, f"these stages answer {asks.words()}", request.asks.words())


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
