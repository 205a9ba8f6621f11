"""Connections that send no whole request: uvicorn's protocol with a deadline and a size for the head of a request.

uvicorn gives an idle connection as long as it likes until the first head has arrived, and its faster parser takes heads
of any size. Both are bounded here, and so is the number of connections: uvicorn's own limit answers 503 without saying
when to come back, and counts requests that have been answered. Nothing else is changed.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

import msgspec
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tacit.service.problems import MEDIA_TYPE, PROBLEMS

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
