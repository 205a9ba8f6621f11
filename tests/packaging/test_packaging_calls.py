"""How many Python calls one run makes, in a process of its own in which nothing is known yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tacit

BAR = 40_000
RUN = """
import sys
from pathlib import Path

import tacit
from tacit import lazy_jit
from tacit.accounting import search

def nowhere(question):
    raise OSError(question)

search._place = nowhere  # no calibration is remembered from another process
lazy_jit.EAGER = True  # small worlds interpret their kernels, whose innermost steps are calls then
home, calls = str(Path(tacit.__file__).parent), 0

def count(frame, event, argument):
    global calls
    calls += event == "call" and frame.f_code.co_filename.startswith(home)

sys.setprofile(count)
found = tacit.run(
    environment="riverswim", learner="bucb", trust="shuffle", epsilon=1.0, delta=1e-6, episodes=20_000, seeds=1,
    workers=1,
)
sys.setprofile(None)
print(calls)
"""


@pytest.mark.slow
def test_one_run_with_compiled_kernels_makes_at_most_40000_calls():
    counted = []
    for _ in range(2):  # the first one compiles, if nobody did; compiling calls, too
        done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=600)
        counted.append(int(done.stdout))
    assert 5_000 < counted[1] <= BAR, f"{counted} calls with tacit {tacit.__version__}"
