"""Newton steps on layered worlds: a system that couples each layer only with its neighbours.

The matrix is stored dense and square over the states; elimination walks only through the band of the current and the
next layer, so a step costs O(X n²) for layers of n states.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import lean_kernel

__all__ = ["solve_layers"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@lean_kernel
def solve_layers(layers: Ints, matrix: Floats, right: Floats) -> bool:
    """Solve matrix x = right over the states of layers 0, ..., H - 1, in place; False if a pivot vanished.

    Elimination without pivoting: the callers' matrices are M-like or positive definite. `matrix` is destroyed and
    `right` becomes x.

    >>> matrix, right = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]), np.array([1.0, 0.0, 0.0])
    >>> solve_layers(np.array([0, 1, 2, 3]), matrix, right), right[:2].round(3).tolist()
    (True, [0.667, 0.333])
    """
    H = len(layers) - 2
    for h in range(H):
        end = layers[h + 2] if h + 1 < H else layers[h + 1]
        for k in range(layers[h], layers[h + 1]):
            source = matrix[k]
            pivot = source[k]
            if not abs(pivot) > 1e-300:
                return False
            for i in range(k + 1, end):
                target = matrix[i]
                factor = target[k] / pivot
                if factor != 0.0:
                    for j in range(k + 1, end):
                        target[j] -= factor * source[j]
                    right[i] -= factor * right[k]
    for h in range(H - 1, -1, -1):
        end = layers[h + 2] if h + 1 < H else layers[h + 1]
        for k in range(layers[h + 1] - 1, layers[h] - 1, -1):
            total = right[k]
            for j in range(k + 1, end):
                total -= matrix[k, j] * right[j]
            right[k] = total / matrix[k, k]
            if not abs(right[k]) < 1e300:
                return False
    return True
