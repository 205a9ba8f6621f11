"""A public ladder of sizes: how many reports of a stage count, whoever came.

How many people report may say something about them: the sick stay away. With a ladder n₁ < n₂ < ... the number that
leaves is the highest rung that was reached,

    n = max { n_i : n_i <= number of reports },

and n of the reports are kept, every set of them with the same probability. The first rung is the least size of a stage,
so that one rung alone makes the number the same in every stage.

G1  A ladder never adds anybody and never goes below the least size: noise and certificate are those of the stage.
G2  Which reports are dropped depends on exact lots only, and it is drawn once, when the stage is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tacit.errors import require, require_count
from tacit.noise.exact import permutation
from tacit.protocol import Noise
from tacit.randomness import SimulationNoise


def require_ladder(ladder: Sequence[int], *, least: int, target: int) -> tuple[int, ...]:
    """The sizes of a ladder from `least` up to at most `target`; none at all is a stage of any size between them."""
    sizes = tuple(require_count("a size of the ladder", size) for size in ladder)
    if sizes:
        rising = all(low < high for low, high in pairwise(sizes))
        fits = rising and sizes[0] == least and sizes[-1] <= target
        require(fits, f"a ladder must rise from the least size {least} to at most the target {target}", list(sizes))
    return sizes


def rung_of(ladder: Sequence[int], reports: int) -> int:
    """How many of so many reports count; where no rung was reached, all of them, and the stage is too small.

    >>> [rung_of((90, 95), n) for n in (89, 90, 94, 100)], rung_of((), 97)
    ([89, 90, 90, 95], 97)
    """
    return max((size for size in ladder if size <= reports), default=reports)


def left_out(reports: int, kept: int, noise: Noise) -> list[int]:
    """The places of the reports that do not count, every set of them with the same probability (G2)."""
    drawn = noise.generator.permutation(reports) if isinstance(noise, SimulationNoise) else permutation(reports, noise)
    return sorted(int(place) for place in drawn[kept:])
