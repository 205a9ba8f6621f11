"""PostgreSQL stores: the database of a party in a schema of a server, for more than one machine.

T1  synchronous_commit is on in every session, and a server with fsync or full_page_writes off is refused. A commit
    whose answer got lost may have happened: every step of a party may be repeated, so ask again.
T2  A step that writes holds an EXCLUSIVE lock of the table `meta` from its beginning, under READ COMMITTED, so each of
    its statements sees all that was committed before. Who waits longer than a minute is refused.
T3  Constraints and triggers of `tacit.service.database.tables`. As with a file, the owner could drop them.
T4  Each party has a role and a schema (or a database) of its own; the schema is nobody else's. Use TLS (sslmode) where
    the server is another machine.
T5  VACUUM (FULL) writes bodies, tokens and secrets anew after a step that scrubs: the files of tables hold nothing of
    deleted rows. A transaction that began before the step (a dump, say) keeps them alive until the next step that
    scrubs after it. The write-ahead log, archives, replicas and freed blocks of the disk are out of reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final

import psycopg

from tacit.accounting.database import Connection
from tacit.errors import require
from tacit.service.database.engine import WAIT_SECONDS, PostgresConnection, Where, connecting, errors_of
from tacit.service.database.tables import COLLECTOR, STUDY
from tacit.study.store import SCHEMA_VERSION, Failpoint, Fill, Store, no_failpoint, require_kind, require_version

TABLES: Final[Mapping[str, Sequence[str]]] = {"collector": COLLECTOR, "study": STUDY}
SCRUBBED: Final[Mapping[str, str]] = {"collector": "body, token, secret", "study": ""}
SCRUB_WAITS: Final = "5s"
VERSION: Final = "CREATE TABLE version (number BIGINT PRIMARY KEY)"


class PostgresStore(Store):
    """A database in one schema."""

    def __init__(self, place: Where, kind: str, edge: Failpoint = no_failpoint) -> None:
        super().__init__(kind, edge)
        self.place, self.schema = place, place.schema_for(kind)
        self.where = f"{place} (schema {self.schema})"

    def _connection(self) -> AbstractContextManager[PostgresConnection]:
        return connecting(self.place, self.schema)

    def _errors(self) -> AbstractContextManager[None]:
        return errors_of(self.place)

    def _begin(self, connection: Connection) -> None:
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            connection.execute("LOCK TABLE meta IN EXCLUSIVE MODE")
        except BaseException:
            self._roll_back(connection)
            raise

    def _begin_reading(self, connection: Connection) -> None:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _roll_back(self, connection: Connection) -> None:
        # Where the connection is gone, so is the transaction; what went wrong before is raised.
        with suppress(psycopg.OperationalError):
            connection.execute("ROLLBACK")

    def _scrub(self, connection: Connection) -> None:
        tables = SCRUBBED[self.kind]
        if tables:
            connection.execute(f"SET lock_timeout = '{SCRUB_WAITS}'")
            # Somebody may read for long; the next step that scrubs repeats it.
            with suppress(psycopg.errors.LockNotAvailable):
                connection.execute(f"VACUUM (FULL) {tables}")
            connection.execute(f"SET lock_timeout = '{WAIT_SECONDS}s'")


class PostgresDatabase:
    """A place on a server for the databases of parties, one schema for each."""

    def __init__(self, url: str | Where) -> None:
        self.place = Where.of(url) if isinstance(url, str) else url

    def __repr__(self) -> str:
        return f"PostgresDatabase({str(self.place)!r})"

    def exists(self, kind: str) -> bool:
        """Whether there is a party in the schema."""
        with connecting(self.place, self.place.schema_for(kind)) as connection:
            return _has_tables(connection)

    def create(self, kind: str, *, edge: Failpoint = no_failpoint, first: Fill) -> PostgresStore:
        """Make a new database and fill it with `first`, in one transaction; an existing one is never touched."""
        store = PostgresStore(self.place, kind, edge)
        with store.connected() as connection:
            _require_durable(connection)
            connection.execute("BEGIN")
            try:
                connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{store.schema}"')
                connection.execute(f'REVOKE ALL ON SCHEMA "{store.schema}" FROM PUBLIC')
                require(not _has_tables(connection), f"{store.where} must be new", f"a {kind} in it", "choose another")
                for statement in (VERSION, *TABLES[kind]):
                    connection.execute(statement)
                connection.execute("INSERT INTO version VALUES (?)", (SCHEMA_VERSION,))
                connection.execute("INSERT INTO meta VALUES ('kind', ?)", (kind,))
                first(connection)
                edge(f"{kind}:made")
            except BaseException:
                store._roll_back(connection)
                raise
            connection.execute("COMMIT")
        return store

    def open(self, kind: str, *, edge: Failpoint = no_failpoint) -> PostgresStore:
        """Open an existing database of this kind; a missing one is an error, not a fresh start."""
        store = PostgresStore(self.place, kind, edge)
        with store.connected() as connection:
            _require_durable(connection)
            found = _has_tables(connection)
            require(found, f"{store.where} must hold a {kind}", "no such tables", f"make one with 'new' ({kind})")
            require_version(_version(connection), store.where)
            row = connection.execute("SELECT value FROM meta WHERE name = 'kind'").fetchone()
            require_kind(row, kind, store.where)
        return store


def _version(connection: Connection) -> int:
    """The schema version; 0 where none is stated, as in tables of tacit 0.8 and before."""
    if connection.execute("SELECT to_regclass('version') IS NULL").fetchone()[0]:
        return 0
    row = connection.execute("SELECT max(number) FROM version").fetchone()
    return int(row[0] or 0)


def _has_tables(connection: Connection) -> bool:
    return connection.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()[0] is True


def _require_durable(connection: Connection) -> None:
    """Refuse a server that may forget what it has committed (T1)."""
    for name in ("fsync", "full_page_writes"):
        value = connection.execute(f"SHOW {name}").fetchone()[0]
        require(value == "on", f"{name} of the server must be on", value, "a crash would lose what was acknowledged")
