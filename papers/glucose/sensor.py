"""Noise of a continuous glucose sensor, as published for the package's Dexcom: a slow process, read every 3 minutes.

every 15 minutes   e <- 0.7 (e + N(0, 1)), first e ~ N(0, 1); noise = xi + lambda sinh((e - gamma)/delta)
between            a cubic spline through eleven of them at a time (not-a-knot), the last of which begins the next
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import lean_kernel

__all__ = ["BLOCK", "LEAST", "MOST", "draw_noise", "first_noise", "spline"]

MOST, LEAST = 600.0, 39.0
"""What the sensor can show, mg/dL."""
NODES: Final = 10
"""New values per spline."""
BLOCK: Final = 50
"""Readings per spline: 150 minutes, one every three."""
XI, LAMBDA, GAMMA, DELTA, CARRY = -5.47, 15.9574, -0.5444, 1.6898, 0.7


@cache
def spline() -> Any:
    """[node, reading]: what each of the eleven values adds to each of the fifty readings."""
    from scipy.interpolate import CubicSpline

    knots, readings = np.arange(NODES + 1) * 15.0, np.arange(1, BLOCK + 1) * 3.0
    return np.ascontiguousarray(CubicSpline(knots, np.eye(NODES + 1), bc_type="not-a-knot")(readings).T)


@lean_kernel
def johnson(e: float) -> float:
    """The noise that belongs to a normal value: xi + lambda sinh((e - gamma)/delta)."""
    # sinh y = (exp(y) - exp(-y))/2; XI is far from 0, so nothing is lost where y is small.
    power = math.exp((e - GAMMA) / DELTA)
    return XI + LAMBDA * 0.5 * (power - 1.0 / power)


@lean_kernel
def first_noise(coins: np.random.Generator, process: Floats) -> None:
    """Begin the process [person, 2] anew: e, and the noise that belongs to it."""
    for n in range(process.shape[0]):
        process[n, 0] = coins.standard_normal()
        process[n, 1] = johnson(process[n, 0])


@lean_kernel
def _next(e: float, coins: np.random.Generator) -> tuple[float, float]:
    """The process fifteen minutes later, and the noise that belongs to it."""
    later = CARRY * (e + coins.standard_normal())
    return later, johnson(later)


@lean_kernel
def draw_noise(weights: Floats, coins: np.random.Generator, process: Floats, have: int, noise: Floats) -> int:
    """Extend noise [person, reading] beyond the first `have` readings, spline by spline, as far as it has room."""
    blocks: int = (noise.shape[1] - have) // BLOCK
    for n in range(process.shape[0]):
        e, value = process[n, 0], process[n, 1]
        for block in range(blocks):
            at, k0 = have + block * BLOCK, value
            e, k1 = _next(e, coins)
            e, k2 = _next(e, coins)
            e, k3 = _next(e, coins)
            e, k4 = _next(e, coins)
            e, k5 = _next(e, coins)
            e, k6 = _next(e, coins)
            e, k7 = _next(e, coins)
            e, k8 = _next(e, coins)
            e, k9 = _next(e, coins)
            e, value = _next(e, coins)
            for i in range(BLOCK):
                noise[n, at + i] = (
                    weights[0, i] * k0 + weights[1, i] * k1 + weights[2, i] * k2 + weights[3, i] * k3
                    + weights[4, i] * k4 + weights[5, i] * k5 + weights[6, i] * k6 + weights[7, i] * k7
                    + weights[8, i] * k8 + weights[9, i] * k9 + weights[10, i] * value
                )  # fmt: skip
        process[n, 0], process[n, 1] = e, value
    return have + blocks * BLOCK
