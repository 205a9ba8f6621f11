"""What a study asks of a release before it is believed, and what becomes of one whose stage was given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tacit.accounting.database import Connection
from tacit.errors import require
from tacit.release.contract import Release
from tacit.study.bundle_chain import kept_bundle, last_head
from tacit.study.contract import Design
from tacit.study.size_grid import rung_of
from tacit.study.wire import ReleasePayload, sha256


class ExpectedRelease(NamedTuple):
    """The stage that a release belongs to."""

    questions: int
    slot: int
    given_up: bool


def used(connection: Connection, stage: int) -> int:
    """How many releases of a stage were learned from."""
    row = connection.execute("SELECT count(*) FROM belief WHERE kind = 'take' AND stage = ?", (stage,)).fetchone()
    return int(row[0])


def expected(
    connection: Connection, design: Design, channels: Sequence[Release], given: ReleasePayload
) -> ExpectedRelease:
    """The stage that waits for this very release: the open one, or one that was given up while it was released."""
    row = connection.execute("SELECT slot, questions, state FROM stage WHERE number = ?", (given.stage,)).fetchone()
    slot, questions, state = (-1, 0, "none") if row is None else row
    known = state in ("open", "void")
    require(known, "a release must be of the open stage, or of one that was given up", given.stage)
    question = used(connection, given.stage)
    require(given.question == question, f"a release must be of question {question}", given.question)
    require(kept_bundle(connection, given.stage, question) != b"", "a question must be asked before", "no bundle")
    channel = channels[slot]
    fits = channel.least <= given.people <= channel.target
    require(fits, f"a release must be of {channel.least} to {channel.target} people", given.people)
    stands = rung_of(design.ladder, given.people) == given.people
    require(stands, "a release must have a size of the design's ladder", given.people)
    return ExpectedRelease(questions, slot, state == "void")


def store_release(connection: Connection, given: ReleasePayload, data: bytes, opened: bytes | None) -> None:
    """Keep the bytes of a release whose ledger has grown (L3), and what it was opened to (L7)."""
    last = last_head(connection).number
    charge = given.charge.number
    require(charge > last, f"a release must be charged after record {last}", charge)
    names = ("stage", "question", "bytes", "digest", "charge", "people", "noise", "opened")
    connection.execute(
        f"INSERT INTO release ({', '.join(names)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
        (given.stage, given.question, data, sha256(data).hex(), charge, given.people, given.noise, opened),
    )


def give_up_asking(connection: Connection) -> None:
    """Give the open stage up, whose bundle does not name the release of a stage before it: no collector opens it."""
    connection.execute(
        """UPDATE stage SET state = 'void', reason = 'planned before a release of an earlier stage'
           WHERE state = 'open' AND NOT EXISTS (SELECT 1 FROM release WHERE release.stage = stage.number)"""
    )
