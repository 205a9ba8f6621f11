"""Gradients in whole numbers: each person's gradient, clipped, times M, cut towards zero, and summed.

    t_i = whole part of M g_i towards zero, if Σ_j t_ij² ≤ limit in integers; else 0    Lemma D7 (truncated gradients)

G1  Truncation never makes a vector longer, and what counts is decided by integers: no rounding of floating-point
    numbers, NaN, infinity or hostile policy can make a person add more than √limit.
G2  Without a clip (one step of tabular softmax) two people are at most M · shift + 2√A apart: √A for truncation, and as
    much again for the rounding of floating-point numbers.
G3  The mean reward, centred at the middle of [0, 1], is one more whole number per person.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.data.gradients import Bounds, GradientSums, add_gradients, begin_sums
from tacit.kernels import kernel
from tacit.policies.softmax import add_pull_back
from tacit.release.gradient_noise import GradientSpec, Reach, reached
from tacit.released.gradients import GradientShape, SoftmaxQuery
from tacit.statistics.trajectory_body import Decoded

LARGEST_NORM: Final = 1 << 30
"""Of one person's vector in units: its square, and the sum of two such squares, fit into 64 bits."""


@kernel
def add_truncated(gradient: Floats, unit: float, limit: int, whole: Ints, total: Ints) -> bool:
    """Add the whole part of unit · gradient towards zero to the total, unless it is too long or no number (G1)."""
    most = math.sqrt(limit) + 1.0
    square = 0
    for j in range(gradient.shape[0]):
        x = gradient[j] * unit
        if not abs(x) <= most:  # NaN, too
            return False
        whole[j] = int(x)
        square += whole[j] * whole[j]
        if square > limit:
            return False
    for j in range(gradient.shape[0]):
        total[j] += whole[j]
    return True


@kernel
def _add_people(
    bounds: Bounds,
    query: SoftmaxQuery,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    chosen: NDArray[np.bool_],
    sums: GradientSums,
    gradient: Floats,
    unit: float,
    limit: int,
    whole: Ints,
    total: Ints,
) -> None:
    """Every chosen person's gradient on its own, truncated and added."""
    for i in range(actions.shape[0]):
        if not chosen[i]:
            continue
        add_gradients(
            bounds, query.features, query.table, query.behaviour, states[i : i + 1], actions[i : i + 1],
            rewards[i : i + 1], chosen[i : i + 1], query.baseline[0], sums,
        )  # fmt: skip
        for j in range(gradient.shape[0]):
            gradient[j] = 0.0
        add_pull_back(query.features, sums.weights, 1.0, gradient)
        add_truncated(gradient, unit, limit, whole, total)


def gradient_sums(
    shape: GradientShape,
    bounds: Bounds,
    query: SoftmaxQuery,
    people: Decoded,
    levels: int,
    chosen: NDArray[np.bool_],
    unit: int,
    most: WholeReach,
) -> Ints:
    """The exact sum of all chosen people's whole numbers: gradient, and the centred mean reward if it has a bound."""
    H = shape.horizon
    total = np.zeros(shape.dimension + (1 if most.reward > 0 else 0), dtype=np.int64)
    sums = begin_sums(query.features, shape.stages, shape.num_states, shape.num_actions, H)
    _add_people(
        bounds,
        query,
        np.ascontiguousarray(people.states[:, :H]),
        np.ascontiguousarray(people.actions),
        people.levels / levels,
        chosen,
        sums,
        np.zeros(shape.dimension),
        float(unit),
        most.limit,
        np.zeros(shape.dimension, dtype=np.int64),
        total[: shape.dimension],
    )
    if most.reward > 0:
        # 2 · most · (r̄ - 1/2), in integers: most · (2 Σ k - H·levels)/(H·levels), towards zero
        centred = 2 * people.levels[chosen].sum(axis=1) - H * levels
        total[-1] = int((np.sign(centred) * (most.reward * np.abs(centred) // (H * levels))).sum())
    return total


class WholeReach(NamedTuple):
    """What one person's whole numbers can be, in units of 1/M."""

    limit: int
    """The largest Σ_j t_j² of a gradient."""
    reward: int
    """The largest |t| of the mean reward; 0: it is not released."""
    reach: Reach
    """Norm and shift of all of them together."""


@lru_cache(maxsize=256)
def whole_reach(spec: GradientSpec, shape: GradientShape, unit: int) -> WholeReach:
    """Bounds of one person's whole numbers, and what a replacement moves (G1, G2, G3)."""
    lo, hi = spec.weights
    constant = 0.0 if spec.baseline is None else spec.baseline
    alone, _ = reached(replace(spec, baseline=constant), shape, lo, hi)
    _, weight = reached(spec, shape, lo, hi)
    spare = 2.0 * math.sqrt(shape.num_actions) if spec.exact(shape) else 0.0
    norm, shift = Fraction(unit * alone.norm + spare), Fraction(unit * alone.shift + spare)
    if spec.clip is not None:
        norm, shift = min(norm, unit * Fraction(spec.clip)), min(shift, 2 * unit * Fraction(spec.clip))
    reward = math.floor(unit * weight / 2.0)
    up = 1.0 + 1e-12
    reach = Reach(norm=math.hypot(norm, reward) * up, shift=math.hypot(shift, 2.0 * reward) * up)
    return WholeReach(limit=math.floor(norm**2), reward=reward, reach=reach)
