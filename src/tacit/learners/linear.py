"""Linear learners on released moments: Thompson sampling, optimism, or the best guess, in batches that grow.

    r - 1/2 = θ_a·x + noise,  θ ~ N(0, I/4d)        one parameter per action, or one for all (M slots)

    first batch   max(50, min(8 d M (1 + sd of v), K/10)) people, actions alike; batches grow by half
    per slot      G = Σ x xᵀ and v = Σ x (r - 1/2) over B batches, with noise of variances B sd_G² and B sd_v²
                  w, U = eigh(G);  f = sd_G √(B d)/2;  w <- (w + √(w² + 4 f²))/2
                  R = w/4 + B sd_v² + B sd_G²/16;  P = w²/R + 4d
                  mean = U (w/(R P) · Uᵀv),  covariance = U diag(1/P) Uᵀ
    lin-ts        32 draws mean + z covariance^½ N(0, I) in the plan, z = 0.2; a device takes one
    lin-ucb       mean·x + z ‖covariance^½ x‖
    lin-greedy    mean·x
    last batch    mean·x, and nobody reports

The soft floor f keeps noisy eigenvalues positive without a ridge of its own. The same numbers serve every world, every
size, one parameter or many, central and shuffle trust: none is tuned per world. No theorem gives them.
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
from tacit.policies import LinearPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.moments import MomentNoise, MomentQuery, MomentShape, MomentStatistics, empty_moments

DRAWS: Final = 32
DEFAULT_WIDTH: Final[Mapping[str, float]] = {"lin-ts": 0.2, "lin-ucb": 0.5, "lin-greedy": 0.0}
"""z of every learner."""
FLOOR: Final = 0.5
"""The soft floor, in deviations of the noise times √d."""
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


class Posterior(NamedTuple):
    """What is believed about the parameters: Gaussian, one slot apart from the other."""

    mean: Floats
    """[M,d]"""
    vectors: Floats
    """[M,d,d]: U, a column per direction."""
    variance: Floats
    """[M,d]: along each of them."""

    @property
    def covariance(self) -> Floats:
        """U diag(variance) Uᵀ, [M,d,d]."""
        return np.asarray((self.vectors * self.variance[:, None]) @ self.vectors.transpose(0, 2, 1))


def posterior(moments: MomentStatistics, *, prior: float | None = None) -> Posterior:
    """The posterior of noisy moments, summed over batches; `prior` is the precision of each entry of θ, 4d by default.

    >>> from tacit.released.moments import MomentShape
    >>> posterior(empty_moments(MomentShape(features=2, actions=1, shared=False))).variance.tolist()
    [[0.125, 0.125]]
    """
    d = moments.rewards.shape[1]
    tau = 4.0 * d if prior is None else prior
    of_gram = moments.gram_variance[:, None]
    w, U = np.linalg.eigh((moments.gram + moments.gram.transpose(0, 2, 1)) / 2.0)
    # w <- (w + √(w² + 4 f²))/2,  f = sd_G √d / 2
    w = np.maximum((w + np.sqrt(w * w + 4.0 * FLOOR**2 * of_gram * d)) / 2.0, 1e-12)
    # R = w/4 + Var v + Var G E|θ|²/4: |θ|² is 1/4 a priori
    R = w / 4.0 + moments.reward_variance[:, None] + of_gram / 16.0
    P = w * w / R + tau
    along = np.matmul(U.transpose(0, 2, 1), moments.rewards[:, :, None])[:, :, 0]
    mean = np.matmul(U, (w / R / P * along)[:, :, None])[:, :, 0]
    return Posterior(mean, U, 1.0 / P)


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


def policy_of(found: Posterior, actions: int, *, learner: str, z: float, rng: np.random.Generator) -> LinearPolicy:
    """What a batch of people follows; `rng` draws what Thompson sampling needs.

    >>> from tacit.released.moments import MomentShape
    >>> found = posterior(empty_moments(MomentShape(features=2, actions=3, shared=False)))
    >>> policy_of(found, 3, learner="lin-ts", z=0.2, rng=np.random.default_rng(0)).coefficients.shape
    (32, 3, 2)
    """
    if z == 0.0 or learner == "lin-greedy":
        return LinearPolicy(found.mean[None], actions)
    factor = found.vectors * (z * np.sqrt(found.variance))[:, None]
    if learner == "lin-ucb":
        return LinearPolicy(found.mean[None], actions, widths=factor)
    # θ_j = mean + z U diag(√variance) g_j
    drawn = np.einsum("mik,jmk->jmi", factor, rng.normal(size=(DRAWS, *found.mean.shape)))
    return LinearPolicy(found.mean + drawn, actions)


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
    (192, 288, 433, 649, 974, 1461, 2191, 3287, 4931, 5594)
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
        return policy_of(posterior(belief.moments), self.shape.actions, learner=self.name, z=z, rng=rng)

    def update(self, belief: LinearBelief, released: PrivateStatistics[MomentStatistics]) -> LinearBelief:
        """Add a batch to those before."""
        return LinearBelief(add_moments(belief.moments, statistics_of(released, MomentStatistics)), belief.stages + 1)

    def last(self, belief: LinearBelief, plan: Plan[Any], rng: np.random.Generator) -> Plan[Any]:
        """A study that ends early serves the mean of what is believed."""
        return Plan(policy=self._policy(belief, int(belief.stages[0]), True, rng), users=plan.users, query=None)

    @property
    def settings(self) -> dict[str, float | str]:
        """Everything that was tuned."""
        return {"z": self._width, "draws": float(DRAWS), "soft_floor": FLOOR, "first_batch": float(self.stages[0])}


def make_linear(request: FeatureRequest) -> LinearLearner:
    """The linear learner of a request."""
    return LinearLearner(request)
