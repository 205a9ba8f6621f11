"""Logs as JSON lines: what happened and how often, in whole minutes; nobody's address, agent, id, token or body.

L1  Requests are counted by route, status and reason, and written once a minute: a line per request would give the
    order and the moment of single reports away.
L2  Events have fields from a fixed list; a text is one of the program's own words.
L3  A fault is written as the type of its error and the places in the program, without its message.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

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
        self._counts: Counter[tuple[str, int, str]] = Counter()
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
        counts, self._counts = self._counts, Counter()
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
