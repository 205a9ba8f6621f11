"""What every noise primitive offers: guarantee, sampler, precision and event in one object."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import require_real
from tacit.randomness import SimulationNoise

__all__ = ["Mechanism", "require_failure_prob", "require_simulation"]


class Mechanism(Protocol):
    """Independent, centred noise for every released counter."""

    @property
    def variance(self) -> float:
        """The variance of the noise in one counter (its largest value, where it depends on the data)."""

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> NDArray[np.float64]:
        """Draw centred noise for `size` counters, for simulations only."""

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|sum of `terms` independent noises| > t) <= failure_prob."""

    def events(self, family: Family) -> Events:
        """What the release of this family exposes one user to."""


def require_failure_prob(failure_prob: float) -> float:
    """Return `failure_prob` if it is a probability strictly between 0 and 1, or raise.

    >>> require_failure_prob(0.05)
    0.05
    """
    # 1 - 2^-53 is the largest float below 1.
    return require_real("failure_prob", failure_prob, low=0.0, high=1.0 - 2.0**-53, open_low=True)


def require_simulation(noise: SimulationNoise) -> np.random.Generator:
    """Return the generator of `noise`; anything but seeded noise belongs to the exact samplers.

    >>> require_simulation(SimulationNoise(np.random.default_rng(1))).integers(3) in (0, 1, 2)
    True
    """
    if not isinstance(noise, SimulationNoise):
        raise TypeError(f"this sampler is for simulations and takes SimulationNoise, not {type(noise).__name__}")
    return noise.generator
