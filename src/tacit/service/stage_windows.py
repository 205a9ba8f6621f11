"""Windows: a stage is closed when its target is reached or its window ends with enough reports; else it is void.

The end of a window is stored with its stage, in whole seconds of the wall clock, and survives restarts. Clocks may be
wrong, so a process measures by two of them:

    over    <=>    wall >= ends    or    monotonic >= monotonic at first sight + min(ends - wall at first sight, window)

W1  A wall clock that jumps back does not extend a window beyond what was left of it when this process first saw it,
    and never opens a stage again: states only move forward, in the database.
W2  A wall clock that jumps forward ends a window early. Then enough reports are there, or the stage is void: nothing
    is released of fewer than `least` in any case.
W3  Looking is harmless: two processes that look at the same time find the state moved by the other and leave it.

The writer of a shuffler: many reports share one commit, and an answer is given when its report is on the disk.

    submit (event loop) -> bounded queue -> one writer thread -> Collector.add_many -> COMMIT -> answers (event loop)

N1  Nothing is acknowledged before it is durable: the future of a report is resolved after the commit that holds it.
N2  Bounded: beyond `queue` waiting reports the next is refused at once, before any work was done for it.
N3  One thread writes. Steps of the collector (open, close, release, void) run in it too, in the order of asking: what
    was submitted before a step is in the database when the step begins.
N4  A report cannot spoil the others of its group: a group that fails is repeated one by one.
N5  Patient, but not for ever: whoever waits longer than `patience` is told to come back. Their report may count all the
    same; sent again it does not count twice.
N6  `stop` ends after everything that was taken in has been answered.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tacit.errors import TacitError, require
from tacit.service.metrics import COMMIT_SIZE_BUCKETS, STATES, Log, Meters
from tacit.service.relay import Relay
from tacit.service.web import Refused
from tacit.study.collector import Collector

Row = tuple[Any, ...]
T = TypeVar("T")
PATIENCE_STEP: Final = 0.5


def _nothing(counted: int) -> None:
    del counted


class Writer:
    """The one thread that writes to a collector."""

    def __init__(
        self,
        collector: Collector,
        *,
        queue: int,
        together: int,
        patience: float = 30.0,
        meters: Meters,
        log: Log,
        committed: Callable[[int], None] = _nothing,
    ) -> None:
        """`committed` is told, in the event loop, how many reports a commit has added."""
        self.collector = collector
        self.broken = False
        self._most, self._together, self._patience = queue, together, patience
        self._waiting: deque[tuple[float, asyncio.Future[str]]] = deque()
        self._log, self._committed = log, committed
        self._reports: deque[tuple[Row, asyncio.Future[str]]] = deque()
        self._jobs: deque[tuple[int, Callable[[Collector], Any], asyncio.Future[Any]]] = deque()
        self._taken = self._done = 0
        self._lock = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outcomes = meters.counter("reports", "Reports by what became of them.", "outcome")
        self._seconds = meters.histogram("commit_seconds", "One commit of reports.")
        self._sizes = meters.histogram("commit_reports", "Reports that shared one commit.", COMMIT_SIZE_BUCKETS)
        meters.gauge("queue", "Reports that wait for the disk.").set_function(lambda: len(self._reports))

    def start(self) -> None:
        """Begin to write; called in the event loop that asks."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        self._loop.call_later(PATIENCE_STEP, self._sweep)

    @property
    def full(self) -> bool:
        """Whether the next report would be refused (N2)."""
        return len(self._reports) >= self._most

    def submit(self, *row: Any) -> asyncio.Future[str]:
        """The answer of the collector to (report, person[, token]), once it is durable (N1)."""
        assert self._loop is not None  # noqa: S101 - started before anything is accepted
        found: asyncio.Future[str] = self._loop.create_future()
        with self._lock:
            if self._stopping or not self._thread.is_alive():
                raise Refused("draining")
            if len(self._reports) >= self._most:
                raise Refused("overloaded")
            self._reports.append((row, found))
            self._taken += 1
            self._lock.notify()
        self._waiting.append((self._loop.time(), found))
        return found

    async def run(self, job: Callable[[Collector], T]) -> T:
        """What a step of the collector returns or raises; it runs in the writer's thread (N3)."""
        assert self._loop is not None  # noqa: S101 - started before anything is accepted
        found: asyncio.Future[T] = self._loop.create_future()
        with self._lock:
            if self._stopping or not self._thread.is_alive():
                raise Refused("draining")
            self._jobs.append((self._taken, job, found))
            self._lock.notify()
        return await asyncio.shield(found)

    async def stop(self) -> None:
        """End when everything was answered (N6)."""
        with self._lock:
            self._stopping = True
            self._lock.notify()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)
            await asyncio.sleep(0)  # answers that the thread has handed over

    def _sweep(self) -> None:
        """Forget answers that were given, and tell whoever waits too long (N5)."""
        assert self._loop is not None  # noqa: S101 - called by it
        late = self._loop.time() - self._patience
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] <= late):
            _, found = self._waiting.popleft()
            if not found.done():
                found.set_exception(Refused("unavailable"))
        if not self._stopping:
            self._loop.call_later(PATIENCE_STEP, self._sweep)

    # the thread

    def _run(self) -> None:
        try:
            with self.collector.store.held():
                while self._step():
                    pass
        except BaseException as error:  # the process lives on to say so: /healthz is 503 and nothing is taken in
            self._log.fault(error)
        finally:
            self.broken = not self._stopping
            self._refuse_rest()

    def _step(self) -> bool:
        """Do the next thing; False at the end."""
        with self._lock:
            while not (self._reports or self._jobs or self._stopping):
                self._lock.wait()
            due = self._jobs and self._jobs[0][0] <= self._done
            if due:
                _, job, found = self._jobs.popleft()
            elif self._reports:
                most = min(self._together, self._jobs[0][0] - self._done) if self._jobs else self._together
                some = [self._reports.popleft() for _ in range(min(most, len(self._reports)))]
            else:
                return False
        if due:
            self._do(job, found)
        else:
            self._write(some)
        return True

    def _do(self, job: Callable[[Collector], Any], found: asyncio.Future[Any]) -> None:
        try:
            made = job(self.collector)
        except Exception as error:
            self._tell([(found, error)])
        else:
            self._tell([(found, made)])

    def _write(self, some: list[tuple[Row, asyncio.Future[str]]]) -> None:
        started = time.perf_counter()
        answers: list[str | Exception]
        try:
            answers = list(self.collector.add_many([row for row, _ in some]))
        except Exception as error:
            answers = [self._alone(row, error) for row, _ in some] if len(some) > 1 else [self._fault(error)]
        self._seconds.observe(time.perf_counter() - started)
        self._sizes.observe(len(some))
        counted = 0
        for answer in answers:
            word = answer if isinstance(answer, str) else "fault"
            counted += word == "counted"
            self._outcomes.labels(word).inc()
        self._done += len(some)
        self._tell(list(zip((found for _, found in some), answers, strict=True)), counted)

    def _alone(self, row: Row, first: Exception) -> str | Exception:
        """One report of a group that failed (N4)."""
        try:
            (found,) = self.collector.add_many([row])
        except Exception as error:
            return self._fault(error)
        return found

    def _fault(self, error: Exception) -> Exception:
        self._log.fault(error)
        return Refused("unavailable")

    def _tell(self, found: list[tuple[asyncio.Future[Any], Any]], counted: int = 0) -> None:
        assert self._loop is not None  # noqa: S101 - the thread was started by it
        self._loop.call_soon_threadsafe(self._answer, found, counted)

    def _answer(self, found: list[tuple[asyncio.Future[Any], Any]], counted: int) -> None:
        """In the event loop: hand the answers out."""
        for future, answer in found:
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
                future.exception()  # whoever asked may be gone
            else:
                future.set_result(answer)
        if counted:
            self._committed(counted)

    def _refuse_rest(self) -> None:
        with self._lock:
            rest: list[tuple[asyncio.Future[Any], Any]] = [
                (found, Refused("unavailable")) for _, found in self._reports
            ]
            rest += [(found, Refused("unavailable")) for _, _, found in self._jobs]
            self._reports.clear()
            self._jobs.clear()
        if rest:
            self._tell(rest)


TOO_FEW: Final = "too few reports at the end of the window"
OPEN: Final = """SELECT stage.number, slot, state, n,
                 (SELECT count(*) FROM report WHERE report.stage = stage.number), ends
                 FROM stage LEFT JOIN "window" ON "window".stage = stage.number ORDER BY stage.number DESC LIMIT 1"""
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """The last stage as it is in the database."""

    stage: int
    state: str
    reports: int
    least: int
    target: int
    ends: int | None


def ends_after(window: int, wall: Clock = time.time) -> int:
    """The end of a window that begins now: whole seconds, never shorter than it."""
    return int(wall()) + 1 + window


def look(collector: Collector) -> StageStatus | None:
    """The last stage, if there is one."""
    with collector.store.reading() as connection:
        row = connection.execute(OPEN).fetchone()
    if row is None:
        return None
    number, slot, state, n, reports, ends = row
    channel = collector.channels[slot]
    count = int(reports) if n is None else int(n)
    return StageStatus(stage=number, state=state, reports=count, least=channel.least, target=channel.target, ends=ends)


def close_stage(collector: Collector, stage: int) -> int:
    """Close the open stage if enough reports are in; how many count. A stage that was closed stays so."""
    seen = _last(collector, stage)
    if seen.state in ("closed", "released"):
        return seen.reports
    require(seen.state == "open", "a stage must be open to be closed", seen.state)
    hint = "wait for more, or end it with void"
    require(seen.reports >= seen.least, f"a stage must have at least {seen.least} reports", "fewer", hint)
    return collector.close()


def void_stage(collector: Collector, stage: int, reason: str) -> None:
    """Give the last stage up, unless it was given up before."""
    if _last(collector, stage).state != "void":
        collector.void(reason)


def _last(collector: Collector, stage: int) -> StageStatus:
    seen = look(collector)
    require(seen is not None and seen.stage == stage, "the last stage must be this one", "another")
    assert seen is not None  # noqa: S101 - for the types
    return seen


class StageWindows:
    """The timer of one shuffler."""

    def __init__(
        self,
        writer: Writer,
        relay: Relay,
        *,
        window: int,
        tick: float,
        meters: Meters,
        log: Log,
        wall: Clock = time.time,
        monotonic: Clock = time.monotonic,
    ) -> None:
        self.writer, self.relay, self.log = writer, relay, log
        self._window, self._tick = window, tick
        self.wall, self.monotonic = wall, monotonic
        self._deadline: tuple[int, float] | None = None
        self._missing: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._stage = meters.gauge("stage", "The number of the last stage.")
        self._state = meters.gauge("stage_state", "1 for the state of the last stage.", "state")
        self._reports = meters.gauge("stage_reports", "Reports of the last stage.")
        self._least = meters.gauge("stage_least", "Reports that the last stage needs.")
        self._target = meters.gauge("stage_target", "Reports that the last stage wants.")
        self._serial = meters.gauge("keys_serial", "How often the shuffler's keys have changed.")
        self._keys = meters.gauge("keys_usable", "Keys that envelopes are opened with.")
        self._age = meters.gauge("keys_age_hours", "Whole hours since the shuffler's keys have changed.")

    def start(self) -> None:
        """Begin to look, in the running event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def counted(self, reports: int) -> None:
        """So many reports were added: look now if the target may be reached."""
        if self._missing is not None:
            self._missing -= reports
            if self._missing <= 0:
                self._soon.set()

    def soon(self) -> None:
        """Look now."""
        self._soon.set()

    async def once(self) -> StageStatus | None:
        """Look, and move the stage if it is time."""
        self.relay.refresh_keys(self.wall())
        moved = await self.writer.run(self._move)
        if moved is not None:
            self.log.event("stage", stage=moved.stage, state=moved.state, reports=moved.reports)
        seen = await self.writer.run(self._look)
        self._gauge(seen)
        open_now = seen is not None and seen.state == "open"
        self._missing = seen.target - seen.reports if open_now and seen is not None else None
        return seen

    def _look(self, collector: Collector) -> StageStatus | None:
        self.relay.refresh_bundle()
        return look(collector)

    def _move(self, collector: Collector) -> StageStatus | None:
        """In the writer's thread: close or void the open stage if it is time."""
        seen = look(collector)
        if seen is None or seen.state != "open":
            return None
        if seen.reports < seen.target and not self._over(seen):
            return None
        try:
            if seen.reports >= seen.least:
                collector.close()
            else:
                collector.void(TOO_FEW)
        except TacitError:
            if look(collector) == seen:
                raise
            return None  # another process has moved it (W3)
        return look(collector)

    def _over(self, seen: StageStatus) -> bool:
        """Whether the window has ended, by either clock."""
        if seen.ends is None:
            return False
        wall, now = self.wall(), self.monotonic()
        if self._deadline is None or self._deadline[0] != seen.stage:
            left = min(max(seen.ends - wall, 0.0), float(self._window))
            self._deadline = (seen.stage, now + left)
        return wall >= seen.ends or now >= self._deadline[1]

    def _gauge(self, seen: StageStatus | None) -> None:
        for state in STATES:
            self._state.labels(state).set(state == ("new" if seen is None else seen.state))
        self._keys.set(len(self.relay.secrets))
        self._serial.set(self.relay.serial)
        self._age.set(self.relay.age_hours(self.wall()))
        if seen is not None:
            self._stage.set(seen.stage)
            self._reports.set(seen.reports)
            self._least.set(seen.least)
            self._target.set(seen.target)

    async def _run(self) -> None:
        while True:
            try:
                await self.once()
            except Exception as error:
                self.log.fault(error)
            try:
                async with asyncio.timeout(self._tick):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
