"""The issuer's database: which stages have keys, and what was signed for whom, on SQLite or PostgreSQL.

    meta       name, value                                   version, study, g, the mark of the pseudonyms' key
    stage_key  stage, public, secret                         the secret is deleted when the stage is over
    issued     person, stage, number, blinded, signature     UNIQUE (person, number), 1 <= number <= g

D1  At most g signatures per person and one per person and stage, whoever writes: the table refuses the rest.
D2  Steps that write come one after the other, of however many processes, and are on the disk when they return.
D3  A person is an HMAC under a key outside of the database; a blinded message is kept as its SHA-256.
D4  Only its owner reads the SQLite file; deleted secrets are overwritten, and the log is emptied after them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, install_hint, require
from tacit.runs.storage import check_writable, writing_to

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:  # pragma: no cover - the extra is installed wherever this is tested
    raise NotSupported(f"an issuer needs the package sqlalchemy: {install_hint('service')}") from error

DATABASE: Final = "issuer.db"
VERSION: Final = "1"
WAIT_SECONDS: Final = 60
SCHEMES: Final = ("postgresql", "postgresql+psycopg")
SCHEMA: Final = "issuer"
NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Issued:
    """The tables of one issuer."""

    def __init__(self, engine: sa.Engine) -> None:
        """Tables that exist; use `create` or `open`."""
        self.engine = engine
        self.meta: dict[str, str] = {}

    @classmethod
    def create(cls, directory: Path, url: str | None, *, meta: Mapping[str, str], reports: int) -> None:
        """Make the tables; existing ones are never touched."""
        check_writable(directory)
        with writing_to(directory):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if url is None and not (directory / DATABASE).exists():
                os.close(os.open(directory / DATABASE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        made = cls(_engine(directory, url))
        try:
            with made.step() as connection:
                if made.engine.dialect.name == "postgresql":
                    schema = connection.execute(sa.text("SHOW search_path")).scalar_one()
                    connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
                TABLES.create_all(connection, checkfirst=False)
                # The limit stands in the table itself (D1).
                _issued_table(reports).create(connection)
                connection.execute(META.insert(), [{"name": name, "value": value} for name, value in meta.items()])
                connection.execute(META.insert(), {"name": "version", "value": VERSION})
        finally:
            made.engine.dispose()

    @classmethod
    def exists(cls, directory: Path, url: str | None) -> bool:
        """Whether there are tables of an issuer."""
        if url is None and not (directory / DATABASE).is_file():
            return False
        found = cls(_engine(directory, url))
        try:
            with found.reading() as connection:
                return bool(sa.inspect(connection).has_table("meta"))
        finally:
            found.engine.dispose()

    @classmethod
    def open(cls, directory: Path, url: str | None) -> Issued:
        """The tables of an existing issuer."""
        there = cls.exists(directory, url)
        require(
            there, f"{directory} must hold an issuer", "no tables of one", "restore its database, or begin a new one"
        )
        found = cls(_engine(directory, url))
        with found.closed_if_refused():
            with found.reading() as connection:
                found.meta = {row.name: row.value for row in connection.execute(sa.select(META))}
            version = found.meta.get("version")
            require(version == VERSION, f"the issuer's database must have version {VERSION}", version)
        return found

    @contextmanager
    def closed_if_refused(self) -> Iterator[None]:
        """Leave no connection behind where the block raises."""
        try:
            yield
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def step(self, *, scrubs: bool = False) -> Iterator[sa.Connection]:
        """One transaction that writes, after every other (D2)."""
        try:
            with self.engine.connect() as connection:
                with connection.begin():
                    if self.engine.dialect.name == "postgresql":
                        connection.execute(sa.text("SELECT pg_advisory_xact_lock(7305243)"))
                    yield connection
                if scrubs and self.engine.dialect.name == "sqlite":
                    connection.execution_options(plain=True).exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        except SQLAlchemyError as error:
            raise InvalidInput(f"the issuer's database cannot be used: {type(error).__name__}") from error

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A view without the writers' lock."""
        try:
            with self.engine.connect().execution_options(plain=True) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise InvalidInput(f"the issuer's database cannot be used: {type(error).__name__}") from error


TABLES: Final = sa.MetaData()
META: Final = sa.Table(
    "meta", TABLES, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)
STAGE_KEY: Final = sa.Table(
    "stage_key",
    TABLES,
    sa.Column("stage", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("public", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("secret", sa.LargeBinary),
)


def _issued_table(reports: int | None = None) -> sa.Table:
    limit = "number >= 1" if reports is None else f"number >= 1 AND number <= {int(reports)}"
    return sa.Table(
        "issued",
        sa.MetaData(),
        sa.Column("person", sa.LargeBinary, primary_key=True),
        sa.Column("stage", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("blinded", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("person", "number"),
        sa.CheckConstraint(limit),
    )


ISSUED: Final = _issued_table()


def _postgres(url: str) -> sa.Engine:
    """An engine of one schema: postgresql://user@host:port/database?schema=name, "issuer" unless it is named."""
    try:
        place = sa.make_url(url)
    except (SQLAlchemyError, ValueError):
        raise InvalidInput("a database must be named by a URL, got something else") from None
    require(place.drivername in SCHEMES, "a database must begin with postgresql://", "another URL")
    schema = place.query.get("schema", SCHEMA)
    named = isinstance(schema, str) and NAME.fullmatch(schema) is not None
    require(named, "a schema must be named by small letters, digits and _", "another name")
    plain = place.set(drivername="postgresql+psycopg").difference_update_query(["schema"])
    options = {"options": f"-csearch_path={schema}", "connect_timeout": WAIT_SECONDS}
    try:
        return sa.create_engine(plain, pool_pre_ping=True, hide_parameters=True, connect_args=options)
    except ImportError as error:
        raise NotSupported(f"postgresql:// needs the extra postgres: {install_hint('postgres')}") from error


def _engine(directory: Path, url: str | None) -> sa.Engine:
    """An engine whose transactions are durable, and exclusive on SQLite."""
    if url is not None:
        return _postgres(url)
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(directory / DATABASE)),
        connect_args={"timeout": WAIT_SECONDS},
        hide_parameters=True,
    )

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where this module says
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        reads = connection.get_execution_options().get("plain", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine
