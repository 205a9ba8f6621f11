"""The learner behind HTTP: what operators can ask, who may work, what is kept of people, and rotation under load."""

from __future__ import annotations

import asyncio
import io
import time

import httpx
import pytest
from device_tools import LIVED, design_of
from worker_tools import BEARER, FakeInternal, People

from tacit.documents import canonical
from tacit.errors import InvalidInput, TacitError
from tacit.runs.signature import new_keys
from tacit.service.config import Keys as KeysConfig
from tacit.service.config import LearnerConfig, Secret
from tacit.service.config import Peer as PeerConfig
from tacit.service.device import RemoteDevice
from tacit.service.encryption.keyring import Keyring
from tacit.service.http_client import Backoff, Pause, async_client, converse_all
from tacit.service.learner import JOB, LearnerService
from tacit.service.loopback import Loopback
from tacit.service.metrics import Log
from tacit.study.collector import Collector
from tacit.study.store import Lease

DEADLINE = 60.0


def until(condition):
    """Wait for a condition, not for a time."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Place:
    """A learner and the internal address of a shuffler in memory."""

    def __init__(self, directory, trust="central"):
        self.directory = directory
        keys = {who: new_keys(directory / "keys" / who) for who in ("learner", "shuffler")}
        secret = directory / "bearer"
        secret.write_bytes(BEARER)
        secret.chmod(0o600)
        self.design = design_of(trust)
        (directory / "design.json").write_bytes(canonical(self.design.to_dict()))
        self.config = LearnerConfig(
            directory=directory / "learner",
            bearer=Secret(file=secret),
            shuffler=PeerConfig(url="http://shuffler", bearer=Secret(file=secret)),
            design=directory / "design.json",
            keys=KeysConfig(sign=keys["learner"][0], shuffler=keys["shuffler"][1]),
            poll_seconds=0.05,
            seed=1,
        )
        self.collector = Collector.new(
            directory / "collector", self.design, noise="simulation", seed=2, key=keys["shuffler"][0]
        )
        self.internal = FakeInternal(self.collector)
        self.log = io.StringIO()

    def service(self, monkeypatch):
        """The learner, whose shuffler answers in this process."""
        monkeypatch.setattr("tacit.service.learner._peer", lambda config: config and self.internal.peer())
        return LearnerService(self.config, log=Log("learner", stream=self.log))

    def report(self):
        until(lambda: self.collector.status()["state"] == "open")
        People(None, 12).report(self.collector, self.internal.bundle)
        self.collector.close()


def asked(service, method, path, content=b"", bearer=BEARER):
    """One request to the internal application."""

    async def one():
        transport = httpx.ASGITransport(app=service.internal)
        async with httpx.AsyncClient(transport=transport, base_url="http://learner") as over:
            headers = {"authorization": f"Bearer {bearer.decode()}"}
            return await over.request(method, path, content=content, headers=headers)

    return asyncio.run(one())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_learner_runs_a_study_and_hands_out_the_policy(place, monkeypatch):
    service = place.service(monkeypatch)
    assert asked(service, "GET", "/v1/policy").status_code == 404
    service.loop.begin()
    try:
        for _ in range(2):
            place.report()
            until(lambda: place.collector.status()["state"] != "closed")
        until(lambda: asked(service, "GET", "/v1/status").json()["worker"]["outcome"] == "finished")
        until(lambda: asked(service, "GET", "/v1/policy").status_code == 200)
        learned = asked(service, "GET", "/v1/policy").json()
        assert learned["study"] == place.design.digest
        assert learned["signature"]["algorithm"] == "ed25519"
        metrics = asked(service, "GET", "/metrics").text
        assert 'tacit_learner_state{outcome="finished"} 1.0' in metrics
        assert asked(service, "GET", "/healthz").status_code == 200
    finally:
        asyncio.run(service.end())
    # The same directory goes on where it stopped, and another design is refused.
    assert place.service(monkeypatch).study.status()["state"] == "served"
    place.config.design.write_bytes(canonical(design_of("local").to_dict()))
    with pytest.raises(InvalidInput, match="that of its design"):
        place.service(monkeypatch)


def test_operators_need_the_secret(place, monkeypatch):
    service = place.service(monkeypatch)
    for method, path in (("GET", "/v1/status"), ("GET", "/metrics"), ("POST", "/v1/kill"), ("POST", "/v1/void")):
        answer = asked(service, method, path, bearer=b"another secret altogether")
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:tacit:problem:unauthorized")
    assert asked(service, "GET", "/healthz", bearer=b"none").status_code == 200
    assert service.study.status()["state"] == "new"


def test_operators_give_up_and_end(place, monkeypatch):
    service = place.service(monkeypatch)
    answer = asked(service, "POST", "/v1/void")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tacit:problem:refused")
    assert asked(service, "POST", "/v1/inspected").status_code == 409
    assert asked(service, "POST", "/v1/void", b"\xff").status_code == 400
    assert asked(service, "POST", "/v1/void", b"two\nlines").status_code == 400
    service.worker.step()
    assert asked(service, "POST", "/v1/void", b"a reason").json() == {"reason": "a reason"}
    assert place.collector.status()["stages"][0]["reason"] == "a reason"
    service.worker.step()
    assert asked(service, "POST", "/v1/kill", b"enough").status_code == 200
    assert service.worker.step().word == "killed"
    assert asked(service, "GET", "/v1/status").json()["state"] == "ended"


def test_two_processes_never_work_at_once(place, monkeypatch):
    service = place.service(monkeypatch)
    monkeypatch.setattr("tacit.service.learner.LEASE_SECONDS", 3600)  # no lease ends while this runs
    other = Lease.take(service.study.store, JOB, holder="another process", seconds=3600)
    assert service.loop._once().word == "another process works"
    assert place.internal.asked == []
    other.give_back()
    assert service.loop._once().word == "asked"
    # Overtaken in the middle of a step: nothing of it is written.
    with service.study.store.step("lease") as connection:
        later = int(time.time()) + 3600
        connection.execute("UPDATE lease SET token = token + 1, holder = 'thief', until = ?", (later,))
    place.collector.void("nobody came")
    held = service.loop._lease
    with held.fenced():
        step = service.worker.step()
    assert step.outcome == "refused"
    assert "taken over" in step.word
    assert service.study.status()["stages"][0]["state"] == "open"
    assert service.loop._once().word == "another process works"


def test_incomplete_configurations_are_refused(place, monkeypatch):
    whole = {name: getattr(place.config, name) for name in place.config.__struct_fields__}
    keys = place.config.keys
    sealing = KeysConfig(sign=keys.sign, shuffler=keys.shuffler, sealing=place.directory / "sealing")
    for changes, words in (
        ({"keys": KeysConfig(shuffler=keys.shuffler)}, "keys.sign"),
        ({"keys": KeysConfig(sign=keys.sign)}, "keys.shuffler"),
        ({"design": None}, "its design"),
        ({"tokens": True}, "given together"),
        ({"sealed": True}, "keys.sealing"),
        ({"sealed": True, "keys": sealing}, "under shuffle trust only"),
    ):
        monkeypatch.setattr(place, "config", LearnerConfig(**{**whole, **changes}))
        with pytest.raises(TacitError, match=words):
            place.service(monkeypatch)
        assert not (place.directory / "learner").exists()


CANARIES = ("canary-person", "203.0.113.77", "canary-agent")


# With every change keys rotate in `test_chaos_replay`, and canaries are looked for in `test_chaos_shape`.
@pytest.mark.slow
def test_keys_rotate_under_load_and_nothing_of_anybody_reaches_the_learner(tmp_path):
    """Two stages of real processes: keys of both parties rotate while devices send, and every report is counted."""
    design = design_of("shuffle")
    quick = {"shuffler": {"tick_seconds": 0.05}, "learner": {"poll_seconds": 0.05}}
    with Loopback.new(tmp_path / "parties", design, tokens=False, options=quick) as parties:
        parties.start()
        for stage in range(2):
            parties.until_open(stage)
            names = [f"canary-person {stage} {number}" for number in range(12)]
            assert asyncio.run(_rotating(parties, names)) == ["counted"] * 12
            parties.until(lambda found: len(found["releases"]) > stage)  # noqa: B023
        parties.until(lambda found: found["worker"]["outcome"] == "finished")
        metrics = parties.internal("learner").get("/metrics").decode()
        shuffler = parties.internal("shuffler").get("/metrics").decode()
    assert 'kind="foreign"} 0.0' in metrics  # every message opened, whichever key it was sealed to
    assert 'reason="unknown-key"' not in shuffler
    learner = parties.home("learner")
    texts = [path.read_bytes() for path in learner.rglob("*") if path.is_file()]
    assert len(texts) > 5
    for canary in CANARIES:
        assert not any(canary.encode() in text for text in texts)
        assert canary not in metrics


async def _rotating(parties, names):
    """Send one device after the other, with a rotation between them and one while they send."""
    agent = {"user-agent": "canary-agent", "x-forwarded-for": "203.0.113.77"}
    rings = [Keyring(parties.home(who) / "sealing") for who in ("shuffler", "learner")]
    url = parties.public("shuffler")
    devices = [
        RemoteDevice(
            None, shuffler=url, pins=parties.pins, name=name, cap=99.0, floor=1, backoff=Backoff(first=0.05, most=1.0)
        )
        for name in names
    ]
    async with async_client(4, headers=agent) as over:
        for third in range(3):
            some = devices[third::3]
            bundles = await converse_all((device.refreshing() for device in some), over)
            assert not any(isinstance(bundle, TacitError) for bundle in bundles), bundles
            for device in some:
                device.report(LIVED)
            for ring in rings:
                ring.rotate(time.time(), grace=600)
        sending = asyncio.create_task(converse_all((device.sending(DEADLINE) for device in devices), over, at_once=4))
        for ring in rings:
            await asyncio.to_thread(ring.rotate, time.time(), grace=600)
        return await sending


def test_a_crowd_is_bounded_and_one_refusal_stops_nobody():
    running, most = 0, 0

    def exchange(device):
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        try:
            yield Pause(0.001)
            if device == 3:
                raise InvalidInput("refused")
            return device
        finally:
            running -= 1

    found = asyncio.run(converse_all(map(exchange, range(10)), None, at_once=4))
    assert [one for one in found if not isinstance(one, InvalidInput)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert isinstance(found[3], InvalidInput)
    assert most == 4
