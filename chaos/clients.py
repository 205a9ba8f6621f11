"""Raw clients: HTTP over one kept connection, envelopes made by hand, and writers that send until there is an answer.

A raw client has no manners: it sends what it is told to, as fast as it is told to, and keeps no state on a disk.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tacit.service.encryption.envelope import seal_envelope
from tacit.service.encryption.hpke import PublicKey
from tacit.service.encryption.keyring import KeysDocument
from tacit.service.tokens.admission import open_name
from tacit.study.wire import Report

TIMEOUT = 30.0
BROKEN = (OSError, http.client.HTTPException)
DONE = (200, 201)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def slug(self) -> str:
        """The kind of a problem, or nothing."""
        try:
            return str(json.loads(self.body)["type"]).removeprefix("urn:tacit:problem:")
        except (ValueError, KeyError, TypeError):
            return ""

    @property
    def word(self) -> str:
        """What became of a report: "counted", "again", or the kind of a problem."""
        return {201: "counted", 200: "again"}.get(self.status) or self.slug or str(self.status)


class Wire:
    """One kept connection to one address; not for several threads."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, *, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port
        self.headers, self.timeout = dict(headers or {}), timeout
        self._made: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply | None:
        """The reply, or None where there is no whole one: then nobody knows what became of the request."""
        if self._made is None:
            self._made = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            self._made.request(method, path, body=body, headers={**self.headers, **(headers or {})})
            found = self._made.getresponse()
            return Reply(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        except BROKEN:
            self.close()
            return None

    def close(self) -> None:
        """Let the connection go."""
        if self._made is not None:
            self._made.close()
            self._made = None


@dataclass
class Sender:
    """Makes reports and envelopes of one study for a shuffler at a public address."""

    url: str
    study: bytes
    pinned: Any = None
    key: PublicKey | None = None

    def fetch_key(self) -> PublicKey:
        """The shuffler's active key, asked for until it answers."""
        with contextlib.closing(Wire(self.url)) as wire:
            reply = insist(lambda: wire.ask("GET", "/v1/keys/shuffler"), lambda found: found.status == 200)
        self.key = KeysDocument.read(reply.body, party="shuffler", study=self.study, pinned=self.pinned).active
        return self.key

    def report(self, body: bytes, stage: int, name: bytes | None = None) -> bytes:
        """A report with a random id."""
        chosen = os.urandom(16) if name is None else name
        return Report(study=self.study, stage=stage, id=chosen, body=body).encode()

    def envelope(self, report: bytes, person: str | bytes) -> bytes:
        """The envelope around a report; a person is a name, or the bytes of a token."""
        token = open_name(person) if isinstance(person, str) else person
        return seal_envelope(report, token, study=self.study, key=self.key or self.fetch_key())


def insist(
    ask: Callable[[], Reply | None], enough: Callable[[Reply], bool], seconds: float = 60.0, pause: float = 0.02
) -> Reply:
    """Ask until a reply is enough."""
    end, found = time.monotonic() + seconds, None
    while time.monotonic() < end:
        found = ask()
        if found is not None and enough(found):
            return found
        time.sleep(pause)
    raise RuntimeError(f"no such answer in {seconds:.0f} s: {found and (found.status, found.body[:200])}")


def send_until_answered(wire: Wire, envelope: bytes, *, seconds: float = 60.0) -> tuple[Reply, int]:
    """The first reply that says what became of a report, and how many tries it took: 429, 503 and none are waited out.

    Nothing but the shuffler's own word ends this, so afterwards it is known whether the report counts.
    """
    tries = 0

    def once() -> Reply | None:
        nonlocal tries
        tries += 1
        return wire.ask("POST", "/v1/reports", envelope)

    return insist(once, lambda reply: reply.status not in (408, 429) and reply.status < 500, seconds), tries


@dataclass
class Writers:
    """Threads that send envelopes, each until it is answered; `done` is told of every answer."""

    url: str
    jobs: Iterable[tuple[Any, bytes]]
    done: Callable[[Any, Reply, int], None]
    number: int = 24
    seconds: float = 60.0
    errors: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock, self._jobs = threading.Lock(), iter(self.jobs)
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self.number)]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float = 120.0) -> None:
        """Wait for the end; an error of a thread is raised here."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            raise RuntimeError("writers did not come to an end")
        if self.errors:
            raise self.errors[0]

    def _run(self) -> None:
        with contextlib.closing(Wire(self.url)) as wire:
            try:
                while True:
                    with self._lock:
                        job = next(self._jobs, None)
                    if job is None:
                        return
                    reply, tries = send_until_answered(wire, job[1], seconds=self.seconds)
                    self.done(job[0], reply, tries)
            except BaseException as error:
                self.errors.append(error)
