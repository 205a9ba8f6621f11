"""The shuffler: a collector behind HTTP, in every trust model; what devices see of it.

    GET  /v1/bundle             the bundle of the stage, the same bytes for everybody (ETag; 304)
    GET  /v1/keys/{party}       signed keys of shuffler and issuer; those of learner and mixer stand in the bundle
    POST /v1/reports            one envelope: 201 counted, 200 counted before, or a problem
    GET  /healthz

S1  201 means durable: the commit that holds the report is on the disk before the answer leaves.
S2  The same envelope again, or another envelope around the same report, is 200 and counts nothing.
S3  Nothing that a device sent is logged, counted by value or echoed; what is kept of it is what the collector keeps.
S4  Web pages may talk to it only if their origin is configured; cookies and other credentials of a browser never count.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tacit.errors import require
from tacit.service.config import ShufflerConfig, database_url
from tacit.service.encryption.envelope import EnvelopeRefused, open_envelope
from tacit.service.envelope_sizes import largest_envelope
from tacit.service.intake import Writer
from tacit.service.logs import Log
from tacit.service.metrics import Meters
from tacit.service.openapi import BYTES, Offer
from tacit.service.problems import ANSWERS, Refused
from tacit.service.relay import Kept, Relay, ring_of
from tacit.service.server import Listener, Party
from tacit.service.stage_windows import StageWindows
from tacit.service.tokens.admission import Admission, TokenAdmission, people_of
from tacit.service.tokens.token import Refusal
from tacit.service.web import Drain, application, health_route, json_response, said
from tacit.study.collector import Collector
from tacit.study.databases import database_at
from tacit.study.sealed_batches import require_seals
from tacit.study.store import Failpoint, no_failpoint

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
        design = _design(config)
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
    ring = ring_of(config.directory, collector.study, config.keys.sealing)
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
    from tacit.service.shuffler_internal import internal_app

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


def _design(config: ShufflerConfig) -> Any:
    import json

    from tacit.errors import InvalidInput
    from tacit.study import contract

    assert config.design is not None  # noqa: S101 - required above
    try:
        return contract.read_design(json.loads(config.design.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        if isinstance(error, InvalidInput):
            raise
        hint = f"{type(error).__name__}"
        raise InvalidInput(f"{config.design} must be a design as 'tacit study new' writes it: {hint}") from error
