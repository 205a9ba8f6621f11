"""Engines: pooled connections to PostgreSQL, and the adapter that makes one look like a connection of SQLite.

A URL is postgresql://user@host:port/database?schema=name&...; `schema` is ours, the rest goes to libpq (sslmode,
sslrootcert, passfile, ...). There is one engine per process and URL; a forked child makes its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from tacit.accounting.database import Cursor, Dialect
from tacit.errors import InvalidInput, NotSupported, install_hint, require

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
