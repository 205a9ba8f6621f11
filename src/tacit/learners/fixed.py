"""Reference lines: one policy for everybody, learned from nobody.

`uniform` is what "nothing learned" costs and is always plotted beside; `optimal` is given the solution by the simulator
and exists in simulations only. Neither asks users to report, so neither needs privacy.
"""

from __future__ import annotations

import numpy as np

from tacit.learners.contract import PlanningLearner
from tacit.policies import Policy
from tacit.protocol import Constants, Plan, Private, Totals
from tacit.released.counts import CountShape, CountStatistics

__all__ = ["FixedPolicy"]


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

    def plan(self, belief: None, coins: np.random.Generator) -> tuple[None, Plan[Totals]]:
        """All users at once."""
        return belief, Plan(policy=self.given, users=None, query=None)

    def update(self, belief: None, released: Private[CountStatistics]) -> None:
        """Nothing is learned."""
        return belief
