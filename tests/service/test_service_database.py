"""The promises of stores (T1 to T5), on SQLite and on PostgreSQL, by the same collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from database_tools import DESIGN, add, again, closed, everything, world
from study_fakes import FakeDesign, bundle_of
from study_histories import PublishesFirst, history
from study_world import report_of

from tacit.errors import InvalidInput, NotSupported
from tacit.service.database import PostgresDatabase, Where, _require_durable, connecting
from tacit.study.collector import Collector
from tacit.study.contract import GENESIS_HEAD
from tacit.study.databases import DATABASES, database_at
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

__all__ = ["closed", "world"]

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "tests" / "reference"


def script(name: str, *words: object) -> dict:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(REFERENCE / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# one life of a collector


def test_a_collector_lives_the_same_life_on_both(world):
    collector = world.opened()
    rows = [(report_of(collector.study, 0, i), f"person {i}", b"token %d" % i) for i in range(5)]
    assert collector.add_many(rows) == ("counted",) * 5
    before = everything(collector.store)
    assert collector.add_many(rows) == ("again",) * 5
    assert everything(collector.store) == before
    assert collector.add(report_of(collector.study, 0, 9), "person 1") == "twice"
    assert collector.add(report_of(collector.study, 0, 1), "person 7") == "id taken"
    assert collector.add(b"", "person 8") == "malformed"
    assert collector.add(b"", "person 8") == "malformed"
    assert collector.status()["refused"] == {"id taken": 1, "malformed": 2, "twice": 1}
    assert len(everything(collector.store)["token"]) == 5
    assert collector.close() == 5
    first = collector.release(GENESIS_HEAD)
    head = ReleasePayload.parse(first).head
    assert collector.release(GENESIS_HEAD) == collector.release(head) == again(collector).release(head) == first
    rows = everything(collector.store)
    assert rows["body"] == rows["token"] == []
    assert len(rows["report"]) == len(rows["participation"]) == 5
    collector.verify(head)
    again(collector).open(bundle_of(DESIGN, stage=1, slot=1, head=head.text), ends=1_800_000_000)
    assert collector.window() == 1_800_000_000
    assert add(collector, range(4), stage=1) == ["used up"] * 4


def test_too_few_are_never_released_and_void_gives_back(world):
    collector = world.opened()
    add(collector, range(3))
    assert collector.close() == 3
    before = everything(collector.store)
    with pytest.raises(InvalidInput, match="at least 4 reports"):
        collector.release(GENESIS_HEAD)
    assert everything(collector.store) == before
    collector.void("too few came")
    rows = everything(collector.store)
    assert rows["body"] == rows["participation"] == []
    collector.open(bundle_of(DESIGN, stage=1, slot=0))
    assert add(collector, range(4), stage=1) == ["counted"] * 4


def test_a_study_lives_the_same_life_on_both(world):
    design = FakeDesign(kind="test-stamped", stages=2, labels=240)
    database = world.new("study")
    study = Study.new(world.folder / "study", design, seed=3, database=database)
    collector = world.collector(design, noise="simulation", seed=5)
    for stage in range(2):
        bundle = study.plan()
        assert study.plan() == bundle
        collector.open(bundle)
        add(collector, range(10 * stage, 10 * stage + 4), stage)
        collector.close()
        release = collector.release(study.head)
        assert [study.take(release), study.take(release)] == ["taken", "again"]
    study = Study(world.folder / "study", database=database)
    assert study.status()["state"] == "released"
    study.plan()
    assert study.status()["state"] == "served"
    assert [row["noise"] for row in study.status()["releases"]] == ["simulation"] * 2


# T1: what returned is there, what did not left no trace


class Stop(BaseException):
    pass


def test_a_step_that_is_cut_short_leaves_no_trace(world):
    place = {"edge": ""}

    def edge(name):
        if name == place["edge"]:
            raise Stop

    collector = world.opened(edge=edge)
    add(collector, range(4))
    collector.close()
    before = everything(collector.store)
    for name in ("release:begun", "release:drawn", "release:stored", "release:committed", "release:before commit"):
        place["edge"] = name
        with pytest.raises(Stop):
            collector.release(GENESIS_HEAD)
        assert everything(collector.store) == before, name
    place["edge"] = "release:after commit"
    with pytest.raises(Stop):
        collector.release(GENESIS_HEAD)
    place["edge"] = ""
    stored = collector.stored()
    assert stored != b""
    assert collector.release(GENESIS_HEAD) == stored


@pytest.mark.parametrize(
    ("steps", "edges"), [(("release",), 5), pytest.param(("open", "release", "take"), 16, marks=pytest.mark.slow)]
)
def test_an_exit_inside_of_open_release_or_take_leaves_nothing_behind_on_postgres(postgres, steps, edges):
    found = script("study_crashes.py", "test-local", *steps, postgres.database())
    assert found["edges"] >= edges
    assert set(found["found"].values()) == {0}, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["test-stamped", "test-central", "shuffle"])
def test_an_exit_at_any_edge_leaves_nothing_behind_on_postgres(postgres, kind):
    found = script("study_crashes.py", kind, postgres.database())
    assert found["edges"] >= 30
    assert set(found["found"].values()) == {0}, found


def test_a_lost_connection_loses_the_step_and_nothing_else(postgres, tmp_path):
    collector = Collector.new(tmp_path / "keys", DESIGN, database=postgres.new())
    collector.open(bundle_of(DESIGN))
    before = everything(collector.store)

    def cut_off() -> None:
        with collector.store.step("add") as connection:
            connection.execute("INSERT INTO report (stage, id) VALUES (0, ?)", (bytes(16),))
            postgres.sql(f"SELECT pg_terminate_backend({connection.raw.info.backend_pid})")
            connection.execute("SELECT 1")

    with pytest.raises(InvalidInput, match="cannot be used"):
        cut_off()
    assert everything(collector.store) == before
    assert add(collector, range(2)) == ["counted"] * 2


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused(name):
    class Answer:
        def __init__(self, value):
            self.value = value

        def fetchone(self):
            return (self.value,)

    class Forgetful:
        def execute(self, sql, parameters=()):
            return Answer("off" if sql == f"SHOW {name}" else "on")

    with pytest.raises(InvalidInput, match=f"{name} of the server must be on"):
        _require_durable(Forgetful())


def test_sessions_wait_for_the_disk(postgres, tmp_path):
    database = postgres.new()
    postgres.sql("ALTER ROLE tacit SET synchronous_commit = off")
    try:
        collector = Collector.new(tmp_path / "keys", DESIGN, database=database)
        with collector.store.connected() as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        postgres.sql("ALTER ROLE tacit RESET synchronous_commit")


# T2: one writer at a time


def test_eight_processes_ask_for_one_release(world):
    collector = world.opened()
    add(collector, range(5))
    collector.close()
    url = []
    if world.dialect == "postgresql":
        url = [f"{collector.store.place.url.replace('+psycopg', '')}?schema={collector.store.schema}"]
        directory = collector.directory
    else:
        directory = collector.store.path.parent
        for name in ("people.key", "last-head"):
            (directory / name).write_bytes((collector.directory / name).read_bytes())
    found = script("study_race.py", directory, *url)
    assert found["codes"] == [0] * 8
    assert len(found["views"]) == 8
    assert len(set(found["views"])) == 1
    rows = everything(collector.store)
    kinds = [row[1] for row in rows["records"]]
    assert len(rows["outbox"]) == kinds.count("draw") == kinds.count("commit") == 1


def test_a_step_waits_for_the_one_before_and_sees_what_it_wrote(world):
    collector = world.opened()
    store, seen = collector.store, []

    def second():
        with store.step("second") as connection:
            seen.append(connection.execute("SELECT count(*) FROM rejected").fetchone()[0])

    with store.step("first") as connection:
        other = threading.Thread(target=second)
        other.start()
        connection.execute("INSERT INTO rejected VALUES ('late', 1)")
        with again(collector).store.reading() as reader:
            assert reader.execute("SELECT count(*) FROM rejected").fetchone() == (0,)
        assert seen == []
    other.join(60)
    assert seen == [1]


# T3: the database itself refuses


FORBIDDEN = (
    "UPDATE stage SET state = 'open'",
    "UPDATE stage SET state = 'closed'",
    "UPDATE stage SET n = NULL",
    "DELETE FROM stage",
    "UPDATE outbox SET digest = ''",
    "DELETE FROM outbox",
    "DELETE FROM report",
    "DELETE FROM participation",
    "UPDATE participation SET stage = 7",
    "INSERT INTO report (stage, id) VALUES (0, 'x')",
    "UPDATE question SET charge = 7",
    "DELETE FROM question",
    "UPDATE meta SET value = 'simulation' WHERE name = 'noise'",
    "DELETE FROM records",
    "UPDATE records SET body = ''",
    "INSERT INTO stage (number, slot, questions, state) VALUES (0, 0, 1, 'open')",
    "INSERT INTO stage (number, slot, questions, state) VALUES (5, 0, 1, 'open')",
    "INSERT INTO stage (number, slot, questions, state) VALUES (5, 1, 1, 'closed')",
    'UPDATE "window" SET ends = 0',
    'DELETE FROM "window"',
    'INSERT INTO "window" VALUES (0, 7)',
    "DELETE FROM lease",
    "UPDATE lease SET token = token - 1",
    "UPDATE lease SET holder = 'thief'",
)


def test_the_database_itself_refuses(world):
    collector = world.collector()
    collector.open(bundle_of(DESIGN), ends=1_800_000_000)
    add(collector, range(4))
    with pytest.raises(InvalidInput), collector.store.step("thief") as connection:
        connection.execute("DELETE FROM body")
    with pytest.raises(InvalidInput), collector.store.step("thief") as connection:
        connection.execute("UPDATE body SET seq = seq + 1")
    collector.close()
    with pytest.raises(InvalidInput), collector.store.step("thief") as connection:
        connection.execute("UPDATE stage SET state = 'released', n = NULL")
    collector.release(GENESIS_HEAD)
    with collector.store.step("lease") as connection:
        connection.execute("INSERT INTO lease VALUES ('job', 'me', 3, 0)")
    before = everything(collector.store)
    for statement in FORBIDDEN:
        with pytest.raises(InvalidInput), collector.store.step("thief") as connection:
            connection.execute(statement)
    assert everything(collector.store) == before


def test_postgres_empties_no_table_at_once(postgres, tmp_path):
    collector = Collector.new(tmp_path / "keys", DESIGN, database=postgres.new())
    with collector.store.reading() as connection:
        rows = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = ?", (collector.store.schema,)
        ).fetchall()
    free = {"rejected", "secret", "version"}
    tables = {row[0] for row in rows} - free
    assert len(tables) >= 13
    for table in tables:
        with pytest.raises(InvalidInput), collector.store.step("thief") as connection:
            connection.execute(f'TRUNCATE "{table}" CASCADE')


def test_cut_off_records_are_found_out(world):
    collector = world.opened()
    first = (collector.directory / "last-head").read_bytes()
    add(collector, range(4))
    collector.close()
    collector.release(GENESIS_HEAD)
    trigger = "DROP TRIGGER no_delete" if world.dialect == "sqlite" else "DROP TRIGGER records_no_delete ON records"
    with collector.store.step("thief") as connection:
        connection.execute(trigger)
        connection.execute("DELETE FROM records WHERE number = (SELECT max(number) FROM records)")
    with pytest.raises(InvalidInput, match="older copy"):
        collector.verify()
    (collector.directory / "last-head").write_bytes(first)  # whoever edits both is found out by the count
    with pytest.raises(InvalidInput, match="complete"):
        collector.verify()


# T4: private


def test_another_role_reads_nothing(postgres, tmp_path):
    collector = Collector.new(tmp_path / "keys", DESIGN, database=postgres.new())
    postgres.sql("CREATE ROLE learner LOGIN PASSWORD 'other'")
    host = postgres.url.partition("@")[2]
    with psycopg.connect(f"postgresql://learner:other@{host}") as connection:
        for table in ("meta", "body", "records"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM {collector.store.schema}.{table}")  # noqa: S608
            connection.rollback()
    with pytest.raises(InvalidInput, match="must hold a collector"):
        PostgresDatabase(f"postgresql://learner:other@{host}?schema={collector.store.schema}").open("collector")


def test_messages_hold_neither_passwords_nor_rows(postgres, tmp_path):
    collector = Collector.new(tmp_path / "keys", DESIGN, database=postgres.new())
    collector.open(bundle_of(DESIGN))
    with pytest.raises(InvalidInput) as twice, collector.store.step("twice") as connection:
        connection.execute("INSERT INTO report (stage, id) VALUES (0, ?), (0, ?)", (b"a secret id here",) * 2)
    texts = [str(twice.value), repr(database_at(Path(), postgres.new())), collector.store.where]
    wrong = PostgresDatabase(postgres.url.replace("a%20password", "another%20password"))
    with pytest.raises(InvalidInput) as refused:
        wrong.open("collector")
    texts += [str(refused.value), repr(wrong.place)]
    for text in texts:
        assert "password%20in" not in text
        assert "password in" not in text
        assert b"a secret id".hex() not in text
        assert "\n" not in text


# T5: scrubbed means gone


@pytest.mark.parametrize("end", ["release", "void"])
def test_nothing_of_a_body_is_left_in_the_files_of_tables(postgres, tmp_path, end):
    collector = Collector.new(tmp_path / "keys", DESIGN, database=PostgresDatabase(postgres.database()))
    collector.open(bundle_of(DESIGN))
    rows = [(report_of(collector.study, 0, i), f"person {i}", b"a token's end" * 300) for i in range(4)]
    collector.add_many(rows)
    assert _found(collector, postgres, b"a body's end")
    collector.close()
    collector.release(GENESIS_HEAD) if end == "release" else collector.void("nobody came")
    assert not _found(collector, postgres, b"a body's end")
    assert not _found(collector, postgres, b"a token's end")


def test_a_reader_delays_the_scrub_until_the_next_one(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.service.database.SCRUB_WAITS", "50ms")
    collector = Collector.new(tmp_path / "keys", DESIGN, database=PostgresDatabase(postgres.database()))
    collector.open(bundle_of(DESIGN))
    add(collector, range(4))
    collector.close()
    with again(collector).store.reading() as reader:
        reader.execute("SELECT count(*) FROM body").fetchone()
        first = collector.release(GENESIS_HEAD)
    assert collector.release(GENESIS_HEAD) == first
    assert not _found(collector, postgres, b"a body's end")


def _found(collector: Collector, postgres, text: bytes) -> bool:
    """Whether a text is in a file of the collector's database, when everything is in the files."""
    postgres.sql("CHECKPOINT")
    with collector.store.connected() as connection:
        row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    files = [path for path in (postgres.directory / "data" / "base" / str(row[0])).iterdir() if path.is_file()]
    assert len(files) > 100
    return any(text in path.read_bytes() for path in files)


# histories


@pytest.mark.parametrize("histories", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_histories_on_postgres_show_nothing(postgres, histories):
    for seed in range(histories):
        assert history(seed, crashes=seed % 2 == 0, database=postgres.new()) == [], seed


def test_a_mutant_is_found_on_postgres(postgres):
    assert "two views of one stage" in history(19, PublishesFirst, crashes=True, database=postgres.new())


# urls, versions, kinds


def test_a_party_is_not_overwritten_and_a_missing_one_not_made(world):
    database = world.new("party")
    with pytest.raises(InvalidInput, match="must hold a collector"):
        Collector(world.folder / "a", database=database)
    assert not database.exists("collector")
    Collector.new(world.folder / "a", DESIGN, database=database)
    assert database.exists("collector")
    with pytest.raises(InvalidInput, match="must be"):
        Collector.new(world.folder / "b", DESIGN, database=database)
    with pytest.raises(InvalidInput, match="key that this collector began with"):
        Collector(world.folder / "b", database=_copied(world.folder / "b", database))


def _copied(directory: Path, database):
    directory.mkdir(exist_ok=True)
    (directory / "people.key").write_bytes(bytes(32))
    return database


def test_an_interrupted_beginning_leaves_no_party(world):
    def edge(name):
        if name == "collector:made":
            raise Stop

    database = world.new("party")
    with pytest.raises(Stop):
        Collector.new(world.folder / "a", DESIGN, database=database, edge=edge)
    assert not database.exists("collector")
    Collector.new(world.folder / "a", DESIGN, database=database)


@pytest.mark.parametrize(
    ("version", "words"), [(2, "got 2; go on with the tacit that made it"), (4, "got 4"), (None, "got 0")]
)
def test_another_version_is_refused_on_postgres(postgres, tmp_path, version, words):
    collector = Collector.new(tmp_path / "keys", DESIGN, database=postgres.new())
    with collector.store.step("version") as connection:
        connection.execute("DROP TABLE version" if version is None else f"UPDATE version SET number = {version:d}")  # noqa: S608
    with pytest.raises(InvalidInput, match="must have version 3") as refused:
        again(collector)
    assert words in str(refused.value)
    assert "password" not in str(refused.value)


def test_one_schema_holds_one_party(postgres, tmp_path):
    database = postgres.new()
    Collector.new(tmp_path / "keys", DESIGN, database=database)
    with pytest.raises(InvalidInput):
        Study.new(tmp_path / "keys", DESIGN, database=database)
    with pytest.raises(InvalidInput, match="another database"):
        database.open("study")


@pytest.mark.parametrize(
    "url", ["postgresql://h/d?schema=a;b", "postgresql://h/d?schema=A", "mysql://h/d", "postgresql://h:port/d", "x"]
)
def test_other_urls_are_refused(url):
    with pytest.raises((InvalidInput, NotSupported)):
        Where.of(url)


def test_urls_name_databases():
    assert list(DATABASES) == ["postgresql"]
    made = database_at(Path(), "postgresql://someone@nowhere/there?schema=ours")
    assert isinstance(made, PostgresDatabase)
    assert made.place.schema_for("study") == "ours"
    assert Where.of("postgresql://nowhere/there").schema_for("study") == "tacit_study"
    with pytest.raises(InvalidInput, match="URL"):
        database_at(Path(), "collector.db")


def test_a_server_that_is_not_there_is_said_in_one_line():
    place = Where.of("postgresql://someone:hidden@127.0.0.1:1/there")
    with pytest.raises(InvalidInput, match="cannot be used: connection failed") as refused, connecting(place, "s"):
        pass
    assert "hidden" not in str(refused.value)
    assert "\n" not in str(refused.value)
