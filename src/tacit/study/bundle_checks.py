"""What a collector asks of a bundle before anything happens: each refusal leaves everything as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.database import Connection
from tacit.errors import require
from tacit.study.bundle import Bundle
from tacit.study.contract import Design


def believed(bundle: bytes, design: Design, claim: PrivacyClaim, pinned: Path | None) -> Bundle:
    """A bundle of this study that asks what the design says, signed by the pinned key if there is one."""
    asked = Bundle.parse(bundle)
    require(asked["study"] == design.digest, "a bundle must be of this study", "another study")
    signed = asked.examined(pinned)
    forged = asked.content.get("signature") is not None and not signed.valid
    require(not forged, "a bundle must have a signature that fits", signed.words)
    require(pinned is None or signed.pinned, "a bundle must be signed by the pinned key", signed.words)
    require(not asked["kill"], "a study that was ended must not be opened", "a bundle that ends it")
    require(asked.channel is not None, "a stage must ask something to be collected", "a bundle that asks nothing")
    slot = asked["slot"]
    fits = slot < len(design.channels) and design.channels[slot] == asked["channel"]
    require(fits, "a bundle must ask by the channel of its design", "another channel")
    require(asked.sees == design.sees, "a bundle must have the features of its design", "others")
    require(asked.claim == claim, "a bundle must make the claim of its design", "another claim")
    return asked


def last_stage(connection: Connection, *states: str) -> tuple[int, int, int, Any]:
    """(number, slot, questions, n) of the last stage, if it is in one of these states."""
    row = connection.execute(
        "SELECT number, slot, questions, n, state FROM stage ORDER BY number DESC LIMIT 1"
    ).fetchone()
    state = "none" if row is None else row[4]
    require(state in states, f"the last stage must be {' or '.join(states)}", state)
    return row[0], row[1], row[2], row[3]


def begin_stage(connection: Connection, asked: Bundle) -> None:
    """The next stage, when the last one has ended."""
    last = connection.execute("SELECT number, state FROM stage ORDER BY number DESC LIMIT 1").fetchone()
    if last is not None:
        require(last[1] in ("released", "void"), "the stage before must have ended", f"stage {last[0]}: {last[1]}")
        require(asked["stage"] > last[0], f"a stage must come after stage {last[0]}", asked["stage"])
    slot = asked["slot"]
    done = connection.execute("SELECT 1 FROM stage WHERE slot = ? AND state = 'released'", (slot,)).fetchone()
    require(done is None, "what was released must not be collected again", f"slot {slot}")
    connection.execute(
        "INSERT INTO stage (number, slot, questions, state) VALUES (?, ?, ?, 'open')",
        (asked["stage"], slot, asked["questions"]),
    )


def require_next_question(connection: Connection, asked: Bundle) -> None:
    """The next question about people who have reported: after the one before it was released."""
    stage, slot, questions, _ = last_stage(connection, "closed")
    same = (stage, slot, questions) == (asked["stage"], asked["slot"], asked["questions"])
    require(same, "the next question must be about the stage that is closed", "another stage")
    done = connection.execute("SELECT count(*) FROM outbox WHERE stage = ?", (stage,)).fetchone()[0]
    require(asked["question"] == done, f"the next question must be number {done}", asked["question"])
