"""SQLite stores: the database of a party in a file of its directory.

T1  WAL with synchronous=FULL.
T2  BEGIN IMMEDIATE.
T3  STRICT tables and the triggers of `tacit.study.tables`.
T4  The file and its logs have the rights 0600.
T5  secure_delete overwrites deleted rows, and the log is emptied after a step that scrubs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tacit.accounting.database import Connection
from tacit.errors import InvalidInput, require
from tacit.runs.storage import check_writable, writing_to
from tacit.study.store import SCHEMA_VERSION, Failpoint, Fill, Store, no_failpoint, require_kind, require_version
from tacit.study.tables import COLLECTOR, STUDY

WAIT_SECONDS: Final = 60.0
STRICT_SINCE: Final = (3, 37)
TABLES: Final[Mapping[str, Sequence[str]]] = {"collector": COLLECTOR, "study": STUDY}
FILES: Final = {"collector": "collector.db", "study": "study.db"}


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
        for left in (made.path, *_logs(made.path)):
            left.unlink(missing_ok=True)
        with writing_to(path.parent):
            # Only its owner reads it; logs beside a database get the rights of the database.
            os.close(os.open(made.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with made._connection(wal=False) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in TABLES[kind]:
                connection.execute(statement)
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


def _logs(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))
