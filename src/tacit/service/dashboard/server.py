"""Serving a dashboard: its process, its tokens and its address."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tacit.errors import require
from tacit.service.config import Limits, Listen
from tacit.service.dashboard.access import Access, Tokens
from tacit.service.dashboard.app import Dashboard
from tacit.service.dashboard.state import DashboardState
from tacit.service.dashboard.watched import watch
from tacit.service.logs import Log
from tacit.service.metrics import Meters
from tacit.service.server import Listener, Party
from tacit.service.web import Drain, application, health_route

SECRETS: Final = "dashboard"
"""The directory of the tokens, beside the files of the first party that is watched."""
LIMITS: Final = Limits(body=16_384, connections=200, drain_seconds=5)
Say = Callable[[str], None]


def dashboard_party(
    places: Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    secrets: str | Path | None = None,
    ready: str | Path | None = None,
    simulated: bool = False,
    behind_tls: bool = False,
    tick: float = 0.5,
    say: Say | None = None,
) -> Party:
    """The process of a dashboard for these places; `say` is told the addresses with their tokens, once.

    Tokens are made in `secrets` where there are none; an address that others reach must stand behind TLS.
    """
    hint = "put a proxy with TLS in front, and say so (--behind-tls)"
    require(behind_tls or _loopback(host), "a dashboard without TLS must listen on loopback", host, hint)
    watched = watch(places, simulated=simulated)
    kept = watched.places[0].directory / SECRETS if secrets is None else Path(secrets)
    tokens = Tokens.at(kept)
    log, drain = Log("dashboard"), Drain()
    live = DashboardState(watched, kept, log=log, tick=tick)
    board = Dashboard(live, Access(tokens, watched.design.digest, secure=behind_tls))
    drain.when_asked(live.leave)
    app = application(
        [health_route(drain), *board.routes()], limits=LIMITS, meters=Meters("dashboard"), log=log, drain=drain
    )

    def started(addresses: Mapping[str, str]) -> None:
        if say is None:
            return
        url = addresses["public"]
        if tokens.made:
            say(f"to read:  {entrance(url, tokens.reader)}")
            say(f"to write: {entrance(url, tokens.writer)}")
            say(f"these addresses are printed once; the tokens stand in {kept}")
        else:
            say(f"{url}/enter (the tokens stand in {kept})")

    return Party(
        name="dashboard",
        listeners=(Listener(name="public", app=app, listen=Listen(host=host, port=port)),),
        limits=LIMITS,
        log=log,
        drain=drain,
        begin=live.begin,
        end=live.end,
        ready=None if ready is None else Path(ready),
        started=started,
    )


def entrance(url: str, token: bytes) -> str:
    """The address that enters with a token: browsers keep what is behind # to themselves."""
    return f"{url}/enter#token={token.decode('ascii')}"


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
