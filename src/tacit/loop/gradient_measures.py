"""Simulation only: what a run of a policy gradient is judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["GradientRun", "Objective"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Simulation only: what the theorems of [he2025policy] speak about, exactly."""

    final: float
    """J of the policy in the end."""
    uniform: float
    """J(θ_U), θ_U uniform among the iterates."""
    average: float
    """(1/T) Σ_t J(θ_t)."""
    optimal: float
    """J*."""
    stationarity: float
    """(1/T) Σ_t ‖∇J(θ_t)‖² = E_U ‖∇J(θ_U)‖²."""
    regularised: float
    """The same for J_λ, the objective with the log-barrier."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientRun:
    """What the simulator saw of one run, and what was learned."""

    regret: Floats
    """[checkpoint]: cumulative pseudo-regret (simulation only)."""
    objective: Objective
    theta: Floats
    """The final parameters: what a curator would publish, and all that an audit may look at."""
    theta_sampled: Floats
    """θ_U."""
    batches: int
    seconds: float
