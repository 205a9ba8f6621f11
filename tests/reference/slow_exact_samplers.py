"""Slow twins of `tacit.noise.exact`, and the tree that turns a sampler into its exact probabilities.

The twins follow Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy", bit by bit and
sample by sample: another way to the same laws than the library's inversion. `tree` runs any sampler on every string of
random bits up to a depth and adds up the probabilities of its outcomes, as fractions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import floor, isqrt

import numpy as np
from numpy.typing import NDArray

Bit = Callable[[], int]


class OutOfBits(Exception):
    """The sampler asks for more bits than this path of the tree has."""

    def __init__(self, missing: int) -> None:
        self.missing = missing


@dataclass
class PathBits:
    """A `Bits` that reads one path of the tree: words of any width, then OutOfBits."""

    path: tuple[int, ...]
    used: int = 0

    def __call__(self, count: int, width: int) -> NDArray[np.uint64]:
        end = self.used + count * width
        if end > len(self.path):
            raise OutOfBits(end - len(self.path))
        digits = self.path[self.used : end]
        self.used = end
        words = [int("".join(map(str, digits[i : i + width])), 2) for i in range(0, len(digits), width)]
        return np.array(words, dtype=np.uint64)

    def bit(self) -> int:
        return int(self(1, 1)[0])


@dataclass
class SeededBits:
    """A `Bits` replayed from a seed: for tests only, which is why it lives here."""

    generator: np.random.Generator
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, count: int, width: int) -> NDArray[np.uint64]:
        self.asked.append((count, width))
        return self.generator.integers(0, 1 << width, size=count, dtype=np.uint64, endpoint=False)


@dataclass(frozen=True)
class Tree:
    """Exact probabilities of the decided outcomes, and the probability of all the paths that are still undecided."""

    decided: dict[Hashable, Fraction]
    undecided: Fraction


def tree(sampler: Callable[[PathBits], Hashable], depth: int) -> Tree:
    """Run `sampler` on every bit string of up to `depth` bits."""
    decided: dict[Hashable, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    paths: list[tuple[int, ...]] = [()]
    while paths:
        path = paths.pop()
        bits = PathBits(path)
        try:
            outcome = sampler(bits)
        except OutOfBits as out:
            if len(path) + out.missing > depth:
                undecided += Fraction(1, 2 ** len(path))
            else:
                paths.extend(path + more for more in product((0, 1), repeat=out.missing))
        else:
            assert bits.used == len(path)
            decided[outcome] += Fraction(1, 2 ** len(path))
    return Tree(dict(decided), undecided)


def uniform_below(n: int, bit: Bit) -> int:
    while True:
        value = 0
        for _ in range((n - 1).bit_length()):
            value = 2 * value + bit()
        if value < n:
            return value


def bernoulli(p: Fraction, bit: Bit) -> int:
    return int(uniform_below(p.denominator, bit) < p.numerator)


def bernoulli_exp(gamma: Fraction, bit: Bit) -> int:
    """von Neumann: e^-γ = P(the first failure of Bernoulli(γ/1), Bernoulli(γ/2), ... comes at an odd trial)."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1), bit):
            return 0
        gamma -= 1
    k = 1
    while bernoulli(gamma / k, bit):
        k += 1
    return k % 2


def discrete_laplace(scale: Fraction, bit: Bit) -> int:
    t, s = scale.numerator, scale.denominator
    while True:
        u = uniform_below(t, bit)
        if not bernoulli_exp(Fraction(u, t), bit):
            continue
        v = 0
        while bernoulli_exp(Fraction(1), bit):
            v += 1
        magnitude = (u + t * v) // s
        negative = bit()
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, bit: Bit) -> int:
    t = isqrt(floor(variance)) + 1
    while True:
        y = discrete_laplace(Fraction(t), bit)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance), bit):
            return y
