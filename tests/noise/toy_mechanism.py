"""A local mechanism of another package: Laplace noise blurred by a uniform variable. Public imports only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import NotSupported
from tacit.kernels import kernel
from tacit.noise import Additive, Laplace
from tacit.noise.additive import Amount, additive_encoder
from tacit.noise.protocol import Shape
from tacit.randomness import SecureNoise, SimulationNoise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def blurred_unit(generator: np.random.Generator) -> float:
    """Laplace noise of scale 1 plus a uniform variable on (-1/2, 1/2)."""
    sign = 1.0 if generator.random() < 0.5 else -1.0
    return sign * generator.standard_exponential() + generator.random() - 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Blurred(Additive):
    """Scale times (Laplace + uniform): as private as the Laplace noise, because the rest is post-processing."""

    scale: float

    NAME: ClassVar[str] = "toy"
    SUMMARY: ClassVar[str] = "Laplace noise, blurred"
    PURE: ClassVar[bool] = True

    @property
    def variance(self) -> float:
        return self.scale**2 * (2.0 + 1.0 / 12.0)

    @property
    def whole(self) -> bool:
        return False

    @property
    def parameters(self) -> Amount:
        return Amount(scale=self.scale)

    @property
    def subgamma(self) -> float:
        return self.scale  # a uniform variable is sub-Gaussian with its own variance

    @property
    def encoder(self) -> Callable[..., None]:
        return additive_encoder(blurred_unit)

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        draw = noise.generator
        return self.scale * (draw.laplace(size=size) + draw.uniform(-0.5, 0.5, size))

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        log_term = math.log(2.0 / failure_prob)
        return math.sqrt(2.0 * terms * self.variance * log_term) + self.subgamma * log_term

    def events(self, family: Family) -> Events:
        return Laplace(scale=self.scale, discrete=False).events(family)

    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        # The blur costs the adversary something; the score of the Laplace noise alone is still a valid attack.
        return Laplace(scale=self.scale, discrete=False).log_ratio(values, shift)

    def summed(self, size: int, users: int, noise: SimulationNoise) -> Floats:
        return self.sample((users, size), noise).sum(axis=0)

    def integers(self, size: int, noise: SecureNoise) -> Ints:
        raise NotSupported("a toy is not deployed")

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float) -> Self:
        return cls(scale=Laplace.calibrate(families, epsilon, delta).scale)

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> tuple[Self, Self]:
        raise NotSupported("no paper prints a toy; use calibration 'tight'")
