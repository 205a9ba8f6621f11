"""The privacy loss of one pair of neighbours in one direction: its distribution, δ(ε), ε(δ), and sums of many.

Two neighbouring inputs give two output distributions P and Q. The privacy loss of an output is ℓ = ln P/Q; with ℓ
distributed under P, and P's mass where Q has none at ℓ = ∞,

    δ(ε) = P[ℓ = ∞] + E_P[(1 − e^(ε−ℓ))₊].

Guarantee: δ and ε are never below the values that belong to the exact atoms; masses, tails and results are rounded up.
Independent losses add up (`convolve`), and nothing is rounded to the optimistic side (Lemma P4 (pessimistic grid)):

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
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.arrays import Floats

__all__ = ["MIN_DELTA", "Floats", "PrivacyLoss", "convolve", "total"]

T = TypeVar("T")

ULP = 2.0**-52
MIN_DELTA = 1e-16  # below it a composition by Fourier transform has nothing to say except "pure or not"
ROUND_UP = 1.0 + 2.0**-40  # covers the rounding of exp, log and sums in a mass
TAIL = 1e-18  # mass that a composition may cut off its parts and leave above its window, counted as infinite loss
LOWER_TAIL = 1e-10  # mass of the least losses that may be raised, which changes δ by about that much relative to itself
FOCUS = 1e-10  # the tilted transform is centred on this quantile
TILTS = np.geomspace(0.05, 32.0, 20)  # in units of 1/standard deviation
FEWEST_POINTS, MAX_POINTS = 2**16, 2**20
POINTS_PER_DEVIATION = 300.0  # of one counter's loss: an error of about 1e-6 in epsilon, relative


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """Losses in increasing order, the mass of each, the mass at ∞, and the largest loss (∞ if there is none).

    Two objects are equal only if they are the same object, so that a composition can count its parts.
    """

    losses: Floats
    masses: Floats
    infinity: float
    ceiling: float

    @classmethod
    def of(cls, losses: Floats, masses: Floats, infinity: float = 0.0) -> PrivacyLoss:
        """Sort atoms, round their masses and losses up and freeze them.

        >>> PrivacyLoss.of(np.array([1.0, -1.0]), np.array([0.7, 0.3])).ceiling
        1.0
        """
        order = np.argsort(losses, kind="stable")
        ceiling = float(losses[order[-1]]) if infinity == 0.0 else math.inf
        # A loss is right to a few units in the last place; just below it, that is a relative error of δ without bound.
        raised = losses[order] + 4.0 * ULP * (1.0 + np.abs(losses[order]))
        return cls(_frozen(raised), _frozen(masses[order] * ROUND_UP), infinity * ROUND_UP, ceiling)

    def trimmed(self, *, lower: float, upper: float) -> PrivacyLoss:
        """Without tails of at most these masses: the upper one goes to infinity, the lower one up to what is kept.

        >>> far = PrivacyLoss.of(np.array([0.0, 9.0]), np.array([1.0, 1e-30]))
        >>> far.trimmed(lower=0.0, upper=1e-20).losses.round(12)
        array([0.])
        """
        stop = max(1, self.losses.size - int(np.searchsorted(np.cumsum(self.masses[::-1]), upper, side="right")))
        first = min(int(np.searchsorted(np.cumsum(self.masses), lower, side="right")), stop - 1)
        masses = self.masses[first:stop].copy()
        masses[0] += self.masses[:first].sum()
        infinity = self.infinity + float(self.masses[stop:].sum())
        return PrivacyLoss(self.losses[first:stop], _frozen(masses), infinity, self.ceiling)

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


def _frozen(values: Floats) -> Floats:
    """The same array, read-only from now on."""
    values.setflags(write=False)
    return values


def total(parts: Iterable[tuple[T, int]], additive: Callable[[T], Any]) -> Any:
    """Σ count · additive(part): the one line of tacit in which a count is multiplied.

    Whatever composes adds up: privacy losses, cumulants, log-spectra, Rényi divergences, ε. Every accountant takes its
    sum over (part, count) from here, so "a thing n times" cannot mean two different things.

    >>> total([("ab", 3), ("c", 1)], len)
    7
    """
    added: Any = 0
    for part, count in parts:
        added = added + count * additive(part)
    return added


def convolve(parts: list[tuple[PrivacyLoss, int]], spacing: float | None = None) -> PrivacyLoss:
    """The sum of independent losses, each as often as its count says.

    >>> bit = PrivacyLoss.of(np.array([0.5, -0.5]), np.array([0.6225, 0.3775]))
    >>> convolve([(bit, 4)]).ceiling
    2.0
    """
    if not parts:
        return PrivacyLoss.of(np.zeros(1), np.ones(1))
    for part, count in parts:
        if part.infinity >= 1.0 or (len(parts) == 1 and count == 1):
            return part
    uses = sum([count for _, count in parts])
    parts = [(part.trimmed(lower=LOWER_TAIL / uses, upper=TAIL / uses), count) for part, count in parts]
    spacing = _spacing(parts) if spacing is None else spacing
    placed = [(_on_grid(part, spacing), count) for part, count in parts]
    # Indices from the first point of each part on: e^(tilt · index) of a large index would lose all its digits.
    origin = total(placed, lambda grid: int(grid.index[0]))
    grids = [(_Grid(grid.index - grid.index[0], grid.masses), count) for grid, count in placed]
    low, high, tilt = _reach(grids)
    window = range(
        math.floor(low), math.floor(low) + int(scipy.fft.next_fast_len(math.ceil(high - low) + 2, real=True))
    )
    bounds = [_transform(grids, window, tilt) for tilt in (0.0, tilt)]
    # P[some loss is infinite] = 1 − Π (1 − infinityⱼ)^countⱼ, and what lies above the window counts as infinite too.
    finite = float(total(parts, lambda part: math.log1p(-part.infinity) if part.infinity < 1.0 else -math.inf))
    ceiling = float(total(parts, lambda part: part.ceiling))
    return PrivacyLoss(
        _frozen(spacing * (origin + np.arange(window.start, window.stop, dtype=np.float64))),
        _frozen(np.minimum(*bounds)),
        TAIL - math.expm1(finite),
        ceiling,
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """Masses at whole multiples of a unit (any real multiples, while the unit is being chosen)."""

    index: NDArray[Any]
    masses: Floats

    def variance(self) -> float:
        mean = float((self.masses * self.index).sum())
        return float((self.masses * (self.index - mean) ** 2).sum())

    def cumulants(self, tilts: Floats) -> Floats:
        """κ(tilt) = ln Σ mass e^(tilt · index) at each of these tilts."""
        found = []
        for some in np.array_split(tilts, -(-tilts.size * self.index.size // MAX_POINTS)):
            exponents = np.multiply.outer(some, self.index)
            top = exponents.max(axis=1)
            sums = (self.masses * np.exp(exponents - top[:, np.newaxis])).sum(axis=1)
            for highest, rest in zip(top.tolist(), sums.tolist(), strict=True):
                found.append(highest + math.log(rest))
        return np.array(found)


class _Reach(NamedTuple):
    """How far the sum reaches, up to `TAIL` on either side; `tilt` moves its mean to its `FOCUS` quantile."""

    low: float
    high: float
    tilt: float


def _reach(grids: list[tuple[_Grid, int]]) -> _Reach:
    """Chernoff: P[Σ ℓ ≥ x] ≤ exp(κ(λ) − λx) for every λ > 0, and likewise below; never beyond the support."""
    deviation = math.sqrt(total(grids, _Grid.variance))
    least, most = total(grids, lambda grid: grid.index[[0, -1]].astype(np.float64)).tolist()
    tilts = TILTS / max(deviation, 1e-3 * (most - least), 1e-9)
    up, down = np.split(total(grids, partial(_Grid.cumulants, tilts=np.concatenate([tilts, -tilts]))), 2)
    high = min(most, float(((up - math.log(TAIL)) / tilts).min()))
    low = max(least, float(((math.log(TAIL) - down) / tilts).max()))
    # With next to no finite mass at all the two bounds cross: nothing needs to be in the window then.
    return _Reach(min(low, high), high, float(tilts[np.argmin((up - math.log(FOCUS)) / tilts)]))


def _spacing(parts: list[tuple[PrivacyLoss, int]]) -> float:
    """A spacing that resolves one counter's loss, within limits on the number of points of the composition."""
    atoms = [(_Grid(part.losses, part.masses), count) for part, count in parts]
    low, high, _ = _reach(atoms)
    # A grid finer than the rounding of its own indices would lose mass; losses that all but coincide need none.
    finest = 2.0**-40 * max(abs(low), abs(high))
    if high - low <= finest:
        return 1e-6
    deviation = math.sqrt(total(atoms, _Grid.variance) / sum([count for _, count in parts]))
    points = min(max((high - low) / deviation * POINTS_PER_DEVIATION, FEWEST_POINTS), MAX_POINTS)
    # The largest loss of one counter becomes a grid point: an extreme atom is then not smeared at all.
    extreme = max((loss for part, _ in parts if (loss := float(part.losses[-1])) > 0.0), default=high - low)
    return extreme / math.ceil(extreme / max((high - low) / points, finest))


def _on_grid(part: PrivacyLoss, spacing: float) -> _Grid:
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
    spectra, cumulants = [], []
    for grid, count in grids:
        cumulants.append((float(grid.cumulants(np.array([tilt]))[0]) if tilt else 0.0, count))
        tilted = grid.masses * np.exp(tilt * grid.index - cumulants[-1][0]) * ROUND_UP if tilt else grid.masses
        spectra.append((scipy.fft.rfft(np.bincount(grid.index % len(window), tilted, minlength=len(window))), count))
    # The transform of a mass of 1 is wrong by at most `noise` in every coefficient: log₂(size) stages of butterflies.
    noise = 3.0 * ULP * math.log2(len(window)) * (1.0 + 1e-6)
    spectrum = np.exp(total(spectra, lambda values: np.log(values + 1e-300)))
    # |Π (F + e) − Π F| ≤ Π (|F| + |e|) − Π |F|, and log, power and exp err by a few units per factor.
    larger = np.exp(total(spectra, lambda values: np.log(np.abs(values) + noise)))
    error = larger - np.abs(spectrum) + (16.0 * ULP * (1.0 + sum([count for _, count in spectra])) + noise) * larger
    slack = 2.0 * float(error.sum()) / len(window)
    masses = np.maximum(np.roll(scipy.fft.irfft(spectrum, len(window)), -(window.start % len(window))), 0.0) + slack
    exponent = total(cumulants, float) - tilt * np.arange(window.start, window.stop) if tilt else 0.0
    return np.asarray(ROUND_UP * masses * np.exp(np.minimum(exponent, 700.0)), dtype=np.float64)
