"""Central trust, adversarial losses: counts and losses of one user after the other, in whole numbers.

    payload  k, then [ transitions | losses ]: w_k = Σ_{j≤k} C_{k-j} x_j + z_k, whole numbers in units of 1/M
             bandit losses are released once, in the user's own episode: M l_k + z_k, with noise of their own
    read     transitions and full-information losses as totals, visits as sums of transitions: post-processing
    shares   full information: σ² of both as `gaussian_shares` has it, over the first g columns of C
             bandit feedback: half of μ² for each, the columns for transitions, g single releases for losses

What `tacit.release.losses` simulates with central trust and delta > 0, with noise that can be drawn exactly: C is
the square-root factorization in whole numbers where the simulation streams through buffers (its noise is within 0.2 %).

G1  A person with at most g reports, one per stage, is exposed to one Gaussian noise over the first g columns of C for
    each of the 2H differing transitions, and to one for each differing loss: Lemma C9 (integer factorization), Lemma S7
    (losses). The two statistics have noise of different sizes.
G2  A stage is one user. Pure privacy, local trust and public loss tables have no channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.noise.continual.counter import gaussian_shares
from tacit.noise.gaussian import Gaussian
from tacit.protocol import Noise, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import Release, StageSize
from tacit.release.curator import (
    LEVELS,
    SQUARE_ROOT,
    CuratorPlan,
    CuratorRelease,
    FactorNoise,
    FreshNoise,
    column_square,
    integer_column,
    numbered,
    prefix_weights,
    require_tight,
)
from tacit.release.documents import CODECS, record
from tacit.release.fixed_point import gaussian_budget, least_scale, to_payload
from tacit.release.loss_noise import Feedback, loss_families
from tacit.release.request import PrivacyRequest, make_claim
from tacit.released.losses import LayeredShape, LossQuery, LossStatistics, empty_losses
from tacit.released.precision import CountPrecision
from tacit.statistics.trajectory_body import LossBody

CODECS["LayeredShape"] = record(LayeredShape, "horizon", "pairs", "pair_of")


class LossSecret(NamedTuple):
    """What the curator keeps: what every user so far added."""

    moves: Any
    losses: Any
    """Nothing for bandit feedback, whose losses are released once."""

    def __repr__(self) -> str:
        return f"LossSecret({int(self.moves.releases[0])} releases)"  # never its contents


class LossMemory(NamedTuple):
    """What everybody knows: the payloads so far, and the last statistics."""

    past: Ints
    """[releases, triples + pairs]"""
    released: LossStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRelease(CuratorRelease):
    """One user's stage of counts and losses under central trust; make them with `LossPlan`."""

    shape: LayeredShape
    claim: PrivacyClaim
    full: bool
    """Whether the losses of all pairs are released, or those that a user met."""
    releases: int
    """How many users may be released: T."""
    levels: int
    """Losses are multiples of 1/levels."""
    unit: int
    """M: payloads count in units of 1/M."""
    transition_variance: int
    """s²: of the noise in one transition of the payload, in units of 1/M²."""
    loss_variance: int
    """The same for one loss."""

    KIND: ClassVar[str] = "central-losses"
    target: ClassVar[int] = 1  # type: ignore[misc]
    least: ClassVar[int] = 1  # type: ignore[misc]
    name: ClassVar[str] = "central/factorization of losses"

    def __post_init__(self) -> None:
        _ = self.losses_noise  # its checks are ours
        self.require_release(self.releases * self.unit)

    @property
    def query(self) -> LossQuery:
        """Counts and losses."""
        return LossQuery(full=self.full)

    @property
    def body(self) -> LossBody:
        """The format of bodies."""
        return LossBody(shape=self.shape, full=self.full, levels=self.levels)

    @property
    def noise(self) -> FactorNoise:
        """What the curator adds to transitions."""
        return self._factor(self.shape.triples, self.transition_variance)

    @property
    def losses_noise(self) -> FreshNoise:
        """What the curator adds to losses."""
        P, variance = self.shape.pairs, self.loss_variance
        if self.full:
            return self._factor(P, variance)
        return FreshNoise(size=P, levels=self.levels, unit=self.unit, variance=variance)

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return loss_families(self.shape, full=self.full)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each statistic, at its largest: after the last release."""
        found = (math.sqrt(v) for v in self.variances(self.releases))
        return dict(zip(("transitions", "visits", "losses"), found, strict=True))

    def variances(self, release: int) -> tuple[float, float, float]:
        """The noise variance of one transition, visit and loss after so many releases."""
        moved, lost = self.noise.variance_at(release), self.losses_noise
        loss = lost.variance_at(release) if isinstance(lost, FactorNoise) else lost.variance / lost.unit**2
        return moved, moved * max(np.bincount(self.shape.pair_of)), loss

    def events(self) -> Events:
        """What one report costs."""
        return self.exposed(1)

    def exposed(self, reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to over all releases (G1)."""
        moves, losses = self.families()
        first, slack = self.noise.events((moves,), self.claim, reports)
        second, more = self.losses_noise.events((losses,), self.claim, min(reports, self.releases))
        return first, second, slack, more

    def opened(self, bodies: Sequence[bytes]) -> Ints:
        """What the user adds: transitions, then losses."""
        return np.concatenate(self.body.sums(bodies[0]))

    def simulate(self, secret: Any, users: Any, query: Query, noise: SimulationNoise) -> tuple[Any, bytes]:
        """Simulation only: the same through the body of a `LossUser`."""
        return self.release(secret, [self.encode(users, noise)], query, noise)

    def sums(self, people: Ints, query: Query, noise: Noise) -> Ints:
        """The same: a stage is one user."""
        return people

    def begin_secret(self) -> LossSecret:
        """Nobody came yet."""
        return LossSecret(self.noise.begin(), self.losses_noise.begin())

    def _added(self, secret: LossSecret, own: Ints, noise: Noise) -> tuple[LossSecret, bytes]:
        """One user more, with the noise of this release."""
        T = self.shape.triples
        moves, w = self.noise.add(secret.moves, own[:T], noise)
        losses, v = self.losses_noise.add(secret.losses, own[T:], noise)
        return LossSecret(moves, losses), to_payload(np.concatenate([w, v[-self.shape.pairs :]]))

    def begin_memory(self) -> LossMemory:
        """Nothing is known yet."""
        return LossMemory(
            np.zeros((0, self.shape.triples + self.shape.pairs), dtype=np.int64), empty_losses(self.shape)
        )

    def memory_after(self, memory: LossMemory, payload: bytes, people: int) -> LossMemory:
        """The statistics after this release."""
        done, T = len(memory.past), self.shape.triples
        require(done < self.releases, f"a study has {self.releases} releases of losses", done + 1)
        given = numbered(payload, T + self.shape.pairs, done, gaps=False)
        past = np.concatenate([memory.past, given[np.newaxis]])
        # Σ_{j≤k} q_{k-j} w_j
        totals: Floats = prefix_weights(self.noise.column)[done::-1] @ past.astype(np.float64) / self.levels
        found = LossStatistics(
            transitions=totals[:T],
            visits=np.asarray(np.bincount(self.shape.pair_of, weights=totals[:T]), dtype=np.float64),
            losses=totals[T:] if self.full else given[T:] / self.unit,
            variance=np.array(self.variances(done + 1)),
            users=memory.released.users + people,
        )
        return LossMemory(past, found)

    def skip(self, memory: LossMemory, payload: bytes, people: int) -> LossMemory:
        """Later totals hold this release, so its payload is kept."""
        kept: LossMemory = self.read(memory, payload, people)[0]
        return kept

    def _factor(self, size: int, variance: int) -> FactorNoise:
        noise = {"levels": self.levels, "unit": self.unit, "releases": self.releases}
        return FactorNoise(size=size, variance=variance, exponent=SQUARE_ROOT, **noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPlan(CuratorPlan):
    """Counts and losses of at most `releases` users, one per stage, under central trust."""

    shape: LayeredShape
    claim: PrivacyClaim
    full: bool
    releases: int
    levels: int = LEVELS

    answers = LossQuery
    least: ClassVar[Fraction] = Fraction(1)  # type: ignore[misc]

    def __post_init__(self) -> None:
        self.require_plan()
        require_count("releases", self.releases)
        _ = self.alone  # its checks are ours

    @classmethod
    def of(cls, request: PrivacyRequest, *, releases: int, claim: PrivacyClaim | None = None) -> Self:
        """The plan of a request: what is known or public in it has no release of its own."""
        require_tight(request, LossQuery)
        if request.feedback is None or request.known_transitions or request.public_losses:
            raise NotSupported("a curator of losses releases counts and private losses, full or bandit")
        claim = make_claim(request) if claim is None else claim
        return cls(shape=request.shape, claim=claim, full=request.feedback == "full", releases=releases)

    @property
    def alone(self) -> LossRelease:
        """The release of every stage: they are all alike."""
        unit, moves, losses = _noise(self.shape, self.claim, self.full, self.releases, self.levels)
        return LossRelease(
            shape=self.shape,
            claim=self.claim,
            full=self.full,
            releases=self.releases,
            levels=self.levels,
            unit=unit,
            transition_variance=moves,
            loss_variance=losses,
        )

    def release_of(self, stage: StageSize) -> LossRelease:
        """The release of a stage of one user."""
        asked = isinstance(stage.query, LossQuery) and stage.query.full == self.full
        require(asked and stage.target == 1, "a stage of losses is one user, asked for counts and losses", stage)
        return self.alone

    def channels(self, stages: Sequence[StageSize]) -> tuple[Release, ...]:
        """One release for every stage of one user."""
        require(len(stages) <= self.releases, f"this plan is for {self.releases} releases", len(stages))
        return CuratorPlan.channels(self, stages)

    def exposure(self, channels: Sequence[Release], reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to."""
        require_count("reports", reports)
        if any(channel != self.alone for channel in channels):
            raise InvalidInput("the releases of losses must all have the same noise; make them with one plan")
        return self.alone.exposed(min(reports, len(channels))) if channels else ()

    @property
    def feedback(self) -> Feedback:
        """Which losses are released."""
        return "full" if self.full else "bandit"

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each statistic, at its largest."""
        return self.alone.noise_std()

    def largest_variance(self) -> Floats:
        """[3]: the variance of the noise in transitions, visits and losses, at its largest."""
        return np.array(self.alone.variances(self.releases))

    def precision(self) -> CountPrecision:
        """Discrete Gaussian noise is sub-Gaussian: Lemma N3 (discrete twins)."""
        return CountPrecision(scale=np.zeros(3))

    def loss_radius(self, failure_prob: float) -> float:
        """E': how far the noise of one released bandit loss goes, but for this probability."""
        own = Gaussian(sigma=math.sqrt(self.alone.loss_variance), discrete=True)
        return own.radius(failure_prob) / self.alone.unit


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
