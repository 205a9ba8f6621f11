"""The basis of adversarial losses under central trust: how the budget is shared between transitions and losses.

    full information   σ² of both as `gaussian_shares` has it, over the first g columns of C
    bandit feedback    half of μ² for each: the columns for transitions, g single releases for losses

These are the shares of `tacit.release.losses`, so that a study and its simulation have the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, require, require_count
from tacit.noise.continual.counter import gaussian_shares
from tacit.release.contract import Channel, StageSize
from tacit.release.curator import LEVELS, require_unit
from tacit.release.fixed_point import gaussian_budget, least_scale
from tacit.release.loss_release import LossChannel, loss_families
from tacit.release.toeplitz import SQUARE_ROOT, column_square, integer_column
from tacit.released.losses import LayeredShape, LossQuery
from tacit.released.precision import CountPrecision

__all__ = ["LossBasis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBasis:
    """Counts and losses of at most `releases` users, one per stage, under central trust."""

    shape: LayeredShape
    claim: PrivacyClaim
    full: bool
    releases: int
    levels: int = LEVELS

    answers = LossQuery

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require_count("releases", self.releases)
        self.channel()  # its checks are ours

    def channel(self) -> LossChannel:
        """The channel of every stage: they are all alike."""
        unit, moves, losses = _noise(self.shape, self.claim, self.full, self.releases, self.levels)
        return LossChannel(
            shape=self.shape,
            claim=self.claim,
            full=self.full,
            releases=self.releases,
            levels=self.levels,
            unit=unit,
            transition_variance=moves,
            loss_variance=losses,
        )

    def channels(self, stages: Sequence[StageSize]) -> tuple[Channel, ...]:
        """One channel for every stage of one user."""
        require(len(stages) <= self.releases, f"this basis is for {self.releases} releases", len(stages))
        for stage in stages:
            asked = isinstance(stage.query, LossQuery) and stage.query.full == self.full
            require(asked and stage.target == 1, "a stage of losses is one user, asked for counts and losses", stage)
        return (self.channel(),) * len(stages)

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to."""
        require_count("reports", reports)
        if any(channel != self.channel() for channel in channels):
            raise InvalidInput("the channels of losses must all have the same noise; make them with one basis")
        return self.channel().exposed(min(reports, len(channels))) if channels else ()

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return loss_families(self.shape, full=self.full)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each statistic, at its largest."""
        return self.channel().noise_std()

    def precision(self) -> CountPrecision:
        """Discrete Gaussian noise is sub-Gaussian: Lemma N3 (discrete twins)."""
        return CountPrecision(scale=np.zeros(3))


@lru_cache(maxsize=64)
def _noise(shape: LayeredShape, claim: PrivacyClaim, full: bool, releases: int, levels: int) -> tuple[int, int, int]:
    """Unit, and the variances of transitions and losses in units."""
    g, families = claim.unit.reports, loss_families(shape, full=full)
    mu = gaussian_mu(claim.epsilon, gaussian_budget(claim))
    shares = gaussian_shares(families, [1.0, 1.0], mu)
    if not full:
        shares = tuple(math.sqrt(2.0 * family.l2_squared) / mu for family in families)

    def variances(unit: int) -> tuple[int, int]:
        # σ_f in units of 1/levels, times the columns of C; single losses: √g of them, in units of 1/M
        columns = math.sqrt(column_square(integer_column(SQUARE_ROOT, releases, unit // levels), g)) * levels
        once = columns if full else math.sqrt(min(g, releases)) * unit
        moves, losses = (Fraction(s * c) ** 2 for s, c in zip(shares, (columns, once), strict=True))
        up = Fraction(1.0 + 1e-9)
        return math.ceil(moves * up), math.ceil(losses * up)

    # Each of the two pays half of the slack.
    draws = releases if full else min(g, releases)
    first, _ = least_scale(claim, 2 * shape.triples * releases, lambda unit: variances(unit)[0])
    second, _ = least_scale(claim, 2 * shape.pairs * draws, lambda unit: variances(unit)[1])
    unit = max(first, second)
    return unit, *variances(unit)
