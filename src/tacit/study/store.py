"""Stores: one database per party, in which every step is one transaction that is on the disk when it returns.

T1  Durable: a step that returned survives a crash of every process and of the machine, one that did not leaves no
    trace.
T2  Exclusive: a step that writes begins with the writers' lock, so steps of many processes come one after the other.
T3  What must not change cannot: columns have types, and triggers refuse transitions and edits whoever asks for them.
T4  Private: a database is readable by its owner only.
T5  Scrubbed means gone: after a step that deletes, nothing in the files of tables is left of deleted rows.

How they are kept is said where they are: `SqliteStore` for a file beside the keys, `tacit.service.database` for
PostgreSQL.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from tacit.accounting.database import Connection
from tacit.errors import require

SCHEMA_VERSION: Final = 3

Failpoint = Callable[[str], None]
"""Called with a name wherever a crash could fall between two effects; does nothing outside of tests."""
Fill = Callable[[Connection], None]
"""Writes the first rows of a new database, in the transaction that makes it."""


def no_failpoint(edge: str) -> None:
    """Outside of tests nothing happens between two effects."""
    del edge


class Store(ABC):
    """A database of one kind ("collector" or "study"); all state is in the database."""

    where: str
    """What the database is called in messages; never a password."""

    def __init__(self, kind: str, edge: Failpoint = no_failpoint) -> None:
        self.kind = kind
        self.edge = edge
        self._of_thread = threading.local()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep one connection for many steps of this thread, which saves most of the time of small ones."""
        require(self._held is None, "a database is held once", "held already")
        with self._connection() as connection:
            self._of_thread.held = connection
            try:
                yield
            finally:
                self._of_thread.held = None

    @contextmanager
    def fenced(self, check: Fill) -> Iterator[None]:
        """Let `check` look at the database at the beginning of every step of this thread; what it raises ends it."""
        require(self._fence is None, "the steps of a thread have one fence", "two")
        self._of_thread.fence = check
        try:
            yield
        finally:
            self._of_thread.fence = None

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection without a transaction."""
        if self._held is None:
            with self._connection() as connection:
                yield connection
        else:
            with self._errors():
                yield self._held

    @contextmanager
    def step(self, name: str, *, scrubs: bool = False) -> Iterator[Connection]:
        """One transaction: everything is kept at the end of the block, nothing if it raises (T1, T2)."""
        with self.connected() as connection:
            self._begin(connection)
            try:
                if self._fence is not None:
                    self._fence(connection)
                self.edge(f"{name}:begun")
                yield connection
                self.edge(f"{name}:before commit")
            except BaseException:
                self._roll_back(connection)
                raise
            connection.execute("COMMIT")
            self.edge(f"{name}:after commit")
            if scrubs:
                # A reader may delay this; the next step that scrubs repeats it.
                self._scrub(connection)
                self.edge(f"{name}:after scrub")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view of everything, without the writers' lock."""
        with self.connected() as connection:
            self._begin_reading(connection)
            try:
                yield connection
            finally:
                self._roll_back(connection)

    @property
    def _held(self) -> Connection | None:
        return getattr(self._of_thread, "held", None)

    @property
    def _fence(self) -> Fill | None:
        return getattr(self._of_thread, "fence", None)

    @abstractmethod
    def _connection(self) -> AbstractContextManager[Connection]:
        """A connection of its own, given back at the end."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Errors of the database's driver as `InvalidInput`, without data in them."""

    @abstractmethod
    def _begin(self, connection: Connection) -> None:
        """Begin a transaction that holds the writers' lock."""

    @abstractmethod
    def _begin_reading(self, connection: Connection) -> None:
        """Begin a transaction that sees one state of the database."""

    @abstractmethod
    def _roll_back(self, connection: Connection) -> None:
        """End a transaction without a trace."""

    @abstractmethod
    def _scrub(self, connection: Connection) -> None:
        """Remove what deleted rows left behind (T5)."""


class Database(Protocol):
    """A place for the database of one party."""

    def exists(self, kind: str) -> bool:
        """Whether there is a party of this kind."""
        ...

    def create(self, kind: str, *, edge: Failpoint = no_failpoint, first: Fill) -> Store:
        """Make a new database and fill it with `first`, in one transaction; an existing one is never touched."""
        ...

    def open(self, kind: str, *, edge: Failpoint = no_failpoint) -> Store:
        """Open an existing database of this kind; a missing one is an error, not a fresh start."""
        ...


def require_version(version: int, place: object) -> None:
    """Refuse a database of another schema version."""
    hint = "go on with the tacit that made it, or begin a new study"
    require(version == SCHEMA_VERSION, f"the database of {place} must have version {SCHEMA_VERSION}", version, hint)


def require_kind(row: Any, kind: str, where: str) -> None:
    """Refuse a database of another party."""
    require(row is not None and row[0] == kind, f"{where} must hold a {kind}", "another database")
