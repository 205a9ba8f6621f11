"""The internal address of a shuffler in memory, around a real collector, and people who report when a stage is open."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
from study_fakes import REHEARSAL

from tacit.errors import TacitError
from tacit.randomness import SimulationNoise
from tacit.service.http_client import Peer
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Head
from tacit.study.device import Device
from tacit.study.study import Study

BEARER = b"a secret of the internal address"


class FakeInternal:
    """Answers a learner as the shuffler does; `down` answers of the next requests are lost."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.bundle = b""
        self.documents: dict[str, bytes] = {}
        self.down = 0
        self.asked: list[str] = []

    def peer(self) -> Peer:
        return Peer("http://shuffler", BEARER, over=httpx.Client(transport=httpx.MockTransport(self.answer)))

    def answer(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {BEARER.decode()}"
        if self.down:
            self.down -= 1
            raise httpx.ConnectError("refused")
        words = request.url.path.strip("/").split("/")
        self.asked.append(f"{request.method} {request.url.path}")
        try:
            return self._answer(request.method, words, request.read())
        except TacitError as error:
            body = {"type": "urn:tacit:problem:refused", "title": "No.", "status": 409, "detail": str(error)}
            return httpx.Response(409, content=json.dumps(body).encode())

    def _answer(self, method: str, words: list[str], content: bytes) -> httpx.Response:
        match (method, words):
            case ("GET", ["v1", "status"]):
                return httpx.Response(200, content=json.dumps(self.collector.status()).encode())
            case ("PUT", ["v1", "keys", party]):
                self.documents[party] = content
                return httpx.Response(201)
            case ("PUT", ["v1", "stages", stage, "questions", question]):
                asked = Bundle.parse(content)
                assert (asked["stage"], asked["question"]) == (int(stage), int(question))
                # Whoever sees that the stage is open must find its bundle.
                before, self.bundle = self.bundle, content
                try:
                    if asked.channel is not None:
                        self.collector.open(content)
                except BaseException:
                    self.bundle = before
                    raise
                return httpx.Response(201)
            case ("POST", ["v1", "stages", _, "questions", _, "release"]):
                return httpx.Response(200, content=self.collector.release(Head.from_text(content.decode())))
            case ("POST", ["v1", "stages", _, "void"]):
                self.collector.void(content.decode())
                return httpx.Response(200)
        return httpx.Response(404, content=b'{"type": "urn:tacit:problem:not-found"}')


class People:
    """People of a seed: the same ones report the same in every run."""

    def __init__(self, study: Study, count: int) -> None:
        self.study, self.count = study, count

    def report(self, collector: Collector, bundle: bytes, *, least: int | None = None) -> None:
        """Report in the open stage."""
        asked = Bundle.parse(bundle)
        rng = np.random.default_rng([7, asked["stage"]])
        sent = []
        for number in range(self.count if least is None else least):
            noise = SimulationNoise(np.random.default_rng([8, asked["stage"], number]))
            device = Device(None, **REHEARSAL, noise=noise, rng=rng)
            device.accept(bundle)
            sent.append((device.report(lived(device, rng)), f"{asked['stage']}-{number}"))
        assert set(collector.add_many(sent)) == {"counted"}


def lived(device: Device, rng: np.random.Generator) -> dict[str, Any]:
    """An episode in a world of two states."""
    states, actions, rewards = ["low"], [], []
    for step in range(2):
        actions.append(device.act(step, states[-1]))
        rewards.append(float(rng.random() < 0.5))
        states.append("high" if actions[-1] == "act" and rng.random() < 0.8 else "low")
    return {"states": states, "actions": actions, "rewards": rewards}


def everything(study: Study) -> dict[str, Any]:
    """What must be the same whatever happened on the way."""
    with study.store.reading() as connection:
        return {
            table: connection.execute(query).fetchall()
            for table, query in (
                ("bundle", "SELECT stage, question, bytes FROM bundle ORDER BY stage, question"),
                ("release", "SELECT stage, question, bytes FROM release ORDER BY stage, question"),
                ("belief", "SELECT kind, stage, question, belief, plan, memory, coins FROM belief ORDER BY step"),
                ("stage", "SELECT number, slot, state FROM stage ORDER BY number"),
            )
        }
