"""What is lost on the way to a result costs no row of it: machines, workers, and the patience of whoever watches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main

# Ray leaves files and sockets of its own to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def rows(directory: Path) -> bytes:
    return (directory / "results.parquet").read_bytes()


def test_a_lost_machine_costs_no_row_and_no_seed_is_kept_twice(tmp_path):
    """Two machines of one core; the second is lost when the first seed is finished, with a seed on it."""
    import ray
    from ray.cluster_utils import Cluster

    asked = {"environment": "random-mdp", "learner": "psrl", "episodes": 600_000, "checkpoints": 5, "seeds": 5}
    there = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    kept: list[int] = []
    try:
        second = there.add_node(num_cpus=1)
        there.wait_for_nodes()

        def lose(point) -> None:
            if point.episode == 600_000:
                kept.append(point.seed)
                if len(kept) == 1:
                    there.remove_node(second, allow_graceful=False)

        lost = tacit.run(**asked, engine="ray", address=there.address, out=tmp_path / "lost", on_checkpoint=lose)
        assert not ray.is_initialized()
    finally:
        ray.shutdown()
        there.shutdown()
    assert sorted(kept) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(lost.regret, tacit.run(**asked, workers=1, out=tmp_path / "here").regret)
    assert rows(tmp_path / "lost") == rows(tmp_path / "here")


LONG = ["run", "--environment", "random-mdp", "--learner", "psrl", "--episodes", "800000", "--seeds", "4",
        "--checkpoints", "5"]  # fmt: skip


def test_a_worker_that_is_killed_in_the_middle_costs_no_row(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = _start(killed)
    try:
        _wait_for(lambda: any(killed.glob("seeds/*.parquet")), process)
        os.kill(_wait_for(lambda: _at_work(process.pid), process)[0], signal.SIGKILL)
        out, err = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "4 seeds" in out
    assert main([*LONG, "--workers", "1", "--out", str(whole)]) == 0
    assert rows(killed) == rows(whole)


STOPPED = """
import os, signal, sys
from tacit.cli import main
from tacit.runs.storage import RunDirectory

write = RunDirectory.write_seed

def stopped(self, *given):
    write(self, *given)
    os.kill(os.getpid(), signal.SIGINT)

RunDirectory.write_seed = stopped
sys.exit(main(sys.argv[1:]))
"""
"""The command line, which Ctrl-C stops as soon as one seed is kept: in the middle, on any machine."""


def test_an_interrupted_run_on_ray_is_resumed_here(tmp_path, capsys):
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    process = _start(stopped, "-c", STOPPED)
    try:
        _, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert f"interrupted: finished seeds are kept in {stopped}; the same command resumes" in err
    assert len(list(stopped.glob("seeds/*.parquet"))) == 1
    assert main([*LONG, "--workers", "1", "--out", str(stopped)]) == 0
    assert "1 of 4 seeds are there already" in capsys.readouterr().err
    assert main([*LONG, "--workers", "1", "--out", str(whole)]) == 0
    assert rows(stopped) == rows(whole)


def _start(out: Path, *how: str) -> subprocess.Popen[str]:
    command = [sys.executable, *(how or ("-m", "tacit"))]
    command += [*LONG, "--engine", "ray", "--workers", "1", "--out", str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def _wait_for(condition, process, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "timed out"
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return found


def _at_work(driver: int) -> list[int]:
    """The workers below this process that are at work on a seed: Ray writes a task's name over their command lines."""
    parents, names = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(place.name)] = (place / "cmdline").read_bytes()
        except OSError:
            continue

    def below(pid: int) -> bool:
        while pid in parents and pid != driver:
            pid = parents[pid]
        return pid == driver

    return [pid for pid, name in names.items() if name.startswith(b"ray::tacit") and below(pid)]
