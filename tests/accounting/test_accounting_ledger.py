"""The ledger: charge before release, never beyond the budget, nothing lost in a crash, nothing changed afterwards."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import BinomialEvent, GaussianEvent, LaplaceEvent, PureEvent, UnprotectedEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.ledger import Ledger, Receipt
from tacit.errors import InvalidInput, PrivacyBudgetExceeded


def make(epsilon: float = 1.0, delta: float = 1e-6, **changes: Any) -> PrivacyClaim:
    fields: dict[str, Any] = {
        "trust": "shuffle",
        "epsilon": epsilon,
        "delta": delta,
        "unit": PrivacyUnit(reports=1, per_stage=1),
        "neighbours": "replace-one",
        "output": "shuffled-transcript",
    }
    return PrivacyClaim(**(fields | changes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def charge(ledger: Ledger, users: range, claim: PrivacyClaim, events: Any = None, **changes: Any) -> Receipt:
    fields: dict[str, Any] = {"recipient": "learner", "what": "visits", "noise": "simulation"}
    return ledger.charge(users=users, claim=claim, events=events, **(fields | changes))


def test_l1_a_crash_between_charge_and_commit_leaves_the_charge_counted(path: Path) -> None:
    script = textwrap.dedent("""
        import os, sys
        from tacit.accounting.ledger import Ledger
        ledger = Ledger.load(sys.argv[1])
        receipt = ledger.charge(users=range(100), claim=ledger.budget, events=None, recipient="learner",
                                what="visits", noise="secure")
        os._exit(9)   # the power fails before the release
        ledger.commit(receipt)
    """)
    Ledger.open(path, make())
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == 9
    ledger = Ledger.open(path, make())
    (entry,) = ledger.pending()
    assert (entry.users, entry.noise, entry.committed) == (range(100), "secure", False)
    assert ledger.spent(5) == (1.0, 1e-6)
    with pytest.raises(PrivacyBudgetExceeded):
        charge(ledger, range(5, 6), make(0.01, 0.0))


def test_l1_a_crash_before_the_charge_is_on_disk_leaves_no_trace(path: Path) -> None:
    script = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from tacit.accounting.journal import Journal
        with Journal(path=Path(sys.argv[1])).transaction() as writer:
            writer.append("charge", {}, span=range(100))
            os._exit(9)   # inside the transaction: charge() has not returned, so nothing was released
    """)
    ledger = Ledger.open(path, make())
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 9
    ledger.verify()
    assert ledger.entries() == ()
    charge(ledger, range(100), make())


def test_l2_the_release_that_would_exceed_the_budget_is_refused_and_changes_nothing(path: Path) -> None:
    ledger = Ledger.open(path, make())
    charge(ledger, range(100), make(0.7, 5e-7))
    before, head = path.read_bytes(), ledger.head()
    for claim in (make(0.31, 0.0), make(0.1, 6e-7), make(1.0, 1e-6)):
        with pytest.raises(PrivacyBudgetExceeded, match="nothing was charged or released"):
            charge(ledger, range(99, 200), claim)
    assert ledger.head() == head
    assert path.read_bytes() == before
    charge(ledger, range(99, 200), make(0.3, 5e-7))  # exactly the rest
    assert ledger.spent(99) == (1.0, 1e-6)
    assert ledger.spent(150) == (0.3, 5e-7)


def test_l2_ten_charges_of_a_tenth_are_the_whole_budget(path: Path) -> None:
    ledger = Ledger.open(path, make())
    for _ in range(10):
        charge(ledger, range(10), make(0.1, 1e-7))
    assert ledger.spent(0) == (1.0, 1e-6)
    with pytest.raises(PrivacyBudgetExceeded):
        charge(ledger, range(10), make(1e-9, 0.0))


def test_l3_disjoint_users_compose_in_parallel(path: Path) -> None:
    ledger = Ledger.open(path, make())
    for batch in range(20):
        charge(ledger, range(100 * batch, 100 * (batch + 1)), make())
    assert {ledger.spent(user) for user in (0, 99, 100, 1999)} == {(1.0, 1e-6)}
    assert ledger.spent(2000) == (0.0, 0.0)
    # One user of overlap is enough to refuse, wherever it sits in the range.
    for users in (range(1999, 2100), range(1), range(1500, 1501)):
        with pytest.raises(PrivacyBudgetExceeded):
            charge(ledger, users, make(0.001, 0.0))


def test_l3_the_worst_covered_user_decides(path: Path) -> None:
    ledger = Ledger.open(path, make(delta=0.0))
    charge(ledger, range(60), make(0.5, 0.0))
    charge(ledger, range(40, 100), make(0.5, 0.0))
    with pytest.raises(PrivacyBudgetExceeded, match=r"users 40 to 59 would reach epsilon 1\.1"):
        charge(ledger, range(100), make(0.1, 0.0))
    charge(ledger, range(40), make(0.5, 0.0))
    charge(ledger, range(60, 100), make(0.5, 0.0))


def test_l3_gaussian_charges_add_squares_not_epsilons(path: Path) -> None:
    # Four releases of half the shift cost together what one whole shift costs.
    mu = gaussian_mu(1.0, 1e-6)
    events = ((GaussianEvent(sigma=1.0, shift=mu * 0.4999999), 1),)
    each = epsilon_of(events, 1e-6)
    assert 4 * each > 1.5  # basic composition would refuse the third
    ledger = Ledger.open(path, make())
    for _ in range(4):
        charge(ledger, range(10), make(each, 1e-6), events)
    assert 0.999 < ledger.spent(0)[0] <= 1.0
    with pytest.raises(PrivacyBudgetExceeded):
        charge(ledger, range(10), make(each, 1e-6), events)
    # One charge without events among them: back to adding up.
    other = Ledger.open(path.with_name("other.db"), make())
    charge(other, range(10), make(each, 5e-7), None)
    with pytest.raises(PrivacyBudgetExceeded):
        charge(other, range(10), make(each, 1e-6), events)


def test_l3_a_person_of_several_trajectories_pays_as_a_group(path: Path) -> None:
    ledger = Ledger.open(path, make(1.0, 1e-5, unit=PrivacyUnit(reports=3, per_stage=3)))
    with pytest.raises(PrivacyBudgetExceeded):
        charge(ledger, range(10), make(0.4, 0.0))
    charge(ledger, range(10), make(0.3, 1e-6))
    epsilon, delta = ledger.spent(0)
    assert 0.9 <= epsilon < 0.9 + 1e-12
    assert delta == pytest.approx(1e-6 * (1 + 2.718281828**0.3 + 2.718281828**0.6))


def test_events_must_give_what_the_claim_says(path: Path) -> None:
    ledger = Ledger.open(path, make())
    noise = (
        (BinomialEvent(bits=600, probability=0.5, shift=1), 4),
        (BinomialEvent(bits=600, probability=0.5, shift=-1), 4),
    )
    epsilon = epsilon_of(noise, 1e-6)
    with pytest.raises(InvalidInput, match="events"):
        charge(ledger, range(10), make(epsilon * 0.9), noise)
    with pytest.raises(InvalidInput, match="events"):
        charge(ledger, range(10), make(1.0), ((UnprotectedEvent(), 1),))
    charge(ledger, range(10), make(epsilon * 1.001), noise)
    assert ledger.entries()[0].events == noise


def test_claims_must_protect_what_the_budget_protects(path: Path) -> None:
    ledger = Ledger.open(path, make())
    central = make(0.1, 0.0, trust="central", output="other-users-actions")
    with pytest.raises(InvalidInput, match="JDP"):
        charge(ledger, range(10), central)
    with pytest.raises(InvalidInput, match="zero-out"):
        charge(ledger, range(10), make(0.1, 0.0, neighbours="zero-out"))
    charge(ledger, range(10), make(0.1, 0.0, trust="local", output="every-message"))  # LDP implies SDP
    with pytest.raises(PrivacyBudgetExceeded, match="inf"):
        charge(ledger, range(20, 30), no_privacy())
    assert len(ledger.entries()) == 1


def test_without_a_budget_everything_is_recorded_and_nothing_refused(path: Path) -> None:
    ledger = Ledger.open(path, no_privacy())
    charge(ledger, range(10), no_privacy(), ((UnprotectedEvent(), 1),))
    charge(ledger, range(10), make(5.0))
    assert len(ledger.entries()) == 2
    assert Ledger.load(path) == ledger


def test_entries_say_what_was_released_to_whom_under_which_claim(path: Path) -> None:
    ledger = Ledger.open(path, make(9.0))
    events = ((LaplaceEvent(scale=36.0, shift=1.0, discrete=True), 34), (PureEvent(epsilon=0.5), 1))
    receipt = charge(
        ledger, range(3, 9), make(2.0), events, recipient="regional hospital", what="N(s,a)", noise="secure"
    )
    ledger.commit(receipt)
    (entry,) = Ledger.load(path).entries()
    assert (entry.users, entry.claim, entry.events) == (range(3, 9), make(2.0), events)
    assert (entry.recipient, entry.what, entry.noise) == ("regional hospital", "N(s,a)", "secure")
    assert entry.committed
    assert entry.charged_at.endswith("+00:00")
    assert ledger.pending() == ()


def test_a_receipt_is_committed_once_and_only_if_it_is_ours(path: Path) -> None:
    ledger = Ledger.open(path, make())
    receipt = charge(ledger, range(10), make())
    for wrong in (Receipt(number=receipt.number, digest="0" * 64), Receipt(number=1, digest=receipt.digest)):
        with pytest.raises(InvalidInput, match="receipt"):
            ledger.commit(wrong)
    ledger.commit(receipt)
    with pytest.raises(InvalidInput, match="once"):
        ledger.commit(receipt)


def test_a_budget_cannot_be_changed_and_a_missing_ledger_is_no_fresh_start(path: Path) -> None:
    Ledger.open(path, make())
    with pytest.raises(InvalidInput, match="budget cannot be changed"):
        Ledger.open(path, make(2.0))
    with pytest.raises(InvalidInput, match="exist"):
        Ledger.load(path.with_name("nowhere.db"))
    text = path.with_name("notes.txt")
    text.write_text("this is not a ledger, but it is long enough to be looked at by the database " * 20)
    with pytest.raises(InvalidInput, match="cannot be used"):
        Ledger.load(text)


def test_l4_the_database_refuses_to_update_and_delete(path: Path) -> None:
    charge(Ledger.open(path, make()), range(10), make())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("DELETE FROM records", "UPDATE records SET body = '{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def _tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("DROP TRIGGER no_delete")
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = replace(body, '\"epsilon\": 0.5', '\"epsilon\": 0.1')",
        "UPDATE records SET first = 50 WHERE number = 2",
        "UPDATE records SET kind = 'note' WHERE number = 2",
        "DELETE FROM records WHERE number = 2",
        "DELETE FROM records WHERE number = 3",
        "DELETE FROM records",
    ],
)
def test_l4_an_edited_file_is_found_out(path: Path, statement: str) -> None:
    ledger = Ledger.open(path, make())
    for _ in range(2):
        charge(ledger, range(10), make(0.5, 5e-7))
    _tamper(path, statement)
    with pytest.raises(InvalidInput):
        Ledger.open(path, make())
    with pytest.raises(InvalidInput):
        ledger.verify()


def test_l4_a_patient_forger_is_found_out_by_a_receipt_kept_elsewhere(path: Path) -> None:
    ledger = Ledger.open(path, make())
    receipt = charge(ledger, range(10), make())
    _tamper(path, "DELETE FROM records WHERE number = 2", "UPDATE sqlite_sequence SET seq = 1")
    ledger.verify()  # a shorter chain is a chain
    with pytest.raises(InvalidInput, match="anchor"):
        ledger.verify(anchor=receipt)


def _race(path: Path, writers: int, run: Callable[[Path], bool]) -> int:
    with ThreadPoolExecutor(writers) as pool:
        return sum(pool.map(run, [path] * writers))


def test_l4_concurrent_writers_never_exceed_the_budget(path: Path) -> None:
    Ledger.open(path, make())

    def attempt(where: Path) -> bool:
        try:
            charge(Ledger.load(where), range(10), make(0.25, 1e-7))
        except PrivacyBudgetExceeded:
            return False
        return True

    assert _race(path, 8, attempt) == 4
    ledger = Ledger.load(path)
    assert ledger.spent(0)[0] == 1.0
    script = (
        "import sys; from tacit.accounting.ledger import Ledger\n"
        "ledger = Ledger.load(sys.argv[1])\n"
        "for k in range(5):\n"
        "    first = 1000 * int(sys.argv[2]) + 10 * k\n"
        "    ledger.commit(ledger.charge(users=range(first, first + 10), claim=ledger.budget, events=None,\n"
        "                                recipient='learner', what='visits', noise='simulation'))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), str(i)]) for i in (1, 2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    ledger.verify()
    assert len(ledger.entries()) == 14


@pytest.mark.parametrize("users", [range(0), range(5, 2), range(0, 10, 2), range(-1, 5)])
def test_bad_ranges_are_refused(path: Path, users: range) -> None:
    ledger = Ledger.open(path, make())
    with pytest.raises(InvalidInput, match="users"):
        charge(ledger, users, make())
    with pytest.raises(InvalidInput, match="noise"):
        charge(ledger, range(1), make(), noise="loud")
    assert ledger.head().number == 1


def test_the_file_holds_only_descriptions(path: Path) -> None:
    ledger = Ledger.open(path, make())
    charge(ledger, range(10), make())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bodies = [json.loads(body) for (body,) in connection.execute("SELECT body FROM records WHERE kind = 'charge'")]
    assert set(bodies[0]) == {"users", "claim", "events", "recipient", "what", "noise", "charged_at"}
