"""The ledger for people: one reserve, drawn down once each, inside its owner's transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import (
    ApproximationEvent,
    BinomialEvent,
    BoundedEvent,
    Event,
    Events,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from tacit.accounting.events.binomial import binomial_epsilon
from tacit.accounting.journal import Receipt
from tacit.accounting.people import PeopleLedger
from tacit.accounting.units import in_stages, worst_exposure
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded

DELTA, STUDY, RELEASE = 1e-6, "5" * 64, "a" * 64
MESSAGE: Events = ((PureEvent(epsilon=0.25), 1),)


def claim(epsilon: float = 1.0, delta: float = DELTA, reports: int = 2, **changes: Any) -> PrivacyClaim:
    values: dict[str, Any] = {
        "trust": "shuffle",
        "epsilon": epsilon,
        "delta": delta,
        "unit": PrivacyUnit(reports=reports, per_stage=1),
        "neighbours": "replace-one",
        "output": "shuffled-transcript",
    }
    return PrivacyClaim(**(values | changes))


def binomial(bits: int) -> Events:
    return tuple((BinomialEvent(bits=bits, probability=0.5, shift=sign), 18) for sign in (1, -1))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "owner.db", isolation_level=None)) as found:
        found.execute("CREATE TABLE outbox (bytes BLOB)")
        found.execute("BEGIN IMMEDIATE")
        yield found


def begun(connection: sqlite3.Connection, budget: PrivacyClaim | None = None, noise: str = "secure") -> PeopleLedger:
    ledger = PeopleLedger.within(connection)
    ledger.begin(writer="collector", budget=budget or claim(delta=0.0), study=STUDY, noise=noise)
    return ledger


def reserved(connection: sqlite3.Connection, stages: int = 4, questions: list[int] | None = None) -> PeopleLedger:
    ledger = begun(connection)
    ledger.reserve(schedule=[MESSAGE] * stages, exposure=in_stages(MESSAGE, 2), questions=questions)
    return ledger


def unchanged(ledger: PeopleLedger, kind: type[Exception], words: str, action: Callable[[], Any]) -> None:
    before = ledger.writer.head()
    with pytest.raises(kind, match=words):
        action()
    assert ledger.writer.head() == before


def draw(
    ledger: PeopleLedger, stage: int, question: int = 0, events: Events = MESSAGE, noise: str = "secure"
) -> Receipt:
    return ledger.draw(stage=stage, question=question, events=events, noise=noise)


def test_a1_four_stages_of_binomial_noise_cost_their_exact_composition(connection: sqlite3.Connection) -> None:
    stage = binomial(9000)
    exact, each = binomial_epsilon(9000, 0.5, 72, 72, DELTA), epsilon_of(stage, DELTA)
    assert 4 * each > 1.8 * exact  # what adding up would cost
    ledger = begun(connection, claim(exact * 1.0001, reports=4))
    ledger.reserve(schedule=[stage] * 4, exposure=worst_exposure([stage] * 4, 4, DELTA))
    spent = []
    for number in range(4):
        draw(ledger, number, events=stage)
        spent.append(ledger.spent())
    assert exact * (1 - 1e-6) <= spent[-1].epsilon <= 1.001 * exact
    assert [found.epsilon for found in spent] == [epsilon_of(in_stages(stage, n), DELTA) for n in (1, 2, 3, 4)]
    assert (spent[-1].delta, spent[-1].reserved, spent[-1].drawn) == (DELTA, spent[-1].epsilon, (0, 1, 2, 3))
    ledger.verify()


def test_a1_a_schedule_over_the_budget_is_refused(connection: sqlite3.Connection) -> None:
    ledger = begun(connection)
    over = [((PureEvent(epsilon=0.51), 1),)] * 3
    unchanged(
        ledger, PrivacyBudgetExceeded, "epsilon 1.02",
        lambda: ledger.reserve(schedule=over, exposure=worst_exposure(over, 2, DELTA)),
    )  # fmt: skip
    unchanged(
        ledger,
        PrivacyBudgetExceeded,
        "inf",
        lambda: ledger.reserve(schedule=[MESSAGE], exposure=((UnprotectedEvent(), 1),)),
    )
    unchanged(ledger, InvalidInput, "one by one", lambda: ledger.reserve(schedule=over, exposure=MESSAGE))
    once = ((PureEvent(epsilon=0.5), 1),)
    unchanged(ledger, InvalidInput, "one by one", lambda: ledger.reserve(schedule=[once] * 3, exposure=once))
    unchanged(ledger, InvalidInput, "at least one stage", lambda: ledger.reserve(schedule=[], exposure=MESSAGE))
    unchanged(
        ledger, InvalidInput, "questions",
        lambda: ledger.reserve(schedule=[MESSAGE], exposure=MESSAGE, questions=[1, 1]),
    )  # fmt: skip
    # Half of it in each of two stages, and everybody reports in both: exactly the budget.
    half = [((PureEvent(epsilon=0.5), 1),)] * 9
    ledger.reserve(schedule=half, exposure=worst_exposure(half, 2, 0.0))
    assert ledger.spent() == (0.0, 0.0, 1.0, ())
    unchanged(ledger, InvalidInput, "reserved once", lambda: ledger.reserve(schedule=half, exposure=MESSAGE))


def test_a2_nothing_is_drawn_that_was_not_reserved_and_nothing_twice(connection: sqlite3.Connection) -> None:
    early = begun(connection)
    unchanged(early, InvalidInput, "reserved before", lambda: draw(early, 0))
    ledger = early
    ledger.reserve(schedule=[MESSAGE] * 3, exposure=in_stages(MESSAGE, 2), questions=[1, 2, 1])
    unchanged(ledger, InvalidInput, "0..2", lambda: draw(ledger, 3))
    unchanged(ledger, InvalidInput, "stage", lambda: draw(ledger, -1))
    unchanged(ledger, InvalidInput, "what was reserved", lambda: draw(ledger, 0, events=((PureEvent(epsilon=0.2), 1),)))
    unchanged(ledger, InvalidInput, "what was reserved", lambda: draw(ledger, 0, events=MESSAGE * 2))
    unchanged(ledger, InvalidInput, "reserved for 1 question,", lambda: draw(ledger, 0, 1))
    unchanged(ledger, InvalidInput, "next question of stage 1 is number 0", lambda: draw(ledger, 1, 1))
    draw(ledger, 0)
    unchanged(ledger, InvalidInput, "drawn once", lambda: draw(ledger, 0))
    draw(ledger, 1)
    assert ledger.spent().epsilon == 0.5
    draw(ledger, 1, 1)  # the same people, another question: the stage was paid with its first one
    assert ledger.spent().epsilon == 0.5
    unchanged(ledger, InvalidInput, "2 questions", lambda: draw(ledger, 1, 2))
    assert [(entry.stage, entry.question) for entry in ledger.entries()] == [(0, 0), (1, 0), (1, 1)]


def test_a2_a_draw_is_committed_once_with_the_digest_of_its_release(connection: sqlite3.Connection) -> None:
    ledger = reserved(connection)
    receipt = draw(ledger, 0)
    assert [entry.number for entry in ledger.pending()] == [receipt.number]
    unchanged(ledger, InvalidInput, "SHA-256", lambda: ledger.commit(receipt, "abc"))
    wrong = [Receipt(number=receipt.number, digest="0" * 64), Receipt(number=1, digest=receipt.digest)]
    for other in wrong:
        unchanged(ledger, InvalidInput, "receipt", lambda other=other: ledger.commit(other, RELEASE))
    ledger.commit(receipt, RELEASE)
    unchanged(ledger, InvalidInput, "committed once", lambda: ledger.commit(receipt, RELEASE))
    (entry,) = ledger.entries()
    assert (entry.release, entry.noise, entry.given_up) == (RELEASE, "secure", False)
    assert ledger.pending() == ()


def test_a2_a_stage_that_was_given_up_unpaid_costs_nothing(connection: sqlite3.Connection) -> None:
    ledger = reserved(connection)
    ledger.void(stage=0, reason="too few")
    assert ledger.spent().epsilon == 0.0
    draw(ledger, 0)
    assert ledger.spent() == (0.25, 0.0, 0.5, (0,))
    unchanged(ledger, InvalidInput, "0..3", lambda: ledger.void(stage=4, reason="none"))
    unchanged(ledger, InvalidInput, "reason", lambda: ledger.void(stage=0, reason=""))


def test_a2_a_stage_drawn_again_counts_twice(connection: sqlite3.Connection) -> None:
    dear, cheap = ((PureEvent(epsilon=0.6), 1),), ((PureEvent(epsilon=0.4), 1),)
    ledger = begun(connection, claim(1.0, 0.0))
    ledger.reserve(schedule=[cheap, dear, cheap], exposure=worst_exposure([cheap, dear, cheap], 2, 0.0))
    for stage, events in ((0, cheap), (1, dear)):
        draw(ledger, stage, events=events)
        ledger.void(stage=stage, reason="given up")
    # Somebody may have been in both rounds of the dear stage: 1.2.
    unchanged(ledger, PrivacyBudgetExceeded, "1.2", lambda: draw(ledger, 1, events=dear))
    draw(ledger, 0, events=cheap)
    assert ledger.spent().epsilon == 1.0
    draw(ledger, 2, events=cheap)
    assert ledger.spent().epsilon == 1.0


def test_a2_stages_that_share_their_noise_are_spent_as_a_whole_and_not_drawn_again(
    connection: sqlite3.Connection,
) -> None:
    stage = ((GaussianEvent(sigma=20.0, shift=1.0), 4),)
    whole = ((GaussianEvent(sigma=20.0, shift=1.8), 4),)
    ledger = begun(connection, claim())
    ledger.reserve(schedule=[stage] * 3, exposure=whole)
    draw(ledger, 0, events=stage)
    assert ledger.spent().epsilon == ledger.spent().reserved == epsilon_of(whole, DELTA)
    ledger.void(stage=0, reason="given up")
    unchanged(ledger, NotSupported, "share their noise", lambda: draw(ledger, 0, events=stage))
    draw(ledger, 1, events=stage)


@pytest.mark.parametrize(("kind", "other"), [("secure", "simulation"), ("simulation", "secure")])
def test_a3_one_kind_of_noise(connection: sqlite3.Connection, kind: str, other: str) -> None:
    ledger = begun(connection, noise=kind)
    ledger.reserve(schedule=[MESSAGE], exposure=MESSAGE)
    for wrong in (other, "loud", None):
        unchanged(ledger, InvalidInput, kind, lambda wrong=wrong: draw(ledger, 0, noise=wrong))
    draw(ledger, 0, noise=kind)
    assert ledger.noise == kind


EVERY: list[Event] = [
    BinomialEvent(bits=40_000, probability=0.4, shift=-1),
    BoundedEvent(radius=200.0, shift=1.0),
    GaussianEvent(sigma=10.0, shift=1.0),
    GaussianEvent(sigma=10.0, shift=1.0, discrete=True),
    LaplaceEvent(scale=12.0, shift=2.0, discrete=True),
    PureEvent(epsilon=0.1),
    SampledGaussianEvent(sigma=8.0, norm=1.0, rate=0.1),
    ApproximationEvent(tv=1e-9, up_to=3.0),
]


@pytest.mark.parametrize("event", EVERY, ids=repr)
def test_every_event_is_read_as_it_was_written(connection: sqlite3.Connection, event: Event) -> None:
    stage = ((event, 2), (PureEvent(epsilon=0.01), 1))
    ledger = begun(connection, claim(3.0))
    ledger.reserve(schedule=[stage] * 3, exposure=worst_exposure([stage] * 3, 2, DELTA))
    draw(ledger, 1, events=stage)
    assert ledger._reserved().schedule == (stage,) * 3
    assert ledger.spent().epsilon == epsilon_of(stage, DELTA)
    ledger.verify()
    assert json.loads(json.dumps(ledger.export(), allow_nan=False))["head"]["number"] == 3


def test_a4_the_owner_decides_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "owner.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("CREATE TABLE outbox (bytes BLOB)")
        ledger = PeopleLedger.within(owner)
        with pytest.raises(InvalidInput, match="transaction"):
            ledger.begin(writer="collector", budget=claim(), study=STUDY, noise="secure")
        with pytest.raises(InvalidInput, match="begun"):
            ledger.spent()
        owner.execute("BEGIN IMMEDIATE")
        begun(owner)
        ledger.reserve(schedule=[MESSAGE] * 4, exposure=in_stages(MESSAGE, 2))
        owner.execute("COMMIT")
        for action in (lambda: draw(ledger, 0), lambda: ledger.void(stage=0, reason="none")):
            with pytest.raises(InvalidInput, match="transaction"):
                action()
        # A crash before the end of the transaction leaves neither the charge nor the release.
        owner.execute("BEGIN IMMEDIATE")
        ledger.commit(draw(ledger, 0), RELEASE)
        owner.execute("INSERT INTO outbox VALUES (x'00')")
        owner.execute("ROLLBACK")
        assert (ledger.spent().epsilon, owner.execute("SELECT count(*) FROM outbox").fetchone()) == (0.0, (0,))
        owner.execute("BEGIN IMMEDIATE")
        ledger.commit(draw(ledger, 0), RELEASE)
        owner.execute("COMMIT")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        again = PeopleLedger.within(reader)
        assert (again.spent().drawn, again.budget) == ((0,), claim(delta=0.0))
        again.verify(again.head())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = replace(body, '\"epsilon\": 1.0', '\"epsilon\": 9.0')",
        "UPDATE records SET kind = 'note' WHERE number = 3",
        "DELETE FROM records WHERE number = 3",
        "DELETE FROM records WHERE number = 4",
        "INSERT INTO records (kind, body, digest) VALUES ('draw', '{}', '')",
    ],
)
def test_a4_an_edited_ledger_is_found_out(connection: sqlite3.Connection, statement: str) -> None:
    ledger = reserved(connection)
    draw(ledger, 0)
    anchor = draw(ledger, 1)
    ledger.verify(anchor)
    for trigger in ("no_update", "no_delete"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("DELETE FROM records" if trigger == "no_delete" else "UPDATE records SET kind = 'x'")
    for trigger in ("no_update", "no_delete"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(statement)
    with pytest.raises(InvalidInput):
        ledger.verify(anchor)


def test_a4_a_restored_backup_lacks_the_anchor(connection: sqlite3.Connection, tmp_path: Path) -> None:
    ledger = reserved(connection)
    draw(ledger, 0)
    connection.execute("COMMIT")
    with closing(sqlite3.connect(tmp_path / "backup.db", isolation_level=None)) as backup:
        connection.backup(backup)
        connection.execute("BEGIN IMMEDIATE")
        anchor = draw(ledger, 1)
        old = PeopleLedger.within(backup)
        old.verify()
        with pytest.raises(InvalidInput, match="anchor"):
            old.verify(anchor)


def test_what_cannot_be_a_ledger_of_people_is_refused(connection: sqlite3.Connection) -> None:
    ledger = PeopleLedger.within(connection)
    good: dict[str, Any] = {"writer": "collector", "budget": claim(), "study": STUDY, "noise": "secure"}
    several = claim(unit=PrivacyUnit(reports=4, per_stage=2))
    for words, wrong in (
        ("protect", {"budget": no_privacy()}),
        ("one report per stage", {"budget": several}),
        ("SHA-256", {"study": "heart"}),
        ("noise", {"noise": "loud"}),
    ):
        with pytest.raises(InvalidInput, match=words):
            ledger.begin(**(good | wrong))
    ledger.begin(**good)
    unchanged(ledger, InvalidInput, "begun once", lambda: ledger.begin(**good))


def test_no_record_is_about_a_person(connection: sqlite3.Connection) -> None:
    ledger = reserved(connection)
    ledger.commit(draw(ledger, 0), RELEASE)
    ledger.void(stage=1, reason="too few")
    exported = ledger.export()
    assert [record["kind"] for record in exported["records"]] == ["budget", "reserve", "draw", "commit", "void"]
    assert {name for record in exported["records"] for name in record["body"]} == {
        *("writer", "budget", "study", "noise", "day", "schedule", "questions", "exposure", "epsilon", "independent"),
        *("stage", "question", "draw", "release", "reason", "nonce"),
    }
