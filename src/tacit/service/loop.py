"""The loop of a learner's process: one thread that steps the worker while this process holds the lease.

Z1  Two processes of one study never step at the same time: a step is made under a lease in the study's database, and
    whoever lost it stops before the next step. What a step writes is a transaction of its own, so that even a step that
    outlived its lease changes nothing twice.
Z2  Waiting grows from `first` to the poll's length and falls back when something moved; a call of an operator ends it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from tacit.errors import TacitError
from tacit.service.logs import Log
from tacit.service.metrics import Meters
from tacit.service.worker import Outcome, Step, Worker

__all__ = ["Lease", "Loop"]

OUTCOMES: Final[tuple[Outcome, ...]] = ("moved", "waiting", "unreachable", "held", "refused", "finished")
FIRST: Final = 0.05
SLOW: Final = 30.0
"""Seconds between two tries of what was refused, at most."""


class Lease(Protocol):
    """The right to do a job, for a while."""

    def hold(self) -> bool:
        """Take or renew it; False: another process has it."""
        ...

    def let_go(self) -> None:
        """Give it back."""
        ...


class Loop:
    """The thread that works; made before the listeners, begun with them."""

    def __init__(
        self,
        worker: Worker,
        lease: Lease,
        *,
        log: Log,
        meters: Meters,
        poll: float,
        window: float,
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        self.worker, self.lease, self.log = worker, lease, log
        self.poll, self.window = poll, window
        self.last = Step("waiting", "begun")
        self.broken = False
        self._finished = finished
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._steps = meters.counter("steps", "Steps of the worker by what they came to.", "outcome")
        self._stage = meters.gauge("stage", "The stage that the worker is at.")
        self._overdue = meters.gauge("overdue", "1 if the open stage takes longer than its window.")
        self._state = meters.gauge("state", "1 for what the last step came to.", "outcome")
        self._since = time.monotonic()

    def begin(self) -> None:
        """Begin to work."""
        self._thread.start()

    def wake(self) -> None:
        """Look again, now."""
        self._wake.set()

    def end(self, seconds: float) -> None:
        """Stop after the present step and wait for it, at most so long."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def working(self) -> bool:
        """Whether the thread is alive, or was never begun."""
        return not self.broken

    def status(self) -> dict[str, Any]:
        """What the last step came to."""
        return {"outcome": self.last.outcome, "word": self.last.word, "stage": self.last.stage}

    def _run(self) -> None:
        wait = FIRST
        try:
            while not self._stop.is_set():
                step = self._once()
                wait = FIRST if step.outcome == "moved" else min(2 * wait, self._longest(step))
                if step.outcome != "moved":
                    self._wake.wait(max(wait, step.after))
                    self._wake.clear()
        except Exception as error:  # a fault of the program: said, and seen in /healthz
            self.log.fault(error)
            self.broken = True
        finally:
            self._leave()

    def _once(self) -> Step:
        """One step under the lease (Z1)."""
        try:
            mine = self.lease.hold()
        except TacitError as error:
            return self._seen(Step("refused", str(error)[:200]))
        return self._seen(self.worker.step() if mine else Step("waiting", "another process works"))

    def _seen(self, step: Step) -> Step:
        self._steps.labels(step.outcome).inc()
        for outcome in OUTCOMES:
            self._state.labels(outcome).set(outcome == step.outcome)
        if step.stage is not None:
            self._stage.set(step.stage)
        changed = (step.outcome, step.word, step.stage) != (self.last.outcome, self.last.word, self.last.stage)
        if changed:
            self._since = time.monotonic()
            self.log.event("step", outcome=step.outcome, reason=step.word, stage=step.stage)
        self._overdue.set(step.outcome == "waiting" and time.monotonic() - self._since > self.window)
        if step.outcome == "finished" and changed:
            self._finished()
        self.last = step
        return step

    def _longest(self, step: Step) -> float:
        return max(self.poll, SLOW) if step.outcome in ("refused", "finished") else self.poll

    def _leave(self) -> None:
        try:
            self.lease.let_go()
        except TacitError:
            self.log.event("lease", outcome="kept until it ends")
