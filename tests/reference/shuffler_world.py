"""A shuffler in a directory for tests: its files, envelopes for it, and clients that talk to it without a network."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from study_fakes import FakeDesign, body_of, bundle_of

from tacit.documents import canonical
from tacit.runs.signature import new_keys
from tacit.service.config import ShufflerConfig, read_config
from tacit.service.encryption.envelope import seal_envelope
from tacit.service.encryption.keyring import Keyring
from tacit.service.metrics import Log
from tacit.service.shuffler import Shuffler, internal_app, public_app, shuffler
from tacit.service.tokens.admission import open_name
from tacit.study.contract import GENESIS_HEAD
from tacit.study.wire import Report

BEARER = "a bearer secret for tests"
AUTHORISED = {"authorization": f"Bearer {BEARER}"}


class Place:
    """The files of one shuffler."""

    def __init__(self, directory: Path, design: Any = None, config: str = "", limits: str = "") -> None:
        self.directory = directory
        self.design = FakeDesign() if design is None else design
        self.sign, self.public = new_keys(directory / "keys" / "shuffler")
        self.learner, self.learner_public = new_keys(directory / "keys" / "learner")
        (directory / "design.json").write_bytes(canonical(self.design.to_dict()))
        secret = directory / "bearer"
        secret.write_text(BEARER + "\n")
        os.chmod(secret, 0o600)
        people = "" if "people" in config else 'people = "open"'
        sealed = "" if "sealed" in config else "sealed = false"
        self.file = directory / "shuffler.toml"
        self.file.write_text(
            f"""
            directory = "collector"
            design = "design.json"
            bearer = {{file = "bearer"}}
            ready = "ready.json"
            {people}
            {sealed}
            {config}
            [keys]
            sign = "keys/shuffler/private.pem"
            learner = "keys/learner/public.pem"
            issuer = "keys/learner/public.pem"
            [limits]
            {limits}
            """
        )

    @property
    def config(self) -> ShufflerConfig:
        return read_config(self.file, ShufflerConfig)

    @property
    def study(self) -> bytes:
        return bytes.fromhex(self.design.digest)

    @property
    def database(self) -> Path:
        return self.directory / "collector" / "collector.db"

    def bundle(self, stage: int = 0, slot: int = 0, **entries: Any) -> bytes:
        return bundle_of(self.design, stage=stage, slot=slot, key=self.learner, **entries)

    def report(self, label: int, *, stage: int = 0, name: bytes | None = None, body: bytes | None = None) -> bytes:
        chosen = os.urandom(16) if name is None else name
        return Report(study=self.study, stage=stage, id=chosen, body=body_of(label) if body is None else body).encode()

    def envelope(self, report: bytes, person: str | bytes, *, study: bytes | None = None) -> bytes:
        token = open_name(person) if isinstance(person, str) else person
        ring = Keyring(self.directory / "collector" / "sealing")
        key = ring.secrets(time.time())[ring.active].public
        return seal_envelope(report, token, study=self.study if study is None else study, key=key)


class Talk:
    """A running shuffler and two clients of it."""

    def __init__(self, place: Place, made: Shuffler, log: io.StringIO) -> None:
        self.place, self.made, self.log = place, made, log
        self.devices = _client(public_app(made), {})
        self.learner = _client(internal_app(made), AUTHORISED)
        self.stranger = _client(internal_app(made), {})

    async def open(self, stage: int = 0, slot: int = 0, **entries: Any) -> httpx.Response:
        found = await self.learner.put(
            f"/v1/stages/{stage}/questions/0", content=self.place.bundle(stage, slot, **entries)
        )
        await self.made.windows.once()
        return found

    async def send(self, label: int, person: str | None = None, **more: Any) -> httpx.Response:
        report = self.place.report(label, **more)
        name = f"person {label}" if person is None else person
        return await self.devices.post("/v1/reports", content=self.place.envelope(report, name))

    async def release(self, stage: int = 0, head: str = GENESIS_HEAD.text) -> httpx.Response:
        return await self.learner.post(f"/v1/stages/{stage}/questions/0/release", content=head.encode())

    async def state(self) -> str:
        return str((await self.learner.get("/v1/status")).json()["state"])


def slug(response: httpx.Response) -> str:
    """The kind of a problem, after looking whether the document is one."""
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == response.status_code
    assert set(document) <= {"type", "title", "status", "detail"}
    return str(document["type"]).removeprefix("urn:tacit:problem:")


@contextlib.asynccontextmanager
async def talking(place: Place, **more: Any) -> AsyncIterator[Talk]:
    """A shuffler that begins and ends as in a process, without listeners."""
    stream = io.StringIO()
    made = shuffler(place.config, log=Log("shuffler", stream), **more)
    await made.begin()
    try:
        yield Talk(place, made, stream)
    finally:
        await made.end()


def _client(app: Any, headers: dict[str, str]) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://shuffler", headers=headers)
