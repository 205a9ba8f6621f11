"""Policy gradients in either world: tabular MDPs with softmax policies, dose bandits with Gaussian ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.environments.dose_bandit import DoseBandit
from tacit.learners.gradient import GradientLearner
from tacit.loop.dose_loop import run_doses
from tacit.loop.gradient_loop import run_gradient
from tacit.loop.gradient_measures import GradientRun

__all__ = ["simulate_gradient"]


def simulate_gradient(
    world: Any,
    learner: GradientLearner,
    privatizer: Any,
    marks: NDArray[np.int64],
    seed: int,
    *,
    compiled: bool = True,
    progress: Callable[[int], None],
) -> GradientRun:
    """Run a policy gradient learner; the final parameters in the result are the hook for audits."""
    episodes = int(marks[-1])
    if isinstance(world, DoseBandit):
        return run_doses(world, learner, privatizer, episodes=episodes, seed=seed, marks=marks, progress=progress)
    return run_gradient(
        world, learner, privatizer, episodes=episodes, seed=seed, marks=marks, compiled=compiled, progress=progress
    )
