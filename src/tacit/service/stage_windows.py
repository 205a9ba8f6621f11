"""Windows: a stage is closed when its target is reached or its window ends with enough reports; else it is void.

The end of a window is stored with its stage, in whole seconds of the wall clock, and survives restarts. Clocks may be
wrong, so a process measures by two of them:

    over    <=>    wall >= ends    or    monotonic >= monotonic at first sight + min(ends - wall at first sight, window)

W1  A wall clock that jumps back does not extend a window beyond what was left of it when this process first saw it,
    and never opens a stage again: states only move forward, in the database.
W2  A wall clock that jumps forward ends a window early. Then enough reports are there, or the stage is void: nothing
    is released of fewer than `least` in any case.
W3  Looking is harmless: two processes that look at the same time find the state moved by the other and leave it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tacit.errors import TacitError, require
from tacit.service.intake import Writer
from tacit.service.metrics import STATES, Log, Meters
from tacit.service.relay import Relay
from tacit.study.collector import Collector

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
