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

Names, columns and refusals are the same. What differs: numbers are 8 bytes wide, texts of `meta` are texts, the journal
is made with the rest and counted by a trigger of its own (`written`), and a trigger refuses TRUNCATE, which no trigger
of rows would see. Functions keep the schema that they were made in, whoever calls them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

import psycopg

from tacit.accounting.database import Connection, Cursor, Dialect
from tacit.errors import InvalidInput, NotSupported, install_hint, require
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


STATE_OF: Final = (
    "(SELECT stage.state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = {row}.seq)"
)


def _refuse(table: str, name: str, event: str, when: str, why: str) -> tuple[str, str]:
    """A trigger that refuses INSERT, UPDATE or DELETE of a row under a condition."""
    row = "OLD" if event == "DELETE" else "NEW"
    return (
        f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
            BEGIN
                IF {when} THEN
                    RAISE EXCEPTION '{why}' USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN {row};
            END $$""",
        f'CREATE TRIGGER {name} BEFORE {event} ON "{table}" FOR EACH ROW EXECUTE FUNCTION {name}()',
    )


def _kept(table: str) -> tuple[str, str]:
    """A trigger that refuses to empty a table at once."""
    name = f"{table}_no_truncate"
    return (
        f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION '{table} is never emptied' USING ERRCODE = 'integrity_constraint_violation';
            END $$""",
        f'CREATE TRIGGER {name} BEFORE TRUNCATE ON "{table}" FOR EACH STATEMENT EXECUTE FUNCTION {name}()',
    )


def _append_only(table: str) -> tuple[str, ...]:
    """Triggers that refuse every update and every deletion."""
    why = f"{table} is append-only"
    return (
        *_refuse(table, f"{table}_no_update", "UPDATE", "true", why),
        *_refuse(table, f"{table}_no_delete", "DELETE", "true", why),
        *_kept(table),
    )


def _scrubbed(table: str, what: str) -> tuple[str, ...]:
    """Triggers that keep the rows beside a report as they are until its stage has ended."""
    early = f"{STATE_OF.format(row='OLD')} NOT IN ('released', 'void')"
    return (
        *_refuse(table, f"{table}_no_update", "UPDATE", "true", f"{what} are never changed"),
        *_refuse(table, f"{table}_scrubbed", "DELETE", early, f"{what} are kept until their stage has ended"),
        *_kept(table),
    )


META: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT)",
    *_append_only("meta"),
)

LEASE: Final = (
    "CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token BIGINT NOT NULL, until BIGINT NOT NULL)",
    *_refuse(
        "lease",
        "lease_moves",
        "UPDATE",
        "NOT (NEW.name = OLD.name AND (NEW.token = OLD.token + 1 "
        "OR (NEW.token = OLD.token AND NEW.holder = OLD.holder)))",
        "a lease changes hands only with the next token",
    ),
    *_refuse("lease", "lease_stays", "DELETE", "true", "leases are kept: their tokens only grow"),
    *_kept("lease"),
)

JOURNAL: Final = (
    """CREATE TABLE records (number BIGINT PRIMARY KEY, kind TEXT NOT NULL, first BIGINT, stop BIGINT,
       refers BIGINT UNIQUE, body TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE INDEX ranges ON records (first, stop)",
    *_append_only("records"),
    "CREATE TABLE written (name TEXT PRIMARY KEY, seq BIGINT NOT NULL)",
    *_refuse("written", "written_grows", "UPDATE", "NOT (NEW.seq > OLD.seq AND NEW.name = OLD.name)", "counts grow"),
    *_refuse("written", "written_stays", "DELETE", "true", "counts are kept"),
    *_kept("written"),
    """CREATE FUNCTION records_counted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
       BEGIN
           INSERT INTO written VALUES ('records', NEW.number)
           ON CONFLICT (name) DO UPDATE SET seq = greatest(written.seq, NEW.number);
           RETURN NULL;
       END $$""",
    "CREATE TRIGGER records_counted AFTER INSERT ON records FOR EACH ROW EXECUTE FUNCTION records_counted()",
)

COLLECTOR_TABLES: Final = (
    """CREATE TABLE stage (number BIGINT PRIMARY KEY, slot BIGINT NOT NULL, questions BIGINT NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'released', 'void')), n BIGINT, reason TEXT)""",
    *_refuse(
        "stage",
        "stage_begins",
        "INSERT",
        "NEW.state <> 'open' OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'closed')) "
        "OR NEW.number <= (SELECT max(number) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is collected twice",
    ),
    *_refuse(
        "stage",
        "stage_moves",
        "UPDATE",
        "NOT (OLD.number = NEW.number AND OLD.slot = NEW.slot AND OLD.questions = NEW.questions AND ("
        "(OLD.state = 'open' AND NEW.state IN ('closed', 'void')) OR "
        "(OLD.state = 'closed' AND NEW.state IN ('released', 'void') AND OLD.n IS NOT DISTINCT FROM NEW.n)))",
        "a stage goes from open to closed to released, or to void",
    ),
    *_refuse("stage", "stage_stays", "DELETE", "true", "stages are kept"),
    *_kept("stage"),
    """CREATE TABLE question (stage BIGINT NOT NULL REFERENCES stage, number BIGINT NOT NULL, bundle BYTEA NOT NULL,
       charge BIGINT, head BYTEA, PRIMARY KEY (stage, number))""",
    *_append_only("question"),
    """CREATE TABLE report (seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
       stage BIGINT NOT NULL REFERENCES stage, id BYTEA NOT NULL UNIQUE)""",
    *_refuse(
        "report",
        "report_in_time",
        "INSERT",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'open'",
        "reports are taken while their stage is open",
    ),
    *_append_only("report"),
    "CREATE INDEX report_of_stage ON report (stage)",
    "CREATE TABLE body (seq BIGINT PRIMARY KEY REFERENCES report, bytes BYTEA NOT NULL)",
    *_scrubbed("body", "bodies"),
    "CREATE TABLE dropped (seq BIGINT PRIMARY KEY REFERENCES report)",
    *_refuse(
        "dropped",
        "dropped_before",
        "INSERT",
        f"{STATE_OF.format(row='NEW')} IS DISTINCT FROM 'open'",
        "which reports count is fixed when their stage is closed",
    ),
    *_append_only("dropped"),
    """CREATE TABLE participation (person BYTEA NOT NULL, stage BIGINT NOT NULL REFERENCES stage,
       report BIGINT NOT NULL UNIQUE REFERENCES report, PRIMARY KEY (person, stage))""",
    *_refuse("participation", "participation_no_update", "UPDATE", "true", "participation is never changed"),
    *_refuse(
        "participation",
        "participation_at_most",
        "INSERT",
        "(SELECT count(*) FROM participation WHERE person = NEW.person) >= "
        "(SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'reports')",
        "a person has at most so many reports",
    ),
    """CREATE TABLE secret (stage BIGINT NOT NULL, question BIGINT NOT NULL, bytes BYTEA NOT NULL, coins TEXT,
       PRIMARY KEY (stage, question))""",
    """CREATE TABLE outbox (stage BIGINT NOT NULL, question BIGINT NOT NULL, bytes BYTEA NOT NULL,
       digest TEXT NOT NULL, charge BIGINT NOT NULL UNIQUE, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES question (stage, number))""",
    *_refuse(
        "outbox",
        "outbox_when_closed",
        "INSERT",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'closed'",
        "a stage is released after it was closed",
    ),
    *_append_only("outbox"),
    *_refuse(
        "participation",
        "participation_given_back",
        "DELETE",
        "(SELECT state FROM stage WHERE number = OLD.stage) IS DISTINCT FROM 'void' "
        "OR EXISTS (SELECT 1 FROM question WHERE stage = OLD.stage AND charge IS NOT NULL) "
        "OR EXISTS (SELECT 1 FROM outbox WHERE stage = OLD.stage)",
        "participation is given back by a void stage that nobody paid for, and by nothing else",
    ),
    *_kept("participation"),
    "CREATE TABLE rejected (reason TEXT PRIMARY KEY, count BIGINT NOT NULL)",
    "CREATE TABLE token (seq BIGINT PRIMARY KEY REFERENCES report, bytes BYTEA NOT NULL)",
    *_scrubbed("token", "tokens"),
    'CREATE TABLE "window" (stage BIGINT PRIMARY KEY REFERENCES stage, ends BIGINT NOT NULL)',
    *_refuse(
        "window",
        "window_opens",
        "INSERT",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'open'",
        "the end of a window is set while its stage is open",
    ),
    *_append_only("window"),
)

COLLECTOR: Final = (*META, *JOURNAL, *COLLECTOR_TABLES, *LEASE)

STUDY: Final = (
    *META,
    """CREATE TABLE stage (number BIGINT PRIMARY KEY, slot BIGINT, questions BIGINT NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'released', 'void', 'served', 'killed')), reason TEXT)""",
    *_refuse(
        "stage",
        "stage_begins",
        "INSERT",
        "NEW.state NOT IN ('open', 'served', 'killed') "
        "OR NEW.number IS DISTINCT FROM (SELECT count(*) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'served', 'killed') AND NEW.state <> 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE state = 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is asked twice",
    ),
    *_refuse(
        "stage",
        "stage_moves",
        "UPDATE",
        "NOT (OLD.number = NEW.number AND OLD.slot IS NOT DISTINCT FROM NEW.slot AND OLD.questions = NEW.questions "
        "AND OLD.state = 'open' AND NEW.state IN ('released', 'void'))",
        "a stage goes from open to released or void",
    ),
    *_refuse("stage", "stage_stays", "DELETE", "true", "stages are kept"),
    *_kept("stage"),
    """CREATE TABLE bundle (stage BIGINT NOT NULL REFERENCES stage, question BIGINT NOT NULL, bytes BYTEA NOT NULL,
       digest TEXT NOT NULL, PRIMARY KEY (stage, question))""",
    *_append_only("bundle"),
    """CREATE TABLE release (stage BIGINT NOT NULL, question BIGINT NOT NULL, bytes BYTEA NOT NULL,
       digest TEXT NOT NULL, charge BIGINT NOT NULL UNIQUE, people BIGINT NOT NULL,
       noise TEXT NOT NULL, opened BYTEA, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES bundle (stage, question))""",
    *_append_only("release"),
    """CREATE TABLE quarantine (stage BIGINT NOT NULL, question BIGINT NOT NULL, finding TEXT NOT NULL,
       PRIMARY KEY (stage, question))""",
    *_append_only("quarantine"),
    """CREATE TABLE belief (step BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
       kind TEXT NOT NULL CHECK (kind IN ('begin', 'plan', 'ask', 'take', 'void')),
       stage BIGINT, question BIGINT, belief BYTEA NOT NULL, plan BYTEA NOT NULL, memory BYTEA NOT NULL,
       coins TEXT NOT NULL, UNIQUE (kind, stage, question))""",
    *_append_only("belief"),
    *LEASE,
)


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
