"""The watch on compilation: it counts outermost compilations, tells once, and only of what is slow."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tacit import jit_progress
from tacit.runs import schedule


def event(name: str) -> SimpleNamespace:
    original = SimpleNamespace(__module__="tacit.somewhere", __qualname__=name)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=original)})


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(jit_progress.time, "perf_counter", lambda: now.seconds)
    monkeypatch.setattr(jit_progress.time, "process_time", lambda: now.seconds / 4)  # a busy machine
    return now


def test_it_tells_once_and_only_of_what_is_slow(clock):
    told = []
    watch = jit_progress._Watch()
    watch.tell = told.append
    for _ in range(4):  # 0.4 seconds in all
        watch.on_start(event("quick"))
        clock.seconds += 0.1
        watch.on_end(event("quick"))
        clock.seconds += 50.0  # work, which is not compilation
    assert told == []
    watch.on_start(event("fused.<locals>.advance"))
    clock.seconds += 0.2
    watch.on_start(event("impl"))  # a part of it
    assert told == ["compiling for this machine, once: tacit.somewhere.fused; later runs begin at once"]
    clock.seconds += 5.0
    watch.on_end(event("impl"))
    watch.on_end(event("fused.<locals>.advance"))
    assert len(told) == 1
    assert watch.seconds() == pytest.approx(5.6)
    assert watch.processor_seconds() == pytest.approx(1.4)
    watch.say("kernels")
    assert len(told) == 1


def test_the_clock_of_a_trial_stands_still_while_kernels_compile(monkeypatch):
    monkeypatch.setattr(schedule, "seconds_compiling", lambda: 30.0)
    monkeypatch.setattr(schedule, "processor_compiling", lambda: 29.0)
    monkeypatch.setattr(schedule.time, "perf_counter", lambda: 42.0)
    monkeypatch.setattr(schedule.time, "process_time", lambda: 34.0)
    assert schedule._Clocks.read() == schedule._Clocks(wall=12.0, processor=5.0)
    started = schedule._Clocks(wall=8.0, processor=2.0)
    schedule._until(started, 3.5, 0, lambda done: None)(1)
    with pytest.raises(schedule._Stopped):
        schedule._until(started, 2.5, 0, lambda done: None)(1)


def test_a_busy_machine_does_not_end_a_trial_and_waiting_for_something_else_does():
    now = schedule._Clocks.read()
    busy = replace(now, wall=now.wall - 3.9, processor=now.processor - 1.0)
    schedule._until(busy, 1.5, 0, lambda done: None)(1)
    waiting = replace(now, wall=now.wall - 1.5 * schedule.WAITING)
    with pytest.raises(schedule._Stopped):
        schedule._until(waiting, 1.5, 0, lambda done: None)(1)


def test_the_slow_clock_is_not_read_before_it_matters(monkeypatch):
    started = schedule._Clocks.read()
    monkeypatch.setattr(schedule.time, "process_time", lambda: pytest.fail("read"))
    assert not started.late(1e6)
    assert not started.late(math.inf)


SCRIPT = """
import sys
from tacit import jit_progress
jit_progress.ANNOUNCE_AFTER_SECONDS = -1.0
sys.argv = ["tacit", "list", "adversaries", "--json"]
from tacit.cli import main
from tacit.cli import listing
from tacit.kernels import kernel
@kernel
def twice(x):
    return 2 * x
def rows():
    return [{"name": str(twice(21))}]
listing.KINDS = {"adversaries": rows}
sys.exit(main())
"""


def test_a_program_tells_on_stderr_and_leaves_stdout_alone(tmp_path):
    cold = os.environ | {"TACIT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, env=cold)
    assert (done.returncode, done.stdout) == (0, '{"adversaries": [{"name": "42"}]}\n'), done.stderr
    assert done.stderr == "compiling for this machine, once: __main__.twice; later runs begin at once\n"


def test_help_loads_neither_numba_nor_numpy():
    heavy = "{'numba', 'numpy', 'scipy'}"
    code = f"import sys; from tacit.cli import main; main(['--help']); print(sorted({heavy} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("asked", ["import tacit; tacit.run", "from tacit.cli import main; main(['list', 'learners'])"])
def test_what_a_session_begins_with_waits_for_no_special_functions_and_no_figures(asked):
    """Each of them takes a tenth of a second or more, and is loaded where it is used."""
    heavy = "{'scipy.special', 'scipy.fft', 'scipy.optimize', 'scipy.stats', 'matplotlib', 'pyarrow', 'torch'}"
    code = f"import sys\n{asked}\nprint(sorted({heavy} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "[]"
