"""Worlds: the parties of a study without noise, the people who report to it, and the book of what they were told."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import study_fakes

from chaos import studies
from chaos.clients import Reply, Sender, Wire, insist, send_until_answered
from chaos.oracle import Book, Sent, audit
from chaos.parties import Parties, fast_directory, status

QUIET_SECONDS = 60.0


class World:
    """A labelled study behind its services: shuffler and learner; every person has one label and reports once."""

    def __init__(self, directory: Path, design: Any, **options: Any) -> None:
        self.design = design
        self.parties = Parties.new(directory, design, **options)
        self.book, self.stage = Book(), 0
        self._labels, self._lock = itertools.count(), threading.Lock()
        self._sender: Sender | None = None

    def __enter__(self) -> Self:
        self.parties.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.parties.__exit__(*error)

    @property
    def sender(self) -> Sender:
        """Who makes envelopes."""
        if self._sender is None:
            self._sender = Sender(self.parties.public("shuffler"), self.parties.study)
        return self._sender

    # people

    def person(self, stage: int | None = None) -> tuple[Sent, bytes]:
        """A new person with a report for this stage, in its envelope."""
        with self._lock:
            label = next(self._labels)
        number = self.stage if stage is None else stage
        report = self.sender.report(study_fakes.body_of(label), number)
        sent = Sent(number, label, f"person {label}", report[40:56])
        return sent, self.sender.envelope(report, sent.person)

    def told(self, sent: Sent, reply: Reply) -> str:
        """Write an answer down."""
        self.book.answered(sent, reply.word)
        return reply.word

    def fill(self, number: int, wire: Wire | None = None) -> list[str]:
        """So many new people report in the present stage, one after the other."""
        with contextlib.closing(wire or self.parties.publicly("shuffler")) as over:
            words = []
            for _ in range(number):
                sent, envelope = self.person()
                words.append(self.told(sent, send_until_answered(over, envelope)[0]))
        return words

    # stages

    def look(self, wire: Wire) -> int:
        """Follow the bundle; the stage that it asks for. Without an answer, the one before."""
        reply = wire.ask("GET", "/v1/bundle")
        if reply is not None and reply.status == 200:
            plain = json.loads(reply.body)
            self.stage = plain["stage"]
        return self.stage

    def await_stage(self, stage: int) -> None:
        """Wait until devices are asked for this stage."""
        with contextlib.closing(self.parties.publicly("shuffler")) as wire:
            insist(
                lambda: wire.ask("GET", "/v1/bundle"),
                lambda r: r.status == 200 and json.loads(r.body)["stage"] >= stage,
            )
            self.look(wire)

    def await_taken(self, releases: int) -> None:
        """Wait until the learner has taken so many releases."""
        until(lambda: len(status(self.parties, "learner")["releases"]) >= releases)

    def revive(self) -> None:
        """Start every party that is dead."""
        dead = [party for party in self.parties.parties if not self.parties.alive(party)]
        if dead:
            self.parties.start(*dead)

    def audit(self) -> dict[str, int]:
        """End the processes, then look for everything that may not have happened."""
        for party in self.parties.parties:
            if self.parties.alive(party):
                self.parties.kill(party)
        design = self.design
        return audit(self.parties, self.book, limit=design.reports, least=design.least, labels=design.labels)


@contextlib.contextmanager
def world(**sizes: Any) -> Iterator[World]:
    """A world in a directory of its own; `parties` are options of `Parties.new`."""
    options = sizes.pop("parties", {})
    with (
        studies.registered(),
        fast_directory() as folder,
        World(folder / "w", studies.labelled(**sizes), **options) as it,
    ):
        yield it


def until(held: Callable[[], bool], seconds: float = QUIET_SECONDS) -> None:
    """Wait until something holds, and not longer."""
    end = time.monotonic() + seconds
    while not held():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds:.0f} s")
        time.sleep(0.02)


def row(name: str, bar: str, measured: Any, met: bool, detail: str = "", **counts: Any) -> dict[str, Any]:
    """One line of the results."""
    return {"name": name, "bar": bar, "measured": measured, "met": bool(met), "detail": detail, "counts": counts}


def bad(found: dict[str, int]) -> dict[str, int]:
    """The findings that are not zero."""
    return {name: count for name, count in found.items() if count}
