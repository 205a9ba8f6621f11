"""PostgreSQL stores: the database of a party in a schema of a server, for more than one machine.

T1  synchronous_commit is on in every session, and a server with fsync or full_page_writes off is refused. A commit
    whose answer got lost may have happened: every step of a party may be repeated, so ask again.
T2  A step that writes holds an EXCLUSIVE lock of the table `meta` from its beginning, under READ COMMITTED, so each of
    its statements sees all that was committed before. Who waits longer than a minute is refused.
T3  Constraints and triggers of `tacit.service.database`. As with a file, the owner could drop them.
T4  Each party has a role and a schema (or a database) of its own; the schema is nobody else's. Use TLS (sslmode) where
    the server is another machine.
T5  VACUUM (FULL) writes bodies, tokens and secrets anew after a step that scrubs: the files of tables hold nothing of
    deleted rows. A transaction that began before the step (a dump, say) keeps them alive until the next step that
    scrubs after it. The write-ahead log, archives, replicas and freed blocks of the disk are out of reach.

Engines: pooled connections to PostgreSQL, and the adapter that makes one look like a connection of SQLite.

A URL is postgresql://user@host:port/database?schema=name&...; `schema` is ours, the rest goes to libpq (sslmode,
sslrootcert, passfile, ...). There is one engine per process and URL; a forked child makes its own.

The tables of collector and study in PostgreSQL: those of `tacit.study.databases`, with triggers in PL/pgSQL.

Names, columns and refusals are made of the statements there. What differs: numbers are 8 bytes wide, texts of `meta`
are texts, the journal is made with the rest and counted by a trigger of its own (`written`), and a trigger refuses
TRUNCATE, which no trigger of rows would see. Functions keep the schema that they were made in, whoever calls them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, ClassVar, Final

from tacit.accounting.journal import Connection, Cursor, Dialect
from tacit.errors import InvalidInput, NotSupported, install_hint, require
from tacit.study.databases import TABLES, Refusal, append_only
from tacit.study.store import SCHEMA_VERSION, Failpoint, Fill, Store, no_failpoint, require_kind, require_version

try:
    import psycopg
    import sqlalchemy
    from psycopg.pq import TransactionStatus
except ImportError as error:  # pragma: no cover - the extras are there where tests run
    raise NotSupported(f"PostgreSQL needs more packages: {install_hint('service,postgres')}") from error

WAIT_SECONDS: Final = 60
CONNECTS: Final = 10
POOL: Final = 4
MORE: Final = 16
SCHEMES: Final = ("postgresql", "postgresql+psycopg")
NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_ENGINES: Final[dict[tuple[int, str, str], sqlalchemy.Engine]] = {}


@dataclass(frozen=True, slots=True)
class Where:
    """A schema of a PostgreSQL database; None: the default of the kind of party."""

    url: str
    schema: str | None

    @classmethod
    def of(cls, text: str) -> Where:
        """Read a URL.

        >>> Where.of("postgresql://ward@db/clinic?schema=shuffler").schema
        'shuffler'
        """
        try:
            url = sqlalchemy.make_url(text)
        except (sqlalchemy.exc.ArgumentError, ValueError):
            raise InvalidInput("a database must be named by a URL, got something else") from None
        require(url.drivername in SCHEMES, "a URL of PostgreSQL begins with postgresql://", url.drivername)
        schema = url.query.get("schema")
        named = schema is None or (isinstance(schema, str) and NAME.fullmatch(schema) is not None)
        require(named, "a schema is named by small letters, digits and _", "another name")
        plain = url.set(drivername="postgresql+psycopg").difference_update_query(["schema"])
        return cls(plain.render_as_string(hide_password=False), schema if isinstance(schema, str) else None)

    def schema_for(self, kind: str) -> str:
        """The schema of a party."""
        return self.schema or f"tacit_{kind}"

    def __str__(self) -> str:
        """Without the password."""
        shown = sqlalchemy.make_url(self.url).set(drivername="postgresql")
        return shown.render_as_string(hide_password=True)

    def __repr__(self) -> str:
        return f"Where({str(self)!r}, schema={self.schema!r})"


class PostgresConnection:
    """One connection that begins no transaction by itself, with `?` for values."""

    dialect: ClassVar[Dialect] = "postgresql"

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        return self.raw.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run one statement."""
        return self.raw.execute(_translated(sql), tuple(parameters))

    def executemany(self, sql: str, parameters: Any, /) -> None:
        """Run one statement for each of many rows."""
        with self.raw.cursor() as cursor:
            cursor.executemany(_translated(sql), list(parameters))


@lru_cache(maxsize=1024)
def _translated(sql: str) -> bytes:
    """`?` is `%s` here; no statement has a question mark or a percent sign of its own."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


def engine_of(where: Where, schema: str) -> sqlalchemy.Engine:
    """The engine of this process for a schema."""
    name = (os.getpid(), where.url, schema)
    if name not in _ENGINES:
        patience = {} if "connect_timeout" in sqlalchemy.make_url(where.url).query else {"connect_timeout": CONNECTS}
        engine = sqlalchemy.create_engine(
            where.url,
            connect_args=patience,
            pool_size=POOL,
            max_overflow=MORE,
            pool_pre_ping=True,
            pool_timeout=WAIT_SECONDS,
        )

        @sqlalchemy.event.listens_for(engine, "connect")
        def _prepare(raw: psycopg.Connection[Any], record: object) -> None:
            raw.autocommit = True
            # A commit returns when the disk has it (T1); a name without a schema is one of this party (T4).
            raw.execute("SET synchronous_commit = on")
            raw.execute(f"SET lock_timeout = '{WAIT_SECONDS}s'".encode())
            raw.execute(f'SET search_path = "{schema}"'.encode())

        # Of two threads that make one at once, the second uses the engine of the first.
        return _ENGINES.setdefault(name, engine)
    return _ENGINES[name]


def close_all() -> None:
    """Close the idle connections of this process; engines are made again when they are needed."""
    for name in [name for name in _ENGINES if name[0] == os.getpid()]:
        _ENGINES.pop(name).dispose()


@contextmanager
def connecting(where: Where, schema: str) -> Iterator[PostgresConnection]:
    """A connection of the pool."""
    with errors_of(where):
        lent = engine_of(where, schema).raw_connection()
        try:
            raw: Any = lent.driver_connection
            yield PostgresConnection(raw)
        finally:
            lent.close()


@contextmanager
def errors_of(where: Where) -> Iterator[None]:
    """Errors of the driver as `InvalidInput`: what the server says in one line, never the row it says it about."""
    try:
        yield
    except psycopg.Error as error:
        raise InvalidInput(f"the database {where} cannot be used: {_said(error)}") from None
    except sqlalchemy.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None)
        raise InvalidInput(f"the database {where} cannot be reached: {_said(cause or error)}") from None


def _said(error: BaseException) -> str:
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return primary or next(iter(str(error).splitlines()), type(error).__name__)


WORDS: Final = (
    ("step INTEGER PRIMARY KEY", "step INTEGER PRIMARY KEY AUTOINCREMENT"),
    ("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    ("value BLOB", "value TEXT"),
    ("INTEGER", "BIGINT"),
    ("BLOB", "BYTEA"),
    (" STRICT", ""),
    (" WITHOUT ROWID", ""),
    ("TABLE window", 'TABLE "window"'),
)
"""What SQLite calls otherwise, in the order of replacing."""
JOURNAL: Final = (
    """CREATE TABLE records (number BIGINT PRIMARY KEY, kind TEXT NOT NULL, first BIGINT, stop BIGINT,
       refers BIGINT UNIQUE, body TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE INDEX ranges ON records (first, stop)",
    *append_only("records"),
    "CREATE TABLE written (name TEXT PRIMARY KEY, seq BIGINT NOT NULL)",
    Refusal("written_grows", "UPDATE ON written", "NOT (NEW.seq > OLD.seq AND NEW.name = OLD.name)", "counts grow"),
    Refusal("written_stays", "DELETE ON written", "1", "counts are kept"),
    """CREATE FUNCTION records_counted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
       BEGIN
           INSERT INTO written VALUES ('records', NEW.number)
           ON CONFLICT (name) DO UPDATE SET seq = greatest(written.seq, NEW.number);
           RETURN NULL;
       END $$""",
    "CREATE TRIGGER records_counted AFTER INSERT ON records FOR EACH ROW EXECUTE FUNCTION records_counted()",
    "CREATE INDEX report_of_stage ON report (stage)",
)


def tables_of(kind: str) -> Iterator[str]:
    """The statements that make the tables of a kind of party."""
    for one in (*TABLES[kind], *(JOURNAL if kind == "collector" else ())):
        if isinstance(one, Refusal):
            yield from _refusal(one)
        else:
            yield reduce(lambda text, pair: text.replace(*pair), WORDS, one)


def _refusal(given: Refusal) -> Iterator[str]:
    """A trigger of rows; a table whose rows are not deleted freely is never emptied at once either."""
    event, _, table = given.what.partition(" ON ")
    # SQLite compares NULLs with IS and IS NOT.
    when = re.sub(r"\bIS NOT (?!NULL)", "IS DISTINCT FROM ", given.when.replace("INTEGER", "BIGINT"))
    when = re.sub(r"\bIS (?!NOT|DISTINCT)", "IS NOT DISTINCT FROM ", when)
    yield f"""CREATE FUNCTION {given.name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
            BEGIN
                IF {"true" if when == "1" else when} THEN
                    RAISE EXCEPTION '{given.why}' USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN {"OLD" if event == "DELETE" else "NEW"};
            END $$"""
    name = f"{table}_no_truncate"
    yield f'CREATE TRIGGER {given.name} BEFORE {event} ON "{table}" FOR EACH ROW EXECUTE FUNCTION {given.name}()'
    if event == "DELETE":
        yield f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION '{table} is never emptied' USING ERRCODE = 'integrity_constraint_violation';
            END $$"""
        yield f'CREATE TRIGGER {name} BEFORE TRUNCATE ON "{table}" FOR EACH STATEMENT EXECUTE FUNCTION {name}()'


SCRUBBED: Final[Mapping[str, str]] = {"collector": "body, token, secret", "study": "", "issuer": "stage_key"}
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
                for statement in (VERSION, *tables_of(kind)):
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
