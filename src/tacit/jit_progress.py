"""A watch on compilation: how many seconds of this process went into kernels, and one line for whoever waits for them.

Kernels are compiled once per machine and version and then read from a cache (`tacit.kernels`), so the first run of all
is slow and silent. After `ANNOUNCE_AFTER_SECONDS` of compilation in one process a line is told, once, wherever
`set_listener` says: by default the logger `tacit` at level INFO. Numba's own event counts, raised only where nothing
was cached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

ANNOUNCE_AFTER_SECONDS: Final = 0.5
"""Seconds of compilation that need no word."""

_log = logging.getLogger("tacit")


class _Watch:
    """Adds up the outermost compilations; numba holds a lock while it compiles, so they come one after the other."""

    def __init__(self) -> None:
        self.name = ""
        self.depth = 0
        self.began = 0.0
        self.spent = 0.0
        self.processor = 0.0
        """Processor seconds: what `spent` would be on a machine that does nothing else."""
        self.processor_began = 0.0
        self.told = False
        self.tell: Callable[[str], None] = _log.info

    def notify(self, event: Any) -> None:
        """The listener's method that numba calls."""
        if event.is_start:
            self.on_start(event)
        else:
            self.on_end(event)

    def on_start(self, event: Any) -> None:
        """A kernel, or a part of one, is compiled from here on."""
        if self.depth == 0:
            self.began = time.perf_counter()
            self.processor_began = time.process_time()
            original = event.data["dispatcher"].py_func
            self.name = f"{original.__module__}.{original.__qualname__.partition('.')[0]}"
        self.depth += 1
        self.check()

    def on_end(self, event: Any) -> None:
        """It was compiled."""
        self.check()
        self.depth -= 1
        if self.depth == 0:
            self.spent += time.perf_counter() - self.began
            self.processor += time.process_time() - self.processor_began

    def seconds(self) -> float:
        """So far."""
        return self.spent + (time.perf_counter() - self.began if self.depth > 0 else 0.0)

    def processor_seconds(self) -> float:
        """So far, of this process alone."""
        return self.processor + (time.process_time() - self.processor_began if self.depth > 0 else 0.0)

    def check(self) -> None:
        """Say what is compiled, if it has taken long."""
        if not self.told and self.seconds() > ANNOUNCE_AFTER_SECONDS:
            self.say(self.name)

    def say(self, name: str) -> None:
        """Once."""
        if not self.told:
            self.told = True
            self.tell(f"compiling for this machine, once: {name}; later runs begin at once")


_WATCH: Final = _Watch()


def watch_compiler() -> None:
    """Register with numba; `tacit.kernels` does so when it imports numba, which commands without kernels never do."""
    from numba.core import event

    event.Listener.register(_Watch)
    event.register("numba:compile", _WATCH)


def seconds_compiling() -> float:
    """Seconds that this process has spent on compilation so far."""
    return _WATCH.seconds()


def processor_compiling() -> float:
    """Processor seconds that this process has spent on compilation so far."""
    return _WATCH.processor_seconds()


def set_listener(tell: Callable[[str], None]) -> None:
    """Where the line goes from now on."""
    _WATCH.tell = tell


def announce(name: str) -> None:
    """Say that `name` is compiled somewhere else, in a worker of this process; nothing if it was said before."""
    _WATCH.say(name)
