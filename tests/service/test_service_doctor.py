"""`tacit doctor`: every check fails when it should, and looking changes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import time

import pytest
from shuffler_world import Place, talking

from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.service.config import LearnerConfig, read_config
from tacit.service.encryption.keyring import Keyring
from tacit.service.health_checks import check_up
from tacit.study.contract import Head
from tacit.study.wire import ReleasePayload


@pytest.fixture
def place(tmp_path):
    """A shuffler that has run one stage to its release, and opened the next."""
    made = Place(tmp_path, config="window_seconds = 1000")

    async def scene():
        async with talking(made) as talk:
            await talk.open()
            for label in range(6):
                await talk.send(label)
            await talk.made.windows.once()
            release = ReleasePayload.parse((await talk.release()).content)
            await talk.open(1, 1, head=release.head.text)
            return release.head

    made.head = asyncio.run(scene())
    return made


def found(place, **more):
    """The checks that failed, and those that warn."""
    findings = check_up(place.config, sleep=lambda seconds: None, **more)
    states = {state: {one.check for one in findings if one.state == state} for state in ("failed", "warning", "ok")}
    return states["failed"], states["warning"], states["ok"]


def test_a_healthy_shuffler(place, capsys):
    before = {path: path.read_bytes() for path in place.directory.rglob("*") if path.suffix in (".db", ".json", ".key")}
    failed, warning, ok = found(place, head=place.head)
    assert (failed, warning) == (set(), set())
    assert ok == {"secrets", "keys", "clock", "disk", "database", "ledger", "batch"}
    assert main(["doctor", "shuffler", str(place.file), "--head", place.head.text, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"] is True
    assert all(set(row) == {"check", "state", "words"} for row in report["findings"])
    assert {path: path.read_bytes() for path in before} == before


def test_keys_that_others_may_read_are_found(place, capsys):
    os.chmod(place.sign, 0o644)
    assert found(place)[0] == {"keys"}
    assert main(["doctor", "shuffler", str(place.file)]) == 1
    assert "chmod 600" in capsys.readouterr().out
    os.chmod(place.sign, 0o600)
    ring = Keyring(place.directory / "collector" / "sealing")
    path = ring.directory / f"{ring.active.hex()}.key"
    os.chmod(path, 0o640)
    assert found(place)[0] == {"keys"}
    path.unlink()
    assert found(place)[0] == {"keys"}


def test_a_secret_that_others_may_read_is_found(place):
    os.chmod(place.directory / "bearer", 0o604)
    assert found(place)[0] == {"secrets"}


def test_expired_keys_and_old_ones_are_warned_of(place):
    ring = Keyring(place.directory / "collector" / "sealing")
    ring.rotate(time.time(), grace=0)
    wall = [time.time() + 400.0]
    assert "keys" in found(place, wall=lambda: wall[0])[1]
    ring.forget(wall[0])
    assert "keys" not in found(place)[1]
    old = time.time() - 100 * 86_400
    os.utime(ring.directory / "keyring.json", (old, old))
    assert "keys" in found(place)[1]


def test_clocks_that_are_wrong_are_found(place):
    back = time.time() - 5000.0
    failed = found(place, wall=lambda: back)[0]
    assert failed == {"clock", "batch"}  # files of the future, and a window that is longer than it can be
    ticks = iter([0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0])
    start = time.time()
    assert "clock" in found(place, wall=lambda: start + next(ticks))[0]
    assert "clock" in found(place, wall=lambda: 1000.0)[0]


def test_a_disk_that_is_too_small_is_found(place, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 2**20))
    assert found(place)[0] == {"disk"}


def test_a_small_batch_near_the_end_of_its_window_is_warned_of(place):
    start = time.time()
    assert "batch" not in found(place)[1]
    assert "batch" in found(place, wall=lambda: start + 950.0)[1]


def test_another_schema_or_ledger_is_found(place):
    failed = found(place, head=Head(number=77, digest=bytes(range(32))))[0]
    assert failed == {"database"}
    with sqlite3.connect(place.database) as connection:
        connection.execute("PRAGMA user_version = 1")
    assert found(place)[0] >= {"database"}


def test_another_design_is_found(place):
    plain = json.loads((place.directory / "design.json").read_bytes())
    (place.directory / "design.json").write_text(json.dumps({**plain, "name": "another"}))
    assert found(place)[0] == {"database"}
    (place.directory / "design.json").write_text("[]")
    assert found(place)[0] == {"database"}


def test_what_cannot_be_read_is_your_input(place, tmp_path, capsys):
    for words in (["nobody", str(place.file)], ["shuffler", str(tmp_path / "none.toml")]):
        assert main(["doctor", *words]) == 2
    assert main(["doctor", "shuffler", str(place.file), "--head", "no head"]) == 2
    assert "error:" in capsys.readouterr().err


def test_a_learner_whose_shuffler_does_not_answer(tmp_path, capsys):
    secret = tmp_path / "secret"
    secret.write_text("a canary of a secret")
    os.chmod(secret, 0o600)
    path = tmp_path / "learner.toml"
    path.write_text(
        """
        directory = "learner"
        design = "design.json"
        bearer = {file = "secret"}
        [shuffler]
        url = "http://127.0.0.1:1"
        bearer = {file = "secret"}
        """
    )
    findings = {one.check: one for one in check_up(read_config(path, LearnerConfig))}
    assert findings["shuffler"].state == "warning", "systemd looks before every start, in any order"
    assert findings["database"].state == "warning"
    findings = [one for one in check_up(read_config(path, LearnerConfig)) if one.state == "failed"]
    assert main(["doctor", "learner", str(path)]) == (1 if findings else 0)
    assert "shuffler" not in {one.check for one in findings}
    assert "canary" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('directory = "a"\nbearer = \n', "line 2, column 10"),
        ('directory = "a"\n\n[shuffler]\nurl = 3\n', "line 4, .*shuffler.url"),
        ('directory = "a"\nbearer = {file = "b"}\n[shuffler]\nulr = "canary"\n', "line 4, .*unknown field `ulr`"),
    ],
)
def test_errors_of_a_configuration_show_the_line_and_no_value(text, words, tmp_path):
    (tmp_path / "learner.toml").write_text(text)
    with pytest.raises(InvalidInput, match=words) as refused:
        read_config(tmp_path / "learner.toml", LearnerConfig)
    assert "canary" not in str(refused.value)
