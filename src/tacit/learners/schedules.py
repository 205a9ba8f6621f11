"""Schedules of batches, as data: how many users each stage takes, decided before the first one comes.

They depend on the number of users, the size of the model and the public standard deviation of the noise, never on
data: that is what makes the composition over batches parallel.

A learner that replans rarely: when the number of users has grown by half a percent, instead of after every user.

    after k users the next max(1, ⌊k/200⌋) follow one policy

In between the counts grow by half a percent at most, so a policy lags behind by that much. That has a price: at 10⁸
users regret was higher by 1 to 7% than with a plan after every user (card of [garcelon2021local]). A run of 10⁸ users
takes 2,900 plans instead of 10⁸, and each batch is drawn at once. Privacy does not depend on it: every user still sends
one message of their own, or is in one step of a central counter that publishes on a schedule (or is not protected at
all).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInput, NotSupported, require_count
from tacit.learners.contract import CountRequest, KernelLearner, PlanningLearner
from tacit.policies import DeterministicPolicy
from tacit.protocol import TOTALS, Constants, Learner, Plan, PrivateStatistics, Totals
from tacit.released.counts import CountShape, CountStatistics

EXPLORE_SHARE: Final = 0.35
"""The largest share of users that explores; the rest is the last stage, which exploits and releases nothing."""
LONG_RUN: Final = 16.0
"""A run is long when it has more than this many times the users that one useful stage needs."""
GROWTH: Final = 2.0


def backward_geometric(budget: int, *, first: float) -> tuple[int, ...]:
    """Stages that double, laid out from the end so that they use up the budget; the first has at least `first` users.

    >>> backward_geometric(7000, first=1586.0)
    (2333, 4667)
    >>> sum(backward_geometric(7000, first=8.0)), len(backward_geometric(7000, first=8.0))
    (7000, 9)
    """
    start = max(2.0, min(first, budget / 2.8))
    stages = 0
    while budget * (GROWTH - 1.0) / (GROWTH ** (stages + 1) - 1.0) >= start:
        stages += 1
    if stages == 0:
        raise InvalidInput(f"one stage of exploration must have at least 2 users, got {budget}; run more episodes")
    unit = budget * (GROWTH - 1.0) / (GROWTH**stages - 1.0)
    sizes = [int(unit * GROWTH**i) for i in range(stages - 1)]
    return (*sizes, budget - sum(sizes))


def exploration_budget(episodes: int, shape: CountShape, std: float) -> int:
    """How many users explore: 35% of a short run, growing with the square root of a long one.

    What exploration must overcome is mostly the noise of a batch, which does not grow with the run.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> exploration_budget(20_000, shape, 19.83), exploration_budget(200_000, shape, 19.83)
    (7000, 24937)
    """
    episodes = require_count("episodes", episodes)
    # K₀ = 16 · max(10σ, 2H) · S A users; beyond it the share falls like √(K₀/K)
    scale = LONG_RUN * max(10.0 * std, 2.0 * shape.horizon) * shape.num_states * shape.num_actions
    return math.floor(EXPLORE_SHARE * math.sqrt(episodes * min(float(episodes), scale)))


def given_stages(sizes: Sequence[int] | None, episodes: int) -> tuple[int, ...]:
    """Stages of a schedule that somebody else has fixed, and the last one, of whoever is left, which exploits.

    >>> given_stages((1000, 1000), 2500)
    (1000, 1000, 500)
    """
    given = tuple(require_count("users of a stage", size, least=2) for size in sizes or ())
    left = require_count("episodes", episodes) - sum(given)
    if not given or left < 0:
        raise InvalidInput(f"stages must be given and fit into the {episodes} episodes, got {len(given)} stages")
    return (*given, left)


def growing_batches(episodes: int, *, first: float, growth: float = 1.5) -> tuple[int, ...]:
    """All users in batches that grow by half each time, laid out so that they use up the run.

    >>> growing_batches(20_000, first=792.0)
    (962, 1443, 2165, 3248, 4872, 7310)
    """
    episodes = require_count("episodes", episodes)
    start, stages = max(2.0, min(first, episodes / 8)), 1
    while episodes * (growth - 1.0) / (growth ** (stages + 1) - 1.0) >= start:
        stages += 1
    unit = episodes * (growth - 1.0) / (growth**stages - 1.0)
    sizes = [int(unit * growth**i) for i in range(stages - 1)]
    return (*sizes, episodes - sum(sizes))


def least_stage(std: float, shape: CountShape) -> float:
    """The smallest first stage that is worth its noise: 10 σ S A users, or one for each pair without noise.

    >>> least_stage(19.8, CountShape(horizon=6, num_states=4, num_actions=2, staged=True))
    1584.0
    """
    return max(10.0 * std, 1.0) * shape.num_states * shape.num_actions


def split_evenly(users: int, parts: int) -> tuple[int, ...]:
    """Users in parts that differ by one at the most, the larger ones first.

    >>> split_evenly(16, 6)
    (3, 3, 3, 3, 2, 2)
    """
    each, more = divmod(users, parts)
    return tuple(each + (i < more) for i in range(parts))


def grouped(policies: NDArray[np.int64], users: Sequence[int]) -> tuple[tuple[DeterministicPolicy, int], ...]:
    """Who follows which of policies[i,h,s]: equal policies are one group, and nobody is in an empty one.

    >>> [count for _, count in grouped(np.array([[[0]], [[1]], [[0]], [[1]]]), [1, 0, 2, 0])]
    [3]
    """
    merged: dict[bytes, tuple[NDArray[np.int64], int]] = {}
    for policy, count in zip(policies, users, strict=True):
        key = policy.tobytes()
        _, before = merged.get(key, (policy, 0))
        merged[key] = (policy, before + int(count))
    kept = [(policy, count) for policy, count in merged.values() if count > 0]
    made = DeterministicPolicy.each(np.stack([policy for policy, _ in kept])) if kept else []
    return tuple(zip(made, (count for _, count in kept), strict=True))


Make: TypeAlias = Callable[[CountRequest], Learner[Any, Totals, CountStatistics]]

LAG: Final = 200
"""One over the growth between two plans."""


class RareBelief(NamedTuple):
    """The belief of the learner itself, and how many users it rests on."""

    belief: Any
    users: int


class RarelyReplanned(PlanningLearner[RareBelief, Totals]):
    """Any learner made of kernels, replanned when the number of users has grown by 1/LAG.

    >>> from tacit.learners.psrl import PSRL
    >>> learner = RarelyReplanned(PSRL(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=False)))
    >>> belief, coins = learner.begin(), np.random.default_rng(0)
    >>> [learner.plan(belief._replace(users=users), coins)[1].users for users in (0, 399, 400, 1_000_000)]
    [1, 1, 2, 5000]
    """

    asks = Totals

    def __init__(self, inner: KernelLearner[Any, Totals, CountStatistics], *, fewest: int = 1) -> None:
        self.inner = inner
        self.fewest = fewest
        """How many users follow one policy at least; more than one only where somebody measures what that costs."""
        self.name: str = inner.name
        self.constants: Constants = inner.constants
        self.z: float | None = inner.z
        self.shape: CountShape = inner.shape
        self.over_support = getattr(inner, "over_support", False)

    def begin(self) -> RareBelief:
        """Nobody came."""
        return RareBelief(self.inner.begin(), 0)

    def plan(self, belief: RareBelief, rng: np.random.Generator) -> tuple[RareBelief, Plan[Totals]]:
        """The learner's own policy, for more users the more have come."""
        after, plan = self.inner.plan(belief.belief, rng)
        return RareBelief(after, belief.users), Plan(policy=plan.policy, users=self.together(belief), query=TOTALS)

    def together(self, belief: RareBelief) -> int:
        """How many users follow one policy, after so many have been counted."""
        return max(self.fewest, belief.users // LAG)

    def update(self, belief: RareBelief, released: PrivateStatistics[CountStatistics]) -> RareBelief:
        """The learner's own update."""
        return RareBelief(self.inner.update(belief.belief, released), int(released.statistics.users[0]))


def replanned_rarely(
    make: Callable[[CountRequest], KernelLearner[Any, Totals, CountStatistics]],
    rare: Callable[[Any], RarelyReplanned] = RarelyReplanned,
) -> Make:
    """The builder of a learner that has the option `replan`; `rare` makes the one that plans rarely."""

    def build(request: CountRequest) -> Learner[Any, Totals, CountStatistics]:
        learner = make(request)
        if request.options.get("replan") != "geometric":
            return learner
        together = request.precision is not None or request.scheduled
        if not together or request.users_per_batch != 1:
            raise NotSupported(
                "replan=geometric needs users one by one under trust 'local' or 'none', or central noise on a schedule "
                "(mechanism batched or batched-factorization): others have batches of their own"
            )
        return rare(learner)

    return build
