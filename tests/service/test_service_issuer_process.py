"""The issuer as a process: it is killed while people ask, comes back, and nobody has lost or gained a token."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from study_world import fast_directory

from tacit.runs.signature import new_keys
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.token import Token, verify
from tacit.service.tokens.wallet import Wallet
from tacit.study.design import plan_study

ROOT = Path(__file__).parents[2]
SECRET = "an internal secret of the tests"  # noqa: S105 - of the tests
INTERNAL = {"authorization": f"Bearer {SECRET}"}
DEADLINE = 60.0
KILLS = 3
PEOPLE = 24
DESIGN = plan_study(
    learner="bucb",
    trust="shuffle",
    name="ward",
    states=["bad", "good"],
    actions=["wait", "treat"],
    horizon=2,
    stages=2,
    target=60,
    epsilon=1.0,
    delta=1e-6,
)
CONFIG = """
directory = "issuer"
design = "design.json"
credentials = "people"
ready = "ready.json"
bearer = {file = "bearer"}
keys = {sign = "keys/private.pem"}
"""


class Served:
    """A configuration, and the process that serves it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        _, self.public_key = new_keys(place / "keys")
        self.list = Enrolment.new(place / "people")
        (place / "design.json").write_text(json.dumps(DESIGN.to_dict()))
        (place / "bearer").touch(0o600)
        (place / "bearer").write_text(SECRET)
        (place / "issuer.toml").write_text(CONFIG)
        self.process: subprocess.Popen[bytes] | None = None
        self.addresses: dict[str, str] = {}
        self.up = threading.Event()

    def start(self) -> None:
        (self.place / "ready.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tacit", "serve", "issuer", str(self.place / "issuer.toml")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.place
        )
        end = time.monotonic() + DEADLINE
        while not (self.place / "ready.json").exists():
            assert self.process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        self.addresses = json.loads((self.place / "ready.json").read_text())
        self.up.set()

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.up.clear()
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE)


@pytest.fixture
def served():
    with fast_directory() as folder:
        made = Served(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.close()


def ask(client: httpx.Client, served: Served, credential: str, body: bytes) -> httpx.Response | None:
    """The answer, or None where the process was gone."""
    assert served.up.wait(DEADLINE)
    headers = {"authorization": f"Bearer {credential}"}
    with contextlib.suppress(httpx.TransportError):
        return client.post(f"{served.addresses['public']}/v1/tokens", content=body, headers=headers)
    return None


@pytest.mark.slow
def test_killed_while_people_ask_nobody_loses_or_gains_a_token(served):
    """Each of 24 people sends two different requests until both are answered, while the process is killed thrice."""
    assert httpx.put(f"{served.addresses['internal']}/v1/stages/0", headers=INTERNAL).status_code == 201
    document = httpx.get(f"{served.addresses['public']}/v1/keys").content
    people = served.list.enrol(PEOPLE)
    answers: dict[int, list[list[httpx.Response]]] = {place: [[], []] for place in range(PEOPLE)}
    wallets = []
    for _ in range(2 * PEOPLE):
        wallets.append(Wallet(None, study=bytes.fromhex(DESIGN.digest), issuer=served.public_key))
        wallets[-1].accept(document)
    done, end = threading.Semaphore(0), time.monotonic() + 2 * DEADLINE

    def send(place: int) -> None:
        with httpx.Client(timeout=DEADLINE, trust_env=False) as client:
            for which in (0, 1):
                body = wallets[2 * place + which].request(0)
                # Until it was answered three times: the second and third time, the answer was known already.
                while len(answers[place][which]) < 3 and time.monotonic() < end:
                    reply = ask(client, served, people[place], body)
                    if reply is not None:
                        answers[place][which].append(reply)
                        done.release()

    threads = [threading.Thread(target=send, args=(place,)) for place in range(PEOPLE)]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        for _ in range(20):
            assert done.acquire(timeout=DEADLINE)
        assert served.end(signal.SIGKILL) == -signal.SIGKILL
        served.start()
    for thread in threads:
        thread.join()
    keys = wallets[0].keys
    for place in range(PEOPLE):
        first, second = answers[place]
        assert [reply.status_code for reply in first] == [200] * 3
        assert len({reply.content for reply in first}) == 1
        assert [reply.status_code for reply in second] == [409] * 3
        assert isinstance(verify(wallets[2 * place].finish(0, first[0].content), keys, 0), Token)
    status = httpx.get(f"{served.addresses['internal']}/v1/status", headers=INTERNAL).json()
    assert status["stages"] == [{"stage": 0, "open": True, "tokens": PEOPLE}]
    assert served.end(signal.SIGTERM) == 0
