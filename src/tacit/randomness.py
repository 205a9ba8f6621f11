"""Two sources of randomness that never convert into each other.

`SimulationNoise` wraps a seeded NumPy generator: reproducible, fast, and therefore worthless as protection.
`SecureNoise` draws from the operating system's CSPRNG: protects people, cannot be seeded or replayed.
A simulation may only use the first, a deployment may only release with the second, and the ledger records which it was.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.errors import LARGEST_SEED, InvalidInput, require_count


@dataclass(frozen=True, slots=True)
class SimulationNoise:
    """Seeded noise, for simulations only."""

    generator: np.random.Generator
    kind: Literal["simulation"] = "simulation"

    def __post_init__(self) -> None:
        if not isinstance(self.generator, np.random.Generator):
            raise InvalidInput(
                f"SimulationNoise needs a numpy.random.Generator, got {type(self.generator).__name__}; "
                "use numpy.random.default_rng(seed)"
            )


@dataclass(frozen=True, slots=True)
class SecureNoise:
    """Noise from the operating system's CSPRNG, for releases that must protect somebody; takes no seed.

    >>> len(SecureNoise().random_bytes(16))
    16
    """

    kind: Literal["secure"] = "secure"

    def random_bytes(self, count: int) -> bytes:
        """`count` bytes from the operating system."""
        return os.urandom(require_count("count", count, least=0))


@dataclass(frozen=True, slots=True)
class Streams:
    """The independent generators of one simulated run: the world, the learner's own coins, the privatizer's noise."""

    world: np.random.Generator
    learner: np.random.Generator
    noise: np.random.Generator


def seed_streams(seed: int) -> Streams:
    """Spawn the generators of the run with this seed; they depend on nothing else, whatever runs beside it.

    >>> first, again = seed_streams(7), seed_streams(7)
    >>> bool(first.world.random() == again.world.random() != first.noise.random())
    True
    """
    children = np.random.SeedSequence(require_count("seed", seed, 0, LARGEST_SEED)).spawn(3)
    world, learner, noise = (np.random.Generator(np.random.PCG64(child)) for child in children)
    return Streams(world=world, learner=learner, noise=noise)
