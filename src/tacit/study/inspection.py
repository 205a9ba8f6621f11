"""What can be known about a collector: numbers of reports, refusals and charges, nothing about anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.accounting.database import Connection
from tacit.accounting.people import PeopleLedger
from tacit.errors import require
from tacit.release.contract import Release
from tacit.study.contract import Design, Head
from tacit.study.ledger_heads import stopped_by
from tacit.study.wire import ReleasePayload, sha256


def status_of(connection: Connection, design: Design, channels: Sequence[Release], noise: str) -> dict[str, Any]:
    """The stages, what was refused and what was spent."""
    rows = connection.execute("SELECT number, slot, state, n, reason FROM stage ORDER BY number").fetchall()
    counts = dict(connection.execute("SELECT stage, count(*) FROM report GROUP BY stage").fetchall())
    refused = dict(connection.execute("SELECT reason, count FROM rejected ORDER BY reason").fetchall())
    people = connection.execute("SELECT count(DISTINCT person) FROM participation").fetchone()[0]
    ledger = PeopleLedger.within(connection)
    spent, met = ledger.spent(), stopped_by(connection)
    stages = [
        {
            "stage": number,
            "slot": slot,
            "state": state,
            "reports": counts.get(number, 0) if n is None else n,
            "least": channels[slot].least,
            "target": channels[slot].target,
            "reason": reason,
        }
        for number, slot, state, n, reason in rows
    ]
    return {
        "study": design.digest,
        "name": design.name,
        "trust": design.trust,
        "declared": design.declarations,
        "noise": noise,
        "state": stages[-1]["state"] if stages else "new",
        "stages": stages,
        "people": people,
        "refused": refused,
        "ledger": Head.of(ledger.head()).text,
        "stopped": None if met is None else met.text,
        "spent": {"epsilon": spent.epsilon, "delta": spent.delta, "reserved": spent.reserved},
        "budget": {"epsilon": design.epsilon, "delta": design.delta},
    }


def require_outbox(connection: Connection, study: bytes) -> None:
    """Raise unless every release is as it was written, was paid for and committed, and no commit lacks its release."""
    committed = {draw.number: draw.release for draw in PeopleLedger.within(connection).entries() if draw.release}
    rows = connection.execute("SELECT stage, question, bytes, digest, charge FROM outbox").fetchall()
    for stage, question, data, digest, charge in rows:
        release = ReleasePayload.parse(data)
        same = sha256(data).hex() == digest == committed.get(charge) and release.charge.number == charge
        same = same and (release.stage, release.question, release.study) == (stage, question, study)
        require(same, "releases must be as they were written and committed", f"another one of stage {stage}")
    require(len(rows) == len(committed), "every commit must have its release", f"{len(rows)} of {len(committed)}")
