"""Restored copies of a collector's database draw nothing a second time; a fork is found out; both databases."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from database_tools import DESIGN, add, again, closed, database_of, everything
from study_fakes import FakeDesign, bundle_of
from study_world import fast_directory

from tacit.errors import InvalidInput, TacitError
from tacit.service.database import PostgresDatabase, close_all
from tacit.study.collector import Collector, HeadFile
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.databases import SqliteDatabase
from tacit.study.study import Study
from tacit.study.verify import verify_collector
from tacit.study.wire import ReleasePayload

__all__ = ["closed"]

WIDE = FakeDesign(kind="test-stamped", labels=240)


@pytest.fixture
def place():
    with fast_directory() as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request, place):
    if request.param == "sqlite":
        return lambda kind: SqliteDatabase(place / kind), None
    server = request.getfixturevalue("postgres")
    return lambda kind: server.new(kind), server


class Copies:
    """Backups of a party's database, and of the file of heads beside it."""

    def __init__(self, party, postgres, place: Path) -> None:
        self.party, self.store, self.postgres, self.place = party, party.store, postgres, place / "copies"
        self.place.mkdir(exist_ok=True)

    def make(self, name: object) -> None:
        file = self.place / f"{name}"
        if hasattr(self.store, "path"):
            closing = contextlib.closing
            with closing(sqlite3.connect(self.store.path)) as source, closing(sqlite3.connect(file)) as copy:
                source.backup(copy)
        else:
            self._run("pg_dump", "--schema", self.store.schema, "--file", str(file))
        if self._head.exists():
            shutil.copy(self._head, self.place / f"{name}.head")

    def restore(self, name: object, *, file: object = None) -> None:
        """Put the database of one moment back, and the file of heads of another one if that is named."""
        if hasattr(self.store, "path"):
            for left in self.store.path.parent.glob(f"{self.store.path.name}*"):
                left.unlink()
            shutil.copy(self.place / f"{name}", self.store.path)
        else:
            close_all()
            self.postgres.sql(f"DROP SCHEMA {self.store.schema} CASCADE")
            self._run("psql", "--quiet", "-v", "ON_ERROR_STOP=1", "--file", str(self.place / f"{name}"))
        if file is not None and (self.place / f"{file}.head").exists():
            shutil.copy(self.place / f"{file}.head", self._head)

    @property
    def _head(self) -> Path:
        return self.party.directory / "last-head"

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self.postgres.programs / program, "--dbname", self.postgres.url, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


# the attack: a second draw for a learner that shows an older head


def test_a_learner_with_an_older_head_gets_no_second_draw(databases, place):
    make, server = databases
    collector = Collector.new(place / "collector", DESIGN, database=make("collector"))
    collector.open(bundle_of(DESIGN))
    add(collector, range(4))
    collector.close()
    copies = Copies(collector, server, place)
    copies.make("closed")
    first = collector.release(GENESIS_HEAD)
    head = ReleasePayload.parse(first).head
    copies.make("released")
    copies.restore("closed")
    restored = again(collector)
    before = everything(restored.store)
    assert [row[1] for row in before["records"]] == ["budget", "reserve"]
    for given in (GENESIS_HEAD, head):
        with pytest.raises(InvalidInput, match="older copy"):
            restored.release(given)
    with pytest.raises(InvalidInput, match="older copy"):
        restored.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))
    after = everything(restored.store)
    assert {name: rows for name, rows in after.items() if rows != before[name]}.keys() == {"meta"}
    assert not verify_collector(collector.directory, database=database_of(collector.store)).true
    with pytest.raises(InvalidInput), restored.store.step("thief") as connection:
        connection.execute("DELETE FROM records")  # triggers were restored, too
    # It stays stopped when the file of heads is restored afterwards, and the newest copy goes on.
    copies.restore("closed", file="released")
    with pytest.raises(InvalidInput, match="older copy"):
        again(collector).release(GENESIS_HEAD)
    shutil.copy(copies.place / "closed.head", collector.directory / "last-head")
    with pytest.raises(InvalidInput, match="stopped"):
        again(collector).release(GENESIS_HEAD)
    copies.restore("released", file="released")
    assert again(collector).release(GENESIS_HEAD) == first
    again(collector).open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))


def test_a_charge_is_in_the_file_before_reports_come_after_a_crash(databases, place, monkeypatch):
    """Under local trust opening is paid; a process that ends before its file is written leaves the file behind."""
    make, server = databases
    design = FakeDesign(kind="test-local")
    collector = Collector.new(place / "collector", design, database=make("collector"))
    copies = Copies(collector, server, place)
    copies.make("new")
    with monkeypatch.context() as crash:
        crash.setattr(HeadFile, "keep", lambda self, store: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            collector.open(bundle_of(design))
    assert add(again(collector), range(4)) == ["counted"] * 4
    copies.restore("new")
    with pytest.raises(InvalidInput, match="older copy"):
        again(collector).open(bundle_of(design))


def test_a_fork_is_found_out_by_the_next_head(databases, place):
    """Database and file restored together draw again (what remains); the first head of the true history stops it."""
    make, server = databases
    collector = Collector.new(place / "collector", DESIGN, database=make("collector"))
    collector.open(bundle_of(DESIGN))
    add(collector, range(4))
    collector.close()
    copies = Copies(collector, server, place)
    copies.make("closed")
    first = ReleasePayload.parse(collector.release(GENESIS_HEAD))
    copies.restore("closed", file="closed")
    forked = again(collector)
    second = ReleasePayload.parse(forked.release(GENESIS_HEAD))
    assert second.payload != first.payload
    assert second.charge.number == first.charge.number
    assert second.charge != first.charge
    assert second.head != first.head
    forked.verify(second.head)
    with pytest.raises(InvalidInput, match="anchor"):
        forked.verify(first.head)
    with pytest.raises(InvalidInput, match="older copy"):
        forked.open(bundle_of(DESIGN, stage=1, slot=1, head=first.head.text))
    with pytest.raises(InvalidInput, match="stopped"):
        again(collector).open(bundle_of(DESIGN, stage=1, slot=1, head=second.head.text))


# restores at every point of a study


class Story:
    """A study of two stages, with a copy of the collector after every step and what had left it by then."""

    def __init__(self, design: FakeDesign, databases, place: Path) -> None:
        make, server = databases
        self.design = design
        self.collector = Collector.new(place / "collector", design, database=make("collector"))
        self.copies = Copies(self.collector, server, place)
        self.heads: list[Head] = [GENESIS_HEAD]
        self.bundles: list[bytes] = []
        self.views: dict[tuple[int, int], bytes] = {}
        self.known: list[tuple[list[Head], list[bytes], dict[tuple[int, int], bytes], Head]] = []
        self.copy()
        self.stage(0, 0, range(4))
        self.ask(1, 1)
        add(self.collector, range(10, 12), stage=1)
        self.collector.void("too few")
        self.copy()
        self.stage(2, 1, range(20, 24))

    def stage(self, stage: int, slot: int, people: range) -> None:
        self.ask(stage, slot)
        add(self.collector, people, stage=stage)
        self.copy()
        self.collector.close()
        self.copy()
        for question in range(self.design.questions):
            if question:
                self.ask(stage, slot, question=question)
            data = self.collector.release(self.heads[-1])
            self.views[stage, question] = data
            self.heads.append(ReleasePayload.parse(data).head)
            self.copy()

    def ask(self, stage: int, slot: int, question: int = 0) -> None:
        entries = {"stage": stage, "slot": slot, "question": question, "head": self.heads[-1].text}
        self.bundles.append(bundle_of(self.design, **entries))
        self.collector.open(self.bundles[-1])
        self.copy()

    def copy(self) -> None:
        """After a step: the database, the file, and all that a learner knows."""
        with self.collector.store.reading() as connection:
            row = connection.execute("SELECT number, digest FROM records ORDER BY number DESC LIMIT 1").fetchone()
        last = Head(number=row[0], digest=bytes.fromhex(row[1]))
        self.copies.make(len(self.known))
        self.known.append((list(self.heads), list(self.bundles), dict(self.views), last))

    def attack(self, now: int) -> dict[tuple[int, int], set[bytes]]:
        """What a learner that knows everything up to now gets out of the collector that is there."""
        heads, bundles, _, _ = self.known[now]
        found: dict[tuple[int, int], set[bytes]] = {}
        for _ in range(2):
            for head in heads:
                for step in (*(lambda it, data=data: it.open(data) for data in bundles), Collector.close):
                    with contextlib.suppress(TacitError):
                        step(again(self.collector))
                    with contextlib.suppress(TacitError):
                        data = again(self.collector).release(head)
                        given = ReleasePayload.parse(data)
                        found.setdefault((given.stage, given.question), set()).add(data)
        return found


KINDS = {"stamped": {}, "local": {"kind": "test-local"}, "questions": {"kind": "test-central", "questions": 2}}


@pytest.mark.parametrize("kind", KINDS)
def test_no_restore_at_any_point_gives_a_second_view(databases, place, kind):
    story = Story(FakeDesign(**{"kind": "test-stamped", "stages": 2, **KINDS[kind]}), databases, place)
    points = len(story.known)
    assert points >= 9
    stopped = went_on = 0
    # From every point to every earlier one where that is cheap, else from the end to every earlier one.
    for now in range(points) if databases[1] is None and kind == "stamped" else [points - 1]:
        for back in range(now + 1):
            story.copies.restore(back, file=now)
            views, last = story.known[now][2:]
            for where, seen in story.attack(now).items():
                assert seen == {views[where]} if where in views else len(seen) == 1, (back, now, where)
            if story.known[back][3] == last:
                assert again(story.collector).status()["stopped"] is None
                went_on += 1
            else:
                with pytest.raises(InvalidInput, match="older copy"):
                    again(story.collector).add(b"", "person 99")
                stopped += 1
                story.copies.restore(now, file=None)  # the newest copy holds every head, those that were met included
                again(story.collector).verify(story.heads[0])
                assert again(story.collector).add(b"", "person 99") == "malformed"
    assert stopped > 0
    assert went_on > 0


def test_a_collector_that_does_not_look_at_its_file_is_found(place, monkeypatch):
    """The attacker above does get a second view of a stage where nothing but the learner's head is asked for."""
    story = Story(FakeDesign(kind="test-stamped", stages=2), (lambda kind: SqliteDatabase(place / kind), None), place)
    monkeypatch.setattr(HeadFile, "require_held", lambda self, connection: None)
    now = len(story.known) - 1
    story.copies.restore(1, file=now)  # stage 0 is open
    add(again(story.collector), range(4))
    assert story.attack(now)[0, 0] - {story.views[0, 0]}


# a restored study


def test_a_restored_study_gets_no_second_release(databases, place):
    make, server = databases
    collector = Collector.new(place / "collector", WIDE, database=make("collector"))
    study = Study.new(place / "study", WIDE, seed=3, database=make("study"))
    collector.open(study.plan())
    add(collector, range(4))
    collector.close()
    first = collector.release(study.head)
    copies = Copies(study, server, place)
    copies.make("study")
    study.take(first)
    collector.open(study.plan())
    add(collector, range(10, 14), stage=1)
    collector.close()
    second = collector.release(study.head)
    study.take(second)
    collector.open(study.plan())
    add(collector, range(20, 24), stage=2)
    collector.close()
    assert collector.stored() == collector.stored(2) == collector.stored(7) == b""
    copies.restore("study")
    study = Study(place / "study", database=database_of(study.store))
    before = everything(collector.store)
    with pytest.raises(InvalidInput, match="last release"):
        collector.release(study.head)
    assert everything(collector.store) == before
    # The releases that the copy has not seen are there for it; with them, the study is where it was.
    assert (collector.stored(0), collector.stored(1)) == (first, second)
    for stage in range(2):
        study.plan()
        assert study.take(collector.stored(stage)) == "taken"
    study.plan()
    assert study.take(collector.release(study.head)) == "taken"
    assert isinstance(database_of(study.store), SqliteDatabase | PostgresDatabase)
