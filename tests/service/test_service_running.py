"""Processes: they say where they listen, drain when they are asked to, and slow senders do not stop honest ones."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from shuffler_world import AUTHORISED, Place
from study_fakes import REHEARSAL

from tacit.cli import main
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.study import Study

PATIENCE = 60.0


@pytest.fixture(scope="module")
def design():
    """A real design, since another process has no fakes."""
    sizes = {"states": 2, "actions": 2, "horizon": 2, "stages": 2, "target": 400, "least": 4}
    return plan_study(trust="local", epsilon=4.0, delta=0.0, **sizes)


class Served:
    """A shuffler's process with its first stage open."""

    def __init__(self, place):
        self.place = place
        self.started = subprocess.Popen(
            [sys.executable, "-m", "tacit", "serve", "shuffler", str(place.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ready, _, _ = select.select([self.started.stdout], [], [], PATIENCE)
        assert ready, "the process does not say where it listens"
        self.addresses = json.loads(self.started.stdout.readline())
        assert json.loads((place.directory / "ready.json").read_text()) == self.addresses

    def open(self):
        study = Study.new(self.place.directory / "study", self.place.design, key=self.place.learner, seed=0)
        self.bundle = study.plan()
        self.put(self.bundle)

    def put(self, bundle):
        url = self.addresses["internal"] + "/v1/stages/0/questions/0"
        reply = httpx.put(url, content=bundle, headers=AUTHORISED, timeout=PATIENCE)
        assert reply.status_code in (200, 201), reply.text

    def status(self):
        return httpx.get(self.addresses["internal"] + "/v1/status", headers=AUTHORISED, timeout=PATIENCE).json()

    def envelope(self, person):
        device = Device(None, **REHEARSAL)
        device.accept(self.bundle)
        return self.place.envelope(device.cover(), person)

    def end(self):
        self.started.send_signal(signal.SIGTERM)
        _, log = self.started.communicate(timeout=PATIENCE)
        return self.started.returncode, log


@contextlib.contextmanager
def served(place):
    made = Served(place)
    try:
        yield made
    finally:
        if made.started.poll() is None:
            made.started.kill()
            made.started.communicate(timeout=PATIENCE)


def test_a_process_drains_and_keeps_what_it_acknowledged(tmp_path, design):
    """SIGTERM under load: the exit code is 0, every acknowledged report is there, and the next process goes on."""
    place = Place(tmp_path, design, config="window_seconds = 5000")
    acknowledged, refused, enough = [], [], threading.Event()

    with served(place) as process:
        process.open()
        envelopes = [process.envelope(f"person {number}") for number in range(240)]
        ends = process.status()["ends"]

        def send(some):
            with httpx.Client(timeout=PATIENCE) as client:
                for envelope in some:
                    try:
                        reply = client.post(process.addresses["public"] + "/v1/reports", content=envelope)
                    except httpx.TransportError:
                        refused.append("gone")
                        return
                    if reply.status_code != 201:
                        refused.append(reply.json()["type"])
                        return
                    acknowledged.append(envelope)
                    if len(acknowledged) >= 40:
                        enough.set()

        threads = [threading.Thread(target=send, args=(envelopes[place::6],)) for place in range(6)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE)
        code, log = process.end()
        for thread in threads:
            thread.join(PATIENCE)
    assert code == 0, log
    assert set(refused) <= {"gone", "urn:tacit:problem:draining"}
    assert '"outcome": "drained"' in log
    stored = Collector(tmp_path / "collector").status()["stages"][0]["reports"]
    assert stored >= len(acknowledged) >= 40
    with served(place) as process:
        status = process.status()
        assert (status["state"], status["ends"]) == ("open", ends)
        assert status["stages"][0]["reports"] == stored - stored % 5  # told in steps while the stage is open
        url = process.addresses["public"]
        assert httpx.get(url + "/v1/bundle", timeout=PATIENCE).status_code == 200
        codes = {httpx.post(url + "/v1/reports", content=one, timeout=PATIENCE).status_code for one in acknowledged[:5]}
        assert codes == {200}
        assert httpx.post(process.addresses["internal"] + "/v1/drain", headers=AUTHORISED).status_code == 202
        process.started.communicate(timeout=PATIENCE)
        assert process.started.returncode == 0


def test_slow_senders_do_not_stop_honest_ones(tmp_path, design):
    """200 sockets with half a body, 50 with half a head, 50 with nothing, 64 MB to one: everybody honest is counted."""
    place = Place(tmp_path, design, limits="bodies = 64\nread_seconds = 30.0")
    head = b"POST /v1/reports HTTP/1.1\r\nhost: shuffler\r\ncontent-length: 1000\r\n\r\n"
    with served(place) as process, contextlib.ExitStack() as stack:
        process.open()
        port = int(process.addresses["public"].rpartition(":")[2])
        slow = []
        for begin in [head + b"half"] * 200 + [head[:20]] * 50 + [b""] * 50:
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            made.sendall(begin)
            slow.append(made)
        with httpx.Client(timeout=PATIENCE, base_url=process.addresses["public"]) as client:
            for number in range(40):
                assert client.post("/v1/reports", content=process.envelope(f"p {number}")).status_code == 201
        large = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        large.sendall(head.replace(b"1000", str(64 * 2**20).encode()))
        assert large.recv(100).startswith(b"HTTP/1.1 413")
        given_up = [made for made in slow[:200] if select.select([made], [], [], 0)[0]]
        assert given_up, "the slowest bodies are given up for others"
        assert given_up[0].recv(100).startswith(b"HTTP/1.1 408")
        metrics = httpx.get(process.addresses["internal"] + "/metrics", headers=AUTHORISED, timeout=PATIENCE).text
        assert 'reason="internal"' not in metrics
        (memory,) = [line for line in metrics.splitlines() if line.startswith("process_resident_memory_bytes")]
        assert float(memory.split()[1]) < 512 * 2**20


def test_a_head_that_never_ends_is_given_up(tmp_path, design):
    place = Place(tmp_path, design, limits="read_seconds = 0.2\nkeep_alive_seconds = 1")
    with served(place) as process:
        port = int(process.addresses["public"].rpartition(":")[2])
        for begin in (b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /hea"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as made:
                made.sendall(begin)
                found = b"".join(iter(lambda: made.recv(4096), b""))
                assert found.count(b"HTTP/1.1") == begin.count(b"\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as made:
            with contextlib.suppress(OSError):
                made.sendall(b"GET /healthz HTTP/1.1\r\n" + b"x: " + b"y" * 200_000)
            with contextlib.suppress(ConnectionResetError):
                assert made.recv(100).startswith(b"HTTP/1.1 400")
        assert httpx.get(process.addresses["public"] + "/healthz", timeout=PATIENCE).status_code == 200
        assert process.end()[0] == 0


def test_a_connection_too_many_is_asked_to_come_back(tmp_path, design):
    place = Place(tmp_path, design, limits="connections = 3")
    with served(place) as process, contextlib.ExitStack() as stack:
        port = int(process.addresses["public"].rpartition(":")[2])
        made = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) for _ in range(3)]
        made[0].sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert made[0].recv(4096).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as one_more:
            found = b"".join(iter(lambda: one_more.recv(4096), b""))
        assert found.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert b"\r\nretry-after: 2\r\n" in found
        assert b"urn:tacit:problem:overloaded" in found


def test_what_cannot_be_served_is_your_input(tmp_path, capsys):
    place = Place(tmp_path)
    assert main(["serve", "shuffler", str(tmp_path / "none.toml")]) == 2
    text = place.file.read_text()
    place.file.write_text(text.replace("sealed = false", 'sealed = "no"'))
    assert main(["serve", "shuffler", str(place.file)]) == 2
    assert "sealed" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        place.file.write_text(text + f"\n[public]\nport = {port}\n")
        assert main(["serve", "shuffler", str(place.file)]) == 2
    assert "free address" in capsys.readouterr().err


def test_a_missing_package_is_named_with_what_to_install(tmp_path, monkeypatch, capsys):
    place = Place(tmp_path)
    for name in [name for name in sys.modules if name.startswith("tacit.service")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    for words in (["serve", "shuffler", str(place.file)], ["doctor", "shuffler", str(place.file)]):
        assert main(words) == 2
        assert "pip install '.[service]'" in capsys.readouterr().err


def test_importing_tacit_loads_nothing_of_the_services():
    loaded = (
        "import sys, tacit, tacit.cli.app, tacit.study.collector\n"
        "wanted = 'starlette uvicorn httpx msgspec sqlalchemy prometheus_client jinja2'.split()\n"
        "print([name for name in wanted if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.strip() == "[]"
