"""The demonstration: real processes from beginning to end, small; and what it refuses before it begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from device_tools import LIVED, design_of

from tacit.accounting.certificate import Certificate
from tacit.cli import main
from tacit.errors import InvalidInput, UnknownName
from tacit.service.demo import run_service_demo
from tacit.service.device import RemoteDevice
from tacit.service.loopback import Loopback
from tacit.service.tokens.admission import Enrolment

ROOT = Path(__file__).parents[2]


def test_what_is_refused_leaves_nothing(tmp_path):
    with pytest.raises(UnknownName, match="trust model"):
        run_service_demo(tmp_path / "demo", trust="none")
    with pytest.raises(InvalidInput, match="people"):
        run_service_demo(tmp_path / "demo", people=5)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("something")
    with pytest.raises(InvalidInput, match="new directory"):
        run_service_demo(tmp_path, people=60, trust="local")
    with pytest.raises(InvalidInput, match="sealed messages"):
        Loopback.new(tmp_path / "mixed", design_of("local"), tokens=False, mixed=True)
    assert main(["serve", "demo", "--trust", "nobody"]) == 2


def test_a_party_that_does_not_come_up_is_told(tmp_path):
    with Loopback.new(tmp_path / "ward", design_of("local"), tokens=False) as ward:
        (ward.home("shuffler") / "design.json").write_text("{}")
        with pytest.raises(InvalidInput, match="shuffler must come up"):
            ward.start()
        assert ward.processes["shuffler"].poll() is not None


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_a_demonstration_ends_with_a_policy_and_no_process(tmp_path, trust):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    words = ["serve", "demo", "--people", "120", "--trust", trust, "--epsilon", "8", "--json"]
    words += ["--keep", str(tmp_path / "kept")]
    done = subprocess.run(
        [sys.executable, "-m", "tacit", *words], capture_output=True, env=environment, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert [row["stage"] for row in found["stages"]] == [0, 1, 2]
    assert all(36 <= row["reports"] <= 40 for row in found["stages"])
    assert all(set(row["answers"]) == {"counted"} for row in found["stages"])
    assert Certificate.from_dict(found["certificate"]).holds
    assert found["policy"]["actions"] == ["drift", "swim"]
    for party in ("shuffler", "issuer", "learner"):
        address = json.loads((tmp_path / "kept" / party / "ready.json").read_text())["internal"]
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz", trust_env=False)


@pytest.mark.slow
def test_the_dashboard_of_a_demonstration_answers_until_it_is_over(tmp_path):
    told: list[str] = []
    seen: dict[str, object] = {}

    def visit() -> None:
        address, token = next(line for line in told if line.startswith("dashboard: ")).split()[1].split("/enter#token=")
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            assert client.get("/v1/status").status_code == 401
            seen["address"] = address
            client.headers["authorization"] = f"Bearer {token}"
            end = time.monotonic() + 60  # what is shown is what was looked up last, half a second ago or so
            while (status := client.get("/v1/status").json())["study"]["state"] != "served":
                assert time.monotonic() < end, status["study"]
                time.sleep(0.1)
            seen["status"] = status

    found = run_service_demo(
        tmp_path / "kept", trust="local", epsilon=8.0, people=60, dashboard=True, wait=visit, say=told.append
    )
    status = seen["status"]
    assert status["study"]["digest"] == found.design.digest
    assert status["study"]["rehearsal"]
    assert [row["reports"] for row in status["operator"]["stages"]] == [row["reports"] for row in found.stages]
    assert len(status["officer"]["releases"]) == 3
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{seen['address']}/healthz", trust_env=False)


@pytest.mark.slow
def test_a_mixer_stands_in_the_row(tmp_path):
    """Two layers and tokens, with real processes of all four parties."""
    design = design_of("shuffle")
    quick = {"shuffler": {"tick_seconds": 0.05}, "learner": {"poll_seconds": 0.05}}
    with Loopback.new(tmp_path / "ward", design, tokens=True, mixed=True, options=quick) as ward:
        people = Enrolment(ward.enrolment).enrol(24)
        ward.start()
        for stage in range(2):
            ward.until_open(stage)
            for credential in people[12 * stage :][:12]:
                urls = {"shuffler": ward.public("shuffler"), "issuer": ward.public("issuer")}
                device = RemoteDevice(None, **urls, pins=ward.pins, credential=credential, cap=99.0, floor=1)
                device.refresh()
                device.report(LIVED)
                assert device.send(within=60.0) == "counted"
            ward.until(lambda found: len(found["releases"]) > stage)  # noqa: B023
        assert ward.until(lambda found: found["worker"]["outcome"] == "finished")["worker"]["word"] == "served"
        assert 'kind="foreign"} 0.0' in ward.internal("learner").get("/metrics").decode()
