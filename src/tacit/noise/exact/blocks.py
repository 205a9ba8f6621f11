"""Exact laws P(n) ∝ e^-γ(n) on n = 0, 1, 2, ... of any scale, from one small table.

γ is convex and increasing with γ(0) = 0: γ(n) = n/b (geometric) or n²/2σ² (half a Gaussian). A table with an entry
for every n would be as long as the scale, so n is drawn in two steps:

    a ~ P(a) ∝ e^-γ(m·a)    the block [m·a, m·a + m), by exact inversion (`inversion`)
    j ~ uniform on [0, m)   the place in the block, m a power of two
    keep n = m·a + j with probability e^-(γ(n) - γ(m·a)), otherwise start again

so that P(n) ∝ e^-γ(m·a) · (1/m) · e^-(γ(n) - γ(m·a)) ∝ e^-γ(n). The coin is exact too: its uniform number V is compared
with a *lower* bound that holds for the whole block, which almost always decides; otherwise with the exact e^-(...) of
this n, enclosed as narrowly as it takes. With m = 1 nothing is ever rejected. Lemma N5 (blocks).

The laws made from it, all with total variation distance 0:

    geometric            P(k) ∝ e^-(k/b), k ≥ 0
    discrete Laplace     P(z) ∝ e^-(|z|/b). An integer of sensitivity Δ plus this noise is Δ/b-DP with nothing lost to
                         sampling: P(z)/P(z + Δ) ≤ e^(Δ/b) holds with real numbers for every integer z, and every
                         integer is reachable from every input. Variance: 2r/(1 - r)², r = e^-(1/b).
    discrete Gaussian    P(z) ∝ e^-(z²/2σ²). An integer vector of L2 sensitivity Δ plus this noise is Δ²/2σ²-zCDP
                         (Canonne, Kamath and Steinke 2020), as for the continuous Gaussian; variance at most σ².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Ints
from tacit.noise.exact.bits import WORD, Bits, Size, lanes, secure_bits
from tacit.noise.exact.inversion import (
    GUARD,
    Law,
    Real,
    Weights,
    ceil_div,
    concave_tail,
    draw,
    exp_enclosure,
    rational,
)
from tacit.randomness import SecureNoise

LARGEST_SCALE = 1 << 40  # up to here m ≤ 2^32
_MAX_BLOCKS = 1 << 31  # so that m·a + j < 2^63; a block beyond has probability below e^-(2^31/512) < 2^-6000000
_BLOCKS_PER_SCALE = 256  # more blocks: a longer table, and a coin is decided slowly with probability about 1/256


class BlockLaw(Law, Protocol):
    """The law of the block a, and the exponent γ of the law to be made from it."""

    @property
    def shift(self) -> int:
        """log2 of the block length m."""
        ...

    def exponent(self, n: int) -> Fraction:
        """γ(n), exactly."""
        ...


@dataclass(frozen=True, slots=True)
class GeometricBlocks:
    """γ(n) = n / scale."""

    scale: Fraction
    shift: int

    def exponent(self, n: int) -> Fraction:
        """γ(n), exactly."""
        return n / self.scale

    def weights(self, bits: int) -> Weights:
        """w_a = r^a with r = e^-(m/scale)."""
        unit = bits + GUARD
        ratio = exp_enclosure(self.exponent(1 << self.shift), unit)
        return _chain(ratio, (1 << unit, 1 << unit), unit)


@dataclass(frozen=True, slots=True)
class GaussianBlocks:
    """γ(n) = n² / (2·variance)."""

    variance: Fraction
    shift: int

    def exponent(self, n: int) -> Fraction:
        """γ(n), exactly."""
        return n * n / (2 * self.variance)

    def weights(self, bits: int) -> Weights:
        """w_a = e^-γ(m·a), by w_{a+1} = w_a·g_a, g_{a+1} = g_a·q, g₀ = e^-γ(m), q = e^-2γ(m)."""
        unit = bits + GUARD
        gamma = self.exponent(1 << self.shift)
        return _chain(exp_enclosure(gamma, unit), exp_enclosure(2 * gamma, unit), unit)


def block_shift(scale: Fraction) -> int:
    """log2 of the block length: the table then has about 256 to 512 blocks per scale, or one per integer.

    >>> block_shift(Fraction(511)), block_shift(Fraction(512)), block_shift(Fraction(2000))
    (0, 1, 2)
    """
    return max(0, int(scale / _BLOCKS_PER_SCALE).bit_length() - 1)


def draw_magnitudes(law: BlockLaw, count: int, bits: Bits, *, width: int = WORD) -> Ints:
    """`count` independent n ≥ 0 with P(n) ∝ e^-γ(n)."""
    result = np.empty(count, dtype=np.int64)
    pending = np.arange(count)
    while pending.size:
        n, keep = propose(law, pending.size, bits, width)
        result[pending[keep]] = n[keep]
        pending = pending[~keep]
    return result


def draw_symmetric(law: BlockLaw, count: int, bits: Bits, *, width: int = WORD) -> Ints:
    """`count` independent z with P(z) ∝ e^-γ(|z|): a magnitude and a fair sign, where -0 is rejected."""
    result = np.empty(count, dtype=np.int64)
    pending = np.arange(count)
    while pending.size:
        n, keep = propose(law, pending.size, bits, width)
        sign = 1 - 2 * bits(pending.size, 1).astype(np.int64)
        keep &= (n > 0) | (sign > 0)
        result[pending[keep]] = (sign * n)[keep]
        pending = pending[~keep]
    return result


def propose(law: BlockLaw, count: int, bits: Bits, width: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Proposals n = m·a + j and whether their coins say to keep them."""
    block = draw(law, count, bits, width=width)
    if law.shift == 0:
        return block, np.ones(count, dtype=np.bool_)
    if block.size and block.max() >= _MAX_BLOCKS:
        raise OverflowError("the noise does not fit into 64 bits; nothing was drawn, call again")
    n = (block << law.shift) + bits(count, law.shift).astype(np.int64)
    coin = bits(count, width).astype(np.uint64, copy=False)
    surely = _sure(law, width)
    # V < (coin + 1)·2^-width ≤ e^-(γ(m·a + m) - γ(m·a)) ≤ e^-(γ(n) - γ(m·a)). A block beyond the table is never sure.
    keep = coin < surely[np.minimum(block, surely.size - 1)]
    for lane in np.flatnonzero(~keep):
        first = int(block[lane]) << law.shift
        gamma = law.exponent(int(n[lane])) - law.exponent(first)
        keep[lane] = _below_exp(gamma, int(coin[lane]), bits, width)
    return n, keep


def geometric(size: Size, noise: SecureNoise, *, scale: Real) -> Ints:
    """Independent k ≥ 0 with P(k) ∝ e^-(k/scale), exactly.

    >>> k = geometric(1000, SecureNoise(), scale=3)
    >>> k.dtype, bool(k.min() >= 0)
    (dtype('int64'), True)
    """
    count, shape = lanes(size)
    b = rational("scale", scale, high=LARGEST_SCALE, open_low=True)
    return draw_magnitudes(GeometricBlocks(b, block_shift(b)), count, secure_bits(noise)).reshape(shape)


def discrete_laplace(size: Size, noise: SecureNoise, *, scale: Real) -> Ints:
    """Independent integers z with P(z) ∝ e^-(|z|/scale), exactly.

    `scale` is a positive rational (a float is taken exactly as it is) of at most 2^40.

    >>> from fractions import Fraction
    >>> z = discrete_laplace((2, 500), SecureNoise(), scale=Fraction(34, 1))
    >>> z.shape, z.dtype
    ((2, 500), dtype('int64'))
    """
    count, shape = lanes(size)
    b = rational("scale", scale, high=LARGEST_SCALE, open_low=True)
    return draw_symmetric(GeometricBlocks(b, block_shift(b)), count, secure_bits(noise)).reshape(shape)


def discrete_gaussian(size: Size, noise: SecureNoise, *, variance: Real) -> Ints:
    """Independent integers z with P(z) ∝ e^-(z²/(2·variance)), exactly.

    The parameter is σ², not σ, because σ² is what must be rational; it is at most 2^80. A float is taken exactly as it
    is: for a standard deviation s that must not be missed, give `Fraction(s)**2` rather than the rounded `s * s`.

    >>> z = discrete_gaussian(1000, SecureNoise(), variance=100)
    >>> bool(abs(z).max() < 150)  # fails with probability e^-100
    True
    """
    count, shape = lanes(size)
    v = rational("variance", variance, high=LARGEST_SCALE**2, open_low=True)
    # The block length need not be exact, only a fixed function of the parameter: ⌊σ⌋ by integer square root.
    law = GaussianBlocks(v, block_shift(Fraction(math.isqrt(int(v)))))
    return draw_symmetric(law, count, secure_bits(noise)).reshape(shape)


def _below_exp(gamma: Fraction, v: int, bits: Bits, width: int) -> bool:
    """Whether the uniform number that begins with the word `v` is below e^-γ."""
    known = width
    while True:
        lower, upper = exp_enclosure(gamma, known)
        if v < lower:
            return True
        if v >= upper:
            return False
        v = (v << width) | int(bits(1, width)[0])
        known += width


@lru_cache(maxsize=32)
def _sure(law: BlockLaw, width: int) -> NDArray[np.uint64]:
    """Per block of the table, an integer of at most 2^width · w_{a+1} / w_a; 0 for the last one and all beyond."""
    w = law.weights(width)
    ratios = [(after << width) // before for before, after in zip(w.upper, w.lower[1:], strict=False)]
    return np.array([*ratios, 0], dtype=np.uint64)


def _chain(ratio: tuple[int, int], ratio_of_ratios: tuple[int, int], unit: int) -> Weights:
    """Enclose w₀ = 1, w_{a+1} = w_a·g_a, g_{a+1} = g_a·q in units of 2^-unit, until the rest weighs at most 2^GUARD."""
    one = 1 << unit
    lower, upper = [one], [one]
    (g_low, g_high), (q_low, q_high) = ratio, ratio_of_ratios
    while True:
        low, high = lower[-1] * g_low >> unit, ceil_div(upper[-1] * g_high, one)
        rest = concave_tail(lower[-1], high)
        if rest is not None and rest <= 1 << GUARD:
            return Weights(outcomes=range(len(lower)), lower=lower, upper=upper, rest=rest)
        lower.append(low)
        upper.append(high)
        if q_low < one:
            g_low, g_high = g_low * q_low >> unit, ceil_div(g_high * q_high, one)
