"""The front of a listener: limits, deadlines, problem documents, secrets, counts, logs; and configurations."""

from __future__ import annotations

import asyncio
import io
import json
import os

import httpx
import pytest
from shuffler_world import slug
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, PrivacyViolation
from tacit.service.config import (
    IssuerConfig,
    LearnerConfig,
    Limits,
    MixerConfig,
    Secret,
    ShufflerConfig,
    database_url,
    read_config,
    read_party,
)
from tacit.service.metrics import Log, Meters
from tacit.service.web import (
    ANSWERS,
    PROBLEMS,
    Drain,
    Refused,
    application,
    health_route,
    metrics_route,
    problem_response,
)
from tacit.study.intake import REASONS

SECRET = b"a secret of the tests"


class Front:
    """An application behind its guard, with a log that can be read."""

    def __init__(self, *routes, limits=None, bearer=None, scraper=None):
        self.drain, self.stream, self.meters = Drain(), io.StringIO(), Meters("test")
        self.minute = 1_800_000_000
        self.log = Log("test", self.stream, clock=lambda: float(self.minute))
        self.app = application(
            [*routes, health_route(self.drain), metrics_route(self.meters)],
            limits=limits or Limits(),
            meters=self.meters,
            log=self.log,
            drain=self.drain,
            bearer=bearer,
            scraper=scraper,
        )
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://front")

    def ask(self, method, path, **more):
        async def once():
            return await self.client.request(method, path, **more)

        return asyncio.run(once())

    def lines(self):
        self.log.flush()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


async def echo(request):
    return Response(str(len(await request.body())).encode(), 201)


ECHO = Route("/echo", echo, methods=["POST"])


def raises(error):
    async def fails(request):
        raise error

    return Route("/fails", fails)


# limits


def test_a_body_is_refused_by_its_announced_length_and_by_its_real_one():
    """The second body announces nothing: it is counted while it arrives, and the rest is never asked for."""
    front = Front(ECHO, limits=Limits(body=1000))
    assert front.ask("POST", "/echo", content=b"x" * 1000).text == "1000"
    assert slug(front.ask("POST", "/echo", content=b"x" * 1001)) == "too-large"
    for length in (b"-1", b"1e3", b"9" * 30):
        scope, sent = _scope([(b"content-length", length)]), []
        asyncio.run(front.app(scope, _parts(b""), _into(sent)))
        assert sent[0]["status"] in (400, 413)
    asked = []
    sent = []
    asyncio.run(front.app(_scope([]), _parts(*[b"y" * 400] * 1000, asked=asked), _into(sent)))
    assert sent[0]["status"] == 413
    assert len(asked) == 3


def test_a_body_has_one_deadline_however_many_parts_it_has():
    """Parts keep coming, each in time; the whole does not."""
    front = Front(ECHO, limits=Limits(read_seconds=0.05))

    async def receive():
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"z", "more_body": True}

    sent = []
    asyncio.run(front.app(_scope([]), receive, _into(sent)))
    assert sent[0]["status"] == 408
    assert dict(sent[0]["headers"])[b"connection"] == b"close"


def test_of_many_slow_bodies_the_slowest_is_given_up():
    """Three may be on their way: the fourth ends the first, and a body that is there passes all of them."""
    front = Front(ECHO, limits=Limits(bodies=3, read_seconds=60.0))

    async def never():
        await asyncio.Event().wait()

    async def scene():
        sent = [[] for _ in range(4)]
        tasks = []
        for place in range(4):
            tasks.append(asyncio.create_task(front.app(_scope([]), never, _into(sent[place]))))
            await asyncio.sleep(0)
        await asyncio.wait_for(tasks[0], 10)
        honest = []
        await asyncio.wait_for(front.app(_scope([]), _parts(b"here"), _into(honest)), 10)
        await asyncio.wait_for(tasks[1], 10)
        for task in tasks[2:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [one[0]["status"] if one else None for one in sent], honest[0]["status"]

    assert asyncio.run(scene()) == ([408, 408, None, None], 201)


# problems


def test_every_problem_is_a_document_without_input():
    for name, problem in PROBLEMS.items():
        response = problem_response(Refused(name))
        document = json.loads(response.body)
        assert document == {"type": f"urn:tacit:problem:{name}", "title": problem.title, "status": problem.status}
        assert response.headers["content-type"] == "application/problem+json"
        assert ("retry-after" in response.headers) == problem.retry
    assert set(ANSWERS) == set(REASONS)
    assert set(ANSWERS.values()) <= set(PROBLEMS)
    with pytest.raises(KeyError):
        Refused("something new")


def test_nowhere_and_another_method_are_problems():
    front = Front(ECHO)
    assert slug(front.ask("GET", "/nowhere")) == "not-found"
    assert slug(front.ask("GET", "/echo")) == "method"
    assert slug(front.ask("POST", "/echo/")) == "not-found"


def test_a_fault_says_nothing_about_itself_anywhere():
    front = Front(raises(RuntimeError("canary of a person")))
    response = front.ask("GET", "/fails")
    assert (response.status_code, slug(response)) == (500, "internal")
    (fault,) = [line for line in front.lines() if line["event"] == "fault"]
    assert fault["error"] == "RuntimeError"
    assert "canary" not in response.text + front.stream.getvalue() + front.meters.text().decode()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidInput("what must hold"), ("refused", 409)),
        (PrivacyBudgetExceeded("what must hold"), ("budget-spent", 409)),
        (NotSupported("what must hold"), ("not-supported", 501)),
        (PrivacyViolation("what must hold"), ("refused", 409)),
        (Refused("refused", detail="what must hold"), ("refused", 409)),
    ],
)
def test_other_parties_are_told_what_must_hold_and_devices_are_not(error, expected):
    inside = Front(raises(error), bearer=SECRET)
    told = inside.ask("GET", "/fails", headers={"authorization": f"Bearer {SECRET.decode()}"})
    assert (slug(told), told.status_code) == expected
    assert told.json()["detail"] == "what must hold"
    assert "detail" not in Front(raises(error)).ask("GET", "/fails").json()


def test_an_answer_that_fails_half_way_is_cut_off_and_counted():
    async def half(request):
        async def parts():
            yield b"one half"
            raise RuntimeError("canary")

        return StreamingResponse(parts())

    front = Front(Route("/half", half))
    sent = []
    scope = {**_scope([]), "method": "GET", "path": "/half"}
    with pytest.raises(Exception):  # noqa: B017, PT011 - the server closes the connection, whatever it is
        asyncio.run(front.app(scope, _parts(b""), _into(sent)))
    assert sent[0]["status"] == 200
    assert 'reason="cut off"' in front.meters.text().decode()


# secrets, draining, logs


def test_the_secret_is_asked_for_everywhere_but_in_healthz():
    front = Front(ECHO, bearer=SECRET)
    right = {"authorization": f"bearer {SECRET.decode()}"}
    assert front.ask("POST", "/echo", headers=right, content=b"abc").text == "3"
    for wrong in ({}, {"authorization": SECRET.decode()}, {"authorization": "Bearer canary"}):
        assert slug(front.ask("POST", "/echo", headers=wrong)) == "unauthorized"
        assert slug(front.ask("GET", "/nowhere", headers=wrong)) == "unauthorized"
    assert front.ask("GET", "/healthz").json() == {"status": "ok"}
    assert "canary" not in front.stream.getvalue()


def test_a_secret_of_its_own_opens_metrics_and_nothing_else():
    scraper = b"what the monitoring sends, and no more"
    front = Front(ECHO, bearer=SECRET, scraper=scraper)
    own, others = ({"authorization": f"Bearer {secret.decode()}"} for secret in (scraper, SECRET))
    assert front.ask("GET", "/metrics", headers=own).status_code == 200
    assert slug(front.ask("GET", "/metrics", headers=others)) == "unauthorized"
    assert slug(front.ask("POST", "/echo", headers=own)) == "unauthorized"
    assert front.ask("POST", "/echo", headers=others, content=b"abc").text == "3"
    assert Front(bearer=SECRET).ask("GET", "/metrics", headers=others).status_code == 200


def test_who_drains_says_so_and_takes_nothing_in():
    front = Front(ECHO)
    calls = []
    front.drain.when_asked(lambda: calls.append(1))
    front.drain.ask()
    front.drain.ask()
    assert calls == [1]
    health = front.ask("GET", "/healthz")
    assert (health.status_code, health.json()) == (503, {"status": "draining"})
    response = front.ask("POST", "/echo", content=b"x")
    assert slug(response) == "draining"
    assert int(response.headers["retry-after"]) > 0


def test_requests_are_logged_once_a_minute_as_counts():
    front = Front(ECHO)
    for _ in range(3):
        front.ask("POST", "/echo", content=b"x")
    assert front.stream.getvalue() == ""
    front.minute += 60
    front.ask("GET", "/canary")
    first = [json.loads(line) for line in front.stream.getvalue().splitlines()]
    row = {"party": "test", "event": "requests", "route": "echo", "status": 201, "reason": "ok", "count": 3}
    assert first == [{"minute": "2027-01-15T08:00Z", **row}]
    assert front.lines()[-1]["route"] == "other"
    assert "canary" not in front.stream.getvalue()
    with pytest.raises(ValueError, match="no field address"):
        front.log.event("something", address="203.0.113.7")


# configurations

GOOD = """
directory = "state"
bearer = {file = "secret"}
"""
WHOLE = {
    "shuffler": GOOD + 'people = "open"\nsealed = false\n',
    "learner": GOOD + '[shuffler]\nurl = "http://127.0.0.1:1"\nbearer = {env = "TACIT_TEST_SECRET"}\n',
    "issuer": GOOD + 'design = "design.json"\ncredentials = "people"\n',
    "mixer": GOOD + 'design = "design.json"\nengine = "processes"\n',
}
KINDS = {"shuffler": ShufflerConfig, "learner": LearnerConfig, "issuer": IssuerConfig, "mixer": MixerConfig}


@pytest.fixture
def place(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(" a canary of a secret \n")
    os.chmod(secret, 0o600)

    def write(text):
        path = tmp_path / "party.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("party", WHOLE)
def test_a_configuration_is_read_with_paths_beside_it(place, tmp_path, party):
    found = read_party(place(WHOLE[party]), party)
    assert isinstance(found, KINDS[party])
    assert found.directory == tmp_path / "state"
    assert found.bearer.read() == b"a canary of a secret"
    assert "canary" not in repr(found) + str(found.bearer)
    assert database_url(found) is None
    with pytest.raises(AttributeError):
        found.directory = tmp_path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WHOLE["shuffler"] + "portt = 1\n", "unknown field `portt`"),
        (WHOLE["shuffler"] + "[limits]\nbody = 0\n", "body"),
        (WHOLE["shuffler"] + "[limits]\nread_seconds = nan\n", "read_seconds"),
        (WHOLE["shuffler"] + "[public]\nport = 65536\n", "port"),
        (WHOLE["shuffler"] + "[public]\nport = true\n", "port"),
        (WHOLE["shuffler"].replace("open", "everybody"), "people"),
        (WHOLE["shuffler"].replace("open", "known"), "known"),
        (WHOLE["shuffler"].replace("open", "issuer"), "issuer"),
        (WHOLE["shuffler"] + "mixed = true\n", "mixed needs sealed"),
        (WHOLE["shuffler"] + 'database = "mysql://canary"\n', "postgresql"),
        (WHOLE["shuffler"].replace('{file = "secret"}', '"canary"'), "bearer"),
        (WHOLE["shuffler"].replace('{file = "secret"}', '{file = "secret", env = "X"}'), "either"),
        (GOOD, "missing required field"),
        ("directory = ", "TOML"),
    ],
)
def test_what_a_configuration_must_not_say(place, text, words):
    with pytest.raises(InvalidInput) as refused:
        read_config(place(text), ShufflerConfig)
    assert words in str(refused.value)
    assert "canary" not in str(refused.value)


def test_secrets_are_long_enough_and_nobody_elses(place, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    os.chmod(secret, 0o640)
    with pytest.raises(InvalidInput, match="owner only"):
        Secret(file=secret).read()
    os.chmod(secret, 0o600)
    secret.write_text("short")
    with pytest.raises(InvalidInput, match="16 to"):
        Secret(file=secret).read()
    with pytest.raises(InvalidInput, match="readable file"):
        Secret(file=tmp_path / "none").read()
    monkeypatch.setenv("TACIT_TEST_SECRET", "from the environment")
    assert Secret(env="TACIT_TEST_SECRET").read() == b"from the environment"
    monkeypatch.delenv("TACIT_TEST_SECRET")
    with pytest.raises(InvalidInput, match="TACIT_TEST_SECRET"):
        Secret(env="TACIT_TEST_SECRET").read()


def test_a_database_may_stand_in_a_secret(place, tmp_path):
    url = tmp_path / "url"
    url.write_text("postgresql://somebody:canary@localhost/study\n")
    os.chmod(url, 0o600)
    found = read_config(place('database = {file = "url"}\n' + WHOLE["shuffler"]), ShufflerConfig)
    assert database_url(found) == "postgresql://somebody:canary@localhost/study"
    assert "canary" not in repr(found)


def _scope(headers):
    plain = {"type": "http", "method": "POST", "path": "/echo", "raw_path": b"/echo", "query_string": b""}
    return {**plain, "headers": headers, "root_path": "", "scheme": "http", "http_version": "1.1"}


def _parts(*parts, asked=None):
    waiting = list(parts)

    async def receive():
        if asked is not None:
            asked.append(1)
        if not waiting:  # as a server does: until the sender is gone
            await asyncio.Event().wait()
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    return receive


def _into(sent):
    async def send(message):
        sent.append(message)

    return send
