"""Migrating: databases of older versions are brought up to date by alembic, in one transaction, when somebody says so.

The version of a SQLite file is its user_version, that of a schema of PostgreSQL stands in alembic_version. A version
that is not known is refused: it was made by a newer tacit, or by something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, require
from tacit.study.sqlite import FILES
from tacit.study.store import SCHEMA_VERSION

try:
    import sqlalchemy
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
except ImportError as error:  # pragma: no cover - the extras are there where tests run
    raise NotSupported("migrations need more packages: pip install 'tacit[service]'") from error

__all__ = ["Migrated", "migrate"]

SCRIPTS: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "alembic_version"
KIND: Final = "SELECT value FROM meta WHERE name = 'kind'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What was done to one database; nothing if it came from the version it went to."""

    where: str
    kind: str
    before: int
    after: int


def migrate(target: str | Path) -> tuple[Migrated, ...]:
    """Bring the databases in a directory, or at a URL, up to date; one that fails is left as it was."""
    if "://" in str(target):
        return _server(str(target))
    directory = Path(target)
    found = [(kind, directory / name) for kind, name in FILES.items() if (directory / name).is_file()]
    require(bool(found), f"{directory} must hold a collector or a study", "neither", "name the directory of a party")
    return tuple(_file(path, kind) for kind, path in found)


def _file(path: Path, kind: str) -> Migrated:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", poolclass=sqlalchemy.NullPool)

    @sqlalchemy.event.listens_for(engine, "connect")
    def _prepare(raw: Any, record: object) -> None:
        raw.isolation_level = None
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            raw.execute(f"PRAGMA {pragma}")

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with _errors(str(path)), engine.begin() as connection:
        before = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        _require_known(before, str(path))
        _require_kind(connection, kind, str(path))
        if before < SCHEMA_VERSION:
            context = MigrationContext.configure(connection)
            context.stamp(_scripts(), str(before))
            _run(connection)
            # The file says its version itself.
            connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return Migrated(where=str(path), kind=kind, before=before, after=SCHEMA_VERSION)


def _server(url: str) -> tuple[Migrated, ...]:
    from tacit.service.database.engine import Where, connecting

    place = Where.of(url)
    found = []
    for kind in FILES:
        schema = place.schema_for(kind)
        with connecting(place, schema) as connection:
            there = connection.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()[0]
            named = connection.execute(KIND).fetchone() if there else None
        if named is not None and named[0] == kind:
            found.append((kind, schema))
    require(bool(found), f"{place} must hold a collector or a study", "neither", "name its schema by ?schema=")
    return tuple(_schema(place.url, f"{place} (schema {schema})", schema, kind) for kind, schema in found)


def _schema(url: str, where: str, schema: str, kind: str) -> Migrated:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)

    @sqlalchemy.event.listens_for(engine, "connect")
    def _prepare(raw: Any, record: object) -> None:
        raw.autocommit = True
        raw.execute("SET synchronous_commit = on")
        raw.execute("SET lock_timeout = '60s'")
        raw.execute(f'SET search_path = "{schema}"')
        raw.autocommit = False

    with _errors(where), engine.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE meta IN EXCLUSIVE MODE")
        text = str(connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar_one())  # noqa: S608
        before = int(text) if text.isdecimal() else SCHEMA_VERSION + 1
        _require_known(before, where)
        _require_kind(connection, kind, where)
        if before < SCHEMA_VERSION:
            _run(connection)
    return Migrated(where=where, kind=kind, before=before, after=SCHEMA_VERSION)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(SCRIPTS))


def _run(connection: sqlalchemy.Connection) -> None:
    """All steps from the version that stands in the version table to the newest one."""
    scripts = _scripts()

    def steps(revision: Any, context: MigrationContext) -> Any:
        return scripts._upgrade_revs(str(SCHEMA_VERSION), revision)

    context = MigrationContext.configure(connection, opts={"fn": steps})
    with Operations.context(context):
        context.run_migrations()


def _require_known(version: int, where: str) -> None:
    known = 1 <= version <= SCHEMA_VERSION
    require(known, f"{where} must have a version from 1 to {SCHEMA_VERSION}", version, "use the tacit that made it")


def _require_kind(connection: sqlalchemy.Connection, kind: str, where: str) -> None:
    found = connection.exec_driver_sql(KIND).scalar()
    require(found == kind, f"{where} must hold a {kind}", "another database")


@contextmanager
def _errors(where: str) -> Iterator[None]:
    try:
        yield
    except sqlalchemy.exc.SQLAlchemyError as error:
        said = next(iter(str(getattr(error, "orig", None) or error).splitlines()), "")
        raise InvalidInput(f"the database {where} cannot be migrated: {said}; it is as it was") from error
