"""Noise for a person who reports several times: the largest one-report epsilon that is still private for the person.

Families of noise have one parameter and come with calibrators for one report. A person with g reports meets the events
of g reports, E_g(noise). Calibrating at a smaller ε₁ ≤ ε for one report gives more noise, hence a smaller

    ε_g(ε₁) = ε(E_g(noise(ε₁)), δ),        noise(ε₁) = the calibrator's answer at (ε₁, δ),

and the answer is the largest ε₁ with ε_g(ε₁) ≤ ε. That costs what composition costs: ε₁ = ε/g for pure noise, μ₁ = μ/√g
for Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.search import least_real
from tacit.errors import NotSupported, require_real

__all__ = ["largest_report_epsilon"]

T = TypeVar("T")

TOLERANCE = 1e-6
"""Relative, in the one-report epsilon."""


def largest_report_epsilon(
    make: Callable[[float], T], exposure: Callable[[T], Events], epsilon: float, delta: float
) -> T:
    """The noise `make(ε₁)` of the largest one-report epsilon ε₁ ≤ epsilon whose exposure is (epsilon, delta)-private.

    `make` calibrates one report at this ε₁ and delta; less ε₁ must mean more noise. `exposure` says what a person with
    all reports meets. What is returned was made at an ε₁ at which the accountant was asked and said yes, at most a
    millionth below the largest; with one report it is `make(epsilon)`.

    >>> from tacit.accounting.events import PureEvent
    >>> largest_report_epsilon(lambda e: PureEvent(epsilon=e), lambda noise: ((noise, 4),), 1.0, 0.0)
    PureEvent(epsilon=0.25)
    """
    target = require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0)
    made: dict[float, T] = {}

    def excess(inverse: float) -> float:
        made[inverse] = make(1.0 / inverse)
        certified = epsilon_of(exposure(made[inverse]), delta)
        return math.log(certified / target) if certified > 0.0 else -math.inf

    whole = 1.0 / target
    first = make(target)
    certified = epsilon_of(exposure(first), delta)
    if certified <= target:
        return first
    # Where ε_g is proportional to ε₁, the proportion is the answer itself.
    guess = whole * certified / target if math.isfinite(certified) else 2.0 * whole
    if excess(guess) <= 0.0 < excess(guess * (1.0 - TOLERANCE)):
        return made[guess]
    if delta == 0.0 and math.isinf(certified):
        raise NotSupported(
            "this noise never gives pure differential privacy (delta = 0): use a positive delta, or a mechanism with a "
            "pure guarantee ('laplace', 'rr', 'oue')"
        )
    return made[least_real(excess, guess, tolerance=TOLERANCE)]
