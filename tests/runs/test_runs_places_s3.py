"""Results on s3://: a simulated object store on loopback, spoken to over HTTP (extra `s3test`)."""

from __future__ import annotations

import subprocess
import sys
import uuid

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.runs.places import place_of

pytestmark = [
    pytest.mark.slow,  # a server of its own; the same on memory:// in test_runs_places
    pytest.mark.filterwarnings("default"),  # those of the server and of the driver are not ours
]
SMALL = {"environment": "random-mdp", "learner": "psrl", "episodes": 300, "checkpoints": 12}
BUCKET = "results"


@pytest.fixture(scope="module")
def store():
    """The environment in which s3:// is the simulated store."""
    server = pytest.importorskip("moto.server", reason="moto is missing: pip install 'tacit[s3test]'")
    pytest.importorskip("s3fs", reason="s3fs is missing: pip install 'tacit[s3test]'")
    serving = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    serving.start()
    host, port = serving.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        place_of(f"s3://{BUCKET}/any").fs.mkdir(BUCKET)
        yield
    serving.stop()


@pytest.fixture
def remote(store):
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


def names(place) -> set[str]:
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_on_s3_has_the_same_files_and_reads_back_equal(remote, workers, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    here = tacit.run(**SMALL, seeds=3, workers=1, out=tmp_path / "run")
    there = tacit.run(**SMALL, seeds=3, workers=workers, out=remote)
    place = place_of(remote)
    assert names(place) == names(tmp_path / "run")
    for name in ("results.parquet", "policies.json", "privacy.json"):
        assert (place / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    np.testing.assert_array_equal(there.regret, here.regret)
    assert tacit.load(remote).to_json()["regret"] == here.to_json()["regret"]
    assert tacit.verify(remote).true
    place.fs.pipe_file((place / "results.parquet").path, (place / "results.parquet").read_bytes() + b"x")
    assert not tacit.verify(remote).true


def test_an_interrupted_run_resumes_on_s3_and_redoes_no_finished_seed(remote):
    whole = tacit.run(**SMALL, seeds=3, workers=1)
    tacit.run(**SMALL, seeds=3, workers=1, out=remote)
    place = place_of(remote)
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
    assert b"</html>" in (place_of(remote) / "report.html").read_bytes()


def test_what_the_store_refuses_is_one_line(store):
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "run", "--environment", "random-mdp", "--learner", "uniform", "--episodes",
         "9", "--seeds", "1", "--out", "s3://no-such-bucket/run"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write to s3://no-such-bucket/run")
    assert "Traceback" not in done.stderr
