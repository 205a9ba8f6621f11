"""Web pages and the shuffler: none may read its answers unless their origin is configured."""

from __future__ import annotations

import asyncio

import pytest
from shuffler_world import Place, slug, talking

from tacit.errors import InvalidInput

HERE, ELSEWHERE = "https://study.example", "https://elsewhere.example"
ASKS = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}


def play(place, scene):
    async def whole():
        async with talking(place) as talk:
            return await scene(talk)

    return asyncio.run(whole())


def crossing(response):
    return {name for name in response.headers if name.startswith("access-control-")}


def test_no_page_is_let_in_by_default(tmp_path):
    async def scene(talk):
        asked = await talk.devices.options("/v1/reports", headers={"origin": HERE, **ASKS})
        assert slug(asked) == "method"
        assert crossing(asked) == set()
        found = await talk.devices.get("/healthz", headers={"origin": HERE})
        assert crossing(found) == set()

    play(Place(tmp_path), scene)


def test_a_listed_page_may_report_and_read_refusals(tmp_path):
    async def scene(talk):
        await talk.open()
        asked = await talk.devices.options("/v1/reports", headers={"origin": HERE, **ASKS})
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == HERE
        assert "access-control-allow-credentials" not in asked.headers
        envelope = talk.place.envelope(talk.place.report(0), "person 0")
        sent = await talk.devices.post("/v1/reports", content=envelope, headers={"origin": HERE})
        assert (sent.status_code, sent.headers["access-control-allow-origin"]) == (201, HERE)
        refused = await talk.devices.post("/v1/reports", content=b"no envelope", headers={"origin": HERE})
        assert slug(refused) == "malformed"
        assert refused.headers["access-control-allow-origin"] == HERE
        exposed = refused.headers["access-control-expose-headers"]
        assert {name.strip() for name in exposed.split(",")} == {"etag", "retry-after"}

    play(Place(tmp_path, config=f'origins = ["{HERE}"]'), scene)


def test_another_page_is_not_let_in(tmp_path):
    async def scene(talk):
        asked = await talk.devices.options("/v1/reports", headers={"origin": ELSEWHERE, **ASKS})
        assert asked.status_code == 400
        assert "access-control-allow-origin" not in asked.headers
        found = await talk.devices.get("/healthz", headers={"origin": ELSEWHERE})
        assert "access-control-allow-origin" not in found.headers
        inside = await talk.learner.get("/v1/status", headers={"origin": HERE})
        assert crossing(inside) == set()

    play(Place(tmp_path, config=f'origins = ["{HERE}"]'), scene)


@pytest.mark.parametrize("origin", ["*", "null", "study.example", f"{HERE}/", f"{HERE}/page", "https://*.example"])
def test_origins_are_whole_and_never_everybody(tmp_path, origin):
    with pytest.raises(InvalidInput, match="origins are addresses"):
        _ = Place(tmp_path, config=f'origins = ["{origin}"]').config
