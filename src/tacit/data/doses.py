"""Sensitive: users of a dose bandit, and what they add to the gradient of a Gaussian policy.

    a ~ N(θ·x_s, τ²),   ∇ log π(a|s) = x_s (a - θ·x_s)/τ²

The score is unbounded, so without clipping the gradient has no finite sensitivity; each user's gradient is clipped.
Everybody in a context pulls along x_s, so a batch is described by one number per context.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.gradients import Bounds
from tacit.data.trajectories import alias_draw
from tacit.environments.dose_bandit import DoseBandit
from tacit.kernels import kernel

__all__ = ["Clinic", "Dosed", "add_dose_gradients", "draw_doses", "prepare_clinic"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Dosed(NamedTuple):
    """A batch of users: contexts states[i], doses actions[i] and outcomes rewards[i]."""

    states: Ints
    actions: Floats
    rewards: Floats

    def __repr__(self) -> str:
        return "Dosed()"  # never their contents


class Clinic(NamedTuple):
    """A dose bandit prepared for sampling."""

    features: Floats
    """[S,k]"""
    norms: Floats
    """[S]: ‖x_s‖."""
    target: Floats
    first_cut: Floats
    first_other: Ints
    width: float
    deviation: float


def prepare_clinic(bandit: DoseBandit) -> Clinic:
    """Alias tables and norms of a dose bandit."""
    from tacit.data.trajectories import _alias_tables

    cut, other = _alias_tables(np.array(bandit.rho).reshape(1, -1))
    features = np.array(bandit.features)
    return Clinic(
        features=features,
        norms=np.sqrt((features**2).sum(axis=1)),
        target=np.array(bandit.target),
        first_cut=cut[0],
        first_other=other[0],
        width=bandit.width,
        deviation=bandit.deviation,
    )


@kernel
def draw_doses(
    clinic: Clinic, means: Floats, generator: np.random.Generator, states: Ints, actions: Floats, rewards: Floats
) -> None:
    """Let users come: context, dose and outcome of each; means[s] = θ·x_s."""
    for i in range(states.shape[0]):
        s = alias_draw(clinic.first_cut, clinic.first_other, generator.random())
        a = means[s] + clinic.deviation * generator.standard_normal()
        off = (a - clinic.target[s]) / clinic.width
        states[i] = s
        actions[i] = a
        rewards[i] = 1.0 if generator.random() < math.exp(-0.5 * off * off) else 0.0


class GaussianPolicies(Protocol):
    """What the gradient at a Gaussian policy depends on, beside its means; a clinic or a query."""

    @property
    def features(self) -> Floats: ...
    @property
    def norms(self) -> Floats: ...
    @property
    def deviation(self) -> float: ...


@kernel
def add_dose_gradients(
    bounds: Bounds,
    clinic: GaussianPolicies,
    means: Floats,
    states: Ints,
    actions: Floats,
    rewards: Floats,
    chosen: NDArray[np.bool_],
    baseline: float,
    pulls: Floats,
) -> float:
    """Write the batch's pull along each context's features, every user clipped; returns the sum of rewards."""
    pulls[:] = 0.0
    total = 0.0
    for i in range(states.shape[0]):
        if not chosen[i]:
            continue
        s, r = states[i], rewards[i]
        if not r >= bounds.low:  # NaN, too
            r = bounds.low
        elif r > bounds.high:
            r = bounds.high
        total += r
        # g = (r - b) (a - θ·x_s)/τ² x_s, at most `clip` long
        pull = (r - baseline) * (actions[i] - means[s]) / clinic.deviation**2
        if not abs(pull) < math.inf:  # NaN, too: what has no length cannot be clipped, and adds nothing
            continue
        most = bounds.clip * (1.0 - 1e-12) / max(clinic.norms[s], 1e-300)
        if abs(pull) > most:
            pull = most if pull > 0.0 else -most
        pulls[s] += pull
    return total
