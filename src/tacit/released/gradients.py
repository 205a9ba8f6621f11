"""`GradientStatistics`: what a policy gradient learner sees of a batch of users, and nothing else.

One noisy vector per release. Like the counts it is a NamedTuple of arrays, so that the same object serves the
interpreted loop, the compiled loop and a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientShape:
    """The public sizes behind a gradient."""

    horizon: int
    num_states: int
    num_actions: int
    """0 where actions are real numbers."""
    staged: bool
    """Whether every step of an episode has a policy of its own."""
    dimension: int
    """The number d of parameters."""

    @property
    def stages(self) -> int:
        """The number L of policies: H when steps are kept apart, 1 when they share one."""
        return self.horizon if self.staged else 1


class GradientStatistics(NamedTuple):
    """The latest release: a batch gradient divided by the public batch size, with its noise."""

    gradient: Floats
    """[d]: (1/m) Σ_i g_i + N(0, σ² I)."""
    reward: Floats
    """[1]: the noisy mean reward of a step in the batch; zero unless a baseline is released."""
    variance: Floats
    """[2]: noise variance of one coordinate of the gradient, and of the mean reward."""
    releases: Ints
    """[1]: how many times something was released."""


class SoftmaxQuery(NamedTuple):
    """The query for the gradient of a batch at a softmax policy."""

    features: Floats
    """[S,A,k], or [1,1,0] for tabular policies."""
    table: Floats
    """[L,S,A]: the policy at which the gradient is taken."""
    behaviour: Floats
    """[L,S,A]: the policy that the users followed."""
    baseline: Floats
    """[1]: what is subtracted from rewards."""

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "the gradient at a softmax policy"


class DoseQuery(NamedTuple):
    """The query for the gradient of a batch at a Gaussian policy over doses."""

    features: Floats
    """[S,k]"""
    norms: Floats
    """[S]: ‖x_s‖."""
    means: Floats
    """[S]: θ·x_s, the dose that the policy prefers in each context."""
    baseline: Floats
    """[1]: what is subtracted from rewards."""
    deviation: float
    """τ."""

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "the gradient at a Gaussian policy"


def empty_gradient(dimension: int) -> GradientStatistics:
    """Before anybody came.

    >>> empty_gradient(3).gradient.tolist()
    [0.0, 0.0, 0.0]
    """
    return GradientStatistics(
        gradient=np.zeros(dimension), reward=np.zeros(1), variance=np.zeros(2), releases=np.zeros(1, dtype=np.int64)
    )
