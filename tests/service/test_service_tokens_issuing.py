"""The issuer: at most g per person, one per stage, the same again after any crash, and keys that come and go."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from study_world import fast_directory

from tacit.errors import InvalidInput, NotSupported
from tacit.runs.signature import new_keys
from tacit.service.database import close_all
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.token import Token, TokenKeys, verify
from tacit.service.tokens.token_issuer import DENIALS, Denied, Issuer
from tacit.service.tokens.wallet import Asked

STUDY = bytes(range(32))
ROOT = Path(__file__).parents[2]


class Crash(BaseException):
    """A process that ends here."""


class Office:
    """An issuer with its list and keys in one directory."""

    def __init__(self, place: Path, reports: int = 2, database: str | None = None) -> None:
        self.place, self.database = place, database
        self.private, self.public = new_keys(place / "keys")
        self.list = Enrolment.new(place / "people")
        more = {"people": self.list, "key": self.private, "database": database}
        self.issuer = Issuer.new(place / "issuer", study=STUDY, reports=reports, **more)

    def reopened(self, edge=lambda name: None) -> Issuer:
        more = {"key": self.private, "database": self.database, "edge": edge}
        return Issuer(self.place / "issuer", people=Enrolment(self.place / "people"), **more)

    @property
    def keys(self) -> TokenKeys:
        return TokenKeys.parse(self.issuer.document(), study=STUDY, pinned=self.public)

    def asked(self, stage: int) -> Asked:
        return Asked.new(self.keys, stage)


@pytest.fixture
def office():
    with fast_directory() as folder:
        yield Office(Path(folder))


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request):
    """An issuer on each of the two databases, PostgreSQL in a schema of its own."""
    url = None
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        url = f"{server.url}?schema=issuer_{next(server.numbers)}"
    with fast_directory() as folder:
        yield Office(Path(folder), database=url)
    if url is not None:
        close_all()


def finished(asked: Asked, signature: bytes) -> bytes:
    return asked.finish(json.dumps({"signature": base64.b64encode(signature).decode()}).encode())


def test_a_signature_becomes_a_token_of_the_stage(office):
    office.issuer.open_stage(0)
    (person,) = office.list.enrol(1)
    asked = office.asked(0)
    token = finished(asked, office.issuer.issue(person.encode(), 0, asked.blinded))
    assert isinstance(verify(token, office.keys, 0), Token)


def test_everything_that_is_refused_is_refused_before_it_is_counted(office):
    office.issuer.open_stage(3)
    (person,) = office.list.enrol(1)
    asked = office.asked(3)
    n = office.keys.stages[3].n
    refused = {
        "foreign": (b"guessed", 3, asked.blinded),
        "not open": (person.encode(), 4, asked.blinded),
        "malformed": (person.encode(), 3, asked.blinded[:-1]),
    }
    for reason, request in refused.items():
        assert office.issuer.issue(*request) == Denied(reason)
    for blinded in (b"", asked.blinded + b"\0", n.to_bytes(256), b"\xff" * 256):
        assert office.issuer.issue(person.encode(), 3, blinded) == Denied("malformed")
    for stage in (-1, 2**32, 2**80):
        assert office.issuer.issue(person.encode(), stage, asked.blinded) == Denied("malformed")
    assert office.issuer.issue(b"", 3, asked.blinded) == Denied("foreign")
    assert office.issuer.status()["stages"] == [{"stage": 3, "open": True, "tokens": 0}]
    assert isinstance(office.issuer.issue(person.encode(), 3, asked.blinded), bytes)


def test_one_per_stage_the_same_again_and_at_most_g_in_all(either):
    (person,) = either.list.enrol(1)
    signed = []
    for stage in range(3):
        either.issuer.open_stage(stage)
        asked = either.asked(stage)
        found = either.issuer.issue(person.encode(), stage, asked.blinded)
        if stage == 2:
            assert found == Denied("used up")
            break
        assert either.issuer.issue(person.encode(), stage, asked.blinded) == found
        assert either.issuer.issue(person.encode(), stage, either.asked(stage).blinded) == Denied("twice")
        signed.append((stage, asked, found))
    # Also when the stage is over and in another process: what was acknowledged is not lost.
    for stage, asked, found in signed:
        assert either.reopened().issue(person.encode(), stage, asked.blinded) == found
        assert either.reopened().issue(person.encode(), stage, either.asked(stage).blinded) == Denied("twice")
    renewed = either.list.renew(person)
    assert either.issuer.issue(renewed.encode(), 2, either.asked(2).blinded) == Denied("used up")


def test_g_holds_under_concurrency_in_every_stage(either):
    """24 threads, three people, each with eight different messages: one signature each."""
    either.issuer.open_stage(0)
    people = either.list.enrol(3)
    barrier, answers = threading.Barrier(24), []

    def ask(place: int) -> None:
        issuer, asked = either.reopened(), either.asked(0)
        barrier.wait(timeout=60)
        answers.append((place % 3, issuer.issue(people[place % 3].encode(), 0, asked.blinded)))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signed = Counter(person for person, found in answers if isinstance(found, bytes))
    assert signed == {0: 1, 1: 1, 2: 1}
    assert [found for _, found in answers if isinstance(found, Denied)] == [Denied("twice")] * 21


def test_one_request_sent_by_many_at_once_has_one_signature(office):
    office.issuer.open_stage(0)
    (person,) = office.list.enrol(1)
    asked, barrier, answers = office.asked(0), threading.Barrier(12), []

    def ask() -> None:
        barrier.wait(timeout=60)
        answers.append(office.issuer.issue(person.encode(), 0, asked.blinded))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1
    assert isinstance(answers[0], bytes)
    assert office.issuer.status()["stages"][0]["tokens"] == 1


def test_the_table_itself_refuses_a_token_too_many(office):
    """Whoever writes: a second one of a stage, a third of a person, a number beyond g."""
    office.issuer.open_stage(0)
    row = "INSERT INTO issued (person, stage, number, blinded, signature) VALUES (x'01', ?, ?, x'02', x'03')"
    with sqlite3.connect(office.place / "issuer" / "issuer.db") as connection:
        connection.execute(row, (0, 1))
        connection.execute(row, (1, 2))
        for wrong in ((2, 3), (2, 2), (2, 0), (1, 1)):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(row, wrong)
    connection.close()


def test_a_second_issuer_does_not_begin_in_the_same_schema(postgres):
    url = f"{postgres.url}?schema=issuer_{next(postgres.numbers)}"
    with fast_directory() as folder:
        Office(Path(folder) / "first", database=url)
        with pytest.raises(InvalidInput, match="new directory and database"):
            Office(Path(folder) / "second", database=url)
        for wrong in (f"{postgres.url}?schema=Bad-Name", "mysql://there", "no url"):
            with pytest.raises((InvalidInput, NotSupported)):
                Office(Path(folder) / f"third{len(wrong)}", database=wrong)
    close_all()


# crashes


@pytest.mark.parametrize("edge", ["issue:signed", "issue:before commit", "issue:after commit"])
def test_a_crash_at_any_edge_neither_loses_nor_doubles(either, edge):
    either.issuer.open_stage(0)
    (person,) = either.list.enrol(1)
    asked = either.asked(0)

    def crash(reached: str) -> None:
        if reached == edge:
            raise Crash

    with pytest.raises(Crash):
        either.reopened(crash).issue(person.encode(), 0, asked.blinded)
    stored = either.issuer.status()["stages"][0]["tokens"]
    assert stored == (edge == "issue:after commit")
    first = either.reopened().issue(person.encode(), 0, asked.blinded)
    assert isinstance(verify(finished(asked, first), either.keys, 0), Token)
    assert either.reopened().issue(person.encode(), 0, asked.blinded) == first
    # A person whose request died before it was stored could still send another; one whose did not cannot.
    assert either.reopened().issue(person.encode(), 0, either.asked(0).blinded) == Denied("twice")
    assert either.issuer.status()["stages"][0]["tokens"] == 1


def test_processes_that_are_killed_lose_nothing(office):
    """os._exit at each edge, as a kill would: no finally, no rollback, no flush."""
    office.issuer.open_stage(0)
    script = ROOT / "tests" / "reference" / "issuer_crashes.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def run(person: str, asked: Asked, edge: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), str(office.place), person, "0", asked.blinded.hex(), edge]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    for edge in ("issue:before commit", "issue:after commit"):
        (person,) = office.list.enrol(1)
        asked = office.asked(0)
        killed = run(person, asked, edge)
        assert (killed.returncode, killed.stdout) == (7, ""), killed.stderr
        signature = office.issuer.issue(person.encode(), 0, asked.blinded)
        assert finished(asked, signature)
        assert office.issuer.issue(person.encode(), 0, office.asked(0).blinded) == Denied("twice")
    assert office.issuer.status()["stages"][0]["tokens"] == 2


@pytest.mark.parametrize("edge", ["open:before commit", "open:after commit"])
def test_a_crash_while_a_stage_opens_leaves_one_key(either, edge):
    either.issuer.open_stage(0)
    before = either.keys

    def crash(reached: str) -> None:
        if reached == edge:
            raise Crash

    with pytest.raises(Crash):
        either.reopened(crash).open_stage(1)
    either.reopened().open_stage(1)
    assert either.keys.after(before).serial == 2
    assert [stage["open"] for stage in either.issuer.status()["stages"]] == [False, True]


def test_a_stage_that_ends_while_somebody_is_signed_for_gives_nothing_more(either):
    either.issuer.open_stage(0)
    (person,) = either.list.enrol(1)

    def end(reached: str) -> None:
        if reached == "issue:signed":
            either.issuer.end_stage(0)

    assert either.reopened(end).issue(person.encode(), 0, either.asked(0).blinded) == Denied("late")
    assert either.issuer.status()["stages"][0] == {"stage": 0, "open": False, "tokens": 0}


# keys


def test_the_secret_of_a_stage_is_gone_when_it_is_over(office):
    office.issuer.open_stage(0)
    with sqlite3.connect(office.place / "issuer" / "issuer.db") as connection:
        secret = connection.execute("SELECT secret FROM stage_key").fetchone()[0]
    connection.close()
    files = [office.place / "issuer" / name for name in ("issuer.db", "issuer.db-wal")]
    # A part from the middle: rows of more than a page are cut up.
    part = secret[400:440]
    held = b"".join(file.read_bytes() for file in files if file.exists())
    assert part in held
    document = office.issuer.document()
    office.issuer.end_stage(0)
    held = b"".join(file.read_bytes() for file in files if file.exists())
    assert part not in held
    assert office.issuer.document() == document
    with pytest.raises(InvalidInput, match="must not be opened again"):
        office.issuer.open_stage(0)
    (person,) = office.list.enrol(1)
    assert office.issuer.issue(person.encode(), 0, office.asked(0).blinded) == Denied("late")


def test_stages_go_on_and_the_document_only_grows(either):
    seen = None
    for stage in (0, 1, 5):
        assert either.issuer.open_stage(stage)
        document = either.issuer.document()
        assert not either.issuer.open_stage(stage)
        assert either.reopened().document() == document
        seen = either.keys.after(seen)
    assert sorted(seen.stages) == [0, 1, 5]
    for wrong in (2, -1, 2**32):
        with pytest.raises(InvalidInput):
            either.issuer.open_stage(wrong)
    with pytest.raises(InvalidInput, match="opened before"):
        either.issuer.end_stage(9)


def test_an_issuer_is_begun_once_and_opened_with_its_own_keys(office):
    with pytest.raises(InvalidInput, match="new directory"):
        Issuer.new(office.place / "issuer", study=STUDY, reports=9, people=office.list, key=office.private)
    assert office.reopened().reports == 2
    assert Issuer.begun(office.place / "issuer")
    (office.place / "issuer" / "pseudonyms.key").write_bytes(bytes(32))
    with pytest.raises(InvalidInput, match="began with"):
        office.reopened()
    with pytest.raises(InvalidInput, match="hold an issuer"):
        Issuer(office.place / "nowhere", people=office.list, key=office.private)
    with pytest.raises(NotSupported, match="postgresql"):
        Issuer(office.place / "issuer", people=office.list, key=office.private, database="mysql://there")
    with sqlite3.connect(office.place / "issuer" / "issuer.db") as connection:  # as tacit 0.8 left it
        connection.execute("PRAGMA user_version = 0")
    connection.close()
    with pytest.raises(InvalidInput, match="must have version"):
        office.reopened()


def test_a_lost_database_is_no_fresh_start(office):
    """Everybody would have g tokens once more."""
    for file in (office.place / "issuer").glob("issuer.db*"):
        file.unlink()
    assert Issuer.begun(office.place / "issuer")
    with pytest.raises(InvalidInput, match="restore its database"):
        office.reopened()
    with pytest.raises(InvalidInput, match="new directory"):
        Issuer.new(office.place / "issuer", study=STUDY, reports=2, people=office.list, key=office.private)


def test_an_issuer_whose_beginning_was_killed_begins_again(office):
    """The key of the pseudonyms and a temporary file are there, database and mark are not."""
    place = office.place / "half"
    Issuer.new(place, study=STUDY, reports=2, people=office.list, key=office.private)
    (place / "begun").unlink()
    for file in place.glob("issuer.db*"):
        file.unlink()
    (place / ".tmp-issuer.db").touch(0o600)
    assert not Issuer.begun(place)
    again = Issuer.new(place, study=STUDY, reports=2, people=office.list, key=office.private)
    assert again.open_stage(0)


def test_the_database_is_private_and_knows_no_credential_token_or_message(office):
    office.issuer.open_stage(0)
    (person,) = office.list.enrol(1)
    asked = office.asked(0)
    token = finished(asked, office.issuer.issue(person.encode(), 0, asked.blinded))
    folder = office.place / "issuer"
    assert stat.S_IMODE((folder / "issuer.db").stat().st_mode) == 0o600
    held = b"".join(file.read_bytes() for file in folder.iterdir())
    number = office.list.person(person.encode())
    for trace in (person.encode(), number.encode(), bytes.fromhex(number), asked.blinded, token[8:40], token[40:]):
        assert trace not in held


def test_denials_are_words_of_the_program():
    with pytest.raises(InvalidInput):
        Denied("something else")
    assert all(isinstance(Denied(reason), Denied) for reason in DENIALS)
