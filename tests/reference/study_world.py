"""A small study that is driven over files: its parties, its people, and a log of what they saw outside of databases."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from study_fakes import REHEARSAL, body_of

from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Head, channels_of
from tacit.study.databases import SqliteDatabase
from tacit.study.device import Device
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report, sha256


def fast_directory() -> tempfile.TemporaryDirectory:
    """A directory in memory where there is one: these tests make thousands of transactions."""
    memory = Path("/dev/shm")  # noqa: S108
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


def report_of(study: bytes, stage: int, label: int, name: bytes | None = None) -> bytes:
    """A report with this label; its id is that of the label and stage unless it is given."""
    made = name or sha256(f"{stage}:{label}".encode())[:16]
    return Report(study=study, stage=stage, id=made, body=body_of(label)).encode()


class Log:
    """Lines in a file that survives every crash of a party: what was acknowledged, what was handed over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, **body: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"kind": kind, **body}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self, kind: str) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]


class HandsOverFirst(Collector):
    """A mutant: it hands the release over before it is recorded."""

    log: Log

    def _released(self, *arguments: Any, **options: Any) -> bytes:
        data = super()._released(*arguments, **options)
        self.log.write("view", digest=sha256(data).hex(), stage=ReleasePayload.parse(data).stage, bytes=data.hex())
        return data


def answer(place: Path, bundle: bytes, label: int) -> bytes:
    """The report of one person, frozen on a device of its own."""
    device = Device(place / "devices" / str(label), **REHEARSAL)
    found = device.accept(bundle)
    steps, states, actions = found["horizon"], len(found["states"]), len(found["actions"])
    trajectory = {
        "states": [label % states] * (steps + 1),
        "actions": [label % actions] * steps,
        "rewards": [found["rewards"][1]] * steps,
    }
    return device.report(trajectory)


def drive(place: Path, design: Any, edge: Any, *, mutant: bool = False, databases: Any = SqliteDatabase) -> None:
    """Carry a study from wherever it stands to its end; whoever crashes calls this again.

    `databases` makes the database of a party of its directory.
    """
    log = Log(place / "log")
    where = {name: databases(place / name) for name in ("study", "collector")}
    for name, kind, options in (("study", Study, {"seed": 3}), ("collector", Collector, {})):
        if not where[name].exists(name):
            kind.new(place / name, design, edge=edge, database=where[name], **options)
    study = Study(place / "study", edge=edge, database=where["study"])
    kind = HandsOverFirst if mutant else Collector
    collector = kind(place / "collector", edge=edge, database=where["collector"])
    if mutant:
        collector.log = log
    while True:
        data = study.plan()
        bundle = Bundle.parse(data)
        if bundle["query"] is None:
            return
        collector.open(data)
        state = collector.status()["state"]
        if state == "open":
            for i in range(bundle["least"]):
                label = bundle["stage"] * 100 + i
                report = answer(place, data, label)
                if collector.add(report, f"person {label}") in ("counted", "again"):
                    sent = Report.parse(report)
                    log.write("acknowledged", id=sent.id.hex(), body=sent.body.hex())
            collector.close()
        head = study.head
        release = collector.release(head)
        if not mutant:
            log.write("view", digest=sha256(release).hex(), stage=bundle["stage"], bytes=release.hex())
        study.take(release)


def tell_tale(body: bytes) -> bool:
    """Whether a body is long and mixed enough to be looked for in files."""
    return len(body) >= 12 and len(set(body)) >= 6


def audit(place: Path, design: Any, databases: Any = SqliteDatabase) -> dict[str, int]:
    """Everything that may not have happened, counted."""
    log = Log(place / "log")
    with databases(place / "collector").open("collector").reading() as database:
        outbox = dict(database.execute("SELECT digest, bytes FROM outbox").fetchall())
        records = database.execute("SELECT number, kind, body, digest FROM records").fetchall()
        ids = {row[0].hex() for row in database.execute("SELECT id FROM report")}
        bodies = database.execute("SELECT count(*) FROM body").fetchone()[0]
    with databases(place / "study").open("study").reading() as database:
        taken = dict(database.execute("SELECT digest, bytes FROM release").fetchall())
    views: dict[tuple[int, int], set[str]] = {}
    unpaid = uncommitted = 0
    draws = {number: digest for number, kind, _, digest in records if kind == "draw"}
    commits = {json.loads(body)["release"] for _, kind, body, _ in records if kind == "commit"}
    for line in log.read("view"):
        release = ReleasePayload.parse(bytes.fromhex(line["bytes"]))
        views.setdefault((release.stage, release.question), set()).add(line["digest"])
        unpaid += draws.get(release.charge.number) != release.charge.digest.hex()
        uncommitted += line["digest"] not in commits
    sent = [bytes.fromhex(line["body"]) for line in log.read("acknowledged")]
    raw = b"".join(path.read_bytes() for path in sorted((place / "collector").iterdir()))
    return {
        "two views": sum(len(found) > 1 for found in views.values()),
        "unpaid": unpaid,
        "uncommitted": uncommitted,
        "learner differs from outbox": int(taken != outbox),
        "bodies left": bodies + sum(body in raw for body in sent if tell_tale(body)),
        "acknowledged and lost": sum(line["id"] not in ids for line in log.read("acknowledged")),
        "missing": sum(channel.questions for channel in channels_of(design)) - len(outbox),
    }


def people(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


__all__ = ["HandsOverFirst", "Head", "Log", "audit", "drive", "fast_directory", "people", "report_of"]
