"""Upper laws: distributions on a grid that lie stochastically above a given one, for exact bounds of tails of sums.

    U ≥ V      P(U ≥ y) ≥ P(V ≥ y) at every y            rounding up to the grid, so that sums are convolutions
    U + U'     above V + V' for independent V, V'
    quantile   P(V > quantile(p)) ≤ p

What lies beyond the grid counts as infinite, and is carried along as a probability. Lemma B5 (exact arms).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from tacit.arrays import Floats
from tacit.errors import require, require_real

REACH = 7.75
"""Standard deviations of a grid to both sides: a Gaussian leaves them with probability 1e-14."""
ROUNDING = 1e-6
"""Whole numbers are cut this much early, so that a rounding error of floats only adds to a tail."""
FFT_ERROR = 1e-14
"""What a convolution may lose, added to what lies beyond."""


@dataclass(frozen=True, slots=True, eq=False)
class DominatingPMF:
    """Probabilities on the grid `step` · (first, first + 1, ...), and what lies beyond it.

    >>> coin = DominatingPMF(step=1.0, first=0, mass=np.array([0.5, 0.5]), beyond=0.0)
    >>> (coin + coin).mass.round(12).tolist(), (coin + coin).quantile(0.3)
    ([0.25, 0.5, 0.25], 1.0)
    """

    step: float
    first: int
    mass: Floats
    beyond: float

    def __add__(self, other: DominatingPMF) -> DominatingPMF:
        """The law of an independent sum."""
        require(self.step == other.step, "laws that are added must have one grid", other.step)
        from scipy.signal import fftconvolve  # a second and scipy.stats, which most runs need not wait for

        joint = np.maximum(fftconvolve(self.mass, other.mass), 0.0)
        beyond = min(1.0, self.beyond + other.beyond + FFT_ERROR)
        return DominatingPMF(step=self.step, first=self.first + other.first, mass=joint, beyond=beyond)

    def above(self) -> Floats:
        """[points]: the probability of lying strictly above each point of the grid."""
        tail = np.cumsum(self.mass[::-1])[::-1]
        return np.asarray(self.beyond + np.append(tail[1:], 0.0))

    def tail(self, y: float) -> float:
        """A bound of P(V ≥ y).

        >>> DominatingPMF(step=1.0, first=0, mass=np.array([0.5, 0.5]), beyond=0.0).tail(0.5)
        0.5
        """
        least = math.ceil(y / self.step - ROUNDING) - self.first
        return min(1.0, self.beyond + float(self.mass[max(0, least) :].sum()))

    def quantile(self, probability: float) -> float:
        """The least point of the grid that V exceeds with at most this probability; infinite if none is."""
        p = require_real("probability", probability, low=0.0, high=1.0)
        enough = np.flatnonzero(self.above() <= p)
        return math.inf if len(enough) == 0 else float((self.first + enough[0]) * self.step)


def upper_law(survival: Callable[[Floats], Floats], low: float, high: float, step: float) -> DominatingPMF:
    """The law above every V with P(V ≥ y) ≤ survival(y), on a grid from low to high.

    >>> law = upper_law(lambda y: np.asarray(scipy.special.ndtr(-y)), -8.0, 8.0, 0.01)
    >>> 1.6448 < law.quantile(0.05) < 1.6649
    True
    """
    first, last = math.floor(low / step), math.ceil(high / step)
    y = np.asarray(np.arange(first, last + 1) * step, dtype=np.float64)
    # V in [y_j, y_j+1) is rounded up to y_j+1, everything below the grid up to its first point.
    reached = np.clip(np.minimum.accumulate(survival(y)), 0.0, 1.0)
    mass = np.concatenate([[1.0 - reached[0]], -np.diff(reached)])
    return DominatingPMF(step=step, first=first, mass=mass, beyond=float(reached[-1]))


def at_least(counts: Floats, bits: float, probability: Floats | float) -> Floats:
    """P(Binomial(bits, probability) ≥ count), a little more where the count is not whole.

    >>> at_least(np.array([0.0, 2.0, 4.0]), 3, 0.5).tolist()
    [1.0, 0.5, 0.0]
    """
    k = np.ceil(np.asarray(counts) - ROUNDING)
    inside = np.clip(k, 1.0, bits)
    # P(B ≥ k) = I_p(k, N − k + 1)
    found = scipy.special.betainc(inside, bits - inside + 1.0, probability)
    return np.where(k <= 0.0, 1.0, np.where(k > bits, 0.0, found))


@lru_cache(maxsize=1024)
def binomial_above(users: int, low: float, high: float, step: float, width: float) -> DominatingPMF:
    """The law above S/n − p for S ~ Binomial(n, p), whatever p in [low, high] is.

    For p in [a, b]: S/n − p ≥ y implies S' ≥ n(y + a) with S' ~ Binomial(n, b); [low, high] is cut into such cells.
    """
    cells = max(1, math.ceil((high - low) / width))
    edges = np.linspace(low, high, cells + 1)
    a, b = edges[:-1, np.newaxis], edges[1:, np.newaxis]

    def survival(y: Floats) -> Floats:
        return np.asarray(at_least(users * (y[np.newaxis] + a), users, b).max(axis=0))

    # Hoeffding: P(S/n − p ≥ R) ≤ e^{−2nR²}
    reach = REACH / (2.0 * math.sqrt(users))
    return upper_law(survival, -min(reach, high), min(reach, 1.0 - low) + 2.0 * step + width, step)


@lru_cache(maxsize=256)
def gaussian_law(std: float, step: float) -> DominatingPMF:
    """The law above Gaussian noise."""
    return upper_law(lambda y: np.asarray(scipy.special.ndtr(-y / std)), -REACH * std, REACH * std, step)


@lru_cache(maxsize=256)
def half_bits_laws(bits: int, probability: float, scale: float, step: float) -> tuple[DominatingPMF, DominatingPMF]:
    """The laws above scale · (B − Np)/2 and above scale · (Np − B)/2, for B ~ Binomial(N, p)."""
    mean, half = bits * probability, scale / 2.0
    reach = half * (REACH * math.sqrt(mean * (1.0 - probability)) + REACH**2 / 3.0)

    def up(y: Floats) -> Floats:
        return at_least(mean + y / half, bits, probability)

    def down(y: Floats) -> Floats:
        # Np − B ≥ y: at least N − Np + y zeros
        return at_least(bits - mean + y / half, bits, 1.0 - probability)

    return upper_law(up, -reach, reach, step), upper_law(down, -reach, reach, step)
