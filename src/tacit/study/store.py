"""Stores: one database per party, in which every step is one transaction that is on the disk when it returns.

T1  Durable: a step that returned survives a crash of every process and of the machine, one that did not leaves no
    trace.
T2  Exclusive: a step that writes begins with the writers' lock, so steps of many processes come one after the other.
T3  What must not change cannot: columns have types, and triggers refuse transitions and edits whoever asks for them.
T4  Private: a database is readable by its owner only.
T5  Scrubbed means gone: after a step that deletes, nothing in the files of tables is left of deleted rows.

How they are kept is said where they are: `SqliteStore` for a file beside the keys, `tacit.service.database` for
PostgreSQL.

Leases: a job is done by one process at a time, and one that was overtaken cannot write any more.

F1  A lease that runs has one holder. Taking it over after its end gives the next token; tokens only grow.
F2  Fenced: inside of `fenced`, every step of this thread begins, under the writers' lock, by looking whether its token
    is still the last one. A holder that slept through the end of its lease and was overtaken writes nothing, however
    wrong its clock is; clocks decide only how long others wait.
F3  Nobody waits longer than twice `seconds`: an end that is further away was written by a clock that has been set back
    since, and counts as over. Clocks of two machines that differ by less than `seconds` do not take a lease away.

    lease = Lease.take(store, "release", holder="worker 1", seconds=60)     # None: somebody else has it
    with lease.fenced():
        collector.release(head)
        lease.renew()
    lease.give_back()
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tacit.accounting.journal import Connection
from tacit.errors import require, require_count

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


LONGEST_NAME: Final = 200
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one holder to do one job, known by its token."""

    store: Store
    name: str
    holder: str
    token: int
    seconds: int
    clock: Clock = time.time

    @classmethod
    def take(cls, store: Store, name: str, *, holder: str, seconds: int, clock: Clock = time.time) -> Lease | None:
        """Take a lease that nobody has, or whose time is over; None if somebody else has it."""
        for text in (name, holder):
            fits = isinstance(text, str) and 0 < len(text) <= LONGEST_NAME
            require(fits, f"a job and its holder must have names of 1 to {LONGEST_NAME} characters", "another")
        require_count("seconds", seconds)
        with store.step("lease") as connection:
            now = int(clock())
            row = connection.execute("SELECT token, until FROM lease WHERE name = ?", (name,)).fetchone()
            if row is not None and now < row[1] <= now + 2 * seconds:  # F3
                return None
            token = 1 if row is None else row[0] + 1
            connection.execute(
                """INSERT INTO lease (name, holder, token, until) VALUES (?, ?, ?, ?) ON CONFLICT (name)
                   DO UPDATE SET holder = excluded.holder, token = excluded.token, until = excluded.until""",
                (name, holder, token, now + seconds),
            )
        return cls(store=store, name=name, holder=holder, token=token, seconds=seconds, clock=clock)

    def check(self, connection: Connection) -> None:
        """Raise unless this is still the last lease of its job (F2); for use inside of a step."""
        row = connection.execute("SELECT token FROM lease WHERE name = ?", (self.name,)).fetchone()
        held = row is not None and row[0] == self.token
        require(held, f"the lease of {self.name!r} must be the last one", f"token {self.token}", "it was taken over")

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Every step of this thread checks the lease inside of its transaction."""
        with self.store.fenced(self.check):
            yield

    def renew(self) -> None:
        """Hold it for as long again, from now."""
        self._set(int(self.clock()) + self.seconds)

    def give_back(self) -> None:
        """Let anybody take it now; the token is used up."""
        self._set(0)

    def _set(self, until: int) -> None:
        with self.store.step("lease") as connection:
            self.check(connection)
            connection.execute("UPDATE lease SET until = ? WHERE name = ?", (until, self.name))
