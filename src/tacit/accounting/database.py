"""Connections: what the journal and the parties of a study need of a database, whichever it is.

Statements are written once, with `?` for values, in the part of SQL that SQLite and PostgreSQL share. A connection is a
`sqlite3.Connection` without implicit transactions, or an object of the same shape that says its dialect.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final, Literal, Protocol

from tacit.errors import require

Dialect = Literal["sqlite", "postgresql"]
DIALECTS: Final = ("sqlite", "postgresql")


class Cursor(Protocol):
    """The rows that a statement found, as tuples."""

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection that begins no transaction by itself."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor:
        """Run one statement."""
        ...

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Run one statement for each of many rows."""
        ...


def dialect_of(connection: Connection) -> Dialect:
    """Which SQL a connection speaks where the dialects differ.

    >>> dialect_of(sqlite3.connect(":memory:"))
    'sqlite'
    """
    if isinstance(connection, sqlite3.Connection):
        return "sqlite"
    found: Any = getattr(connection, "dialect", None)
    require(found in DIALECTS, f"a connection must speak one of {', '.join(DIALECTS)}", found)
    return "postgresql" if found == "postgresql" else "sqlite"
