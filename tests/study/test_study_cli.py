"""`tacit study`, `tacit collect` and `tacit device`: a study over files, and forty ways to be refused."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from study_fakes import FakeDesign, bundle_of
from study_world import fast_directory, report_of

from tacit.cli import main
from tacit.documents import canonical
from tacit.runs.signature import new_keys
from tacit.study.contract import GENESIS_HEAD
from tacit.study.wire import ReleasePayload, Report

DESIGN = FakeDesign(kind="test-stamped", stages=2)
ZOE = "zoe-the-patient"
LIMITS = ("--cap", "1", "--floor", "1", "--unsigned")


@pytest.fixture
def place(monkeypatch):
    with fast_directory() as folder:
        monkeypatch.chdir(folder)
        yield Path(folder)


@pytest.fixture
def cli(capsys):
    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def said(cli, *words: object) -> dict:
    code, out, err = cli(*words, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


def begun(place: Path, cli) -> None:
    (place / "design.json").write_bytes(canonical(DESIGN.to_dict()))
    said(cli, "study", "new", "S", "--design", "design.json")
    said(cli, "collect", "new", "C", "--design", "S/design.json")


def report(place: Path, cli, person: int, stage: int) -> Path:
    trajectory = place / f"t{person}.json"
    content = {"states": [person, 0], "actions": ["wait", "treat"], "rewards": [1, 2]}
    trajectory.write_text(json.dumps(content))
    out = place / "reports" / f"p{person}.tcr"
    words = ("device", "report", f"S/bundle-{stage}-0.json", trajectory, "--state", f"d{person}", *LIMITS)
    found = said(cli, *words, "--out", out)
    assert found["bytes"] == out.stat().st_size
    return out


def state_of(place: Path) -> dict[str, object]:
    """Everything the parties keep, but for the counters of refusals."""
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        if path.suffix == ".db":
            with contextlib.closing(sqlite3.connect(path)) as connection:
                lines = [line for line in connection.iterdump() if 'INTO "rejected"' not in line]
            found[str(path)] = "\n".join(lines)
        elif path.is_file() and path.name[-4:] not in ("-wal", "-shm"):
            found[str(path)] = path.read_bytes()
        elif path.is_dir():
            found[str(path)] = None
    return found


def test_a_study_over_files(place, cli):
    begun(place, cli)
    head = GENESIS_HEAD.text
    for stage in range(2):
        planned = said(cli, "study", "plan", "S")
        assert planned["stage"] == stage
        assert said(cli, "study", "plan", "S")["digest"] == planned["digest"]
        said(cli, "collect", "open", "C", planned["file"])
        shutil.rmtree(place / "reports", ignore_errors=True)
        (place / "reports").mkdir()
        files = [report(place, cli, stage * 4 + i, stage) for i in range(4)]
        words = ("device", "cover", planned["file"], "--state", f"cover{stage}", *LIMITS)
        cover = said(cli, *words, "--out", f"cover{stage}.tcr")
        assert cover["bytes"] == files[0].stat().st_size
        assert said(cli, "collect", "add", "C", "reports") == {"counted": 4, "again": 0, "refused": {}}
        assert said(cli, "collect", "add", "C", files[0]) == {"counted": 0, "again": 1, "refused": {}}
        assert said(cli, "collect", "close", "C") == {"reports": 4}
        made = said(cli, "collect", "release", "C", "--head", head)
        assert made["signature"] == "unsigned"
        assert said(cli, "collect", "release", "C", "--head", head)["digest"] == made["digest"]
        assert said(cli, "study", "take", "S", made["file"])["outcome"] == "taken"
        head = said(cli, "study", "status", "S")["head"]
    last = said(cli, "study", "plan", "S")
    assert (last["asks"], last["stage"]) == (False, 2)
    assert said(cli, "study", "verify", "S")["true"]
    exported = said(cli, "study", "export", "S", "policy.json")
    assert exported["head"] == head
    assert said(cli, "policy", "show", "policy.json")["signature"] == "unsigned"
    assert said(cli, "study", "certificate", "S")["holds"]
    assert [row["reports"] for row in said(cli, "collect", "certificate", "C")["realised"]] == [4, 4]
    assert said(cli, "collect", "status", "C")["people"] == 8
    assert said(cli, "study", "kill", "S")["state"] == "ended"
    assert said(cli, "study", "plan", "S")["kill"]


def test_words_for_people_who_read(place, cli):
    begun(place, cli)
    said(cli, "study", "plan", "S")
    for words in ("study plan S", "study status S", "study certificate S", "collect open C S/bundle-0-0.json"):
        code, out, err = cli(*words.split())
        assert (code, err) == (0, "")
        assert out
    said(cli, "device", "cover", "S/bundle-0-0.json", "--state", "d", *LIMITS, "--out", f"{ZOE}.tcr")
    code, out, err = cli("collect", "add", "C", f"{ZOE}.tcr")
    assert (code, out, err) == (0, "counted 1, there already 0\n", "")
    code, out, err = cli("collect", "add", "C", "--person", "somebody else", f"{ZOE}.tcr")
    assert (code, out) == (2, "counted 0, there already 0\n")
    assert err == "refused 1: the id of another report\n"
    code, out, err = cli("collect", "status", "C")
    assert (code, err) == (0, "")
    assert ZOE not in out
    code, out, _ = cli("collect", "void", "C", "--reason", "too few came")
    assert (code, out) == (0, "the stage is void; nothing was released\n")
    assert cli("study", "void", "S")[0] == 0
    assert said(cli, "study", "plan", "S")["stage"] == 1


def test_a_reader_for_another_kind_of_file_is_one_entry(place, cli, monkeypatch):
    from tacit.cli import collect

    begun(place, cli)
    said(cli, "collect", "open", "C", said(cli, "study", "plan", "S")["file"])
    study = bytes.fromhex(DESIGN.digest)
    monkeypatch.setitem(
        collect.READERS, ".many", lambda collector, path, person: ((report_of(study, 0, i), f"p{i}") for i in range(3))
    )
    (place / "log.many").write_bytes(b"")
    assert said(cli, "collect", "add", "C", "log.many")["counted"] == 3


@pytest.fixture
def scene(place, cli):
    """A study whose first stage is open at the collector, with files of every kind, good and bad."""
    begun(place, cli)
    private, _ = new_keys(place / "keys")
    new_keys(place / "others")
    said(cli, "study", "plan", "S")
    said(cli, "collect", "open", "C", "S/bundle-0-0.json")
    study = bytes.fromhex(DESIGN.digest)
    (place / f"{ZOE}.tcr").write_bytes(report_of(study, 0, 1))
    said(cli, "collect", "add", "C", f"{ZOE}.tcr")
    good = {"states": [1, 0], "actions": [0, 1], "rewards": [0, 1]}
    (place / "good.json").write_text(json.dumps(good))
    files = {
        "empty": b"",
        "words": b"hello",
        "short.tcr": report_of(study, 0, 2)[:-1],
        "long.tcr": report_of(study, 0, 2) + b"x",
        "other.tcr": report_of(bytes(32), 0, 2),
        "future.tcr": report_of(study, 9, 2),
        "taken.tcr": Report(study=study, stage=0, id=Report.parse(report_of(study, 0, 1)).id, body=b"x").encode(),
        "empty.tcr": b"",
        "report.txt": report_of(study, 0, 2),
        "other-study.json": bundle_of(FakeDesign(name="other")),
        "signed.json": bundle_of(DESIGN, key=private),
        "second.json": bundle_of(DESIGN, stage=1, slot=1),
        "fork.json": bundle_of(DESIGN, previous="11" * 32),
        "unknown.json": canonical({**json.loads(bundle_of(DESIGN)), "more": ZOE}),
        "spaces.json": json.dumps(json.loads(bundle_of(DESIGN))).encode(),
        "ends.json": bundle_of(
            DESIGN, stage=1, kill=True, **dict.fromkeys(("slot", "query", "channel", "target", "least"))
        ),
        "list.json": b"[1, 2]",
        "nan.json": b'{"states": [NaN], "actions": [], "rewards": []}',
        "names.json": json.dumps({**good, "states": [ZOE, "s1"]}).encode(),
        "deep.json": b"[" * 100_000,
        "made-up.tcl": ReleasePayload(
            study=study, stage=0, question=0, people=2, noise="secure", charge=GENESIS_HEAD, payload=b"x"
        ).encode(),
        "foreign.tcl": ReleasePayload(
            study=bytes(32), stage=0, question=0, people=5, noise="secure", charge=GENESIS_HEAD, payload=b"x"
        ).encode(),
        "design-of-nobody.json": canonical({**DESIGN.to_dict(), "more": 1}),
    }
    for name, data in files.items():
        (place / name).write_bytes(data)
    (place / "directory").mkdir()
    return place


NOW = GENESIS_HEAD.text
REFUSED = [
    "study new S --design design.json",
    "study new X",
    "study new X --design nowhere.json",
    "study new X --design empty",
    "study new X --design list.json",
    "study new X --design design-of-nobody.json",
    "study new X --design deep.json",
    "study new X --design design.json --epsilon 1",
    "study new good.json/x --design design.json",
    "study new X --states 4 --actions 2 --horizon 6 --trust shuffle --epsilon 1 --delta 1e-6 --stages 3",
    "study plan nowhere",
    "study plan C",
    "study plan S --out good.json",
    "study plan S --out good.json/x",
    "study plan S --key nowhere.pem",
    "study take S nowhere.tcl",
    "study take S empty",
    "study take S words",
    "study take S made-up.tcl",
    "study take S foreign.tcl",
    "study take S made-up.tcl --key keys/public.pem",
    "study take S made-up.tcl --key words",
    "study status nowhere",
    "study export S policy.json",
    "study verify nowhere",
    "study void nowhere",
    "study kill nowhere",
    "collect new C --design design.json",
    "collect new X --design nowhere.json",
    "collect new X --design words",
    "collect new X --design design-of-nobody.json",
    "collect open nowhere S/bundle-0-0.json",
    "collect open C nowhere.json",
    "collect open C words",
    "collect open C other-study.json",
    "collect open C second.json",
    "collect open C fork.json",
    "collect open C unknown.json",
    "collect open C spaces.json",
    "collect open C ends.json",
    "collect open C S/bundle-0-0.json --key keys/public.pem",
    "collect open C signed.json --key others/public.pem",
    "collect add C nowhere.tcr",
    "collect add C short.tcr",
    "collect add C long.tcr",
    "collect add C empty.tcr",
    "collect add C other.tcr",
    "collect add C future.tcr",
    "collect add C taken.tcr",
    "collect add C report.txt",
    f"collect add C {ZOE}-gone.tcr",
    f"collect add C {ZOE}.txt",
    f"collect add C {ZOE}.tcr {ZOE}-gone.tcr",
    "collect add C directory",
    f"collect add C {ZOE}.tcr --person somebody",
    f"collect add C {ZOE}.tcr other.tcr --person somebody",
    "collect add nowhere short.tcr",
    f"collect release C --head {NOW}",
    "collect release C --head 5",
    "collect release C",
    f"collect release nowhere --head {NOW}",
    "collect close nowhere",
    "collect void nowhere",
    "collect status S",
    "device report nowhere.json good.json --state d --cap 1 --floor 1 --unsigned",
    "device report words good.json --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json nowhere.json --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json list.json --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json nan.json --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json names.json --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json deep.json --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --floor 1 --unsigned --cap 0.1",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --floor 1 --unsigned --cap nan",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --floor 1 --unsigned --floor 5",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --floor 1 --key keys/public.pem",
    "device report signed.json good.json --state d --cap 1 --floor 1 --key others/public.pem",
    "device report unknown.json good.json --state d --cap 1 --floor 1 --unsigned",
    "device report ends.json good.json --state good.json --cap 1 --floor 1 --unsigned",
    "device cover S/bundle-0-0.json --state d --cap 1 --floor 1 --unsigned --floor 0",
    "device cover words --state d --cap 1 --floor 1 --unsigned",
    "device report S/bundle-0-0.json good.json --state d --floor 1 --unsigned",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --unsigned",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --floor 1",
    "device report S/bundle-0-0.json good.json --state d --cap 1 --floor 1 --unsigned --key keys/public.pem",
]


def test_what_is_refused_changes_nothing_and_names_nobody(scene, cli):
    assert len(REFUSED) >= 40
    before = state_of(scene)
    for words in REFUSED:
        code, out, err = cli(*words.split())
        assert code == 2, (words, out, err)
        assert err, words
        assert ZOE not in out + err, words
        after = state_of(scene)
        assert after == before, (words, [path for path in after if after.get(path) != before.get(path)])


def test_an_unknown_head_stops_a_collector_for_good(scene, cli):
    unknown = f"7:{'ab' * 32}"
    for words in (f"collect release C --head {unknown}", f"collect release C --head {NOW}", "collect close C"):
        code, _, err = cli(*words.split())
        assert code == 2
        assert "must hold record 7" in err
        assert len(err.strip().splitlines()) == 1
    code, out, _ = cli("collect", "status", "C")
    assert code == 0
    assert f"stopped for good, without record {unknown}" in out


def test_a_device_that_was_told_to_stop_sends_nothing(scene, cli):
    code, out, err = cli("device", "report", "ends.json", "good.json", "--state", "d", *LIMITS)
    assert (code, out) == (2, "")
    assert "ended" in err
    assert not list(scene.glob("d/*.tcr"))
