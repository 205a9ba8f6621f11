"""The buffered factorization as a stream: one Gaussian draw and a few multiplications per counter and step.

The noise of prefix k is (B z)_k = z_k + Σ_i ω_i s_i, where buffer i holds s_i = Σ_{j<k} θ_i^{k-1-j} z_j and decays by
its rate p_i = 1 − θ_i with every step. Nothing else is kept, so the memory does not depend on the number of steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import BudgetSpent
from tacit.kernels import kernel

__all__ = ["BufferedParams", "BufferedState", "buffered_advance", "buffered_begin", "buffered_step"]


class BufferedParams(NamedTuple):
    """What the kernels need of a buffered factorization: all public."""

    releases: int
    sigma: float
    rates: NDArray[np.float64]  # [buffers], p_i
    weights: NDArray[np.float64]  # [buffers], ω_i


class BufferedState(NamedTuple):
    """The noise of d counters."""

    time: NDArray[np.int64]  # [1], users so far
    buffers: NDArray[np.float64]  # [buffers, d]
    draws: NDArray[np.float64]  # [1, d], fresh noise of this step
    noise: NDArray[np.float64]  # [d], noise of the current prefix


def buffered_begin(params: BufferedParams, dimension: int) -> BufferedState:
    """The stream before the first user."""
    return BufferedState(
        time=np.zeros(1, dtype=np.int64),
        buffers=np.zeros((params.rates.size, dimension)),
        draws=np.zeros((1, dimension)),
        noise=np.zeros(dimension),
    )


@kernel
def buffered_advance(params: BufferedParams, state: BufferedState, draws: NDArray[np.float64]) -> None:
    """Count one more user: draws[0] is the fresh noise z of this step."""
    if state.time[0] >= params.releases:
        raise BudgetSpent("all releases of this counter are spent; calibrate one with more steps")
    state.time[0] += 1
    size = state.noise.shape[0]
    for c in range(size):
        state.noise[c] = draws[0, c]
    for i in range(params.rates.shape[0]):
        rate, weight = params.rates[i], params.weights[i]
        for c in range(size):
            # noise_k = z_k + Σ_i ω_i s_i,    s_i ← θ_i s_i + z_k
            state.noise[c] += weight * state.buffers[i, c]
            state.buffers[i, c] += draws[0, c] - rate * state.buffers[i, c]


@kernel
def buffered_step(params: BufferedParams, state: BufferedState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Gaussian noise."""
    for c in range(state.noise.shape[0]):
        state.draws[0, c] = params.sigma * generator.standard_normal()
    buffered_advance(params, state, state.draws)
