"""The issuer behind HTTP: devices ask with their credential and a blinded message, the learner opens and ends stages.

    public      GET  /v1/keys                  the signed document of keys
                POST /v1/tokens                Authorization: Bearer <credential>, {"stage", "blinded"} -> {"signature"}
    internal    PUT  /v1/stages/{stage}        make the key of a stage: 201, or 200 where there is one
                DELETE /v1/stages/{stage}      the stage is over: its secret key is deleted
                GET  /v1/status, /v1/keys, /healthz, /metrics

U1  A request is signed in a thread, and a signature is answered after it is stored (issuing, I1); beyond `limits.queue`
    requests at once a device is asked to come back.
U2  Nothing that a device sent is echoed, logged or counted by more than its outcome.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tacit.errors import InvalidInput, require
from tacit.service.config import IssuerConfig, database_url, scraper_of
from tacit.service.metrics import Log, Meters
from tacit.service.server import Listener, Party
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.token import LAST_STAGE
from tacit.service.tokens.token_issuer import Denied, Issuer
from tacit.service.web import (
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
from tacit.study.contract import read_design_file

ANSWERS: Final = {
    "malformed": "malformed",
    "foreign": "token",
    "not open": "not-open",
    "late": "late",
    "twice": "twice",
    "used up": "used-up",
}
"""The slugs of an issuer's denials (`tacit.service.tokens.token_issuer.DENIALS`)."""
THREADS: Final = 4


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/tokens`; bytes are base64 in JSON."""

    stage: Annotated[int, msgspec.Meta(ge=0, le=LAST_STAGE)]
    blinded: Annotated[bytes, msgspec.Meta(max_length=1024)]


class IssuerService:
    """The applications around one issuer."""

    def __init__(self, issuer: Issuer, config: IssuerConfig, *, log: Log | None = None) -> None:
        self.issuer, self.config = issuer, config
        self.log = Log("issuer") if log is None else log
        self.drain = Drain()
        self.meters = Meters("issuer")
        self.tokens = self.meters.counter("tokens", "Blind signatures by outcome.", "outcome")
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="issuer")
        self.waiting = 0
        self.still: Still[dict[str, Any]] = Still()
        front: dict[str, Any] = {"limits": config.limits, "log": self.log, "drain": self.drain, "meters": self.meters}
        keys, stage = Offer("GET", "/v1/keys", self.get_keys), "/v1/stages/{stage:number}"
        self.public = application(
            [keys, Offer("POST", "/v1/tokens", self.post_tokens, takes=JSON), health_route(self.drain)], **front
        )
        stages = [
            Offer("PUT", stage, self.put_stage, answers=(200, 201)),
            Offer("DELETE", stage, self.delete_stage),
        ]
        seen = [Offer("GET", "/v1/status", self.get_status), metrics_route(self.meters)]
        self.internal = application(
            [keys, *stages, *seen, health_route(self.drain)],
            **front,
            bearer=config.bearer.read(),
            scraper=scraper_of(config),
        )

    async def post_tokens(self, request: Request) -> Response:
        """Sign a blinded message for the holder of a credential."""
        kind, _, credential = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not credential.strip():
            raise Refused("unauthorized")
        try:
            asked = msgspec.json.decode(await request.body(), type=_Request)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused("malformed") from error
        if self.waiting >= self.config.limits.queue:
            raise Refused("overloaded")
        self.waiting += 1
        try:
            secret = credential.strip().encode("utf-8", errors="surrogateescape")
            found = await self._called(self.issuer.issue, secret, asked.stage, asked.blinded)
        except InvalidInput as error:  # the database is out of reach
            self.log.fault(error)
            raise Refused("unavailable") from error
        finally:
            self.waiting -= 1
        if isinstance(found, Denied):
            self.tokens.labels(ANSWERS[found.reason]).inc()
            raise Refused(ANSWERS[found.reason])
        self.tokens.labels("signed").inc()
        said(request, "signed")
        return json_response({"signature": found})

    async def get_keys(self, request: Request) -> Response:
        """The document of keys, for the learner to relay through the shuffler."""
        try:
            document = await self._called(self.issuer.document)
        except InvalidInput as error:
            self.log.fault(error)
            raise Refused("unavailable") from error
        return Response(document, media_type="application/json", headers={"cache-control": "no-cache"})

    async def put_stage(self, request: Request) -> Response:
        """Open a stage; the same again changes nothing."""
        made = await self._called(self.issuer.open_stage, request.path_params["stage"])
        if made:
            self.log.event("stage opened", stage=request.path_params["stage"])
        return json_response({"stage": request.path_params["stage"]}, 201 if made else 200)

    async def delete_stage(self, request: Request) -> Response:
        """End a stage; the same again changes nothing."""
        stage = request.path_params["stage"]
        await self._called(self.issuer.end_stage, stage)
        self.log.event("stage ended", stage=stage)
        return json_response({"stage": stage})

    async def get_status(self, request: Request) -> Response:
        """Numbers only; counts of tokens stand still for a minute."""
        found = await self._called(self.issuer.status)
        stages = [(row["stage"], row["open"]) for row in found["stages"]]
        return json_response(self.still(stages, lambda: found))

    async def close(self) -> None:
        """End when what was asked is answered."""
        await asyncio.to_thread(self.threads.shutdown)

    async def _called(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)


def party(config: IssuerConfig) -> Party:
    """The issuer of a configuration; a new directory begins a new issuer of the design."""
    service = IssuerService(open_issuer(config), config)
    listeners = (
        Listener(name="public", app=service.public, listen=config.public),
        Listener(name="internal", app=service.internal, listen=config.internal),
    )
    return Party(
        name="issuer",
        listeners=listeners,
        limits=config.limits,
        log=service.log,
        drain=service.drain,
        end=service.close,
        ready=config.ready,
    )


def open_issuer(config: IssuerConfig) -> Issuer:
    """The issuer in the directory of a configuration, begun if there is none; its study must be that of the design."""
    design, key = read_design_file(config.design), config.keys.sign
    require(
        key is not None, "an issuer must have keys.sign, its private Ed25519 key", "none", "make it: tacit keys new"
    )
    assert key is not None  # noqa: S101 - for the types
    study, people, url = bytes.fromhex(design.digest), Enrolment(config.credentials), database_url(config)
    if not Issuer.begun(config.directory, url):
        reports = int(design.unit.reports)
        return Issuer.new(config.directory, study=study, reports=reports, people=people, key=key, database=url)
    issuer = Issuer(config.directory, people=people, key=key, database=url)
    require(issuer.study == study, "the issuer must be of the study of its design", "another study")
    return issuer
