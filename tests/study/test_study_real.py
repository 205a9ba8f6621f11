"""Studies over files with the channels, the noise and the ledger of deployments: what nobody can make them do."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from scipy import stats
from study_fakes import REHEARSAL
from study_world import fast_directory

from tacit.accounting import people
from tacit.accounting.certificate import certificate_schema
from tacit.accounting.composition import epsilon_of
from tacit.accounting.people import PeopleLedger
from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.runs.signature import new_keys
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import GENESIS_HEAD, Head, left_out
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.record import export_policy
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report

ROOT = Path(__file__).parents[2]
KINDS = {
    "shuffle batches": {"learner": "bucb", "trust": "shuffle"},
    "shuffle totals": {"learner": "ucbvi", "trust": "shuffle"},
    "subset": {"learner": "psrl", "trust": "local", "mechanism": "subset"},
    "oue": {"learner": "psrl", "trust": "local", "mechanism": "oue"},
    "rr": {"learner": "psrl", "trust": "local", "mechanism": "rr"},
    "laplace": {"learner": "psrl", "trust": "local", "mechanism": "laplace"},
    "gaussian": {"learner": "psrl", "trust": "local", "mechanism": "gaussian"},
    "factorization": {"learner": "ucbvi", "trust": "central", "mechanism": "factorization"},
    "batched": {"learner": "ucbvi", "trust": "central", "mechanism": "batched"},
    "central batches": {"learner": "bucb", "trust": "central"},
    "gradient": {"learner": "dp-ppo:epochs=2", "trust": "central"},
    "returns": {"learner": "fair-lots", "trust": "local", "states": 1, "horizon": 1},
}
"""Every channel that a study can have."""
LOCAL = ("subset", "oue", "rr", "laplace", "gaussian", "returns")
PURE = ("subset", "oue", "rr", "laplace", "returns")
SIZES = {"states": 2, "actions": 2, "horizon": 2, "stages": 2, "target": 4, "least": 3, "epsilon": 1.0}
each = pytest.mark.parametrize("kind", KINDS)


@cache
def design_of(kind: str, **options) -> StudyDesign:
    return plan_study(**{**SIZES, "delta": 0.0 if kind in PURE else 1e-6, **KINDS[kind], **options})


@pytest.fixture
def place():
    with fast_directory() as folder:
        yield Path(folder)


def parties(place: Path, design: StudyDesign, **options) -> tuple[Study, Collector]:
    study = Study.new(place / "study", design, seed=1)
    return study, Collector.new(place / "collector", design, **options)


def lived(bundle: Bundle, i: int) -> dict[str, list[int]]:
    steps, states, actions = bundle["horizon"], len(bundle["states"]), len(bundle["actions"])
    return {
        "states": [(7 * i + 11 * h + 3) % states for h in range(steps + 1)],
        "actions": [(i + h) % actions for h in range(steps)],
        "rewards": [(i + h) % 2 for h in range(steps)],
    }


def report_of(data: bytes, i: int) -> bytes:
    device = Device(None, **REHEARSAL)
    return device.report(lived(device.accept(data), i))


def open_stage(study: Study, collector: Collector) -> bytes:
    data = study.plan()
    collector.open(data)
    return data


def add(collector: Collector, data: bytes, names: range) -> list[str]:
    return [collector.add(report_of(data, i), f"person {i}") for i in names]


def finish(study: Study, collector: Collector) -> list[ReleasePayload]:
    """All questions of the stage that is closed."""
    found = []
    while True:
        data = collector.release(study.head)
        found.append(ReleasePayload.parse(data))
        study.take(data, inspected=True)
        if collector.status()["state"] == "released":
            return found
        collector.open(study.plan())


def state_of(collector: Collector) -> str:
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        return hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()


def ledger_of(collector: Collector) -> list[str]:
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        return [row[0] for row in connection.execute("SELECT kind FROM records ORDER BY number")]


def bytes_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


# one view, paid, enough


@each
def test_a_stage_is_released_once_and_paid_once(kind, place):
    study, collector = parties(place, design_of(kind))
    data = open_stage(study, collector)
    # S9: under local trust the charge is in the ledger before a single message is made.
    assert ledger_of(collector).count("draw") == (kind in LOCAL)
    assert add(collector, data, range(3)) == ["counted"] * 3
    assert collector.close() == 3
    first = collector.release(GENESIS_HEAD)
    assert collector.release(GENESIS_HEAD) == Collector(place / "collector").release(GENESIS_HEAD) == first
    assert study.take(first, inspected=True) == "taken"
    assert collector.release(study.head) == first
    questions = 1 if collector.status()["state"] == "released" else 1 + len(finish_rest(study, collector))
    assert ledger_of(collector).count("draw") == ledger_of(collector).count("commit") == questions
    assert collector.status()["spent"]["epsilon"] <= 1.0
    collector.verify(study.head)
    with pytest.raises(InvalidInput):
        collector.void()
    with pytest.raises(InvalidInput):
        collector.close()


def finish_rest(study: Study, collector: Collector) -> list[ReleasePayload]:
    collector.open(study.plan())
    return finish(study, collector)


@each
def test_below_the_least_nothing_is_drawn(kind, place):
    study, collector = parties(place, design_of(kind))
    data = open_stage(study, collector)
    add(collector, data, range(2))
    collector.close()
    before = state_of(collector)
    with pytest.raises(InvalidInput, match="at least 3 reports"):
        collector.release(study.head)
    assert state_of(collector) == before


@each
def test_a_person_counts_once_in_a_stage_and_as_often_as_the_unit_says(kind, place):
    study, collector = parties(place, design_of(kind))
    data = open_stage(study, collector)
    assert add(collector, data, range(3)) == ["counted"] * 3
    assert add(collector, data, range(3)) == ["twice"] * 3
    collector.close()
    assert add(collector, data, range(3, 5)) == ["late"] * 2
    finish(study, collector)
    later = open_stage(study, collector)
    assert add(collector, later, range(2)) == ["used up"] * 2
    assert collector.add(report_of(data, 9), "person 9") == "late"


@each
def test_s3_a_restored_backup_is_refused_before_a_draw(kind, place):
    study, collector = parties(place, design_of(kind))
    data = open_stage(study, collector)
    add(collector, data, range(3))
    collector.close()
    shutil.copytree(place / "collector", place / "backup")
    finish(study, collector)
    restored = Collector(place / "backup")
    before = ledger_of(restored)
    for step in (lambda: restored.release(study.head), lambda: restored.open(study.plan())):
        with pytest.raises(InvalidInput, match="older copy"):
            step()
    assert ledger_of(restored) == before


# a stage that is given up


@pytest.mark.parametrize(("kind", "reports"), [("shuffle batches", 1), ("factorization", 1), ("gradient", 1)])
def test_void_gives_participation_back_where_nothing_was_paid(kind, reports, place):
    study, collector = parties(place, design_of(kind))
    add(collector, open_stage(study, collector), range(2))
    collector.void("too few came")
    study.void("too few came")
    data = open_stage(study, collector)
    assert add(collector, data, range(3)) == ["counted"] * 3
    collector.close()
    finish(study, collector)
    assert collector.status()["spent"]["epsilon"] <= 1.0
    assert ledger_of(collector).count("draw") == design_of(kind).parts().channels[0].questions


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("reports", [1, 2])
def test_a_void_local_stage_is_paid_and_its_second_attempt_is_paid_again(kind, reports, place):
    design = design_of(kind, reports_per_person=reports, stages=3)
    study, collector = parties(place, design)
    messages: dict[int, int] = {}

    def came(data: bytes, names: range) -> list[str]:
        answers = add(collector, data, names)
        for name, answer in zip(names, answers, strict=True):
            messages[name] = messages.get(name, 0) + (answer == "counted")
        return answers

    came(open_stage(study, collector), range(2))
    collector.void("too few came")
    study.void("too few came")
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM participation").fetchone() == (2,)
    data = open_stage(study, collector)
    assert ledger_of(collector).count("draw") == 2
    assert came(data, range(4)) == (["used up"] * 2 if reports == 1 else ["counted"] * 2) + ["counted"] * 2
    came(data, range(4, 6))
    collector.close()
    finish(study, collector)
    came(open_stage(study, collector), range(6))
    collector.close()
    # What every single person is exposed to: as many messages as were taken from them, in void stages too.
    message = design.parts().channels[0].events()
    worst = max(epsilon_of(message * count, design.delta) for count in messages.values())
    assert max(messages.values()) == reports
    spent = collector.status()["spent"]["epsilon"]
    assert worst <= spent * (1.0 + 1e-9) <= 1.0 + 1e-9
    collector.verify()


def test_a_stage_that_is_given_up_between_two_questions_stays_paid(place):
    """The first of two gradients is out: those who reported have paid, and others come for the second attempt."""
    study, collector = parties(place, design_of("gradient"))
    data = open_stage(study, collector)
    add(collector, data, range(3))
    collector.close()
    study.take(collector.release(study.head))
    collector.void("the second question is not asked")
    study.void("the second question is not asked")
    again = open_stage(study, collector)
    assert add(collector, again, range(3)) == ["used up"] * 3
    assert add(collector, again, range(3, 6)) == ["counted"] * 3
    collector.close()
    finish(study, collector)
    assert ledger_of(collector).count("draw") == 3
    assert collector.status()["spent"]["epsilon"] <= 1.0
    collector.verify(study.head)


# what an attacker brings


@each
def test_a_design_with_less_noise_than_it_claims_is_refused(kind, place):
    """Whoever writes a design cannot choose its noise: every number of every channel must follow from the rest."""
    plain = design_of(kind).to_dict()
    changed = 0
    for name, value in plain["channels"][0].items():
        for other in quieter(value):
            forged = {**plain, "channels": [{**one, name: other} for one in plain["channels"]]}
            changed += 1
            with pytest.raises(InvalidInput):
                Collector.new(place / f"c{changed}", StudyDesign.from_dict(forged))
            assert not (place / f"c{changed}" / "collector.db").exists()
    assert changed >= 2
    for name, value in {"epsilon": 0.5, "least": 2, "target": 5, "stages": 1}.items():
        with pytest.raises(InvalidInput):
            Collector.new(place / "c", StudyDesign.from_dict({**plain, name: value}))


def quieter(value):
    """Other numbers in the place of a number or a fraction."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        yield value - 1
        yield value + 1
    elif isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value) and value[0] > 0:
        yield [value[0], value[1] * 2 + 1]


def test_forged_bundles_and_releases_are_refused(place):
    design = design_of("shuffle batches")
    private, public = new_keys(place / "keys")
    other, _ = new_keys(place / "others")
    study = Study.new(place / "study", design, seed=1, key=private, collector=public)
    collector = Collector.new(place / "collector", design, key=private, learner=public)
    thief = Study.new(place / "thief", design, seed=2, key=other)
    before = state_of(collector)
    plain = Bundle.parse(thief.plan())
    unsigned = Study.new(place / "unsigned", design, seed=2).plan()
    edited = json.loads(study.plan())
    edited["policies"] = edited["policies"][:1] + edited["policies"][:1]
    for data in (thief.plan(), unsigned, json.dumps(edited, sort_keys=True, separators=(",", ":")).encode()):
        with pytest.raises(InvalidInput):
            collector.open(data)
    assert plain["stage"] == 0
    assert state_of(collector) == before
    add(collector, open_stage(study, collector), range(3))
    collector.close()
    release = collector.release(GENESIS_HEAD)
    for spot in range(0, len(release), 7):
        broken = bytearray(release)
        broken[spot] ^= 1
        with pytest.raises(InvalidInput):
            study.take(bytes(broken))
    assert study.take(release, inspected=True) == "taken"


def test_another_key_of_pseudonyms_is_found_out(place):
    """Under another key everybody would be a new person."""
    study, collector = parties(place, design_of("factorization"))
    add(collector, open_stage(study, collector), range(3))
    (place / "collector" / "people.key").write_bytes(bytes(32))
    with pytest.raises(InvalidInput, match="began with"):
        Collector(place / "collector")


def test_a_clock_that_goes_back_changes_nothing(place, monkeypatch):
    study, collector = parties(place, design_of("batched"))
    for stage, day in enumerate(("2031-01-01", "1999-12-31")):
        monkeypatch.setattr(people, "_today", lambda day=day: day)
        data = open_stage(study, collector)
        add(collector, data, range(3 * stage, 3 * stage + 3))
        collector.close()
        finish(study, collector)
    collector.verify(study.head)
    assert ledger_of(collector).count("draw") == 2


@pytest.mark.parametrize("kind", ["shuffle batches", pytest.param("factorization", marks=pytest.mark.slow)])
def test_s12_eight_processes_ask_for_one_release(kind, place):
    study, collector = parties(place, design_of(kind))
    add(collector, open_stage(study, collector), range(3))
    collector.close()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, str(ROOT / "tests" / "reference" / "study_race.py"), str(place / "collector")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    found = json.loads(done.stdout)
    assert found["codes"] == [0] * 8
    assert len(found["views"]) == 8
    assert len(set(found["views"])) == 1
    assert ledger_of(collector).count("draw") == ledger_of(collector).count("commit") == 1


def test_the_ledger_is_that_of_people_and_refuses_other_noise(place):
    _, collector = parties(place, design_of("subset"))
    with collector.store.step("test") as connection:
        ledger = PeopleLedger.within(connection)
        events = collector.channels[0].events()
        for noise in ("simulation", "none"):
            with pytest.raises(InvalidInput):
                ledger.draw(stage=0, question=0, events=events, noise=noise)
        with pytest.raises(InvalidInput):
            ledger.draw(stage=0, question=0, events=events * 2, noise="secure")


# what is left behind

NAMES = ("Wilhelmina Canary", "Zoë Kanarienvogel", "\udcffbyte canary", "p3", "p4")


@pytest.mark.parametrize("kind", ["factorization", "batched", "central batches", "gradient"])
def test_no_name_and_no_trajectory_is_left_in_any_file(kind, place):
    design = design_of(kind, states=60, horizon=6, stages=1, target=5, least=5)
    study, collector = parties(place, design)
    pieces = []
    data = open_stage(study, collector)
    for i, name in enumerate(NAMES):
        report = report_of(data, i)
        pieces.append(Report.parse(report).body)
        assert collector.add(report, name) == "counted"
    kept = bytes_of(place / "collector")
    assert all(piece in kept for piece in pieces)
    assert all(len(set(piece)) >= 6 for piece in pieces)
    collector.close()
    releases = finish(study, collector)
    collector.status(), collector.certificate(), study.plan()
    left = bytes_of(place / "collector")
    for where in (left, bytes_of(place / "study")):
        assert not [i for i, piece in enumerate(pieces) if piece in where]
        for name in (b"Wilhelmina", b"Canary", b"Kanarienvogel", b"byte canary"):
            assert name not in where
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        for table in ("body", "secret"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608
    assert releases[-1].noise == "secure"


def test_databases_are_their_owners(place):
    _, collector = parties(place, design_of("batched"))
    with collector.store.held(), collector.store.step("look"):
        found = [path for path in (place / "collector").iterdir() if path.is_file()]
        assert len(found) >= 3
        assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


def test_names_that_are_no_utf8_are_people_too(place):
    study, collector = parties(place, design_of("batched"))
    data = open_stage(study, collector)
    assert collector.add(report_of(data, 0), "\udcff") == "counted"
    assert collector.add(report_of(data, 1), "\udcfe") == "counted"
    assert collector.add(report_of(data, 2), "\udcff ") == "twice"


# the certificate


@each
def test_the_certificate_is_valid_and_says_which_noise_protected(kind, place):
    study, collector = parties(place, design_of(kind))
    plain = json.loads(json.dumps(collector.certificate().to_dict()))
    jsonschema.validate(plain, certificate_schema())
    assert plain["terms"]["noise"] == "secure"
    assert study.certificate().to_dict()["terms"]["noise"] == "secure"
    rehearsal = Collector.new(place / "rehearsal", design_of(kind), noise="simulation", seed=3)
    found = rehearsal.certificate()
    assert found.terms.noise == "simulation"
    jsonschema.validate(json.loads(json.dumps(found.to_dict())), certificate_schema())
    assert "would" in found.describe()
    assert "would" not in collector.certificate().describe()


# a public ladder of sizes


@pytest.mark.parametrize("kind", ["shuffle batches", "factorization", "gradient"])
def test_a_ladder_hides_how_many_came(kind, place):
    design = design_of(kind, target=8, least=3, ladder=(3, 6))
    assert "3 or 6 reports" in design.parts().certificate.terms.public["batch sizes"]
    study, collector = parties(place, design)
    for stage, (came, counted) in enumerate(((5, 3), (8, 6))):
        data = open_stage(study, collector)
        assert add(collector, data, range(10 * stage, 10 * stage + came)) == ["counted"] * came
        assert collector.close() == counted
        assert {release.people for release in finish(study, collector)} == {counted}
        assert collector.status()["stages"][-1]["reports"] == counted
    with contextlib.closing(sqlite3.connect(collector.store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM body").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM participation").fetchone() == (13,)


def test_a_ladder_is_kept_by_both_parties(place):
    design = design_of("factorization", target=8, least=3, ladder=(3, 6))
    study, collector = parties(place, design)
    data = open_stage(study, collector)
    add(collector, data, range(5))
    collector.close()
    release = ReleasePayload.parse(collector.release(GENESIS_HEAD))
    other = ReleasePayload(
        study=release.study, stage=0, question=0, people=5, noise="secure", charge=Head(number=9, digest=bytes(32)),
        payload=release.payload,
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="ladder"):
        study.take(other.encode())


@pytest.mark.parametrize("ladder", [(4, 8), (3, 3), (3, 9), (6, 3), (3, 0), (3, 2.5), ("3",)])
def test_ladders_that_do_not_fit_are_refused(ladder):
    with pytest.raises(InvalidInput):
        plan_study(**{**SIZES, "target": 8, "delta": 1e-6, **KINDS["batched"]}, ladder=ladder)


@pytest.mark.statistical
@pytest.mark.parametrize("source", ["secure", "simulation"])
def test_every_set_is_dropped_with_the_same_probability(source):
    """Chi-square over the ten pairs of five reports, false-alarm rate 1e-6."""
    noise = SecureNoise() if source == "secure" else SimulationNoise(np.random.default_rng(2))
    found = Counter(tuple(left_out(5, 3, noise)) for _ in range(1000))
    assert set(found) == set(itertools.combinations(range(5), 2))
    assert stats.chisquare([*found.values()]).pvalue > 1e-6


def test_a_ladder_on_the_command_line(place, capsys):
    words = "--states 2 --actions 2 --horizon 2 --learner bucb --trust shuffle --epsilon 1 --delta 1e-6 --stages 1"
    common = ["study", "new", str(place / "s"), *words.split(), "--target", "8", "--least", "3", "--json"]
    for wrong in ("3,x", "4,8", "", "3,,4"):
        assert main([*common, "--ladder", wrong]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["exit"] == 2
        assert not (place / "s").exists()
    assert main([*common, "--ladder", "3,6"]) == 0
    assert json.loads(capsys.readouterr().out)["design"]["ladder"] == [3, 6]


def test_a_ladder_needs_stages_of_one_size_that_are_not_public():
    with pytest.raises(InvalidInput, match="local trust"):
        plan_study(**{**SIZES, "delta": 0.0, **KINDS["subset"]}, ladder=(3,))


# verification


def test_verify_says_true_or_false_of_study_collector_and_policy(place, capsys):
    private, public = new_keys(place / "keys")
    _, foreign = new_keys(place / "others")
    design = design_of("batched")
    study = Study.new(place / "study", design, seed=1, key=private)
    collector = Collector.new(place / "collector", design, key=private)
    add(collector, open_stage(study, collector), range(3))
    collector.close()
    finish(study, collector)
    policy = export_policy(study, place / "policy.json")
    targets = (place / "study", place / "collector", policy)
    for target in targets:
        # That noise was secure, a policy that was handed out cannot show: a key of its study can.
        alone = (1, "not verified") if target == policy else (0, "true")
        assert (main(["verify", str(target)]), capsys.readouterr().out.partition(":")[0]) == alone
        assert main(["verify", str(target), "--key", str(public)]) == 0
        assert main(["verify", str(target), "--key", str(foreign), "--json"]) == 1
        capsys.readouterr()
    assert main(["study", "verify", str(place / "study")]) == 0
    for name in ("study", "collector"):
        assert main(["verify", str(place / "nowhere" / name)]) == 2
    forge(place)
    for target in targets:
        capsys.readouterr()
        assert main(["verify", str(target)]) == 1, target
        assert capsys.readouterr().out.startswith("FALSE: ")
    assert main(["study", "verify", str(place / "study")]) == 1


def forge(place: Path) -> None:
    """A learned belief, a ledger record and a claim that are not what they were."""
    with contextlib.closing(sqlite3.connect(place / "study" / "study.db", isolation_level=None)) as connection:
        (guard,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'belief_no_update'").fetchone()
        connection.execute("DROP TRIGGER belief_no_update")
        connection.execute("UPDATE belief SET coins = replace(coins, '1', '2') WHERE step = 2")
        connection.execute(guard)
    with contextlib.closing(sqlite3.connect(place / "collector" / "collector.db", isolation_level=None)) as connection:
        name, guard = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%UPDATE ON records%'"
        ).fetchone()
        connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE records SET body = replace(body, 'secure', 'simulation') WHERE kind = 'draw'")
        assert connection.execute("SELECT changes()").fetchone() == (1,)
        connection.execute(guard)
    content = json.loads((place / "policy.json").read_text())
    content["certificate"]["epsilon"] = 0.5
    (place / "policy.json").write_text(json.dumps(content))
