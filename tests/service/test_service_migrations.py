"""Migrations keep every row, make old tables like new ones, never happen by themselves, and refuse newer ones."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from database_tools import DESIGN, add, again, closed, database_of, everything
from study_fakes import FakeDesign, bundle_of
from study_world import fast_directory
from tables_version_1 import aged
from typer.testing import CliRunner

from tacit.cli.app import app
from tacit.errors import InvalidInput
from tacit.service.database import PostgresDatabase, migrate
from tacit.service.database.migrating import SCRIPTS
from tacit.study.collector import Collector
from tacit.study.parts import NOWHERE
from tacit.study.sqlite import SqliteDatabase
from tacit.study.store import SCHEMA_VERSION
from tacit.study.study import Study
from tacit.study.wire import Release

__all__ = ["closed"]

WIDE = FakeDesign(kind="test-stamped", labels=240)


@pytest.fixture
def place():
    with fast_directory() as folder:
        yield Path(folder)


def rows_of(path: Path) -> list[str]:
    """Every row, without what tables are like."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return sorted(line for line in connection.iterdump() if line.startswith("INSERT"))


def shape_of(path: Path) -> list[tuple[str, object]]:
    """What tables are like: columns of each, and the words of each trigger and index."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        return [
            (name, connection.execute(f"PRAGMA table_info({name})").fetchall())
            if kind == "table"
            else (name, " ".join((sql or "").split()))
            for kind, name, sql in found
        ]


def test_a_collector_of_version_1_goes_on_where_it_was(place):
    collector = Collector.new(place / "collector", DESIGN)
    collector.open(bundle_of(DESIGN))
    add(collector, range(4))
    collector.close()
    head = Release.parse(collector.release(NOWHERE)).head
    collector.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))
    add(collector, range(4, 8), stage=1)
    path = collector.store.path
    aged(path, "collector")
    before = rows_of(path)
    with pytest.raises(InvalidInput, match="tacit serve migrate"):
        Collector(place / "collector")
    assert rows_of(path) == before

    (done,) = migrate(place / "collector")
    assert (done.kind, done.before, done.after) == ("collector", 1, SCHEMA_VERSION)
    assert rows_of(path) == before
    assert shape_of(path) == shape_of(SqliteDatabase(fresh(place, DESIGN)).path("collector"))
    collector = Collector(place / "collector")
    collector.verify(head)
    assert collector.window() is None
    assert add(collector, range(4, 6), stage=1) == ["again"] * 2
    assert collector.add_many([(_report(collector, 9), "person 9", b"token")]) == ("counted",)
    collector.close()
    assert Release.parse(collector.release(head)).people == 5
    assert migrate(place / "collector")[0].before == SCHEMA_VERSION


def _report(collector: Collector, label: int) -> bytes:
    from study_world import report_of

    return report_of(collector.study, 1, label)


def fresh(place: Path, design: FakeDesign) -> Path:
    Collector.new(place / "fresh", design)
    Study.new(place / "fresh", design)
    return place / "fresh"


def test_a_study_of_version_1_goes_on_where_it_was(place):
    study = Study.new(place / "study", WIDE, seed=3)
    collector = Collector.new(place / "collector", WIDE)
    collector.open(study.plan())
    add(collector, range(4))
    collector.close()
    assert study.take(collector.release(study.head)) == "taken"
    bundle, head = study.plan(), study.head
    path = study.store.path
    aged(path, "study")
    before = rows_of(path)
    with pytest.raises(InvalidInput, match="tacit serve migrate"):
        Study(place / "study")
    migrate(place / "study")
    without = [line.replace(",NULL)", ")") if '"release"' in line else line for line in rows_of(path)]
    assert without == before
    assert shape_of(path) == shape_of(SqliteDatabase(fresh(place, WIDE)).path("study"))
    study = Study(place / "study")
    assert (study.plan(), study.head) == (bundle, head)
    collector.open(bundle)
    add(collector, range(10, 14), stage=1)
    collector.close()
    assert study.take(collector.release(head)) == "taken"


@pytest.mark.parametrize("version", [0, 3, 99])
def test_a_version_that_is_not_known_is_refused(place, version):
    collector = Collector.new(place / "collector", DESIGN)
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = collector.store.path.read_bytes()
    with pytest.raises(InvalidInput, match="a version from 1 to 2"):
        migrate(place / "collector")
    assert collector.store.path.read_bytes() == before


def test_a_migration_that_fails_leaves_everything_as_it_was(place):
    collector = Collector.new(place / "collector", DESIGN)
    collector.open(bundle_of(DESIGN))
    path = collector.store.path
    aged(path, "collector")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE lease (something TEXT)")  # in the way of the last step
    shape, rows = shape_of(path), rows_of(path)
    with pytest.raises(InvalidInput, match="as it was") as refused:
        migrate(place / "collector")
    assert "\n" not in str(refused.value)
    assert (shape_of(path), rows_of(path)) == (shape, rows)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE lease")
    migrate(place / "collector")
    Collector(place / "collector")


def test_a_directory_without_a_party_is_refused(place):
    with pytest.raises(InvalidInput, match="collector or a study"):
        migrate(place)
    (place / "collector.db").write_bytes(b"")
    with pytest.raises(InvalidInput):
        migrate(place)


def test_the_command_migrates_and_says_what_it_did(place):
    collector = Collector.new(place / "collector", DESIGN)
    aged(collector.store.path, "collector")
    run = CliRunner()
    for words in ("went from version 1", "is up to date"):
        done = run.invoke(app, ["serve", "migrate", str(place / "collector")])
        assert done.exit_code == 0, done.output
        assert words in done.output
    found = json.loads(run.invoke(app, ["serve", "migrate", str(place / "collector"), "--json"]).output)
    assert found["databases"][0]["after"] == SCHEMA_VERSION


def test_the_scripts_are_in_the_package():
    import tacit

    assert SCRIPTS.is_relative_to(Path(tacit.__file__).parent)
    assert {path.name for path in (SCRIPTS / "versions").glob("version_*.py")} == {"version_1.py", "version_2.py"}


# PostgreSQL


AGED = {
    "collector": (
        'DROP TABLE token, lease, "window"',
        "DROP FUNCTION token_no_update, token_scrubbed, token_no_truncate",
        "DROP FUNCTION window_opens, window_no_update, window_no_delete, window_no_truncate",
    ),
    "study": ("DROP TABLE lease", "ALTER TABLE release DROP COLUMN opened"),
}
"""What takes a schema of PostgreSQL back to version 1, of which nobody has one."""
SHAPE = """SELECT 'column', table_name, column_name, data_type || is_nullable FROM information_schema.columns
           WHERE table_schema = current_schema()
           UNION SELECT 'trigger', event_object_table, trigger_name, action_timing || event_manipulation
           FROM information_schema.triggers WHERE trigger_schema = current_schema()
           UNION SELECT 'function', proname, '', regexp_replace(prosrc, '\\s+', ' ', 'g') FROM pg_proc
           WHERE pronamespace = current_schema()::regnamespace
           UNION SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
           WHERE connamespace = current_schema()::regnamespace"""


def shape_on_server(store) -> list[tuple[object, ...]]:
    with store.reading() as connection:
        return sorted((*row[:3], row[3].replace(" ;", ";").strip()) for row in connection.execute(SHAPE).fetchall())


@pytest.mark.parametrize("kind", ["collector", "study"])
def test_a_schema_of_version_1_is_migrated(postgres, place, kind):
    made, tables = {
        "collector": (Collector, None),
        "study": (Study, ["meta", "stage", "bundle", "release", "belief", "lease"]),
    }[kind]
    database = postgres.new()
    party = made.new(place / kind, DESIGN, database=database)
    if kind == "collector":
        party.open(bundle_of(DESIGN))
        add(party, range(3))
    else:
        party.plan()
    rows = everything(party.store) if tables is None else everything(party.store, tables)
    shape = shape_on_server(party.store)
    with party.store.step("age") as connection:
        for statement in (*AGED[kind], "DROP FUNCTION lease_moves, lease_stays, lease_no_truncate"):
            connection.execute(statement)
        connection.execute("UPDATE alembic_version SET version_num = '1'")
    assert shape_on_server(party.store) != shape
    with pytest.raises(InvalidInput, match="tacit serve migrate"):
        database.open(kind)
    url = f"{postgres.url}?schema={database.place.schema}"
    (done,) = migrate(url)
    assert (done.kind, done.before, done.after) == (kind, 1, SCHEMA_VERSION)
    assert shape_on_server(party.store) == shape
    party = made(place / kind, database=database)
    assert (everything(party.store) if tables is None else everything(party.store, tables)) == rows
    assert migrate(url)[0].before == SCHEMA_VERSION


def test_a_schema_of_an_unknown_version_is_refused(postgres, place):
    database = postgres.new()
    collector = Collector.new(place / "collector", DESIGN, database=database)
    with collector.store.step("age") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '3'")
    with pytest.raises(InvalidInput, match="a version from 1 to 2") as refused:
        migrate(f"{postgres.url}?schema={database.place.schema}")
    assert "password" not in str(refused.value)
    with pytest.raises(InvalidInput, match="collector or a study"):
        migrate(f"{postgres.url}?schema=nobody")


# restored copies are found out before anything is drawn


class Copies:
    """Backups of a party's database."""

    def __init__(self, store, postgres, place: Path) -> None:
        self.store, self.postgres, self.file = store, postgres, place / "backup"

    def make(self) -> None:
        if hasattr(self.store, "path"):
            closing = contextlib.closing
            with closing(sqlite3.connect(self.store.path)) as source, closing(sqlite3.connect(self.file)) as copy:
                source.backup(copy)
        else:
            self._run("pg_dump", "--schema", self.store.schema, "--file", str(self.file))

    def restore(self) -> None:
        if hasattr(self.store, "path"):
            for left in self.store.path.parent.glob(f"{self.store.path.name}*"):
                left.unlink()
            shutil.copy(self.file, self.store.path)
        else:
            self.postgres.sql(f"DROP SCHEMA {self.store.schema} CASCADE")
            self._run("psql", "--quiet", "-v", "ON_ERROR_STOP=1", "--file", str(self.file))

    def _run(self, program: str, *words: str) -> None:
        import subprocess

        done = subprocess.run(
            [self.postgres.programs / program, "--dbname", self.postgres.url, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request, place):
    if request.param == "sqlite":
        return lambda kind: SqliteDatabase(place / kind), None
    server = request.getfixturevalue("postgres")
    return lambda kind: server.new(kind), server


def test_a_restored_collector_is_refused_before_it_draws(databases, place):
    make, server = databases
    collector = Collector.new(place / "collector", DESIGN, database=make("collector"))
    collector.open(bundle_of(DESIGN))
    add(collector, range(4))
    collector.close()
    copies = Copies(collector.store, server, place)
    copies.make()
    head = Release.parse(collector.release(NOWHERE)).head
    copies.restore()
    restored = again(collector)
    before = everything(restored.store)
    assert [row[1] for row in before["records"]] == ["budget", "reserve"]
    with pytest.raises(InvalidInput, match="older copy"):
        restored.release(head)
    with pytest.raises(InvalidInput, match="older copy"):
        restored.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))
    assert everything(restored.store) == before
    with pytest.raises(InvalidInput), restored.store.step("thief") as connection:
        connection.execute("DELETE FROM records")  # triggers were restored, too


def test_a_restored_study_gets_no_second_release(databases, place):
    make, server = databases
    collector = Collector.new(place / "collector", WIDE, database=make("collector"))
    study = Study.new(place / "study", WIDE, seed=3, database=make("study"))
    collector.open(study.plan())
    add(collector, range(4))
    collector.close()
    first = collector.release(study.head)
    copies = Copies(study.store, server, place)
    copies.make()
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
    copies.restore()
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
