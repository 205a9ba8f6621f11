"""Central trust, gradients: a curator sums each person's gradient in whole numbers and adds exact noise.

    payload  Σ_{i chosen} t_i + z          whole numbers in units of 1/M: the gradient, then the centred mean reward
    read     gradient = payload / (M q n), n people, q the sampling rate: post-processing, because n is public
    s        √(g · epochs) · shift / μ(ε, δ) if everybody takes part; with coins, the least s that is certified

G1  Replacing one person moves the sum by at most `reach.shift` units, and a person adds at most `reach.norm`: decided
    in integers, Lemma D7 (truncated gradients).
G2  A stage asks its people `questions` times (epochs); every question has noise of its own, and with a rate below one a
    secret exact coin for every person and question. One report is exposed to all of them, and a person with g reports,
    at most one per stage, to g · epochs independent releases.
G3  The noise of the sum does not depend on how many report, so neither does privacy; the mean over n has the noise of
    the sum divided by q n. `sigma` is that at `least` people. A cover report counts in n and adds nothing.
G4  Whoever asks is not trusted. One step of tabular softmax has a supremum that is smaller than its clip allows; there
    the policy must be a table of probabilities and the baseline in its public interval, or the question is refused.
    Elsewhere the clip holds for any numbers.

Gradients in whole numbers: each person's gradient, clipped, times M, cut towards zero, and summed.

    t_i = whole part of M g_i towards zero, if Σ_j t_ij² ≤ limit in integers; else 0    Lemma D7 (truncated gradients)

G5  Truncation never makes a vector longer, and what counts is decided by integers: no rounding of floating-point
    numbers, NaN, infinity or hostile policy can make a person add more than √limit.
G6  Without a clip (one step of tabular softmax) two people are at most M · shift + 2√A apart: √A for truncation, and as
    much again for the rounding of floating-point numbers.
G7  The mean reward, centred at the middle of [0, 1], is one more whole number per person.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.gradients import Bounds, GradientSums, add_gradients, begin_sums
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.kernels import kernel
from tacit.noise.exact import bernoulli
from tacit.policies.softmax import add_pull_back
from tacit.protocol import Noise, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.curator import LEVELS, CuratorPlan, CuratorRelease, FreshNoise, require_tight
from tacit.release.documents import CODECS, record
from tacit.release.fixed_point import fixed_point, from_payload, gaussian_budget, least_scale, slack
from tacit.release.gradient_noise import GradientSpec, Reach, gradient_event, gradient_families, least_sigma, reached
from tacit.release.request import PrivacyRequest, make_claim
from tacit.released.gradients import DoseQuery, GradientShape, GradientStatistics, SoftmaxQuery, empty_gradient
from tacit.statistics.trajectory_body import Decoded

LARGEST_NORM: Final = 1 << 30
"""Of one person's vector in units: its square, and the sum of two such squares, fit into 64 bits."""


@kernel
def add_truncated(gradient: Floats, unit: float, limit: int, whole: Ints, total: Ints) -> bool:
    """Add the whole part of unit · gradient towards zero to the total, unless it is too long or no number (G5)."""
    most = math.sqrt(limit) + 1.0
    square = 0
    for j in range(gradient.shape[0]):
        x = gradient[j] * unit
        if not abs(x) <= most:  # NaN, too
            return False
        whole[j] = int(x)
        square += whole[j] * whole[j]
        if square > limit:
            return False
    for j in range(gradient.shape[0]):
        total[j] += whole[j]
    return True


@kernel
def _add_people(
    bounds: Bounds,
    query: SoftmaxQuery,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    chosen: NDArray[np.bool_],
    sums: GradientSums,
    gradient: Floats,
    unit: float,
    limit: int,
    whole: Ints,
    total: Ints,
) -> None:
    """Every chosen person's gradient on its own, truncated and added."""
    for i in range(actions.shape[0]):
        if not chosen[i]:
            continue
        add_gradients(
            bounds, query.features, query.table, query.behaviour, states[i : i + 1], actions[i : i + 1],
            rewards[i : i + 1], chosen[i : i + 1], query.baseline[0], sums,
        )  # fmt: skip
        for j in range(gradient.shape[0]):
            gradient[j] = 0.0
        add_pull_back(query.features, sums.weights, 1.0, gradient)
        add_truncated(gradient, unit, limit, whole, total)


def gradient_sums(
    shape: GradientShape,
    bounds: Bounds,
    query: SoftmaxQuery,
    people: Decoded,
    levels: int,
    chosen: NDArray[np.bool_],
    unit: int,
    most: WholeReach,
) -> Ints:
    """The exact sum of all chosen people's whole numbers: gradient, and the centred mean reward if it has a bound."""
    H = shape.horizon
    total = np.zeros(shape.dimension + (1 if most.reward > 0 else 0), dtype=np.int64)
    sums = begin_sums(query.features, shape.stages, shape.num_states, shape.num_actions, H)
    _add_people(
        bounds,
        query,
        np.ascontiguousarray(people.states[:, :H]),
        np.ascontiguousarray(people.actions),
        people.levels / levels,
        chosen,
        sums,
        np.zeros(shape.dimension),
        float(unit),
        most.limit,
        np.zeros(shape.dimension, dtype=np.int64),
        total[: shape.dimension],
    )
    if most.reward > 0:
        # 2 · most · (r̄ - 1/2), in integers: most · (2 Σ k - H·levels)/(H·levels), towards zero
        centred = 2 * people.levels[chosen].sum(axis=1) - H * levels
        total[-1] = int((np.sign(centred) * (most.reward * np.abs(centred) // (H * levels))).sum())
    return total


class WholeReach(NamedTuple):
    """What one person's whole numbers can be, in units of 1/M."""

    limit: int
    """The largest Σ_j t_j² of a gradient."""
    reward: int
    """The largest |t| of the mean reward; 0: it is not released."""
    reach: Reach
    """Norm and shift of all of them together."""


@lru_cache(maxsize=256)
def whole_reach(spec: GradientSpec, shape: GradientShape, unit: int) -> WholeReach:
    """Bounds of one person's whole numbers, and what a replacement moves (G5, G6, G7)."""
    lo, hi = spec.weights
    constant = 0.0 if spec.baseline is None else spec.baseline
    alone, _ = reached(replace(spec, baseline=constant), shape, lo, hi)
    _, weight = reached(spec, shape, lo, hi)
    spare = 2.0 * math.sqrt(shape.num_actions) if spec.exact(shape) else 0.0
    norm, shift = Fraction(unit * alone.norm + spare), Fraction(unit * alone.shift + spare)
    if spec.clip is not None:
        norm, shift = min(norm, unit * Fraction(spec.clip)), min(shift, 2 * unit * Fraction(spec.clip))
    reward = math.floor(unit * weight / 2.0)
    up = 1.0 + 1e-12
    reach = Reach(norm=math.hypot(norm, reward) * up, shift=math.hypot(shift, 2.0 * reward) * up)
    return WholeReach(limit=math.floor(norm**2), reward=reward, reach=reach)


ROWS: Final = 1e-9
"""How far the rows of a policy may be from summing to one."""
NAME: Final = "central/gaussian-gradient"
CODECS["GradientShape"] = record(GradientShape, "horizon", "num_states", "num_actions", "staged", "dimension")
CODECS["GradientSpec"] = record(GradientSpec, "tabular", "epochs", "clip", "baseline", "rate", "surrogate")


class GradientMemory(NamedTuple):
    """What everybody knows: the last release, which counts them."""

    released: GradientStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRelease(CuratorRelease):
    """One stage of policy gradients under central trust; make them with `GradientPlan`."""

    shape: GradientShape
    claim: PrivacyClaim
    spec: GradientSpec
    """What a gradient is made of; rewards lie in [0, 1]."""
    target: int
    least: int
    levels: int
    unit: int
    """M: payloads count in units of 1/M."""
    variance: int
    """s²: of the noise in one number of the payload, in units of 1/M²."""

    KIND: ClassVar[str] = "central-gradient"
    name: ClassVar[str] = NAME

    def __post_init__(self) -> None:
        require_spec(self.shape, self.spec)
        longest = self.whole.reach.norm
        require(longest <= LARGEST_NORM, f"a gradient must be at most {LARGEST_NORM} units long", longest, "clip it")
        self.require_release(math.ceil(self.target * longest))

    @property
    def query(self) -> SoftmaxQuery:
        """The kind of question, at the uniform policy; the policy of a question is that of the moment."""
        sizes = (self.shape.stages, self.shape.num_states, self.shape.num_actions)
        uniform = np.full(sizes, 1.0 / self.shape.num_actions)
        baseline = 0.0 if self.spec.baseline is None else self.spec.baseline
        return SoftmaxQuery(np.zeros(self._wide), uniform, uniform.copy(), np.array([baseline]))

    @property
    def questions(self) -> int:  # type: ignore[override]
        """How many times the same people are asked (G2)."""
        return self.spec.epochs

    @property
    def whole(self) -> WholeReach:
        """What one person's whole numbers can be."""
        return whole_reach(self.spec, self.shape, self.unit)

    @property
    def dimension(self) -> int:
        """The numbers of a payload: d, and one more where the mean reward is released."""
        return self.shape.dimension + (1 if self.whole.reward > 0 else 0)

    @property
    def noise(self) -> FreshNoise:
        """What the curator adds for every question; sums are in units of 1/M already."""
        return FreshNoise(size=self.dimension, levels=self.unit, unit=self.unit, variance=self.variance)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in one coordinate of the mean over `least` people (G3)."""
        return self.noise.std / (self.spec.rate * self.least)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sum."""
        return gradient_families(self.whole.reach.over(self.unit))

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in one coordinate of the mean, at its largest."""
        return {"gradient": self.sigma}

    def events(self) -> Events:
        """What one report costs, over all questions (G2)."""
        event = gradient_event(self.whole.reach.over(self.unit), self.noise.sigma, self.spec.rate)
        return ((event, self.questions), *slack(self.claim, self.questions * self.dimension, self.variance))

    def opened(self, bodies: Sequence[bytes]) -> Decoded:
        """What these people sent; a cover report adds nothing."""
        found: Decoded = self.body.decode(bodies)
        return found

    def simulated(self, users: Any, noise: SimulationNoise) -> Decoded:
        """Simulation only: the same from trajectories, for one question; a stage of several is asked about bodies."""
        require(isinstance(users, Trajectories), "gradients need trajectories, not counts", type(users).__name__)
        require(self.questions == 1, "several questions are about the same bodies; encode them", self.questions)
        found: Decoded = self.body.decoded(users, noise)
        return found

    def require_asked(self, query: Query) -> None:
        """Raise unless the noise covers the question (G4)."""
        self._asked(query)

    def sums(self, people: Decoded, query: Query, noise: Noise) -> Ints:
        """Everybody's whole numbers, of those whom the coins choose."""
        asked, chosen = self._asked(query), self._chosen(len(people.actions), noise)
        bounds = self.spec.bounds
        return gradient_sums(self.shape, bounds, asked, people, self.levels, chosen, self.unit, self.whole)

    def begin_memory(self) -> GradientMemory:
        """Nothing is known yet."""
        return GradientMemory(empty_gradient(self.shape.dimension))

    def memory_after(self, memory: GradientMemory, payload: bytes, people: int) -> GradientMemory:
        """The noisy mean of this question."""
        sums, d = from_payload(payload, self.dimension), self.shape.dimension
        divisor = self.spec.rate * people
        reward, variance = np.zeros(1), np.array([self.variance / (self.unit * divisor) ** 2, 0.0])
        if self.whole.reward > 0:
            # t = 2 · most · (r̄ - 1/2)
            scale = 2.0 * self.whole.reward * divisor
            reward[0], variance[1] = 0.5 + sums[d] / scale, self.variance / scale**2
        gradient = sums[:d] / (self.unit * divisor)
        return GradientMemory(GradientStatistics(gradient, reward, variance, memory.released.releases + 1))

    @property
    def _wide(self) -> tuple[int, int, int]:
        """The shape of features: [S, A, k], or that of none for tabular policies."""
        k = self.spec.width(self.shape)
        return (self.shape.num_states, self.shape.num_actions, k) if k else (1, 1, 0)

    def _chosen(self, people: int, noise: Noise) -> NDArray[np.bool_]:
        """A coin for every person and question, or everybody (G2)."""
        if self.spec.rate == 1.0:
            return np.ones(people, dtype=np.bool_)
        if isinstance(noise, SimulationNoise):
            return np.asarray(noise.generator.random(people) < self.spec.rate)
        return bernoulli(people, noise, probability=Fraction(self.spec.rate))

    def _asked(self, query: Query) -> SoftmaxQuery:
        """The question, if it is one that the noise covers (G4)."""
        if isinstance(query, DoseQuery):
            raise NotSupported(NO_DOSES)
        if not isinstance(query, SoftmaxQuery):
            raise InvalidInput(f"{self.name} answers {SoftmaxQuery.words()}; it was asked for {query.words()}")
        shape = self.shape
        sizes = (shape.stages, shape.num_states, shape.num_actions)
        asked = SoftmaxQuery(*(np.ascontiguousarray(part, dtype=np.float64) for part in query))
        fits = asked.table.shape == asked.behaviour.shape == sizes and asked.features.shape == self._wide
        require(fits and asked.baseline.shape == (1,), f"policies must have the shape {sizes}", asked.table.shape)
        finite = all(bool(np.isfinite(part).all()) for part in asked)
        require(finite, "a question must be made of finite numbers", "something else")
        if self.spec.exact(shape):
            rows = asked.table
            sound = bool((rows >= 0.0).all()) and float(np.abs(rows.sum(axis=2) - 1.0).max()) <= ROWS
            require(sound, "the policy of a question must be a table of probabilities", "something else")
            low, high = self.spec.baselines
            covered = low <= float(asked.baseline[0]) <= high
            require(covered, f"the baseline of a question must lie in [{low:g}, {high:g}]", "another baseline")
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientPlan(CuratorPlan):
    """Gradients of stages of `users_per_batch` people, of whom the share `least` is enough.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="final-policy")
    >>> shape = GradientShape(horizon=6, num_states=4, num_actions=2, staged=True, dimension=48)
    >>> spec = GradientSpec(clip=1.0, tabular=True)
    >>> plan = GradientPlan(shape=shape, claim=claim, spec=spec, users_per_batch=1000, least=Fraction(9, 10))
    >>> round(plan.sigma, 6)
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
        self.require_plan()
        require_spec(self.shape, self.spec)
        _ = self.sigma  # its checks are ours

    @classmethod
    def of(cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None) -> Self:
        """The plan of a request for gradients."""
        if request.asks is DoseQuery:
            raise NotSupported(NO_DOSES)
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

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in one coordinate of the mean over `least` people."""
        target = self.users_per_batch
        return self._release(target, self.least_of(target)).sigma

    def noise_std(self) -> dict[str, float]:
        """The same, by the name of the statistic."""
        return {"gradient": self.sigma}

    def release_of(self, stage: StageSize) -> GradientRelease:
        """The release of a stage: all have the same noise in the sum."""
        if not (stage.query is SoftmaxQuery or isinstance(stage.query, SoftmaxQuery)):
            raise InvalidInput(f"{NAME} answers {SoftmaxQuery.words()}; it was asked for {stage.query.words()}")
        return self._release(stage.target, stage.least)

    def _release(self, target: int, least: int) -> GradientRelease:
        unit, variance = _noise(self.shape, self.claim, self.spec)
        return GradientRelease(
            shape=self.shape,
            claim=self.claim,
            spec=self.spec,
            target=target,
            least=least,
            levels=self.levels,
            unit=unit,
            variance=variance,
        )


NO_DOSES: Final = "studies of doses are not offered: real-valued actions have no labels; use `simulate`"


def require_spec(shape: GradientShape, spec: GradientSpec) -> None:
    """Raise unless gradients of this kind have a channel."""
    if shape.num_actions == 0:
        raise NotSupported(NO_DOSES)
    require(spec.low == 0.0 and spec.high == 1.0, "rewards reach a channel scaled to [0, 1]", (spec.low, spec.high))
    require_count("epochs", spec.epochs)
    require(0.0 < spec.rate <= 1.0, "the sampling rate must lie in (0, 1]", spec.rate)
    table = shape.stages * shape.num_states * shape.num_actions
    fits = shape.dimension == table if spec.tabular else shape.dimension % shape.stages == 0
    require(fits, "the dimension must be that of the policy's parameters", shape.dimension)


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
