"""The oracle: what everybody was told, kept outside of all databases, against what was released in the end.

Every client has a label of its own and there is no noise, so each number of an honest release is 0 or 1: it is 1 if and
only if the report of that label was acknowledged in that stage. Where there is noise (sealed studies), the released
histogram is the sum of the acknowledged bodies, number by number.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chaos.parties import Parties
from tacit.errors import TacitError
from tacit.study.collector import Collector
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

FINDINGS = (
    "acknowledged and lost",
    "counted twice",
    "counted and refused",
    "two views",
    "unpaid",
    "uncommitted",
    "too few",
    "person twice",
    "person too often",
    "closed let in",
    "learner differs",
    "bodies left",
)
NOTHING = dict.fromkeys(FINDINGS, 0)


@dataclass(frozen=True, slots=True)
class Sent:
    """A report that somebody sent."""

    stage: int
    label: int
    person: str
    id: bytes


class Book:
    """Who was told what, by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.words: dict[Sent, str] = {}
        self.tally: Counter[str] = Counter()
        self.closed: dict[int, int] = {}
        """Stage -> how many reports it was said to have when it was closed."""

    def answered(self, sent: Sent, word: str) -> None:
        """A report has its answer; once it was counted, "again" changes nothing."""
        with self._lock:
            self.tally[word] += 1
            if self.words.get(sent) not in ("counted", "again") or word in ("counted", "again"):
                self.words[sent] = word

    def acknowledged(self, stage: int) -> list[Sent]:
        """The reports that were acknowledged in a stage."""
        with self._lock:
            return [sent for sent, word in self.words.items() if sent.stage == stage and word in ("counted", "again")]

    @property
    def total(self) -> int:
        """How many reports were acknowledged."""
        with self._lock:
            return sum(word in ("counted", "again") for word in self.words.values())


@dataclass(frozen=True, slots=True)
class Held:
    """What the databases hold at the end."""

    outbox: Mapping[tuple[int, int], bytes]
    stages: Mapping[int, str]
    ids: Mapping[bytes, int]
    draws: Mapping[int, str]
    commits: frozenset[str]
    bodies: int
    taken: Mapping[tuple[int, int], tuple[bytes, bytes | None]]

    @classmethod
    def read(cls, parties: Parties) -> Held:
        """Read the databases of both parties, as they are on the disk."""
        with closing(_open(parties.state("shuffler") / "collector.db")) as database:
            outbox = {row[:2]: row[2] for row in database.execute("SELECT stage, question, bytes FROM outbox")}
            stages = dict(database.execute("SELECT number, state FROM stage"))
            ids = dict(database.execute("SELECT id, stage FROM report"))
            records = database.execute("SELECT number, kind, body, digest FROM records").fetchall()
            ended = "SELECT number FROM stage WHERE state IN ('released', 'void')"
            bodies = database.execute(
                f"SELECT count(*) FROM body JOIN report USING (seq) WHERE stage IN ({ended})"  # noqa: S608
            ).fetchone()[0]
        taken: dict[tuple[int, int], tuple[bytes, bytes | None]] = {}
        study = parties.state("learner") / "study.db"
        if study.exists():
            with closing(_open(study)) as database:
                rows = database.execute("SELECT stage, question, bytes, opened FROM release").fetchall()
                taken = {row[:2]: row[2:] for row in rows}
        return cls(
            outbox=outbox,
            stages=stages,
            ids=ids,
            draws={number: digest for number, kind, _, digest in records if kind == "draw"},
            commits=frozenset(json.loads(body)["release"] for _, kind, body, _ in records if kind == "commit"),
            bodies=bodies,
            taken=taken,
        )


def audit(parties: Parties, book: Book, *, limit: int = 1, least: int = 1, labels: int | None = None) -> dict[str, int]:
    """Everything that may not have happened, counted; the parties should not be writing.

    `labels` is how many numbers a payload of labels begins with; None where releases are sealed (see `sealed_counts`).
    """
    found = dict(NOTHING)
    held = Held.read(parties)
    views = views_of(parties)
    found["two views"] += sum(len(seen) > 1 for seen in views.values())
    for place, seen in views.items():
        for data in seen:
            release = ReleasePayload.parse(data)
            found["unpaid"] += held.draws.get(release.charge.number) != release.charge.digest.hex()
            found["uncommitted"] += held.outbox.get(place) != data
            found["too few"] += release.people < least
    found["unpaid"] += not _verified(parties, held)
    found["learner differs"] += sum(held.outbox.get(place) != data for place, (data, _) in held.taken.items())
    found["bodies left"] += held.bodies
    _reports(found, book, held)
    if labels is not None:
        _labels(found, book, views, limit, labels)
    return found


def views_of(parties: Parties) -> dict[tuple[int, int], set[bytes]]:
    """(stage, question) -> the different releases that left the collector."""
    found: dict[tuple[int, int], set[bytes]] = {}
    for path in parties.views.iterdir():
        if not path.name.startswith("."):
            data = path.read_bytes()
            release = ReleasePayload.parse(data)
            found.setdefault((release.stage, release.question), set()).add(data)
    return found


def released_labels(data: bytes, labels: int) -> dict[int, int]:
    """Label -> how often a release of a fake study counts it, zeros left out."""
    counts = np.frombuffer(ReleasePayload.parse(data).payload[: 8 * labels], dtype="<i8")
    return {int(label): int(counts[label]) for label in np.flatnonzero(counts)}


def sealed_counts(parties: Parties, bodies: Mapping[int, Iterable[bytes]], channel: Any) -> dict[str, int]:
    """Stages whose opened histogram is not the sum of the acknowledged bodies, by the sign of the difference."""
    C, found = channel.spec.num_counters, {"acknowledged and lost": 0, "counted twice": 0}
    for (stage, _), (_, opened) in Held.read(parties).taken.items():
        labels = np.frombuffer(b"".join(bodies.get(stage, ())), dtype=channel.labels)
        expected = np.bincount(labels, minlength=C + 1)[:C]
        given = np.frombuffer(opened or b"", dtype="<i8")
        found["acknowledged and lost"] += bool((given < expected).any())
        found["counted twice"] += bool((given > expected).any())
    return found


def _reports(found: dict[str, int], book: Book, held: Held) -> None:
    """Acknowledged means stored, in that stage."""
    for sent, word in book.words.items():
        there = held.ids.get(sent.id) == sent.stage
        if word in ("counted", "again"):
            found["acknowledged and lost"] += not there
    for stage, n in book.closed.items():
        data = held.outbox.get((stage, 0))
        found["closed let in"] += data is not None and ReleasePayload.parse(data).people != n


def _labels(found: dict[str, int], book: Book, views: Any, limit: int, labels: int) -> None:
    """Released means 1 for every label that was acknowledged in the stage, and 0 for every other one."""
    people: Counter[str] = Counter()
    names = {sent.label: sent.person for sent in book.words}
    for (stage, _), seen in views.items():
        acknowledged = Counter(sent.label for sent in book.acknowledged(stage))
        for data in seen:
            given = released_labels(data, labels)
            found["acknowledged and lost"] += sum((Counter(dict.fromkeys(acknowledged, 1)) - Counter(given)).values())
            found["counted and refused"] += len(set(given) - set(acknowledged))
            found["counted twice"] += sum(count > 1 for count in given.values())
        here = Counter(names.get(label, f"label {label}") for label, count in given.items() for _ in range(count))
        found["person twice"] += sum(count > 1 for count in here.values())
        people.update(here.keys())
    found["person too often"] += sum(count > limit for count in people.values())


def _verified(parties: Parties, held: Held) -> bool:
    """Whether the ledger is whole, fits the outbox and contains what the learner has seen."""
    try:
        head = Study(parties.state("learner")).head if held.taken else None
        Collector(parties.state("shuffler")).verify(head)
    except TacitError:
        return False
    return True


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path)
