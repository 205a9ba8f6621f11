"""A learner that replans rarely: when the number of users has grown by half a percent, instead of after every user.

    after k users the next max(1, ⌊k/200⌋) follow one policy

In between the counts grow by half a percent at most, so a policy lags behind by that much. That has a price: at 10⁸
users regret was higher by 1 to 7% than with a plan after every user (card of [garcelon2021local]). A run of 10⁸ users
takes 2,900 plans instead of 10⁸, and each batch is drawn at once. Privacy does not depend on it: every user still sends
one message of their own, or is in one step of a central counter that publishes on a schedule (or is not protected at
all).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tacit.errors import NotSupported
from tacit.learners.contract import CountRequest, KernelLearner, PlanningLearner
from tacit.protocol import TOTALS, Constants, Learner, Plan, PrivateStatistics, Totals
from tacit.released.counts import CountShape, CountStatistics

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
