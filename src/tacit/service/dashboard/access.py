"""Access to the dashboard: one token reads, another one writes, and a session stands for either in a browser.

S1  Tokens are 32 random bytes in files that only their owner reads. They are compared in constant time, both of them
    whichever fits, and stand in no page, log, cookie or address that a server sees: an address carries one behind `#`.
S2  A session is a random cookie (HttpOnly, SameSite=Strict) that this process knows by its SHA-256; it ends after
    twelve hours, when it is left, and with the process.
S3  A form that writes carries the session's own secret, and comes from this very origin; a request with an
    Authorization header needs neither, since no other page can make a browser send one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from starlette.requests import Request

from tacit.runs.storage_paths import write_private
from tacit.service.config import Secret
from tacit.service.problems import Refused

Role = Literal["reader", "writer"]
READER: Final = "reader.token"
WRITER: Final = "writer.token"
HOURS: Final = 12
MAX_SESSIONS: Final = 1000
"""Sessions at once; beyond them the oldest ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The two tokens of a dashboard."""

    reader: bytes = field(repr=False)
    writer: bytes = field(repr=False)
    made: bool
    """Whether they were made now."""

    @classmethod
    def at(cls, directory: Path) -> Tokens:
        """The tokens in a directory, made where there are none (S1)."""
        made = False
        for name in (READER, WRITER):
            if not (directory / name).exists():
                write_private(directory / name, secrets.token_urlsafe(32).encode())
                made = True
        found = {name: Secret(file=directory / name).read() for name in (READER, WRITER)}
        return cls(reader=found[READER], writer=found[WRITER], made=made)

    def role(self, given: bytes) -> Role | None:
        """What a token allows; both comparisons are always made (S1)."""
        digest = hashlib.sha256(given).digest()
        reads = hmac.compare_digest(digest, hashlib.sha256(self.reader).digest())
        writes = hmac.compare_digest(digest, hashlib.sha256(self.writer).digest())
        return "writer" if writes else "reader" if reads else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who asks: what they may do, and the secret of their forms; None where an Authorization header was sent."""

    role: Role
    form: str | None = field(repr=False)
    ends: float


class Access:
    """The sessions of one process."""

    def __init__(
        self, tokens: Tokens, study: str, *, secure: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens, self._secure, self._clock = tokens, secure, clock
        self.cookie = f"tacit-{study[:12]}"
        """Browsers tell cookies apart by host, not by port, so that the study is in the name."""
        self._sessions: dict[bytes, Session] = {}

    def enter(self, token: str) -> tuple[str, Session]:
        """A new session, and the name that its cookie holds."""
        role = self._tokens.role(token.strip().encode())
        if role is None:
            raise Refused("unauthorized")
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        made = Session(role=role, form=secrets.token_urlsafe(32), ends=self._clock() + 3600 * HOURS)
        self._sessions[_known(name)] = made
        return name, made

    def leave(self, request: Request) -> None:
        """End the session of a request."""
        self._sessions.pop(_known(request.cookies.get(self.cookie, "")), None)

    def header(self, name: str, *, seconds: int = 3600 * HOURS) -> str:
        """The cookie of a session (S2)."""
        secure = "; Secure" if self._secure else ""
        return f"{self.cookie}={name}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    def reading(self, request: Request) -> Session:
        """Who asks, if they may read."""
        given = request.headers.get("authorization")
        if given is not None:
            kind, _, token = given.partition(" ")
            role = self._tokens.role(token.strip().encode())
            if kind.lower() != "bearer" or role is None:
                raise Refused("unauthorized")
            return Session(role=role, form=None, ends=self._clock() + 1)
        found = self._sessions.get(_known(request.cookies.get(self.cookie, "")))
        if found is None or self._clock() >= found.ends:
            raise Refused("unauthorized")
        return found

    def posting(self, request: Request, form: dict[str, str], *, writes: bool) -> Session:
        """Who asks, if what they send is their own (S3) and, if it `writes`, they may."""
        session = self.reading(request)
        if session.form is not None:
            own = hmac.compare_digest(form.get("form", "").encode(), session.form.encode())
            if not own or not same_origin(request):
                raise Refused("forbidden")
        if writes and session.role != "writer":
            raise Refused("forbidden")
        return session


def same_origin(request: Request) -> bool:
    """Whether a browser says that a request comes from a page of this very host; one that says nothing is none."""
    origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if fetched is not None and fetched not in ("same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _known(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
