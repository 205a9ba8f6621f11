"""The shuffler's internal address: what the learner and operators ask of it, under a bearer secret.

    PUT  /v1/stages/{stage}/questions/{q}           a bundle: 201, the same again 200
    PUT  /v1/keys/issuer                            signed keys of the issuer
    POST /v1/stages/{stage}/close                   {"reports": n}
    POST /v1/stages/{stage}/questions/{q}/release   body: the learner's head; the release, the same bytes every time
    GET  /v1/stages/{stage}/batch, /tokens          files of a sealed stage, in parts if asked (Range)
    POST /v1/stages/{stage}/void                    body: the reason
    GET  /v1/status  /healthz  /metrics;  POST /v1/drain

D1  Every request may be repeated: it changes nothing a second time and gives the same answer.
D2  Counts of an open stage stand still for a minute, in `/v1/status` and in `/metrics`.
D3  Steps run in the writer's thread, so they come after the reports that were taken in before them, and the event loop
    never waits for the database.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import ASGIApp

from tacit.errors import require
from tacit.service.config import scraper_of
from tacit.service.openapi import BYTES, JSON, Offer
from tacit.service.problems import Refused
from tacit.service.shuffler import Shuffler
from tacit.service.stage_windows import close_stage, ends_after, look, void_stage
from tacit.service.web import Still, application, health_route, json_response, metrics_route, said
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Head

TEXT: Final = "text/plain"
LONGEST_HEAD: Final = 200
RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
QUESTION: Final = "SELECT stage, number FROM question ORDER BY stage DESC, number DESC LIMIT 1"


STEPS: Final = 10
"""Counts of an open stage are told in tenths of the least number that it needs."""
MIN_STEP: Final = 5
"""Counts of small stages are told in steps of so many."""


def internal_app(made: Shuffler) -> ASGIApp:
    """What the learner and operators talk to."""
    still: Still[dict[str, Any]] = Still(made.windows.monotonic)

    async def question(request: Request) -> Response:
        """Take the bundle of a question in."""
        stage, number = _numbers(request)
        data = await request.body()
        new = await made.writer.run(lambda collector: _opened(made, collector, stage, number, data))
        made.windows.soon()
        return _put(request, new)

    async def keys(request: Request) -> Response:
        """Take the signed keys of a party in."""
        data = await request.body()
        found = await asyncio.to_thread(made.relay.put_keys, request.path_params["party"], data)
        return _put(request, found)

    async def close(request: Request) -> Response:
        """Close the stage; how many reports count."""
        (stage,) = _numbers(request)
        return json_response({"reports": await made.writer.run(lambda collector: close_stage(collector, stage))})

    async def release(request: Request) -> Response:
        """The release of a question, the same bytes every time; the body is the learner's head."""
        stage, number = _numbers(request)
        head = Head.from_text(_text(await request.body(), LONGEST_HEAD))
        data = await made.writer.run(lambda collector: _released(collector, stage, number, head))
        return Response(data, media_type=BYTES, headers={"cache-control": "no-store"})

    async def batch(request: Request) -> Response:
        """The permuted messages of a sealed stage."""
        (stage,) = _numbers(request)
        return await _file(request, lambda: made.collector.batch_file(stage))

    async def tokens(request: Request) -> Response:
        """The tokens of a sealed stage, sorted."""
        (stage,) = _numbers(request)
        return await _file(request, lambda: made.collector.tokens_file(stage))

    async def void(request: Request) -> Response:
        """Give the stage up; the body is the reason."""
        (stage,) = _numbers(request)
        reason = _text(await request.body(), 200) or "given up"
        await made.writer.run(lambda collector: void_stage(collector, stage, reason))
        made.windows.soon()
        return json_response({"stage": stage, "state": "void"})

    async def status(request: Request) -> Response:
        """Stages, refusals and what was spent."""
        seen = await asyncio.to_thread(look, made.collector)
        found = await asyncio.to_thread(_status, made.collector, still)
        window = None if seen is None else seen.ends
        return json_response({**found, "ends": window, "draining": made.drain.draining, "layers": made.config.layers})

    async def drain(request: Request) -> Response:
        """End the process in order."""
        made.drain.ask()
        return json_response({"status": "draining"}, 202)

    one, asked = "/v1/stages/{stage:number}", "/v1/stages/{stage:number}/questions/{question:number}"
    routes = [
        Offer("PUT", asked, question, takes=JSON, answers=(200, 201)),
        Offer("PUT", "/v1/keys/{party}", keys, takes=JSON, answers=(200, 201)),
        Offer("POST", f"{one}/close", close),
        Offer("POST", f"{asked}/release", release, takes=TEXT, gives=BYTES),
        Offer("GET", f"{one}/batch", batch, gives=BYTES, answers=(200, 206)),
        Offer("GET", f"{one}/tokens", tokens, gives=BYTES, answers=(200, 206)),
        Offer("POST", f"{one}/void", void, takes=TEXT),
        Offer("GET", "/v1/status", status),
        Offer("POST", "/v1/drain", drain, answers=(202,)),
        health_route(made.drain, made.healthy),
        metrics_route(made.meters, made.windows.monotonic),
    ]
    config, meters = made.config, made.meters
    return application(
        routes,
        limits=config.limits,
        meters=meters,
        log=made.log,
        drain=made.drain,
        bearer=config.bearer.read(),
        scraper=scraper_of(config),
    )


def _status(collector: Collector, still: Still[dict[str, Any]]) -> dict[str, Any]:
    """The collector's status, with counts of an open stage as they were up to a minute ago, in steps (D2)."""
    found = collector.status()
    rows, state = found["stages"], found["state"]
    if state not in ("open", "void"):
        return found
    step = max(MIN_STEP, collector.channels[rows[-1]["slot"]].least // STEPS)

    def counts() -> dict[str, Any]:
        refused = {word: number - number % step for word, number in found["refused"].items()}
        stages = [
            {**row, "reports": row["reports"] - row["reports"] % step} if row["state"] in ("open", "void") else row
            for row in rows
        ]
        return {"people": found["people"] - found["people"] % step, "refused": refused, "stages": stages}

    return {**found, **still((len(rows), state), counts)}


# steps, in the writer's thread


def _opened(made: Shuffler, collector: Collector, stage: int, number: int, data: bytes) -> bool:
    """Open a stage, take its next question in, or tell devices to stop; whether anything is new."""
    asked = Bundle.parse(data)
    same = (asked["stage"], asked["question"]) == (stage, number)
    require(same, "a bundle must be of the stage and question of its address", "another")
    if asked.channel is None:
        return made.relay.put_last(data)
    with collector.store.reading() as connection:
        there = connection.execute("SELECT 1 FROM question WHERE stage = ? AND number = ?", (stage, number)).fetchone()
    if there is None:
        made.relay.require_going_on()
        made.relay.require_keys(asked)
    collector.open(data, ends=ends_after(made.config.window_seconds, made.windows.wall))
    made.relay.refresh_bundle()
    return there is None


def _released(collector: Collector, stage: int, number: int, head: Head) -> bytes:
    """The release of a question: what was stored, or the last question's, made now."""
    with collector.store.reading() as connection:
        last = connection.execute(QUESTION).fetchone()
    require(last is not None, "a stage must be asked before it is released", "no stage")
    if tuple(last) == (stage, number):
        return collector.release(head)
    stored = collector.stored(stage, number)
    require(stored != b"", f"the question to release must be {last[1]} of stage {last[0]}", "another")
    return stored


# requests and answers


def _numbers(request: Request) -> tuple[int, ...]:
    return tuple(request.path_params[name] for name in ("stage", "question") if name in request.path_params)


def _text(data: bytes, longest: int) -> str:
    require(len(data) <= longest, f"a text must have at most {longest} bytes", len(data))
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise Refused("malformed") from error
    if "\0" in text:  # no database takes it
        raise Refused("malformed")
    return text


def _put(request: Request, new: bool) -> Response:
    said(request, "new" if new else "again")
    return json_response({"new": new}, 201 if new else 200)


async def _file(request: Request, find: Callable[[], Path]) -> Response:
    """A file as it is on the disk, or the rest of it."""
    path = await asyncio.to_thread(find)
    if not path.is_file():
        raise Refused("not-found")
    begin = RANGE.fullmatch(request.headers.get("range", ""))
    if begin is not None and int(begin[1]) >= path.stat().st_size:
        raise Refused("range")
    return FileResponse(path, media_type=BYTES, headers={"cache-control": "no-store"})
