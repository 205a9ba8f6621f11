"""Everything tacit can refuse, as one tree.

TacitError
├── InvalidInput        your input: what must hold, what was given, what to do
│   └── UnknownName     a name that no registry knows, with the nearest one that it does
├── BudgetSpent         the release would exceed the privacy budget; nothing was released
├── NotSupported        correct in principle, not offered (yet); the message names what is
└── Unsupportable       would not be private; no option turns it on
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable

__all__ = [
    "BudgetSpent",
    "InvalidInput",
    "NotSupported",
    "TacitError",
    "UnknownName",
    "Unsupportable",
    "require",
    "require_count",
    "require_real",
]


class TacitError(Exception):
    """Base of every error that tacit raises on purpose."""


class InvalidInput(TacitError, ValueError):
    """The input breaks a stated rule."""


class UnknownName(InvalidInput):
    """A name is not registered; the message suggests the nearest one.

    >>> str(UnknownName("environment", "riverswin", ["riverswim", "random-mdp"]))
    "unknown environment 'riverswin': did you mean 'riverswim'? Known: random-mdp, riverswim"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        super().__init__(f"unknown {kind} '{name}': {hint}Known: {', '.join(names)}")


class BudgetSpent(TacitError):
    """A release was refused because it would exceed the privacy budget."""


class NotSupported(TacitError):
    """The request makes sense, but this combination is not offered."""


class Unsupportable(TacitError):
    """The request would not be private, so no option turns it on."""


def require(condition: bool, must: str, given: object, hint: str = "") -> None:
    """Raise `InvalidInput` in the house form unless `condition` holds.

    >>> require(2 > 1, "two exceeds one", given=2)
    >>> require(False, "episodes must be at least 1", given=-3, hint="use --episodes 20000")
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: episodes must be at least 1, got -3; use --episodes 20000
    """
    if not condition:
        raise InvalidInput(f"{must}, got {given!r}" + (f"; {hint}" if hint else ""))


def require_count(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int of at least `least`, or raise.

    >>> require_count("horizon", 6)
    6
    """
    whole = isinstance(value, int) or (hasattr(value, "__index__") and not isinstance(value, bool))
    if isinstance(value, bool) or not whole or int(value) < least:  # type: ignore[call-overload]
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def require_real(
    name: str, value: object, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False, hint: str = ""
) -> float:
    """Return `value` as a finite float in [low, high] (or (low, high]), or raise; NaN never passes.

    >>> require_real("epsilon", 1, low=0.0, open_low=True)
    1.0
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and (number > low if open_low else number >= low) and number <= high):
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if high == math.inf else "]"
        raise InvalidInput(
            f"{name} must be a finite number in {left}{low:g}, {high:g}{right}, got {value!r}"
            + (f"; {hint}" if hint else "")
        )
    return number
