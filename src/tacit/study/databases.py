"""Databases by URL: the SQLite file in a party's directory, or what is registered for another scheme.

PostgreSQL belongs to a room above this one and needs an extra, so it is a plugin like those of other packages: known
here by its name only, and loaded when a URL asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from tacit.errors import NotSupported, require
from tacit.plugins import named
from tacit.study.sqlite import SqliteDatabase
from tacit.study.store import Database

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
        return database
    require("://" in database, "a database must be named by a URL", "something else", "use postgresql://host/name")
    scheme = database.partition("://")[0].partition("+")[0]
    if scheme not in DATABASES:
        raise NotSupported(f"no database is known for {scheme}://; use postgresql:// or the file of the directory")
    return DATABASES[scheme](database)
