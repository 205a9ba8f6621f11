"""The size of a trial: how many users per arm show an effect, for a claim, an error and a power."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scipy.special import ndtri

from tacit.arguments import checked
from tacit.data.arms import require_bounds
from tacit.errors import NotSupported, require, require_real
from tacit.planning.arms import power_of, require_alpha
from tacit.release.arms import make_arms
from tacit.types import Trust

MAX_USERS: Final = 10**9
"""More users per arm are not looked for."""
MIN_SQUARE: Final = 1e-100
"""Of an effect, so that it is not 0 in floating point; so many users are too many in any case."""
CLOSE: Final = 1.01
"""A size is found when so much fewer users are too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSize:
    """How many users each arm needs."""

    users: int
    power: float
    """The probability of the verdict 'better' at the stated effect, at least."""
    effect: float
    alpha: float
    trust: Trust
    epsilon: float | None
    delta: float | None
    bounds: tuple[float, float]
    mean: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"bounds": list(self.bounds)}


@checked
def trial_size(
    *,
    effect: float,
    trust: Trust,
    epsilon: float | None = None,
    delta: float | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    bounds: Sequence[float] = (0.0, 1.0),
    mean: float | None = None,
    honest_fraction: float = 1.0,
) -> TrialSize:
    """Find how many users per arm a trial needs to show an effect with this power.

    Parameters
    ----------
    effect
        The difference to show, in the unit of `bounds`.
    trust, epsilon, delta
        What is promised to the users.
    power, alpha
        The probability of showing the effect, and of a wrong interval.
    bounds
        The declared range of a return.
    mean
        The baseline's mean; by default the middle, which is the worst.
    honest_fraction
        As in `tacit.run`.

    Returns
    -------
    TrialSize
        Users per arm and the power that they have.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> trial_size(effect=0.1, trust="none").users < trial_size(effect=0.1, trust="local", epsilon=1, delta=0).users
    True
    """
    low, high = require_bounds(bounds)
    wanted, a = require_real("power", power, low=0.0, high=0.999, open_low=True), require_alpha(alpha)
    base = (low + high) / 2.0 if mean is None else require_real("mean", mean, low=low, high=high)
    p0 = (base - low) / (high - low)
    d = require_real("effect", effect, low=0.0, open_low=True) / (high - low)
    require(p0 + d <= 1.0, f"mean and effect must stay below the largest return {high:g}", base + effect)

    def reached(n: int) -> float:
        arms = make_arms(users=(n, n), trust=trust, epsilon=epsilon, delta=delta, honest_fraction=honest_fraction)
        return power_of(arms.users, arms.noise, a, (p0, p0 + d))

    found = _least_users(reached, wanted, _first_guess(d, p0, wanted, a))
    return TrialSize(
        users=found,
        power=reached(found),
        effect=effect,
        alpha=a,
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        bounds=(low, high),
        mean=base,
    )


def _first_guess(d: float, p0: float, power: float, alpha: float) -> int:
    """(z + z')² (p₀q₀ + p₁q₁)/d², as without noise."""
    variance = p0 * (1.0 - p0) + (p0 + d) * (1.0 - p0 - d)
    z = -float(ndtri(alpha / 2.0)) + float(ndtri(max(power, 0.5)))
    return max(10, math.ceil(min(2.0 * MAX_USERS, z**2 * variance / max(d**2, MIN_SQUARE))))


def _least_users(reached: Callable[[int], float], power: float, guess: int) -> int:
    """The least number with this power, to a hundredth: up in steps until it is enough, then by halves."""
    low, high, factor = max(2, guess // 2), guess, 1.25
    while reached(high) < power:
        low, high, factor = high, math.ceil(high * factor), factor * 1.5
        if high > MAX_USERS:
            raise NotSupported(f"no trial of {MAX_USERS:,} users per arm shows this effect; enlarge it, or epsilon")
    while high > low + 1 and high > CLOSE * low:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return high
