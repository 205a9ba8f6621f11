"""Sums of independent privacy losses: pessimistic grid, Chernoff window, Fourier transform with a bounded error.

Every mass is an upper bound; nothing is ever rounded to the optimistic side (Lemma P4 (pessimistic grid)):

- An atom between two grid points is split between them so that its P-mass and its Q-mass stay as they are. The new
  pair is more informative than the old one (likelihood ratios are split, and forgetting the split gives the old pair
  back), hence dominates it at every ε; the error in ε is of second order in the spacing.
- What lies above the window of the transform is bounded by Chernoff and counts as infinite loss. What wraps around from
  there is counted twice; what wraps around from below arrives at too large a loss.
- The rounding error of the transform is bounded from its measured spectrum and added to every mass. The composition is
  done twice, plainly and exponentially tilted into the tail, and at each point the smaller bound is taken. The tail is
  thus accurate in relative terms, and a δ far below the precision of a float is still bounded tightly (to about 1e-16).

References: Y. Zhu, J. Dong and Y.-X. Wang, "Optimal accounting of differential privacy via characteristic function",
AISTATS 2022 (dominating pairs); V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar and P. Manurangsi, "Connect the dots:
tighter discrete approximations of privacy loss distributions", PETS 2022 (the splitting).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tacit.accounting.counting import total
from tacit.accounting.losses import ROUND_UP, ULP, Floats, Losses, frozen

__all__ = ["convolve"]

TAIL = 1e-18  # mass that a composition may cut off its parts and leave above its window, counted as infinite loss
LOWER_TAIL = 1e-10  # mass of the least losses that may be raised, which changes δ by about that much relative to itself
FOCUS = 1e-10  # the tilted transform is centred on this quantile
TILTS = np.geomspace(0.05, 32.0, 20)  # in units of 1/standard deviation
FEWEST_POINTS, MOST_POINTS = 2**16, 2**20
POINTS_PER_DEVIATION = 300.0  # of one counter's loss: an error of about 1e-6 in epsilon, relative


def convolve(parts: list[tuple[Losses, int]], spacing: float | None = None) -> Losses:
    """The sum of independent losses, each as often as its count says.

    >>> bit = Losses.of(np.array([0.5, -0.5]), np.array([0.6225, 0.3775]))
    >>> convolve([(bit, 4)]).ceiling
    2.0
    """
    if not parts:
        return Losses.of(np.zeros(1), np.ones(1))
    for part, count in parts:
        if part.infinity >= 1.0 or (len(parts) == 1 and count == 1):
            return part
    uses = total(parts, lambda _: 1)
    parts = [(part.trimmed(lower=LOWER_TAIL / uses, upper=TAIL / uses), count) for part, count in parts]
    spacing = _spacing(parts) if spacing is None else spacing
    placed = [(_on_grid(part, spacing), count) for part, count in parts]
    # Indices from the first point of each part on: e^(tilt · index) of a large index would lose all its digits.
    origin = total(placed, lambda grid: int(grid.index[0]))
    grids = [(_Grid(grid.index - grid.index[0], grid.masses), count) for grid, count in placed]
    low, high, tilt = _reach(grids)
    window = range(math.floor(low), math.floor(low) + int(fft.next_fast_len(math.ceil(high - low) + 2, real=True)))
    bounds = [_transform(grids, window, tilt) for tilt in (0.0, tilt)]
    # P[some loss is infinite] = 1 − Π (1 − infinityⱼ)^countⱼ, and what lies above the window counts as infinite too.
    finite = float(total(parts, lambda part: math.log1p(-part.infinity) if part.infinity < 1.0 else -math.inf))
    ceiling = float(total(parts, lambda part: part.ceiling))
    return Losses(
        frozen(spacing * (origin + np.arange(window.start, window.stop, dtype=np.float64))),
        frozen(np.minimum(*bounds)),
        TAIL - math.expm1(finite),
        ceiling,
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """Masses at whole multiples of a unit (any real multiples, while the unit is being chosen)."""

    index: NDArray[Any]
    masses: Floats

    @property
    def variance(self) -> float:
        mean = float((self.masses * self.index).sum())
        return float((self.masses * (self.index - mean) ** 2).sum())

    def cumulant(self, tilt: float) -> float:
        """κ(tilt) = ln Σ mass e^(tilt · index)."""
        exponent = tilt * self.index
        top = float(exponent.max())
        return top + math.log(float((self.masses * np.exp(exponent - top)).sum()))


class _Reach(NamedTuple):
    """How far the sum reaches, up to `TAIL` on either side; `tilt` moves its mean to its `FOCUS` quantile."""

    low: float
    high: float
    tilt: float


def _reach(grids: list[tuple[_Grid, int]]) -> _Reach:
    """Chernoff: P[Σ ℓ ≥ x] ≤ exp(κ(λ) − λx) for every λ > 0, and likewise below; never beyond the support."""
    deviation = math.sqrt(total(grids, lambda grid: grid.variance))
    least, most = total(grids, lambda grid: float(grid.index[0])), total(grids, lambda grid: float(grid.index[-1]))
    tilts = TILTS / max(deviation, 1e-3 * (most - least), 1e-9)
    up, down = (
        np.array([total(grids, partial(_Grid.cumulant, tilt=sign * tilt)) for tilt in tilts]) for sign in (1.0, -1.0)
    )
    high = min(most, float(((up - math.log(TAIL)) / tilts).min()))
    low = max(least, float(((math.log(TAIL) - down) / tilts).max()))
    # With next to no finite mass at all the two bounds cross: nothing needs to be in the window then.
    return _Reach(min(low, high), high, float(tilts[np.argmin((up - math.log(FOCUS)) / tilts)]))


def _spacing(parts: list[tuple[Losses, int]]) -> float:
    """A spacing that resolves one counter's loss, within limits on the number of points of the composition."""
    atoms = [(_Grid(part.losses, part.masses), count) for part, count in parts]
    low, high, _ = _reach(atoms)
    # A grid finer than the rounding of its own indices would lose mass; losses that all but coincide need none.
    finest = 2.0**-40 * max(abs(low), abs(high))
    if high - low <= finest:
        return 1e-6
    deviation = math.sqrt(total(atoms, lambda grid: grid.variance) / total(atoms, lambda _: 1))
    points = min(max((high - low) / deviation * POINTS_PER_DEVIATION, FEWEST_POINTS), MOST_POINTS)
    # The largest loss of one counter becomes a grid point: an extreme atom is then not smeared at all.
    extreme = max((loss for part, _ in parts if (loss := float(part.losses[-1])) > 0.0), default=high - low)
    return extreme / math.ceil(extreme / max((high - low) / points, finest))


def _on_grid(part: Losses, spacing: float) -> _Grid:
    """Split every atom between its two neighbours on the grid, keeping its mass under P and under Q."""
    # p = a + b,  p e^(−ℓ) = a e^(−low) + b e^(−low−spacing)   ⇒   b/p = (1 − e^(low−ℓ)) / (1 − e^(−spacing))
    low = np.floor(part.losses / spacing)
    share = np.expm1(spacing * low - part.losses) / math.expm1(-spacing)
    # Rounded up by more than the rounding error of a loss, so never below the exact split.
    share = np.clip(share + 1e-10 + 4.0 * ULP * (1.0 + np.abs(part.losses)) / spacing, 0.0, 1.0)
    index, place = np.unique(np.concatenate([low, low + 1.0]), return_inverse=True)
    halves = np.concatenate([part.masses * (1.0 - share), part.masses * share])
    return _Grid(index.astype(np.int64), np.asarray(np.bincount(place, halves), dtype=np.float64))


def _transform(grids: list[tuple[_Grid, int]], window: range, tilt: float) -> Floats:
    """Upper bounds on the masses of the sum at the indices of the window."""
    spectra = []
    for grid, count in grids:
        tilted = grid.masses * np.exp(tilt * grid.index - grid.cumulant(tilt)) * ROUND_UP if tilt else grid.masses
        spectra.append((fft.rfft(np.bincount(grid.index % len(window), tilted, minlength=len(window))), count))
    # The transform of a mass of 1 is wrong by at most `noise` in every coefficient: log₂(size) stages of butterflies.
    noise = 3.0 * ULP * math.log2(len(window)) * (1.0 + 1e-6)
    spectrum = np.exp(total(spectra, lambda values: np.log(values + 1e-300)))
    # |Π (F + e) − Π F| ≤ Π (|F| + |e|) − Π |F|, and log, power and exp err by a few units per factor.
    larger = np.exp(total(spectra, lambda values: np.log(np.abs(values) + noise)))
    error = larger - np.abs(spectrum) + (16.0 * ULP * (1.0 + total(spectra, lambda _: 1.0)) + noise) * larger
    slack = 2.0 * float(error.sum()) / len(window)
    masses = np.maximum(np.roll(fft.irfft(spectrum, len(window)), -(window.start % len(window))), 0.0) + slack
    exponent = (
        total(grids, partial(_Grid.cumulant, tilt=tilt)) - tilt * np.arange(window.start, window.stop) if tilt else 0.0
    )
    return np.asarray(ROUND_UP * masses * np.exp(np.minimum(exponent, 700.0)), dtype=np.float64)
