"""Sessions of people who watch videos: the published model "interest evolution" of RecSim, many people at a time.

The model (Ie, Hsu, Mladenov and others, "RecSim", 2019; Ie, Jain, Wang and others, "SlateQ", 2019) with the parameters
of the package recsim-no-tf 0.2.3 (Apache-2.0), whose equations and numbers are carried over as facts:

    person      interest x_t in [-1, 1] in each of 20 topics, uniform at first; 200 minutes
    page        10 candidates of random topics; a slate of 3 of them is shown
    choice      video i with probability (x_i + 1)/Σ, nothing with probability 2/Σ, Σ = Σ_i (x_i + 1) + 2
    quality     N(μ_t, 0.1): μ rises from -3 to 0 over the first 14 topics and from 0 to 3 over the last 6
    watching    w = min(4, minutes left); minutes left change by -w + (0.9/3.4) w quality; a page without a click costs
                half a minute; who has none left leaves
    interest    in the topic watched: x ± 0.3 (1 - |x|)(1 - x), up with probability (x + 1)/2; kept in [-1, 1]

Good videos keep people, and bad ones tire them, but neither shows in the minutes of the page itself.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import lean_kernel

__all__ = ["CANDIDATES", "MINUTES", "SLATE", "SPREAD", "TOPICS", "VIDEO", "after", "pages", "qualities", "tempted"]

TOPICS: Final = 20
CANDIDATES: Final = 10
SLATE: Final = 3
MINUTES: Final = 200.0
"""What everybody has at first."""
VIDEO: Final = 4.0
"""Minutes of every video."""
NOTHING: Final = 2.0
"""The weight of choosing nothing: the package's mass 1, with its normalizer -1 taken off."""
PATIENCE: Final = 0.5
"""Minutes that a page without a click costs."""
BONUS: Final = 0.9 / 3.4
SPREAD: Final = 0.1
"""The package calls it a variance and uses it as a standard deviation."""
STEP: Final = 0.3
FIRST: Final = 10.0
"""More than interests can differ by: what is promoted comes before everything else."""


def qualities() -> Floats:
    """[topic]: the mean quality of its videos.

    >>> qualities()[[0, 13, 14, 19]].tolist()
    [-3.0, 0.0, 0.0, 3.0]
    """
    return np.concatenate([np.linspace(-3.0, 0.0, 14), np.linspace(0.0, 3.0, 6)])


@lean_kernel
def tempted(interest: Floats, slate: Ints, coin: float) -> int:
    """Which video of the slate somebody chooses, given a uniform coin; its length if none."""
    total = NOTHING
    for k in range(len(slate)):
        total += interest[slate[k]] + 1.0
    reached = 0.0
    for k in range(len(slate)):
        reached += interest[slate[k]] + 1.0
        if coin * total < reached:
            return k
    return len(slate)


@lean_kernel
def after(x: float, left: float, quality: float, coin: float) -> tuple[float, float, float]:
    """A video is watched: the interest in its topic, the minutes left and the minutes watched."""
    watched = min(VIDEO, left)
    # x ± 0.3 (1 - |x|)(1 - x)
    step = STEP * (1.0 - abs(x)) * (1.0 - x)
    moved = x + step if coin < (x + 1.0) / 2.0 else x - step
    return min(max(moved, -1.0), 1.0), left - watched + BONUS * watched * quality, watched


@lean_kernel
def _slate(interest: Floats, first: int, last: int, coins: np.random.Generator, slate: Ints) -> None:
    """Ten random candidates; on the slate are those of the topics first to last - 1, then the most interesting ones."""
    found = 0
    for _ in range(CANDIDATES):
        topic = int(coins.random() * TOPICS)
        worth = interest[topic] + (FIRST if first <= topic < last else 0.0)
        # Insertion into the slate, which is kept in order; earlier candidates stay before their equals.
        place = found
        while place > 0:
            other = slate[place - 1]
            if worth <= interest[other] + (FIRST if first <= other < last else 0.0):
                break
            place -= 1
        if place >= SLATE:
            continue
        found = min(found + 1, SLATE)
        for k in range(found - 1, place, -1):
            slate[k] = slate[k - 1]
        slate[place] = topic


@lean_kernel
def pages(
    count: int, interests: Floats, left: Floats, rated: Floats, promoted: Ints, means: Floats, slate: Ints,
    coins: np.random.Generator, minutes: Floats,
) -> None:  # fmt: skip
    """So many pages for everybody, until they leave; fills in the minutes that each of them watched.

    `promoted` [person, 2] has the first topic that comes before all others, and the one after the last; `rated`
    [person, 2] the sum of the qualities of what somebody watched, and how many videos that were.
    """
    for n in range(len(left)):
        minutes[n] = 0.0
        for _ in range(count):
            if left[n] <= 0.0:
                break
            _slate(interests[n], promoted[n, 0], promoted[n, 1], coins, slate)
            chosen = tempted(interests[n], slate, coins.random())
            if chosen == SLATE:
                left[n] -= PATIENCE
                continue
            topic = slate[chosen]
            quality = means[topic] + SPREAD * coins.standard_normal()
            x, rest, watched = after(interests[n, topic], left[n], quality, coins.random())
            interests[n, topic], left[n] = x, rest
            minutes[n] += watched
            rated[n, 0] += quality
            rated[n, 1] += 1.0
