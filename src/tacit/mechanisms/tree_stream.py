"""The binary tree as a stream: one fresh draw and one addition per counter and step.

Prefix k is the sum of one node for every 1-bit of k. Written from the highest bit down, the noise of prefix k is that
of prefix k & (k-1) (k without its lowest 1-bit) plus the node of the lowest bit, which is new at step k. So the stream
keeps, for every level, the noise of the current prefix down to that level; a node's noise is drawn once and stays
inside those sums for as long as the node is in use.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import BudgetSpent
from tacit.kernels import kernel

__all__ = [
    "TreeParams",
    "TreeState",
    "draws_needed",
    "fill_laplace",
    "gaussian_tree_step",
    "laplace_draw",
    "laplace_tree_step",
    "tree_advance",
    "tree_begin",
]


class TreeParams(NamedTuple):
    """What the kernels need of a tree: all public."""

    releases: int
    scale: float
    levels: int
    padded: bool
    discrete: bool


class TreeState(NamedTuple):
    """The noise of d counters: sums[level] is the noise of the current prefix from the top down to `level`."""

    time: NDArray[np.int64]  # [1], users so far
    sums: NDArray[np.float64]  # [levels, d]
    draws: NDArray[np.float64]  # [1, d] or, padded, [levels, d]: fresh noise of this step
    noise: NDArray[np.float64]  # [d], noise of the current prefix


def tree_begin(params: TreeParams, dimension: int) -> TreeState:
    """The stream before the first user."""
    fresh = params.levels if params.padded else 1
    return TreeState(
        time=np.zeros(1, dtype=np.int64),
        sums=np.zeros((params.levels, dimension)),
        draws=np.zeros((fresh, dimension)),
        noise=np.zeros(dimension),
    )


@kernel
def laplace_draw(generator: np.random.Generator) -> float:
    """One unit-scale Laplace variable from one uniform; symmetric, and never infinite."""
    u = generator.random()
    if u < 0.5:
        return math.log(2.0 * (u + 1.1102230246251565e-16))  # u is a multiple of 2⁻⁵³, so u + 2⁻⁵³ mirrors 1 − u
    return -math.log(2.0 * (1.0 - u))


@kernel
def fill_laplace(
    draws: NDArray[np.float64], rows: int, scale: float, discrete: bool, generator: np.random.Generator
) -> None:
    """Fresh Laplace noise, continuous or on the integers, in the first `rows` rows of `draws`."""
    for row in range(rows):
        for c in range(draws.shape[1]):
            if discrete:
                # ⌊b E⌋ is geometric with ratio e^{-1/b}; the difference of two is the discrete Laplace.
                up = math.floor(-scale * math.log(1.0 - generator.random()))
                down = math.floor(-scale * math.log(1.0 - generator.random()))
                draws[row, c] = up - down
            else:
                draws[row, c] = scale * laplace_draw(generator)


@kernel
def tree_advance(params: TreeParams, state: TreeState, draws: NDArray[np.float64]) -> None:
    """Count one more user: draws[0] is the noise of the new node, further rows are padding."""
    k = int(state.time[0]) + 1
    if k > params.releases:
        raise BudgetSpent("all releases of this tree are spent; calibrate one with more steps")
    state.time[0] = k
    low = 0
    while (k >> low) & 1 == 0:
        low += 1
    high = low + 1
    while k >> high != 0 and (k >> high) & 1 == 0:
        high += 1
    size = state.noise.shape[0]
    # noise(k) = noise(k & (k-1)) + Z_new
    if k >> high == 0:
        for c in range(size):
            state.sums[low, c] = draws[0, c]
    else:
        for c in range(size):
            state.sums[low, c] = state.sums[high, c] + draws[0, c]
    for c in range(size):
        state.noise[c] = state.sums[low, c]
    # [bai2024adversarial] variant: fresh terms, used once, up to exactly `levels` of them.
    for row in range(1, draws_needed(params, k)):
        for c in range(size):
            state.noise[c] += draws[row, c]


@kernel
def draws_needed(params: TreeParams, k: int) -> int:
    """How many fresh vectors step k consumes: the new node, and in the padded variant one per 0-bit of k."""
    if not params.padded:
        return 1
    zeros = params.levels
    rest = k
    while rest != 0:
        zeros -= rest & 1
        rest >>= 1
    return 1 + zeros


@kernel
def laplace_tree_step(params: TreeParams, state: TreeState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Laplace noise."""
    fill_laplace(state.draws, draws_needed(params, int(state.time[0]) + 1), params.scale, params.discrete, generator)
    tree_advance(params, state, state.draws)


@kernel
def gaussian_tree_step(params: TreeParams, state: TreeState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Gaussian noise."""
    for c in range(state.noise.shape[0]):
        state.draws[0, c] = params.scale * generator.standard_normal()
    tree_advance(params, state, state.draws)
