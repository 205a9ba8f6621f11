"""The collector: who is counted, what is released when, and what a restored copy, a race or a thief can do."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from study_fakes import FakeDesign, bundle_of
from study_world import fast_directory, report_of

from tacit.errors import InvalidInput
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.runs.signature import new_keys
from tacit.study import contract
from tacit.study.collector import Collector
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.intake import Pseudonyms
from tacit.study.wire import ReleasePayload, Report, sha256

ROOT = Path(__file__).parents[2]
DESIGN = FakeDesign(kind="test-stamped")


@pytest.fixture
def place():
    with fast_directory() as folder:
        yield Path(folder)


def opened(place: Path, design: FakeDesign = DESIGN, **options) -> Collector:
    made = Collector.new(place / "collector", design, **options)
    made.open(bundle_of(design))
    return made


def add(collector: Collector, people: range, stage: int = 0) -> list[str]:
    return [collector.add(report_of(collector.study, stage, i), f"person {i}") for i in people]


def database(collector: Collector) -> str:
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        return "\n".join(connection.iterdump())


def without_stop(collector: Collector) -> str:
    """The same, without the row that says that it stopped."""
    return "\n".join(line for line in database(collector).splitlines() if "'stopped'" not in line)


def counts(data: bytes) -> np.ndarray:
    return np.frombuffer(ReleasePayload.parse(data).payload[: 8 * DESIGN.labels], dtype="<i8")


# who is counted


def test_a_report_counts_once_and_a_person_once_per_stage(place):
    collector = opened(place)
    assert add(collector, range(2)) == ["counted", "counted"]
    before = database(collector)
    assert add(collector, range(2)) == ["again", "again"]
    assert database(collector) == before
    other = report_of(collector.study, 0, 1, name=bytes(16))
    assert collector.add(other, "person 1") == "twice"
    assert collector.add(report_of(collector.study, 0, 1), "person 7") == "id taken"
    assert collector.add(report_of(collector.study, 0, 5, Report.parse(report_of(collector.study, 0, 1)).id), "p") == (
        "id taken"
    )
    assert collector.status()["refused"] == {"id taken": 2, "twice": 1}


def test_every_refusal_has_its_reason(place):
    collector = opened(place)
    good = report_of(collector.study, 0, 3)
    assert collector.add(b"", "a") == "malformed"
    assert collector.add(good[:-1], "a") == "bad body"
    assert collector.add(good + b"x", "a") == "bad body"
    assert collector.add(report_of(bytes(32), 0, 3), "a") == "another study"
    assert collector.add(report_of(collector.study, 1, 3), "a") == "not open"
    assert collector.add(report_of(collector.study, 0, DESIGN.labels), "a") == "bad body"
    assert add(collector, range(6)) == ["counted"] * 6
    assert collector.add(report_of(collector.study, 0, 9), "person 9") == "full"
    collector.close()
    assert collector.add(report_of(collector.study, 0, 9), "person 9") == "late"
    assert collector.add(report_of(collector.study, 0, 2), "person 2") == "again"
    release = ReleasePayload.parse(collector.release(GENESIS_HEAD))
    assert release.people == 6
    assert collector.add(report_of(collector.study, 0, 2), "person 2") == "again"
    collector.open(bundle_of(DESIGN, stage=1, slot=1, head=release.head.text))
    assert collector.add(report_of(collector.study, 1, 2), "person 2") == "used up"
    assert sum(collector.status()["refused"].values()) == 9


def test_a_person_reports_as_often_as_the_unit_says(place):
    design = FakeDesign(kind="test-stamped", reports=2, epsilon=2.0)
    collector, head = opened(place, design), GENESIS_HEAD
    for stage in range(3):
        if stage:
            collector.open(bundle_of(design, stage=stage, slot=stage, head=head.text))
        answers = [collector.add(report_of(collector.study, stage, i), f"person {i}") for i in range(4)]
        assert answers == (["counted"] * 4 if stage < 2 else ["used up"] * 4)
        if stage < 2:
            collector.close()
            head = ReleasePayload.parse(collector.release(head)).head


def test_pseudonyms_hide_names_and_spellings_do_not_make_people(place):
    collector = opened(place)
    assert collector.add(report_of(collector.study, 0, 1), "Zoë") == "counted"
    assert collector.add(report_of(collector.study, 0, 2), " Zoe\u0308") == "twice"
    raw = b"".join(path.read_bytes() for path in (place / "collector").iterdir())
    assert "Zoë".encode() not in raw
    assert stat.S_IMODE((place / "collector" / "people.key").stat().st_mode) == 0o600
    for name in ("", "  ", "x" * 2000):
        with pytest.raises(InvalidInput):
            collector.add(report_of(collector.study, 0, 3), name)
    with pytest.raises(InvalidInput):
        collector.add(report_of(collector.study, 0, 3), 7)  # type: ignore[arg-type]


# S7: never fewer than the least


def test_one_fewer_than_the_least_is_never_released_and_void_gives_back(place):
    collector = opened(place)
    add(collector, range(3))
    assert collector.close() == 3
    before = database(collector)
    with pytest.raises(InvalidInput, match="at least 4 reports"):
        collector.release(GENESIS_HEAD)
    assert database(collector) == before
    collector.void("too few came")
    with pytest.raises(InvalidInput):
        collector.release(GENESIS_HEAD)
    collector.open(bundle_of(DESIGN, stage=1, slot=0))
    assert add(collector, range(4), stage=1) == ["counted"] * 4
    collector.close()
    assert counts(collector.release(GENESIS_HEAD)).tolist() == [1] * 4 + [0] * 36


def test_a_void_stage_under_local_trust_gives_nothing_back(place):
    design = FakeDesign(kind="test-local")
    collector = opened(place, design)
    add(collector, range(3))
    collector.void("too few came")
    collector.open(bundle_of(design, stage=1, slot=0))
    assert add(collector, range(4), stage=1) == ["used up"] * 3 + ["counted"]
    add(collector, range(4, 7), stage=1)
    collector.close()
    assert ReleasePayload.parse(collector.release(GENESIS_HEAD)).people == 4
    assert collector.status()["spent"]["epsilon"] <= 1.0
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM participation WHERE stage = 0").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM body").fetchone() == (0,)


def test_a_void_stage_leaves_no_bodies_in_any_file(place):
    collector = opened(place)
    add(collector, range(3))
    collector.void("too few came")
    raw = b"".join(path.read_bytes() for path in (place / "collector").iterdir())
    assert b"a body's end" not in raw


# releases


def test_a_release_is_drawn_once(place):
    collector = opened(place)
    add(collector, range(5))
    collector.close()
    first = collector.release(GENESIS_HEAD)
    head = ReleasePayload.parse(first).head
    assert collector.release(GENESIS_HEAD) == collector.release(head) == first
    assert Collector(place / "collector").release(head) == first
    assert counts(first).tolist() == [1] * 5 + [0] * 35
    collector.verify(head)
    with contextlib.closing(sqlite3.connect(collector.store.path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER outbox_no_update")
        other = replace(ReleasePayload.parse(first), people=4).encode()
        connection.execute("UPDATE outbox SET bytes = ?, digest = ?", (other, sha256(other).hex()))
    with pytest.raises(InvalidInput, match="as they were written"):
        collector.verify(head)


def test_order_is_kept(place):
    collector = Collector.new(place / "collector", DESIGN)
    for step in (collector.close, collector.void, lambda: collector.release(GENESIS_HEAD)):
        with pytest.raises(InvalidInput):
            step()
    collector.open(bundle_of(DESIGN))
    collector.open(bundle_of(DESIGN))
    with pytest.raises(InvalidInput, match="one bundle"):
        collector.open(bundle_of(DESIGN, previous="11" * 32))
    with pytest.raises(InvalidInput, match="must have ended"):
        collector.open(bundle_of(DESIGN, stage=1))
    with pytest.raises(InvalidInput, match="must be closed"):
        collector.release(GENESIS_HEAD)
    add(collector, range(4))
    collector.close()
    with pytest.raises(InvalidInput):
        collector.close()
    head = ReleasePayload.parse(collector.release(GENESIS_HEAD)).head
    with pytest.raises(InvalidInput, match="again"):
        collector.open(bundle_of(DESIGN, stage=1, slot=0, head=head.text))
    with pytest.raises(InvalidInput):
        collector.void()


def test_the_database_itself_refuses(place):
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    collector.release(GENESIS_HEAD)
    with contextlib.closing(sqlite3.connect(collector.store.path, isolation_level=None)) as connection:
        for statement in (
            "UPDATE stage SET state = 'open'",
            "UPDATE stage SET state = 'closed'",
            "DELETE FROM stage",
            "UPDATE outbox SET bytes = x'00'",
            "DELETE FROM outbox",
            "DELETE FROM report",
            "DELETE FROM participation",
            "UPDATE participation SET person = x'00'",
            "INSERT INTO report (stage, id) VALUES (0, x'00')",
            "UPDATE question SET bundle = x'00'",
            "UPDATE meta SET value = 'simulation' WHERE name = 'noise'",
            "DELETE FROM records",
            "INSERT INTO stage (number, slot, questions, state) VALUES (0, 0, 1, 'open')",
            "INSERT INTO stage (number, slot, questions, state) VALUES (5, 0, 1, 'open')",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)


def test_several_questions_about_the_same_people(place):
    design = FakeDesign(kind="test-central", questions=2)
    collector = Collector.new(place / "collector", design)
    collector.open(bundle_of(design))
    with pytest.raises(InvalidInput):
        collector.open(bundle_of(design, question=1))
    add(collector, range(4))
    collector.close()
    first = ReleasePayload.parse(collector.release(GENESIS_HEAD))
    with pytest.raises(InvalidInput):
        collector.open(bundle_of(design, stage=1, slot=1, head=first.head.text))
    collector.open(bundle_of(design, question=1, head=first.head.text))
    assert collector.status()["state"] == "closed"
    data = collector.release(first.head)
    second = ReleasePayload.parse(data)
    assert (second.stage, second.question, second.people) == (0, 1, 4)
    assert second.head.number > first.head.number
    assert collector.release(second.head) == data
    assert collector.status()["state"] == "released"


# S3, S9, S12


def test_a_restored_backup_is_refused_before_a_draw(place):
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    shutil.copytree(place / "collector", place / "backup")
    head = ReleasePayload.parse(collector.release(GENESIS_HEAD)).head
    restored = Collector(place / "backup")
    before = database(restored)
    with pytest.raises(InvalidInput, match="older copy"):
        restored.release(head)
    with pytest.raises(InvalidInput, match="older copy"):
        restored.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))
    assert without_stop(restored) == before


def test_a_head_that_lags_behind_draws_nothing(place):
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    head = ReleasePayload.parse(collector.release(GENESIS_HEAD)).head
    collector.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))
    add(collector, range(4, 8), stage=1)
    collector.close()
    with pytest.raises(InvalidInput, match="last release"):
        collector.release(GENESIS_HEAD)
    assert ReleasePayload.parse(collector.release(head)).stage == 1


def test_a_head_that_was_never_here_stops_a_collector_for_good(place):
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    head = ReleasePayload.parse(collector.release(GENESIS_HEAD)).head
    collector.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))
    assert collector.status()["stopped"] is None
    with pytest.raises(InvalidInput, match=r"older copy .*put back the copy that holds it"):
        collector.release(Head(number=head.number, digest=bytes(32)))
    for step in STEPS:
        with pytest.raises(InvalidInput, match="stopped: its ledger must hold record 4"):
            step(Collector(place / "collector"), head)
    assert Collector(place / "collector").status()["stopped"] == f"4:{'00' * 32}"
    # The message of a stop does not depend on the file any more.
    (place / "collector" / "last-head").write_text(f"{head.text}\n")
    with pytest.raises(InvalidInput, match="stopped"):
        Collector(place / "collector").release(head)


STEPS = (
    lambda collector, head: collector.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text)),
    lambda collector, head: collector.add(report_of(collector.study, 1, 9), "person 9"),
    lambda collector, head: collector.close(),
    lambda collector, head: collector.release(head),
    lambda collector, head: collector.void(),
    lambda collector, head: collector.stored(0),
    lambda collector, head: collector.seen(head),
    lambda collector, head: collector.verify(),
)


def test_a_bundle_names_the_last_release(place):
    """So that devices see every head: an older one would hide what was released since."""
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    head = ReleasePayload.parse(collector.release(GENESIS_HEAD)).head
    with pytest.raises(InvalidInput, match="last release"):
        collector.open(bundle_of(DESIGN, stage=1, slot=1))
    collector.open(bundle_of(DESIGN, stage=1, slot=1, head=head.text))


@pytest.mark.parametrize("content", [None, b"", b"words", b"3:00"])
def test_a_head_file_that_is_missing_or_damaged_is_refused(place, content):
    collector = opened(place)
    file = place / "collector" / "last-head"
    kept = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    for step in STEPS:
        with pytest.raises(InvalidInput):
            step(collector, GENESIS_HEAD)
    assert collector.status()["stopped"] is None
    file.write_bytes(kept)
    assert add(collector, range(1)) == ["counted"]


def test_a_collector_whose_database_is_gone_is_not_begun_again(place):
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    collector.release(GENESIS_HEAD)
    for path in (place / "collector").glob("collector.db*"):
        path.unlink()
    with pytest.raises(InvalidInput, match="restore its database"):
        Collector.new(place / "collector", DESIGN)


def test_the_head_is_the_commit_of_the_release(place):
    collector = opened(place)
    add(collector, range(4))
    collector.close()
    release = ReleasePayload.parse(collector.release(GENESIS_HEAD))
    with collector.store.reading() as connection:
        rows = connection.execute("SELECT number, kind, digest, body FROM records ORDER BY number").fetchall()
    assert [row[1] for row in rows] == ["budget", "reserve", "draw", "commit"]
    assert (release.charge.number, release.charge.digest.hex()) == (3, rows[2][2])
    assert (release.head.number, release.head.digest.hex()) == (4, rows[3][2])
    assert json.loads(rows[3][3])["release"] == sha256(collector.stored()).hex()
    assert (place / "collector" / "last-head").read_text() == f"{release.head.text}\n"


def test_local_charges_are_on_the_disk_before_open_returns(place):
    design = FakeDesign(kind="test-local")
    seen = []

    def edge(name: str) -> None:
        if name == "open:after commit":
            with contextlib.closing(sqlite3.connect(place / "collector" / "collector.db")) as connection:
                seen.extend(connection.execute("SELECT kind FROM records").fetchall())

    collector = Collector.new(place / "collector", design, edge=edge)
    collector.open(bundle_of(design))
    assert ("draw",) in seen
    add(collector, range(4))
    collector.close()
    collector.release(GENESIS_HEAD)
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        kinds = [row[0] for row in connection.execute("SELECT kind FROM records ORDER BY number")]
    assert kinds.count("draw") == 1
    assert kinds.index("draw") < kinds.index("commit")


def test_eight_processes_ask_for_one_release(place):
    collector = opened(place)
    add(collector, range(5))
    collector.close()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, str(ROOT / "tests" / "reference" / "study_race.py"), str(place / "collector")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    found = json.loads(done.stdout)
    assert found["codes"] == [0] * 8
    assert len(found["views"]) == 8
    assert len(set(found["views"])) == 1
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        kinds = [row[0] for row in connection.execute("SELECT kind FROM records")]
        assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (1,)
    assert kinds.count("draw") == kinds.count("commit") == 1


# whom a collector believes


def test_noise_of_real_people_is_secure(place):
    with pytest.raises(InvalidInput, match="secure noise"):
        Collector.new(place / "a", DESIGN, source=SimulationNoise(np.random.default_rng(0)))
    with pytest.raises(InvalidInput):
        Collector.new(place / "b", DESIGN, noise="none")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="seed"):
        Collector.new(place / "c", DESIGN, seed=3)
    assert Collector.new(place / "d", DESIGN, source=SecureNoise()).noise == "secure"
    stamps = set()
    for name in ("e", "f"):
        made = opened(place / name, noise="simulation", seed=5)
        add(made, range(4))
        made.close()
        release = ReleasePayload.parse(made.release(GENESIS_HEAD))
        assert release.noise == "simulation"
        stamps.add(release.payload)
    assert len(stamps) == 1


def test_a_design_that_does_not_hold_is_refused(place, monkeypatch):
    bad = FakeDesign(kind="test-stamped")
    good = bad.parts()
    claim = contract.PrivacyClaim.from_dict({**good.claim.to_dict(), "epsilon": 0.1})
    from tacit.accounting.certificate import certify

    broken = type(good)(**{**vars(good), "certificate": certify(good.events, (), claim, calibration="tight")})
    monkeypatch.setattr(FakeDesign, "parts", lambda self: broken)
    with pytest.raises(InvalidInput, match="keep its claim"):
        Collector.new(place / "a", bad)
    other = type(good)(**{**vars(good), "channels": good.channels[:1]})
    monkeypatch.setattr(FakeDesign, "parts", lambda self: other)
    with pytest.raises(InvalidInput, match="follow from"):
        Collector.new(place / "b", bad)
    assert not (place / "a" / "collector.db").exists()
    assert not (place / "b" / "collector.db").exists()


def test_only_bundles_of_this_study_are_opened(place, tmp_path):
    private, public = new_keys(tmp_path / "keys")
    stranger, _ = new_keys(tmp_path / "stranger")
    collector = Collector.new(place / "collector", DESIGN, learner=public)
    before = database(collector)
    claim = {**json.loads(bundle_of(DESIGN))["claim"], "epsilon": 9.0}
    for data in (
        bundle_of(DESIGN),
        bundle_of(DESIGN, key=stranger),
        bundle_of(FakeDesign(kind="test-stamped", name="other"), key=private),
        bundle_of(DESIGN, key=private, slot=7),
        b"{}",
        b"",
    ):
        with pytest.raises(InvalidInput):
            collector.open(data)
    with pytest.raises(InvalidInput):
        bundle_of(DESIGN, key=private, claim=claim)
    nothing = dict.fromkeys(("slot", "query", "channel", "target", "least"))
    for kill in (False, True):
        with pytest.raises(InvalidInput):
            collector.open(bundle_of(DESIGN, key=private, **nothing, kill=kill))
    assert database(collector) == before
    collector.open(bundle_of(DESIGN, key=private))


def test_a_collector_is_not_overwritten_and_a_missing_one_not_made(place):
    opened(place)
    with pytest.raises(InvalidInput, match="new directory"):
        Collector.new(place / "collector", DESIGN)
    with pytest.raises(InvalidInput, match="must hold a collector"):
        Collector(place / "nowhere")
    assert not (place / "nowhere").exists()


def test_releases_are_signed(place, tmp_path):
    private, public = new_keys(tmp_path / "keys")
    collector = opened(place, key=private)
    add(collector, range(4))
    collector.close()
    release = ReleasePayload.parse(collector.release(GENESIS_HEAD))
    assert release.examined(public).pinned
    assert release.noise == "secure"


def test_the_certificate_says_what_a_stage_cost(place):
    collector = opened(place)
    add(collector, range(5))
    collector.close()
    collector.release(GENESIS_HEAD)
    (row,) = collector.realised()
    assert row["reports"] == 5
    assert row["epsilon"] < 0.5 < collector.certificate().epsilon + 0.001


# tokens, windows and versions


def test_a_token_lives_as_long_as_its_body(place):
    collector = opened(place)
    rows = [(report_of(collector.study, 0, i), f"person {i}", b"a token's end %d" % i) for i in range(4)]
    assert collector.add_many([*rows, rows[0], (report_of(collector.study, 0, 9), "person 0", b"another")]) == (
        *["counted"] * 4,
        "again",
        "twice",
    )
    with contextlib.closing(sqlite3.connect(collector.store.path, isolation_level=None)) as connection:
        assert connection.execute("SELECT seq, bytes FROM token ORDER BY seq").fetchall() == [
            (i + 1, row[2]) for i, row in enumerate(rows)
        ]
        for statement in ("UPDATE token SET bytes = x'00'", "DELETE FROM token"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    collector.close()
    collector.release(GENESIS_HEAD)
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM token").fetchone() == (0,)
    raw = b"".join(path.read_bytes() for path in (place / "collector").iterdir())
    assert b"a token's end" not in raw


def test_the_end_of_a_window_is_set_once(place):
    collector = Collector.new(place / "collector", DESIGN)
    assert collector.window() is None
    with pytest.raises(InvalidInput, match="ends"):
        collector.open(bundle_of(DESIGN), ends=-1)
    assert collector.status()["stages"] == []
    collector.open(bundle_of(DESIGN), ends=1_800_000_000)
    collector.open(bundle_of(DESIGN), ends=1_900_000_000)
    assert Collector(place / "collector").window() == 1_800_000_000
    with contextlib.closing(sqlite3.connect(collector.store.path, isolation_level=None)) as connection:
        for statement in ("UPDATE window SET ends = 0", "DELETE FROM window", "INSERT INTO window VALUES (1, 0)"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    collector.void("nobody came")
    collector.open(bundle_of(DESIGN, stage=1))
    assert collector.window() is None


@pytest.mark.parametrize(("version", "hint"), [(2, "got 2; go on with the tacit that made it"), (4, "got 4")])
def test_a_database_of_another_version_is_refused(place, version, hint):
    collector = opened(place)
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = database(collector)
    with pytest.raises(InvalidInput, match="must have version 3") as refused:
        Collector(place / "collector")
    assert hint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert database(collector) == before


def test_pseudonyms_need_the_key_and_tell_people_apart():
    """Under another key all pseudonyms are others; names that differ in a letter, its case or its accent are others."""
    names = ["ann", "Ann", "anm", "änn", "ann b", "Zoë", "Zoe"]
    one, other = Pseudonyms(b"1" * 32), Pseudonyms(b"2" * 32)
    found = [keys.of(name) for keys in (one, other) for name in names]
    assert len(set(found)) == 2 * len(names)
    assert one.mark != other.mark
    plain = {hashlib.sha256(b"tacit person 1\n" + name.encode()).digest() for name in names}
    assert not plain & set(found), "a digest without the key can be guessed"
