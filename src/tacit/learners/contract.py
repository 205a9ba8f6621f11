"""What a learner is: `begin() -> belief`, `plan(belief) -> Plan`, `update(belief, released) -> belief`.

State goes in and comes out, nothing is hidden, so a checkpoint is a belief. A learner sees released statistics and its
own coins, nothing else; it cannot even import a trajectory.

Learners that act after every episode are written as two kernels over a belief that is a NamedTuple of arrays
(`KernelLearner`). The kernels work in place, because a fused loop calls them 10⁸ times; `plan` and `update` wrap them
for everybody else and leave the belief they were given untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from tacit.policies import DeterministicPolicy, Policy
from tacit.released.batches import BatchRequest
from tacit.released.counts import CountShape, CountStatistics

__all__ = ["Constants", "KernelLearner", "Learner", "Plan", "copy_state"]

Constants = Literal["theory", "practical", "none"]
"""Which confidence widths a learner uses: the theorem's, the one practical rule, or none at all."""

Belief = TypeVar("Belief")
State = TypeVar("State", bound="tuple[Any, ...]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What happens next: which policy, for how many users (None: all that are left), and whether they report back."""

    policy: Policy
    users: int | None
    reports: bool
    request: BatchRequest | None = None
    """What this batch releases on its own; None: the privatizer's running totals."""
    groups: tuple[tuple[Policy, int], ...] = ()
    """Who of the batch follows another policy than `policy`, by the learner's own coins: (policy, users) each."""


class Learner(Protocol[Belief]):
    """The contract of every learner."""

    name: str
    constants: Constants
    z: float | None
    shape: CountShape

    def begin(self) -> Belief:
        """The belief before anybody came."""
        ...

    def plan(self, belief: Belief, generator: np.random.Generator) -> tuple[Belief, Plan]:
        """Decide what the next users do."""
        ...

    def update(self, belief: Belief, released: CountStatistics) -> Belief:
        """Take in what was released."""
        ...


class KernelLearner(Generic[Belief]):
    """A learner made of two kernels, for one user at a time or for batches of a fixed size.

    `plan_kernel(parameters, belief, generator)` writes belief.policy[h,s];
    `update_kernel(parameters, belief, statistics)` takes in the released totals. Both change the belief in place.
    """

    plan_kernel: ClassVar[Callable[..., None]]
    update_kernel: ClassVar[Callable[..., None]]

    def __init__(
        self,
        *,
        name: str,
        shape: CountShape,
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

    def plan(self, belief: Belief, generator: np.random.Generator) -> tuple[Belief, Plan]:
        """Run the planning kernel on a copy of the belief."""
        after = cast("Any", copy_state(cast("Any", belief)))
        type(self).plan_kernel(self.parameters, after, generator)
        policy = DeterministicPolicy(after.policy.copy())
        return after, Plan(policy=policy, users=self.users_per_batch, reports=True)

    def update(self, belief: Belief, released: CountStatistics) -> Belief:
        """Run the update kernel on a copy of the belief."""
        after = copy_state(cast("Any", belief))
        type(self).update_kernel(self.parameters, after, released)
        return cast("Belief", after)


def copy_state(state: State) -> State:
    """A NamedTuple of arrays with every array copied."""
    copied = [field.copy() if isinstance(field, np.ndarray) else field for field in state]
    return type(state)(*copied)
