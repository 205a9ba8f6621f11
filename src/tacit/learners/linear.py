"""Linear learners on released moments: Thompson sampling, optimism, or the best guess, in batches that grow.

    r - 1/2 = θ_a·x + noise,  θ ~ N(0, I/4d)        one parameter per action, or one for all (M slots)

    first batch   max(50, min(8 d M (1 + sd of v), K/10)) people, actions alike; batches grow by half
    posterior     of all batches' moments, with the noise of the release as uncertainty (`planning.linear_posterior`)
    lin-ts        32 draws mean + z covariance^½ N(0, I) in the plan, z = 0.2; a device takes one
    lin-ucb       mean·x + z ‖covariance^½ x‖
    lin-greedy    mean·x
    last batch    mean·x, and nobody reports

The same numbers serve every world, every size, one parameter or many, central and shuffle trust: none is tuned per
world. No theorem gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require_count, require_real
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.schedules import given_stages, growing_batches
from tacit.planning.linear_posterior import DRAWS, INFLATION, LinearPosterior, linear_posterior, thompson_draws
from tacit.policies import LinearPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.moments import MomentNoise, MomentQuery, MomentShape, MomentStatistics, empty_moments

DEFAULT_WIDTH: Final[Mapping[str, float]] = {"lin-ts": INFLATION, "lin-ucb": 0.5, "lin-greedy": 0.0}
"""z of every learner."""
LEAST_FIRST: Final = 50
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

    >>> found = believed(empty_moments(MomentShape(features=2, actions=3, shared=False)))
    >>> policy_of(found, 3, learner="lin-ts", z=0.2, rng=np.random.default_rng(0)).coefficients.shape
    (32, 3, 2)
    """
    if z == 0.0 or learner == "lin-greedy":
        return LinearPolicy(found.mean[None], actions)
    if learner == "lin-ucb":
        return LinearPolicy(found.mean[None], actions, widths=np.asarray(z * np.linalg.cholesky(found.covariance)))
    return LinearPolicy(thompson_draws(found, rng, inflation=z), actions)


def believed(moments: MomentStatistics) -> LinearPosterior:
    """The posterior of these moments."""
    return linear_posterior(moments.gram, moments.rewards, moments.gram_variance, moments.reward_variance)


class LinearBelief(NamedTuple):
    """All that was released so far, and of how many batches."""

    moments: MomentStatistics
    stages: Ints
    """[1]"""


class LinearLearner(PlanningLearner[LinearBelief, MomentQuery]):
    """Linear learners under central and shuffle trust, and without privacy.

    >>> class Exact:
    ...     def moment_std(self, users, query):
    ...         return 0.0, 0.0
    >>> shape = MomentShape(features=5, actions=4, shared=False)
    >>> LinearLearner(FeatureRequest(name="lin-ts", shape=shape, episodes=20_000, constants=None, z=None,
    ...                              noise=Exact(), options={})).stages
    (176, 264, 397, 595, 893, 1340, 2010, 3015, 4522, 6788)
    """

    asks = MomentQuery
    constants: Constants = "practical"

    def __init__(self, request: FeatureRequest) -> None:
        self.name, self.shape, self._noise = request.name, request.shape, request.noise
        if request.constants not in (None, "practical"):
            raise InvalidInput(f"no theorem gives constants for {request.name}; use constants 'practical' or 'valid'")
        self._width = require_real("z", DEFAULT_WIDTH[self.name] if request.z is None else request.z, low=0.0)
        self.z: float | None = self._width
        episodes = require_count("episodes", request.episodes)
        self.stages = self._schedule(episodes) if request.sizes is None else given_stages(request.sizes, episodes)

    def _schedule(self, episodes: int) -> tuple[int, ...]:
        first = 8.0 * self.shape.features * self.shape.slots
        if episodes >= 4 * LEAST_FIRST:
            _, of_rewards = self._noise.moment_std(max(2, episodes // 10), REPORT)
            first *= 1.0 + of_rewards
        return growing_batches(episodes, first=max(LEAST_FIRST, min(first, episodes / 10)))

    @property
    def batches(self) -> tuple[PlannedMoments, ...]:
        """The batches that report: all but the last."""
        return tuple(PlannedMoments(users=users, query=REPORT) for users in self.stages[:-1])

    def begin(self) -> LinearBelief:
        """Nothing is known."""
        return LinearBelief(empty_moments(self.shape), np.zeros(1, dtype=np.int64))

    def plan(self, belief: LinearBelief, rng: np.random.Generator) -> tuple[LinearBelief, Plan[MomentQuery]]:
        """Explore, then follow the posterior; the last batch follows its mean and reports nothing."""
        stage = int(belief.stages[0])
        last = stage >= len(self.stages) - 1
        users = self.stages[min(stage, len(self.stages) - 1)]
        policy = self._policy(belief, stage, last, rng)
        return belief, Plan(policy=policy, users=users, query=None if last else REPORT)

    def _policy(self, belief: LinearBelief, stage: int, last: bool, rng: np.random.Generator) -> LinearPolicy:
        M, d = self.shape.slots, self.shape.features
        if stage == 0:
            return LinearPolicy(np.zeros((1, M, d)), self.shape.actions, uniform=True)
        z = 0.0 if last else self._width
        return policy_of(believed(belief.moments), self.shape.actions, learner=self.name, z=z, rng=rng)

    def update(self, belief: LinearBelief, released: PrivateStatistics[MomentStatistics]) -> LinearBelief:
        """Add a batch to those before."""
        return LinearBelief(add_moments(belief.moments, statistics_of(released, MomentStatistics)), belief.stages + 1)

    def last(self, belief: LinearBelief, plan: Plan[Any], rng: np.random.Generator) -> Plan[Any]:
        """A study that ends early serves the mean of what is believed."""
        return Plan(policy=self._policy(belief, int(belief.stages[0]), True, rng), users=plan.users, query=None)

    @property
    def settings(self) -> dict[str, float | str]:
        """Everything that was tuned."""
        return {"z": self._width, "draws": float(DRAWS), "first_batch": float(self.stages[0])}


def make_linear(request: FeatureRequest) -> LinearLearner:
    """The linear learner of a request."""
    return LinearLearner(request)
