"""Load at a small scale: counts and CPU per report; rates and latencies are for `make chaos`."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from chaos import row_load

from tacit.service.config import Limits, Listen
from tacit.service.server import DOORS, Listener, _bound, _doors, _Server, _settings

REPORTS, MORE = 6_000, 20_000
"""With every change, and before a merge."""
CPU_US = 1000.0
"""Of the server per report: 1,000 reports per second of one core."""


@pytest.mark.parametrize("reports", [REPORTS, pytest.param(MORE, marks=pytest.mark.slow)])
def test_nothing_is_lost_under_24_connections(reports):
    """Every acknowledged report is in the database, nothing else is, and a core does a thousand per second."""
    with row_load.shuffling() as parties, row_load.flood(parties, each=reports // 2) as clients:
        found = row_load.sustain(parties, clients, lambda: row_load.stored(parties))
    assert found["statuses"] == {"201": reports}
    assert (found["lost"], found["invented"], found["server_errors"], found["unanswered"]) == (0, 0, 0, 0)
    assert 1600 <= found["envelope_bytes"] < 2000
    assert found["cpu_us_per_report"] <= CPU_US


def test_too_many_are_told_to_come_back():
    """A queue of 8 under 200 connections: 201 or 429 with Retry-After, and afterwards 201 only."""
    few = {"limits": {"queue": 8, "together": 8, "body": 65_536}}
    with row_load.shuffling(**few) as parties, row_load.flood(parties, each=1500) as clients:
        crowd = clients.run(connections=200, most=2000)
        after = clients.run(connections=4)
        kept = row_load.stored(parties)
        assert row_load.lost_and_invented(clients, crowd, kept)[0] == 0
        assert not {clients.id_of(number) for number in crowd.of(429)} & kept
    assert set(crowd.counts) == {"201", "429"}
    assert crowd.no_retry_after == 0
    assert set(after.counts) == {"201"}


@pytest.mark.parametrize(("doors", "most"), [(DOORS, 40), (1, 10_000)])
def test_newcomers_are_let_in_many_at_a_time(doors, most):
    """200 who wait are let in within 40 rounds of the loop; with a single handle it takes one round for each."""
    uvloop = pytest.importorskip("uvloop")
    rounds = 0

    async def app(scope, receive, send):
        raise AssertionError("nobody asks")

    async def whole(listening):
        nonlocal rounds
        server = _Server(_settings(Limits(), Listener(name="public", app=app, listen=Listen())))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        handles = _doors(listening, doors)
        await server.startup(sockets=handles)
        while len(server.server_state.connections) < len(waiting):
            await asyncio.sleep(0)
            rounds += 1
        for one in waiting:
            one.close()
        await server.shutdown(sockets=handles)

    with contextlib.closing(_bound(Listen())) as listening, contextlib.ExitStack() as stack:
        listening.listen(1024)
        address = listening.getsockname()
        waiting = [stack.enter_context(contextlib.closing(socket.create_connection(address))) for _ in range(200)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(whole(listening), 60.0))
    assert rounds <= most
    assert doors > 1 or rounds >= len(waiting) - 1
