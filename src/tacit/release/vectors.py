"""Releases of any statistic of `tacit.statistics.table` under central, shuffle and local trust, and without noise.

    central   Σ entries + z            discrete Gaussian noise of a curator, in units of 1/scale
    shuffle   Σ (offset + rounded entry) + bits    as labels of ones; every device rounds by a dither of its own
    local     one index among M public directions per person (`tacit.release.directions`)
    none      Σ entries, for simulations without privacy

G1  A change of the sums is one of `statistic.changes`, of length at most `statistic.length`: a lemma of the statistic.
    Central trust covers it by Gaussian noise of that sensitivity, whole numbers by Lemma N7 (rounded Gaussian).
G2  Shuffle: an entry e of the unit 1/scale becomes ⌊(e + U)/2^shift⌋, U uniform on 0..2^shift − 1, plus the public
    offset of its counter, so that it is not negative; a person has the offsets of all counters. What noise bits cover
    is Lemma P17 (dithered vectors) with Lemma M12 (dense vectors); the worst of the statistic's changes is charged.
G3  Every payload, whatever the trust, is read by the statistic: unbiased sums with the variance of their noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, LatticeEvent, UnprotectedEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.arrays import Ints
from tacit.errors import InvalidInput, NotSupported, require, require_real
from tacit.noise.exact import uniform_integers
from tacit.protocol import Noise, PrivateStatistics, Query
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import Release, StageSize
from tacit.release.curator import CuratorRelease, FreshNoise
from tacit.release.directions import DirectionRelease, directions_for
from tacit.release.documents import CODECS, Codec, record
from tacit.release.fixed_point import SLACK_SHARE, from_payload, gaussian_budget, least_scale, to_payload
from tacit.release.shuffle.labels import MAX_BITS, MIN_PEOPLE, BitNoise, LabelRelease
from tacit.release.shuffle.roles import Transport, overflow_slack
from tacit.release.stage import NoSecret, StagePlan, VectorMemory, VectorStage, reports_of, require_people
from tacit.released.moments import MomentQuery
from tacit.statistics.table import statistic_for, statistic_named
from tacit.statistics.vectors import VectorStatistic, dithered

GRID_BITS: Final = 2
"""Shuffle: entries are rounded to multiples of a 16th of the longest change, 1/2^(2 + GRID_BITS) of it."""
OVERFLOW: Final = 1e-10
"""Shuffle: the probability that a block of some device of a stage overflows, where delta has room for it."""
ACCOUNTED: Final = 1e-4
"""Shuffle: the share of delta that is left to the accountant, which adds slack on a grid."""
RARE: Final = 0.25
"""Shuffle: noise bits are ones with at most this probability where devices may add so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralVectors(VectorStage, CuratorRelease):
    """One stage of sums under central trust; make it with `VectorPlan`."""

    statistic: VectorStatistic
    claim: PrivacyClaim
    target: int
    least: int
    variance: int
    """s²: the variance of the noise in one sum, in units of 1/(finer scale)²."""
    finer: int = 1
    """Above 1 where units of 1/scale are too coarse for the claim: noise has units of 1/(finer scale)."""

    KIND: ClassVar[str] = "central-vectors"
    OMITTED: ClassVar[tuple[str, ...]] = ("finer",)

    def __post_init__(self) -> None:
        self.statistic.require_reach()
        require(self.statistic.strata == 1, "the sums of a curator have one stratum", self.statistic.strata)
        low, high = self.statistic.bounds()
        self.require_release(self.target * self.finer * int(max(-low.min(), high.max())))

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return f"central/gaussian {self.statistic.NAME}"

    @property
    def noise(self) -> FreshNoise:
        """What the curator adds; sums are in units of 1/scale already."""
        size, scale = self.statistic.size, self.statistic.scale
        return FreshNoise(size=size, levels=scale, unit=scale * self.finer, variance=self.variance)

    @property
    def body(self) -> Any:
        """Bodies are those of the statistic."""
        return self.statistic

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return self.statistic.body_size

    def noise_variance(self, people: int) -> float:
        """It does not depend on how many report."""
        return self.variance / (self.statistic.scale * self.finer) ** 2

    def encode(self, person: Any, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report."""
        return self.statistic.pack(person, noise)

    def opened(self, bodies: Sequence[bytes]) -> Any:
        """What these people sent: sensitive."""
        return self.statistic.unpack(bodies)

    def simulated(self, users: Any, noise: SimulationNoise) -> Any:
        """Simulation only: the same from users."""
        return self.statistic.people(users, noise)

    def release_table(self, secret: Any, users: Any, people: int, noise: Noise) -> tuple[Any, bytes]:
        """A curator who has a table: the law of `release` over `encode`, all others of so many people being covers."""
        require_people(people, max(self.least, int(users.users)), self.target)
        return self._added(secret, self.statistic.sums(self.statistic.people(users, noise)), noise)

    def sums(self, people: Any, query: Query, noise: Noise) -> Ints:
        """What these people add up to."""
        return self.statistic.sums(people)

    def memory_after(self, memory: VectorMemory, payload: bytes, people: int) -> VectorMemory:
        """The statistics of this stage."""
        return self.known(self.noise.values(payload), people)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVectors(VectorStage, CuratorRelease):
    """Simulation only: one stage of exact sums. It protects nobody, and has no document."""

    statistic: VectorStatistic
    claim: PrivacyClaim
    target: int
    least: int

    KIND: ClassVar[str] = "open-vectors"
    TRUST: ClassVar[Trust] = "none"
    name: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        require(self.claim.trust == "none", "exact sums claim nothing: trust 'none'", self.claim.trust)

    def events(self) -> Events:
        """Everything is shown."""
        return ((UnprotectedEvent(), 1),)

    def noise_variance(self, people: int) -> float:
        """There is no noise."""
        return 0.0

    def encode(self, person: Any, noise: Noise) -> bytes:
        """The person's data."""
        return self.statistic.pack(person, noise)

    def begin_secret(self) -> NoSecret:
        """Nothing."""
        return NoSecret()

    def opened(self, bodies: Sequence[bytes]) -> Any:
        """The people."""
        return self.statistic.unpack(bodies)

    def simulated(self, users: Any, noise: SimulationNoise) -> Any:
        """The same from users."""
        return self.statistic.people(users, noise)

    def sums(self, people: Any, query: Query, noise: Noise) -> Ints:
        """What these people add up to."""
        return self.statistic.sums(people)

    def _added(self, secret: Any, own: Ints, noise: Noise) -> tuple[Any, bytes]:
        return secret, to_payload(own)

    def memory_after(self, memory: VectorMemory, payload: bytes, people: int) -> VectorMemory:
        """The statistics of this stage."""
        return self.known(from_payload(payload, self.statistic.size) / self.statistic.scale, people)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleVectors(VectorStage, LabelRelease):
    """One stage of sums through the shuffler; make it with `VectorPlan`."""

    statistic: VectorStatistic
    claim: PrivacyClaim
    target: int
    least: int
    honest: int
    """How many of `least` devices add their noise and keep it to themselves: what the guarantee counts on."""
    shift: int
    """Entries are rounded to multiples of 2^shift/scale (G2)."""
    bits_per_user: int
    """m: noise bits of one device per counter."""
    probability: Fraction
    """q: of each of them; a double, exactly."""
    block: int
    """B: room for noise ones in a body."""
    overflow: Fraction
    """The probability that the block of some device of the stage is too small, from above."""

    KIND: ClassVar[str] = "shuffle-vectors"
    FIXED: ClassVar[dict[str, Any]] = {"messages": "ones"}
    mirrored: ClassVar[bool] = False  # type: ignore[misc]
    name: ClassVar[str] = "shuffle/binomial"

    def __post_init__(self) -> None:
        self.statistic.require_reach()
        require(self.statistic.strata == 1, "a shuffled statistic has one stratum", self.statistic.strata)
        fine = 2**self.shift <= self.statistic.length
        require(fine, "rounding must be finer than the longest change", self.shift)
        self.require_stage()

    @property
    def num_counters(self) -> int:
        """C."""
        return self.statistic.size

    @property
    def offsets(self) -> Ints:
        """[C]: what is added to a rounded entry so that it is not negative, public."""
        return np.tile(_offsets(self.statistic, self.shift), self.num_counters // self.statistic.width)

    @property
    def slots(self) -> int:
        """The offsets, and Σ|e| ≤ √D |e| + D of D rounded entries."""
        D = self.statistic.width
        return int(self.offsets.sum()) + math.isqrt(D * (-(-self.statistic.longest >> self.shift) + 1) ** 2) + 1 + D

    @property
    def most_ones(self) -> int:
        """Offset and entry of one counter, at most."""
        low, high = self.statistic.bounds()
        return int((-(-high >> self.shift) - (low >> self.shift)).max())

    def ones(self, person: Any, noise: Noise) -> NDArray[np.uint32]:
        """So many labels of every counter as its offset and the rounded entry say (G2)."""
        often = self.offsets
        if person is not None:
            labels, amounts = self.statistic.entries(self.statistic.people(person, noise))
            np.add.at(often, labels.ravel(), self._rounded(amounts, noise).ravel())
        return np.repeat(np.arange(self.num_counters, dtype=np.uint32), often)

    def _rounded(self, amounts: Ints, noise: Noise) -> Ints:
        return dithered(amounts, self.shift, dithers(amounts.shape, self.shift, noise))

    def covered(self, noise: BitNoise) -> Events:
        """The worst change of the statistic (G2)."""
        return _covered(self.statistic, self.shift, noise, self.claim)

    def noise_variance(self, people: int) -> float:
        """Of the noise bits; rounding adds at most a quarter of 2^shift/scale, squared, per person in the slot."""
        return float((self.law(people).std * 2**self.shift / self.statistic.scale) ** 2)

    def read(self, memory: VectorMemory, payload: bytes, people: int) -> tuple[VectorMemory, PrivateStatistics[Any]]:
        """Sums of labels, less the offsets of all and the mean of their noise."""
        sums = self.sums(payload, people) - people * self.offsets - self.law(people).mean
        after = self.known(sums * (2**self.shift / self.statistic.scale), people)
        return after, PrivateStatistics(after.released, self.claim)

    def simulate(self, secret: NoSecret, users: Any, query: Query, noise: SimulationNoise) -> tuple[NoSecret, bytes]:
        """Simulation only: the sums of all labels at once."""
        people = int(users.users)
        require_people(people, self.least, self.target)
        self.require_query(query, self.query)
        sent = self.statistic.people(users, noise)
        exact = self.statistic.rounded_sums(sent, self.shift, lambda size: dithers(size, self.shift, noise))
        return secret, (exact + people * self.offsets + self.noise_sums(people, noise)).astype("<i8").tobytes()


def dithers(size: tuple[int, ...], shift: int, noise: Noise) -> Ints:
    """Independent whole numbers, uniform on 0..2^shift − 1."""
    if isinstance(noise, SecureNoise):
        return uniform_integers(size, noise, below=2**shift)
    return noise.generator.integers(0, 1 << shift, size, dtype=np.uint32 if shift <= 32 else np.int64)


@lru_cache(maxsize=64)
def _offsets(statistic: VectorStatistic, shift: int) -> Ints:
    found = -(statistic.bounds()[0] >> shift)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=4096)
def _covered(statistic: VectorStatistic, shift: int, noise: BitNoise, claim: PrivacyClaim) -> Events:
    """The change that costs most, charged with the slack of the one with the most counters."""
    return ((max(_lattice_events(statistic, shift, noise, claim), key=lambda event: event.mu()), 1),)


def _lattice_events(statistic: VectorStatistic, shift: int, noise: BitNoise, claim: PrivacyClaim) -> list[LatticeEvent]:
    low, high = statistic.bounds()
    most = max(change.counters for change in statistic.changes())
    return [
        LatticeEvent(
            bits=noise.honest.bits,
            probability=noise.probability,
            mirrored=False,
            largest=int((-((low - high) >> shift)).max()),
            square=math.ceil(change.square * Fraction(statistic.length**2, 4**shift)),
            changed=most,
            slack_each=_slack_each(most, claim),
            rounded=change.counters if shift > 0 else 0,
        )
        for change in statistic.changes()
    ]


def _slack_each(counters: int, claim: PrivacyClaim) -> float:
    """So that counters and rounding together, over all reports, take `SLACK_SHARE` of delta."""
    return SLACK_SHARE * claim.delta / (2 * counters * claim.unit.reports)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlan(StagePlan):
    """The noise of stages of a statistic under any trust model, calibrated to a claim; every field is public.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> from tacit.released.moments import MomentShape
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> plan = VectorPlan(claim=claim, shape=MomentShape(features=10, actions=4, shared=False), asks=MomentQuery)
    >>> [round(std, 2) for std in plan.moment_std(4000, MomentQuery(lots=False))]
    [11.95, 4.22]
    """

    claim: PrivacyClaim
    shape: Any
    asks: type[Query]
    least: Fraction = Fraction(1)
    """The share of the people wanted without whom a stage is not released."""
    honest: float = 1.0
    """Trust shuffle: the share of devices whose noise is counted on."""
    overflow: float = OVERFLOW
    """Trust shuffle: the probability of an overflowing block in a stage, at most; 0: blocks hold everything."""

    def __post_init__(self) -> None:
        _ = statistic_for(self.asks, self.shape)
        share = isinstance(self.least, Fraction) and 0 < self.least <= 1
        require(share, "least must be a fraction above 0 and at most 1", self.least)
        require_real("honest", self.honest, low=0.0, high=1.0, open_low=True)
        require_real("overflow", self.overflow, low=0.0, high=0.5)
        if self.claim.delta == 0.0 and self.claim.trust in ("central", "shuffle"):
            raise NotSupported(f"vectors under trust '{self.claim.trust}' are never pure (delta 0); give a delta")

    @property
    def MIN_PEOPLE(self) -> int:  # type: ignore[override]
        """A shuffler needs two."""
        return MIN_PEOPLE if self.claim.trust == "shuffle" else 1

    @property
    def answers(self) -> type[Query]:
        """The query of the statistic."""
        return self.asks

    @property
    def name(self) -> str:
        """For tables."""
        return (
            "none" if self.claim.trust == "none" else f"{self.claim.trust}/{statistic_for(self.asks, self.shape).NAME}"
        )

    @property
    def calibration(self) -> Any:
        """The least noise, or none."""
        return "none" if self.claim.trust == "none" else "tight"

    def release_of(self, stage: StageSize) -> Release:
        """The release of a stage, with the least noise for its statistic."""
        if type(stage.query) is not self.asks:
            raise InvalidInput(f"{self.name} answers {self.asks.words()}; it was asked for {stage.query.words()}")
        statistic = statistic_for(self.asks, self.shape).of(self.shape, self.claim.trust, stage.query)
        own: dict[str, Any] = {
            "statistic": statistic,
            "claim": self.claim,
            "target": stage.target,
            "least": stage.least,
        }
        if self.claim.trust == "none":
            return OpenVectors(**own)
        if self.claim.trust == "central":
            variance, finer = _central_noise(statistic, self.claim)
            return CentralVectors(**own, variance=variance, finer=finer)
        if self.claim.trust == "shuffle":
            return _shuffled(self, statistic, stage.target, stage.least)
        return DirectionRelease(**own, **directions_for(self.claim))

    def forecast(self, users: int, query: Query) -> Any:
        """What a batch of so many would be without people's data: zeros, and the variances of its noise."""
        least = self.least_of(users)
        return self.release_of(StageSize(target=users, least=least, query=query)).forecast(users)  # type: ignore[attr-defined]

    def moment_std(self, users: int, query: MomentQuery) -> tuple[float, float]:
        """The deviation of the noise on the diagonal of G, and in an entry of v (`tacit.released.moments`)."""
        found = self.forecast(users, query)
        return math.sqrt(found.gram_variance[0]), math.sqrt(found.reward_variance[0])


@lru_cache(maxsize=1024)
def _central_noise(statistic: VectorStatistic, claim: PrivacyClaim) -> tuple[int, int]:
    """s² = g Δ²/μ(ε, δ)² in units, rounded up, for a person with g reports; and how much finer than 1/scale units are.

    Units are so fine that whole numbers take at most `SLACK_SHARE` of δ, as the event charges them: up to ε + 8.
    """
    g = claim.unit.reports
    mu = gaussian_mu(claim.epsilon, gaussian_budget(claim))

    def variance_of(unit: int) -> int:
        longest = Fraction(statistic.length) * Fraction(unit, statistic.scale)
        return math.ceil(g * longest**2 / Fraction(mu) ** 2 * Fraction(1.0 + 1e-9))

    unit, variance = least_scale(claim, g * statistic.size, variance_of, statistic.scale)
    return variance, unit // statistic.scale


def _grid(statistic: VectorStatistic) -> int:
    """The shift at which the longest change is 2^(2 + GRID_BITS) units."""
    return max(0, statistic.length.bit_length() - 1 - 2 - GRID_BITS)


@lru_cache(maxsize=4096)
def _vector_bits(statistic: VectorStatistic, claim: PrivacyClaim, honest: int, overflow: float) -> tuple[int, float]:
    """Bits per device and their probability: the least noise that is certified, with bits that are ones rarely.

    The least m at which fair bits would do, or bits of probability 1/4, then the least probability.
    """
    g, shift = claim.unit.reports, _grid(statistic)
    of_blocks = g * overflow_slack(claim.epsilon, overflow) * (1.0 + 1e-9)
    left = claim.delta * (1.0 - SLACK_SHARE) * (1.0 - ACCOUNTED) - of_blocks
    require(left > 0.0, f"overflowing blocks must leave some of delta = {claim.delta!r}", overflow, "choose it smaller")
    wanted = gaussian_mu(claim.epsilon, left) / math.sqrt(g) * (1.0 - 1e-9)

    def enough(m: int, probability: float) -> bool:
        noise = BitNoise(users=honest, honest_users=honest, bits_per_user=m, probability=probability)
        return max(event.mu() for event in _lattice_events(statistic, shift, noise, claim)) <= wanted

    # σ = Δ/μ: so many bits of this probability, at least
    roughly = statistic.length**2 / 4**shift / wanted**2 / (RARE * (1.0 - RARE)) / honest
    if roughly > 2.0 * MAX_BITS:
        _refuse(roughly, honest)
    m = max(1, math.floor(roughly))
    while m <= MAX_BITS and not enough(m, RARE if m > 1 or roughly > 0.5 else 0.5):
        if m == 1 and enough(1, 0.5):
            break
        m += max(1, m // 64)
    if m > MAX_BITS:
        _refuse(float(m), honest)
    low, high = 0.0, 0.5
    while high - low > 1e-4 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(m, middle) else (middle, high)
    return m, high


def _refuse(bits: float, honest: int) -> None:
    least = math.ceil(honest * bits / MAX_BITS)
    raise InvalidInput(
        f"a batch must have about {least} honest devices when each adds at most {MAX_BITS} noise bits to a counter, "
        f"got {honest}; enlarge the batch, epsilon or delta"
    )


@lru_cache(maxsize=4096)
def _shuffled(plan: VectorPlan, statistic: VectorStatistic, target: int, least: int) -> ShuffleVectors:
    honest = math.floor(plan.honest * least)
    require(honest >= 1, "a batch must have at least one honest device", honest)
    g = reports_of(plan.claim)
    room = plan.claim.delta / (100.0 * g * overflow_slack(plan.claim.epsilon, 1.0))
    overflow = min(plan.overflow, room)
    m, q = _vector_bits(statistic, plan.claim, honest, overflow)
    made = ShuffleVectors(
        statistic=statistic,
        claim=plan.claim,
        target=target,
        least=least,
        honest=honest,
        shift=_grid(statistic),
        bits_per_user=m,
        probability=Fraction(q),
        block=statistic.size * m,
        overflow=Fraction(overflow),
    )
    transport = Transport(
        num_counters=made.num_counters,
        slots=made.slots,
        users=target,
        bits_per_user=m,
        probability=q,
        overflow_prob=overflow,
    )
    return replace(made, block=transport.block)


def _record_of(kind: type[VectorStatistic]) -> Codec:
    """How statistics of a class are written and read, field by field, and their shape likewise."""
    CODECS.setdefault(kind.SHAPE.__name__, record(kind.SHAPE, *(item.name for item in fields(kind.SHAPE))))
    return record(kind, *(item.name for item in fields(kind)))  # type: ignore[arg-type]


def _statistic_to_plain(statistic: VectorStatistic) -> dict[str, Any]:
    return {"name": statistic.NAME, **_record_of(type(statistic))[0](statistic)}


def _statistic_from_plain(name: str, plain: object) -> VectorStatistic:
    named = plain if isinstance(plain, dict) else {}
    kind = statistic_named(str(named.get("name")))
    found: VectorStatistic = _record_of(kind)[1](name, {key: value for key, value in named.items() if key != "name"})
    return found


CODECS["VectorStatistic"] = (_statistic_to_plain, _statistic_from_plain)
