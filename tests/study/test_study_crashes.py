"""S1: exits at every commit edge and inside of releases leave nothing double, unpaid, uncommitted or lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "reference" / "study_crashes.py"


def crashes(*words: str) -> dict:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "kind",
    [
        "shuffle",
        "test-local",
        pytest.param("local", marks=pytest.mark.slow),
        pytest.param("central", marks=pytest.mark.slow),
        pytest.param("factorization", marks=pytest.mark.slow),
        pytest.param("test-stamped", marks=pytest.mark.slow),
        pytest.param("gradient", marks=pytest.mark.slow),
        pytest.param("test-central", marks=pytest.mark.slow),
    ],
)
def test_an_exit_at_any_edge_leaves_nothing_behind(kind):
    found = crashes(kind)
    assert found["edges"] >= 30
    assert set(found["found"].values()) == {0}, found


def test_handing_over_before_recording_is_found():
    found = crashes("test-stamped", "mutant")["found"]
    assert found["two views"] > 0
    assert found["uncommitted"] > 0
