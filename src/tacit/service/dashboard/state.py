"""Facts of a dashboard, looked up again and again in one place, and who is told when they have changed.

K1  Looking writes nothing. What is costly (readings of releases, the ledger's composition, the certificate) is computed
    when a release or a record is new, and the disk is measured every minute.
K2  One look serves everybody: pages show the last one, and a change is told to every open page once.
K3  A report changes nothing before a minute is over: whoever watches does not see its moment.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from tacit.service.dashboard import views
from tacit.service.dashboard.watched import Watched
from tacit.service.metrics import Log
from tacit.service.web import Still
from tacit.study.stage_summaries import followed, readings

DISK_SECONDS: Final = 60.0
BEAT_SECONDS: Final = 15.0
"""How often an idle stream says that it is there."""


class DashboardState:
    """The facts of what is watched."""

    def __init__(
        self,
        watched: Watched,
        tokens: Path,
        *,
        log: Log,
        tick: float = 0.5,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.watched, self._tokens, self._log = watched, tokens, log
        self._tick, self._wall = tick, wall
        self._rate = views.Rate(wall)
        self._still: Still[tuple[Any, Any, Any]] = Still()
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._certificate = views.certificate(watched)
        self.facts: dict[str, Any] = {}
        self.version = 0
        self.verdicts: dict[str, Any] | None = None
        """What the last verification found; in memory only."""
        self._text = ""
        self._changed = asyncio.Event()
        self._ended = False
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def certificate(self) -> Any:
        """The certificate of the design."""
        return self._certificate

    async def begin(self) -> None:
        """Look once, then again and again."""
        await self.look()
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Look no more, and let go of every stream."""
        self.leave()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        peer = self.watched.shuffler
        if peer is not None:
            peer.close()

    def leave(self) -> None:
        """Let go of every stream; may be called from the event loop only."""
        self._ended = True
        self._changed.set()

    async def look(self) -> None:
        """Look now, and tell everybody if something is new (K2)."""
        async with self._looking:
            found = await asyncio.to_thread(self._collect)
            text = json.dumps(found, sort_keys=True, default=str)
            if text == self._text:
                return
            self._text, self.facts = text, found
            self.version += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            if self._ended:
                self._changed.set()

    async def versions(self) -> AsyncIterator[int | None]:
        """The version now, then every later one; None is a beat."""
        told = 0
        while not self._ended:
            changed = self._changed
            if self.version != told:
                told = self.version
                yield told
                continue
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            try:
                await self.look()
            except Exception as error:  # a database that is busy or being migrated is looked at again
                self._log.fault(error)

    # in a thread

    def _collect(self) -> dict[str, Any]:
        watched = self.watched
        study, places = watched.study, watched.places
        read = [] if study is None else self._fresh("readings", self._seen(), lambda: readings(study))
        policies = () if study is None else self._fresh("followed", self._planned(), lambda: followed(study))
        stages, rate, refused = self._counts()
        head = self._head()
        return {
            "study": self._about(stages),
            "operator": {
                "stages": stages,
                "rate": rate,
                "refused": refused,
                "leases": views.leases(places, self._wall),
                "keys": views.keys(places, self._tokens, self._wall),
                "flow": None if study is None else views.flow_rows(read),
                "quarantined": views.quarantined(study),
                "disks": self._fresh("disks", int(self._wall() // DISK_SECONDS), lambda: views.disks(places)),
            },
            "officer": {
                "budget": self._fresh("budget", head, lambda: views.budget(watched, self._certificate)),
                "releases": self._fresh("releases", head, lambda: views.releases(watched)),
                "verdicts": self.verdicts,
            },
            "learner": None
            if study is None
            else {
                "trial": self._fresh("trial", self._seen(), lambda: views.trial(study)),
                "standing": self._fresh("standing", self._seen(), lambda: views.standing(study)),
                "returns": views.returns(read),
                "coefficients": self._fresh("coefficients", self._seen(), lambda: views.coefficients(study)),
                "policy": views.policy_table(policies),
                "changed": views.changed(policies),
            },
        }

    def _counts(self) -> tuple[Any, Any, Any]:
        """Stages, reports per minute and refusals; those of an open stage stand still for a minute (K3)."""
        watched, rate = self.watched, self._rate

        def made() -> tuple[Any, Any, Any]:
            stages = views.stages(watched, rate, self._wall)
            collector = watched.collector
            return stages, None if collector is None else rate.rows(), views.refusals(collector)

        if watched.collector is None:
            return made()
        last = "SELECT count(*), (SELECT state FROM stage ORDER BY number DESC LIMIT 1) FROM stage"
        key = self._one(watched.collector, last)
        return self._still(key, made) if key[1] == "open" else made()

    def _about(self, stages: list[dict[str, Any]]) -> dict[str, Any]:
        watched, design = self.watched, self.watched.design
        state = stages[-1]["state"] if stages else "new"
        learner = None if watched.study is None else watched.study.status()["state"]
        done = sum(row["state"] == "released" for row in stages)
        return {
            "name": design.name,
            "digest": design.digest,
            "trust": design.trust,
            "declared": design.declarations,
            "noise": None if watched.collector is None else watched.collector.noise,
            "state": learner if learner in ("served", "quarantined", "ended") else state,
            "slots": len(design.channels),
            "released": done,
            "watched": [place.name for place in watched.places],
            "rehearsal": watched.rehearsal,
            "rewards": [float(bound) for bound in design.rewards],
            "horizon": design.horizon,
        }

    def _fresh(self, name: str, mark: Any, make: Callable[[], Any]) -> Any:
        """What was made under this mark, made anew under another one (K1)."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != mark:
            kept = self._kept[name] = (mark, make())
        return kept[1]

    def _seen(self) -> Any:
        return self._one(
            self.watched.study,
            "SELECT (SELECT count(*) FROM release), (SELECT count(*) FROM belief), (SELECT count(*) FROM quarantine)",
        )

    def _planned(self) -> Any:
        return self._one(self.watched.study, "SELECT count(*), max(stage) FROM bundle")

    def _head(self) -> Any:
        if self.watched.collector is None:
            return self._seen()
        return self._one(self.watched.collector, "SELECT max(number), count(*) FROM records")

    @staticmethod
    def _one(party: Any, query: str) -> Any:
        with party.store.reading() as connection:
            return tuple(connection.execute(query).fetchone())
