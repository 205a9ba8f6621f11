"""A small study to look at: one stage released, the next one open, and a dashboard without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from device_tools import LIVED, design_of
from study_fakes import REHEARSAL

from tacit.service.dashboard.app import READER, WRITER, dashboard_party
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.device import Device
from tacit.study.study import Study

HTML = {"accept": "text/html"}


def person(stage: int, number: int) -> str:
    return f"Ada-{stage}-{number}-Byron"


def report(study: Study, collector: Collector, people: range, lived: Any = LIVED) -> list[bytes]:
    """Reports of people in the open stage; they are added, and returned to be looked for."""
    bundle = study.plan()
    stage = int(Bundle.parse(bundle)["stage"])
    made = []
    for number in people:
        device = Device(None, **REHEARSAL)
        device.accept(bundle)
        made.append(device.report(lived))
        assert collector.add(made[-1], person(stage, number)) == "counted"
    return made


def begun(
    place: Path, trust: str = "shuffle", noise: str = "secure", design: Any = None, lived: Any = LIVED
) -> tuple[Study, Collector]:
    """A study whose first stage is released, with the second one open and five reports in it."""
    design = design_of(trust) if design is None else design
    study = Study.new(place / "study", design, seed=0)
    collector = Collector.new(place / "collector", design, noise=noise, seed=0 if noise == "simulation" else None)
    collector.open(study.plan())
    made = report(study, collector, range(10), lived)
    collector.add(b"no report", "nobody")
    collector.add(made[0], "somebody else")
    collector.close()
    assert study.take(collector.release(study.head)) == "taken"
    collector.open(study.plan())
    report(study, collector, range(5), lived)
    return study, collector


class Board:
    """A dashboard of these places, with its two tokens."""

    def __init__(self, secrets: Path, *places: Path, **options: Any) -> None:
        self.party = dashboard_party(places, secrets=secrets, **{"tick": 60.0, **options})
        self.app = self.party.listeners[0].app
        self.reader, self.writer = ((secrets / name).read_text() for name in (READER, WRITER))

    def run(self, visit: Callable[[Visitor], Awaitable[Any]]) -> Any:
        """What a visit comes to."""

        async def whole() -> Any:
            await self.party.begin()
            transport = httpx.ASGITransport(app=self.app)
            try:
                async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                    return await asyncio.wait_for(visit(Visitor(self, client)), 60)
            finally:
                await self.party.end()

        return asyncio.run(whole())


class Visitor:
    """Somebody with or without a token, a cookie or a form."""

    def __init__(self, board: Board, client: httpx.AsyncClient) -> None:
        self.board, self.client = board, client

    async def get(self, path: str, token: str | None = None, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers={**_bearer(token), **headers})

    async def post(self, path: str, data: dict[str, Any], token: str | None = None, **headers: str) -> httpx.Response:
        return await self.client.post(path, data=data, headers={**_bearer(token), **headers})

    async def enter(self, token: str) -> str:
        """Enter as a browser does; the secret of the session's forms."""
        reply = await self.post("/session", {"token": token}, **HTML)
        assert (reply.status_code, reply.headers["location"]) == (303, "/operator")
        page = (await self.get("/officer", **HTML)).text
        return page.split('name="form" value="', 1)[1].split('"', 1)[0]


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}
