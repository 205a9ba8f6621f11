"""The report of a flow solver about its answer, and when that answer is certified.

Both solvers return a flow that is feasible to the last bit (a policy and transition probabilities pushed forward) and a
dual value that no feasible flow can beat. Their difference, the duality gap, bounds what was left on the table without
trusting the solver. The residual is relative: how far inflow and outflow of the dual solution disagree at a state, as a
fraction, over the states that the flow reaches at all. A policy is used at rare states, too, where an absolute residual
says nothing.

`solve_layers` is the Newton step of both: a system that couples each layer only with its neighbours.
"""

from __future__ import annotations

from tacit.arrays import Floats, Ints
from tacit.kernels import lean_kernel


@lean_kernel
def solve_layers(layers: Ints, matrix: Floats, right: Floats) -> bool:
    """Solve matrix x = right over the states of layers 0, ..., H - 1, in place; False if a pivot vanished.

    The matrix is dense and square over the states; elimination walks only through the band of the current and the next
    layer, O(X n²) for layers of n states, without pivoting: the callers' matrices are M-like or positive definite.
    `matrix` is destroyed and `right` becomes x.

    >>> import numpy as np
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


GAP, DUAL, RESIDUAL, ITERATIONS, FALLBACKS, CONVERGED = 0, 1, 2, 3, 4, 5
REPORT_SIZE = 6

GAP_LIMIT = 1e-8  # times 1 + |D|
RESIDUAL_LIMIT = 1e-6
REACHED = 1e-15  # states with a smaller q(x) do not count for the residual


@lean_kernel
def conclude(report: Floats, gap: float, dual: float, residual: float, iterations: int, fallbacks: int) -> None:
    """Write the report; the flow is certified if gap and residual are within their limits."""
    report[GAP], report[DUAL], report[RESIDUAL] = gap, dual, residual
    report[ITERATIONS], report[FALLBACKS] = iterations, fallbacks
    good = abs(gap) <= GAP_LIMIT * (1.0 + abs(dual)) and residual <= RESIDUAL_LIMIT
    report[CONVERGED] = 1.0 if good else 0.0
