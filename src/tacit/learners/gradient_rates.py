"""Batch size, step size and regularisation of DP-PG as the theorems of [he2025policy] choose them, repaired.

| printed | here |
|---|---|
| m = (N d)^(1/3) ε^(-2/3), any real number | rounded, kept within [1, N]; T = ⌊N/m⌋, the other users are unused |
| η = min(1/(LB), √(2δ₀/(TLC))) with B = 1 - 1/m, infinite at m = 1 | 1/L instead of 1/(LB) |
| δ₀ = J* - J(θ₀), unknown | the width of the interval of returns, at least that |
| L = R_max (2 - 1/A) for J_λ | + λ/|S|, the smoothness of the log-barrier |
| R_max² G in Lemma 7 | R_max² G² |

The bounds G² = 1 - 1/A and F = 1 of softmax are used here only where a mean over a ~ π is bounded, where they are
right.
"""

from __future__ import annotations

import math

from tacit.errors import require_count, require_real


def theory_batch(users: int, dimension: int, epsilon: float) -> int:
    """The batch size m = (N d)^(1/3) / ε^(2/3), as a number of users (Thm. 2 and Lemma 7).

    >>> theory_batch(1_000_000, 50, 1.0), theory_batch(10, 1_000_000, 0.001)
    (368, 10)
    """
    N, d = require_count("users", users), require_count("dimension", dimension)
    epsilon = require_real("epsilon", epsilon, low=0.0, open_low=True)
    return min(max(round(math.cbrt(N * d) / math.cbrt(epsilon) ** 2), 1), N)


def theory_smoothness(
    largest: float, score: float, curvature: float, *, barrier: float = 0.0, states: int = 1
) -> float:
    """L = R_max (G² + F) of Lemma 3, plus λ/|S| for the log-barrier.

    >>> round(theory_smoothness(1.0, math.sqrt(0.8), 1.0), 9)   # R_max (2 - 1/A) with A = 5
    1.8
    """
    return largest * (score**2 + curvature) + barrier / states


def noise_term(
    largest: float, score: float, users_per_batch: int, dimension: int, sigma: float, *, barrier: float, states: int
) -> float:
    """C of the ABC condition: the variance of a batch gradient and d σ² of the privacy noise (Lemmas 2 and 5)."""
    # C = R² G²/m + d σ²;  with the barrier  C = (2/m) G² (R² + λ²/|S|) + d σ²
    factor = 1.0 if barrier == 0.0 else 2.0
    sampling = factor * score**2 * (largest**2 + barrier**2 / states) / users_per_batch
    return sampling + dimension * sigma**2


def theory_step(smoothness: float, noise: float, steps: int, width: float) -> float:
    """η = min(1/L, √(2 δ₀/(T L C))), where δ₀ is the width of the interval of returns.

    >>> theory_step(2.0, 0.0, 100, 1.0)
    0.5
    """
    T, L = require_count("steps", steps), require_real("smoothness", smoothness, low=0.0, open_low=True)
    if noise <= 0.0:
        return 1.0 / L
    return min(1.0 / L, math.sqrt(2.0 * width / (T * L * noise)))


def theory_barrier(users: int, dimension: int, epsilon: float) -> float:
    """λ = α/2 at the accuracy α that Thm. 4 promises for N users: N = α⁻⁶ + √d α^(-9/2)/ε, larger term.

    >>> round(theory_barrier(1_000_000, 50, 1.0), 4)
    0.05
    """
    N, d = require_count("users", users), require_count("dimension", dimension)
    sampling = 1.0 / math.sqrt(math.cbrt(N))
    private: float = (math.sqrt(d) / (N * require_real("epsilon", epsilon, low=0.0, open_low=True))) ** (2 / 9)
    return max(sampling, private) / 2.0
