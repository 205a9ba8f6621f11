"""The k-ary tree with subtraction as a stream: about one fresh draw and one addition per counter and step.

The prefix k is written in balanced digits w_j ∈ {-m..m} of an odd base. When a digit grows to a positive value, one new
node is added; when it wraps from m to -m (and the next digit grows), m new nodes on the far side of its block are
subtracted at once; while it climbs back to zero they are taken away one by one. So a level keeps the sum of its added
nodes, and the partial sums of its subtracted ones; sums[j] is the noise of all levels from the top down to j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import BudgetSpent
from tacit.kernels import kernel
from tacit.mechanisms.tree_stream import fill_laplace

__all__ = ["KaryParams", "KaryState", "kary_advance", "kary_begin", "kary_draws_needed", "kary_step"]


class KaryParams(NamedTuple):
    """What the kernels need of a k-ary tree: all public."""

    releases: int
    scale: float
    levels: int
    half: int
    discrete: bool


class KaryState(NamedTuple):
    """The noise of d counters, m = (arity - 1) / 2."""

    time: NDArray[np.int64]  # [1], users so far
    digits: NDArray[np.int64]  # [levels], balanced digits of the time
    added: NDArray[np.float64]  # [levels, d], noise of the added nodes of each level
    tails: NDArray[np.float64]  # [levels, m + 1, d], tails[j, r] = noise of the last r children of the block
    sums: NDArray[np.float64]  # [levels + 1, d], noise of the levels from the top down
    draws: NDArray[np.float64]  # [levels · m + 1, d], fresh noise of this step
    noise: NDArray[np.float64]  # [d], noise of the current prefix


def kary_begin(params: KaryParams, dimension: int) -> KaryState:
    """The stream before the first user."""
    return KaryState(
        time=np.zeros(1, dtype=np.int64),
        digits=np.zeros(params.levels, dtype=np.int64),
        added=np.zeros((params.levels, dimension)),
        tails=np.zeros((params.levels, params.half + 1, dimension)),
        sums=np.zeros((params.levels + 1, dimension)),
        draws=np.zeros((params.levels * params.half + 1, dimension)),
        noise=np.zeros(dimension),
    )


@kernel
def kary_draws_needed(params: KaryParams, state: KaryState) -> int:
    """How many new nodes the next step uses."""
    level = 0
    while level < params.levels and state.digits[level] == params.half:
        level += 1
    grows = level < params.levels and state.digits[level] >= 0
    return level * params.half + (1 if grows else 0)


@kernel
def kary_advance(params: KaryParams, state: KaryState, draws: NDArray[np.float64]) -> None:
    """Count one more user: the rows of `draws` are the noises of the new nodes, lowest level first."""
    if state.time[0] >= params.releases:
        raise BudgetSpent("all releases of this tree are spent; calibrate one with more steps")
    state.time[0] += 1
    size = state.noise.shape[0]
    level = 0
    row = 0
    # k ↦ k + 1: digits at m wrap to -m, and m new nodes on the far side of their block are subtracted.
    while state.digits[level] == params.half:
        state.digits[level] = -params.half
        for r in range(1, params.half + 1):
            for c in range(size):
                state.tails[level, r, c] = state.tails[level, r - 1, c] + draws[row, c]
            row += 1
        level += 1
    # The first other digit grows: towards zero it drops a subtracted node, above zero it adds a new one.
    state.digits[level] += 1
    if state.digits[level] == 1:
        for c in range(size):
            state.added[level, c] = draws[row, c]
    elif state.digits[level] > 1:
        for c in range(size):
            state.added[level, c] += draws[row, c]
    # noise(k) = Σ_j sign(w_j) Σ (noise of the |w_j| nodes of level j)
    while level >= 0:
        digit = state.digits[level]
        if digit > 0:
            for c in range(size):
                state.sums[level, c] = state.sums[level + 1, c] + state.added[level, c]
        else:
            for c in range(size):
                state.sums[level, c] = state.sums[level + 1, c] - state.tails[level, -digit, c]
        level -= 1
    for c in range(size):
        state.noise[c] = state.sums[0, c]


@kernel
def kary_step(params: KaryParams, state: KaryState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Laplace noise."""
    fill_laplace(state.draws, kary_draws_needed(params, state), params.scale, params.discrete, generator)
    kary_advance(params, state, state.draws)
