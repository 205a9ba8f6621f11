"""The shuffler: a collector behind HTTP, in every trust model; what devices see of it.

    GET  /v1/bundle             the bundle of the stage, the same bytes for everybody (ETag; 304)
    GET  /v1/keys/{party}       signed keys of shuffler and issuer; those of learner and mixer stand in the bundle
    POST /v1/reports            one envelope: 201 counted, 200 counted before, or a problem
    GET  /healthz

S1  201 means durable: the commit that holds the report is on the disk before the answer leaves.
S2  The same envelope again, or another envelope around the same report, is 200 and counts nothing.
S3  Nothing that a device sent is logged, counted by value or echoed; what is kept of it is what the collector keeps.
S4  Web pages may talk to it only if their origin is configured; cookies and other credentials of a browser never count.

The longest envelope that devices of a study can send: what a shuffler must let in.

The shuffler's internal address: what the learner and operators ask of it, under a bearer secret.

    PUT  /v1/stages/{stage}/questions/{q}           a bundle: 201, the same again 200
    PUT  /v1/keys/issuer                            signed keys of the issuer
    POST /v1/stages/{stage}/close                   {"reports": n}
    POST /v1/stages/{stage}/questions/{q}/release   body: the learner's head; the release, the same bytes every time
    GET  /v1/stages/{stage}/batch, /tokens          files of a sealed stage, in parts if asked (Range)
    POST /v1/stages/{stage}/void                    body: the reason
    GET  /v1/status  /healthz  /metrics;  POST /v1/drain

D1  Every request may be repeated: it changes nothing a second time and gives the same answer.
D2  Counts of an open stage stand still for a minute, in `/v1/status` and in `/metrics`.
D3  Steps run in the writer's thread, so they come after the reports that were taken in before them, and the event loop
    never waits for the database.
"""

from __future__ import annotations

import asyncio
import re
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import ASGIApp

from tacit.errors import require
from tacit.release.contract import Release
from tacit.release.shuffle.labels import LabelRelease
from tacit.service.config import ShufflerConfig, database_url, scraper_of
from tacit.service.encryption.envelope import EnvelopeRefused, envelope_size, open_envelope
from tacit.service.encryption.keyring import Keyring
from tacit.service.metrics import Log, Meters
from tacit.service.relay import Kept, Relay
from tacit.service.server import Listener, Party
from tacit.service.stage_windows import StageWindows, Writer, close_stage, ends_after, look, void_stage
from tacit.service.tokens.admission import Admission, TokenAdmission, people_of
from tacit.service.tokens.token import Refusal
from tacit.service.web import (
    ANSWERS,
    BYTES,
    JSON,
    Drain,
    Offer,
    Refused,
    Still,
    application,
    health_route,
    json_response,
    metrics_route,
    said,
)
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Head, read_design_file
from tacit.study.databases import database_at
from tacit.study.sealed_batches import message_size, require_seals
from tacit.study.store import Failpoint, no_failpoint
from tacit.study.wire import Report

TOKEN: Final = 1030
"""The longest token, credential or name with its head."""


def largest_envelope(channels: Sequence[Release], layers: int) -> int:
    """The bytes of the longest envelope: every block that could overflow has overflowed, and the longest token."""
    head = len(Report(study=bytes(32), stage=0, id=bytes(16), body=b"").encode())
    return envelope_size(TOKEN, head + max(_largest_body(channel, layers) for channel in channels))


def _largest_body(channel: Release, layers: int) -> int:
    if not isinstance(channel, LabelRelease):
        return channel.body_size
    transport = channel.transport
    size = message_size(channel, layers) if layers else channel.labels.itemsize
    # As many blocks as all noise bits of a device need, and the slots of its data.
    blocks = -(-transport.noise_bits // transport.block)
    return (transport.report_size + (blocks - 1) * transport.block) * size


REPORT: Final = struct.Struct("<4s32sI")
"""What of a report is read before the collector does: its first word, study and stage."""
REPORT_WORD: Final = b"TCR1"
NOT_OPEN_SECONDS: Final = 10
COUNTED: Final = {"counted": 201, "again": 200}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffler:
    """Everything of one process that its applications share."""

    config: ShufflerConfig
    collector: Collector
    people: Admission
    relay: Relay
    writer: Writer
    windows: StageWindows
    meters: Meters
    log: Log
    drain: Drain

    def healthy(self) -> bool:
        """Whether reports are taken in: the writer runs, and the collector has not stopped for good."""
        return not (self.writer.broken or self.collector.stopped)

    async def begin(self) -> None:
        """Start the writer and the timer."""
        self.writer.start()
        await self.windows.once()
        self.windows.start()

    async def end(self) -> None:
        """Stop the timer, then flush the writer."""
        await self.windows.stop()
        await self.writer.stop()


def collector_of(config: ShufflerConfig, edge: Failpoint = no_failpoint) -> Collector:
    """The collector of a configuration: the one in its directory, or a new one for its design."""
    url = database_url(config)
    where = database_at(config.directory, url)
    keys = config.keys
    if where.exists("collector"):
        found = Collector(config.directory, key=keys.sign, learner=keys.learner, database=url, edge=edge)
    else:
        require(config.design is not None, "design must name the design of the study", "none, and no collector yet")
        assert config.design is not None  # noqa: S101 - for the types
        design = read_design_file(config.design)
        found = Collector.new(
            config.directory,
            design,
            noise="simulation" if config.rehearsal else "secure",
            key=keys.sign,
            learner=keys.learner,
            database=url,
            sealed=config.layers,
            edge=edge,
        )
    require_seals(found.channels, found.layers > 0)
    require(found.layers == config.layers, f"this collector is sealed in {found.layers} layers", config.layers)
    rehearsal = found.noise == "simulation"
    require(rehearsal == config.rehearsal, "rehearsal must say how this collector began", config.rehearsal)
    signed = rehearsal or keys.learner is not None
    require(
        signed, "keys.learner must name the learner's public key", "none", "only a rehearsal takes unsigned bundles"
    )
    return found


def shuffler(
    config: ShufflerConfig,
    *,
    log: Log | None = None,
    edge: Failpoint = no_failpoint,
    wall: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Shuffler:
    """A shuffler as it is configured; `begin` starts it."""
    made_log, meters, drain = Log("shuffler") if log is None else log, Meters("shuffler"), Drain()
    collector = collector_of(config, edge)
    people = people_of(config.people, study=collector.study, issuer=config.keys.issuer, known=config.known)
    ring = Keyring.own(config.keys.sealing or config.directory / "sealing", party="shuffler", study=collector.study)
    relay = Relay(collector, config.keys, ring, people)
    limits = config.limits
    room = largest_envelope(collector.channels, config.layers)
    hint = f"set limits.body = {room}"
    require(limits.body >= room, f"limits.body must let the reports of this study in, {room} bytes", limits.body, hint)
    writer = Writer(
        collector,
        queue=limits.queue,
        together=limits.together,
        patience=limits.answer_seconds,
        meters=meters,
        log=made_log,
        committed=lambda counted: windows.counted(counted),
    )
    windows = StageWindows(
        writer,
        relay,
        window=config.window_seconds,
        tick=config.tick_seconds,
        meters=meters,
        log=made_log,
        wall=wall,
        monotonic=monotonic,
    )
    drain.when_asked(lambda: meters.draining.set(1))
    if config.people == "open":
        made_log.event("warning", reason="anybody may report, as often as they like: for demonstrations only")
    return Shuffler(
        config=config,
        collector=collector,
        people=people,
        relay=relay,
        writer=writer,
        windows=windows,
        meters=meters,
        log=made_log,
        drain=drain,
    )


def party(config: ShufflerConfig) -> Party:
    """What `tacit serve shuffler` runs."""
    made = shuffler(config)
    return Party(
        name="shuffler",
        listeners=[
            Listener(name="public", app=public_app(made), listen=config.public),
            Listener(name="internal", app=internal_app(made), listen=config.internal),
        ],
        limits=config.limits,
        log=made.log,
        drain=made.drain,
        begin=made.begin,
        end=made.end,
        ready=config.ready,
    )


def public_app(made: Shuffler) -> ASGIApp:
    """What devices talk to."""
    take = _taking(made)

    async def bundle(request: Request) -> Response:
        """The bundle of the stage, the same bytes for everybody."""
        return _handed(request, made.relay.bundle)

    async def keys(request: Request) -> Response:
        """The signed keys of a party."""
        return _handed(request, made.relay.documents.get(request.path_params["party"]))

    async def reports(request: Request) -> Response:
        """Take one envelope in: 201 counted, 200 counted before."""
        found = await take(request)
        said(request, found)
        return json_response({"report": found}, COUNTED[found])

    routes = [
        Offer("POST", "/v1/reports", reports, takes=BYTES, answers=(200, 201)),
        Offer("GET", "/v1/bundle", bundle),
        Offer("GET", "/v1/keys/{party}", keys),
        health_route(made.drain, made.healthy),
    ]
    app = application(routes, limits=made.config.limits, meters=made.meters, log=made.log, drain=made.drain)
    return app if not made.config.origins else _for_pages(app, made.config.origins)


def _for_pages(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The same for devices in the browser: pages of these origins may read its answers, refusals included (S4)."""
    return CORSMiddleware(
        app,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["content-type"],
        expose_headers=["etag", "retry-after"],
        allow_credentials=False,
    )


def _taking(made: Shuffler) -> Callable[[Request], Any]:
    """What becomes of one envelope: "counted" or "again", or `Refused`."""
    study, writer, people, relay = made.collector.study, made.writer, made.people, made.relay
    tokens = isinstance(people, TokenAdmission) and made.config.sealed

    async def take(request: Request) -> str:
        data = await request.body()
        if writer.full:
            raise Refused("overloaded")  # before any work is done for it
        if made.collector.stopped:
            raise Refused("unavailable")
        try:
            token, report = open_envelope(data, study=study, keys=relay.secrets)
        except EnvelopeRefused as refused:
            raise Refused(refused.reason) from refused
        if len(report) < REPORT.size or not report.startswith(REPORT_WORD):
            raise Refused("malformed")
        person = people.admit(token, REPORT.unpack_from(report)[2])
        if isinstance(person, Refusal):
            if person.reason == "no key":
                raise Refused("not-open", retry_after=NOT_OPEN_SECONDS)
            raise Refused("token")
        answer = writer.submit(report, person, token) if tokens else writer.submit(report, person)
        found = await answer
        if found not in COUNTED:
            raise Refused(ANSWERS[found], retry_after=NOT_OPEN_SECONDS if found == "not open" else None)
        return found

    return take


def _handed(request: Request, kept: Kept | None) -> Response:
    """Bytes that are the same for everybody, or 304 for whoever has them."""
    if kept is None:
        raise Refused("not-found")
    headers = {"etag": kept.etag, "cache-control": "no-cache"}
    if kept.etag in [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(kept.data, headers=headers, media_type="application/json")


TEXT: Final = "text/plain"
LONGEST_HEAD: Final = 200
RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
QUESTION: Final = "SELECT stage, number FROM question ORDER BY stage DESC, number DESC LIMIT 1"


STEPS: Final = 10
"""Counts of an open stage are told in tenths of the least number that it needs."""
MIN_STEP: Final = 5
"""Counts of small stages are told in steps of so many."""


def internal_app(made: Shuffler) -> ASGIApp:
    """What the learner and operators talk to."""
    still: Still[dict[str, Any]] = Still(made.windows.monotonic)

    async def question(request: Request) -> Response:
        """Take the bundle of a question in."""
        stage, number = _numbers(request)
        data = await request.body()
        new = await made.writer.run(lambda collector: _opened(made, collector, stage, number, data))
        made.windows.soon()
        return _put(request, new)

    async def keys(request: Request) -> Response:
        """Take the signed keys of a party in."""
        data = await request.body()
        found = await asyncio.to_thread(made.relay.put_keys, request.path_params["party"], data)
        return _put(request, found)

    async def close(request: Request) -> Response:
        """Close the stage; how many reports count."""
        (stage,) = _numbers(request)
        return json_response({"reports": await made.writer.run(lambda collector: close_stage(collector, stage))})

    async def release(request: Request) -> Response:
        """The release of a question, the same bytes every time; the body is the learner's head."""
        stage, number = _numbers(request)
        head = Head.from_text(_text(await request.body(), LONGEST_HEAD))
        data = await made.writer.run(lambda collector: _released(collector, stage, number, head))
        return Response(data, media_type=BYTES, headers={"cache-control": "no-store"})

    async def batch(request: Request) -> Response:
        """The permuted messages of a sealed stage."""
        (stage,) = _numbers(request)
        return await _file(request, lambda: made.collector.batch_file(stage))

    async def tokens(request: Request) -> Response:
        """The tokens of a sealed stage, sorted."""
        (stage,) = _numbers(request)
        return await _file(request, lambda: made.collector.tokens_file(stage))

    async def void(request: Request) -> Response:
        """Give the stage up; the body is the reason."""
        (stage,) = _numbers(request)
        reason = _text(await request.body(), 200) or "given up"
        await made.writer.run(lambda collector: void_stage(collector, stage, reason))
        made.windows.soon()
        return json_response({"stage": stage, "state": "void"})

    async def status(request: Request) -> Response:
        """Stages, refusals and what was spent."""
        seen = await asyncio.to_thread(look, made.collector)
        found = await asyncio.to_thread(_status, made.collector, still)
        window = None if seen is None else seen.ends
        return json_response({**found, "ends": window, "draining": made.drain.draining, "layers": made.config.layers})

    async def drain(request: Request) -> Response:
        """End the process in order."""
        made.drain.ask()
        return json_response({"status": "draining"}, 202)

    one, asked = "/v1/stages/{stage:number}", "/v1/stages/{stage:number}/questions/{question:number}"
    routes = [
        Offer("PUT", asked, question, takes=JSON, answers=(200, 201)),
        Offer("PUT", "/v1/keys/{party}", keys, takes=JSON, answers=(200, 201)),
        Offer("POST", f"{one}/close", close),
        Offer("POST", f"{asked}/release", release, takes=TEXT, gives=BYTES),
        Offer("GET", f"{one}/batch", batch, gives=BYTES, answers=(200, 206)),
        Offer("GET", f"{one}/tokens", tokens, gives=BYTES, answers=(200, 206)),
        Offer("POST", f"{one}/void", void, takes=TEXT),
        Offer("GET", "/v1/status", status),
        Offer("POST", "/v1/drain", drain, answers=(202,)),
        health_route(made.drain, made.healthy),
        metrics_route(made.meters, made.windows.monotonic),
    ]
    config, meters = made.config, made.meters
    return application(
        routes,
        limits=config.limits,
        meters=meters,
        log=made.log,
        drain=made.drain,
        bearer=config.bearer.read(),
        scraper=scraper_of(config),
    )


def _status(collector: Collector, still: Still[dict[str, Any]]) -> dict[str, Any]:
    """The collector's status, with counts of an open stage as they were up to a minute ago, in steps (D2)."""
    found = collector.status()
    rows, state = found["stages"], found["state"]
    if state not in ("open", "void"):
        return found
    step = max(MIN_STEP, collector.channels[rows[-1]["slot"]].least // STEPS)

    def counts() -> dict[str, Any]:
        refused = {word: number - number % step for word, number in found["refused"].items()}
        stages = [
            {**row, "reports": row["reports"] - row["reports"] % step} if row["state"] in ("open", "void") else row
            for row in rows
        ]
        return {"people": found["people"] - found["people"] % step, "refused": refused, "stages": stages}

    return {**found, **still((len(rows), state), counts)}


# steps, in the writer's thread


def _opened(made: Shuffler, collector: Collector, stage: int, number: int, data: bytes) -> bool:
    """Open a stage, take its next question in, or tell devices to stop; whether anything is new."""
    asked = Bundle.parse(data)
    same = (asked["stage"], asked["question"]) == (stage, number)
    require(same, "a bundle must be of the stage and question of its address", "another")
    if asked.channel is None:
        return made.relay.put_last(data)
    with collector.store.reading() as connection:
        there = connection.execute("SELECT 1 FROM question WHERE stage = ? AND number = ?", (stage, number)).fetchone()
    if there is None:
        made.relay.require_going_on()
        made.relay.require_keys(asked)
    collector.open(data, ends=ends_after(made.config.window_seconds, made.windows.wall))
    made.relay.refresh_bundle()
    return there is None


def _released(collector: Collector, stage: int, number: int, head: Head) -> bytes:
    """The release of a question: what was stored, or the last question's, made now."""
    with collector.store.reading() as connection:
        last = connection.execute(QUESTION).fetchone()
    require(last is not None, "a stage must be asked before it is released", "no stage")
    if tuple(last) == (stage, number):
        return collector.release(head)
    stored = collector.stored(stage, number)
    require(stored != b"", f"the question to release must be {last[1]} of stage {last[0]}", "another")
    return stored


# requests and answers


def _numbers(request: Request) -> tuple[int, ...]:
    return tuple(request.path_params[name] for name in ("stage", "question") if name in request.path_params)


def _text(data: bytes, longest: int) -> str:
    require(len(data) <= longest, f"a text must have at most {longest} bytes", len(data))
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise Refused("malformed") from error
    if "\0" in text:  # no database takes it
        raise Refused("malformed")
    return text


def _put(request: Request, new: bool) -> Response:
    said(request, "new" if new else "again")
    return json_response({"new": new}, 201 if new else 200)


async def _file(request: Request, find: Callable[[], Path]) -> Response:
    """A file as it is on the disk, or the rest of it."""
    path = await asyncio.to_thread(find)
    if not path.is_file():
        raise Refused("not-found")
    begin = RANGE.fullmatch(request.headers.get("range", ""))
    if begin is not None and int(begin[1]) >= path.stat().st_size:
        raise Refused("range")
    return FileResponse(path, media_type=BYTES, headers={"cache-control": "no-store"})
