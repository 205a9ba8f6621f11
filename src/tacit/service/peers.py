"""Peers: another party's internal address, as a party's own process asks it.

Q1  Every request may be repeated: bundles and keys are put, a release is the same bytes each time, files go on where
    they stopped.
Q2  `Unreachable` means: later (no answer, overloaded, ending, a fault over there). `PeerRefused` means: the same
    request will not do; its slug is the peer's word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.errors import InvalidInput, TacitError, require
from tacit.service.http_client import Exchange, HttpRequest, HttpResponse, client, converse
from tacit.service.retry import problem_of, retry_after

if TYPE_CHECKING:
    import httpx

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
