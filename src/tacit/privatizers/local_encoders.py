"""What a device does before anything leaves it: the encoders of the local model, one kernel per mechanism.

An encoder writes one user's noisy statistics (the message) into a flat vector; the server only adds messages up.
Every encoder is unbiased. Additive noise covers real rewards; the one-bit mechanisms round a reward to {0, 1} at random
on the device first, with the reward as probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel, lean_kernel
from tacit.mechanisms.subset_selection import add_subset
from tacit.mechanisms.tree_stream import laplace_draw
from tacit.privatizers.layout import clipped_index, exact_vector, outcome_cell, transition_cell, transition_cells

__all__ = [
    "Bits",
    "EncoderParameters",
    "additive_encoder",
    "bounded_unit",
    "gaussian_unit",
    "laplace_encoder",
    "laplace_unit",
    "one_slot_encoder",
    "randomized_response_encoder",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIGNS = 52
"""So many fair coins are taken from one uniform number, which has 53 random bits."""
COINS = 2.0**SIGNS


class Bits(NamedTuple):
    """How the bits of one one-hot vector are randomized and de-biased."""

    keep: float
    """The probability that a one is sent as one."""
    rise: float
    """The probability that a zero is sent as one."""
    gain: float
    """The factor of the de-biasing."""
    subset: int
    """How many cells are sent as one; 0: each bit on its own."""


class EncoderParameters(NamedTuple):
    """Public parameters of an encoder."""

    stages: int
    S: int
    A: int
    complement: bool
    scale: float
    """Additive noise: its scale in rewards, visits and complements."""
    transition_scale: float
    """Additive noise: its scale in transitions."""
    outcome_bits: Bits
    transition_bits: Bits
    variance: Floats
    """[3]: noise variance that one user adds to a cell of transitions, visits, rewards."""


@kernel
def laplace_unit(generator: np.random.Generator) -> float:
    """Laplace noise of scale 1."""
    return laplace_draw(generator)


@kernel
def gaussian_unit(generator: np.random.Generator) -> float:
    """Gaussian noise of standard deviation 1."""
    return generator.standard_normal()


@kernel
def bounded_unit(generator: np.random.Generator) -> float:
    """Bounded double-exponential noise of radius 1, by rejection from the uniform distribution on (-1, 1)."""
    while True:
        x = 2.0 * generator.random() - 1.0
        # density ∝ exp(-exp(1/(1-x²))), at most exp(-e): accept with exp(e - exp(1/(1-x²)))
        inside = 1.0 - x * x
        if inside > 0.0 and generator.random() < math.exp(math.e - math.exp(min(700.0, 1.0 / inside))):
            return x


@lean_kernel
def laplace_encoder(
    parameters: EncoderParameters,
    message: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Independent Laplace noise in every counter, as exponential variates with random signs: no logarithms."""
    stages, S, A = parameters.stages, parameters.S, parameters.A
    first, size = transition_cells(actions.shape[0], stages, S, A), message.shape[0]
    for start in range(0, size, SIGNS):
        coins = int(generator.random() * COINS)
        for c in range(start, min(size, start + SIGNS)):
            scale = parameters.transition_scale if c < first else parameters.scale
            # Lap(b) = ± b Exp(1)
            message[c] = (1.0 - 2.0 * (coins & 1)) * scale * generator.standard_exponential()
            coins >>= 1
    exact_vector(message, stages, S, A, parameters.complement, states, actions, rewards)


@cache
def additive_encoder(unit: Callable[[np.random.Generator], float]) -> Callable[..., None]:
    """The encoder that adds independent noise, `scale` times `unit`, to every counter."""

    @lean_kernel
    def encode(
        parameters: EncoderParameters,
        message: Floats,
        states: Ints,
        actions: Ints,
        rewards: Floats,
        generator: np.random.Generator,
    ) -> None:
        stages, S, A = parameters.stages, parameters.S, parameters.A
        first = transition_cells(actions.shape[0], stages, S, A)
        for c in range(first):
            message[c] = parameters.transition_scale * unit(generator)
        for c in range(first, message.shape[0]):
            message[c] = parameters.scale * unit(generator)
        exact_vector(message, stages, S, A, parameters.complement, states, actions, rewards)

    return encode


@lean_kernel
def randomized_response_encoder(
    parameters: EncoderParameters,
    message: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Every bit of every step is sent, each kept with probability `keep` and flipped otherwise."""
    horizon = actions.shape[0]
    message[:] = 0.0
    for h in range(horizon):
        _send_slot(parameters, message, 2 * h, states, actions, rewards, generator)
        if h < horizon - 1:
            _send_slot(parameters, message, 2 * h + 1, states, actions, rewards, generator)


@lean_kernel
def one_slot_encoder(
    parameters: EncoderParameters,
    message: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """One one-hot vector (slot) of the trajectory, chosen without looking at the data, is sent with all of epsilon."""
    message[:] = 0.0
    # Slots: 0, 2, 4, ... the outcomes (s,a,r) of the H steps; 1, 3, ... their H-1 transitions.
    slot = int(generator.random() * (2 * actions.shape[0] - 1))
    _send_slot(parameters, message, slot, states, actions, rewards, generator)


@lean_kernel
def _send_slot(
    parameters: EncoderParameters,
    message: Floats,
    slot: int,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    generator: np.random.Generator,
) -> None:
    """Send the bits of one slot: outcomes of step slot/2 (even) or its transition (odd); de-biased on arrival."""
    stages, S, A = parameters.stages, parameters.S, parameters.A
    horizon = actions.shape[0]
    h = slot // 2
    stage = min(h, stages - 1)
    s, a = clipped_index(states[h], S), clipped_index(actions[h], A)
    base = transition_cells(horizon, stages, S, A)
    block = stages * S * A
    if slot % 2 == 1:
        first = transition_cell(stage, 0, 0, 0, S, A)
        hot = transition_cell(stage, s, a, clipped_index(states[h + 1], S), S, A) - first
        _send_vector(parameters.transition_bits, message, first, S * A * S, 0, S * A * S, hot, generator)
        return
    first = base + outcome_cell(stage, 0, 0, S, A)
    cell = base + outcome_cell(stage, s, a, S, A) - first
    one = generator.random() < rewards[h]  # certain from 1 on, never for NaN: a clip of its own
    bits = parameters.outcome_bits
    if parameters.complement:
        # (s,a) with reward 1, or (s,a) with reward 0: one of the two blocks holds the one
        hot = cell if one else S * A + cell
        _send_vector(bits, message, first, S * A, block - S * A, 2 * S * A, hot, generator)
    else:
        _send_vector(bits, message, first, S * A, 0, S * A, cell if one else -1, generator)
        _send_vector(bits, message, first + block, S * A, 0, S * A, cell, generator)


@lean_kernel
def _send_vector(
    bits: Bits,
    message: Floats,
    first: int,
    half: int,
    jump: int,
    cells: int,
    hot: int,
    generator: np.random.Generator,
) -> None:
    """Send a one-hot vector; cell i stands at message[first + i], or from `half` on `jump` further."""
    # n̂ = (bit - q) / (p - q), times the number of slots where only one is sent
    for i in range(cells):
        c = first + i + (jump if i >= half else 0)
        sent = bits.subset == 0 and generator.random() < (bits.keep if i == hot else bits.rise)
        message[c] += bits.gain * ((1.0 if sent else 0.0) - bits.rise)
    if bits.subset > 0:
        add_subset(message, first, half, jump, cells, hot, bits.subset, bits.keep, bits.gain, generator)
