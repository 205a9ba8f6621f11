"""Every listener says what it offers, answers nothing else to requests of any shape, and counts by the minute."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace

import httpx
import pytest
from dashboard_tools import Board, begun
from device_tools import design_of
from shuffler_world import Place, slug, talking

from tacit.errors import InvalidInput
from tacit.service.dashboard.app import READER
from tacit.service.loopback import Loopback
from tacit.service.shuffler import _status
from tacit.service.web import Offer, Still
from tacit.study.contract import Head

LONG = "9" * 5000
"""More digits than Python turns into a number at once."""


def play(place: Place, scene, **more):
    async def whole():
        async with talking(place, **more) as talk:
            return await scene(talk)

    return asyncio.run(whole())


def test_numbers_of_any_length_in_an_address_are_not_found(tmp_path):
    async def scene(talk):
        for path in (f"stages/{LONG}/close", f"stages/{LONG}/void", f"stages/0/questions/{LONG}/release"):
            assert slug(await talk.learner.post(f"/v1/{path}")) == "not-found"
        for number in (LONG, "-1", "1e3", "٣", "10000000000"):
            assert slug(await talk.learner.put(f"/v1/stages/{number}/questions/0")) == "not-found"
            assert slug(await talk.stranger.put(f"/v1/stages/{number}/questions/0")) == "unauthorized"
        assert slug(await talk.learner.post("/v1/stages/0/void", content=b"why\0not")) == "malformed"

    play(Place(tmp_path), scene)


def test_a_dashboard_refuses_long_numbers_before_its_token_is_asked(tmp_path):
    begun(tmp_path)
    board = Board(tmp_path / "secrets", tmp_path / "study", tmp_path / "collector")

    async def visit(it):
        for token in (None, board.reader):
            for path in (f"/officer/releases/{LONG}/0", f"/officer/releases/0/{LONG}"):
                assert (await it.get(path, token)).status_code == 404
        return (await it.get("/officer/releases/0/0", board.reader)).status_code

    assert board.run(visit) == 200


def test_a_document_names_every_route_and_its_secret(tmp_path):
    async def scene(talk):
        found = {}
        for name, client in (("public", talk.devices), ("internal", talk.learner)):
            routes = client._transport.app.app.routes
            assert all(isinstance(route, Offer) for route in routes)
            assert all(inspect.getdoc(route.endpoint) for route in routes)
            found[name] = (await client.get("/openapi.json")).json()
            named = {(path, method) for path, of in found[name]["paths"].items() for method in of}
            assert named == {(route.path_format, route.method.lower()) for route in routes}
        assert slug(await talk.stranger.get("/openapi.json")) == "unauthorized"
        return found

    found = play(Place(tmp_path), scene)
    assert set(found["public"]["paths"]) >= {"/v1/reports", "/v1/bundle", "/v1/keys/{party}", "/healthz"}
    assert found["public"]["paths"]["/v1/reports"]["post"]["responses"].keys() == {"200", "201", "4XX", "501", "503"}
    internal = found["internal"]["paths"]
    asked = internal["/v1/stages/{stage}/questions/{question}"]["put"]
    assert [one["schema"]["maximum"] for one in asked["parameters"]] == [999_999_999] * 2
    assert {path for path, of in internal.items() if "security" not in next(iter(of.values()))} == {"/healthz"}


def test_whoever_polls_does_not_see_the_moment_of_a_report(tmp_path):
    """Counts stand still for a minute, in the status and in the metrics; states do not."""
    now = [1000.0]

    async def seen(talk):
        status = (await talk.learner.get("/v1/status")).json()
        counted = [
            line for line in (await talk.learner.get("/metrics")).text.splitlines() if 'outcome="counted"' in line
        ]
        row = status["stages"][-1]
        return row["state"], row["reports"], status["people"], status["refused"], counted

    async def scene(talk):
        await talk.open()
        first = await seen(talk)
        assert first == ("open", 0, 0, {}, [])
        for label in range(3):
            assert (await talk.send(label)).status_code == 201
            assert slug(await talk.send(label + 20, person=f"person {label}")) == "twice"
            assert await seen(talk) == first
            refused = await talk.learner.post("/v1/stages/0/close")  # a stage that has too few says so, not how few
            assert "at least 4 reports, got 'fewer'" in refused.json()["detail"]
        now[0] += 59.9
        assert await seen(talk) == first
        now[0] += 0.1
        assert await seen(talk) == ("open", 0, 0, {"twice": 0}, ['tacit_shuffler_reports_total{outcome="counted"} 3.0'])
        for label in range(3, 6):
            await talk.send(label)
        await talk.made.windows.once()
        assert (await seen(talk))[:3] == ("closed", 6, 6)

    play(Place(tmp_path), scene, monotonic=lambda: now[0])


def test_counts_of_a_stage_that_was_given_up_are_told_in_steps(tmp_path):
    async def scene(talk):
        await talk.open()
        for label in range(3):
            await talk.send(label)
        assert (await talk.learner.post("/v1/stages/0/void", content=b"given up")).status_code == 200
        told = (await talk.learner.get("/v1/status")).json()
        assert (told["stages"][-1]["state"], told["stages"][-1]["reports"], told["people"]) == ("void", 0, 0)

    play(Place(tmp_path), scene)


@pytest.mark.slow
def test_no_request_of_any_shape_gets_an_answer_that_is_not_in_the_document(tmp_path):
    """All parties as real processes: requests from their documents, and mutated ones, by schemathesis."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import checks

    bounded = settings(
        max_examples=15, deadline=None, database=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    looked = (
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    )
    asked = 0
    with Loopback.new(tmp_path / "parties", design_of("shuffle"), tokens=True, mixed=True) as parties:
        parties.start()
        parties.until_open(0)
        parties.start_dashboard(simulated=False)
        secrets = {party: (parties.home(party) / "bearer").read_text() for party in parties.parties}
        secrets["dashboard"] = (parties.home("dashboard") / "tokens" / READER).read_text()
        listeners = [
            (address, secrets[party] if name == "internal" or party == "dashboard" else "")
            for party, of in parties.addresses.items()
            for name, address in of.items()
            if name in ("public", "internal")
        ]
        assert len(listeners) == 7
        for address, secret in listeners:
            headers = {"authorization": f"Bearer {secret.strip()}"} if secret else {}
            schema = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=headers)
            for found in schema.get_all_operations():
                operation = found.ok()
                if operation.path in ("/v1/drain", "/v1/kill", "/events"):
                    continue  # they end what is asked, and a stream has no end

                def one(case):
                    case.call_and_validate(headers=headers, checks=looked)  # noqa: B023 - called in this round

                bounded(given(case=operation.as_strategy())(one))()
                asked += 1
        for address, _ in listeners:
            assert httpx.get(f"{address}/healthz").status_code == 200
    assert asked >= 30


def test_the_status_of_an_open_stage_counts_in_steps():
    """A tenth of the least number: a single report changes nothing that a learner reads."""
    rows = [
        {"slot": 0, "reports": 90, "stage": 0, "state": "released"},
        {"slot": 0, "reports": 47, "stage": 1, "state": "open"},
    ]
    found = {"state": "open", "stages": rows, "people": 137, "refused": {"late": 3, "full": 12}}
    collector = SimpleNamespace(status=lambda: found, channels=[SimpleNamespace(least=100)])
    told = _status(collector, Still())
    assert [row["reports"] for row in told["stages"]] == [90, 40]
    assert (told["people"], told["refused"]) == (130, {"late": 0, "full": 10})
    found["state"] = "released"
    assert _status(collector, Still()) == found


@pytest.mark.parametrize(
    "text", ["1_0:" + "0" * 64, "+1:" + "0" * 64, "1:" + "0" * 63, "1:" + "A" * 64, " 1:" + "0" * 64]
)
def test_a_head_has_one_spelling(text):
    with pytest.raises(InvalidInput, match="NUMBER:DIGEST"):
        Head.from_text(text)
