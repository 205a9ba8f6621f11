"""Why deployment noise is integer: the floating-point attack of Mironov (2012) on NumPy's Laplace noise.

A double that is released as x + Laplace(b) can only be one of the doubles that this x reaches: NumPy's noise is a
function of 53 random bits, and its image is full of holes. An observer who sees y asks "is there a k with
x + noise(k) = y?" for x = 0 and x = 1. Where the answer is no, that x is excluded for certain, whatever ε was claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from tacit.noise import exact
from tacit.noise.exact.blocks import GeometricBlocks, draw_symmetric
from tacit.noise.exact.inversion import thresholds
from tacit.randomness import SecureNoise

EPSILON = 1.0
SCALE = 1.0 / EPSILON  # of a query of sensitivity 1
SAMPLES = 20_000
# In this window one step of k moves the noise by at least 2^-52 and all the roundings together move it by less than
# 2^-50, so the k that reach y are within a handful of the real inverse. No y outside is ever called impossible.
WINDOW = (-1.0, 1.0)
NEIGHBOURHOOD = 16


def numpy_laplace(k: int) -> float:
    """What `Generator.laplace(0, SCALE)` returns when its 53 random bits are k; checked against NumPy below."""
    u = k * 2.0**-53
    return 0.0 - SCALE * math.log(2.0 - u - u) if u >= 0.5 else 0.0 + SCALE * math.log(u + u)


def candidates(noise: float) -> Iterator[int]:
    """The 53-bit integers near the real k at which the noise would be this."""
    u = 0.5 * math.exp(noise / SCALE) if noise < 0 else 1.0 - 0.5 * math.exp(-noise / SCALE)
    centre = round(u * 2.0**53)
    yield from range(max(1, centre - NEIGHBOURHOOD), min(2**53, centre + NEIGHBOURHOOD + 1))


def impossible(y: float, x: float) -> bool:
    """Whether y lies in the window and no random bits at all give x + noise = y."""
    return WINDOW[0] < y < WINDOW[1] and not any(x + numpy_laplace(k) == y for k in candidates(y - x))


def test_our_model_of_numpy_is_numpy() -> None:
    ours, numpys = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(5000):
        k = int(ours.bit_generator.random_raw()) >> 11
        assert numpys.laplace(0.0, SCALE) == numpy_laplace(k)


def test_the_neighbourhood_misses_nothing() -> None:
    """Everything that x = 0 or x = 1 really releases is found possible for it: not one false accusation."""
    generator = np.random.default_rng(2)
    for x in (0.0, 1.0):
        assert not any(impossible(x + noise, x) for noise in generator.laplace(0.0, SCALE, SAMPLES).tolist())


@pytest.mark.statistical
def test_floating_point_noise_is_broken() -> None:
    """The event "y cannot come from 0" has probability 0 under x = 0 and 35% under x = 1; "not from 1": 0 and 55%.

    Seeded. False-alarm rate below 1e-9: the tolerance is seven standard errors.
    """
    generator = np.random.default_rng(3)
    for truth, excluded, measured in [(1.0, 0.0, 0.35), (0.0, 1.0, 0.55)]:
        released = truth + generator.laplace(0.0, SCALE, SAMPLES)
        caught = sum(impossible(y, excluded) for y in released.tolist()) / SAMPLES
        assert caught > 0.01
        assert caught == pytest.approx(measured, abs=7 * math.sqrt(0.25 / SAMPLES))


LAW = GeometricBlocks(Fraction(SCALE), 0)


def some_bits_give(z: int) -> bool:
    """The same question to the integer sampler: a witness, random bits on which the real code returns z."""
    _, _, upper = thresholds(LAW, 64)
    words = {64: upper[abs(z)], 1: int(z < 0)}
    return draw_symmetric(LAW, 1, lambda count, width: np.full(count, words[width], dtype=np.uint64)).tolist() == [z]


def test_integer_noise_excludes_nobody() -> None:
    """Whatever integer is released, there are random bits that give it from the neighbour: the event is empty."""
    for truth, other in [(1, 0), (0, 1)]:
        released = truth + exact.discrete_laplace(SAMPLES, SecureNoise(), scale=SCALE)
        assert all(some_bits_give(int(y) - other) for y in np.unique(released))
    assert all(some_bits_give(z) for z in range(-40, 41))


def test_integer_noise_keeps_the_odds() -> None:
    """P(y | x = 0) / P(y | x = 1) is e^ε or e^-ε for each y, by the very thresholds that the sampler uses."""
    _, lower, upper = thresholds(LAW, 256)
    lower, upper = [2**256, *lower], [2**256, *upper]

    def mass(z: int) -> Fraction:
        n = abs(z)  # P(|z| = n) = T_{n-1} - T_n; the sign is a fair bit
        return Fraction(lower[n] + upper[n] - lower[n + 1] - upper[n + 1], 2)

    for y in range(-40, 42):
        odds = float(mass(y) / mass(y - 1))
        assert odds == pytest.approx(math.exp(EPSILON if y <= 0 else -EPSILON), rel=1e-12)
