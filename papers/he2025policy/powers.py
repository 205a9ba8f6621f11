"""What the theorems of [he2025policy] say beside N: powers of d, ε and μ, the users N(α), α_bias, and clipping.

    N(α)        the users with whom the error has fallen to α, on straight lines between the points in logarithms
    μ           the dose bandit has F = I/τ², so τ of the policy decides μ = 1/τ² (and the bound G on scores with it)
    α_bias      sup over θ of E_{a ~ π*}[(A(s,a) - u*·∇ log π)²], u* the best fit under π_θ: by quadrature
    clipping    E[g - clip(g)] of one user's gradient as a share of E[g], at a distance between mean and best dose

Tabular softmax has α_bias = 0 and, with one step, no clipping: what follows about both is about Gaussian policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from papers.fitting import fit_exponent
from tacit.arrays import Floats
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["DEVIATIONS", "alpha_bias", "clipping_bias", "fisher_runs", "powers_of", "users_for"]

DEVIATIONS: Final = (0.35, 0.5, 0.7, 1.0)
"""τ of the policies, one run each: μ = 1/τ²."""
DELTA: Final = 1e-5
NODES: Final = 400


def fisher_runs(scale: str) -> tuple[Run, ...]:
    """Theorem 3 at four values of μ, with and without noise."""
    powers, seeds = {"smoke": ((3, 4), 2), "paper": ((5, 6), 10)}[scale]
    cases: Mapping[str, Mapping[str, Any]] = {
        "no privacy": {},
        "ε=1": {"trust": "central", "epsilon": 1.0, "delta": DELTA},
    }
    return tuple(
        Run(
            label=f"{name}, τ={deviation:g}, N=1e{power}",
            config=RunConfig(
                environment=f"dose-bandit:contexts=8,deviation={deviation:g}",
                learner="dp-pg:policy=gaussian",
                episodes=10**power,
                seeds=as_seeds(seeds),
                constants="theory",
                checkpoints=2,
                **options,
            ),
        )
        for deviation in DEVIATIONS
        for power in powers
        for name, options in cases.items()
    )


def users_for(alpha: float, users: Floats, errors: Floats) -> float | None:
    """N(α), where the curve of errors has fallen to α; None if it never has, or began below.

    >>> round(users_for(0.05, np.array([1e3, 1e5]), np.array([0.5, 0.005])))
    10000
    """
    if not (errors > 0.0).all() or errors[0] < alpha or errors.min() > alpha:
        return None
    after = int(np.argmax(errors <= alpha))
    (x0, x1), (y0, y1) = np.log(users[after - 1 : after + 1]), np.log(errors[after - 1 : after + 1])
    return float(np.exp(x0 + (x1 - x0) * (y0 - math.log(alpha)) / (y0 - y1)))


def powers_of(curves: Sequence[Mapping[str, Any]], terms: tuple[float, float]) -> dict[str, Any]:
    """Powers of ε and of d at the largest N, of the error and of its cost of privacy; and N(α) with its own.

    `terms` are the theorem's exponents of N in its two terms: (√d/(Nε))^p with p = -terms[1].
    """
    private = [curve for curve in curves if curve["epsilon"] is not None]
    dimensions, epsilons = (sorted({curve[key] for curve in private}) for key in ("d", "epsilon"))
    found: dict[str, Any] = {
        "theorem": {"epsilon": terms[1], "d": -terms[1] / 2.0, "N_of_alpha": 1.0 / terms[0]},
        "epsilon": [
            {"d": d, "cost": _power(private, "epsilon", d=d, value="privacy_cost")}
            | {"error": _power(private, "epsilon", d=d, value="mean")}
            for d in dimensions
        ],
        "d": [
            {"epsilon": e, "cost": _power(private, "d", epsilon=e, value="privacy_cost")}
            | {"error": _power(private, "d", epsilon=e, value="mean")}
            for e in epsilons
        ],
        "N_of_alpha": [],
    }
    for d in dimensions:
        mine = [curve for curve in curves if curve["d"] == d]
        # The error that the noisiest private run reaches in the end: every curve passes it, if it begins above.
        alpha = max(float(curve["mean"][-1]) for curve in mine)
        found["N_of_alpha"].append(
            {"d": d, "alpha": alpha}
            | {
                str(curve["epsilon"]): users_for(alpha, np.array(curve["users"]), np.array(curve["mean"]))
                for curve in mine
            }
        )
    return found


def alpha_bias(deviation: float, width: float = 1.0, *, distance: float | None = None) -> float:
    """The transferred error of the compatible approximation in one context; None: the largest over all distances.

    With z = (a - m)/τ the score is a multiple of z, and u* fits A by β z, β = E_{z ~ N(0,1)}[r z].

    >>> round(alpha_bias(0.5, distance=0.0), 4), round(alpha_bias(0.5), 2)
    (0.0165, 0.82)
    """
    if distance is None:
        return max(alpha_bias(deviation, width, distance=x) for x in np.linspace(0.0, 6.0, 121))
    z, weights = _gauss()

    def reward(doses: Floats) -> Floats:
        return np.asarray(np.exp(-(doses**2) / (2.0 * width**2)))  # the best dose is 0, the mean of π_θ at `distance`

    own = reward(distance + deviation * z)
    value, slope = float(weights @ own), float(weights @ (own * z))
    best = deviation * z  # a ~ π*
    left = reward(best) - value - slope * (best - distance) / deviation
    return float(weights @ left**2)


def clipping_bias(deviation: float, width: float = 1.0, *, distance: float, clip: float = 2.0) -> float:
    """The share of the expected gradient that clipping takes away; the clip is in deviations of the score.

    >>> 0.0 < clipping_bias(0.5, distance=0.75) < 0.1
    True
    """
    z, weights = _gauss()
    earned = np.exp(-((distance + deviation * z) ** 2) / (2.0 * width**2))
    whole = float(weights @ (earned * z))
    return (whole - float(weights @ (earned * np.clip(z, -clip, clip)))) / whole


def _power(curves: Sequence[Mapping[str, Any]], of: str, *, value: str, **fixed: float) -> float | None:
    """The fitted power of one parameter at the largest N, the others fixed."""
    mine = sorted((c for c in curves if all(c[k] == v for k, v in fixed.items())), key=lambda c: float(c[of]))
    ends = [curve[value][-1] for curve in mine]
    if any(end is None or end <= 0.0 for end in ends):
        return None
    slope = fit_exponent(np.array([float(c[of]) for c in mine]), np.array(ends))
    return slope if math.isfinite(slope) else None


def _gauss() -> tuple[Floats, Floats]:
    """A fine grid over N(0,1): clipping has kinks, which Gauss-Hermite would not see."""
    z = (np.arange(40 * NODES) + 0.5) / (2 * NODES) - 10.0
    weights = np.exp(-(z**2) / 2.0)
    return z, weights / weights.sum()
