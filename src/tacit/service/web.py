"""The front of every listener: limits, secrets, problem documents, counts and logs around an ASGI application.

V1  A body is counted while it arrives: beyond the limit it is refused before the rest is read.
V2  A body has a deadline, whole, not per part. Of many slow ones the slowest is given up, so that slow senders never
    take the place of others.
V3  Whatever happens ends in a problem document; a fault of the service says nothing about itself (`problems`).
V4  What is counted and logged are the function that answered, the status and a word of the program's own.
V5  Counts of reports stand still for a minute: whoever asks more often does not see the moment of a report.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.errors import TacitError
from tacit.service.config import Limits
from tacit.service.logs import Log
from tacit.service.metrics import Meters
from tacit.service.openapi import JSON, Offer, openapi
from tacit.service.problems import Refused, problem_response, refusal_of

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
