"""Rational approximations of 1/√(1−x) for the buffered factorization, and their exact norms.

With poles θ_i = 1 − p_i and zeros λ_i = 1 − q_i (the *rates* p, q are what is stored: they stay exact near 1),

    b(x) = Π (1 − λ_i x) / Π (1 − θ_i x) = 1 + Σ ω_i x / (1 − θ_i x),
    c(x) = 1 / ((1 − x) b(x)) = γ_0 / (1 − x) + Σ γ_i / (1 − λ_i x).

If the rates interlace, p_1 < q_1 < p_2 < q_2 < … ≤ 1, all weights ω and γ are positive; so the sums of squares of the
coefficients of b and c over any number of steps are sums of positive geometric series, without any cancellation.

How the rates were found has no bearing on privacy: whatever they are, the sensitivity is the norm of their own c.
The table holds the minimisers of ‖b‖·‖c‖ for K = 10³..10⁸, to four digits; rates in between
are interpolated in ln K, which costs less than 0.01% of the error.

Reference: K. Dvijotham, H. B. McMahan, K. Pillutla, T. Steinke, A. Thakurta, "Efficient and near-optimal noise
generation for streaming differential privacy", FOCS 2024. There C is the buffered matrix; here B is, which saves the
fifth buffer and has the same error, because the objective is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final, TypeAlias

import numpy as np

from tacit.arrays import Floats
from tacit.errors import require, require_count, require_real

Rates: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""(rates of the poles of b, rates of its zeros), interlacing."""

_TABLE: Final[dict[int, Rates]] = {
    10**3: ((7.870e-4, 1.130e-2, 7.908e-2, 4.392e-1), (3.717e-3, 3.055e-2, 1.958e-1, 7.972e-1)),
    10**4: ((1.015e-4, 2.036e-3, 2.542e-2, 2.751e-1), (5.398e-4, 7.261e-3, 8.693e-2, 6.881e-1)),
    10**5: ((1.328e-5, 3.872e-4, 8.423e-3, 1.681e-1), (8.165e-5, 1.813e-3, 3.868e-2, 5.816e-1)),
    10**6: ((1.796e-6, 8.075e-5, 2.965e-3, 1.033e-1), (1.338e-5, 4.902e-4, 1.783e-2, 4.864e-1)),
    10**7: ((2.379e-7, 1.724e-5, 1.060e-3, 6.306e-2), (2.216e-6, 1.353e-4, 8.275e-3, 4.014e-1)),
    10**8: ((3.048e-8, 3.620e-6, 3.744e-4, 3.796e-2), (3.584e-7, 3.683e-5, 3.799e-3, 3.261e-1)),
}


@cache
def buffered_rates(steps: int) -> Rates:
    """Four poles and four zeros for a stream of this length, from the table.

    >>> buffered_rates(10_000)[0][0]
    0.0001015
    """
    K = min(max(require_count("steps", steps), min(_TABLE)), max(_TABLE))
    if K in _TABLE:
        return _TABLE[K]
    known = sorted(_TABLE)
    logs = np.log([np.ravel(_TABLE[length]) for length in known])
    found = np.exp([np.interp(math.log(K), np.log(known), column) for column in logs.T])
    half = len(found) // 2
    return tuple(map(float, found[:half])), tuple(map(float, found[half:]))


def buffer_weights(poles: Sequence[float], zeros: Sequence[float]) -> Floats:
    """The weights ω of the buffers: b(x) = 1 + Σ ω_i x / (1 − θ_i x)."""
    p, q = _interlaced(poles, zeros)
    # ω_i = Π_j (θ_i − λ_j) / Π_{j≠i} (θ_i − θ_j)
    return np.array([np.prod(q - p[i]) / np.prod(np.delete(p, i) - p[i]) for i in range(p.size)])


def noise_norm(poles: Sequence[float], zeros: Sequence[float], steps: int) -> float:
    """Σ_{j<K} b_j²: the variance of prefix K in units of σ². b_0 = 1, b_j = Σ ω_i θ_i^{j-1}.

    >>> noise_norm((0.5,), (1.0,), 2)
    1.25
    """
    p, _ = _interlaced(poles, zeros)
    weights = buffer_weights(poles, zeros)
    return float(1.0 + weights @ _geometric(p, steps - 1) @ weights)


def strategy_norm(poles: Sequence[float], zeros: Sequence[float], steps: int) -> float:
    """Σ_{j<K} c_j²: the squared shift that one user of sensitivity one causes, over the whole stream.

    >>> strategy_norm((0.5,), (1.0,), 3)                # c = (1 − x/2) / (1 − x) = 1 + x/2 + x²/2 + …
    1.5
    """
    r, weights = _strategy(poles, zeros)
    return float(weights @ _geometric(r, steps) @ weights)


def earliest_norm(poles: Sequence[float], zeros: Sequence[float], steps: int, columns: int) -> float:
    """‖Σ_{i≤g} C e_i‖² of the first g columns: the squared shift of one user in each of the first g steps.

    >>> earliest_norm((0.5,), (1.0,), 3, 1), earliest_norm((0.5,), (1.0,), 3, 2)     # (1, 1.5, 1)
    (1.5, 4.25)
    """
    g = require_count("columns", columns)
    require(g <= steps, f"there must be at most {steps} columns", g)
    r, weights = _strategy(poles, zeros)
    total = 0.0
    for last in range(g):
        # ⟨C e_i, C e_l⟩ = Σ_{s<K-l} c_s c_{s+l-i}, i < l from 0 on: twice, and once where i = l
        shared = _geometric(r, steps - last)
        total += float(weights @ shared @ weights)
        for gap in range(1, last + 1):
            total += 2.0 * float(weights @ shared @ (weights * (1.0 - r) ** gap))
    return total


def _strategy(poles: Sequence[float], zeros: Sequence[float]) -> tuple[Floats, Floats]:
    """Rates and positive weights γ of c_j = Σ γ_a (1 − r_a)^j."""
    p, q = _interlaced(poles, zeros)
    r = np.concatenate([[0.0], q])
    # γ_a = Π_j (π_a − θ_j) / Π_{b≠a} (π_a − π_b) over the poles π = (1, λ_1, …, λ_d) of c
    return r, np.array([np.prod(p - r[a]) / np.prod(np.delete(r, a) - r[a]) for a in range(r.size)])


def _geometric(rates: Floats, steps: int) -> Floats:
    """Σ_{j<n} ((1 − r_a)(1 − r_b))^j for all pairs, accurate for tiny rates and n·rate of any size."""
    a, b = rates[:, None], rates[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = a + b - a * b  # 1 − (1 − a)(1 − b)
        total = -np.expm1(steps * (np.log1p(-a) + np.log1p(-b))) / gap
    return np.where(gap == 0.0, float(steps), np.where(steps == 0, 0.0, total))


def _interlaced(poles: Sequence[float], zeros: Sequence[float]) -> tuple[Floats, Floats]:
    require(len(poles) == len(zeros) > 0, "there must be as many zeros as poles, and at least one", given=len(zeros))
    for rate in (*poles, *zeros):
        require_real("rate", rate, low=0.0, high=1.0, open_low=True)
    p, q = np.asarray(poles, dtype=np.float64), np.asarray(zeros, dtype=np.float64)
    order = np.ravel(np.stack([p, q], axis=1))
    require(bool(np.all(np.diff(order) > 0.0)), "rates must interlace: p_1 < q_1 < p_2 < q_2 < …", given=list(order))
    return p, q
