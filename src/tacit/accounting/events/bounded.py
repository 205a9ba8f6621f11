"""Bounded double-exponential noise: density, moments, exact privacy loss, least radius.

[garcelon2021local] Alg. 6 adds noise on (−R, R) with density exp(−f(x/R)) / (R Z), f(u) = exp(1/(1 − u²)). Its printed
radius leaves a constant open and its theorem never applies to a tabular problem; the exact loss does. f is convex (an
increasing convex function of the convex 1/(1 − u²)), so the density is log-concave: the concentrated pattern of shifts
is the worst for every horizon (Lemma L5 (bounded noise)), and only shift/R matters.
A bounded noise reveals its input near the ends of its support, hence never pure privacy: P[ℓ = ∞] = P[x < shift − R].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.events.protocol import Event, times
from tacit.accounting.pld import PLD, compose, integrate, shifted_pld
from tacit.accounting.privacy_loss import MIN_DELTA, Floats
from tacit.accounting.search import least_real
from tacit.errors import require, require_real

CELLS = 4096
GREATEST_LOSS = 60.0  # what is larger counts as infinite


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedEvent(Event):
    """Bounded double-exponential noise on (-radius, radius) over one shift."""

    NAME: ClassVar[str] = "bounded"

    radius: float
    shift: float

    def __post_init__(self) -> None:
        require_real("radius", self.radius, low=0.0, open_low=True)
        require_real("shift", self.shift, low=0.0)

    def pld(self) -> PLD:
        """The shifted density in cells."""
        return bounded_pld(self.radius, self.shift)

    def pure(self) -> float:
        """No pure guarantee: the ends of the support reveal the input."""
        return math.inf if self.shift else 0.0

    def scaled(self, factor: float) -> BoundedEvent:
        """A larger shift."""
        return replace(self, shift=times(self.shift, factor))

    def noisier(self, factor: float) -> BoundedEvent:
        """A larger radius."""
        return replace(self, radius=self.radius * factor)

    def signal(self) -> float:
        """shift² over the variance of the noise."""
        return self.shift**2 / (BOUNDED_STD * self.radius) ** 2


def bounded_density(x: Floats, radius: float = 1.0) -> Floats:
    """The density of the noise at x; zero outside (−radius, radius).

    >>> bool(abs(integrate(lambda x: bounded_density(x, 3.0), -3.0, 3.0) - 1.0) < 1e-12)
    True
    """
    return _weight(np.asarray(x, float) / radius) / (radius * BOUNDED_NORMALISER)


@lru_cache(maxsize=64)
def bounded_pld(radius: float, shift: float) -> PLD:
    """The privacy loss of one counter that moves by `shift` under the noise.

    >>> bounded_pld(10.0, 20.0).epsilon(0.5)
    inf
    """
    require_real("radius", radius, low=0.0, open_low=True)
    s = abs(require_real("shift", shift)) / radius
    if s == 0.0:
        return PLD.from_guarantee(0.0, 0.0)
    if s >= 2.0:
        return PLD.unprotected()

    def loss(u: Floats) -> Floats:
        # f(u − s) − f(u) = e^b (e^(a − b) − 1) with a = 1/(1 − (u − s)²), b = 1/(1 − u²), a − b = s (s − 2u) a b.
        a, b = 1.0 / ((1.0 - (u - s)) * (1.0 + (u - s))), 1.0 / ((1.0 - u) * (1.0 + u))
        return np.asarray(np.exp(b) * np.expm1(s * (s - 2.0 * u) * a * b))

    low = _where(loss, GREATEST_LOSS, s)
    infinity = integrate(bounded_density, -1.0, low)
    return shifted_pld(bounded_density, loss, np.linspace(low, s - low, CELLS + 1), infinity)


def least_radius(epsilon: float, delta: float, shifts: Iterable[float]) -> float:
    """The least common radius that makes these shifts (epsilon, delta)-private, rounded up.

    >>> round(least_radius(1.0, 1e-5, (1, 1, 1, 1)), 1)
    82.3
    """
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=MIN_DELTA, high=1.0, hint="bounded noise cannot give delta = 0; use Laplace")
    counts = Counter(abs(require_real("shift", shift)) for shift in shifts)
    require(any(counts), "at least one shift must differ from zero", dict(counts))
    return _least_radius(epsilon, delta, tuple(sorted(counts.items())))


@lru_cache(maxsize=1024)
def _least_radius(epsilon: float, delta: float, counts: tuple[tuple[float, int], ...]) -> float:
    shifts = Counter(dict(counts))

    def excess(radius: float) -> float:
        found = _bounded(radius, shifts).delta(epsilon)
        return math.log(found / delta) if found > 0.0 else -math.inf

    # The Gaussian of the same standard deviation, σ = √(Σ shift²)/μ, is too optimistic; the search corrects it.
    spread = math.sqrt(sum(shift * shift for shift in shifts.elements()))
    return least_real(excess, 2.0 * spread / gaussian_mu(epsilon, delta) / BOUNDED_STD)


def _bounded(radius: float, shifts: Counter[float]) -> PLD:
    return compose((bounded_pld.__wrapped__(radius, shift), count) for shift, count in shifts.items())


def _weight(u: Floats) -> Floats:
    """The unnormalised density exp(−f(u)); near the ends f is so large that it underflows well before them."""
    inside = np.abs(u) < 0.999
    v = np.where(inside, u, 0.0)
    return np.asarray(np.where(inside, np.exp(-np.exp(1.0 / ((1.0 - v) * (1.0 + v)))), 0.0))


def _where(loss: Callable[[Floats], Floats], value: float, s: float) -> float:
    """The outcome left of s/2 at which the decreasing loss passes `value` (from its lossier side)."""
    low, high = s - 1.0, 0.5 * s
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if loss(np.array(middle)) > value else (low, middle)
    return high


BOUNDED_NORMALISER = integrate(_weight, -1.0, 1.0)
"""Z of radius 1: ∫ exp(−f)."""
BOUNDED_STD = math.sqrt(integrate(lambda u: u * u * _weight(u), -1.0, 1.0) / BOUNDED_NORMALISER)
"""The standard deviation of the noise of radius 1."""
