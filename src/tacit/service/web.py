"""The front of every listener: limits, secrets, problem documents, counts and logs around an ASGI application.

V1  A body is counted while it arrives: beyond the limit it is refused before the rest is read.
V2  A body has a deadline, whole, not per part. Of many slow ones the slowest is given up, so that slow senders never
    take the place of others.
V3  Whatever happens ends in a problem document; a fault of the service says nothing about itself (`problems`).
V4  What is counted and logged are the function that answered, the status and a word of the program's own.
V5  Counts of reports stand still for a minute: whoever asks more often does not see the moment of a report.

Problem documents (RFC 9457): what a party answers when it refuses, without a word of what was sent.

P1  Every refusal has a type `urn:tacit:problem:<slug>`, a title and a status; input is never echoed.
P2  `detail` is for other parties (internal addresses) and says what must hold; devices get none.
P3  A fault of the service is "internal" and says nothing else.

The OpenAPI document of a listener, made from the routes that it serves: `GET /openapi.json`.

A route of a listener is an `Offer`: it says which body it takes and which answers it gives, beside refusals, which all
have one form (`tacit.service.web`). A status that is not in the document is a fault; 500 is in none.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit._version import __version__
from tacit.errors import NotSupported, PrivacyBudgetExceeded, PrivacyViolation, TacitError
from tacit.service.config import Limits
from tacit.service.metrics import Log, Meters

MEDIA_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """A kind of refusal."""

    status: int
    title: str
    retry: bool = False
    """Whether the same request may succeed later."""


PROBLEMS: Final[Mapping[str, Problem]] = {
    "malformed": Problem(400, "This is not what is taken here."),
    "unauthorized": Problem(401, "A secret is needed."),
    "forbidden": Problem(403, "This secret does not allow it."),
    "token": Problem(403, "The token or credential is not accepted."),
    "used-up": Problem(403, "This person has reported as often as the study allows."),
    "not-found": Problem(404, "There is nothing here."),
    "unknown-study": Problem(404, "This study is not collected here."),
    "unknown-key": Problem(404, "This key is not used here; fetch the keys again."),
    "method": Problem(405, "This is not done here."),
    "timeout": Problem(408, "The request took too long to arrive."),
    "refused": Problem(409, "The state of the study does not allow this."),
    "budget-spent": Problem(409, "The privacy budget does not allow this."),
    "not-open": Problem(409, "This stage is not open yet.", retry=True),
    "id-taken": Problem(409, "Another report has this id."),
    "twice": Problem(409, "This person has reported in this stage."),
    "full": Problem(409, "This stage has all the reports that it wants."),
    "late": Problem(410, "This stage is over."),
    "too-large": Problem(413, "The request is too large."),
    "range": Problem(416, "There is no such range."),
    "bad-body": Problem(422, "This is not what a device of this stage sends."),
    "overloaded": Problem(429, "Too much to do; come back.", retry=True),
    "internal": Problem(500, "Something is wrong on this side."),
    "not-supported": Problem(501, "This is not offered."),
    "unavailable": Problem(503, "Not ready; come back.", retry=True),
    "draining": Problem(503, "This process is ending; come back.", retry=True),
}
"""Every refusal by its slug; a slug that is not in here cannot be raised."""

ANSWERS: Final[Mapping[str, str]] = {
    "malformed": "malformed",
    "another study": "unknown-study",
    "not open": "not-open",
    "late": "late",
    "bad body": "bad-body",
    "id taken": "id-taken",
    "twice": "twice",
    "used up": "used-up",
    "full": "full",
}
"""The slugs of a collector's refusals (`tacit.study.intake.REASONS`)."""


class Refused(Exception):
    """A request is refused for the reason of this slug."""

    def __init__(self, slug: str, *, detail: str = "", retry_after: int | None = None) -> None:
        self.slug = slug
        self.problem = PROBLEMS[slug]
        self.detail = detail
        self.retry_after = retry_after
        super().__init__(slug)


def refusal_of(error: TacitError, *, detailed: bool) -> Refused:
    """The refusal that an error of tacit amounts to; `detailed` for other parties only (P2)."""
    kinds = {PrivacyBudgetExceeded: "budget-spent", NotSupported: "not-supported", PrivacyViolation: "refused"}
    slug = next((slug for kind, slug in kinds.items() if isinstance(error, kind)), "refused")
    return Refused(slug, detail=str(error) if detailed else "")


def problem_response(refused: Refused, retry_after: int = 2) -> Response:
    """The document of a refusal (P1).

    >>> problem_response(Refused("late")).body
    b'{"type":"urn:tacit:problem:late","title":"This stage is over.","status":410}'
    """
    problem = refused.problem
    plain: dict[str, object] = {
        "type": f"urn:tacit:problem:{refused.slug}",
        "title": problem.title,
        "status": problem.status,
    }
    if refused.detail:
        plain["detail"] = refused.detail
    headers = {"cache-control": "no-store"}
    if problem.retry:
        headers["retry-after"] = str(retry_after if refused.retry_after is None else refused.retry_after)
    if refused.slug == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    if refused.slug in ("too-large", "timeout", "draining"):
        headers["connection"] = "close"
    return Response(msgspec.json.encode(plain), problem.status, headers, media_type=MEDIA_TYPE)


JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
HTML: Final = "text/html"
BODIES: Final[dict[str, dict[str, Any]]] = {JSON: {"type": "object"}}
DIGITS: Final = 9


class _Number(Convertor[int]):
    """Whole numbers of so few digits that reading them costs nothing; an address with a longer one does not exist."""

    regex = f"[0-9]{{1,{DIGITS}}}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())


class Offer(Route):
    """A route with what it takes and gives."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Callable[..., Any],
        *,
        takes: str | None = None,
        gives: str | None = JSON,
        answers: Sequence[int] = (200,),
        refuses: Sequence[str] = (MEDIA_TYPE,),
    ) -> None:
        """`takes` and `gives` are media types, None for no body; `refuses` are those of refusals."""
        super().__init__(path, endpoint, methods=[method])
        self.method, self.takes, self.gives, self.answers, self.refuses = method, takes, gives, answers, refuses

    def described(self) -> dict[str, Any]:
        """The operation, as OpenAPI has it."""
        given = {} if self.gives is None else {"content": {self.gives: {"schema": BODIES.get(self.gives, {})}}}
        refused = {"description": "Refused.", "content": {kind: {"schema": _refusal(kind)} for kind in self.refuses}}
        found: dict[str, Any] = {
            "operationId": f"{self.method.lower()}_{self.endpoint.__name__}",
            "summary": next(iter((self.endpoint.__doc__ or self.endpoint.__name__).strip().splitlines())),
            "parameters": [_parameter(name, kind) for name, kind in self.param_convertors.items()],
            "responses": {
                **dict.fromkeys(("4XX", "501", "503"), refused),
                **{str(status): {"description": "Done.", **given} for status in self.answers},
            },
        }
        if self.takes is not None:
            found["requestBody"] = {"content": {self.takes: {"schema": BODIES.get(self.takes, {})}}}
        return found


def openapi(title: str, routes: Iterable[BaseRoute], *, secret: bool, open_to_all: frozenset[str]) -> dict[str, Any]:
    """The document of a listener; with a `secret`, everything but `open_to_all` wants it."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Offer):
            found = route.described()
            if secret and route.path not in open_to_all:
                found["security"] = [{"secret": []}]
            paths.setdefault(route.path_format, {})[route.method.lower()] = found
    schemes = {"secret": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes} if secret else {},
    }


def _parameter(name: str, kind: Convertor[Any]) -> dict[str, Any]:
    number = {"type": "integer", "minimum": 0, "maximum": 10**DIGITS - 1}
    schema = number if isinstance(kind, _Number) else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _refusal(kind: str) -> dict[str, Any]:
    """The schema of a refusal: a problem document, or a page."""
    if kind != MEDIA_TYPE:
        return {}
    return {
        "type": "object",
        "properties": {
            "type": {"enum": [f"urn:tacit:problem:{slug}" for slug in PROBLEMS]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
        "required": ["type", "title", "status"],
        "additionalProperties": False,
    }


T = TypeVar("T")
STILL_SECONDS = 60.0

REASON: Final = "tacit.reason"
METRICS: Final = "/metrics"
ALWAYS: Final = frozenset(("/healthz", METRICS))
"""Answered while a process drains."""
OPEN: Final = frozenset(("/healthz",))
"""Answered without a secret."""


class Drain:
    """Whether this process was asked to end."""

    def __init__(self) -> None:
        self.draining = False
        self._calls: list[Callable[[], object]] = []

    def ask(self) -> None:
        """Begin to end; asked again, nothing happens."""
        if not self.draining:
            self.draining = True
            for call in self._calls:
                call()

    def when_asked(self, call: Callable[[], object]) -> None:
        """Have something called when the end begins."""
        self._calls.append(call)


class Guard:
    """The middleware of one listener."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        largest: int,
        meters: Meters,
        log: Log,
        drain: Drain,
        bearer: bytes | None = None,
        scraper: bytes | None = None,
    ) -> None:
        self.app = app
        self.limits, self.largest = limits, largest
        self.meters, self.log, self.drain = meters, log, drain
        self.detailed = bearer is not None  # internal addresses say what must hold
        self._bearer, self._scraper = (
            None if secret is None else hashlib.sha256(secret).digest() for secret in (bearer, scraper)
        )
        self._arriving: dict[object, asyncio.Timeout] = {}
        self._counted: dict[tuple[str, int, str], Any] = {}
        meters.watch_bodies(self._arriving)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope["app"] = self  # so that the router raises what it refuses
        reason = ""
        try:
            self._admit(scope)
            await self.app(scope, self._limited(scope, receive), watched)
        except ClientDisconnect:
            status, reason = status or 499, "gone"
        except Exception as error:
            refused = self._refusal(error)
            reason = refused.slug
            if status:  # an answer that was begun can only be cut off
                self._count(scope, status, "cut off", started)
                raise
            await problem_response(refused, self.limits.retry_seconds)(scope, receive, watched)
        self._count(scope, status, reason or scope.get(REASON, "ok"), started)

    def _admit(self, scope: Scope) -> None:
        """Refuse what needs no look at the body."""
        path = scope["path"]
        if self.drain.draining and path not in ALWAYS:
            raise Refused("draining")
        given, length = b"", b"0"
        for name, value in scope["headers"]:
            if name == b"authorization":
                given = value
            elif name == b"content-length":
                length = value
        if self._bearer is not None and path not in OPEN:
            kind, _, secret = given.partition(b" ")
            wanted = self._bearer if self._scraper is None or path != METRICS else self._scraper
            fits = hmac.compare_digest(hashlib.sha256(secret.strip()).digest(), wanted)
            if kind.lower() != b"bearer" or not fits:
                raise Refused("unauthorized")
        if not length.isdigit():
            raise Refused("malformed")
        if len(length) > 18 or int(length) > self.largest:
            raise Refused("too-large")

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """The body of a request under its limits (V1, V2)."""
        seen, over = 0, False
        deadline = 0.0

        async def limited() -> Message:
            nonlocal seen, over, deadline
            if over:
                return await receive()
            deadline = deadline or asyncio.get_running_loop().time() + self.limits.read_seconds
            message = await self._in_time(receive, deadline)
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > self.largest:
                    raise Refused("too-large")
                over = not message.get("more_body", False)
            return message

        return limited

    async def _in_time(self, receive: Receive, deadline: float) -> Message:
        mark = object()
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                self._arriving[mark] = timeout
                if len(self._arriving) > self.limits.bodies:
                    slowest = self._arriving.pop(next(iter(self._arriving)))
                    slowest.reschedule(asyncio.get_running_loop().time())
                return await receive()
        except TimeoutError as error:
            raise Refused("timeout") from error
        finally:
            self._arriving.pop(mark, None)

    def _refusal(self, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error if self.detailed or not error.detail else Refused(error.slug, retry_after=error.retry_after)
        if isinstance(error, HTTPException):
            return Refused({404: "not-found", 405: "method", 416: "range"}.get(error.status_code, "malformed"))
        if isinstance(error, TacitError) and self.detailed:
            return refusal_of(error, detailed=True)
        self.log.fault(error)
        return Refused("internal")

    def _count(self, scope: Scope, status: int, reason: str, started: float) -> None:
        endpoint = scope.get("endpoint")
        key = (getattr(endpoint, "__name__", "other") if endpoint is not None else "other", status, reason)
        counter = self._counted.get(key)
        if counter is None:
            counter = self._counted[key] = self.meters.requests.labels(key[0], str(status), reason)
        counter.inc()
        self.meters.seconds.observe(time.perf_counter() - started)
        self.log.request(*key)


def application(
    routes: Iterable[BaseRoute],
    *,
    limits: Limits,
    meters: Meters,
    log: Log,
    drain: Drain,
    bearer: bytes | None = None,
    scraper: bytes | None = None,
) -> ASGIApp:
    """An application behind its guard; with a `bearer` it is an internal one: secrets, larger bodies, details."""
    title = f"tacit {meters.party}, {'public' if bearer is None else 'internal'}"
    offered: list[BaseRoute] = list(routes)

    async def described(request: Request) -> Response:
        """The document itself."""
        return json_response(openapi(title, offered, secret=bearer is not None, open_to_all=OPEN))

    offered.insert(0, Offer("GET", "/openapi.json", described))
    router = Router(routes=offered, redirect_slashes=False)
    largest = limits.body if bearer is None else limits.document
    return Guard(
        router,
        limits=limits,
        largest=largest,
        meters=meters,
        log=log,
        drain=drain,
        bearer=bearer,
        scraper=scraper,
    )


def said(request: Request, reason: str) -> None:
    """Have a request counted under this word of the program's own (V4)."""
    request.scope[REASON] = reason


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON that nobody keeps."""
    kept = {"cache-control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(content), status, kept, media_type=JSON)


def health_route(drain: Drain, healthy: Callable[[], bool] = lambda: True) -> Offer:
    """`GET /healthz`: 200 while the process works, 503 once it drains or is broken."""

    async def healthz(request: Request) -> Response:
        """Whether the process works."""
        if drain.draining:
            return json_response({"status": "draining"}, 503, {"retry-after": "2"})
        return json_response({"status": "ok"}) if healthy() else json_response({"status": "broken"}, 503)

    return Offer("GET", "/healthz", healthz, answers=(200, 503))


def metrics_route(meters: Meters, clock: Callable[[], float] = time.monotonic) -> Offer:
    """`GET /metrics` in the text format of Prometheus, at most once a minute anew (V5)."""
    still: Still[bytes] = Still(clock)

    async def metrics(request: Request) -> Response:
        """Counts for Prometheus, made at most once a minute."""
        return Response(still(None, meters.text), media_type="text/plain; version=0.0.4; charset=utf-8")

    return Offer("GET", METRICS, metrics, gives="text/plain")


class Still(Generic[T]):
    """A value that stands still for a minute, unless its key changes (V5)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._kept: tuple[object, float, T] | None = None

    def __call__(self, key: object, make: Callable[[], T]) -> T:
        """What was made within the last minute under this key, or a new one."""
        with self._lock:
            now = self._clock()
            if self._kept is None or self._kept[0] != key or now - self._kept[1] >= STILL_SECONDS:
                self._kept = (key, now, make())
            return self._kept[2]
