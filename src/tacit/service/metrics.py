"""Metrics of one process for Prometheus: counts, sizes and latencies, no label that somebody sent.

M1  Labels come from fixed lists: routes by the name of their function, refusals by their slug, states by their word.
M2  No moment of a single request is kept: series say no time of creation, latencies stand in histograms.

Logs as JSON lines: what happened and how often, in whole minutes; nobody's address, agent, id, token or body.

L1  Requests are counted by route, status and reason, and written once a minute: a line per request would give the
    order and the moment of single reports away.
L2  Events have fields from a fixed list; a text is one of the program's own words.
L3  A fault is written as the type of its error and the places in the program, without its message.
"""

from __future__ import annotations

import collections
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sized
from pathlib import Path
from typing import IO, Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

FIELDS: Final = frozenset(
    (
        *("stage", "question", "reports", "state", "reason", "addresses", "count", "status", "route", "seconds"),
        *("version", "kind", "serial", "outcome", "dummies", "messages", "people", "noise", "error", "places"),
    )
)


class Log:
    """The log of one party; safe to use from several threads."""

    def __init__(self, party: str, stream: IO[str] | None = None, clock: Callable[[], float] = time.time) -> None:
        self.party = party
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: collections.Counter[tuple[str, int, str]] = collections.Counter()
        self._minute = self._now()

    def event(self, name: str, **fields: Any) -> None:
        """Write one line about something that happened (L2)."""
        unknown = set(fields) - FIELDS
        if unknown:
            raise ValueError(f"a log has no field {', '.join(sorted(unknown))}")
        with self._lock:
            self._write({"event": name, **fields})

    def request(self, route: str, status: int, reason: str) -> None:
        """Count one request (L1)."""
        with self._lock:
            if self._now() != self._minute:
                self._flush()
            self._counts[route, status, reason] += 1

    def fault(self, error: BaseException) -> None:
        """Write down that something is wrong, without what it was about (L3)."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        self.event("fault", error=type(error).__name__, places=places)

    def flush(self) -> None:
        """Write what was counted since the last time."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        counts, self._counts = self._counts, collections.Counter()
        for (route, status, reason), count in sorted(counts.items()):
            fields = {"route": route, "status": status, "reason": reason, "count": count}
            self._write({"event": "requests", **fields}, self._minute)
        self._minute = self._now()

    def _write(self, fields: dict[str, Any], minute: int | None = None) -> None:
        when = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime((self._now() if minute is None else minute) * 60))
        line = json.dumps({"minute": when, "party": self.party, **fields}, default=str)
        stream = self._stream or sys.stderr
        stream.write(line + "\n")
        stream.flush()

    def _now(self) -> int:
        return int(self._clock() // 60)


COMMITS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COMMIT_SIZE_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
REQUESTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0)
STATES: Final = ("new", "open", "closed", "released", "void")


class Meters:
    """What a party counts, in a registry of its own."""

    def __init__(self, party: str) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # M2
        self.registry = CollectorRegistry()
        self.party = party
        ProcessCollector(registry=self.registry)
        self.requests = self.counter("requests", "Requests by route, status and reason.", "route", "status", "reason")
        self.seconds = self.histogram("request_seconds", "From the head of a request to its answer.", REQUESTS)
        self._arriving: list[Sized] = []
        bodies = self.gauge("bodies_arriving", "Bodies that are on their way.")
        bodies.set_function(lambda: sum(len(some) for some in self._arriving))
        self.draining = self.gauge("draining", "1 once the process was asked to end.")

    def watch_bodies(self, arriving: Sized) -> None:
        """Count the bodies in this collection, too: every listener has its own."""
        self._arriving.append(arriving)

    def counter(self, name: str, words: str, *labels: str) -> Counter:
        """A number that only grows: tacit_<party>_<name>_total."""
        return Counter(f"tacit_{self.party}_{name}", words, labels, registry=self.registry)

    def gauge(self, name: str, words: str, *labels: str) -> Gauge:
        """A number that goes up and down."""
        return Gauge(f"tacit_{self.party}_{name}", words, labels, registry=self.registry)

    def histogram(self, name: str, words: str, buckets: tuple[float, ...] = COMMITS) -> Histogram:
        """Counts by size."""
        return Histogram(f"tacit_{self.party}_{name}", words, buckets=buckets, registry=self.registry)

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return prometheus_client.generate_latest(self.registry)
