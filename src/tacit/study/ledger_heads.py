"""Heads: places in a collector's ledger that are known outside of its database, and that every copy of it must hold.

    <directory>/last-head       NUMBER:DIGEST of the ledger's last record; below it, a head that was met and is missing

H1  The file names a charge before anything that was charged leaves: it is written after the commit of the database and
    before `open`, `release` and `void` return. After a crash in between, the file is behind and nothing has left;
    the next step, whichever it is, brings the file up first.
H2  A copy of the database that lacks a head (of the file, of a learner, of a bundle) stops for good: the head is
    written into the file and into `meta` of this copy, and every later step of it is refused, after restarts too.
H3  A copy that holds every head of the file goes on: the newest one. A missing file is refused.
H4  Bundles carry the head of the last release, so devices keep it as well and refuse a ledger that goes back or forks.

What remains: a database that is restored together with its file, for a learner that shows an older head
(docs/operations/database.md).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tacit.accounting.database import Connection
from tacit.accounting.people import PeopleLedger
from tacit.errors import InvalidInput, require
from tacit.runs.storage import write_whole, writing_to
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.external_shuffle import fsync_directory
from tacit.study.store import Store

NAME: Final = "last-head"
STOPPED: Final = "stopped"


class UnknownHead(InvalidInput):
    """A head that a ledger does not hold: its database is an older copy, or a fork."""

    def __init__(self, head: Head) -> None:
        self.head = head
        super().__init__(
            f"this collector is stopped: its ledger must hold record {head.number} as it was seen before, got an older "
            "copy of the database; put back the copy that holds it or, if none does, end the study ('tacit study kill')"
        )


class HeadFile:
    """The file beside a collector's database."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def begin(self, connection: Connection) -> None:
        """Write the file of a new collector; the file of an interrupted start is replaced."""
        first = Head.of(PeopleLedger.within(connection).head())
        charged = self.path.exists() and any(head.number > first.number for head in self.read())
        require(
            not charged, f"{self.path.parent} must be a new directory", "one that has charged", "restore its database"
        )
        self._write(first)

    def read(self) -> tuple[Head, ...]:
        """The heads that the database must hold."""
        try:
            found = tuple(Head.from_text(line) for line in self.path.read_text("ascii").splitlines())
        except (OSError, ValueError) as error:
            hint = "copy it from the directory that this collector was served from last"
            raise InvalidInput(
                f"{self.path} must hold the last head of this collector, got no such file; {hint}"
            ) from error
        require(len(found) > 0, f"{self.path} must hold the last head of this collector", "an empty file")
        return found

    def require_held(self, connection: Connection) -> None:
        """Raise `UnknownHead` unless this copy may go on (H2, H3)."""
        known = self.read()  # before the first look at the database: a reader's view must not be older than the file
        met = stopped_by(connection)
        if met is not None:
            raise UnknownHead(met)
        for head in known:
            if not _holds(connection, head):
                raise UnknownHead(head)

    def keep(self, store: Store) -> None:
        """Have the last record in the file (H1)."""
        with store.reading() as connection:
            behind = self.read() != (_last(connection),)
        if behind:
            with store.step("head") as connection:  # the writers' lock: the file never goes back
                self.require_held(connection)
                self.catch_up(connection)

    def catch_up(self, connection: Connection) -> None:
        """The same at the beginning of a step, which has the writers' lock: the one before it may have been cut off."""
        last = _last(connection)
        if self.read() != (last,):
            self._write(last)

    def stop(self, store: Store, head: Head) -> None:
        """Stop this copy for good (H2)."""
        with store.step("stop") as connection:
            known = self.read()
            self._write(*known, *(() if head in known else (head,)))
            connection.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING", (STOPPED, head.text))

    def _write(self, *heads: Head) -> None:
        with writing_to(self.path.parent):
            write_whole(self.path, "".join(f"{head.text}\n" for head in heads).encode())
            os.chmod(self.path, 0o600)
            fsync_directory(self.path.parent)


def stopped_by(connection: Connection) -> Head | None:
    """The head that stopped this copy, if one did."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (STOPPED,)).fetchone()
    return None if row is None else Head.from_text(row[0])


def require_seen(connection: Connection, head: Head) -> None:
    """Raise `UnknownHead` unless the commit that the learner has seen last is in this ledger."""
    if head != GENESIS_HEAD and not _holds(connection, head, "AND kind = 'commit'"):
        raise UnknownHead(head)


def require_latest(connection: Connection, head: Head) -> None:
    """Before anything is asked or drawn, the learner must have seen all that was released."""
    row = connection.execute(
        "SELECT number, digest FROM records WHERE kind = 'commit' ORDER BY number DESC LIMIT 1"
    ).fetchone()
    last = GENESIS_HEAD if row is None else Head(number=row[0], digest=bytes.fromhex(row[1]))
    hint = "hand over what 'tacit study status' of the learner prints as head"
    require(head == last, "the head must be that of the last release", f"head {head.number}", hint)


def _last(connection: Connection) -> Head:
    number, digest = connection.execute("SELECT number, digest FROM records ORDER BY number DESC LIMIT 1").fetchone()
    return Head(number=number, digest=bytes.fromhex(digest))


def _holds(connection: Connection, head: Head, more: str = "") -> bool:
    row = connection.execute(
        f"SELECT 1 FROM records WHERE number = ? AND digest = ? {more}",  # noqa: S608 - one of two constants
        (head.number, head.digest.hex()),
    )
    return row.fetchone() is not None
