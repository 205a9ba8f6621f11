"""Restored older databases, other schemas, wrong clocks, and keys that rotate while people report."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chaos.clients import Writers, insist
from chaos.oracle import Sent
from chaos.parties import Parties, status
from chaos.sealed_worlds import sealed_world
from chaos.worlds import World, bad, row, until, world
from tacit.service.encryption.keyring import Keyring
from tacit.study.contract import GENESIS_HEAD
from tacit.study.store import SCHEMA_VERSION

TARGET, LEAST = 6, 3
SCALES = {"ci": {"rotations": 3, "reports": 200}, "chaos": {"rotations": 20, "reports": 4000}}


def run(scale: str = "chaos", seed: int = 0) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    return [restored(), postgres(), schema(), clocks(), rotation(**size), rotation_inside()]


def restored() -> dict[str, Any]:
    """A backup from before a release, put back after it: refused before anything is drawn; the true one goes on."""
    with world(stages=4, target=TARGET, least=LEAST, labels=80) as it:
        kept = it.parties.directory / "backup"

        def copy() -> None:
            it.parties.copy("shuffler", kept / "old")

        def swap(name: str) -> None:
            it.parties.restore("shuffler", kept / name)

        def keep() -> None:
            shutil.copytree(it.parties.state("shuffler"), kept / "true")

        return _restored(it, "SQLite", copy, keep, swap)


def postgres() -> dict[str, Any]:
    """The same on a PostgreSQL server, where there is one."""
    import _pytest.outcomes
    import postgres as server_of_tests

    try:
        with server_of_tests.running() as server:
            url = server.database()
            live = url.rpartition("/")[2]
            options = {"options": {"shuffler": {"database": url}, "learner": {"database": server.database()}}}
            with world(stages=4, target=TARGET, least=LEAST, labels=80, parties=options) as it:

                def copy() -> None:
                    it.parties.kill("shuffler")
                    server.sql(f"CREATE DATABASE old TEMPLATE {live}")
                    it.parties.start("shuffler")

                def keep() -> None:
                    server.sql(f"ALTER DATABASE {live} RENAME TO true_one")

                def swap(name: str) -> None:
                    server.sql(f"DROP DATABASE IF EXISTS {live}")
                    server.sql(f"CREATE DATABASE {live} TEMPLATE {'true_one' if name == 'true' else name}")

                return _restored(it, "PostgreSQL", copy, keep, swap)
    except _pytest.outcomes.Skipped as reason:
        return row("restored older database (PostgreSQL)", "refused", "not run", True, str(reason))


def _restored(it: World, kind: str, copy: Any, keep: Any, swap: Any) -> dict[str, Any]:
    it.parties.start()
    it.await_stage(0)
    it.fill(TARGET)
    it.await_taken(1)
    it.await_stage(1)
    it.fill(LEAST)
    copy()  # stage 1 is open
    it.fill(TARGET - LEAST)
    it.await_taken(2)
    it.await_stage(2)
    head = status(it.parties, "learner")["head"]
    seen = sorted(path.name for path in it.parties.views.iterdir())
    it.parties.kill("learner")
    it.parties.kill("shuffler")
    keep()
    swap("old")
    it.parties.start()
    until(lambda: status(it.parties, "learner")["worker"]["outcome"] == "refused")
    word = status(it.parties, "learner")["worker"]["word"]
    said = {}
    with contextlib.closing(it.parties.internally("shuffler")) as wire:
        wire.ask("POST", "/v1/stages/1/close")
        for name, given in (("the learner's head", head), ("the head of a stage before", GENESIS_HEAD.text)):
            reply = wire.ask("POST", "/v1/stages/1/questions/0/release", given.encode())
            said[name] = "none" if reply is None else f"{reply.status} {reply.slug}"
    early = len(sorted(path.name for path in it.parties.views.iterdir())) - len(seen)
    it.parties.kill("learner")
    it.parties.kill("shuffler")
    swap("true")
    it.parties.start()
    it.await_stage(2)
    it.fill(TARGET)
    it.await_taken(3)
    found = {} if kind != "SQLite" else bad(it.audit())
    if kind != "SQLite":  # the audit reads files; views are enough here
        names = [path.name.rpartition("-")[0] for path in it.parties.views.iterdir()]
        found = {} if sorted(names) == ["0-0", "1-0", "2-0"] else {"views": names}
    met = early == 0 and all(one.startswith("4") for one in said.values()) and not found
    detail = "the learner stops, a second release of the stage is refused, the true database goes on"
    counts = {"word": word[:160], "said": said, "findings": found}
    return row(f"restored older database ({kind})", "refused", early, met, detail, **counts)


def schema() -> dict[str, Any]:
    """Databases of another version, older or newer, are not opened, and are left as they were."""
    said: dict[str, str] = {}
    with world(stages=3, target=TARGET, least=LEAST, labels=80) as it:
        it.parties.start()
        it.await_stage(0)
        it.fill(TARGET)
        it.await_taken(1)
        it.await_stage(1)
        it.fill(LEAST)
        for party, kind in (("shuffler", "collector"), ("learner", "study")):
            it.parties.kill(party)
            file = it.parties.state(party) / f"{kind}.db"
            for name, number in (("newer", SCHEMA_VERSION + 96), ("older", SCHEMA_VERSION - 1)):
                _version(file, number)
                said[f"{party}, {name}"] = _last(it.parties.refused(party))
            _version(file, SCHEMA_VERSION)
            it.parties.start(party)
        it.fill(TARGET - LEAST)
        it.await_taken(2)
        found = bad(it.audit())
    said = {name: word.replace(str(it.parties.directory), "DIRECTORY") for name, word in said.items()}
    wrong = sum(f"must have version {SCHEMA_VERSION}" not in word for word in said.values())
    return row("wrong schema", "refused", wrong, wrong == 0 and not found, said=said)


def clocks() -> dict[str, Any]:
    """A shuffler whose clock is wrong after a restart: states only move forward, ends are those in the database."""
    said: dict[str, Any] = {}
    day = 86_400.0
    with world(stages=4, target=TARGET, least=LEAST, labels=80) as it:
        it.parties.start()
        it.await_stage(0)
        it.fill(TARGET)
        it.await_taken(1)
        it.await_stage(1)
        it.fill(LEAST - 1)
        ends = status(it.parties, "shuffler")["ends"]
        said["a year back"] = _at(it, -365 * day)
        said["the end stays"] = status(it.parties, "shuffler")["ends"] == ends
        said["an hour ahead"] = _at(it, 3600.0)
        it.fill(1)
        said["two days ahead, enough reports"] = _at(it, 2 * day)
        it.await_taken(2)
        said["back again"] = _at(it, -2 * day)[:2]
        it.parties.kill("learner")
        it.parties.skew = -365 * day
        it.parties.start("learner")  # its lease ends in the future of this clock, and nobody holds it
        it.await_stage(2)
        it.fill(TARGET)
        it.await_taken(3)
        found = bad(it.audit())
    expected = {
        "a year back": ["released", "open"],
        "the end stays": True,
        "an hour ahead": ["released", "open"],
        "two days ahead, enough reports": ["released", "over"],
        "back again": ["released", "released"],
    }
    wrong = {name: said[name] for name in expected if said[name] != expected[name]}
    return row(
        "clock skew of shuffler and learner", "per rule", len(wrong), not wrong and not found, said=said, findings=found
    )


def rotation(rotations: int, reports: int, writers: int = 24) -> dict[str, Any]:
    """The shuffler's keys rotate while people report, to the key before and to the new one: nobody is turned away."""
    words: Counter[str] = Counter()
    options = {"options": {"shuffler": {"tick_seconds": 0.1}}}
    with world(stages=1, target=reports + 1, least=reports, labels=reports + 1, parties=options) as it:
        it.parties.start()
        it.await_stage(0)
        ring = Keyring(it.parties.home("shuffler") / "sealing")
        used = [it.sender.fetch_key().id]

        def jobs() -> Any:
            part = reports // rotations
            for number in range(reports):
                if number % part == part // 2:
                    ring.rotate(time.time(), grace=3600)
                if number % part == part - 1:  # until now people have the key before
                    until(lambda: it.sender.fetch_key().id == ring.active)
                    used.append(ring.active)
                yield it.person(0)

        def told(sent: Sent, reply: Any, tries: int) -> None:
            words[it.told(sent, reply)] += 1

        crowd = Writers(it.parties.public("shuffler"), jobs(), told, number=writers)
        crowd.start()
        crowd.join(300.0)
        found = bad(it.audit())
    rejected = sum(words.values()) - words["counted"]
    met = rejected == 0 and words["counted"] == reports and len(set(used)) == rotations + 1 and not found
    detail = f"{reports} reports under {len(set(used))} keys, {rotations} rotations"
    return row("key rotation of the shuffler under load", "0 rejects", rejected, met, detail, words=dict(words))


def rotation_inside() -> dict[str, Any]:
    """The learner's keys rotate within a stage: everybody seals to the key of the bundle, and is opened."""
    with sealed_world(1, 8) as it:
        it.enrol(8)
        it.parties.start()
        it.await_asked(0)
        ring = Keyring(it.parties.home("learner") / "sealing")
        before = _serial(it.parties)
        for half in range(2):
            for thread in it.crowd(4):
                thread.join(90.0)
            if half == 0:
                ring.rotate(time.time(), grace=3600)
                kept = _serial(it.parties) == before < ring.serial
        it.await_taken(1)
        found = bad(it.audit())
    rejected = sum(it.answers.values()) - it.answers["counted"]
    met = rejected == 0 and it.answers["counted"] == 8 and not found and kept
    return row(
        "key rotation of the learner in a stage", "0 rejects", rejected, met, answers=dict(it.answers), findings=found
    )


def _serial(parties: Parties) -> int:
    """The serial of the learner's keys in the bundle that the shuffler relays."""
    import json

    with contextlib.closing(parties.publicly("shuffler")) as wire:
        found = insist(lambda: wire.ask("GET", "/v1/bundle"), lambda reply: reply.status == 200)
    return int(json.loads(found.body)["keys"]["learner"]["serial"])


def _at(it: World, skew: float) -> list[str]:
    """The states of the stages 0 and 1 of a shuffler with this clock; a stage that was released meanwhile is over."""
    it.parties.kill("shuffler")
    it.parties.skew = skew
    it.parties.start("shuffler")
    it.parties.skew = 0.0
    states = [one["state"] for one in status(it.parties, "shuffler")["stages"]]
    return [
        "over" if skew > 86_400.0 and place == 1 and state in ("closed", "released") else state
        for place, state in enumerate(states[:2])
    ]


def _version(file: Path, number: int) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute(f"PRAGMA user_version = {number}")


def _last(words: str) -> str:
    return words.strip().splitlines()[-1][-200:] if words.strip() else ""
