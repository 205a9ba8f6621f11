"""Accounting events, one file each, and the one table that knows them by name.

A new event is a new file here and one row in `EVENTS`. Another distribution adds its own without touching tacit: an
entry point in the group "tacit.events" whose name is the event's `NAME` and whose object is its class. Such classes
are imported when a name is met that the table does not have; they never replace a row of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import TYPE_CHECKING, Any, Final

from tacit.accounting.events.binomial import BinomialEvent, MirroredEvent
from tacit.accounting.events.bounded import BoundedEvent
from tacit.accounting.events.gaussian import GaussianEvent, SampledGaussianEvent
from tacit.accounting.events.lattice import LatticeEvent
from tacit.accounting.events.protocol import Event, Events, require_event, require_event_class
from tacit.accounting.events.pure import ApproximationEvent, LaplaceEvent, PureEvent, UnprotectedEvent
from tacit.errors import UnknownName, require
from tacit.renamed import old_names

__all__ = [
    "ENTRY_POINTS",
    "EVENTS",
    "ApproximationEvent",
    "BinomialEvent",
    "BoundedEvent",
    "Event",
    "Events",
    "GaussianEvent",
    "LaplaceEvent",
    "LatticeEvent",
    "MirroredEvent",
    "PureEvent",
    "SampledGaussianEvent",
    "UnprotectedEvent",
    "event_class",
    "event_from_dict",
    "event_to_dict",
    "require_event",
]

EVENTS: Final[Mapping[str, type[Event]]] = {
    "binomial": BinomialEvent,
    "bounded": BoundedEvent,
    "gaussian": GaussianEvent,
    "laplace": LaplaceEvent,
    "lattice": LatticeEvent,
    "mirrored-binomial": MirroredEvent,
    "pure": PureEvent,
    "sampled-gaussian": SampledGaussianEvent,
    "slack": ApproximationEvent,
    "unprotected": UnprotectedEvent,
}
"""Every event of tacit by the name that it has on disk."""

ENTRY_POINTS: Final = "tacit.events"


@lru_cache(maxsize=256)
def event_class(name: str) -> type[Event]:
    """The class of the events of this name, in the table or installed by another distribution.

    >>> event_class("gausian")
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: unknown event 'gausian': did you mean 'gaussian'? Known: binomial, bounded, gaussian, ...
    """
    if name in EVENTS:
        return EVENTS[name]
    installed = _installed()
    found = [point.load() for point in installed if point.name == name]
    if not found:
        raise UnknownName("event", name, {*EVENTS, *installed.names})
    kind: type[Event] = found[0]
    require(len(set(found)) == 1, f"one distribution must provide the event '{name}'", given=f"{len(found)} of them")
    require_event_class(kind)
    require(kind.NAME == name, f"the entry point of an event has its NAME, '{kind.NAME}'", given=name)
    return kind


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as JSON-ready values, for events that `event_from_dict` will know again.

    >>> event_to_dict(PureEvent(epsilon=0.5))
    {'event': 'pure', 'epsilon': 0.5}
    """
    require_event(event)
    if event_class(event.NAME) is not type(event):
        raise TypeError(
            f"an event on disk must be of the class that its name '{event.NAME}' stands for, got "
            f"{type(event).__name__}; give it a name of its own and an entry point in '{ENTRY_POINTS}'"
        )
    return event.to_dict()


def event_from_dict(plain: Mapping[str, Any]) -> Event:
    """The event that `event_to_dict` wrote.

    >>> event_from_dict({"event": "pure", "epsilon": 0.5})
    PureEvent(epsilon=0.5)
    """
    require(isinstance(plain.get("event"), str), "an event has its name under 'event'", given=sorted(plain))
    return event_class(plain["event"]).from_dict(plain)


def _installed() -> EntryPoints:
    return entry_points(group=ENTRY_POINTS)


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__, Slack="ApproximationEvent")
