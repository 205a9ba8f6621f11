"""Random histories of a collector: people who come, return, send again and forge, closes, releases, voids, crashes.

The channel has no noise and every person a label, so every number of an honest release is zero or one. `findings` are
what an honest collector never shows; the mutants below each break one promise.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from study_fakes import FakeDesign, body_of, bundle_of
from study_world import fast_directory

from tacit.accounting.journal import dialect_of
from tacit.errors import InvalidInput
from tacit.study.collector import Collector
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.intake import Intake, Pseudonyms
from tacit.study.wire import REPORT_HEAD, ReleasePayload, Report

DESIGN = FakeDesign(kind="test-stamped", stages=60, target=6, least=3, labels=24, reports=2)
OPERATIONS = ("new", "late", "resend", "forged", "stranger", "close", "release", "open", "void")
WEIGHTS = (0.42, 0.03, 0.06, 0.04, 0.03, 0.1, 0.13, 0.13, 0.06)


class Stop(BaseException):
    """A crash."""


class Twice(Collector):
    """A mutant in which a person is somebody else every time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

        class Anybody(Pseudonyms):
            def of(self, person: str) -> bytes:
                return os.urandom(32)

        self.pseudonyms = Anybody(self.pseudonyms.key)


class NoMinimum(Collector):
    """A mutant without a minimum."""

    def _require_enough(self, channel: Any, n: int) -> None:
        pass


class LetsIn(Collector):
    """A mutant whose closed batch lets reports in."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with self.store.connected() as connection:
            on = "" if dialect_of(connection) == "sqlite" else " ON report"
            connection.execute(f"DROP TRIGGER IF EXISTS report_in_time{on}")

    def _intake(self, connection: sqlite3.Connection) -> Intake:
        made = super()._intake(connection)
        row = connection.execute("SELECT number, slot FROM stage WHERE state = 'closed'").fetchone()
        if row is not None:
            made.stage, made.channel, made.counted = row[0], self.channels[row[1]], 0
        return made

    def _stage(self, connection: sqlite3.Connection, *states: str) -> Any:
        number, slot, questions, _ = super()._stage(connection, *states)
        count = connection.execute("SELECT count(*) FROM report WHERE stage = ?", (number,)).fetchone()[0]
        return number, slot, questions, count


class PublishesFirst(Collector):
    """A mutant that shows a release before it is recorded."""

    show: Any = None

    def _released(self, *arguments: Any, **options: Any) -> bytes:
        data = super()._released(*arguments, **options)
        self.show(data)
        return data


class History:
    """One history; what was seen is kept here, outside of the database."""

    def __init__(self, seed: int, kind: type[Collector], *, crashes: bool, place: Path, database: Any = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind, self.place, self.crashes, self.database = kind, place, crashes, database
        self.countdown = -1
        self.stage, self.slot, self.state = -1, -1, "none"
        self.sent: list[tuple[bytes, int]] = []
        self.counted: dict[int, set[int]] = {}
        self.views: dict[int, set[bytes]] = {}
        self.head = GENESIS_HEAD
        self.kept: set[bytes] = set()
        self.stolen = False
        Collector.new(place, DESIGN, database=database)
        self.restart()

    def edge(self, name: str) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            raise Stop

    def restart(self) -> None:
        """A new process: it knows what is in the database and nothing else."""
        self.collector = self.kind(self.place, edge=self.edge, database=self.database)
        if isinstance(self.collector, PublishesFirst):
            self.collector.show = self.see

    def see(self, data: bytes) -> None:
        self.views.setdefault(ReleasePayload.parse(data).stage, set()).add(data)

    def run(self, operations: int) -> list[str]:
        for _ in range(operations):
            name = str(self.rng.choice(OPERATIONS, p=WEIGHTS))
            crash = self.crashes and self.rng.random() < (0.4 if name == "release" else 0.1)
            self.countdown = int(self.rng.integers(1, 8)) if crash else -1
            try:
                getattr(self, name)()
            except InvalidInput:
                pass
            except Stop:
                self.countdown = -1
                self.restart()
                self.learn_state()
            self.countdown = -1
        return self.findings()

    def learn_state(self) -> None:
        stages = self.collector.status()["stages"]
        if stages:
            self.stage, self.slot, self.state = stages[-1]["stage"], stages[-1]["slot"], stages[-1]["state"]

    def send(self, report: bytes, person: int) -> None:
        answer = self.collector.add(report, f"person {person}")
        self.sent.append((report, person))
        if answer == "counted":
            self.kept.add(report)
            self.counted.setdefault(Report.parse(report).stage, set()).add(person)
            if self.state != "open":
                self.counted.setdefault(-1, set()).add(person)

    def new(self) -> None:
        person = int(self.rng.integers(DESIGN.labels))
        self.send(self.made(max(self.stage, 0), person), person)

    def made(self, stage: int, person: int) -> bytes:
        name = self.rng.bytes(16)
        return Report(study=self.collector.study, stage=stage, id=name, body=body_of(person)).encode()

    def late(self) -> None:
        person = int(self.rng.integers(DESIGN.labels))
        self.send(self.made(int(self.rng.integers(0, max(self.stage, 1))), person), person)

    def resend(self) -> None:
        if self.sent:
            report, person = self.sent[int(self.rng.integers(len(self.sent)))]
            self.send(report, person)

    def forged(self) -> None:
        if self.sent:
            report, person = self.sent[int(self.rng.integers(len(self.sent)))]
            place = int(self.rng.integers(REPORT_HEAD.size))
            changed = bytearray(report)
            changed[place] ^= int(self.rng.integers(1, 256))
            self.send(bytes(changed), person)
            self.send(report[:-1], person)

    def stranger(self) -> None:
        """Somebody hands in another person's report, which is there already."""
        known = [(report, person) for report, person in self.sent if report in self.kept]
        if known:
            report, person = known[int(self.rng.integers(len(known)))]
            answer = self.collector.add(report, f"person {(person + 1) % DESIGN.labels}")
            self.stolen |= answer == "counted"

    def close(self) -> None:
        if len(self.counted.get(self.stage, ())) < DESIGN.least and self.rng.random() < 0.8:
            return
        self.collector.close()
        self.state = "closed"

    def open(self) -> None:
        slot = self.slot if self.state in ("void", "none") else self.slot + 1
        slot = max(slot, 0)
        self.collector.open(bundle_of(DESIGN, stage=self.stage + 1, slot=slot, head=self.head.text))
        self.stage, self.slot, self.state = self.stage + 1, slot, "open"

    def release(self) -> None:
        data = self.collector.release(self.head)
        self.see(data)
        self.head = ReleasePayload.parse(data).head
        self.state = "released"

    def void(self) -> None:
        if len(self.counted.get(self.stage, ())) >= DESIGN.least and self.rng.random() < 0.8:
            return
        self.collector.void("nobody came")
        self.counted.pop(self.stage, None)
        self.state = "void"

    def findings(self) -> list[str]:
        """What may not have happened."""
        found, total = [], Counter()
        for stage, views in self.views.items():
            release = ReleasePayload.parse(next(iter(views)))
            counts = np.frombuffer(release.payload[:-8], dtype="<i8")
            total.update({label: int(count) for label, count in enumerate(counts)})
            if len(views) > 1:
                found.append("two views of one stage")
            if counts.max() > 1:
                found.append("a person twice in a batch")
            if release.people < DESIGN.least:
                found.append("fewer than the least")
            if set(np.flatnonzero(counts)) - self.counted.get(stage, set()) and not self.crashes:
                found.append("somebody who was not counted")
        if total and max(total.values()) > DESIGN.reports:
            found.append("a person too often in all")
        if self.stolen:
            found.append("another person's report")
        if -1 in self.counted:
            found.append("a closed batch let somebody in")
        return found


def history(
    seed: int,
    kind: type[Collector] = Collector,
    *,
    crashes: bool,
    operations: int = 100,
    database: Any = None,
) -> list[str]:
    """The findings of one history."""
    with fast_directory() as folder:
        made = History(seed, kind, crashes=crashes, place=Path(folder) / "collector", database=database)
        hold = contextlib.nullcontext() if crashes else made.collector.store.held()
        with hold:
            return made.run(operations)


def released(seed: int) -> int:
    """How many stages a history of the honest collector releases."""
    with fast_directory() as folder:
        made = History(seed, Collector, crashes=False, place=Path(folder) / "collector")
        with made.collector.store.held():
            made.run(100)
        return len(made.views)


__all__ = ["Head", "LetsIn", "NoMinimum", "PublishesFirst", "Twice", "history", "released"]
