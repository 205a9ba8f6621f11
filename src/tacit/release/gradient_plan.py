"""The basis of policy gradients under central trust: reach, unit and noise, before anybody comes.

    s = √(g · epochs) · shift / μ(ε, δ)      everybody takes part; with coins, the least s that the accountant certifies

A person with g reports, at most one per stage, meets g · epochs independent releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Self

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.gradients import Bounds
from tacit.errors import InvalidInput, NotSupported, require_count
from tacit.release.contract import Channel, StageSize
from tacit.release.curator import LEVELS, require_share, require_tight, require_unit
from tacit.release.fixed_point import fixed_point, gaussian_budget, least_scale
from tacit.release.gradient_noise import GradientSpec, Reach, least_sigma
from tacit.release.gradient_release import GradientChannel, require_spec
from tacit.release.gradient_sums import whole_reach
from tacit.release.request import PrivacyRequest, make_claim
from tacit.released.gradients import DoseQuery, GradientShape, SoftmaxQuery

__all__ = ["GradientBasis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientBasis:
    """Gradients of stages of `users_per_batch` people, of whom the share `least` is enough.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="final-policy")
    >>> shape = GradientShape(horizon=6, num_states=4, num_actions=2, staged=True, dimension=48)
    >>> spec = GradientSpec(clip=1.0, tabular=True)
    >>> basis = GradientBasis(shape=shape, claim=claim, spec=spec, users_per_batch=1000,
    ...                       least=Fraction(9, 10))
    >>> round(basis.sigma, 6)
    0.009389
    """

    shape: GradientShape
    claim: PrivacyClaim
    spec: GradientSpec
    """Rewards lie in [0, 1]."""
    users_per_batch: int
    least: Fraction = Fraction(1)
    """The share of the people wanted without whom a stage is not released."""
    levels: int = LEVELS

    answers = SoftmaxQuery

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require_spec(self.shape, self.spec)
        require_share(self.least)
        self._planned()  # its checks are ours

    @classmethod
    def of(cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None) -> Self:
        """The basis of a request for gradients."""
        if request.asks is DoseQuery:
            raise NotSupported("studies of doses are not offered: real-valued actions have no labels; use `simulate`")
        require_tight(request, SoftmaxQuery)
        if request.gradient is None:
            raise InvalidInput("gradients need a description of what they are made of; give a GradientSpec")
        return cls(
            shape=request.shape,
            claim=make_claim(request) if claim is None else claim,
            spec=request.gradient,
            users_per_batch=request.users_per_batch,
            least=least,
        )

    def least_of(self, target: int) -> int:
        """How many reports a stage of this target needs."""
        return max(1, math.ceil(self.least * target))

    @property
    def name(self) -> str:
        """For tables."""
        return "central/gaussian-gradient"

    @property
    def epochs(self) -> int:
        """How many times each stage's people are asked."""
        return self.spec.epochs

    @property
    def bounds(self) -> Bounds:
        """What limits a person's gradient."""
        return self._planned().bounds

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in one coordinate of the mean over `least` people."""
        return self._planned().sigma

    def channels(self, stages: Sequence[StageSize]) -> tuple[Channel, ...]:
        """One channel for every stage that reports, all with the same noise in the sum."""
        for stage in stages:
            if not (stage.query is SoftmaxQuery or isinstance(stage.query, SoftmaxQuery)):
                raise InvalidInput(
                    f"{self.name} answers {SoftmaxQuery.words()}; it was asked for {stage.query.words()}"
                )
        return tuple(self._channel(stage.target, stage.least) for stage in stages)

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """What a person with so many reports is exposed to: all questions of as many stages, which are alike."""
        g = min(require_count("reports", reports), len(channels))
        events = {channel.events() for channel in channels}
        if len(events) > 1:
            raise InvalidInput("the stages of a study must all have the same noise; make their channels with one basis")
        return tuple((event, g * count) for found in events for event, count in found)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sum."""
        return self._planned().families()

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in one coordinate of the mean, at its largest."""
        return {"gradient": self.sigma}

    def _planned(self) -> GradientChannel:
        return self._channel(self.users_per_batch, self.least_of(self.users_per_batch))

    def _channel(self, target: int, least: int) -> GradientChannel:
        unit, variance = _noise(self.shape, self.claim, self.spec)
        return GradientChannel(
            shape=self.shape,
            claim=self.claim,
            spec=self.spec,
            target=target,
            least=least,
            levels=self.levels,
            unit=unit,
            variance=variance,
        )


@lru_cache(maxsize=256)
def _noise(shape: GradientShape, claim: PrivacyClaim, spec: GradientSpec) -> tuple[int, int]:
    """Unit and variance for a person with g reports."""
    asked = claim.unit.reports * spec.epochs
    noisy = asked * (shape.dimension + 1)
    if spec.rate == 1.0:
        return fixed_point(claim, noisy, lambda unit: math.sqrt(asked) * whole_reach(spec, shape, unit).reach.shift)
    left = replace(claim, delta=gaussian_budget(claim), allow_large_delta=True)
    # The curve depends on norm/σ alone: one search serves every unit.
    ratio = least_sigma(Reach(norm=1.0, shift=2.0), left, asked, spec.rate) * (1.0 + 1e-9)
    return least_scale(
        claim, noisy, lambda unit: math.ceil(Fraction(ratio * whole_reach(spec, shape, unit).reach.norm) ** 2)
    )
