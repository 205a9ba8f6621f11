"""Central trust: a curator adds discrete Gaussian noise to whole-number sums of one bounded vector per person.

    release  x = Σ people, in units of 1/levels              secret
             w = C x + z, whole numbers in units of 1/M      the payload; z_i discrete Gaussian of variance s²
    read     w / M, or totals that follow from all payloads so far: post-processing

`FreshNoise`   C is the number M/levels: every stage for itself. Nothing is kept.
`FactorNoise`  w_k = Σ_{j≤k} C_{k-j} x_j + z_k, totals after stage k = Σ_{j≤k} q_{k-j} w_j / levels with
               q(x) = 1/((1-x) C(x)). The curator keeps the sums, everybody keeps the payloads; a payload carries its
               number k. C is a lower triangular Toeplitz matrix of whole numbers (`tacit.release.curator`).

G1  A person with at most g reports, one per stage, is exposed to g fresh noises, or to one over the first g columns of
    C, also if everybody reacts to what was released: Lemma C9 (integer factorization). The rounded C and the exact
    variance are what is accounted for.
G2  The stated variance is exact: discrete Gaussian noise has s² up to e^(-2π²s²).
G3  The noise does not depend on how many report; `least` is enforced all the same.

Factors of running totals in whole numbers: lower triangular Toeplitz matrices that a curator can apply exactly.

    w_k = Σ_{j≤k} C_{k-j} x_j + z_k          what is released: whole numbers
    Σ_{j≤k} x_j + noise = Σ_{j≤k} q_{k-j} w_j,    q(x) = 1 / ((1 - x) C(x))         what anybody computes from it

The column is C_j = ⌊N c_j⌉ with the coefficients c_j of (1 - x)^-a, 0 ≤ a ≤ 1/2: c_0 = 1, c_j = c_{j-1} (j - 1 + a)/j.
a = 1/2 is the square-root factorization, a = 0 the identity (fresh noise for every stage); in between, a person who
reports in several stages is exposed to less, and totals carry more. Everything is computed from the rounded column.

G4  Non-negative and non-increasing, so a person with g reports, at most one per stage, moves w by at most the sum of
    the first g columns times what one report moves: Lemma C9 (integer factorization).
G5  The column is computed in integers: every reader of a study computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, PrivacyBudgetExceeded, require, require_count
from tacit.protocol import Noise, PrivateStatistics, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt, StageSize
from tacit.release.fixed_point import draw_noise, from_payload, require_fixed_point, slack, spread, to_payload
from tacit.release.request import PrivacyRequest
from tacit.release.stage import NoSecret, StagePlan, StageRelease, require_people
from tacit.released.precision import CountPrecision, Sampling, everything_sent
from tacit.statistics.trajectory_body import TrajectoryBody

SQUARE_ROOT: Final = Fraction(1, 2)
IDENTITY: Final = Fraction(0)
CANDIDATES: Final = tuple(Fraction(n, 16) for n in range(9))
_GUARD: Final = 192
"""Binary digits of the coefficients: far more than any rounding to whole numbers asks for."""


@lru_cache(maxsize=64)
def integer_column(exponent: Fraction, stages: int, scale: int) -> tuple[int, ...]:
    """The first column ⌊scale · c_j⌉, j < stages (G5).

    >>> integer_column(Fraction(1, 2), 4, 1000), integer_column(Fraction(0), 3, 1000)
    ((1000, 500, 375, 312), (1000, 0, 0))
    """
    require_count("stages", stages)
    require(0 <= exponent <= SQUARE_ROOT, "the exponent of a factor must lie in [0, 1/2]", str(exponent))
    p, q = exponent.numerator, exponent.denominator
    one = require_count("scale", scale) << _GUARD
    found, c, half = [scale], one, 1 << (_GUARD - 1)
    for j in range(1, stages):
        c = c * (p + (j - 1) * q) // (j * q)
        # Halves go down, so that the column stays non-increasing and 312.5 is 312.
        found.append((c + half - 1) >> _GUARD)
    return tuple(found)


def column_square(column: tuple[int, ...], reports: int) -> int:
    """‖C e_0 + ... + C e_{g-1}‖²: the largest over all g columns (G4), exactly.

    >>> column_square((2, 1, 1), 1), column_square((2, 1, 1), 2)
    (6, 17)
    """
    g = min(require_count("reports", reports), len(column))
    total, running = 0, 0
    for r, entry in enumerate(column):
        # (C e_0 + ... + C e_{g-1})_r = C_r + C_{r-1} + ... + C_{r-g+1}
        running += entry - (column[r - g] if r >= g else 0)
        total += running * running
    return total


@lru_cache(maxsize=64)
def prefix_weights(column: tuple[int, ...]) -> Floats:
    """The coefficients q_j of 1/((1 - x) C(x)).

    >>> prefix_weights((4, 2))
    array([0.25 , 0.125])
    """
    c: Floats = np.array(column, dtype=np.float64)
    inverse = np.zeros(len(c))
    inverse[0] = 1.0 / c[0]
    for k in range(1, len(c)):
        # Σ_j C_j y_{k-j} = 0
        inverse[k] = -np.dot(c[1 : k + 1], inverse[k - 1 :: -1]) / c[0]
    weights: Floats = np.cumsum(inverse)
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=256)
def best_exponent(stages: int, reports: int) -> Fraction:
    """The exponent with the least noise, squared and summed over all prefixes, for a person with so many reports.

    >>> str(best_exponent(16, 1)), str(best_exponent(16, 16)), str(best_exponent(1, 1))
    ('7/16', '0', '0')
    """

    def noise(exponent: Fraction) -> float:
        column = integer_column(exponent, stages, 1 << 20)
        weights = prefix_weights(column)
        # Σ_k Σ_{j≤k} q_j² at the noise s² ∝ ‖the first g columns‖²
        return column_square(column, reports) * float(np.dot(np.square(weights), np.arange(stages, 0, -1)))

    return min(CANDIDATES, key=lambda exponent: (math.log(noise(exponent)), exponent))


LEVELS: Final = 16
"""Rewards are multiples of 1/16: rounding adds a deviation of at most 1/32 per visit."""
MAX_TOTAL: Final = 1 << 62
"""Whole numbers of a payload stay below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshNoise:
    """Independent discrete Gaussian noise in `size` whole numbers: payloads count in units of 1/unit."""

    size: int
    levels: int
    """The numbers to which noise is added are multiples of 1/levels."""
    unit: int
    variance: int
    """s²: of the noise in one number, in units of 1/unit²."""

    def __post_init__(self) -> None:
        require_fixed_point(self.unit, self.variance)
        require(self.unit % self.levels == 0, f"levels must divide the unit {self.unit}", self.levels)

    @property
    def sigma(self) -> float:
        """The parameter σ of one number in natural units, rounded down: that of events."""
        return spread(self.variance, self.unit)

    @property
    def std(self) -> float:
        """The standard deviation in one number, in natural units (G2)."""
        return math.sqrt(self.variance) / self.unit

    def events(self, families: Sequence[Family], claim: PrivacyClaim, reports: int = 1) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to (G1)."""
        sigma = self.sigma
        gaussian = tuple((GaussianEvent(sigma=sigma, shift=f.shift), reports * f.differing) for f in families)
        return (*gaussian, *slack(claim, reports * self.size, self.variance))

    def begin(self) -> Any:
        """What the curator keeps before the first stage."""
        return NoSecret()

    def add(self, secret: Any, own: Ints, noise: Noise) -> tuple[Any, Ints]:
        """The payload of sums in units of 1/levels, and what the curator keeps."""
        return secret, own * (self.unit // self.levels) + draw_noise(self.size, self.variance, noise)

    def values(self, payload: bytes) -> Floats:
        """The noisy sums in natural units."""
        return np.asarray(from_payload(payload, self.size) / self.unit)


class CuratorSecret(NamedTuple):
    """What the curator keeps: the exact sums of the stages that were released."""

    releases: Ints
    """[1]"""
    sums: Ints
    """[releases, D]; [0, D] where every stage has fresh noise, because nothing has to be kept."""

    def __repr__(self) -> str:
        return f"CuratorSecret({int(self.releases[0])} releases)"  # never its contents


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorNoise(FreshNoise):
    """The same over a factor of running totals: the power `exponent` of 1/(1 - x), 0 for fresh noise at every stage."""

    releases: int
    """How many stages may be released: T."""
    exponent: Fraction

    def __post_init__(self) -> None:
        FreshNoise.__post_init__(self)
        require_count("releases", self.releases)
        require(isinstance(self.exponent, Fraction), "exponent must be a Fraction", type(self.exponent).__name__)
        require(len(self.column) == self.releases, "a column has one entry for every release", len(self.column))

    @property
    def column(self) -> tuple[int, ...]:
        """The first column of C."""
        return integer_column(self.exponent, self.releases, self.unit // self.levels)

    @property
    def fresh(self) -> bool:
        """Whether every stage has noise of its own."""
        return self.exponent == IDENTITY

    def events(self, families: Sequence[Family], claim: PrivacyClaim, reports: int = 1) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to over all releases (G1)."""
        # ‖first g columns‖ in natural units, rounded up
        norm = math.sqrt(column_square(self.column, reports)) / (self.unit // self.levels) * (1.0 + 1e-12)
        noisy = self.size * (min(reports, self.releases) if self.fresh else self.releases)
        gaussian = tuple((GaussianEvent(sigma=self.sigma, shift=f.shift * norm), f.differing) for f in families)
        return (*gaussian, *slack(claim, noisy, self.variance))

    def variance_at(self, release: int) -> float:
        """The exact variance of one number of the totals after so many releases (G2)."""
        k = require_count("release", release)
        require(k <= self.releases, f"release must be at most {self.releases}", k)
        weights = prefix_weights(self.column)[:k]
        return self.variance * float(np.dot(weights, weights)) / self.levels**2

    def step_variance(self, release: int) -> float:
        """The same of the difference between these totals and those before: T_k - T_(k-1) = Σ_i (q_i - q_(i-1)) z."""
        steps = np.diff(prefix_weights(self.column)[:release], prepend=0.0)
        return self.variance * float(np.dot(steps, steps)) / self.levels**2

    def begin(self) -> CuratorSecret:
        """Nothing yet."""
        return CuratorSecret(np.zeros(1, dtype=np.int64), np.zeros((0, self.size), dtype=np.int64))

    def add(self, secret: CuratorSecret, own: Ints, noise: Noise) -> tuple[CuratorSecret, Ints]:
        """The payload of the next release: its number, then w_k."""
        done = int(secret.releases[0])
        if done >= self.releases:
            raise PrivacyBudgetExceeded(f"all {self.releases} releases of this study are spent; plan a longer one")
        rows = 0 if self.fresh else done
        fits = secret.sums.shape == (rows, self.size)
        require(fits, f"the secret of this study must hold {rows} sums of {self.size} numbers", secret.sums.shape)
        z = draw_noise(self.size, self.variance, noise)
        sums = secret.sums if self.fresh else np.concatenate([secret.sums, own[np.newaxis]])
        column = np.array(self.column, dtype=np.int64)
        # w_k = Σ_{j≤k} C_{k-j} x_j + z_k, in integers
        w = column[0] * own + z if self.fresh else column[done::-1] @ sums + z
        return CuratorSecret(secret.releases + 1, sums), np.concatenate([secret.releases, w])

    def begin_past(self) -> Ints:
        """The payloads before the first: [releases, D], or [1, D], their sum, where every stage has fresh noise."""
        return np.zeros((1 if self.fresh else 0, self.size), dtype=np.int64)

    def totals(self, past: Ints, payload: bytes, done: int) -> tuple[Ints, Floats]:
        """The payloads with the next one, of which so many were released before, and the totals after it.

        A factor needs every payload; with fresh noise others may be left out, so the number may be larger.
        """
        require(done < self.releases, f"a study has {self.releases} releases", done + 1)
        given = numbered(payload, self.size, done, gaps=self.fresh)
        if self.fresh:
            past = past + given
            return past, past[0] / self.unit
        past = np.concatenate([past, given[np.newaxis]])
        # Σ_{j≤k} q_{k-j} w_j
        return past, prefix_weights(self.column)[done::-1] @ past.astype(np.float64) / self.levels


class CuratorRelease(StageRelease):
    """One stage under central trust: a statistic and a noise; subclasses are frozen dataclasses."""

    __slots__ = ()
    TRUST: ClassVar[Trust] = "central"
    CHARGED_AT: ClassVar[ChargedAt] = "release"
    shape: Any
    levels: int
    unit: int

    @property
    def body(self) -> Any:
        """The format of bodies: trajectories with rewards on a grid."""
        sizes = {name: getattr(self.shape, name) for name in ("horizon", "num_states", "num_actions")}
        return TrajectoryBody(levels=self.levels, **sizes)

    @property
    def noise(self) -> FreshNoise:
        """What the curator adds."""
        raise NotImplementedError

    def require_release(self, most: int) -> None:
        """Raise unless the claim, the sizes and the noise fit together; `most` bounds a sum, in units of 1/unit."""
        require_unit(self.claim)
        self.require_sizes()
        _ = self.body, self.noise  # their checks are ours
        require(
            most < MAX_TOTAL, "the sums of a study must fit into 62 bits", most, "plan fewer people or a smaller unit"
        )

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return int(self.body.size)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sums of its stage."""
        raise NotImplementedError

    def events(self) -> Events:
        """What one report costs, whoever else reports (G1, G3)."""
        return self.noise.events(self.families(), self.claim)

    def encode(self, person: Any, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report, which counts for nothing."""
        return bytes(self.body.encode(person, noise))

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        self.body.check(body)

    def require_asked(self, query: Query) -> None:
        """Raise unless this is the question of the stage."""
        self.require_query(query, self.query)  # type: ignore[attr-defined]

    def opened(self, bodies: Sequence[bytes]) -> Any:
        """What these people sent: sensitive."""
        return self.body.counts(self.body.decode(bodies))

    def simulated(self, users: Any, noise: SimulationNoise) -> Any:
        """Simulation only: the same from trajectories or exact counts, with the law of the devices."""
        return self.body.simulated(users, noise)

    def sums(self, people: Any, query: Query, noise: Noise) -> Ints:
        """The statistic: what these people add up to, in units of 1/levels; sensitive."""
        raise NotImplementedError

    def begin_secret(self) -> Any:
        """What the curator keeps before the first stage."""
        return self.noise.begin()

    def release(self, secret: Any, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[Any, bytes]:
        """The curator: add the people up, draw the noise once, and hand out whole numbers."""
        require_people(len(bodies), self.least, self.target)
        self.require_asked(query)
        return self._added(secret, self.sums(self.opened(bodies), query, noise), noise)

    def simulate(self, secret: Any, users: Any, query: Query, noise: SimulationNoise) -> tuple[Any, bytes]:
        """Simulation only: the same law from trajectories or exact counts."""
        require_people(people_in(users), self.least, self.target)
        self.require_asked(query)
        return self._added(secret, self.sums(self.simulated(users, noise), query, noise), noise)

    def _added(self, secret: Any, own: Ints, noise: Noise) -> tuple[Any, bytes]:
        secret, w = self.noise.add(secret, own, noise)
        return secret, to_payload(w)

    def read(self, memory: Any, payload: bytes, people: int) -> tuple[Any, PrivateStatistics[Any]]:
        """Anybody: the statistics after this release."""
        require_people(people, self.least, self.target)
        after = self.memory_after(memory, payload, people)
        return after, PrivateStatistics(after.released, self.claim)

    def memory_after(self, memory: Any, payload: bytes, people: int) -> Any:
        """The memory after this payload; its field `released` is what a learner takes."""
        raise NotImplementedError


class CuratorPlan(StagePlan):
    """What is known about a curator's noise before anybody comes; subclasses are frozen dataclasses."""

    __slots__ = ()

    def require_plan(self) -> None:
        """Raise unless the claim can be kept and `least` is a share."""
        require_unit(self.claim)
        require_share(self.least)


class CountPlan(CuratorPlan):
    """The same for counts: what learners ask about Gaussian noise in totals or batches."""

    __slots__ = ()
    everything: ClassVar[Query]

    @property
    def alone(self) -> Any:
        """A stage of one person that releases everything."""
        return self.release_of(StageSize(target=1, least=1, query=self.everything))

    @property
    def name(self) -> str:
        """For tables."""
        return str(self.alone.name)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in such a stage."""
        return tuple(self.alone.families())

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic of such a stage, at its largest."""
        return dict(self.alone.noise_std())

    def precision(self) -> None:
        """No sums of single users' messages are released."""

    def count_precision(self) -> CountPrecision:
        """Gaussian noise is sub-Gaussian, on whole numbers by Lemma N3 (discrete twins)."""
        return CountPrecision(scale=np.zeros(3))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()


def numbered(payload: bytes, size: int, wanted: int, *, gaps: bool) -> Ints:
    """The numbers of a payload, if it is the release that comes next, or a later one where others may be left out."""
    given = from_payload(payload, size + 1)
    number = int(given[0])
    hint = "read every release, in order, and skip those that are not learned from"
    fits = number >= wanted if gaps else number == wanted
    require(fits, f"the next payload to be read must be release {wanted}", number, hint)
    return given[1:]


def people_in(users: Any) -> int:
    """How many people trajectories or exact counts are of."""
    return int(users.users) if hasattr(users, "users") else len(users)


def require_share(least: object) -> None:
    """Raise unless this is the share of people without whom a stage is not released."""
    share = isinstance(least, Fraction) and 0 < least <= 1
    require(share, "least must be a fraction above 0 and at most 1", least)


def require_unit(claim: PrivacyClaim) -> None:
    """Raise unless a claim is about a person with at most one report per stage, under central trust."""
    require(claim.trust == "central", "a central channel needs a claim with trust 'central'", claim.trust)
    require(claim.unit.per_stage == 1, "a person must report at most once per stage", claim.unit.per_stage)


def require_tight(request: PrivacyRequest, asks: type[Query]) -> None:
    """Raise unless a request is one for the least noise that the accountant certifies, and for such queries."""
    if request.calibrated != "tight":
        raise NotSupported("channels of a study have the least noise; remove the calibration, or use 'tight'")
    require(request.asks is asks, f"these stages answer {asks.words()}", request.asks.words())
