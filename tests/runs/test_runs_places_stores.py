"""Results on s3:// and gs://: simulated object stores on loopback, spoken to over HTTP (extras `s3test`, `gstest`)."""

from __future__ import annotations

import socket
import subprocess
import sys
import uuid

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.runs.storage_paths import resolve_location

pytestmark = [
    pytest.mark.slow,  # a server of its own; the same on memory:// in test_runs_storage_paths
    pytest.mark.filterwarnings("default"),  # those of the server and of the driver are not ours
]
SMALL = {"environment": "random-mdp", "learner": "psrl", "episodes": 300, "checkpoints": 12}
BUCKET = "results"


def s3(patch):
    server = pytest.importorskip("moto.server", reason="moto is missing: pip install '.[s3test]'")
    pytest.importorskip("s3fs", reason="s3fs is missing: pip install '.[s3test]'")
    serving = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    serving.start()
    host, port = serving.get_host_and_port()
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    resolve_location(f"s3://{BUCKET}/any").fs.mkdir(BUCKET)
    return serving.stop


def gs(patch):
    server = pytest.importorskip(
        "gcp_storage_emulator.server", reason="gcp-storage-emulator is missing: pip install '.[gstest]'"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    patch.setenv("NO_GCE_CHECK", "true")  # nobody is asked whether this machine is one of Google's
    patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # kinds of buckets that the simulated store has not
    pytest.importorskip("gcsfs", reason="gcsfs is missing: pip install '.[gstest]'")
    serving = server.create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    serving.start()
    return serving.stop


STORES = {"s3": s3, "gs": gs}


@pytest.fixture(scope="module", params=sorted(STORES))
def store(request):
    """The scheme of a simulated store, in whose environment it is."""
    with pytest.MonkeyPatch.context() as patch:
        stop = STORES[request.param](patch)
        yield request.param
    stop()


@pytest.fixture
def remote(store):
    return f"{store}://{BUCKET}/{uuid.uuid4().hex}"


def names(place) -> set[str]:
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_there_has_the_same_files_and_reads_back_equal(remote, workers, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    here = tacit.run(**SMALL, seeds=3, workers=1, out=tmp_path / "run")
    there = tacit.run(**SMALL, seeds=3, workers=workers, out=remote)
    place = resolve_location(remote)
    assert names(place) == names(tmp_path / "run")
    for name in ("results.parquet", "policies.json", "privacy.json"):
        assert (place / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    np.testing.assert_array_equal(there.regret, here.regret)
    assert tacit.load(remote).to_json()["regret"] == here.to_json()["regret"]
    assert tacit.verify(remote).true
    place.fs.pipe_file((place / "results.parquet").path, (place / "results.parquet").read_bytes() + b"x")
    assert not tacit.verify(remote).true


def test_an_interrupted_run_resumes_there_and_redoes_no_finished_seed(remote):
    whole = tacit.run(**SMALL, seeds=3, workers=1)
    tacit.run(**SMALL, seeds=3, workers=1, out=remote)
    place = resolve_location(remote)
    for lost in ("results.parquet", "seeds/seed-000001.parquet"):
        (place / lost).unlink()
    kept = (place / "seeds" / "seed-000002.json").read_bytes()
    with pytest.raises(InvalidInput, match=r"not finished \(2 of 3 seeds\)"):
        tacit.load(remote)
    again = tacit.run(**SMALL, seeds=3, workers=1, out=remote)
    np.testing.assert_array_equal(again.regret, whole.regret)
    assert (place / "seeds" / "seed-000002.json").read_bytes() == kept


def test_the_command_line_writes_verifies_and_reports_there(remote):
    words = ["run", "--environment", "random-mdp", "--learner", "psrl", "--episodes", "300", "--seeds", "2"]
    for command in ([*words, "--out", remote], ["verify", remote], ["report", remote]):
        done = subprocess.run([sys.executable, "-m", "tacit", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert b"</html>" in (resolve_location(remote) / "report.html").read_bytes()


def test_what_the_store_refuses_is_one_line(store):
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "run", "--environment", "random-mdp", "--learner", "uniform", "--episodes",
         "9", "--seeds", "1", "--out", f"{store}://no-such-bucket/run"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot write to {store}://no-such-bucket/run")
    assert "Traceback" not in done.stderr
