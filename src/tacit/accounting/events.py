"""What a mechanism does to one differing counter, once: frozen descriptions, never opinions.

An event says which noise covered which shift. How much privacy that costs is an accountant's business; how often it
happens is written beside it, as a pair (event, count), and the count is multiplied in exactly one line of tacit.
The sign of a shift matters only where the noise is not symmetric (biased bits): there, up and down are two events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tacit.errors import require_count, require_real

__all__ = [
    "BinomialEvent",
    "BoundedEvent",
    "Event",
    "Events",
    "GaussianEvent",
    "LaplaceEvent",
    "PureEvent",
    "SampledGaussianEvent",
    "UnprotectedEvent",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprotectedEvent:
    """Released as it is: epsilon is infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PureEvent:
    """One use of a mechanism whose loss is ±epsilon, attained: one randomized bit, one unary-encoded slot."""

    epsilon: float

    def __post_init__(self) -> None:
        require_real("epsilon of an event", self.epsilon, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceEvent:
    """Laplace noise of this scale (continuous, or discrete on the integers) over one shift."""

    scale: float
    shift: float
    discrete: bool

    def __post_init__(self) -> None:
        require_real("scale", self.scale, low=0.0, open_low=True)
        require_real("shift", self.shift, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianEvent:
    """Gaussian noise of this parameter sigma (continuous, or discrete on the integers) over one shift."""

    sigma: float
    shift: float
    discrete: bool = False

    def __post_init__(self) -> None:
        require_real("sigma", self.sigma, low=0.0, open_low=True)
        require_real("shift", self.shift, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialEvent:
    """Binomial(bits, probability) noise over a shift of +1 or -1 in an integer counter."""

    bits: int
    probability: float
    shift: int

    def __post_init__(self) -> None:
        require_count("bits", self.bits)
        require_real("probability of a noise bit", self.probability, low=0.0, high=1.0, open_low=True)
        require_real("shift", self.shift, low=-1, high=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedEvent:
    """Bounded double-exponential noise on (-radius, radius) over one shift."""

    radius: float
    shift: float

    def __post_init__(self) -> None:
        require_real("radius", self.radius, low=0.0, open_low=True)
        require_real("shift", self.shift, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussianEvent:
    """Gaussian noise over the sum of a Poisson sample: each user takes part with probability `rate`, independently.

    `norm` bounds the vector that one user adds when taking part.
    """

    sigma: float
    norm: float
    rate: float

    def __post_init__(self) -> None:
        require_real("sigma", self.sigma, low=0.0, open_low=True)
        require_real("norm", self.norm, low=0.0)
        require_real("sampling rate", self.rate, low=0.0, high=1.0, open_low=True)


Event: TypeAlias = (
    UnprotectedEvent | PureEvent | LaplaceEvent | GaussianEvent | BinomialEvent | BoundedEvent | SampledGaussianEvent
)
Events: TypeAlias = tuple[tuple[Event, int], ...]
"""Everything one user is exposed to: events with the number of times each happens."""
