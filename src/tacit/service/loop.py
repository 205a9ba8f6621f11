"""The loop of a learner's process: one thread that steps the worker while this process holds the lease.

Z1  Two processes of one study never work at the same time: a step is made under a lease in the study's database, and
    every transaction of it is fenced. Whoever slept through the end of its lease and was overtaken writes nothing. A
    second thread renews the lease while a step takes long; after a crash others wait for `LEASE_SECONDS` at most.
Z2  Waiting grows from `first` to the poll's length and falls back when something moved; a call of an operator ends it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tacit.errors import TacitError
from tacit.service.database.leases import Lease
from tacit.service.logs import Log
from tacit.service.metrics import Meters
from tacit.service.worker import Outcome, Step, Worker

OUTCOMES: Final[tuple[Outcome, ...]] = ("moved", "waiting", "unreachable", "held", "refused", "finished")
FIRST: Final = 0.05
LONGEST: Final = 300
LEASE_SECONDS: Final = 10
JOB: Final = "worker"
SLOW: Final = 30.0
"""Seconds between two tries of what was refused, at most."""


class Loop:
    """The thread that works; made before the listeners, begun with them."""

    def __init__(
        self,
        worker: Worker,
        *,
        log: Log,
        meters: Meters,
        poll: float,
        window: float,
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        self.worker, self.log = worker, log
        self._lease: Lease | None = None
        self._holder = secrets.token_hex(8)
        self.poll, self.window = poll, window
        self.last = Step("waiting", "begun")
        self.broken = False
        self._finished = finished
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._steps = meters.counter("steps", "Steps of the worker by what they came to.", "outcome")
        self._stage = meters.gauge("stage", "The stage that the worker is at.")
        self._overdue = meters.gauge("overdue", "1 if the open stage takes longer than its window.")
        self._state = meters.gauge("state", "1 for what the last step came to.", "outcome")
        self._since = time.monotonic()

    def begin(self) -> None:
        """Begin to work."""
        self._thread.start()
        self._renewing.start()

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
            lease = self._held()
        except TacitError as error:
            return self._seen(Step("refused", str(error)[:LONGEST]))
        if lease is None:
            return self._seen(Step("waiting", "another process works"))
        with lease.fenced():
            return self._seen(self.worker.step())

    def _held(self) -> Lease | None:
        """The lease, renewed or taken; None if another process has it."""
        if self._lease is not None:
            try:
                self._lease.renew()
            except TacitError:
                self._lease = None  # it was taken over
        if self._lease is None:
            store = self.worker.study.store
            self._lease = Lease.take(store, JOB, holder=self._holder, seconds=LEASE_SECONDS)
        return self._lease

    def _renew(self) -> None:
        """Keep the lease while a step takes long."""
        while not self._stop.wait(LEASE_SECONDS / 3):
            lease = self._lease
            if lease is not None:
                with contextlib.suppress(TacitError):  # the next step finds out
                    lease.renew()

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
        if self._lease is not None:
            with contextlib.suppress(TacitError):  # then it ends by itself
                self._lease.give_back()
