"""Laplace noise, continuous and on the integers: the exact privacy loss of one shifted counter.

With t = |shift| / scale every loss lies in [−t, t], and the end points are attained: pure ε = Σ t, and no smaller ε is
pure. At δ > 0 the composition of many small shifts is far better than that sum; one large shift gains nothing.

- Continuous: P[ℓ = t] = 1/2; in between, P[a < ℓ ≤ b] = ½ e^(−t/2) (e^(b/2) − e^(a/2)); P[ℓ = −t] = ½ e^(−t).
- On the integers, P(z) ∝ e^(−|z|/scale) under a whole shift s: ℓ = (s − 2z)/scale at z = 1 … s − 1. The extreme losses
  are the same, so the pure ε is the same; integer noise costs nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from tacit.accounting.pld import PLD, compose
from tacit.errors import require, require_real

__all__ = ["laplace_epsilon", "laplace_pld"]

CELLS = 4096


@lru_cache(maxsize=256)
def laplace_pld(scale: float, shift: float, *, discrete: bool) -> PLD:
    """The privacy loss of one counter that moves by `shift` under Laplace noise.

    >>> laplace_pld(36.0, 6.0, discrete=False).epsilon(0.0) == 6.0 / 36.0
    True
    """
    require_real("scale", scale, low=0.0, open_low=True)
    t = abs(require_real("shift", shift)) / scale
    if t == 0.0:
        return PLD.from_guarantee(0.0)
    if not discrete:
        return _continuous(t)
    require(float(shift).is_integer(), "the shift of an integer counter must be a whole number", shift)
    return _discrete(abs(int(shift)), scale)


def laplace_epsilon(scale: float, shifts: Iterable[float], delta: float, *, discrete: bool) -> float:
    """The exact ε at this δ when each counter moves by its shift under independent noise, rounded up.

    >>> round(laplace_epsilon(36.0, (6, 6, 6, 6, 5, 5), 1e-5, discrete=False), 4)
    0.9438
    """
    counts = Counter(abs(float(shift)) for shift in shifts)
    pairs = [(laplace_pld(scale, shift, discrete=discrete), count) for shift, count in counts.items()]
    return compose(pairs).epsilon(delta)


def _continuous(t: float) -> PLD:
    """Cut the losses between −t and t into cells and split each between its ends."""
    edges = np.linspace(-t, t, CELLS + 1)
    h = 2.0 * t / CELLS
    cell = 0.5 * np.exp(0.5 * (edges[:-1] - t)) * math.expm1(0.5 * h)
    # P and Q masses of a cell are in the ratio e^(h/2) e^(lower end): the upper end takes 1/(1 + e^(−h/2)) of it.
    upper = cell / (1.0 + math.exp(-0.5 * h))
    masses = np.zeros(CELLS + 1)
    masses[1:] += upper
    masses[:-1] += cell - upper
    masses[0] += 0.5 * math.exp(-t)
    masses[-1] += 0.5
    return PLD.from_symmetric_atoms(edges, masses)


def _discrete(shift: int, scale: float) -> PLD:
    """One atom for z ≤ 0, one for each z between, one for z ≥ shift."""
    z = np.arange(shift + 1, dtype=np.float64)
    r = math.exp(-1.0 / scale)
    # P(z) = (1 − r)/(1 + r) r^|z|, hence P[z ≤ 0] = 1/(1 + r) and P[z ≥ s] = r^s/(1 + r).
    masses = np.exp(-z / scale) / (1.0 + r)
    masses[1:-1] *= -math.expm1(-1.0 / scale)
    return PLD.from_symmetric_atoms((shift - 2.0 * z) / scale, masses)
