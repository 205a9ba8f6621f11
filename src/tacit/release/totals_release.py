"""Central trust, running totals: a curator sees trajectories and releases whole numbers from which totals follow.

    x_k      sums of stage k in units of 1/levels: transitions, rewards R, complements N - R; whole numbers, secret
    payload  k, then w_k = Σ_{j≤k} C_{k-j} x_j + z_k        whole numbers in units of 1/M, z_k discrete Gaussian
    read     totals after stage k = Σ_{j≤k} q_{k-j} w_j / levels,    q(x) = 1/((1-x) C(x)): post-processing

C is a lower triangular Toeplitz matrix of whole numbers (`tacit.release.toeplitz`): the square-root
factorization, fresh noise for every stage (`batched`, the identity), or something between; the least total noise for a
person with g reports decides, unless a mechanism is named.

G1  A person with at most g reports, one per stage, is exposed to one Gaussian noise over the first g columns of C, also
    if everybody reacts to what was released: Lemma C9 (integer factorization). Sensitivities are those of
    `count_families`, with the rounded C and the exact variance.
G2  The stated variance of every prefix is exact: discrete Gaussian noise has s² up to e^(-2π²s²).
G3  A stage that never was released does not take a place: w_k is the k-th release, whichever stage it belongs to; all
    channels of a study are alike and the first column, which is the longest, is charged.
    Totals follow from all payloads so far, so a payload carries its number k and is refused out of order; one that
    nobody learns from is skipped. With fresh noise it is then left out of the totals; with a factor it stays in them.
G4  The noise does not depend on how many report; `least` is enforced all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, TrajectoryLike
from tacit.errors import BudgetSpent, InvalidInput, require, require_count
from tacit.noise.places import places_of, taken
from tacit.protocol import TOTALS, Noise, Private, Query, Totals
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt
from tacit.release.documents import (
    claim_from_plain,
    fraction_from_plain,
    fraction_to_plain,
    require_entries,
    shape_from_plain,
    shape_to_plain,
    whole_from_plain,
)
from tacit.release.fixed_point import (
    draw_noise,
    from_payload,
    require_fixed_point,
    slack,
    spread,
    to_payload,
)
from tacit.release.stage import require_people
from tacit.release.toeplitz import IDENTITY, SQUARE_ROOT, column_square, integer_column, prefix_weights
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_vectors import add_placed, add_vector, count_families, dimension_of
from tacit.statistics.trajectory_body import LevelCounts, TrajectoryBody

__all__ = [
    "CentralChannel",
    "CentralMemory",
    "CentralSecret",
    "factor_name",
    "numbered",
    "require_unit",
]

COUNTS: Final = ("releases", "target", "least", "levels", "unit", "variance")
ENTRIES: Final = ("kind", "shape", "claim", "exponent", *COUNTS)
MOST: Final = 1 << 62
"""Whole numbers of a payload stay below this."""


class CentralSecret(NamedTuple):
    """What the curator keeps: the exact sums of the stages that were released."""

    releases: Ints
    """[1]"""
    sums: Ints
    """[releases, D]; [0, D] where every stage has fresh noise, because nothing has to be kept."""

    def __repr__(self) -> str:
        return f"CentralSecret({int(self.releases[0])} releases)"  # never its contents


class CentralMemory(NamedTuple):
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
class CentralChannel:
    """One stage of running totals under central trust; make them with `CentralBasis`."""

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
    TRUST: ClassVar[Trust] = "central"
    CHARGED_AT: ClassVar[ChargedAt] = "release"
    questions: ClassVar[int] = 1
    query: ClassVar[Totals] = TOTALS

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require_count("releases", self.releases)
        require(require_count("least", self.least) <= self.target, "least must be at most the target", self.least)
        require_fixed_point(self.unit, self.variance)
        require(self.unit % self.body.levels == 0, f"levels must divide the unit {self.unit}", self.levels)
        require(isinstance(self.exponent, Fraction), "exponent must be a Fraction", type(self.exponent).__name__)
        # C_j ≤ M/levels and a person adds at most H·levels to a sum.
        most = self.releases * self.target * self.shape.horizon * self.unit
        require(
            most < MOST, "the sums of all stages must fit into 62 bits", most, "plan fewer people or a smaller unit"
        )
        require(len(self.column) == self.releases, "a column has one entry for every release", len(self.column))

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        return factor_name(self.exponent)

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
    def column(self) -> tuple[int, ...]:
        """The first column of C."""
        return integer_column(self.exponent, self.releases, self.unit // self.levels)

    @property
    def fresh(self) -> bool:
        """Whether every stage has noise of its own."""
        return self.exponent == IDENTITY

    @property
    def dimension(self) -> int:
        """D: the numbers of a payload."""
        return dimension_of(self.shape)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sums of its stage."""
        return count_families(self.shape, "complement")

    def events(self) -> Events:
        """What one report costs (G1), whoever else reports."""
        return self.exposed(1)

    def events_at(self, people: int) -> Events:
        """The same, however many report (G4)."""
        require_people(people, self.least, self.target)
        return self.exposed(1)

    def exposed(self, reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to over all releases (G1)."""
        # ‖first g columns‖ in natural units, rounded up
        scale = self.unit // self.levels
        norm = math.sqrt(column_square(self.column, reports)) / scale * (1.0 + 1e-12)
        sigma = spread(self.variance, self.unit)
        noisy = self.dimension * (min(reports, self.releases) if self.fresh else self.releases)
        gaussian = tuple(
            (GaussianEvent(sigma=sigma, shift=family.shift * norm), family.differing) for family in self.families()
        )
        return (*gaussian, *slack(self.claim, noisy, self.variance))

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any totals of the study: that of the last, a sum of the most squares."""
        std = math.sqrt(self.variance_at(self.releases))
        visits = std * math.sqrt(2.0)
        moved = visits if places_of(self.shape).all_sure else std
        return {"transitions": moved if self.shape.horizon > 1 else 0.0, "visits": visits, "rewards": std}

    def variance_at(self, release: int) -> float:
        """The exact noise variance of one number of the totals after so many releases (G2)."""
        k = require_count("release", release)
        require(k <= self.releases, f"release must be at most {self.releases}", k)
        square = float(np.dot(prefix_weights(self.column)[:k], prefix_weights(self.column)[:k]))
        return self.variance * square / self.levels**2

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report, which counts for nothing."""
        return self.body.encode(trajectory, noise)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        self.body.check(body)

    def begin_secret(self) -> CentralSecret:
        """Nobody came yet."""
        return CentralSecret(np.zeros(1, dtype=np.int64), np.zeros((0, self.dimension), dtype=np.int64))

    def release(
        self, secret: CentralSecret, bodies: Sequence[bytes], query: Query, noise: Noise
    ) -> tuple[CentralSecret, bytes]:
        """The curator: add this stage's sums, draw its noise once, and hand out whole numbers."""
        require_people(len(bodies), self.least, self.target)
        self._open(secret, query)
        return self._released(secret, self.body.counts(self.body.decode(bodies)), noise)

    def simulate(
        self, secret: CentralSecret, users: Trajectories | ExactCounts, query: Query, noise: SimulationNoise
    ) -> tuple[CentralSecret, bytes]:
        """Simulation only: the same law from trajectories or exact counts."""
        require_people(len(users) if isinstance(users, Trajectories) else users.users, self.least, self.target)
        self._open(secret, query)
        return self._released(secret, self.body.simulated(users, noise), noise)

    def begin_memory(self) -> CentralMemory:
        """Nothing is known yet."""
        past = np.zeros((1 if self.fresh else 0, self.dimension), dtype=np.int64)
        none = np.zeros(1, dtype=np.int64)
        return CentralMemory(none, past, none.copy(), empty_counts(self.shape))

    def read(
        self, memory: CentralMemory, payload: bytes, people: int
    ) -> tuple[CentralMemory, Private[CountStatistics]]:
        """Anybody: the totals after this release."""
        require_people(people, self.least, self.target)
        done = int(memory.releases[0])
        require(done < self.releases, f"a study has {self.releases} releases of totals", done + 1)
        given = numbered(payload, self.dimension, done, gaps=self.fresh)
        if self.fresh:
            past = memory.past + given
            totals: Floats = past[0] / self.unit
        else:
            past = np.concatenate([memory.past, given[np.newaxis]])
            # Σ_{j≤k} q_{k-j} w_j
            totals = prefix_weights(self.column)[done::-1] @ past.astype(np.float64) / self.levels
        reports = memory.reports + people
        found = self._statistics(totals, done + 1, int(reports[0]))
        return CentralMemory(memory.releases + 1, past, reports, found), Private(found, self.claim)

    def skip(self, memory: CentralMemory, payload: bytes, people: int) -> CentralMemory:
        """Fresh noise: the stage is left out of all totals. A factor: later totals hold it, so its payload is kept."""
        return memory if self.fresh else self.read(memory, payload, people)[0]._replace(released=memory.released)

    def _statistics(self, totals: Floats, release: int, people: int) -> CountStatistics:
        found = empty_counts(self.shape)
        if self.shape.support is None:
            add_vector(found, totals, True, self.shape.horizon)
        else:
            add_placed(found, totals, places_of(self.shape), True)
        each = self.variance_at(release)
        # N = R + (N - R) carries two noises; where no transition has a counter, all of them follow from visits.
        moved = 2.0 * each if places_of(self.shape).all_sure else each
        found.variance[:] = [moved if self.shape.horizon > 1 else 0.0, 2.0 * each, each]
        found.users[0] = people
        return found

    def _open(self, secret: CentralSecret, query: Query) -> None:
        if not isinstance(query, Totals):
            raise InvalidInput(f"{self.KIND} answers running totals; it was asked for {query.words()}")
        done = int(secret.releases[0])
        if done >= self.releases:
            raise BudgetSpent(f"all {self.releases} releases of this study are spent; plan a longer one")
        rows = 0 if self.fresh else done
        fits = secret.sums.shape == (rows, self.dimension)
        require(fits, f"the secret of this study must hold {rows} sums of {self.dimension} numbers", secret.sums.shape)

    def _released(self, secret: CentralSecret, counts: LevelCounts, noise: Noise) -> tuple[CentralSecret, bytes]:
        own = self._sums(counts)
        done = int(secret.releases[0])
        z = draw_noise(self.dimension, self.variance, noise)
        sums = secret.sums if self.fresh else np.concatenate([secret.sums, own[np.newaxis]])
        column = np.array(self.column, dtype=np.int64)
        # w_k = Σ_{j≤k} C_{k-j} x_j + z_k, in integers
        w = column[0] * own + z if self.fresh else column[done::-1] @ sums + z
        return CentralSecret(secret.releases + 1, sums), to_payload(np.concatenate([secret.releases, w]))

    def _sums(self, counts: LevelCounts) -> Ints:
        """The vector [transitions | rewards | complements] of a stage, pooled over the steps unless staged."""
        parts = (counts.transitions[:-1], counts.rewards, counts.visits - counts.rewards)
        pooled = not self.shape.staged and self.shape.horizon > 1
        everything = np.concatenate([(part.sum(axis=0) if pooled else part).ravel() for part in parts])
        # Over a declared support, the counters that can move: Lemma S9 (declared support)
        return np.asarray(taken(self.shape, "complement", everything), dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; every number is exact."""
        return {
            "kind": self.KIND,
            "shape": shape_to_plain(self.shape),
            "claim": self.claim.to_dict(),
            "releases": self.releases,
            "target": self.target,
            "least": self.least,
            "levels": self.levels,
            "unit": self.unit,
            "exponent": fraction_to_plain(self.exponent),
            "variance": self.variance,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The channel that `to_dict` wrote."""
        require_entries(f"a channel '{cls.KIND}'", plain, ENTRIES)
        return cls(
            shape=shape_from_plain(plain["shape"]),
            claim=claim_from_plain(plain["claim"], cls.TRUST),
            exponent=fraction_from_plain("exponent", plain["exponent"]),
            **{name: whole_from_plain(name, plain[name]) for name in COUNTS},
        )


def numbered(payload: bytes, size: int, wanted: int, *, gaps: bool) -> Ints:
    """The numbers of a payload, if it is the release that comes next, or a later one where others may be left out."""
    given = from_payload(payload, size + 1)
    number = int(given[0])
    hint = "read every release, in order, and skip those that are not learned from"
    fits = number >= wanted if gaps else number == wanted
    require(fits, f"the next payload to be read must be release {wanted}", number, hint)
    return given[1:]


def factor_name(exponent: Fraction) -> str:
    """The name of a factor, for tables."""
    if exponent == IDENTITY:
        return "central/batched"
    return "central/factorization" + ("" if exponent == SQUARE_ROOT else f", exponent {exponent}")


def require_unit(claim: PrivacyClaim) -> None:
    """Raise unless a claim is about a person with at most one report per stage, under central trust."""
    require(claim.trust == "central", "a central channel needs a claim with trust 'central'", claim.trust)
    require(claim.unit.per_stage == 1, "a person must report at most once per stage", claim.unit.per_stage)
