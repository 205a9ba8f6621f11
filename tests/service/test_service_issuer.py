"""The issuer over HTTP: what devices and other parties are answered, and that nothing they send makes it fail."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
from pathlib import Path

import httpx
import pytest
from study_fakes import FakeDesign
from study_world import fast_directory

from tacit.errors import InvalidInput
from tacit.runs.signature import new_keys
from tacit.service.config import IssuerConfig, read_config
from tacit.service.issuer import ANSWERS, IssuerService, open_issuer
from tacit.service.metrics import Log
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.token import Token, verify
from tacit.service.tokens.token_issuer import DENIALS, Issuer
from tacit.service.tokens.wallet import Wallet
from tacit.service.web import PROBLEMS
from tacit.study import contract

DESIGN = FakeDesign(kind="test-stamped")
STUDY = bytes.fromhex(DESIGN.digest)
SECRET = "an internal secret of the tests"  # noqa: S105 - of the tests
INTERNAL = {"authorization": f"Bearer {SECRET}"}
CONFIG = """
directory = "issuer"
design = "design.json"
credentials = "people"
bearer = {file = "bearer"}
keys = {sign = "keys/private.pem"}
"""


class House:
    """A configuration in a directory and the service that it describes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        _, self.public_key = new_keys(place / "keys")
        self.list = Enrolment.new(place / "people")
        (place / "design.json").write_text(json.dumps(DESIGN.to_dict()))
        (place / "bearer").touch(0o600)
        (place / "bearer").write_text(SECRET)
        (place / "issuer.toml").write_text(CONFIG)
        self.config = read_config(place / "issuer.toml", IssuerConfig)
        self.lines = io.StringIO()
        self.service = IssuerService(open_issuer(self.config), self.config, log=Log("issuer", self.lines))

    def call(self, *requests: tuple, public: bool = True) -> list[httpx.Response]:
        """The answers to requests (method, path, options), all under way at once."""

        async def all_of_them() -> list[httpx.Response]:
            app = self.service.public if public else self.service.internal
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://issuer") as client:
                calls = [client.request(method, path, **options) for method, path, options in requests]
                return list(await asyncio.gather(*calls))

        return asyncio.run(all_of_them())

    def internal(self, method: str, path: str, **options) -> httpx.Response:
        return self.call((method, path, {"headers": INTERNAL, **options}), public=False)[0]

    def ask(self, credential: str, body: bytes) -> httpx.Response:
        return self.call(("POST", "/v1/tokens", {"content": body, "headers": bearer(credential)}))[0]

    def wallet(self) -> Wallet:
        made = Wallet(None, study=STUDY, issuer=self.public_key)
        made.accept(self.call(("GET", "/v1/keys", {}))[0].content)
        return made


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


@pytest.fixture
def house(monkeypatch):
    monkeypatch.setattr(contract, "read_design", FakeDesign.from_dict)
    with fast_directory() as folder:
        made = House(Path(folder))
        yield made
        asyncio.run(made.service.close())


def slug(reply: httpx.Response) -> str:
    assert reply.headers["content-type"] == "application/problem+json"
    found = reply.json()
    assert found["status"] == reply.status_code
    assert set(found) <= {"type", "title", "status", "detail"}
    return found["type"].removeprefix("urn:tacit:problem:")


def test_a_device_gets_a_token_and_the_same_answer_again(house):
    assert house.internal("PUT", "/v1/stages/0").status_code == 201
    assert house.internal("PUT", "/v1/stages/0").status_code == 200
    (person,) = house.list.enrol(1)
    wallet = house.wallet()
    body = wallet.request(0)
    first, second = house.ask(person, body), house.ask(person, body)
    assert first.status_code == second.status_code == 200
    assert first.content == second.content
    token = wallet.finish(0, first.content)
    assert isinstance(verify(token, wallet.keys, 0), Token)
    status = house.internal("GET", "/v1/status").json()
    assert status["stages"] == [{"stage": 0, "open": True, "tokens": 1}]
    assert status["reports"] == DESIGN.unit.reports


def test_refusals_have_their_problem(house):
    (person,) = house.list.enrol(1)
    house.internal("PUT", "/v1/stages/4")
    body = house.wallet().request(4)
    other = body.replace(b'"stage":4', b'"stage":5')
    assert slug(house.call(("POST", "/v1/tokens", {"content": body}))[0]) == "unauthorized"
    assert slug(house.ask("guessed", body)) == "token"
    late = house.ask(person, other)
    assert slug(late) == "not-open"
    assert "retry-after" in late.headers
    assert house.ask(person, body).status_code == 200
    assert slug(house.ask(person, house.wallet().request(4))) == "twice"
    assert house.internal("DELETE", "/v1/stages/4").status_code == 200
    (second,) = house.list.enrol(1)
    assert slug(house.ask(second, house.wallet().request(4))) == "late"
    assert house.ask(person, body).status_code == 200  # what was signed is not lost
    assert set(ANSWERS) == set(DENIALS)
    assert set(ANSWERS.values()) <= set(PROBLEMS)


def test_a_person_has_no_more_tokens_than_the_study_says(house):
    (person,) = house.list.enrol(1)
    for stage in range(DESIGN.unit.reports + 1):
        house.internal("PUT", f"/v1/stages/{stage}")
        found = house.ask(person, house.wallet().request(stage))
        assert found.status_code == (200 if stage < DESIGN.unit.reports else 403)
    assert slug(found) == "used-up"


def test_a_hundred_requests_at_once_for_one_stage_are_one_token(house):
    house.internal("PUT", "/v1/stages/0")
    (person,) = house.list.enrol(1)
    bodies = [house.wallet().request(0) for _ in range(10)]
    requests = [
        ("POST", "/v1/tokens", {"content": bodies[place % 10], "headers": bearer(person)}) for place in range(100)
    ]
    replies = house.call(*requests)
    signed = [place % 10 for place, reply in enumerate(replies) if reply.status_code == 200]
    assert len(set(signed)) == 1
    assert len(signed) == 10
    assert {slug(reply) for reply in replies if reply.status_code != 200} == {"twice"}
    assert house.internal("GET", "/v1/status").json()["stages"][0]["tokens"] == 1


def test_internal_calls_need_the_secret_and_stages_their_order(house):
    for headers in ({}, bearer("something else, of enough length"), {"authorization": SECRET}):
        for method, path in (("PUT", "/v1/stages/0"), ("DELETE", "/v1/stages/0"), ("GET", "/v1/status")):
            assert slug(house.call((method, path, {"headers": headers}), public=False)[0]) == "unauthorized"
    assert slug(house.call(("PUT", "/v1/stages/0", {"headers": INTERNAL}))[0]) == "not-found"
    house.internal("PUT", "/v1/stages/3")
    for method, path in (("PUT", "/v1/stages/2"), ("DELETE", "/v1/stages/9")):
        assert slug(house.internal(method, path)) == "refused"
    for number in (10**9, 2**40, 2**70):  # no address has a number of more than nine digits
        assert slug(house.internal("DELETE", f"/v1/stages/{number}")) == "not-found"
    assert slug(house.internal("PUT", "/v1/stages/x")) == "not-found"


@pytest.mark.parametrize("mutants", [600, pytest.param(3000, marks=pytest.mark.slow)])
def test_no_mutated_body_or_credential_makes_it_fail(house, mutants):
    """0 answers of 500 and above, 0 signatures, 0 tokens counted."""
    house.internal("PUT", "/v1/stages/0")
    (person,) = house.list.enrol(1)
    good = house.wallet().request(0)
    plain = json.loads(good)
    rng = random.Random(7)  # noqa: S311 - mutations, not secrets
    bodies = [b"", b"null", b"[" * 50_000, b'{"stage":0}', b"\xff\xfe", b'{"stage":0,"blinded":"' + b"A" * 60_000]
    shapes = [None, True, -1, 2**32, 2**70, 0.5, "", "0", [], {}, "A" * 344, base64.b64encode(b"\xff" * 256).decode()]
    for one in shapes:
        bodies += [json.dumps({**plain, name: one}).encode() for name in plain]
        bodies.append(json.dumps({**plain, "more": one}).encode())
    while len(bodies) < mutants:
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            place, kind = rng.randrange(len(data)), rng.random()
            if kind < 0.5:
                data[place] ^= 1 << rng.randrange(8)
            elif kind < 0.75:
                del data[place : place + rng.randint(1, 40)]
            else:
                data[place:place] = rng.randbytes(rng.randint(1, 20))
        bodies.append(bytes(data))
    # Many mutants are still requests, under a credential that nobody has: what they must not do is fail.
    odd = ("Bearer", "Basic eA==", b"Bearer \xff\xfe")
    headers = [bearer("x" * 43), *({"authorization": one} for one in odd)]
    requests = [
        ("POST", "/v1/tokens", {"content": body, "headers": headers[0 if place % 10 else rng.randrange(4)]})
        for place, body in enumerate(bodies)
    ]
    replies = [reply for start in range(0, mutants, 500) for reply in house.call(*requests[start : start + 500])]
    assert {reply.status_code for reply in replies} <= {400, 401, 403, 413}
    # And with a good credential: every one that is no request is refused, and none is counted.
    broken = [body for body in bodies if not _is_request(body)]
    assert len(broken) > mutants // 6
    replies = house.call(*[("POST", "/v1/tokens", {"content": body, "headers": bearer(person)}) for body in broken])
    assert {slug(reply) for reply in replies} <= {"malformed", "too-large"}
    assert house.internal("GET", "/v1/status").json()["stages"][0]["tokens"] == 0
    assert house.ask(person, good).status_code == 200


def _is_request(body: bytes) -> bool:
    """Whether a mutant is still JSON of two entries with a stage and some base64: then it may be signed."""
    try:
        found = json.loads(body)
        base64.b64decode(found["blinded"] + "==")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


def test_logs_and_metrics_say_nothing_about_anybody(house):
    house.internal("PUT", "/v1/stages/0")
    (person,) = house.list.enrol(1)
    wallet = house.wallet()
    body = wallet.request(0)
    token = wallet.finish(0, house.ask(person, body).content)
    house.ask("guessed-by-somebody", body)
    house.service.log.flush()
    text = house.lines.getvalue() + house.internal("GET", "/metrics").text
    assert 'tacit_issuer_tokens_total{outcome="signed"} 1.0' in text
    assert 'outcome="token"' in text
    number = house.list.person(person.encode())
    for trace in (person, number, "guessed-by-somebody", json.loads(body)["blinded"][:40], token[8:40].hex()):
        assert trace not in text


def test_a_database_out_of_reach_is_unavailable_and_not_a_crash(house, monkeypatch):
    def broken(*arguments):
        raise InvalidInput("the issuer's database cannot be used: OperationalError")

    monkeypatch.setattr(Issuer, "issue", broken)
    reply = house.ask("x" * 43, json.dumps({"stage": 0, "blinded": base64.b64encode(bytes(256)).decode()}).encode())
    assert reply.status_code == 503
    assert "retry-after" in reply.headers


def test_an_issuer_of_another_study_or_without_a_key_is_refused(house):
    again = open_issuer(house.config)
    assert again.study == STUDY
    (house.place / "design.json").write_text(json.dumps(FakeDesign(kind="test-stamped", labels=7).to_dict()))
    with pytest.raises(InvalidInput, match="another study"):
        open_issuer(house.config)
    (house.place / "design.json").unlink()
    with pytest.raises(InvalidInput, match="readable file"):
        open_issuer(house.config)
