"""One SQLite database per party: every step is one transaction that is on the disk when it returns.

T1  Durable: WAL with synchronous=FULL; a step that returned survives a crash, one that did not leaves no trace.
T2  Exclusive: a step that writes begins with the writers' lock, so steps of many processes come one after the other.
T3  What must not change cannot: tables are STRICT, and triggers refuse transitions and edits whoever asks for them.
T4  Private: a database and its logs are readable by their owner only.
T5  Scrubbed means gone: deleted rows are overwritten, and the log is emptied after a step that deletes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, require
from tacit.runs.storage import check_writable, writing_to

__all__ = ["Edge", "Store"]

WAIT_SECONDS: Final = 60.0
SCHEMA_VERSION: Final = 2
STRICT_SINCE: Final = (3, 37)

Edge = Callable[[str], None]
"""Called with a name wherever a crash could fall between two effects; does nothing outside of tests."""


def _nothing(edge: str) -> None:
    del edge


class Store:
    """A database of one kind ("collector" or "study"); all state is in the file."""

    def __init__(self, path: Path, kind: str, edge: Edge = _nothing) -> None:
        self.path = path
        self.kind = kind
        self.edge = edge
        self._held: sqlite3.Connection | None = None

    @classmethod
    def create(
        cls, path: Path, kind: str, tables: Sequence[str], *, edge: Edge = _nothing, first: Callable[[Any], None]
    ) -> Store:
        """Make a new database and fill it with `first`, in one transaction; an existing one is never touched."""
        require(sqlite3.sqlite_version_info >= STRICT_SINCE, "SQLite must be 3.37 or newer", sqlite3.sqlite_version)
        require(not path.exists(), f"{path.parent} must be a new directory", f"a {kind} in it", "choose another")
        check_writable(path.parent)
        with writing_to(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        # Whoever stops half way leaves a temporary file and no party.
        made = cls(path=path.with_name(f".tmp-{path.name}"), kind=kind, edge=edge)
        for left in (made.path, *_logs(made.path)):
            left.unlink(missing_ok=True)
        with writing_to(path.parent):
            # Only its owner reads it; logs beside a database get the rights of the database.
            os.close(os.open(made.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with made.connected(wal=False) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("INSERT INTO meta VALUES ('kind', ?)", (kind,))
            first(connection)
            connection.execute("COMMIT")
        edge(f"{kind}:made")
        made.path.rename(path)
        store = cls(path=path, kind=kind, edge=edge)
        with store.connected():
            pass
        return store

    @classmethod
    def open(cls, path: Path, kind: str, *, edge: Edge = _nothing) -> Store:
        """Open an existing database of this kind; a missing one is an error, not a fresh start."""
        require(path.is_file(), f"{path.parent} must hold a {kind}", "no such file", f"make one with 'new' ({kind})")
        store = cls(path=path, kind=kind, edge=edge)
        with store.connected() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            hint = f"bring it up to date with 'tacit serve migrate {path.parent}'" if version < SCHEMA_VERSION else ""
            require(version == SCHEMA_VERSION, f"the database must have version {SCHEMA_VERSION}", version, hint)
            found = connection.execute("SELECT value FROM meta WHERE name = 'kind'").fetchone()
            require(found == (kind,), f"{path.parent} must hold a {kind}", "another database")
        return store

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep one connection for many steps of this thread, which saves most of the time of small ones."""
        require(self._held is None, "a database is held once", "held already")
        with self.connected() as connection:
            self._held = connection
            try:
                yield
            finally:
                self._held = None

    @contextmanager
    def connected(self, *, wal: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection without a transaction."""
        if self._held is not None:
            try:
                yield self._held
            except sqlite3.Error as error:
                raise InvalidInput(f"the database {self.path} cannot be used: {error}") from error
            return
        try:
            connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise InvalidInput(f"the database {self.path} cannot be opened: {error}") from error
        try:
            connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            yield connection
        except sqlite3.Error as error:
            raise InvalidInput(f"the database {self.path} cannot be used: {error}") from error
        finally:
            connection.close()

    @contextmanager
    def step(self, name: str, *, scrubs: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction: everything is kept at the end of the block, nothing if it raises (T1, T2)."""
        with self.connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self.edge(f"{name}:begun")
                yield connection
                self.edge(f"{name}:before commit")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self.edge(f"{name}:after commit")
            if scrubs:
                # Rows that were overwritten still stand in the log; a reader may delay this, the next step repeats it.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self.edge(f"{name}:after scrub")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view of everything, without the writers' lock."""
        with self.connected() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")


def _logs(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))
