"""Calibration: the least noise that the accountant still certifies, rounded to the private side.

`calibrate(mechanism, families, epsilon=..., delta=...)` asks a mechanism for its least noise, checks the certificate of
what comes back and remembers the answer. Mechanisms with one continuous knob use `least_noise`: a root
search on the knob that ends on the private side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol, Self, TypeVar

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.search import least_real
from tacit.errors import NotSupported, PrivacyViolation, require, require_real

RELATIVE_TOLERANCE = 1e-6


class Noisy(Protocol):
    """Anything that says which events the release of a family exposes a user to."""

    def events(self, family: Family) -> Events:
        """What the release of this family exposes one user to."""


class Calibrated(Noisy, Protocol):
    """A mechanism that knows its least noise."""

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float) -> Self:
        """The least noise under which these families together are (epsilon, delta)-private."""


M = TypeVar("M", bound=Calibrated)
N = TypeVar("N", bound=Noisy)


def calibrate(mechanism: type[M], families: Sequence[Family], *, epsilon: float, delta: float) -> M:
    """The mechanism with the least noise that makes these families together (epsilon, delta)-private; cached.

    >>> from tacit.noise.laplace import Laplace
    >>> calibrate(Laplace, (Family(name="visits", up=6, down=6, shift=1.0),), epsilon=1.0, delta=0.0).scale
    12.0
    """
    _require_target(families, epsilon, delta)
    found: M = _calibrated(mechanism, tuple(families), float(epsilon), float(delta))
    return found


def events_of(mechanism: Noisy, families: Sequence[Family]) -> Events:
    """Everything that releasing all these families with this noise exposes one user to."""
    return tuple(pair for family in families for pair in mechanism.events(family))


def least_noise(
    make: Callable[[float], N], families: Sequence[Family], *, epsilon: float, delta: float, enough: float
) -> N:
    """The mechanism `make(level)` of the least level that is (epsilon, delta)-private, rounded to the private side.

    More level must mean more noise; `enough` is a first guess and need not be private. The answer is at most a
    millionth too large, and never too small for the accountant.
    """
    _require_target(families, epsilon, delta)

    def excess(level: float) -> float:
        certified = epsilon_of(events_of(make(level), families), delta)
        return math.log(certified / epsilon) if certified > 0.0 else -math.inf

    guess = require_real("first guess of the noise", enough, low=0.0, open_low=True)
    at_guess = excess(guess)
    if delta == 0.0 and at_guess == math.inf:
        raise NotSupported(
            "this noise never gives pure differential privacy (delta = 0): use a positive delta, or a mechanism with a "
            "pure guarantee ('laplace', 'rr', 'oue')"
        )
    # A closed formula is exact, or wrong by rounding only; then its own number is the answer.
    closed = guess if at_guess <= 0.0 else guess * (1.0 + 1e-12)
    if excess(closed) <= 0.0 < excess(closed * (1.0 - RELATIVE_TOLERANCE)):
        return make(closed)
    return make(least_real(excess, guess, tolerance=RELATIVE_TOLERANCE))


@lru_cache(maxsize=1024)
def _calibrated(mechanism: type[M], families: tuple[Family, ...], epsilon: float, delta: float) -> M:
    found = mechanism.calibrate(families, epsilon, delta)
    certified = epsilon_of(events_of(found, families), delta)
    if not certified <= epsilon:
        raise PrivacyViolation(
            f"{mechanism.__name__} was calibrated for epsilon={epsilon:g} but the accountant certifies {certified:g}"
        )
    return found


def _require_target(families: Sequence[Family], epsilon: float, delta: float) -> None:
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, hint="0 means pure differential privacy")
    require(any(family.differing for family in families), "something must be released to be calibrated", given=0)
