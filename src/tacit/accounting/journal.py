"""An append-only journal: a hash chain of records in one SQLite file, safe against crashes and concurrent writers.

`Journal` has a file of its own; a `Writer` also serves inside somebody else's connection and transaction, who then
keeps J1 and J3.

J1  Durable: `append` inside a `transaction` is on the disk when the transaction ends; a crash before leaves no trace.
J2  Append-only: the database refuses to update or delete a record, and a record carries the digest of everything
    before it, so whoever edits the file by other means is found out by `verify`. The database counts records a second
    time, so cut-off records are found out, too; a `Receipt` kept elsewhere proves it even against a patient forger.
J3  Exclusive: between the beginning and the end of a transaction there is no other writer, in any process or thread.

Statements are written once, with `?` for values, in the part of SQL that SQLite and PostgreSQL share. A connection is a
`sqlite3.Connection` without implicit transactions, or an object of the same shape that says its dialect.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from tacit.errors import InvalidInput, require

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


_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,
       first INTEGER, stop INTEGER, refers INTEGER UNIQUE, body TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS ranges ON records (first, stop)",
    """CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON records
       BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON records
       BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
)
_PREPARED: Final[Mapping[Dialect, str]] = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'records'",
    "postgresql": "SELECT 1 WHERE to_regclass('records') IS NOT NULL",
}
_COUNTED: Final[Mapping[Dialect, str]] = {
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = 'records'",
    "postgresql": "SELECT seq FROM written WHERE name = 'records'",
}
"""Where the database counts records: SQLite by itself, PostgreSQL by a trigger."""
_WAIT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof of a record: its place in the journal and the digest of the chain up to it."""

    number: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `referred` says whether a later record refers to it."""

    number: int
    kind: str
    body: Mapping[str, Any]
    digest: str
    referred: bool


@dataclass(frozen=True, slots=True)
class Writer:
    """The exclusive right to read and append, for the length of one transaction."""

    connection: Connection

    def prepare(self) -> None:
        """Make the table of records, if there is none; PostgreSQL has it from the beginning."""
        if dialect_of(self.connection) == "sqlite":
            for statement in _SCHEMA:
                self.connection.execute(statement)
        require(self.prepared(), "the database must have a table of records", "none")

    def prepared(self) -> bool:
        """Whether there is a table of records."""
        return self.connection.execute(_PREPARED[dialect_of(self.connection)]).fetchone() is not None

    def append(
        self, kind: str, body: Mapping[str, Any], *, span: range | None = None, refers: int | None = None
    ) -> Receipt:
        """Add a record, with the range of indices it is about or the record it refers to (each is referred to once)."""
        last, count = self.head(), self.count()
        require(last.number == count, "the journal must be complete", given=f"{last.number} of {count} records")
        made = following(last, kind, body, span=span, refers=refers)
        first, stop = (None, None) if span is None else (span.start, span.stop)
        self.connection.execute(
            "INSERT INTO records (number, kind, first, stop, refers, body, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (made.number, kind, first, stop, refers, _text(body), made.digest),
        )
        return made

    def everything(self) -> tuple[Record, ...]:
        """All records in order."""
        kinds = self.connection.execute("SELECT DISTINCT kind FROM records").fetchall()
        found = [record for (kind,) in kinds for record in self.records(kind=kind)]
        return tuple(sorted(found, key=lambda record: record.number))

    def records(self, *, kind: str, touching: range | None = None, number: int | None = None) -> tuple[Record, ...]:
        """The records of this kind in order; only those that touch a range, or only the one with this number."""
        one = "" if number is None else " AND record.number = ?"
        some = "" if touching is None else " AND record.first < ? AND record.stop > ?"
        values = [kind, *(() if number is None else (number,))]
        values += () if touching is None else (touching.stop, touching.start)
        rows = self.connection.execute(
            f"""SELECT record.number, record.kind, record.body, record.digest, later.number IS NOT NULL
               FROM records AS record LEFT JOIN records AS later ON later.refers = record.number
               WHERE record.kind = ?{one}{some} ORDER BY record.number""",  # noqa: S608 - two constants
            values,
        ).fetchall()
        return tuple(
            Record(number=place, kind=name, body=json.loads(body), digest=digest, referred=bool(referred))
            for place, name, body, digest, referred in rows
        )

    def verify(self, anchor: Receipt | None = None) -> None:
        """Raise `InvalidInput` unless all records are as they were written, none missing, `anchor` among them."""
        rows = self.connection.execute(
            "SELECT number, kind, first, stop, refers, body, digest FROM records ORDER BY number"
        ).fetchall()
        count, previous = self.count(), ""
        for place, (number, kind, first, stop, refers, body, digest) in enumerate(rows, start=1):
            span = None if first is None or stop is None else range(first, stop)
            whole = number == place and digest == _digest(previous, kind, span, refers, body)
            require(whole, "the records of a journal must be as they were written", given=f"a changed record {place}")
            previous = digest
        require(len(rows) == count, "the journal must be complete", given=f"{len(rows)} of {count} records")
        if anchor is not None:
            held = 1 <= anchor.number <= len(rows) and rows[anchor.number - 1][6] == anchor.digest
            require(held, "the journal must contain the anchor", given=f"no record {anchor.number} with its digest")

    def head(self) -> Receipt:
        """The last record, or number 0 if there is none."""
        row = self.connection.execute("SELECT number, digest FROM records ORDER BY number DESC LIMIT 1").fetchone()
        number, digest = row or (0, "")
        return Receipt(number=number, digest=digest)

    def count(self) -> int:
        """How many records were ever written, which the database keeps apart from the records."""
        row = self.connection.execute(_COUNTED[dialect_of(self.connection)]).fetchone()
        return 0 if row is None else int(row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A journal file; all state is in the file."""

    path: Path

    @contextmanager
    def transaction(self) -> Iterator[Writer]:
        """Begin exclusive writing; everything is kept at the end of the block, nothing if it raises."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")  # the writers' lock (J3)
            try:
                writer = Writer(connection)
                writer.prepare()
                yield writer
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def head(self) -> Receipt:
        """The last record's number and digest: keep it elsewhere, and nothing up to it can vanish unnoticed."""
        with self.transaction() as writer:
            return writer.head()

    def verify(self, anchor: Receipt | None = None) -> None:
        """Raise `InvalidInput` unless all records are as they were written, none missing, `anchor` among them."""
        with self.transaction() as writer:
            writer.verify(anchor)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise InvalidInput(f"the journal at {self.path} cannot be opened: {error}") from error
        try:
            connection.execute("PRAGMA synchronous = EXTRA")  # COMMIT returns when the disk has it (J1)
            yield connection
        except sqlite3.Error as error:
            raise InvalidInput(f"the journal at {self.path} cannot be used: {error}") from error
        finally:
            connection.close()


def following(
    last: Receipt, kind: str, body: Mapping[str, Any], *, span: range | None = None, refers: int | None = None
) -> Receipt:
    """The receipt of a record that comes right after `last`: whoever knows its content can compute it."""
    return Receipt(number=last.number + 1, digest=_digest(last.digest, kind, span, refers, _text(body)))


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, allow_nan=False)


def _digest(previous: str, kind: str, span: range | None, refers: int | None, body: str) -> str:
    return hashlib.sha256(json.dumps([previous, kind, repr(span), refers, body]).encode()).hexdigest()
