"""The privacy loss of one pair of neighbours in one direction: its distribution, δ(ε) and ε(δ).

Two neighbouring inputs give two output distributions P and Q. The privacy loss of an output is ℓ = ln P/Q; with ℓ
distributed under P, and P's mass where Q has none at ℓ = ∞,

    δ(ε) = P[ℓ = ∞] + E_P[(1 − e^(ε−ℓ))₊].

Guarantee: δ and ε are never below the values that belong to the exact atoms; masses, tails and results are rounded up.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_DELTA", "ROUND_UP", "ULP", "Floats", "Losses", "frozen"]

Floats = NDArray[np.float64]

ULP = 2.0**-52
LEAST_DELTA = 1e-16  # below it a composition by Fourier transform has nothing to say except "pure or not"
ROUND_UP = 1.0 + 2.0**-40  # covers the rounding of exp, log and sums in a mass


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Losses in increasing order, the mass of each, the mass at ∞, and the largest loss (∞ if there is none).

    Two objects are equal only if they are the same object, so that a composition can count its parts.
    """

    losses: Floats
    masses: Floats
    infinity: float
    ceiling: float

    @classmethod
    def of(cls, losses: Floats, masses: Floats, infinity: float = 0.0) -> Losses:
        """Sort atoms, round their masses and losses up and freeze them.

        >>> Losses.of(np.array([1.0, -1.0]), np.array([0.7, 0.3])).ceiling
        1.0
        """
        order = np.argsort(losses, kind="stable")
        ceiling = float(losses[order[-1]]) if infinity == 0.0 else math.inf
        # A loss is right to a few units in the last place; just below it, that is a relative error of δ without bound.
        raised = losses[order] + 4.0 * ULP * (1.0 + np.abs(losses[order]))
        return cls(frozen(raised), frozen(masses[order] * ROUND_UP), infinity * ROUND_UP, ceiling)

    def trimmed(self, *, lower: float, upper: float) -> Losses:
        """Without tails of at most these masses: the upper one goes to infinity, the lower one up to what is kept.

        >>> Losses.of(np.array([0.0, 9.0]), np.array([1.0, 1e-30])).trimmed(lower=0.0, upper=1e-20).losses.round(12)
        array([0.])
        """
        stop = max(1, self.losses.size - int(np.searchsorted(np.cumsum(self.masses[::-1]), upper, side="right")))
        first = min(int(np.searchsorted(np.cumsum(self.masses), lower, side="right")), stop - 1)
        masses = self.masses[first:stop].copy()
        masses[0] += self.masses[:first].sum()
        infinity = self.infinity + float(self.masses[stop:].sum())
        return Losses(self.losses[first:stop], frozen(masses), infinity, self.ceiling)

    @property
    def variance(self) -> float:
        """The variance of the finite part: the scale of a grid."""
        mean = float((self.masses * self.losses).sum())
        return float((self.masses * (self.losses - mean) ** 2).sum())

    def delta(self, epsilon: float) -> float:
        """δ at this ε, rounded up."""
        if epsilon >= self.ceiling:
            return 0.0
        above = int(np.searchsorted(self.losses, epsilon, side="right"))
        # Not np.dot: its threads would cost more than the sum, and pairwise summation errs less.
        inside = -float((self.masses[above:] * np.expm1(epsilon - self.losses[above:])).sum())
        return min(1.0, (inside + self.infinity) * ROUND_UP)

    def epsilon(self, delta: float) -> float:
        """The least ε ≥ 0 with δ(ε) ≤ delta, rounded up; infinite if there is none."""
        if self.delta(0.0) <= delta:
            return 0.0
        if delta < self.infinity * ROUND_UP:
            return self.ceiling
        # δ(ε) falls; between two losses it is ∞-mass + A − e^(ε−ℓ) B with A = Σ mass and B = Σ mass e^(ℓ−loss) over the
        # losses from ℓ, the upper one of the two.
        place = min(self._first_private(delta), self.losses.size - 1)
        loss, masses = float(self.losses[place]), self.masses[place:]
        excess = float(masses.sum()) + self.infinity - delta / ROUND_UP
        weight = float((masses * np.exp(loss - self.losses[place:])).sum())
        epsilon = max(0.0, loss + math.log(excess / weight)) if excess > 0.0 else 0.0
        step = ULP
        while self.delta(epsilon) > delta:
            epsilon, step = epsilon + step * (1.0 + epsilon), 2.0 * step
        return min(epsilon, self.ceiling)

    def _first_private(self, delta: float) -> int:
        """The first positive loss at which δ is at most delta; their number if there is none."""
        start = int(np.searchsorted(self.losses, 0.0, side="right"))
        losses, masses = self.losses[start:], self.masses[start:]
        if losses.size == 0:
            return start
        # Running sums find it at once unless they cancel or overflow; so the guess is tested, and bisection decides.
        with np.errstate(all="ignore"):
            mass, weight = (np.cumsum(x[::-1])[::-1] for x in (masses, masses * np.exp(-losses)))
            guess = start + int(np.argmax(self.infinity + mass - np.exp(losses) * weight <= delta / ROUND_UP))

        def private(place: int) -> bool:
            return self.delta(float(self.losses[place])) <= delta

        low, high = (start, guess) if private(guess) else (guess + 1, self.losses.size)
        if low < high == guess and not private(guess - 1):
            return guess
        return low + bisect_left(range(low, high), True, key=private)


def frozen(values: Floats) -> Floats:
    """The same array, read-only from now on."""
    values.setflags(write=False)
    return values
