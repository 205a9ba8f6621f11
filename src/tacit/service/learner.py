"""The learner behind HTTP: a study, the worker that moves it, and one internal address for its operators.

    GET  /healthz /metrics /v1/status /v1/policy
    POST /v1/inspected      use the release that is quarantined
    POST /v1/void           give the open stage up; the body is the reason
    POST /v1/kill           end the study for good; the body is the reason

A1  Devices never talk to the learner, and it keeps no address, id, token or time of anybody: what it writes are
    bundles, releases, counts and beliefs.
A2  What the learner's simulator would know (returns, regret) is not known here, and no metric pretends to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tacit.errors import TacitError, require
from tacit.service.config import LearnerConfig
from tacit.service.logs import Log
from tacit.service.loop import Lease, Loop
from tacit.service.metrics import Meters
from tacit.service.problems import Refused
from tacit.service.running import Listener, Party
from tacit.service.web import Drain, application, health_route, json_response, metrics_route
from tacit.service.worker import Worker
from tacit.study.record import export_policy
from tacit.study.study import Study

__all__ = ["POLICY", "learner_app", "learner_routes"]

POLICY: Final = "policy.json"
LONGEST: Final = 200


def learner_routes(study: Study, worker: Worker, loop: Loop, policy: Path) -> list[Route]:
    """What operators can ask of a learner."""

    async def status(request: Request) -> Response:
        found = await asyncio.to_thread(study.status)
        return json_response({**found, "worker": loop.status()})

    async def learned(request: Request) -> Response:
        data = await asyncio.to_thread(_read, policy)
        return Response(data, media_type="application/json", headers={"cache-control": "no-store"})

    async def inspected(request: Request) -> Response:
        return await act(lambda: {"taken": worker.inspected()})

    async def void(request: Request) -> Response:
        reason = await _reason(request, "given up")
        return await act(lambda: {"void": worker.give_up(reason) is None})

    async def kill(request: Request) -> Response:
        reason = await _reason(request, "ended")
        return await act(lambda: {"ended": study.kill(reason) is None})

    async def act(call: Callable[[], dict[str, Any]]) -> Response:
        try:
            return json_response(await asyncio.to_thread(call))
        finally:
            loop.wake()

    return [
        Route("/v1/status", status, methods=["GET"]),
        Route("/v1/policy", learned, methods=["GET"]),
        Route("/v1/inspected", inspected, methods=["POST"]),
        Route("/v1/void", void, methods=["POST"]),
        Route("/v1/kill", kill, methods=["POST"]),
    ]


def learner_app(
    study: Study,
    worker: Worker,
    loop: Loop,
    *,
    config: LearnerConfig,
    bearer: bytes,
    meters: Meters,
    log: Log,
    drain: Drain,
) -> ASGIApp:
    """The application of a learner's internal address."""
    routes = learner_routes(study, worker, loop, config.directory / POLICY)
    healthy = health_route(drain, lambda: loop.working)
    return application(
        [*routes, healthy, metrics_route(meters)],
        limits=config.limits,
        meters=meters,
        log=log,
        drain=drain,
        bearer=bearer,
    )


async def _reason(request: Request, default: str) -> str:
    data = await request.body()
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise Refused("malformed", detail="a reason is a text") from error
    fits = len(text) <= LONGEST and text.isprintable()
    if not fits:
        raise Refused("malformed", detail=f"a reason has at most {LONGEST} characters in one line")
    return text or default


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused("not-found", detail="nothing was exported yet") from error


_ = (Lease, Listener, Party, TacitError, require, export_policy)
