"""The contract of policy gradient learners: they see one noisy batch gradient at a time and nothing else.

    begin() -> belief       θ₁ = 0: every action alike
    plan kernel             writes the policy π_θ into the belief, and keeps θ_U, a uniform choice among the iterates
    update kernel           takes a released gradient in

Like the learners of counts they are two kernels over a NamedTuple of arrays, so that the loop can be compiled as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel
from tacit.learners.contract import Constants, copy_state
from tacit.policies import StochasticPolicy
from tacit.policies.softmax import softmax_table
from tacit.released.gradients import GradientShape, GradientStatistics

__all__ = ["GradientBelief", "GradientLearner", "GradientParameters", "plan_gradient"]

Floats = NDArray[np.float64]


class GradientParameters(NamedTuple):
    """Public parameters of the kernels."""

    features: Floats
    """[S,A,k], or [1,1,0] for tabular policies."""
    step: float
    """η."""
    barrier: float
    """λ of the log-barrier; 0: none."""
    damping: float
    """What is added to the Fisher matrix; natural gradients only."""
    low: float
    high: float
    """The interval of rewards, and so of baselines."""
    baseline: float
    """The first baseline, and the only one unless mean rewards are released."""


class GradientBelief(NamedTuple):
    """Everything a learner knows; a checkpoint."""

    theta: Floats
    """[d]"""
    table: Floats
    """[L,S,A]: π_θ; without actions for policies over real numbers."""
    sampled: Floats
    """[d]: θ_U, uniform among the iterates that were used so far."""
    baseline: Floats
    """[1]"""
    precision: Floats
    """[2]: Σ r̃/σ² and Σ 1/σ² over the released mean rewards."""
    iterates: NDArray[np.int64]
    """[1]: how many policies were used."""
    scratch: Floats
    """[d + 1, d] for natural gradients of linear policies, else [1, d]."""


@kernel
def plan_gradient(parameters: GradientParameters, belief: GradientBelief, generator: np.random.Generator) -> None:
    """Write π_θ, and keep θ with probability 1/t: after T iterates every one of them was kept with probability 1/T."""
    if belief.table.shape[2] > 0:
        softmax_table(parameters.features, belief.theta, belief.table)
    belief.iterates[0] += 1
    if generator.random() * belief.iterates[0] < 1.0:
        for j in range(belief.theta.shape[0]):
            belief.sampled[j] = belief.theta[j]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientLearner:
    """A learner made of the plan kernel above and an update kernel of its own."""

    plan_kernel: ClassVar[Callable[..., None]] = staticmethod(plan_gradient)

    name: str
    shape: GradientShape
    parameters: GradientParameters
    update_kernel: Callable[..., None]
    constants: Constants
    """'theory': step sizes of the theorems; 'practical': tuned; 'none': the user's own."""
    z: float | None = field(default=None)

    def begin(self) -> GradientBelief:
        """The belief before anybody came: θ = 0."""
        d, shape = self.shape.dimension, self.shape
        wide = self.parameters.features.shape[2] > 0 and self.parameters.damping > 0.0
        return GradientBelief(
            theta=np.zeros(d),
            table=np.zeros((shape.stages, shape.num_states, shape.num_actions)),
            sampled=np.zeros(d),
            baseline=np.full(1, self.parameters.baseline),
            precision=np.zeros(2),
            iterates=np.zeros(1, dtype=np.int64),
            scratch=np.zeros((d + 1 if wide else 1, d)),
        )

    def plan(self, belief: GradientBelief, generator: np.random.Generator) -> GradientBelief:
        """Run the planning kernel on a copy of the belief."""
        after = copy_state(belief)
        plan_gradient(self.parameters, after, generator)
        return after

    def update(self, belief: GradientBelief, released: GradientStatistics) -> GradientBelief:
        """Run the update kernel on a copy of the belief."""
        after = copy_state(belief)
        self.update_kernel(self.parameters, after, released)
        return after

    def policy(self, theta: Floats) -> StochasticPolicy:
        """The softmax policy of these parameters, at every step of an episode."""
        shape = self.shape
        table = np.zeros((shape.stages, shape.num_states, shape.num_actions))
        softmax_table(self.parameters.features, np.ascontiguousarray(theta), table)
        return StochasticPolicy(np.broadcast_to(table, (shape.horizon, *table.shape[1:])).copy())
