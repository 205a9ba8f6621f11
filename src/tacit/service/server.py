"""One process of one party: several listeners in one event loop, and an orderly end.

R1  Ready means ready: addresses are printed, and written to the file `ready`, once every listener accepts.
R2  SIGTERM and SIGINT drain: listeners for devices close first, what was accepted is answered, then the party's own
    work ends (its writer is flushed), then the internal listener closes. The exit code is 0.
R3  The end is bounded: after `drain_seconds` what is left is given up, and the exit code is 1.

Connections that send no whole request: uvicorn's protocol with a deadline and a size for the head of a request.

uvicorn gives an idle connection as long as it likes until the first head has arrived, and its faster parser takes heads
of any size. Both are bounded here, and so is the number of connections: uvicorn's own limit answers 503 without saying
when to come back, and counts requests that have been answered. Nothing else is changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tacit.errors import InvalidInput
from tacit.runs.storage import write_whole, writing_to
from tacit.service.config import Limits, Listen
from tacit.service.metrics import Log
from tacit.service.web import MEDIA_TYPE, PROBLEMS, Drain

LARGEST_HEAD: Final = 64 * 1024
HEAD_END: Final = b"\r\n\r\n"
_Base: Any = AutoHTTPProtocol


def bounded_protocol(seconds: float, connections: int, retry: int) -> Any:
    """A protocol class: so many seconds for the head of a request, so many connections at once."""

    class Bounded(_Base):  # type: ignore[misc]
        """One connection."""

        _timer: asyncio.TimerHandle | None = None
        _pending = 0
        _tail = b""
        """The last bytes of a head that is on its way: its end may be cut in two."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections:
                self._refuse("overloaded", f"retry-after: {retry}\r\n")
                return
            self._wait()

        def data_received(self, data: bytes) -> None:
            if not self._answering() and not self._head_fits(data):
                self.send_400_response("")
                return
            super().data_received(data)
            if self._answering():
                self._pending, self._tail = 0, b""
                self._stop()
            else:
                self._wait()

        def _head_fits(self, data: bytes) -> bool:
            """Whether the head ends within its size; what follows it in the same bytes is a body, however long."""
            seen = self._tail + data
            self._pending += len(data)
            beyond = self._pending - LARGEST_HEAD
            self._tail = seen[1 - len(HEAD_END) :]
            return beyond <= 0 or HEAD_END in seen[: len(seen) - beyond]

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            self._refuse("malformed", "")

        def _refuse(self, slug: str, header: str) -> None:
            """Answer with a problem before a request was read, and close."""
            problem = PROBLEMS[slug]
            plain = {"type": f"urn:tacit:problem:{slug}", "title": problem.title, "status": problem.status}
            body = msgspec.json.encode(plain)
            status = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n"
            head = f"{status}content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n{header}"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
            self.transport.close()

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _wait(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self._give_up)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if not self._answering() and self.transport is not None:
                self.transport.close()

    return Bounded


FILES_BESIDE: Final = 256
"""Open files that are not connections."""


SWITCH_SECONDS: Final = 0.0005
DOORS: Final = 32
"""Handles of one listening socket: the event loop takes one new connection per handle and round (libuv, since 1.45), so
that with a single one whoever comes waits for as long as those who are connected keep the loop busy."""


async def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An application and where it listens; listeners are closed in their order."""

    name: str
    app: ASGIApp
    listen: Listen


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """What one process runs."""

    name: str
    listeners: Sequence[Listener]
    """The last one stays open longest: the internal one."""
    limits: Limits
    log: Log
    drain: Drain = field(default_factory=Drain)
    begin: Callable[[], Awaitable[None]] = _nothing
    """Starts the party's own work, in the event loop, before anything is accepted."""
    end: Callable[[], Awaitable[None]] = _nothing
    """Ends it: called when devices are answered, before the internal listener closes."""
    ready: Path | None = None
    started: Callable[[Mapping[str, str]], None] | None = None
    """Told the addresses once all listeners accept."""


class _Server(uvicorn.Server):
    """A server that leaves signals to its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(party: Party) -> int:
    """Run a party until it is asked to end; the exit code."""
    for name in ("uvicorn.error", "uvicorn.access", "asyncio"):
        quiet = logging.getLogger(name)  # they would print addresses and messages of errors
        quiet.handlers, quiet.propagate = [logging.NullHandler()], False
    _require_files(sum(1 for _ in party.listeners) * party.limits.connections)
    # A writer's thread asks for the interpreter after every statement; with 5 ms a busy event loop makes it wait for
    # longer than its commit takes.
    sys.setswitchinterval(SWITCH_SECONDS)
    sockets = [_bound(listener.listen) for listener in party.listeners]
    servers = [_Server(_settings(party.limits, listener)) for listener in party.listeners]
    with asyncio.Runner(loop_factory=servers[0].config.get_loop_factory()) as runner:
        return runner.run(_run(party, servers, sockets))


async def _run(party: Party, servers: Sequence[_Server], sockets: Sequence[socket.socket]) -> int:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    party.drain.when_asked(lambda: loop.call_soon_threadsafe(asked.set))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, party.drain.ask)
    await party.begin()
    tasks = [
        asyncio.create_task(server.serve(sockets=_doors(listening)))
        for server, listening in zip(servers, sockets, strict=True)
    ]
    while not all(server.started for server in servers):
        await asyncio.sleep(0.01)
        for task in tasks:
            if task.done():
                task.result()
    _say_ready(party, sockets)
    ended = asyncio.create_task(asked.wait())
    await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
    party.drain.ask()
    ended.cancel()
    party.log.event("draining")
    clean = True
    try:
        async with asyncio.timeout(party.limits.drain_seconds):
            for server, task in zip(servers[:-1], tasks[:-1], strict=True):
                server.should_exit = True
                await task
            await party.end()
            servers[-1].should_exit = True
            await tasks[-1]
    except TimeoutError:
        clean = False
        for task in tasks:
            task.cancel()
    party.log.event("ended", outcome="drained" if clean else "gave up")
    party.log.flush()
    return 0 if clean else 1


def _settings(limits: Limits, listener: Listener) -> uvicorn.Config:
    seconds: Any = limits.drain_seconds
    return uvicorn.Config(
        listener.app,
        http=bounded_protocol(limits.read_seconds, limits.connections, limits.retry_seconds),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=limits.backlog,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=seconds,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )


def _bound(listen: Listen) -> socket.socket:
    """A socket at this address."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((listen.host, listen.port))
    except OSError as error:
        made.close()
        raise InvalidInput(
            f"{listen.host}:{listen.port} must be a free address of this machine: {error.strerror}"
        ) from error
    made.setblocking(False)
    return made


def _doors(listening: socket.socket, number: int = DOORS) -> list[socket.socket]:
    """So many handles of one listening socket."""
    return [listening, *(listening.dup() for _ in range(number - 1))]


def _say_ready(party: Party, sockets: Sequence[socket.socket]) -> None:
    """Print the addresses as one JSON line, and write them where the configuration says (R1)."""
    addresses = {}
    for listener, made in zip(party.listeners, sockets, strict=True):
        host, port = made.getsockname()[:2]
        addresses[listener.name] = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    line = json.dumps({"party": party.name, **addresses})
    if party.ready is not None:
        with writing_to(party.ready):
            party.ready.parent.mkdir(parents=True, exist_ok=True)
            write_whole(party.ready, line.encode() + b"\n")
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if party.started is not None:
        party.started(addresses)
    party.log.event("ready")


def _require_files(connections: int) -> None:
    """Raise the limit of open files as far as it is allowed, or say that it is too low."""
    import resource  # POSIX only, as services are

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_BESIDE
    if soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise InvalidInput(
            f"limits.connections must fit into the limit of open files, got {connections} for {hard} files; "
            "lower it or raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
