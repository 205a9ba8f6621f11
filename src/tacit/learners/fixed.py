"""Reference lines: one policy for everybody, learned from nobody.

`uniform` is what "nothing learned" costs and is always plotted beside; `optimal` is given the solution by the simulator
and exists in simulations only. Neither asks users to report, so neither needs privacy.
"""

from __future__ import annotations

import numpy as np

from tacit.errors import InvalidInput
from tacit.learners.contract import CountRequest, PlanningLearner, statistics_of
from tacit.policies import Policy
from tacit.protocol import Constants, Plan, PrivateStatistics, Totals
from tacit.released.counts import CountShape, CountStatistics


class FixedPolicy(PlanningLearner[None, Totals]):
    """Everybody follows the same given policy."""

    asks = Totals

    def __init__(self, *, name: str, policy: Policy, shape: CountShape) -> None:
        self.name = name
        self.shape = shape
        self.constants: Constants = "none"
        self.z: float | None = None
        self.given = policy

    def begin(self) -> None:
        """There is nothing to believe."""

    def plan(self, belief: None, rng: np.random.Generator) -> tuple[None, Plan[Totals]]:
        """All users at once."""
        return belief, Plan(policy=self.given, users=None, query=None)

    def update(self, belief: None, released: PrivateStatistics[CountStatistics]) -> None:
        """Nothing is learned."""
        statistics_of(released, CountStatistics)
        return belief


def make_fixed(request: CountRequest) -> FixedPolicy:
    """The reference line whose policy the simulator hands over."""
    if request.constants not in (None, "none") or request.z is not None or request.options:
        raise InvalidInput(f"{request.name} is one fixed policy: it takes no options, no constants and no z")
    if request.given is None:
        raise InvalidInput(f"{request.name} is a policy that the simulator hands over; it must be given")
    return FixedPolicy(name=request.name, policy=request.given, shape=request.shape)
