"""The practical rule for confidence widths: ONE function for every learner of a comparison.

Theory constants make private runs of published size vacuous: the widths exceed the horizon and nothing is learned.
The practical rule keeps the shape of an empirical Bernstein bound, puts the variance of the privacy noise inside, and
has a single parameter z (1 is safe, 0.5 aggressive), the same for every learner. It is a heuristic and is recorded
with every result; `constants="theory"` stays selectable.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import inlined, lean_kernel

__all__ = ["DEFAULT_Z", "practical_width", "row_model"]

DEFAULT_Z = 1.0

Floats = NDArray[np.float64]


@inlined
@lean_kernel
def row_model(
    counts: Floats, visits: float, reward_sum: float, count_variance: float, P_row: Floats
) -> tuple[float, float]:
    """Turn one row of (noisy) counts into a distribution, written to P_row; return (n, mean reward).

    Cells within half a count or half a noise standard deviation of zero are dropped; the rest is normalised.
    Without noise this is exactly N(s,a,s') / N(s,a). A row without transitions (the last step) rests on `visits`.
    """
    floor = 0.5 * math.sqrt(count_variance)
    if floor < 0.5:
        floor = 0.5
    n = 0.0
    for t in range(counts.shape[0]):
        if counts[t] > floor:
            n += counts[t]
    for t in range(counts.shape[0]):
        # P̃(s'|s,a) = Ñ(s,a,s') / Σ Ñ over the kept cells
        P_row[t] = counts[t] / n if counts[t] > floor else 0.0
    base = visits if visits > floor else n
    if base <= floor:
        return n, 0.0
    return n, min(1.0, max(0.0, reward_sum / base))


@lean_kernel
def practical_width(
    z: float,
    remaining: int,
    n: float,
    reward: float,
    variance: float,
    spread: float,
    count_variance: float,
    reward_variance: float,
    weight: float = 1.0,
) -> float:
    """The width of one row of the model; `remaining` = H - h + 1 steps are left (this one included).

    `variance` is that of V under the row, `spread` = Σ_x' (V(x') - PV)² carries the noise of the counts. Where users
    send a random part of what they saw, n counts rest on n/weight users; otherwise the weight is 1.
    """
    if n <= 0.0:
        return float(remaining)
    # b = z √( (Var_P V + r(1-r) + ¼w/n) w/n + (σ_N² Σ_x'(V(x')-PV)² + σ_R²)/n² ) + (z²/3)(H-h+1) w/n
    sampling = (variance + reward * (1.0 - reward) + 0.25 * weight / n) * weight / n
    noise = (count_variance * spread + reward_variance) / (n * n)
    return z * math.sqrt(sampling + noise) + (z * z / 3.0) * remaining * weight / n
