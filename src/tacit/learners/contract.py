"""`KernelLearner`: a learner made of kernels over a belief that is a NamedTuple of arrays.

The contract of every learner is `tacit.protocol.Learner`: begin, plan, ask, update; state goes in and comes out. A
learner sees releases and its own coins, nothing else; it cannot even import a trajectory.

Kernels work in place, because a fused loop calls them 10⁸ times; `plan`, `ask` and `update` wrap them for everybody
else and leave the belief they were given untouched.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from tacit.errors import InvalidInput
from tacit.kernels import lean_kernel
from tacit.policies import AnyPolicy, DeterministicPolicy
from tacit.protocol import TOTALS, Constants, LearnerKernels, Plan, Private, Query, Totals, copy_state

__all__ = ["KernelLearner", "PlanningLearner", "ask_nothing", "plan_nothing"]

Belief = TypeVar("Belief")
Asked = TypeVar("Asked", bound=Query)
Statistics = TypeVar("Statistics")


@lean_kernel
def ask_nothing(parameters: Any, belief: Any, query: Any, number: int) -> None:
    """The query never changes."""


@lean_kernel
def plan_nothing(parameters: Any, belief: Any, coins: np.random.Generator) -> None:
    """The policy stands in the belief already."""


class PlanningLearner(Generic[Belief, Asked]):
    """What learners share that plan in Python, batch by batch: queries are those of the plan."""

    least = 1
    uses_last = False

    def ask(self, belief: Belief, plan: Plan[Asked], number: int) -> tuple[Belief, Asked]:
        """What was planned to be asked."""
        if plan.query is None:
            raise InvalidInput("a plan without a query asks nothing; check plan.query before asking")
        return belief, plan.query

    def policy(self, belief: Belief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The policy that was planned last."""
        if planned is None:
            raise InvalidInput("this learner keeps no policy in its belief; hand over the last plan's")
        return planned


class KernelLearner(Generic[Belief, Asked, Statistics]):
    """A learner made of three kernels, for one user at a time or for batches of a fixed size."""

    kernels: LearnerKernels
    asks: type[Any] = Totals
    least = 1
    uses_last = False
    releases = 1

    def __init__(
        self,
        *,
        name: str,
        shape: Any,
        constants: Constants,
        z: float | None,
        parameters: NamedTuple,
        users_per_batch: int,
    ) -> None:
        self.name = name
        self.shape = shape
        self.constants: Constants = constants
        self.z = z
        self.parameters = parameters
        self.users_per_batch = users_per_batch

    def begin(self) -> Belief:
        """The belief before anybody came."""
        raise NotImplementedError

    def policy(self, belief: Belief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The policy that was planned last: one action per step and state, as it stands in the belief."""
        return DeterministicPolicy(cast("Any", belief).policy.copy()) if planned is None else planned

    def query(self, belief: Belief) -> Asked:
        """The query as kernels see it: its arrays may be those of the belief."""
        return cast("Asked", TOTALS)

    def plan(self, belief: Belief, coins: np.random.Generator) -> tuple[Belief, Plan[Asked]]:
        """Run the planning kernel on a copy of the belief."""
        after = cast("Belief", copy_state(belief))
        self.kernels.plan(self.parameters, after, coins)
        return after, Plan(
            policy=self.policy(after), users=self.users_per_batch, query=self.query(after), releases=self.releases
        )

    def ask(self, belief: Belief, plan: Plan[Asked], number: int) -> tuple[Belief, Asked]:
        """What was planned to be asked."""
        return belief, cast("Asked", plan.query)

    def update(self, belief: Belief, released: Private[Statistics]) -> Belief:
        """Run the update kernel on a copy of the belief."""
        after = cast("Belief", copy_state(belief))
        self.kernels.update(self.parameters, after, released.statistics)
        return after
