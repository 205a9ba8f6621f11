"""Linear learners on released moments: Thompson sampling, optimism, or the best guess, in batches that grow.

    r - 1/2 = θ_a·x + noise,  θ ~ N(0, I/4d)        one parameter per action, or one for all (M slots)

    first batch   max(50, min(8 d M (1 + sd of v), K/10)) people, actions alike; batches grow by half
    posterior     of all batches' moments, with the noise of the release as uncertainty (`planning.linear_posterior`)
    lin-ts        32 draws mean + z covariance^½ N(0, I) in the plan, z = 0.2; a device takes one
    lin-ucb       mean·x + z ‖covariance^½ x‖
    lin-greedy    mean·x
    last batch    mean·x, and nobody reports
    valid         lin-ucb with a region that contains the parameters with probability 95 % (`planning.linear_posterior`)

The same numbers serve every world, every size, one parameter or many, central and shuffle trust: none is tuned per
world. No theorem gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require_count, require_real
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.schedules import given_stages, growing_batches
from tacit.planning.linear_posterior import (
    DRAWS,
    INFLATION,
    LinearPosterior,
    LinearRegion,
    linear_posterior,
    linear_region,
    thompson_draws,
)
from tacit.policies import LinearPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.moments import MomentNoise, MomentQuery, MomentShape, MomentStatistics, empty_moments

DEFAULT_WIDTH: Final[Mapping[str, float]] = {"lin-ts": INFLATION, "lin-ucb": 0.5, "lin-greedy": 0.0}
"""z of every learner."""
FAILURE: Final = 0.05
"""Of the regions of the constants 'valid', over a whole run."""
MIN_FIRST: Final = 50
EXPLORE: Final[Mapping[bool, float]] = {False: 6.0, True: 0.15}
"""Local trust: c, for one parameter per action and for a shared one, whose actions say something about each other."""
REPORT: Final = MomentQuery(lots=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRequest:
    """What a linear learner may know before it starts; every field is public."""

    name: str
    shape: MomentShape
    episodes: int
    constants: Constants | None
    z: float | None
    noise: MomentNoise
    options: Mapping[str, str]
    bounded: bool = False
    """Whether valid regions hold: linear rewards, |θ| at most 1/2, and sub-Gaussian noise in sums, or none."""
    sizes: tuple[int, ...] | None = None
    """The users of every stage that reports, where they are fixed; None: the learner's own schedule."""
    contexts: Floats | None = None
    """Local trust: declared rows, as people's rows are thought to be distributed: [n,d] or [n,A,d]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMoments:
    """One batch of the schedule."""

    users: int
    query: MomentQuery


def add_moments(one: MomentStatistics, other: MomentStatistics) -> MomentStatistics:
    """The moments of two batches together; their noises are independent."""
    known = (one.slot_users < 0) | (other.slot_users < 0)
    before = one.users[0] == 0
    slots = other.slot_users if before else np.where(known, -1, one.slot_users + other.slot_users)
    return MomentStatistics(
        gram=one.gram + other.gram,
        rewards=one.rewards + other.rewards,
        gram_variance=one.gram_variance + other.gram_variance,
        reward_variance=one.reward_variance + other.reward_variance,
        users=one.users + other.users,
        slot_users=slots,
    )


def policy_of(
    found: LinearPosterior, actions: int, *, learner: str, z: float, rng: np.random.Generator
) -> LinearPolicy:
    """What a batch of people follows; `rng` draws what Thompson sampling needs.

    >>> found = linear_posterior(*empty_moments(MomentShape(features=2, actions=3, shared=False))[:4])
    >>> policy_of(found, 3, learner="lin-ts", z=0.2, rng=np.random.default_rng(0)).coefficients.shape
    (32, 3, 2)
    """
    if z == 0.0 or learner == "lin-greedy":
        return LinearPolicy(found.mean[None], actions)
    if learner == "lin-ucb":
        return LinearPolicy(found.mean[None], actions, widths=np.asarray(z * np.linalg.cholesky(found.covariance)))
    return LinearPolicy(thompson_draws(found, rng, inflation=z), actions)


class LinearBatches(PlanningLearner[Any, MomentQuery]):
    """What linear learners share: batches that grow, of which the last one follows the mean and reports nothing."""

    asks = MomentQuery
    growth = 1.5

    def __init__(self, request: FeatureRequest) -> None:
        self.name, self.shape, self._noise = request.name, request.shape, request.noise
        if request.constants not in (None, "practical", "valid"):
            raise InvalidInput(f"no theorem gives constants for {request.name}; use constants 'practical' or 'valid'")
        self.constants: Constants = request.constants or "practical"
        self._width = require_real("z", DEFAULT_WIDTH[self.name] if request.z is None else request.z, low=0.0)
        self.z: float | None = self._width
        episodes = require_count("episodes", request.episodes)
        if request.sizes is None:
            # people enough that K/10 of them are a batch, or the least batch at once
            first = self._first(episodes) if episodes >= 4 * MIN_FIRST else 0.0
            first = max(MIN_FIRST, min(first, episodes / 10))
            self.stages = growing_batches(episodes, first=first, growth=self.growth)
        else:
            self.stages = given_stages(request.sizes, episodes)

    def _first(self, episodes: int) -> float:
        """How many people explore first, unless they are more than K/10."""
        raise NotImplementedError

    def _query(self, stage: int) -> MomentQuery:
        return REPORT

    def posterior(self, belief: Any) -> LinearPosterior:
        """What is known of the parameters, with the noise of the releases in it."""
        return linear_posterior(*self.sums(belief))

    def sums(self, belief: Any) -> Sequence[Floats]:
        """Ĝ and v̂ over all releases, and the variance of their noise."""
        raise NotImplementedError

    def _planned(self, belief: Any, policy: LinearPolicy) -> Any:
        """The belief, once it is known what the batch follows."""
        return belief

    @property
    def batches(self) -> tuple[PlannedMoments, ...]:
        """The batches that report: all but the last."""
        return tuple(PlannedMoments(users=n, query=self._query(i)) for i, n in enumerate(self.stages[:-1]))

    def plan(self, belief: Any, rng: np.random.Generator) -> tuple[Any, Plan[MomentQuery]]:
        """Explore, then follow the posterior; the last batch follows its mean and reports nothing."""
        stage, end = int(belief.stages[0]), len(self.stages) - 1
        last = stage >= end
        policy = self._policy(belief, stage, last, rng)
        query = None if last else self._query(stage)
        planned = belief if last else self._planned(belief, policy)
        return planned, Plan(policy=policy, users=self.stages[min(stage, end)], query=query)

    def _policy(self, belief: Any, stage: int, last: bool, rng: np.random.Generator) -> LinearPolicy:
        M, d = self.shape.slots, self.shape.features
        if stage == 0:
            return LinearPolicy(np.zeros((1, M, d)), self.shape.actions, uniform=True)
        z = 0.0 if last else self._width
        if self.constants == "valid":
            return self._optimistic(belief, last)
        return policy_of(self.posterior(belief), self.shape.actions, learner=self.name, z=z, rng=rng)

    def _optimistic(self, belief: Any, last: bool) -> LinearPolicy:
        raise NotImplementedError

    def last(self, belief: Any, plan: Plan[Any], rng: np.random.Generator) -> Plan[Any]:
        """A study that ends early serves the mean of what is believed."""
        return Plan(policy=self._policy(belief, int(belief.stages[0]), True, rng), users=plan.users, query=None)

    @property
    def settings(self) -> dict[str, float | str]:
        """Everything that was tuned."""
        return {"z": self._width, "draws": float(DRAWS), "first_batch": float(self.stages[0]), "growth": self.growth}


class LinearBelief(NamedTuple):
    """All that was released so far, and of how many batches."""

    moments: MomentStatistics
    stages: Ints
    """[1]"""


class LinearLearner(LinearBatches):
    """Linear learners under central and shuffle trust, and without privacy.

    >>> class Exact:
    ...     def moment_std(self, users, query):
    ...         return 0.0, 0.0
    >>> shape = MomentShape(features=5, actions=4, shared=False)
    >>> LinearLearner(FeatureRequest(name="lin-ts", shape=shape, episodes=20_000, constants=None, z=None,
    ...                              noise=Exact(), options={})).stages
    (176, 264, 397, 595, 893, 1340, 2010, 3015, 4522, 6788)
    """

    def __init__(self, request: FeatureRequest) -> None:
        if request.constants == "valid":
            if not request.bounded:
                raise NotSupported(
                    "valid regions need linear rewards, parameters no longer than 1/2 and sub-Gaussian noise: use "
                    "linear-bandit under trust central or none, or constants 'practical'"
                )
            if request.z is not None:
                raise InvalidInput("z belongs to the practical rule; remove it with constants 'valid'")
        super().__init__(request)
        if self.constants == "valid":
            self.z = None

    def _first(self, episodes: int) -> float:
        _, of_rewards = self._noise.moment_std(max(2, episodes // 10), REPORT)
        return 8.0 * self.shape.features * self.shape.slots * (1.0 + of_rewards)

    def begin(self) -> LinearBelief:
        """Nothing is known."""
        return LinearBelief(empty_moments(self.shape), np.zeros(1, dtype=np.int64))

    def sums(self, belief: LinearBelief) -> Sequence[Floats]:
        """As they were released."""
        return belief.moments[:4]

    def region(self, belief: LinearBelief) -> LinearRegion:
        """Where the parameters are, with probability 95 % over the whole run: the constants 'valid'."""
        stages = max(1, len(self.stages) - 1)
        return linear_region(belief.moments, grid=self.shape.grid, failure=FAILURE, stages=stages)

    def _optimistic(self, belief: LinearBelief, last: bool) -> LinearPolicy:
        found = self.region(belief)
        return LinearPolicy(found.mean[None], self.shape.actions, widths=None if last else found.widths)

    def update(self, belief: LinearBelief, released: PrivateStatistics[MomentStatistics]) -> LinearBelief:
        """Add a batch to those before."""
        return LinearBelief(add_moments(belief.moments, statistics_of(released, MomentStatistics)), belief.stages + 1)


class LocalBelief(NamedTuple):
    """A Gaussian law of the parameters in the form that messages add to, and what is known of the batch that acts."""

    precision: Floats
    """[M,d,d]"""
    weighted: Floats
    """[M,d]: precision times mean."""
    seconds: Floats
    """[M,d,d]: E x xᵀ 1{a = k} of one person who follows what was planned, over declared rows."""
    stages: Ints
    """[1]"""


class LocalLinearLearner(LinearBatches):
    """Linear learners under local trust, where people say something about x (r - 1/2) and nothing about x xᵀ.

        v = n S θ + noise    S = E x xᵀ 1{a = k} over rows that are declared in public, under the public plan
        first batch          min(c M d³/m², K/10) people, m the signal of a message, c = 6, or 0.15 where it is shared;
                             a public lot decides who takes which action: a message is about that action's d numbers
        afterwards           everyone follows the plan and reports, about the M d numbers of all actions; batches
                             grow by 1.3

    People may be distributed otherwise than declared: that costs regret, never privacy.
    """

    growth = 1.3

    def __init__(self, request: FeatureRequest) -> None:
        if request.constants == "valid":
            raise NotSupported("valid regions need second moments, which local trust does not release: use practical")
        if request.contexts is None:
            raise InvalidInput(
                f"{request.name} needs declared rows under local trust, which releases no second moments"
            )
        self._rows = request.contexts
        super().__init__(request)

    def _first(self, episodes: int) -> float:
        # c M d³/m²: people of a lot send m times their signal, so the variance of v per person is 1/(4 m²)
        M, d, n = self.shape.slots, self.shape.features, 1000 * self.shape.slots
        _, of_rewards = self._noise.moment_std(n, self._query(0))
        return float(EXPLORE[self.shape.shared] * M * d**3 * 4.0 * of_rewards**2 * M / n)

    def _query(self, stage: int) -> MomentQuery:
        return MomentQuery(lots=stage == 0 and not self.shape.shared)

    def begin(self) -> LocalBelief:
        """The prior N(0, I/4d)."""
        M, d = self.shape.slots, self.shape.features
        prior = np.broadcast_to(4.0 * d * np.eye(d), (M, d, d)).copy()
        return LocalBelief(prior, np.zeros((M, d)), np.zeros((M, d, d)), np.zeros(1, dtype=np.int64))

    def posterior(self, belief: LocalBelief) -> LinearPosterior:
        """The Gaussian law of what was added."""
        covariance = np.linalg.inv(belief.precision)
        covariance = (covariance + covariance.transpose(0, 2, 1)) / 2.0
        return LinearPosterior(np.matmul(covariance, belief.weighted[:, :, None])[:, :, 0], covariance)

    def sums(self, belief: LocalBelief) -> Sequence[Floats]:
        """Sums without noise that tell as much: 4 Ĝ is the precision of the messages, declared rows taken as true."""
        M, d = belief.weighted.shape
        return (belief.precision / 4.0 - d * np.eye(d), belief.weighted / 4.0, np.zeros(M), np.zeros(M))

    def _planned(self, belief: LocalBelief, policy: LinearPolicy) -> LocalBelief:
        x, rng = self._rows, np.random.default_rng(0)  # which declared row takes which draw is public, too
        actions = policy.choose(x, rng)
        if self.shape.shared:
            x = x[np.arange(len(x)), actions]
            return belief._replace(seconds=(x.T @ x / len(x))[None])
        if self._query(int(belief.stages[0])).lots:  # people of every lot are like all people
            return belief._replace(seconds=np.broadcast_to(x.T @ x / len(x), belief.seconds.shape).copy())
        own = [x[actions == k] for k in range(self.shape.slots)]
        return belief._replace(seconds=np.stack([rows.T @ rows for rows in own]) / len(x))

    def update(self, belief: LocalBelief, released: PrivateStatistics[MomentStatistics]) -> LocalBelief:
        """Add what a batch said about v = n S θ."""
        found = statistics_of(released, MomentStatistics)
        M, d = self.shape.slots, self.shape.features
        lots = self._query(int(belief.stages[0])).lots
        n = (found.slot_users if lots else np.full(M, found.users[0])).astype(np.float64)
        # Var v: the noise, and x (r - 1/2) of n people over the d numbers that they speak of
        N = found.reward_variance + n / (4.0 * d * (1 if lots else M))
        H = n[:, None, None] * belief.seconds
        weight = np.divide(1.0, N, out=np.zeros(M), where=N > 0.0)[:, None, None]
        return LocalBelief(
            belief.precision + weight * (H @ H),
            belief.weighted + (weight * (H @ found.rewards[:, :, None]))[:, :, 0],
            belief.seconds,
            belief.stages + 1,
        )


def make_linear(request: FeatureRequest) -> LinearLearner | LocalLinearLearner:
    """The linear learner of a request: that of local trust where rows are declared."""
    return LinearLearner(request) if request.contexts is None else LocalLinearLearner(request)
