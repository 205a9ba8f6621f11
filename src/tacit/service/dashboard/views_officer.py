"""What a privacy officer sees: the budget, the certificate, every release, and what verification found.

O1  What was spent comes from the ledger, and what will be from what was reserved in it for the whole schedule: the
    forecast is no estimate. Only the collector has the ledger; a learner alone shows what its design reserved.
O2  Verification derives everything again, with the library's own verifier, and changes nothing.
"""

from __future__ import annotations

from typing import Any

from tacit.accounting.certificate import Certificate
from tacit.accounting.composition import epsilon_of
from tacit.accounting.people import PeopleLedger
from tacit.errors import NotSupported, TacitError, require
from tacit.runs.verify import Verdict
from tacit.service.dashboard.watched import Watched, WatchedParty
from tacit.service.problems import Refused
from tacit.study.collector import Collector
from tacit.study.contract import Head
from tacit.study.study import Study
from tacit.study.verify import verify_collector, verify_study
from tacit.study.wire import ReleasePayload

KEPT = {
    "collector": "SELECT stage, question, bytes, digest, charge FROM outbox ORDER BY charge",
    "study": "SELECT stage, question, bytes, digest, charge FROM release ORDER BY charge",
}


def certificate(watched: Watched) -> Certificate:
    """What the accountant finds for the design, derived anew."""
    party = watched.collector or watched.study
    assert party is not None  # noqa: S101 - something is watched
    return party.certificate()


def budget(watched: Watched, found: Certificate) -> dict[str, Any]:
    """What a person may lose, has been charged with at the worst, and will have been at the end (O1)."""
    design, collector = watched.design, watched.collector
    plain: dict[str, Any] = {
        "epsilon": float(design.epsilon),
        "delta": float(design.delta),
        "forecast": float(found.epsilon),
        "slots": len(design.channels),
        "reports": int(design.unit.reports),
    }
    if collector is None:
        return {**plain, "spent": None, "left": None, "drawn": None, "head": None}
    with collector.store.reading() as connection:
        ledger = PeopleLedger.within(connection)
        spent, head = ledger.spent(), Head.of(ledger.head())
    return {
        **plain,
        "spent": spent.epsilon,
        "left": max(0.0, float(design.epsilon) - spent.epsilon),
        "forecast": max(spent.reserved, spent.epsilon),
        "drawn": len(spent.drawn),
        "head": head.text,
    }


def releases(watched: Watched) -> list[dict[str, Any]]:
    """Every release: what it is, what one report of it cost, and whose word it has."""
    place = _keeper(watched)
    party: Any = place.party
    with party.store.reading() as connection:
        rows = connection.execute(KEPT[place.name]).fetchall()
        slots = dict(connection.execute("SELECT number, slot FROM stage").fetchall())
    pinned = next((one.keys.shuffler for one in watched.places if one.keys.shuffler is not None), None)
    channels = party.channels if isinstance(party, Collector) else party.parts.channels
    found = []
    for stage, question, data, digest, charge in rows:
        given = ReleasePayload.parse(bytes(data))
        signed = given.examined(pinned)
        found.append(
            {
                "stage": stage,
                "question": question,
                "people": given.people,
                "noise": given.noise,
                "digest": digest,
                "charge": charge,
                "bytes": len(data),
                "signature": signed.words.removesuffix(" (give --key)"),
                "forged": bool(given.signature) and not signed.valid,
                "epsilon": _cost(channels[slots[stage]], given.people, watched),
            }
        )
    return found


def release_bytes(watched: Watched, stage: int, question: int) -> bytes:
    """The bytes of a release, which are public."""
    party = _keeper(watched).party
    if isinstance(party, Collector):
        found = party.stored(stage, question)
    else:
        with party.store.reading() as connection:
            row = connection.execute(
                "SELECT bytes FROM release WHERE stage = ? AND question = ?", (stage, question)
            ).fetchone()
        found = b"" if row is None else bytes(row[0])
    if not found:
        raise Refused("not-found")
    return found


def ledger(watched: Watched) -> dict[str, Any]:
    """The whole ledger; no record is about a person."""
    collector = watched.collector
    require(collector is not None, "the ledger is the collector's", "a study alone", "watch the collector")
    assert collector is not None  # noqa: S101 - for the types
    with collector.store.reading() as connection:
        return PeopleLedger.within(connection).export()


def verified(watched: Watched) -> list[Verdict]:
    """What the library's verifier finds of everything that is watched (O2)."""
    found = []
    for place in watched.places:
        check: Any = verify_study if isinstance(place.party, Study) else verify_collector
        try:
            verdict = check(place.directory, database=place.database)
        except TacitError as error:
            verdict = Verdict(path=place.name, kind=place.name, true=False, why=str(error), signature="not looked at")
        found.append(verdict)
    return found


def _keeper(watched: Watched) -> WatchedParty:
    """Who keeps the releases: the collector's outbox before the learner's copies."""
    return next((place for place in watched.places if place.name == "collector"), watched.places[0])


def _cost(channel: Any, people: int, watched: Watched) -> float | None:
    """The epsilon of one report at the number of people who came, where the accountant can say."""
    try:
        return epsilon_of(channel.events_at(people), watched.design.delta)
    except NotSupported:
        return None
