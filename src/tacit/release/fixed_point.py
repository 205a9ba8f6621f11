"""Fixed point: whole numbers in units of 1/M with exact discrete Gaussian noise, accounted for as continuous noise.

    payload = Σ people + z,    z on the integers with P(z) ∝ exp(-z²/2s²),    s² = variance, a whole number

G1  A payload is whole numbers, little endian, eight bytes each; nothing is rounded after the noise.
G2  Rounding a continuous Gaussian of the same s differs from z by at most 0.0203/s² in total variation, for every
    coordinate, if s ≥ 256: Lemma N7 (rounded Gaussian). So what holds for the continuous Gaussian at (ε, δ) holds here
    at (ε, δ + (1 + e^ε) tv): the event `ApproximationEvent`.
G3  Secure and simulated noise are the same integer sampler on two sources of bits: the same law, exactly.
G4  The unit 1/M is the largest power of two (at most 2^-16) at which the slack is below a thousandth of δ, for every ε
    up to 8 above the claimed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import ApproximationEvent, Events
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.arrays import Ints
from tacit.errors import NotSupported, require, require_count
from tacit.noise.exact import discrete_gaussian
from tacit.noise.exact.bits import Bits, word_dtype
from tacit.noise.exact.blocks import LARGEST_SCALE, GaussianBlocks, block_shift, draw_symmetric
from tacit.protocol import Noise
from tacit.randomness import SecureNoise, SimulationNoise

MIN_STD: Final = 256
"""The least standard deviation, in units, for which Lemma N7 (rounded Gaussian) is stated."""
MIN_UNIT: Final = 1 << 16
LARGEST_UNIT: Final = 1 << 36
SLACK_SHARE: Final = 1e-3
"""The part of δ that pays for whole numbers."""
VARIATION: Final = 0.0203
"""Of s² times the distance of one coordinate; the limit is φ(1)/12 = 0.02016."""
BEYOND: Final = 8.0
"""How far above the claimed ε the slack is still paid for: several studies compose."""
_ROUNDING: Final = 1e-9
"""Variances are widened by this much, so that rounding in events stays on the private side."""


def draw_noise(size: int, variance: int, noise: Noise) -> Ints:
    """Independent integers z with P(z) ∝ e^-(z²/(2 variance)), exactly, from either source (G3).

    >>> z = draw_noise(1000, 300**2, SimulationNoise(np.random.default_rng(0)))
    >>> z.dtype, bool(270 < z.std() < 330)
    (dtype('int64'), True)
    """
    if isinstance(noise, SecureNoise):
        return discrete_gaussian(size, noise, variance=variance)
    if not isinstance(noise, SimulationNoise):
        raise TypeError(f"noise must be SecureNoise or SimulationNoise, got {type(noise).__name__}")
    law = GaussianBlocks(Fraction(variance), block_shift(Fraction(math.isqrt(variance))))
    return draw_symmetric(law, size, _simulated_bits(noise.generator))


def _simulated_bits(generator: np.random.Generator) -> Bits:
    def draw(count: int, width: int) -> Any:
        return generator.integers(0, 1 << width, size=count, dtype=word_dtype(width).type)

    return draw


def total_variation(coordinates: int, variance: int) -> float:
    """How far so many discrete Gaussians are from rounded continuous ones, together (G2).

    >>> total_variation(256, 300**2)
    5.774...e-05
    """
    require_fixed_point(MIN_UNIT, variance)
    return coordinates * VARIATION / variance * (1.0 + _ROUNDING)


def up_to(claim: PrivacyClaim) -> float:
    """The largest ε for which the slack is paid (G4)."""
    return claim.epsilon + BEYOND


def slack(claim: PrivacyClaim, coordinates: int, variance: int) -> Events:
    """The event of whole numbers: so many coordinates, once."""
    return ((ApproximationEvent(tv=total_variation(coordinates, variance), up_to=up_to(claim)), 1),)


def gaussian_budget(claim: PrivacyClaim) -> float:
    """The δ that is left for the noise itself; pure privacy is refused."""
    if claim.delta == 0.0:
        raise NotSupported(
            "central channels draw Gaussian noise, which never gives pure privacy (delta = 0): use a positive delta"
        )
    return claim.delta * (1.0 - SLACK_SHARE)


def fixed_point(
    claim: PrivacyClaim, coordinates: int, shift_of: Callable[[int], float], least_unit: int = MIN_UNIT
) -> tuple[int, int]:
    """M and the variance in units of 1/M² for sensitivities shift_of(M) (Euclidean, in whole units) (G4)."""
    mu = gaussian_mu(claim.epsilon, gaussian_budget(claim))

    def variance_of(unit: int) -> int:
        # s = Δ/μ(ε, δ), in units
        return math.ceil(Fraction(shift_of(unit) / mu) ** 2 * Fraction(1.0 + _ROUNDING))

    return least_scale(claim, coordinates, variance_of, least_unit)


def least_scale(
    claim: PrivacyClaim, coordinates: int, variance_of: Callable[[int], int], least_unit: int = MIN_UNIT
) -> tuple[int, int]:
    """The least M from `least_unit` on at which the slack is below its share of δ, with the variance there."""
    unit = least_unit
    while unit <= LARGEST_UNIT:
        variance = variance_of(unit)
        if variance > LARGEST_SCALE**2:
            break
        paid = (1.0 + math.exp(min(700.0, up_to(claim)))) * coordinates * VARIATION * 1.01 / variance
        if variance >= MIN_STD**2 and paid <= SLACK_SHARE * claim.delta:
            return unit, variance
        unit *= 2
    raise NotSupported(
        f"whole numbers of 64 bits are too coarse for epsilon {claim.epsilon:g} and delta {claim.delta:g} over "
        f"{coordinates} numbers; claim a smaller epsilon or a larger delta"
    )


def require_fixed_point(unit: object, variance: object) -> None:
    """Raise unless M is a power of two and the noise is within what the lemma and the sampler cover."""
    M, v = require_count("unit", unit), require_count("variance", variance, 1, LARGEST_SCALE**2)
    require(M & (M - 1) == 0 and M <= LARGEST_UNIT, f"unit must be a power of two of at most {LARGEST_UNIT}", M)
    inside = MIN_STD**2 <= v <= LARGEST_SCALE**2
    require(inside, f"variance must lie between {MIN_STD}² and {LARGEST_SCALE}² units", v)


def spread(variance: int, unit: int) -> float:
    """The parameter σ of the noise in natural units, rounded down: that of events."""
    return math.sqrt(variance) / unit * (1.0 - 1e-12)


def to_payload(vector: Ints) -> bytes:
    """Whole numbers as bytes, little endian (G1).

    >>> from_payload(to_payload(np.array([1, -2])), 2)
    array([ 1, -2])
    """
    return np.ascontiguousarray(vector, dtype="<i8").tobytes()


def from_payload(payload: bytes, size: int) -> Ints:
    """The whole numbers of a payload of exactly this many."""
    require(len(payload) == 8 * size, f"a payload of this channel must have {8 * size} bytes", len(payload))
    return np.frombuffer(payload, dtype="<i8").astype(np.int64)
