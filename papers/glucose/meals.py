"""Random meals of a day, as in the published scenario: three meals and three snacks, each with its own probability.

    taken or not      with probability 0.95 (breakfast, lunch, dinner) or 0.3 (snacks)
    time              a normal law cut to the meal's hours, rounded to a minute
    carbohydrate      a normal law, rounded to a gram, never negative

A second meal in the very minute of an earlier one is not eaten, as in the package.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import lean_kernel

__all__ = ["MEALS", "MORNING", "draw_meals"]

MEALS: Final = np.array([
    # probability, earliest, latest, mean, sd (minutes after midnight), mean, sd (grams)
    [0.95, 300.0, 540.0, 420.0, 60.0, 45.0, 10.0],
    [0.30, 540.0, 600.0, 570.0, 30.0, 10.0, 5.0],
    [0.95, 600.0, 840.0, 720.0, 60.0, 70.0, 10.0],
    [0.30, 840.0, 960.0, 900.0, 30.0, 10.0, 5.0],
    [0.95, 960.0, 1200.0, 1080.0, 60.0, 80.0, 10.0],
    [0.30, 1200.0, 1380.0, 1290.0, 30.0, 10.0, 5.0],
])  # fmt: skip
"""Breakfast, snack, lunch, snack, dinner, snack."""
MORNING: Final = 300
"""A day begins at five, before every meal: each day has one whole scenario."""


@lean_kernel
def draw_meals(table: Floats, coins: np.random.Generator, times: Floats, grams: Floats) -> None:
    """Fill times [person, meal] (minutes after five; -1: not taken) and grams [person, meal]."""
    for n in range(times.shape[0]):
        for m in range(table.shape[0]):
            times[n, m], grams[n, m] = -1.0, 0.0
            if coins.random() >= table[m, 0]:
                continue
            low, high, mean, sd = table[m, 1], table[m, 2], table[m, 3], table[m, 4]
            # A cut normal law: draw until it lies between the bounds (at least 68% of draws do).
            at = mean + sd * coins.standard_normal()
            while at < low or at > high:
                at = mean + sd * coins.standard_normal()
            at = np.rint(at) - MORNING
            amount = max(0.0, np.rint(table[m, 5] + table[m, 6] * coins.standard_normal()))
            for earlier in range(m):
                if times[n, earlier] == at:
                    amount = 0.0
            times[n, m], grams[n, m] = at, amount
