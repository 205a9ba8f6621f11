"""Reference lines: one policy for everybody, learned from nobody.

`uniform` is what "nothing learned" costs and is always plotted beside; `optimal` is given the solution by the simulator
and exists in simulations only. Neither asks users to report, so neither needs privacy.
"""

from __future__ import annotations

import numpy as np

from tacit.learners.contract import Constants, Plan
from tacit.policies import Policy
from tacit.released.counts import CountShape, CountStatistics

__all__ = ["FixedPolicy"]


class FixedPolicy:
    """Everybody follows the same given policy."""

    def __init__(self, *, name: str, policy: Policy, shape: CountShape) -> None:
        self.name = name
        self.shape = shape
        self.constants: Constants = "none"
        self.z: float | None = None
        self.policy = policy

    def begin(self) -> None:
        """There is nothing to believe."""

    def plan(self, belief: None, generator: np.random.Generator) -> tuple[None, Plan]:
        """All users at once."""
        return belief, Plan(policy=self.policy, users=None, reports=False)

    def update(self, belief: None, released: CountStatistics) -> None:
        """Nothing is learned."""
        return belief
