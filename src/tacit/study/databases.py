"""Databases by URL: the SQLite file in a party's directory, or what is registered for another scheme.

PostgreSQL belongs to a room above this one and needs an extra, so it is a plugin like those of other packages: known
here by its name only, and loaded when a URL asks for it.

The tables of collector, study and issuer, with the triggers that keep their promises whoever writes. They are written
for SQLite; `tacit.service.database` says them in PostgreSQL.

collector   stage     open -> closed -> released | void,   open -> void          one stage at a time
study       stage     open -> released | void | served | killed

SQLite stores: the database of a party in a file of its directory.

T1  WAL with synchronous=FULL.
T2  BEGIN IMMEDIATE.
T3  STRICT tables and the triggers of `tacit.study.databases`.
T4  The file and its logs have the rights 0600.
T5  secure_delete overwrites deleted rows, and the log is emptied after a step that scrubs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final, NamedTuple

from tacit.accounting.journal import Connection, Writer
from tacit.errors import InvalidInput, NotSupported, require
from tacit.plugins import named
from tacit.runs.storage import check_writable, writing_to
from tacit.study.store import (
    SCHEMA_VERSION,
    Database,
    Failpoint,
    Fill,
    Store,
    no_failpoint,
    require_kind,
    require_version,
)


class Refusal(NamedTuple):
    """A trigger that refuses `what` (as in INSERT ON stage) under a condition."""

    name: str
    what: str
    when: str
    why: str

    def __str__(self) -> str:
        refusal = f"BEGIN SELECT RAISE(ABORT, '{self.why}'); END"
        return f"CREATE TRIGGER {self.name} BEFORE {self.what} WHEN {self.when} {refusal}"


def append_only(table: str) -> tuple[Refusal, Refusal]:
    """Triggers that refuse every update and every deletion."""
    return (
        Refusal(f"{table}_no_update", f"UPDATE ON {table}", "1", f"{table} is append-only"),
        Refusal(f"{table}_no_delete", f"DELETE ON {table}", "1", f"{table} is append-only"),
    )


META: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID",
    *append_only("meta"),
)

LEASE: Final = (
    """CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token INTEGER NOT NULL,
       until INTEGER NOT NULL) STRICT""",
    Refusal(
        "lease_moves",
        "UPDATE ON lease",
        "NOT (NEW.name = OLD.name AND (NEW.token = OLD.token + 1 OR "
        "(NEW.token = OLD.token AND NEW.holder = OLD.holder)))",
        "a lease changes hands only with the next token",
    ),
    Refusal("lease_stays", "DELETE ON lease", "1", "leases are kept: their tokens only grow"),
)
"""Which process does a job; times are whole seconds since 1970."""


def _scrubbed(table: str, what: str) -> tuple[Refusal, Refusal]:
    """Triggers that keep the rows beside a report as they are until its stage has ended."""
    return (
        Refusal(f"{table}_no_update", f"UPDATE ON {table}", "1", f"{what} are never changed"),
        Refusal(
            f"{table}_scrubbed",
            f"DELETE ON {table}",
            "(SELECT state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = OLD.seq) "
            "NOT IN ('released', 'void')",
            f"{what} are kept until their stage has ended",
        ),
    )


COLLECTOR: Final = (
    *META,
    """CREATE TABLE stage (number INTEGER PRIMARY KEY, slot INTEGER NOT NULL, questions INTEGER NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'released', 'void')), n INTEGER, reason TEXT) STRICT""",
    Refusal(
        "stage_begins",
        "INSERT ON stage",
        "NEW.state <> 'open' OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'closed')) "
        "OR NEW.number <= (SELECT max(number) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is collected twice",
    ),
    Refusal(
        "stage_moves",
        "UPDATE ON stage",
        "NOT (OLD.number = NEW.number AND OLD.slot = NEW.slot AND OLD.questions = NEW.questions AND ("
        "(OLD.state = 'open' AND NEW.state IN ('closed', 'void')) OR "
        "(OLD.state = 'closed' AND NEW.state IN ('released', 'void') AND OLD.n IS NEW.n)))",
        "a stage goes from open to closed to released, or to void",
    ),
    Refusal("stage_stays", "DELETE ON stage", "1", "stages are kept"),
    """CREATE TABLE question (stage INTEGER NOT NULL REFERENCES stage, number INTEGER NOT NULL, bundle BLOB NOT NULL,
       charge INTEGER, head BLOB, PRIMARY KEY (stage, number)) STRICT""",
    *append_only("question"),
    """CREATE TABLE report (seq INTEGER PRIMARY KEY AUTOINCREMENT, stage INTEGER NOT NULL REFERENCES stage,
       id BLOB NOT NULL UNIQUE) STRICT""",
    Refusal(
        "report_in_time",
        "INSERT ON report",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'open'",
        "reports are taken while their stage is open",
    ),
    *append_only("report"),
    "CREATE TABLE body (seq INTEGER PRIMARY KEY REFERENCES report, bytes BLOB NOT NULL) STRICT",
    *_scrubbed("body", "bodies"),
    "CREATE TABLE dropped (seq INTEGER PRIMARY KEY REFERENCES report) STRICT",
    Refusal(
        "dropped_before",
        "INSERT ON dropped",
        "(SELECT state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = NEW.seq) IS NOT 'open'",
        "which reports count is fixed when their stage is closed",
    ),
    *append_only("dropped"),
    """CREATE TABLE participation (person BLOB NOT NULL, stage INTEGER NOT NULL REFERENCES stage,
       report INTEGER NOT NULL UNIQUE REFERENCES report, PRIMARY KEY (person, stage)) STRICT""",
    Refusal("participation_no_update", "UPDATE ON participation", "1", "participation is never changed"),
    Refusal(
        "participation_at_most",
        "INSERT ON participation",
        "(SELECT count(*) FROM participation WHERE person = NEW.person) >= "
        "(SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'reports')",
        "a person has at most so many reports",
    ),
    Refusal(
        "participation_given_back",
        "DELETE ON participation",
        "(SELECT state FROM stage WHERE number = OLD.stage) IS NOT 'void' "
        "OR EXISTS (SELECT 1 FROM question WHERE stage = OLD.stage AND charge IS NOT NULL) "
        "OR EXISTS (SELECT 1 FROM outbox WHERE stage = OLD.stage)",
        "participation is given back by a void stage that nobody paid for, and by nothing else",
    ),
    """CREATE TABLE secret (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL, coins TEXT,
       PRIMARY KEY (stage, question)) STRICT""",
    """CREATE TABLE outbox (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL,
       digest TEXT NOT NULL, charge INTEGER NOT NULL UNIQUE, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES question (stage, number)) STRICT""",
    Refusal(
        "outbox_when_closed",
        "INSERT ON outbox",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'closed'",
        "a stage is released after it was closed",
    ),
    *append_only("outbox"),
    "CREATE TABLE rejected (reason TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT",
    "CREATE TABLE token (seq INTEGER PRIMARY KEY REFERENCES report, bytes BLOB NOT NULL) STRICT",
    *_scrubbed("token", "tokens"),
    "CREATE TABLE window (stage INTEGER PRIMARY KEY REFERENCES stage, ends INTEGER NOT NULL) STRICT",
    Refusal(
        "window_opens",
        "INSERT ON window",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'open'",
        "the end of a window is set while its stage is open",
    ),
    *append_only("window"),
    *LEASE,
)
"""Bodies and tokens have tables of their own, in the order of arrival: they are scrubbed, and the rest stays."""

STUDY: Final = (
    *META,
    """CREATE TABLE stage (number INTEGER PRIMARY KEY, slot INTEGER, questions INTEGER NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'released', 'void', 'served', 'killed')), reason TEXT) STRICT""",
    Refusal(
        "stage_begins",
        "INSERT ON stage",
        "NEW.state NOT IN ('open', 'served', 'killed') OR NEW.number IS NOT (SELECT count(*) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'served', 'killed') AND NEW.state <> 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE state = 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is asked twice",
    ),
    Refusal(
        "stage_moves",
        "UPDATE ON stage",
        "NOT (OLD.number = NEW.number AND OLD.slot IS NEW.slot AND OLD.questions = NEW.questions "
        "AND OLD.state = 'open' AND NEW.state IN ('released', 'void'))",
        "a stage goes from open to released or void",
    ),
    Refusal("stage_stays", "DELETE ON stage", "1", "stages are kept"),
    """CREATE TABLE bundle (stage INTEGER NOT NULL REFERENCES stage, question INTEGER NOT NULL, bytes BLOB NOT NULL,
       digest TEXT NOT NULL, PRIMARY KEY (stage, question)) STRICT""",
    *append_only("bundle"),
    """CREATE TABLE release (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL,
       digest TEXT NOT NULL, charge INTEGER NOT NULL UNIQUE, people INTEGER NOT NULL,
       noise TEXT NOT NULL, opened BLOB, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES bundle (stage, question)) STRICT""",
    *append_only("release"),
    """CREATE TABLE quarantine (stage INTEGER NOT NULL, question INTEGER NOT NULL, finding TEXT NOT NULL,
       PRIMARY KEY (stage, question)) STRICT""",
    *append_only("quarantine"),
    """CREATE TABLE belief (step INTEGER PRIMARY KEY,
       kind TEXT NOT NULL CHECK (kind IN ('begin', 'plan', 'ask', 'take', 'void')),
       stage INTEGER, question INTEGER, belief BLOB NOT NULL, plan BLOB NOT NULL, memory BLOB NOT NULL,
       coins TEXT NOT NULL, UNIQUE (kind, stage, question)) STRICT""",
    *append_only("belief"),
    *LEASE,
)
"""A release that came as a sealed batch is kept with what it was opened to (`opened`)."""


ISSUER: Final = (
    *META,
    "CREATE TABLE stage_key (stage INTEGER PRIMARY KEY, public BLOB NOT NULL UNIQUE, secret BLOB) STRICT",
    Refusal("stage_key_stays", "DELETE ON stage_key", "1", "keys are kept, but their secrets"),
    """CREATE TABLE issued (person BLOB NOT NULL, stage INTEGER NOT NULL, number INTEGER NOT NULL CHECK (number >= 1),
       blinded BLOB NOT NULL, signature BLOB NOT NULL, PRIMARY KEY (person, stage), UNIQUE (person, number)) STRICT""",
    Refusal(
        "issued_at_most",
        "INSERT ON issued",
        "NEW.number > (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'reports')",
        "a person has at most so many tokens",
    ),
    *append_only("issued"),
)
"""What an issuer of tokens has signed for whom (`tacit.service.tokens.token_issuer`)."""


def doubts_about_layout(connection: Connection, kind: str) -> list[str]:
    """What SQLite would keep or do beside what tacit lays out: tables, views, and triggers that are code."""
    laid = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in TABLES[kind]:
            fresh.execute(str(statement))
        if kind == "collector":
            Writer(fresh).prepare()
        expected = set(fresh.execute(laid))
    other = sorted({row[1] for row in expected.symmetric_difference(connection.execute(laid).fetchall())})
    return [f"{FILES[kind]} is not laid out as tacit does it: {', '.join(other[:3])}"] if other else []


WAIT_SECONDS: Final = 60.0
STRICT_SINCE: Final = (3, 37)
TABLES: Final[Mapping[str, Sequence[str | Refusal]]] = {"collector": COLLECTOR, "study": STUDY, "issuer": ISSUER}
FILES: Final = {kind: f"{kind}.db" for kind in TABLES}


class SqliteStore(Store):
    """A database in one file."""

    def __init__(self, path: Path, kind: str, edge: Failpoint = no_failpoint) -> None:
        super().__init__(kind, edge)
        self.path = path
        self.where = str(path)

    @contextmanager
    def _connection(self, *, wal: bool = True) -> Iterator[Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise InvalidInput(f"the database {self.path} cannot be opened: {error}") from error
        try:
            with self._errors():
                connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("PRAGMA secure_delete = ON")
                yield connection
        finally:
            connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InvalidInput(f"the database {self.path} cannot be used: {error}") from error

    def _begin(self, connection: Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def _begin_reading(self, connection: Connection) -> None:
        connection.execute("BEGIN")

    def _roll_back(self, connection: Connection) -> None:
        connection.execute("ROLLBACK")

    def _scrub(self, connection: Connection) -> None:
        # Rows that were overwritten still stand in the log.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """The files of a directory, one for each kind of party."""

    directory: Path

    def exists(self, kind: str) -> bool:
        """Whether there is a party of this kind."""
        return self.path(kind).exists()

    def path(self, kind: str) -> Path:
        """The file of a kind of party."""
        return self.directory / FILES[kind]

    def create(self, kind: str, *, edge: Failpoint = no_failpoint, first: Fill) -> SqliteStore:
        """Make a new database and fill it with `first`, in one transaction; an existing one is never touched."""
        path = self.path(kind)
        require(sqlite3.sqlite_version_info >= STRICT_SINCE, "SQLite must be 3.37 or newer", sqlite3.sqlite_version)
        require(not path.exists(), f"{path.parent} must be a new directory", f"a {kind} in it", "choose another")
        check_writable(path.parent)
        with writing_to(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        # Whoever stops half way leaves a temporary file and no party.
        made = SqliteStore(path.with_name(f".tmp-{path.name}"), kind, edge)
        for suffix in ("", "-wal", "-shm", "-journal"):
            made.path.with_name(made.path.name + suffix).unlink(missing_ok=True)
        with writing_to(path.parent):
            # Only its owner reads it; logs beside a database get the rights of the database.
            os.close(os.open(made.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with made._connection(wal=False) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in TABLES[kind]:
                connection.execute(str(statement))
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("INSERT INTO meta VALUES ('kind', ?)", (kind,))
            first(connection)
            connection.execute("COMMIT")
        edge(f"{kind}:made")
        made.path.rename(path)
        store = SqliteStore(path, kind, edge)
        with store.connected():
            pass
        return store

    def open(self, kind: str, *, edge: Failpoint = no_failpoint) -> SqliteStore:
        """Open an existing database of this kind; a missing one is an error, not a fresh start."""
        path = self.path(kind)
        require(path.is_file(), f"{path.parent} must hold a {kind}", "no such file", f"make one with 'new' ({kind})")
        store = SqliteStore(path, kind, edge)
        with store.connected() as connection:
            require_version(connection.execute("PRAGMA user_version").fetchone()[0], path.parent)
            found = connection.execute("SELECT value FROM meta WHERE name = 'kind'").fetchone()
            require_kind(found, kind, str(path.parent))
        return store


GROUP: Final = "tacit.databases"
POSTGRES: Final = EntryPoint("postgresql", "tacit.service.database:PostgresDatabase", GROUP)


def _postgres(url: str) -> Database:
    made: Database = POSTGRES.load()(url)
    return made


OWN: Final[Mapping[str, Callable[[str], Database]]] = {"postgresql": _postgres}
DATABASES: Final = named(GROUP, OWN)
"""What makes a `Database` of a URL, by its scheme."""


def database_at(directory: Path, database: str | Database | None) -> Database:
    """The database of a party: the SQLite file in its directory unless another one is given, or named by its URL.

    >>> database_at(Path("ward"), None)
    SqliteDatabase(directory=...Path('ward'))
    >>> database_at(Path("ward"), "unheard-of://ward")
    Traceback (most recent call last):
    ...
    tacit.errors.NotSupported: no database is known for unheard-of://; use postgresql:// or the file of the directory
    """
    if database is None:
        return SqliteDatabase(directory)
    if not isinstance(database, str):
        require(hasattr(database, "open"), "a database must be named by a URL", type(database).__name__)
        return database
    require("://" in database, "a database must be named by a URL", "something else", "use postgresql://host/name")
    scheme = database.partition("://")[0].partition("+")[0]
    if scheme not in DATABASES:
        raise NotSupported(f"no database is known for {scheme}://; use postgresql:// or the file of the directory")
    return DATABASES[scheme](database)
