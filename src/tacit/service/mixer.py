"""The mixer over HTTP: one internal listener, for the learner and for operations (`tacit.service.mixer`).

    GET  /v1/keys                          the mixer's signed keys document
    PUT  /v1/stages/{stage}/{file}/{part}  204: a part of a file, 8 MiB each but the last; again: the same. The files:
                                           batch and tokens of the shuffler, issuer (its signed keys)
    POST /v1/stages/{stage}/mix            body = the shuffler's release: 200 the mixed document, or 202 while it works
    GET  /v1/stages/{stage}/batch          the mixed file, streamed, ranges too
    GET  /healthz, /metrics

The learner carries the files: so the mixer needs no secret of the shuffler, and what it mixes is what the shuffler
signed. `mixed_by` is the learner's side of it.

The mixer: a second shuffler in a row, which neither knows who sent a message nor can read one.

    shuffler -> batch of messages in two layers -> mixer: one layer off, permuted again -> learner

Then a learner and a shuffler that compare what they have seen of a stage cannot tell which device sent which label: the
mixer's order stands between them. Against a shuffler that also puts messages of its own in the place of people's, a
mixer is no help: the two know all messages but those of the person that they look for. Tokens make them need real
people for that (X4); since no message is bound to a token, they do not prevent it.
The mixer holds no secret of another party: the learner brings it the release and the files, in parts.

    mixed document    canonical JSON {"format": "tacit-mixed", "version": 1, "study", "stage", "release", "first",
                      "file", "count", "size"}, signed with the mixer's Ed25519 key; `release` is the digest of the
                      shuffler's release, `first` that of its file and `file` that of the mixer's

X1  Mixed is what the pinned shuffler signed, for this study, with enough people and messages for one of its channels,
    and whose file has the digest of the manifest and no message twice. Everything else is refused, and leaves nothing.
X2  Once: a stage has one mixed document. Asked again with the same release, the mixer returns the same bytes; another
    release of the same stage is refused. The document is what makes a mixed file valid, and it is written last.
X3  A mixed file is kept until a later stage is mixed; the document stays.
X4  With the issuer's pinned key, as many different valid tokens of this stage as people lie beside the batch, or it is
    refused; since a stage is mixed once, none is spent twice. Without that key a release with tokens is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from tacit.documents import canonical
from tacit.errors import InvalidInput, TacitError, require, require_count
from tacit.release.contract import Release
from tacit.runs.signature import examine, sign
from tacit.runs.storage import writing_to
from tacit.service.batches.decryption import engine, mix_batch
from tacit.service.config import MixerConfig, scraper_of
from tacit.service.encryption.keyring import Keyring
from tacit.service.metrics import Log, Meters
from tacit.service.server import Listener, Party
from tacit.service.web import BYTES, JSON, Drain, Offer, application, health_route, metrics_route
from tacit.study.contract import Design, channels_of, read_design_file
from tacit.study.external_shuffle import MEMORY, TEMPORARY, pieces_of
from tacit.study.sealed_batches import LAYER, NO_TOKENS, Manifest, require_layers
from tacit.study.wire import ReleasePayload, sha256
from tacit.system import lock, sync_directory

FORMAT: Final = "tacit-mixed"
VERSION: Final = 1
PART: Final = 8 * 2**20
"""Bytes of a part of an incoming file; only the last one is shorter."""
MAX_PARTS: Final = 2**16
LAYERS: Final = 2
INCOMING: Final = ("batch", "tokens", "issuer")
"""The files that are brought: the shuffler's two, and the issuer's document."""
MIXED, DOCUMENT = "mixed", "mixed.json"
ENTRIES: Final = frozenset(
    ("format", "version", "study", "stage", "release", "first", "file", "count", "size", "signature")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """A mixed document that was read and believed."""

    stage: int
    manifest: Manifest
    """Of the mixer's file, with the tokens of the shuffler's release."""

    @classmethod
    def read(cls, data: bytes, *, release: bytes, pinned: str | Path | None) -> Mixed:
        """The document in these bytes, if it is about this release and signed by the mixer."""
        first = ReleasePayload.parse(release)
        before = Manifest.parse(first.payload)
        try:
            content: dict[str, Any] = json.loads(data)
            whole = isinstance(content, dict) and set(content) == ENTRIES and canonical(content) == data
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput("a mixed document must be canonical JSON") from error
        require(whole, "a mixed document must have its entries and no other ones, in canonical JSON", "others")
        signed = examine(content, None if pinned is None else Path(pinned))
        require(signed.valid, "a mixed document must be signed by its mixer", signed.words)
        require(pinned is None or signed.pinned, "a mixed document must be signed by the pinned key", signed.words)
        expected = _about(release, first, before)
        same = all(content[name] == value for name, value in expected.items())
        require(same, "a mixed document must be about the release that it was asked for", "another one")
        try:
            digest = bytes.fromhex(content["file"])
        except (TypeError, ValueError) as error:
            raise InvalidInput("a mixed document must name its file by a digest") from error
        made = Manifest(digest=digest, count=before.count, size=content["size"], tokens=before.tokens)
        return cls(stage=first.stage, manifest=made)


class Mixer:
    """The mixer of one study, in a directory; `shuffler` is the pinned public key of releases, `issuer` that of token
    keys, or None for a study without tokens (X4).
    """

    def __init__(
        self,
        directory: str | Path,
        design: Design,
        *,
        ring: Keyring,
        key: str | Path,
        shuffler: str | Path,
        issuer: str | Path | None,
        engine_name: str = "local",
        workers: int | None = None,
        memory: int = MEMORY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = Path(directory)
        self.study = bytes.fromhex(design.digest)
        self.channels: tuple[Release, ...] = channels_of(design)
        require_layers(self.channels, LAYERS)
        require(ring.party == "mixer" and ring.study == self.study, "keys must be the mixer's for this study", "others")
        self.ring, self.key, self.shuffler, self.issuer = ring, Path(key), Path(shuffler), issuer
        self.engine_name, self.workers, self.memory, self.clock = engine_name, workers, memory, clock
        self._lock = threading.Lock()
        with writing_to(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def part(self, stage: int, number: int, data: bytes, name: str = "batch") -> None:
        """Take a part of a file in; the same part again changes nothing, and after mixing none does."""
        require(name in INCOMING, f"a file for a mixer must be one of {', '.join(INCOMING)}", "another")
        require_count("number of a part", number, least=0)
        fits = number < MAX_PARTS and 0 < len(data) <= PART
        require(fits, f"a part must have at most {PART} bytes, and a file {MAX_PARTS} of them", "more")
        with self._locked():
            if self.mixed(stage):
                return
            with writing_to(self.directory):
                folder = self._folder(stage)
                folder.mkdir(exist_ok=True, mode=0o700)
                handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
                try:
                    os.pwrite(handle, data, number * PART)
                finally:
                    os.close(handle)

    def mix(self, stage: int, release: bytes) -> bytes:
        """Mix a stage, once (X1, X2): the signed document of the file that `batch` names."""
        given, channel = self._believed(stage, release)
        with self._locked():
            there = self.mixed(stage)
            if there:
                same = json.loads(there)["release"] == sha256(release).hex()
                require(same, "a stage is mixed once", "another release of it")
                return there
            made = self._mixed(stage, release, given, channel)
            self._forget(stage)
        return made

    def mixed(self, stage: int) -> bytes:
        """The document of a stage that was mixed, or nothing."""
        path = self._folder(stage) / DOCUMENT
        return path.read_bytes() if path.is_file() else b""

    def batch(self, stage: int) -> Path:
        """The file of a stage that was mixed, until a later one is (X3)."""
        data = self.mixed(stage)
        require(bool(data), "a stage must be mixed to have a batch", "none")
        path = self._folder(stage) / MIXED
        require(path.is_file(), "a mixed batch is kept until a later stage is mixed", "none any more")
        return path

    def _believed(self, stage: int, release: bytes) -> tuple[ReleasePayload, Release]:
        """The release and a channel that it fits (X1)."""
        given = ReleasePayload.parse(release)
        require(given.study == self.study, "a release must be of this study", "another study")
        require(given.stage == stage, f"a release must be of stage {stage}", "another stage")
        signed = given.examined(self.shuffler)
        require(signed.pinned, "a release must be signed by the pinned shuffler", signed.words)
        manifest = Manifest.parse(given.payload)
        for channel in self.channels:
            with contextlib.suppress(InvalidInput):
                require(channel.least <= given.people <= channel.target, "people of a stage", given.people)
                manifest.require_fits(channel, given.people, LAYERS)
                return given, channel
        raise InvalidInput("a release must have people and messages as one of the design's channels, got others")

    def _mixed(self, stage: int, release: bytes, given: ReleasePayload, channel: Release) -> bytes:
        folder, manifest = self._folder(stage), Manifest.parse(given.payload)
        incoming, *_ = files = [folder / name for name in INCOMING]
        hint = "send the parts of the file again"
        require(incoming.is_file(), "the file of a release must be here before it is mixed", "none", hint)
        made = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            self._require_tokens(folder, given, manifest)
            with engine(self.engine_name, self.workers) as chosen:
                found = mix_batch(
                    incoming,
                    manifest,
                    channel,
                    made,
                    keys=self.ring.secrets(self.clock()),
                    study=self.study,
                    stage=stage,
                    with_engine=chosen,
                    memory=self.memory,
                )
            hint = "the grace of a key must be longer than its stage"
            require(
                found.foreign < manifest.count, "messages must be sealed to a key of this mixer", "none of them", hint
            )
        except InvalidInput:
            made.unlink(missing_ok=True)
            for path in files:
                path.unlink(missing_ok=True)  # whatever it was, it is not mixed
            raise
        content = {
            **_about(release, given, manifest),
            "file": found.written.digest.hex(),
        }
        data = canonical(sign(content, self.key))
        document = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        with writing_to(folder):
            made.replace(folder / MIXED)
            with os.fdopen(os.open(document, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(folder)
            document.replace(folder / DOCUMENT)
            sync_directory(folder)
        for path in files:
            path.unlink(missing_ok=True)
        return data

    def _require_tokens(self, folder: Path, given: ReleasePayload, manifest: Manifest) -> None:
        """Refuse a batch whose reports were not made by as many people (X4)."""
        if self.issuer is None:
            none = manifest.tokens == NO_TOKENS
            require(none, "a mixer without keys.issuer must get no tokens", "a batch with tokens", "pin the issuer")
            return
        from tacit.service.tokens.token import TokenKeys, require_tokens

        tokens, document = folder / "tokens", folder / "issuer"
        there = tokens.is_file() and document.is_file()
        require(there, "tokens and the issuer's keys must be here before a batch is mixed", "no such files")
        keys = TokenKeys.parse(document.read_bytes(), study=self.study, pinned=self.issuer)
        require_tokens(tokens, manifest.tokens, keys, stage=given.stage, people=given.people)

    def _forget(self, stage: int) -> None:
        """Delete the files of earlier stages, and what a process that stopped half way left."""
        for folder in self.directory.iterdir():
            if not folder.name.isdigit():
                continue
            for path in folder.iterdir():
                left = path.name.startswith(TEMPORARY) or (int(folder.name) < stage and path.name != DOCUMENT)
                if left:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _folder(self, stage: int) -> Path:
        return self.directory / str(require_count("stage", stage, least=0))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One thread of one process at a time."""
        with self._lock:
            handle = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                lock(handle)
                yield
            finally:
                os.close(handle)


def _about(release: bytes, given: ReleasePayload, manifest: Manifest) -> dict[str, Any]:
    """What a mixed document says about the release that it belongs to."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "study": given.study.hex(),
        "stage": given.stage,
        "release": sha256(release).hex(),
        "first": manifest.digest.hex(),
        "count": manifest.count,
        "size": manifest.size - LAYER,
    }


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
    design = read_design_file(config.design)
    study = bytes.fromhex(design.digest)
    ring = Keyring.own(keys.sealing, party="mixer", study=study)
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
