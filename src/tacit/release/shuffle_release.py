"""Shuffle trust: every device sends labels of ones, data and noise mixed, and whoever counts them learns noisy sums.

    device      body = labels of the ones of one trajectory, of m noise bits per counter, and dummies; sorted
    shuffler    all labels of a stage in random order
    collector   histogram = how often each label came, over all bodies
    anybody     N(c) = histogram(c) - n m q                  [bai2024shuffle] Alg. 4, lines 12-16, message by message

`ShufflePlan` knows how noisy stages of any size would be; `ShuffleRelease` is one stage, of a simulation or of a study.
It releases running totals (stages add up, which is post-processing) or single batches, each with the least noise for
its own statistics: a batch of one layer needs a third of the noise of one that releases everything.

Guarantees (each has a test of its name):
G1  A payload is the vector of sums, exact + Binomial(n m, q), where bits are mirrored plus Binomial(n m, 1 - q): what
    a shuffler that only permutes would show, too (Lemma M1 (sum view), Lemma M11 (mirrored bits)). Whoever counts needs
    no permutation; the sums are all that leaves. `simulate` draws them at once, from the same law.
G2  Noise per device is calibrated for `least` people: any n from `least` to `target` is released and costs at most what
    `events` says (Lemma M8 (more people than needed)). Fewer are never released.
G3  A body has one length, whatever the person did; data have slots of their own and noise ones a block. A block that
    overflows (with probability `overflow` over all people of the stage together) adds whole blocks. That depends on
    noise alone and is paid for as if everybody saw it (Lemma M6 (overflowing blocks)).
G4  A cover report has noise and dummies only: it adds noise to the sums, and nothing else.
G5  Labels are sorted within a body: the collector sees no order of steps, and a label at most m + 1 times.
G6  A transcript of stages over disjoint people has the guarantee of its worst stage (B-batch SDP, Lemma P7 (parallel
    composition)). A person who is in several stages, at most once in each, meets the noise of each of them.

A person with g reports meets g independent stages. With the noise of one kind of stage that is one release with g times
as many counters up and down: so the noise of a stage is calibrated for that, exactly.

    one report     families up, down         (epsilon, delta - slack),     slack = (1 + e^epsilon)·overflow
    g reports      families g·up, g·down     (epsilon, delta - g·slack)

Stages of different sizes have noise of different kinds. Each is calibrated as if all were of its kind, with a part in a
thousand to spare, and `exposure` compares every choice of g stages. As in Lemma P14 (several stages), the stages in
which a person reports are fixed beforehand there; where all stages are alike, it does not matter who chooses them.

`tight` sends the one-hot encoding (4H - 2 differing counters) with the least noise of the exact accountant; `paper`
sends three families with the noise as printed. As printed, integers y + noise are shuffled, which leaks (a message of
m + 1 proves y = 1); here every bit travels alone, which is what the printed proof is about. If the shuffler hands on
reports with their senders, nobody is protected: this is what shuffle trust means.

References: [bai2024shuffle]; [bai2025secure], Definition 3 and Section V.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from math import sqrt
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, Trajectory, TrajectoryLike
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_real
from tacit.noise.binomial import Binomial
from tacit.noise.mirrored import Mirrored
from tacit.noise.protocol import require_simulation
from tacit.protocol import TOTALS, Calibration, Noise, PrivateStatistics, Query, Totals
from tacit.randomness import SimulationNoise
from tacit.release.contract import Release, StageSize
from tacit.release.counts_contract import Batch, batch_kind, batch_spec, batch_statistics, require_shape
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.shuffle.labels import (
    BIT_KINDS,
    MAX_BITS,
    MIN_PEOPLE,
    BitKind,
    BitNoise,
    LabelRelease,
    PaperVariant,
    bits_in_all,
    least_bit_noise,
    paper_bit_noise,
)
from tacit.release.shuffle.roles import Transport, data_labels, overflow_slack
from tacit.release.stage import (
    CountMemory,
    NoSecret,
    StagePlan,
    reports_of,
    require_people,
    stage_epsilon,
)
from tacit.released.batches import BatchQuery, BatchReport
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec, total_terms

STATISTICS: Final = ("transitions", "visits", "rewards")
OVERFLOW: Final = 1e-10
"""The probability that a block of some device of a stage overflows, where delta has room for it."""
OVERFLOW_DELTA_SHARE: Final = 100.0
"""What overflowing blocks may take of delta, at most: one part in so many."""
KINDS: Final = 1e-3
"""The share of epsilon left for stages of several kinds, each calibrated as if all were of its own kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleRelease(LabelRelease):
    """One stage through the shuffler; make it with `ShufflePlan`."""

    claim: PrivacyClaim
    shape: CountShape
    query: Totals | BatchQuery
    """Running totals, or a batch of its own."""
    target: int
    least: int
    honest: int
    """How many of `least` devices add their noise and keep it to themselves: what the guarantee counts on."""
    bits_per_user: int
    """m: noise bits of one device per counter."""
    probability: Fraction
    """q: of each of them; a double, exactly."""
    block: int
    """B: room for noise ones in a body."""
    overflow: Fraction
    """The probability that the block of some device of the stage is too small, from above."""
    mirrored: bool = False
    """Whether as many bits of probability 1 - q are added."""
    printed: bool = False
    """Whether the counters are the three families of the papers."""

    KIND: ClassVar[str] = "shuffle"
    FIXED: ClassVar[dict[str, Any]] = {"messages": "ones"}
    OMITTED: ClassVar[tuple[str, ...]] = ("mirrored", "printed")

    def __post_init__(self) -> None:
        require(isinstance(self.query, Totals) or self.shape.staged, "single batches keep the steps apart", "pooled")
        for name in self.OMITTED:
            require(isinstance(getattr(self, name), bool), f"{name} must be true or false", "another")
        self.require_stage()

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return f"shuffle/{self.law(self.least).NAME}"

    @property
    def spec(self) -> ReleaseSpec:
        """Which counters there are: as few as the query needs, or those that are printed."""
        return _spec(self.shape, isinstance(self.query, Totals), _layer(self.query), self.printed)

    @property
    def num_counters(self) -> int:
        """C."""
        return self.spec.num_counters

    @property
    def slots(self) -> int:
        """One per family and layer."""
        return self.spec.slots

    most_ones: ClassVar[int] = 1

    def ones(self, person: TrajectoryLike | None, noise: Noise) -> NDArray[np.uint32]:
        """The counters that a trajectory sets to one."""
        return np.zeros(0, dtype=np.uint32) if person is None else data_labels(self.spec, person, noise)

    def covered(self, noise: BitNoise) -> Events:
        """The counters that one person changes, each by one."""
        return _covered(noise, self.spec)

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return self.spec.families()

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic when `target` people report; 0 where it is not released."""
        return self.std_of(self.target)

    def std_of(self, people: int) -> dict[str, float]:
        """The same when so many report: of one batch, or of what a stage adds to running totals."""
        each, shape = self.law(people).std, self.shape
        totals = isinstance(self.query, Totals)
        if totals and shape.support is not None and not shape.staged:
            return {name: each * n**0.5 for name, n in zip(STATISTICS, total_terms(shape.support), strict=True)}
        terms = self.spec.noisy_terms()
        std = {name: each * sqrt(terms.get(name, 0)) for name in STATISTICS}
        if not totals:
            return std
        # How many layers add up; transitions of the last one are never part of the totals.
        H = shape.horizon
        layers = (min(1, H - 1), 1, 1) if shape.staged else (H - 1, H, H)
        return {name: std[name] * n**0.5 for name, n in zip(STATISTICS, layers, strict=True)}

    def precision(self, people: int, failure_prob: float) -> float:
        """E: with probability 1 − failure_prob every entry of every statistic is within E/4 of its exact count.

        A union bound over the entries, exact quantiles for each; for several batches divide `failure_prob` by their
        number. Rewards are counted after rounding.
        """
        return _precision(self.spec, self.law(people), failure_prob)

    def begin_memory(self) -> CountMemory:
        """Nobody reported yet."""
        return CountMemory(released=empty_counts(self.shape))

    def read(
        self, memory: CountMemory, payload: bytes, people: int
    ) -> tuple[CountMemory, PrivateStatistics[CountStatistics]]:
        """Running totals with this stage added, or the statistics of this stage alone."""
        noisy = self.noisy(payload, people)
        variance = np.square([*self.std_of(people).values()])
        if isinstance(self.query, BatchQuery):
            p = self.query.failure_prob
            E = 0.0 if p is None else self.precision(people, p)
            released = batch_statistics(noisy, variance, people, self.query, self.spec, E)
            return CountMemory(released=released), PrivateStatistics(released, self.claim)
        noisy.transitions[-1] = 0.0  # as printed, the successors of the last step are sent, too, which nobody uses
        before = memory.released
        parts = noisy if self.shape.staged else [part.sum(axis=0, keepdims=True) for part in noisy]
        released = CountStatistics(
            transitions=before.transitions + parts[0],
            visits=before.visits + parts[1],
            rewards=before.rewards + parts[2],
            squares=before.squares + parts[2],
            variance=before.variance + variance,
            users=before.users + people,
        )
        return CountMemory(released=released), PrivateStatistics(released, self.claim)

    def noisy(self, payload: bytes, people: int) -> NoisyCounts:
        """Unbiased counts: the histogram, if so many people can have sent it, less the mean of their noise."""
        # N(c) = #{ones labelled c} − n·m·q
        return self.spec.arrays(self.sums(payload, people).astype(np.float64) - self.law(people).mean)

    def simulate(self, secret: NoSecret, users: Batch, query: Query, noise: SimulationNoise) -> tuple[NoSecret, bytes]:
        """A payload from trajectories, report by report, or from exact counts, at once."""
        if isinstance(users, Trajectories):
            rows = zip(users.states, users.actions, users.rewards, strict=True)
            return self.release(secret, [self.encode(Trajectory(*row), noise) for row in rows], query, noise)
        counts: ExactCounts = require_shape(users, self.shape)
        require_people(counts.users, self.least, self.target)
        self.require_query(query, self.query)
        exact = self._exact_sums(counts, noise)
        return secret, (exact + self.noise_sums(counts.users, noise)).astype("<i8").tobytes()

    def _exact_sums(self, counts: ExactCounts, noise: SimulationNoise) -> Ints:
        """What the data bits add up to, each reward rounded to a bit as a device does it."""
        generator = require_simulation(noise)
        rewards = np.rint(counts.rewards).astype(np.int64)
        if not counts.binary:
            # Every visit of a cell earned the same R/N: the exact law of its bits is Binomial(N, R/N).
            mean = np.clip(counts.rewards / np.maximum(counts.visits, 1), 0.0, 1.0)
            rewards = generator.binomial(counts.visits, mean)
        elif not np.array_equal(rewards, counts.rewards):
            raise InvalidInput("binary rewards must be counts of ones, got fractions; round each user's rewards first")
        return self.spec.counters(counts.transitions, counts.visits, rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShufflePlan(StagePlan):
    """The noise of shuffled stages, calibrated to a claim; every field is public.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="shuffle", shape=shape, episodes=10_000, epsilon=1.0, delta=1e-6,
    ...                          calibration=None, mechanism=None, users_per_batch=1000, asks=BatchQuery)
    >>> plan = ShufflePlan.of(request, least=Fraction(9, 10))
    >>> everything, layer = (BatchQuery(layer=h, failure_prob=None) for h in (None, 2))
    >>> round(plan.batch_std(1000, everything), 1), round(plan.batch_std(1000, layer), 1), plan.least_of(1000)
    (20.9, 6.8, 900)
    """

    claim: PrivacyClaim
    shape: CountShape
    least: Fraction = Fraction(1)
    """The share of the people wanted without whom a stage is not released."""
    honest: float = 1.0
    """The share of devices whose noise is counted on."""
    kind: BitKind | None = None
    """Which noise bits; None: the least noise."""
    users_per_batch: int | None = None
    """Running totals: the people wanted in every stage; None: single batches of any size."""
    overflow: float | None = None
    """The probability of an overflowing block in a stage; 0: blocks hold everything; None: as delta allows."""
    calibration: Calibration = "tight"
    variant: PaperVariant = "2025"
    """Whose printed noise the calibration `paper` means."""
    most_bits: int | None = MAX_BITS
    """What a device is asked to add to one counter, at most; None: whatever a simulated stage needs."""

    MIN_PEOPLE: ClassVar[int] = MIN_PEOPLE

    def __post_init__(self) -> None:
        require(self.claim.trust == "shuffle", "a plan of shuffled stages claims trust 'shuffle'", self.claim.trust)
        share = isinstance(self.least, Fraction) and 0 < self.least <= 1
        require(share, "least must be a fraction above 0 and at most 1", self.least)
        require_real("honest", self.honest, low=0.0, high=1.0, open_low=True)
        require(self.calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", self.calibration)
        staged = self.shape.staged or self.users_per_batch is not None
        require(staged, "batches of their own keep the steps apart (staged)", self.shape.staged)
        if self.claim.delta == 0.0:
            raise NotSupported("noise bits never give pure differential privacy (delta 0); give a delta such as 1e-6")

    @classmethod
    def of(cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None) -> Self:
        """The plan of a study's request; `claim` says another unit than one report, if that is wanted."""
        if request.calibrated != "tight":
            raise NotSupported("stages of a study have the least noise; remove the calibration, or use 'tight'")
        if request.mechanism not in (None, *BIT_KINDS):
            raise UnknownName("noise of shuffled stages", str(request.mechanism), BIT_KINDS)
        if request.asks not in (Totals, BatchQuery):
            raise InvalidInput(f"shuffled stages answer running totals or single batches, not {request.asks.words()}")
        return cls(
            claim=make_claim(request) if claim is None else claim,
            shape=request.shape,
            least=least,
            honest=request.honest_fraction,
            kind=request.mechanism,  # one of BIT_KINDS
            users_per_batch=request.users_per_batch if request.asks is Totals else None,
        )

    @property
    def answers(self) -> type[Query]:
        """Running totals, or single batches."""
        return BatchQuery if self.users_per_batch is None else Totals

    @property
    def name(self) -> str:
        """Trust model and mechanism, before there are stages."""
        return f"shuffle/{self.kind or Binomial.NAME} batches"

    @property
    def paper_says(self) -> str | None:
        """The guarantee that the papers print."""
        if self.calibration != "paper":
            return None
        return f"({self.claim.epsilon:g}, {self.claim.delta:g})-SDP by tau = 96 ln(2/beta')/eps'^2 noise bits"

    def release_of(self, stage: StageSize) -> ShuffleRelease:
        """One stage, calibrated at its least number of people."""
        query = stage.query
        if not isinstance(query, Totals | BatchQuery):
            raise InvalidInput(f"a shuffled stage is asked for counts, got a {type(query).__name__}")
        return _release(self, stage.target, stage.least, query)

    def law(self, users: int, query: Totals | BatchQuery) -> Binomial | Mirrored:
        """The noise in one counter of a stage when all that are wanted report."""
        least = self.least_of(users)
        noise = _noise(self, least, _layer(query))
        honest = noise.honest_users * users // least
        return bits_in_all(noise if users == least else replace(noise, users=users, honest_users=honest))

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The deviation of the noise in one counter when all that are wanted report."""
        require(self.shape.staged, "single batches keep the steps apart", "pooled")
        return self.law(users, query).std

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """E of the consistent counts of such a stage; 0 if the query asks for unbiased ones."""
        require(self.shape.staged, "single batches keep the steps apart", "pooled")
        if query.failure_prob is None:
            return 0.0
        spec = _spec(self.shape, False, query.layer, self.calibration == "paper")
        return _precision(spec, self.law(users, query), query.failure_prob)

    def precision(self) -> None:
        """Noise is added to stages, not to the messages of single people."""

    def count_precision(self) -> CountPrecision:
        """Shuffled bits: a centred bit is bounded by 1, its scale is 1/3."""
        return CountPrecision(scale=np.full(3, 1.0 / 3.0))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def noise_std(self) -> dict[str, float]:
        """The deviation that one stage of running totals adds to each statistic."""
        users = self.users_per_batch
        if users is None:
            raise InvalidInput("single batches have noise of their own; ask for batch_std")
        return _release(self, users, self.least_of(users), TOTALS).noise_std()

    def reports(self, stages: Sequence[Release]) -> tuple[BatchReport, ...]:
        """Certificate and message cost of every kind of stage of single batches, in their order."""
        kinds = Counter((stage.target, self._kind(stage)) for stage in stages)
        named = {(stage.target, self._kind(stage)): stage for stage in reversed(stages)}
        return tuple(self._report(kind, named[users, kind], count) for (users, kind), count in kinds.items())

    def _kind(self, stage: Release) -> str:
        require(isinstance(stage.query, BatchQuery), "only single batches are of several kinds", "others")
        return batch_kind(self.shape, stage.query)  # type: ignore[arg-type]

    def _report(self, kind: str, stage: Release, count: int) -> BatchReport:
        if not isinstance(stage, ShuffleRelease):
            raise InvalidInput(f"a plan of shuffled stages reports on them, got a {type(stage).__name__}")
        noise, cost = stage.bit_noise(stage.target), stage.transport.cost()
        return BatchReport(
            users=stage.target,
            statistic=kind,
            batches=count,
            epsilon=stage_epsilon(stage.events(), self.claim.delta),
            delta=self.claim.delta,
            noise=noise.total.NAME,
            std=noise.total.std,
            bits_per_user=noise.bits_per_user,
            messages_per_user=cost.messages_per_user,
            bytes_per_user=cost.bytes_per_user,
        )


def _layer(query: Totals | BatchQuery) -> int | None:
    return query.layer if isinstance(query, BatchQuery) else None


@cache
def _spec(shape: CountShape, totals: bool, layer: int | None, printed: bool) -> ReleaseSpec:
    found = batch_spec(shape, "paper" if printed else "tight", layer)
    # [bai2024shuffle] releases the successors of the last step, too.
    return replace(found, transitions=tuple(range(shape.horizon))) if printed and totals else found


@lru_cache(maxsize=4096)
def _covered(noise: BitNoise, spec: ReleaseSpec) -> Events:
    return noise.events(spec.families())


@lru_cache(maxsize=4096)
def _precision(spec: ReleaseSpec, law: Binomial | Mirrored, failure_prob: float) -> float:
    cells = spec.num_states * spec.num_actions
    entries = {"transitions": cells * spec.num_states * len(spec.transitions)}
    layers = set(spec.transitions) | set(spec.visits) | set(spec.outcomes)
    entries |= {"visits": cells * len(layers), "rewards": cells * len(spec.rewards + spec.outcomes)}
    each = failure_prob / sum(entries.values())
    return 4 * max(law.radius(each, terms) for terms in spec.noisy_terms().values())


def _overflow(plan: ShufflePlan) -> float:
    """What was asked for, or 1e-10, or as much less as delta needs; nothing as printed."""
    if plan.calibration == "paper":
        return 0.0
    if plan.overflow is not None:
        return require_real("overflow", plan.overflow, low=0.0, high=0.5)
    return min(
        OVERFLOW,
        plan.claim.delta / (OVERFLOW_DELTA_SHARE * reports_of(plan.claim) * overflow_slack(plan.claim.epsilon, 1.0)),
    )


@lru_cache(maxsize=4096)  # calibrations are remembered
def _noise(plan: ShufflePlan, least: int, layer: int | None) -> BitNoise:
    """The noise of a stage in which so many people are needed."""
    shape, claim = plan.shape, plan.claim
    if plan.calibration == "paper":
        return paper_bit_noise(
            epsilon=claim.epsilon,
            delta=claim.delta,
            users=least,
            horizon=shape.horizon,
            num_states=shape.num_states,
            num_actions=shape.num_actions,
            variant=plan.variant,
            honest_fraction=plan.honest,
        )
    if shape.support is None and layer is not None and 0 < layer < shape.horizon - 1:
        return _noise(plan, least, 0)  # every layer but the last one needs the same noise: calibrate once
    overflow, g = _overflow(plan), reports_of(claim)
    # Running totals have stages of one kind.
    one_kind = g == 1 or plan.users_per_batch is not None
    # Lemma M6 (overflowing blocks), once for every stage that a person reports in.
    room = claim.delta - g * overflow_slack(claim.epsilon, overflow) * (1.0 + 1e-9)  # the event rounds up
    require(room > 0.0, f"overflowing blocks must leave some of delta = {claim.delta!r}", overflow, "choose it smaller")
    families = batch_spec(shape, "tight", layer).families()
    return least_bit_noise(
        [replace(family, up=g * family.up, down=g * family.down) for family in families],
        epsilon=claim.epsilon if one_kind else claim.epsilon * (1.0 - KINDS),
        delta=room,
        users=least,
        honest_fraction=plan.honest,
        max_bits_per_user=plan.most_bits,
        kind=plan.kind,
    )


@lru_cache(maxsize=4096)
def _release(plan: ShufflePlan, target: int, least: int, query: Totals | BatchQuery) -> ShuffleRelease:
    noise, overflow, printed = _noise(plan, least, _layer(query)), _overflow(plan), plan.calibration == "paper"
    spec = _spec(plan.shape, isinstance(query, Totals), _layer(query), printed)
    transport = Transport(
        num_counters=spec.num_counters,
        slots=spec.slots,
        users=target,
        bits_per_user=noise.bits_per_user,
        probability=noise.probability,
        mirrored=noise.mirrored,
        overflow_prob=overflow,
    )
    return ShuffleRelease(
        claim=plan.claim,
        shape=plan.shape,
        query=query,
        target=target,
        least=least,
        honest=noise.honest_users,
        bits_per_user=noise.bits_per_user,
        probability=Fraction(noise.probability),
        block=transport.block,
        overflow=Fraction(overflow),
        mirrored=noise.mirrored,
        printed=printed,
    )
