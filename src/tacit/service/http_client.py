"""Exchanges: conversations over HTTP as generators, so that one piece of logic serves a device and a thousand of them.

    reply = yield Ask("GET", url)        None: nobody answered (refused, cut off, too slow, too long)
    yield Pause(seconds)
    return result

`converse` runs an exchange over an `httpx.Client`, `converse_async` over an `httpx.AsyncClient`; nothing else in here
touches the network, and an exchange can be tested by hand.

X1  A reply has at most `HttpRequest.most` bytes: a longer one is cut off and counts as no answer.
X2  Redirects are not followed and nothing is read from the environment: bytes go where they were told to go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tacit.errors import NotSupported, install_hint

if TYPE_CHECKING:
    import httpx

SMALL: Final = 2**16
"""The longest reply that is no bundle."""
TIMEOUT: Final = 30.0
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; its contents are not shown."""

    method: str
    url: str
    content: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    most: int = SMALL


@dataclass(frozen=True, slots=True)
class Pause:
    """A while in which nothing is sent."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer: status, headers with small letters, bytes."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes = field(default=b"", repr=False)


Exchange = Generator[HttpRequest | Pause, HttpResponse | None, Result]
"""A conversation that ends with a result."""


def converse(exchange: Exchange[Result], over: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> Result:
    """Run an exchange to its end."""
    reply: HttpResponse | None = None
    try:
        while True:
            step = exchange.send(reply)
            if isinstance(step, Pause):
                sleep(step.seconds)
                reply = None
            else:
                reply = _asked(step, over)
    except StopIteration as end:
        found: Result = end.value
        return found
    finally:
        exchange.close()


async def converse_async(exchange: Exchange[Result], over: httpx.AsyncClient) -> Result:
    """Run an exchange to its end, beside others."""
    reply: HttpResponse | None = None
    try:
        while True:
            step = exchange.send(reply)
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                reply = await _asked_async(step, over)
    except StopIteration as end:
        found: Result = end.value
        return found
    finally:
        exchange.close()


def client(**options: Any) -> httpx.Client:
    """A client of one device (X2)."""
    found: httpx.Client = _httpx().Client(**{"timeout": TIMEOUT, "trust_env": False, **options})
    return found


def async_client(connections: int, **options: Any) -> httpx.AsyncClient:
    """A client of many devices with so many connections (X2)."""
    package = _httpx()
    limits = package.Limits(max_connections=connections, max_keepalive_connections=connections)
    found: httpx.AsyncClient = package.AsyncClient(
        **{"timeout": TIMEOUT, "trust_env": False, "limits": limits, **options}
    )
    return found


def _asked(step: HttpRequest, over: httpx.Client) -> HttpResponse | None:
    package = _httpx()
    try:
        with over.stream(step.method, step.url, content=step.content or None, headers=dict(step.headers)) as got:
            whole = bytearray()
            for part in got.iter_bytes():
                whole += part
                if len(whole) > step.most:
                    return None
            return HttpResponse(
                got.status_code, {name.lower(): text for name, text in got.headers.items()}, bytes(whole)
            )
    except (package.TransportError, package.DecodingError):
        return None


async def _asked_async(step: HttpRequest, over: httpx.AsyncClient) -> HttpResponse | None:
    package = _httpx()
    try:
        async with over.stream(step.method, step.url, content=step.content or None, headers=dict(step.headers)) as got:
            whole = bytearray()
            async for part in got.aiter_bytes():
                whole += part
                if len(whole) > step.most:
                    return None
            return HttpResponse(
                got.status_code, {name.lower(): text for name, text in got.headers.items()}, bytes(whole)
            )
    except (package.TransportError, package.DecodingError):
        return None


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise NotSupported(f"devices over HTTP need the package httpx: {install_hint('service')}") from error
    return httpx
