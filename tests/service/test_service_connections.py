"""Heads and bodies that arrive in one piece: a large body is let in, a large head is not."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from tacit.service.server import LARGEST_HEAD, bounded_protocol


async def echo(scope, receive, send):
    """Answer with the length of the body."""
    seen, more = 0, True
    while more:
        message = await receive()
        seen, more = seen + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": str(seen).encode()})


async def answered(*pieces):
    """What a server answers to these bytes."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    settings = uvicorn.Config(
        echo, http=bounded_protocol(30.0, 10, 1), lifespan="off", log_config=None, interface="asgi3", ws="none"
    )
    server = uvicorn.Server(settings)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with asyncio.timeout(30):
            while not server.started:
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            found = await reader.read()
            writer.close()
            return found
    finally:
        server.should_exit = True
        await task


def test_a_large_body_in_one_piece_is_no_large_head():
    body = bytes(4 * LARGEST_HEAD)
    head = f"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    for pieces in ((head + body,), (head, body), (head[:-1], head[-1:] + body)):
        found = asyncio.run(answered(*pieces))
        assert found.startswith(b"HTTP/1.1 200")
        assert str(len(body)).encode() in found


def test_a_large_head_is_refused():
    begun = b"GET / HTTP/1.1\r\nx: "  # one byte more than is let in, so that none is left unread
    found = asyncio.run(answered(begun + b"a" * (LARGEST_HEAD + 1 - len(begun))))
    assert found.startswith(b"HTTP/1.1 400")
    assert b"urn:tacit:problem:malformed" in found
