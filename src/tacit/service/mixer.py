"""The mixer over HTTP: one internal listener, for the learner and for operations (`tacit.service.mix_node`).

    GET  /v1/keys                          the mixer's signed keys document
    PUT  /v1/stages/{stage}/{file}/{part}  204: a part of a file, 8 MiB each but the last; again: the same. The files:
                                           batch and tokens of the shuffler, issuer (its signed keys)
    POST /v1/stages/{stage}/mix            body = the shuffler's release: 200 the mixed document, or 202 while it works
    GET  /v1/stages/{stage}/batch          the mixed file, streamed, ranges too
    GET  /healthz, /metrics

The learner carries the files: so the mixer needs no secret of the shuffler, and what it mixes is what the shuffler
signed. `mixed_by` is the learner's side of it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from tacit.errors import InvalidInput, TacitError, require
from tacit.runs.storage import read_json
from tacit.service.config import MixerConfig, scraper_of
from tacit.service.encryption.keyring import Keyring
from tacit.service.metrics import Log, Meters
from tacit.service.mix_node import PART, Mixed, Mixer
from tacit.service.server import Listener, Party
from tacit.service.web import BYTES, JSON, Drain, Offer, application, health_route, metrics_route
from tacit.study.contract import read_design
from tacit.study.external_shuffle import pieces_of


class Jobs:
    """Stages that are being mixed, each by a thread of its own; a failure is told to whoever asks next, once."""

    def __init__(self, mixer: Mixer, log: Log) -> None:
        self.mixer, self.log = mixer, log
        self._lock = threading.Lock()
        self._running: dict[int, threading.Thread] = {}
        self._failed: dict[int, TacitError] = {}

    def ask(self, stage: int, release: bytes) -> bytes:
        """The mixed document, or nothing while a thread works on it."""
        with self._lock:
            if stage in self._failed:
                raise self._failed.pop(stage)
            if stage in self._running:
                return b""
            if self.mixer.mixed(stage):
                return self.mixer.mix(stage, release)
            thread = threading.Thread(target=self._work, args=(stage, release), daemon=True)
            self._running[stage] = thread
            thread.start()
        return b""

    def _work(self, stage: int, release: bytes) -> None:
        try:
            self.mixer.mix(stage, release)
            self.log.event("mixed", stage=stage)
        except TacitError as error:
            with self._lock:
                self._failed[stage] = error
        except Exception as error:
            self.log.fault(error)
            with self._lock:
                self._failed[stage] = InvalidInput("the mixer must be able to mix, got a fault; see its log")
        finally:
            with self._lock:
                del self._running[stage]


def mixer_routes(mixer: Mixer, jobs: Jobs) -> list[Offer]:
    """The mixer's own routes."""

    async def keys(request: Request) -> Response:
        """The mixer's signed keys."""
        data = await asyncio.to_thread(mixer.ring.document, mixer.key)
        return Response(data, media_type=JSON, headers={"cache-control": "no-store"})

    async def part(request: Request) -> Response:
        """Take a part of a file of the shuffler's in."""
        stage, number, name = (request.path_params[key] for key in ("stage", "part", "file"))
        await asyncio.to_thread(mixer.part, stage, number, await request.body(), name)
        return Response(status_code=204)

    async def mix(request: Request) -> Response:
        """The mixed document, or 202 while a thread works on it; the body is the shuffler's release."""
        stage, release = request.path_params["stage"], await request.body()
        found = await asyncio.to_thread(jobs.ask, stage, release)
        return Response(found, media_type=JSON) if found else Response(b'{"state":"mixing"}', 202, media_type=JSON)

    async def batch(request: Request) -> Response:
        """The mixed file."""
        path = await asyncio.to_thread(mixer.batch, request.path_params["stage"])
        return FileResponse(path, media_type="application/octet-stream", headers={"cache-control": "no-store"})

    return [
        Offer("GET", "/v1/keys", keys),
        Offer("PUT", "/v1/stages/{stage:number}/{file}/{part:number}", part, takes=BYTES, gives=None, answers=(204,)),
        Offer("POST", "/v1/stages/{stage:number}/mix", mix, takes=BYTES, answers=(200, 202)),
        Offer("GET", "/v1/stages/{stage:number}/batch", batch, gives=BYTES, answers=(200, 206)),
    ]


def party(config: MixerConfig) -> Party:
    """The process of a mixer; a ring of keys is made where there is none."""
    keys = config.keys
    needed = keys.sign is not None and keys.sealing is not None and keys.shuffler is not None
    require(needed, "a mixer must have keys.sign, keys.sealing and keys.shuffler", "fewer of them")
    assert keys.sign is not None and keys.sealing is not None and keys.shuffler is not None  # noqa: S101, PT018
    design = read_design(read_json(config.design))
    study = bytes.fromhex(design.digest)
    there = (keys.sealing / "keyring.json").exists()
    ring = Keyring(keys.sealing) if there else Keyring.new(keys.sealing, party="mixer", study=study)
    mixer = Mixer(
        config.directory,
        design,
        ring=ring,
        key=keys.sign,
        shuffler=keys.shuffler,
        issuer=keys.issuer,
        engine_name=config.engine,
        workers=config.workers,
    )
    meters, log, drain = Meters("mixer"), Log("mixer"), Drain()
    limits = msgspec.structs.replace(config.limits, body=max(config.limits.body, PART))
    if keys.issuer is None:
        log.event("warning", reason="no keys.issuer: shuffler and learner together can make all reports but one up")
    routes = [health_route(drain), metrics_route(meters), *mixer_routes(mixer, Jobs(mixer, log))]
    app = application(
        routes,
        limits=limits,
        meters=meters,
        log=log,
        drain=drain,
        bearer=config.bearer.read(),
        scraper=scraper_of(config),
    )
    listeners = [Listener(name="internal", app=app, listen=config.internal)]
    return Party(name="mixer", listeners=listeners, limits=limits, log=log, drain=drain, ready=config.ready)


def mixed_by(
    client: httpx.Client,
    release: bytes,
    files: Mapping[str, Path],
    target: Path,
    *,
    stage: int,
    pinned: str | Path | None,
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
) -> Mixed:
    """The learner's side: bring files to the mixer behind `client`, wait for it, and fetch what it made.

    `files` are the batch and, where there are tokens, the tokens and the issuer's document (`Mixer.part`). `client` has
    the mixer's address and its bearer secret. The file at `target` is complete when this returns; whether it is the
    right one is found when it is opened with `Mixed.manifest`.
    """
    for name, path in files.items():
        for number, piece in enumerate(pieces_of(path, size=1, chunk=PART)):
            _good(client.put(f"/v1/stages/{stage}/{name}/{number}", content=piece))
    deadline = time.monotonic() + seconds
    while True:
        answer = _good(client.post(f"/v1/stages/{stage}/mix", content=release))
        if answer.status_code == 200:
            break
        require(time.monotonic() < deadline, f"a mixer must be done in {seconds:g} seconds", "longer")
        pause(0.05)
    found = Mixed.read(answer.content, release=release, pinned=pinned)
    with client.stream("GET", f"/v1/stages/{stage}/batch") as stream, target.open("wb") as file:
        _good(stream)
        for piece in stream.iter_bytes():
            file.write(piece)
    return found


def _good(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise InvalidInput(f"a mixer must answer, got status {answer.status_code}; see its log")
    return answer
