"""A shuffler in memory for tests of devices: real keys, real envelopes, a real collector, and faults on demand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from tacit.runs.signature import new_keys
from tacit.service.device import PinnedKeys, RemoteDevice
from tacit.service.encryption.envelope import EnvelopeRefused, open_envelope
from tacit.service.encryption.keyring import Keyring
from tacit.service.http_client import Backoff
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.study import Study

LIVED = {"states": ["low", "high", "high"], "actions": ["wait", "act"], "rewards": [0.0, 1.0]}
STATUS = {
    "counted": 201,
    "again": 200,
    "malformed": 400,
    "another study": 404,
    "late": 410,
    "not open": 409,
    "bad body": 422,
    "id taken": 409,
    "twice": 409,
    "used up": 403,
    "full": 409,
}
SLUGS = {"another study": "unknown-study"}
NOW = 1_000_000.0


@cache
def design_of(trust: str) -> StudyDesign:
    """A study of two stages of up to twelve people."""
    return plan_study(
        states=("low", "high"),
        actions=("wait", "act"),
        horizon=2,
        trust=trust,
        epsilon=2.0,
        delta=0.0 if trust == "local" else 1e-6,
        stages=2,
        target=12,
        least=8,
    )


class FakeShuffler:
    """Answers devices as the service does; `faults` are what happens to the next reports instead."""

    def __init__(self, place: Path, trust: str) -> None:
        design = design_of(trust)
        pairs = {who: new_keys(place / "keys" / who) for who in ("learner", "shuffler")}
        self.pins = PinnedKeys(learner=pairs["learner"][1], shuffler=pairs["shuffler"][1])
        self.signs = {who: pair[0] for who, pair in pairs.items()}
        self.study = Study.new(place / "study", design, key=pairs["learner"][0], seed=1, sealed=int(trust == "shuffle"))
        self.collector = Collector.new(place / "collector", design, learner=pairs["learner"][1])
        digest = bytes.fromhex(design.digest)
        self.rings = {who: Keyring.new(place / "rings" / who, party=who, study=digest) for who in pairs}
        self.digest = digest
        self.sealed = trust == "shuffle"
        self.bundle = b""
        self.envelopes: list[bytes] = []
        self.reports: list[bytes] = []
        self.faults: list[Any] = []
        self.documents: dict[str, bytes] = {}
        self.paths: list[str] = []
        self.next_stage()

    def next_stage(self) -> None:
        """Plan the next stage; the sealed ones are opened by the tests themselves."""
        self.bundle = self.study.plan(
            {"learner": self.rings["learner"].document(self.signs["learner"])} if self.sealed else None
        )
        if not self.sealed:
            self.collector.open(self.bundle)
        self.documents["shuffler"] = self.rings["shuffler"].document(self.signs["shuffler"])

    def rotate(self, who: str) -> None:
        """Rotate the keys of a party and publish them."""
        self.rings[who].rotate(NOW, grace=600)
        self.documents["shuffler"] = self.rings["shuffler"].document(self.signs["shuffler"])

    def answer(self, request: httpx.Request) -> httpx.Response:
        """One answer."""
        path = request.url.path
        self.paths.append(path)
        if path == "/v1/bundle":
            return httpx.Response(200, content=self.bundle)
        if path.startswith("/v1/keys/"):
            return httpx.Response(200, content=self.documents[path.rsplit("/", 1)[1]])
        assert (request.method, path) == ("POST", "/v1/reports")
        data = request.read()
        self.envelopes.append(data)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "lost":
            raise httpx.ConnectError("refused")
        if fault == "slow":
            raise httpx.ReadTimeout("too slow")
        if isinstance(fault, httpx.Response):
            return fault
        found = self._take(data)
        if fault == "answer lost":
            raise httpx.ReadError("connection reset")
        return found

    def _take(self, data: bytes) -> httpx.Response:
        try:
            opened = open_envelope(data, study=self.digest, keys=self.rings["shuffler"].secrets(NOW))
        except EnvelopeRefused as error:
            return problem(404 if error.reason.startswith("unknown") else 400, error.reason)
        self.reports.append(opened.report)
        if self.sealed:
            return httpx.Response(201, json={"report": "counted"})
        word = self.collector.add(opened.report, opened.token.decode(errors="replace"))
        if word in ("counted", "again"):
            return httpx.Response(STATUS[word], json={"report": word})
        return problem(STATUS[word], SLUGS.get(word, word.replace(" ", "-")))

    def client(self) -> httpx.Client:
        """A connection to it."""
        return httpx.Client(transport=httpx.MockTransport(self.answer))

    def device(self, place: Path | None, **options: Any) -> RemoteDevice:
        """A device of a person called ada that sleeps into a list."""
        told = {"name": "ada", "cap": 10.0, "floor": 2, "pins": self.pins, "backoff": Backoff(first=1.0, most=8.0)}
        told |= {"over": self.client(), "sleep": Slept(), "lots": lambda: 0.5, "clock": lambda: 0.0}
        return RemoteDevice(place, shuffler="http://shuffler", **{**told, **options})


class Slept(list[float]):
    """Seconds that somebody would have slept."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def problem(status: int, slug: str, **headers: str) -> httpx.Response:
    """A problem document of tacit."""
    body = {"type": f"urn:tacit:problem:{slug}", "title": "Refused.", "status": status}
    kept = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(status, content=json.dumps(body).encode(), headers=kept)
