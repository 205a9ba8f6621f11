"""The closed-form repair of noisy counts against scipy.optimize.linprog, row by row.

Both solve the same printed program for the same rows; only the solver is timed, not the building of its matrices.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog

from tacit.released.consistency import consistent_counts

TARGET = 100.0
ROW_LENGTHS = (4, 8, 16, 32, 64)
PRECISION = 40.0


def run() -> list[dict[str, object]]:
    """One row of the table per row length: how many times faster one call on ONE row is than one call of linprog."""
    rng = np.random.default_rng(0)
    table: list[dict[str, object]] = []
    for S in ROW_LENGTHS:
        noisy = rng.binomial(40, 0.2, (64, S)) + rng.normal(0, PRECISION / 8, (64, S))
        visits = noisy.sum(axis=1) + rng.normal(0, PRECISION, 64)
        consistent_counts(noisy, visits, precision=PRECISION)  # compiled before the clock starts
        A, b = _program(noisy[0], visits[0])
        cost, bounds = np.append(np.zeros(S), 1.0), [(0, None)] * (S + 1)

        def solve(A=A, b=b, cost=cost, bounds=bounds) -> object:
            return linprog(cost, A_ub=A, b_ub=b, bounds=bounds, method="highs")

        def one(noisy=noisy, visits=visits) -> object:
            return consistent_counts(noisy[:1], visits[:1], precision=PRECISION)

        def many(noisy=noisy, visits=visits) -> object:
            return consistent_counts(noisy, visits, precision=PRECISION)

        solver, single, batch = _seconds(solve, 10), _seconds(one, 300), _seconds(many, 300) / 64
        table.append(
            {
                "name": f"consistency, rows of {S}",
                "ratio": solver / single,
                "target": TARGET,
                "detail": f"linprog {solver * 1e6:.0f} us, one row {single * 1e6:.1f} us, "
                f"in a batch of 64 rows {batch * 1e6:.2f} us per row ({solver / batch:.0f}x)",
            }
        )
    return table


def _program(c: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    """The matrices of min t s.t. |x − c| ≤ t, |Σx − n| ≤ E/4."""
    S = len(c)
    n = n if n >= -PRECISION / 4 else 0.0
    eye, ones = np.eye(S), np.ones((S, 1))
    A = np.vstack(
        [np.hstack([eye, -ones]), np.hstack([-eye, -ones]), np.append(np.ones(S), 0), np.append(-np.ones(S), 0)]
    )
    return A, np.concatenate([c, -c, [n + PRECISION / 4, -n + PRECISION / 4]])


def _seconds(call: Callable[[], object], times: int) -> float:
    """The best of five averages, so that a busy machine slows neither side."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - start) / times)
    return best


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']:26} {row['ratio']:8.0f}x (target {row['target']:.0f}x)  {row['detail']}")
