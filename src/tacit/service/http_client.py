"""Exchanges: conversations over HTTP as generators, so that one piece of logic serves a device and a thousand of them.

    reply = yield Ask("GET", url)        None: nobody answered (refused, cut off, too slow, too long)
    yield Pause(seconds)
    return result

`converse` runs an exchange over an `httpx.Client`, `converse_async` over an `httpx.AsyncClient`; nothing else in here
touches the network, and an exchange can be tested by hand.

X1  A reply has at most `HttpRequest.most` bytes: a longer one is cut off and counts as no answer.
X2  Redirects are not followed and nothing is read from the environment: bytes go where they were told to go.

Sending: what an answer of the shuffler means for a frozen report, and how long to wait before the next try.

N1  Only the shuffler's own words end a report: "counted" and "again", or a problem of tacit that is final. No answer,
    an overload, or a page of something in between is waited out.
N2  Waiting doubles up to `most`, in full jitter on top of what `Retry-After` asked for, so that devices that failed
    together do not come back together.
N3  A key that the shuffler does not know means a new envelope around the same report, never a new report.

Peers: another party's internal address, as a party's own process asks it.

Q1  Every request may be repeated: bundles and keys are put, a release is the same bytes each time, files go on where
    they stopped.
Q2  `Unreachable` means: later (no answer, overloaded, ending, a fault over there). `PeerRefused` means: the same
    request will not do; its slug is the peer's word.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from tacit.errors import InvalidInput, NotSupported, TacitError, install_hint, require, require_count, require_real

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


async def converse_all(
    exchanges: Iterable[Exchange[Result]], over: httpx.AsyncClient, *, at_once: int = 64
) -> list[Result | TacitError]:
    """Run many exchanges over one pool of connections, in their order; what tacit refuses is a result."""
    gate = asyncio.Semaphore(require_count("at_once", at_once))

    async def one(exchange: Exchange[Result]) -> Result | TacitError:
        async with gate:
            try:
                return await converse_async(exchange, over)
            except TacitError as error:
                return error

    return list(await asyncio.gather(*(one(exchange) for exchange in exchanges)))


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


Next = Literal["done", "wait", "rekey", "over", "refused"]
COUNTED, AGAIN, NO_ANSWER = "counted", "again", "no answer"
DONE: Final = {201: COUNTED, 200: AGAIN}
PROBLEM: Final = re.compile(r"urn:tacit:problem:([a-z-]{1,40})")
FINAL: Final = frozenset(
    ("malformed", "unknown-study", "token", "bad-body", "id-taken", "twice", "used-up", "full", "too-large")
)
"""Problems that another try of the same bytes cannot mend."""
LONGEST_WAIT: Final = 3600.0
"""No `Retry-After` is believed beyond this many seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to do next, and the word to remember."""

    next: Next
    word: str
    after: float = 0.0
    """Seconds that the shuffler asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Seconds before the next try.

    >>> Backoff(first=1.0, most=8.0).seconds(2, after=0.0, lot=0.5)
    2.0
    >>> Backoff(first=1.0, most=8.0).seconds(10, after=5.0, lot=0.5)
    9.0
    """

    first: float = 0.5
    most: float = 60.0

    def __post_init__(self) -> None:
        require_real("first", self.first, low=0.0)
        require_real("most", self.most, low=0.0)

    def seconds(self, attempt: int, *, after: float, lot: float) -> float:
        """After so many tries that failed; `lot` is uniform in [0, 1) (N2)."""
        tries = min(require_count("attempt", attempt, least=0), 64)
        # after + U [0, min(most, first 2^k))
        return after + lot * min(self.most, self.first * 2.0**tries)


def understood(reply: HttpResponse | None) -> Answer:
    """What a reply to a report means (N1).

    >>> understood(None)
    Answer(next='wait', word='no answer', after=0.0)
    >>> understood(HttpResponse(410, {}, b'{"type": "urn:tacit:problem:late"}')).next
    'over'
    """
    if reply is None:
        return Answer("wait", NO_ANSWER)
    if reply.status in DONE:
        # A page in between may say 200 to everything; the shuffler says what became of the report.
        said = _entry(reply, "report") == DONE[reply.status]
        return Answer("done", DONE[reply.status]) if said else Answer("wait", NO_ANSWER)
    word, after = problem_of(reply), retry_after(reply.headers)
    if word == "late":
        return Answer("over", word)
    if word == "unknown-key":
        return Answer("rekey", word, after)
    if word in FINAL:
        return Answer("refused", word)
    return Answer("wait", word or NO_ANSWER, after)


def problem_of(reply: HttpResponse) -> str:
    """The slug of a problem document of tacit, or nothing."""
    found = PROBLEM.fullmatch(_entry(reply, "type"))
    return "" if found is None else found[1]


def retry_after(headers: Mapping[str, str]) -> float:
    """Whole seconds of `Retry-After`, bounded; anything else asks for nothing."""
    text = headers.get("retry-after", "")
    return min(float(text), LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _entry(reply: HttpResponse, name: str) -> str:
    """A text in the JSON object of a reply, or nothing."""
    try:
        found = json.loads(reply.content)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


LARGEST: Final = 64 * 2**20
DETAIL: Final = 300


class Unreachable(TacitError):
    """A peer does not answer, or not now."""

    def __init__(self, word: str, after: float = 0.0) -> None:
        self.word, self.after = word, after
        super().__init__(f"another party must be reachable, got {word}; it is asked again")


class PeerRefused(InvalidInput):
    """A peer answers, and refuses."""

    def __init__(self, slug: str, detail: str = "") -> None:
        self.slug = slug
        super().__init__(f"another party refuses: {slug}" + (f" ({detail})" if detail else ""))


class Peer:
    """A party at an internal address; `bearer` is the secret that it asks for."""

    def __init__(self, url: str, bearer: bytes, *, over: httpx.Client | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {bearer.decode('ascii')}"}
        self._over = client() if over is None else over

    def close(self) -> None:
        """Let the connections go."""
        self._over.close()

    def session(self) -> httpx.Client:
        """A client of its own, with the address and the secret of this peer."""
        return client(base_url=self.url, headers=self._headers)

    def put(self, path: str, content: bytes) -> bytes:
        """Hand something over; the same bytes again are no error (Q1)."""
        return self._asked("PUT", path, content)

    def post(self, path: str, content: bytes = b"") -> bytes:
        """Ask for something to be done."""
        return self._asked("POST", path, content)

    def delete(self, path: str) -> bytes:
        """Have something deleted; what is gone already is no error."""
        return self._asked("DELETE", path, b"")

    def get(self, path: str) -> bytes:
        """Ask for something."""
        return self._asked("GET", path, b"")

    def json(self, path: str) -> dict[str, Any]:
        """Ask for an object."""
        try:
            found = json.loads(self.get(path))
        except (ValueError, RecursionError) as error:
            raise Unreachable("something that is not JSON") from error
        if not isinstance(found, dict):
            raise Unreachable("something that is no object")
        return found

    def fetch(self, path: str, target: Path, size: int) -> None:
        """Bring a file of this many bytes onto the disk; what is there already is not asked for again."""
        done = target.stat().st_size if target.exists() else 0
        require(done <= size, f"{target} must not be longer than what is fetched", done)
        if target.exists() and done == size:
            return
        headers = {**self._headers, **({"range": f"bytes={done}-"} if done else {})}
        package = _errors()
        try:
            with self._over.stream("GET", self.url + path, headers=headers) as got:
                if got.status_code not in (200, 206):
                    raise _refusal(HttpResponse(got.status_code, got.headers, got.read()[:LARGEST]))
                # A peer that ignores the range sends everything: then we begin anew.
                mode = "ab" if got.status_code == 206 else "wb"
                _write(target, got.iter_bytes(), mode, size)
        except package as error:
            raise Unreachable("no answer") from error
        require(target.stat().st_size == size, f"a file must have the {size} bytes that were released", "others")

    def _asked(self, method: str, path: str, content: bytes) -> bytes:
        reply = converse(self._exchange(method, path, content), self._over)
        if reply is None:
            raise Unreachable("no answer")
        if reply.status not in (200, 201, 204):
            raise _refusal(reply)
        return reply.content

    def _exchange(self, method: str, path: str, content: bytes) -> Exchange[HttpResponse | None]:
        return (yield HttpRequest(method, self.url + path, content=content, headers=self._headers, most=LARGEST))


def _refusal(reply: HttpResponse) -> TacitError:
    """What a reply that is no success amounts to (Q2)."""
    slug = problem_of(reply)
    if not slug or reply.status >= 500 or reply.status in (408, 429):
        return Unreachable(slug or f"status {reply.status}", retry_after(reply.headers))
    return PeerRefused(slug, _detail(reply.content))


def _detail(content: bytes) -> str:
    plain = json.loads(content)
    text = plain.get("detail", "") if isinstance(plain, Mapping) else ""
    return text[:DETAIL] if isinstance(text, str) and text.isprintable() else ""


def _write(target: Path, parts: Any, mode: str, size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode == "ab" else os.O_TRUNC)
    with os.fdopen(os.open(target, flags, 0o600), mode) as file:
        for part in parts:
            require(file.tell() + len(part) <= size, f"a file must have the {size} bytes that were released", "more")
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _errors() -> type[Exception]:
    import httpx

    return httpx.TransportError
