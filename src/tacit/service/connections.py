"""Connections that send no whole request: uvicorn's protocol with a deadline and a size for the head of a request.

uvicorn gives an idle connection as long as it likes until the first head has arrived, and its faster parser takes heads
of any size. Both are bounded here; nothing else is changed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tacit.service.problems import MEDIA_TYPE, PROBLEMS

__all__ = ["LARGEST_HEAD", "bounded_protocol"]

LARGEST_HEAD: Final = 64 * 1024
_Base: Any = AutoHTTPProtocol


def bounded_protocol(seconds: float) -> Any:
    """A protocol class whose connections have so many seconds for the head of a request."""

    class Bounded(_Base):  # type: ignore[misc]
        """One connection."""

        _timer: asyncio.TimerHandle | None = None
        _pending = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            self._pending += len(data)
            if self._pending > LARGEST_HEAD and not self._answering():
                self.send_400_response("")
                return
            super().data_received(data)
            if self._answering():
                self._pending = 0
                self._stop()
            else:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            title = PROBLEMS["malformed"].title
            body = f'{{"type":"urn:tacit:problem:malformed","title":"{title}","status":400}}'.encode()
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
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
