"""Ladders: the building block of the realistic environments, a level that rises or falls by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ladder"]


def ladder(levels: int, *, up: float, down: float) -> NDArray[np.float64]:
    """The matrix [level, next level] of a level that rises with probability `up` and falls with probability `down`.

    At either end the move that would leave the ladder stays put.

    >>> ladder(3, up=0.25, down=0.5)
    array([[0.75, 0.25, 0.  ],
           [0.5 , 0.25, 0.25],
           [0.  , 0.5 , 0.5 ]])
    """
    moves = np.zeros((levels, levels))
    for level in range(levels):
        moves[level, min(level + 1, levels - 1)] += up
        moves[level, max(level - 1, 0)] += down
        moves[level, level] += 1.0 - up - down
    return moves
