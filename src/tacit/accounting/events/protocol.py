"""The contract of an accounting event: what a mechanism does to one differing counter, once, and what that costs.

An event says which noise covered which shift and owns its curve. How often it happens is written beside it, as a pair
(event, count), and the count is multiplied in exactly one line of tacit (`tacit.accounting.privacy_loss.total`).
The sign of a shift matters only where the noise is not symmetric (biased bits): there, up and down are two events.

An event is a frozen dataclass of JSON-ready fields. It has the methods of `Event`, by inheritance or on its own; its
curve, its pure epsilon and the two ways to change its size have no default. Whoever wants it in a ledger gives it a
name: a row in the table of `tacit.accounting.events` or an entry point of another distribution.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol, Self, TypeAlias

from tacit.accounting.pld import PLD
from tacit.errors import InvalidInput, require, require_real


class Event(Protocol):
    """Noise over a shift, with everything that the accountant, the audit and the ledger ask about it."""

    __slots__ = ()

    NAME: ClassVar[str]
    """What the event is called on disk."""
    PROTECTS: ClassVar[bool] = True
    """False for an event that releases a number as it is: then no composition is private."""

    def __hash__(self) -> int:
        """Events with equal fields are one event, listed once; a frozen dataclass brings this along."""
        return object.__hash__(self)

    @abstractmethod
    def pld(self) -> PLD:
        """The privacy-loss distribution, from above."""

    @abstractmethod
    def pure(self) -> Fraction | float:
        """The exact epsilon at delta = 0: zero if the event costs nothing, infinite if it has no pure guarantee."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same noise over a change `factor` times as large, as a group of that size makes it, or a refusal."""

    @abstractmethod
    def noisier(self, factor: float) -> Self:
        """The same shift under noise of `factor` times the deviation (for the audit's family of alternatives)."""

    @abstractmethod
    def signal(self) -> float:
        """The largest (E_P X − E_Q X)² / Var X of a linear statistic X: what a distinguisher by moments can reach."""

    def mu_squared(self) -> Fraction | None:
        """The exact μ² if the event is as private as telling N(0, 1) from N(μ, 1), in both directions; None if not."""
        return None

    def concentrated(self) -> Fraction | None:
        """2ρ if the Rényi divergence of order α is at most αρ for every α > 1, apart from a pure ε; None if unknown."""
        return self.mu_squared()

    def renyi(self, order: float) -> float:
        """A closed form of the Rényi divergence of this order; infinite where the event has none of its own."""
        return math.inf

    def slack(self) -> tuple[Fraction, float] | None:
        """What the event adds to delta, and the largest epsilon at which it says so; None if it has a curve instead."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON-ready values: its name under "event", and its fields."""
        return {"event": self.NAME, **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The event that `to_dict` wrote; anything missing or unknown is an error."""
        fields = {name: value for name, value in plain.items() if name != "event"}
        require(plain.get("event") == cls.NAME, f"an event of this kind is called '{cls.NAME}'", plain.get("event"))
        try:
            return cls(**fields)
        except TypeError as error:
            raise InvalidInput(f"these are not the fields of the event '{cls.NAME}', got {sorted(fields)}") from error


Events: TypeAlias = tuple[tuple[Event, int], ...]
"""Everything one user is exposed to: events with the number of times each happens."""

_MEMBERS: Final = ("NAME", *(name for name in vars(Event) if not name.startswith("_")))


def require_event(event: object) -> None:
    """Raise `TypeError` unless `event` has everything that `Event` asks for: what is not understood is not free.

    >>> require_event("a million of noise")
    Traceback (most recent call last):
    ...
    TypeError: an event must have what tacit.accounting.events.Event asks for, got str without NAME, PROTECTS, pld, ...
    """
    require_event_class(type(event))  # type: ignore[arg-type]  # a class is hashable, whatever its instances are


@lru_cache(maxsize=256)
def require_event_class(kind: type[Any]) -> None:
    """Raise `TypeError` unless the instances of this class are events."""
    missing = [name for name in _MEMBERS if getattr(kind, name, None) is None]
    missing += sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise TypeError(
            f"an event must have what tacit.accounting.events.Event asks for, got {kind.__name__} without "
            f"{', '.join(missing)}; inherit from Event and add it"
        )


def require_whole(shift: float) -> int:
    """The shift of a counter under noise on the integers."""
    require(float(shift).is_integer(), "discrete noise covers whole shifts", given=shift)
    return int(shift)


def rounded_up(exact: Fraction) -> float:
    """The least float that is not below the exact number.

    >>> rounded_up(Fraction(1, 10)) == 0.1, rounded_up(Fraction(1, 3)) > Fraction(1, 3)
    (True, True)
    """
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def times(value: float, factor: float) -> float:
    """Value · factor, rounded up; a factor is a positive number."""
    require_real("factor of a change", factor, low=0.0, open_low=True)
    return rounded_up(Fraction(value) * Fraction(factor))
