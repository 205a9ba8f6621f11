"""The kernel cache: a second process hits it, an edit anywhere below misses it, closures do not collide.

A miniature `tacit` (the real `kernels.py` beside three one-line modules) is run in fresh processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import tacit.kernels
from tacit.data.trajectories import Trajectories
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

FILES = {
    "__init__.py": "",
    "top.py": "from tacit.kernels import kernel\nfrom tacit.middle import middle\n\n\n"
    "@kernel\ndef top(x):\n    return 10 * middle(x)\n",
    "middle.py": "from tacit.bottom import bottom\nfrom tacit.kernels import kernel\n\n\n"
    "@kernel\ndef middle(x):\n    return bottom(x) + 1\n",
    "bottom.py": "from tacit.kernels import kernel\n\n\n@kernel\ndef bottom(x):\n    return 2 * x\n\n\n"
    "@kernel\ndef other(x):\n    return 3 * x\n",
    "closures.py": "from tacit.kernels import kernel\n\n\ndef squared(inner):\n"
    "    @kernel\n    def outer(x):\n        return inner(x) * inner(x)\n\n    return outer\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    room = tmp_path / "tacit"
    room.mkdir()
    shutil.copy(Path(tacit.kernels.__file__), room / "kernels.py")
    for name, text in FILES.items():
        (room / name).write_text(text, encoding="utf-8")
    return room


def python(package: Path, script: str) -> list[str]:
    """What a fresh process prints, which imports the miniature first."""
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=package.parent, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


CALL = "from tacit.top import top\nprint(top(1), sum(top.stats.cache_hits.values()))"


def test_a_second_process_hits_and_an_edit_far_below_misses(package):
    assert python(package, CALL) == ["30", "0"]
    assert python(package, CALL) == ["30", "1"]
    bottom = package / "bottom.py"
    bottom.write_text(bottom.read_text(encoding="utf-8").replace("2 * x", "5 * x"), encoding="utf-8")
    assert python(package, CALL) == ["60", "0"]
    assert python(package, CALL) == ["60", "1"]


POINT = "from typing import NamedTuple\nclass Point(NamedTuple):\n    x: float\n"
ARGUMENT = "from tacit.kernels import kernel\n\n@kernel\ndef double(point):\n    return 2 * point.x\n"
DOUBLE = "from tacit.doubled import Point, double\nprint(double(Point(1.0)), sum(double.stats.cache_hits.values()))"


def test_an_index_of_types_whose_module_is_gone_counts_as_empty(package):
    """An upgrade leaves the cache of the version before it behind, under the same names of files."""
    (package / "points.py").write_text(POINT, encoding="utf-8")
    (package / "doubled.py").write_text("from tacit.points import Point\n\n\n" + ARGUMENT, encoding="utf-8")
    assert python(package, DOUBLE) == ["2.0", "0"]
    (package / "points.py").unlink()
    (package / "doubled.py").write_text(POINT + ARGUMENT, encoding="utf-8")
    assert python(package, DOUBLE) == ["2.0", "0"]
    assert python(package, DOUBLE) == ["2.0", "1"]


def test_sources_edited_under_a_running_process_never_reach_the_cache(package):
    bottom = (package / "bottom.py").as_posix()
    script = (
        "from tacit.top import top\nimport pathlib, time\ntime.sleep(0.05)\n"
        f"path = pathlib.Path({bottom!r})\n"
        "path.write_text(path.read_text().replace('2 * x', '7 * x'))\nprint(top(1))"
    )
    assert python(package, script) == ["30"]  # what this process imported
    assert python(package, CALL) == ["80", "0"]  # and what the next one does


CLOSURES = """
from tacit.bottom import bottom, other
from tacit.closures import squared
deep, deeper = squared(squared(bottom)), squared(squared(other))
kernels = [squared(bottom), squared(other), deep, deeper]
print(*[k(2) for k in kernels], *[sum(k.stats.cache_hits.values()) for k in kernels])
"""


def test_closures_over_different_kernels_do_not_collide(package):
    values = ["16", "36", "256", "1296"]
    assert python(package, CLOSURES) == [*values, "0", "0", "0", "0"]
    assert python(package, CLOSURES) == [*values, "1", "1", "1", "1"]


def test_the_stamp_reads_every_way_of_importing(tmp_path, monkeypatch):
    monkeypatch.setattr(tacit.kernels, "PACKAGE_ROOT", tmp_path)
    (tmp_path / "room").mkdir()
    for name in ("a", "b", "c", "d", "room/__init__", "room/e"):
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    ways = {
        "a": "from tacit.a import x",
        "b": "import tacit.b",
        "c": "from tacit import (\n    c,\n    errors,\n)",
        "d": "def f():\n    from tacit import d",
        "room/__init__": "from tacit.room import e",
        "room/e": "from tacit.room import e",
    }
    for name, line in ways.items():
        start = tmp_path / f"start_{name.replace('/', '_')}.py"
        start.write_text(line, encoding="utf-8")
        before = tacit.kernels.source_stamp([start])
        tacit.kernels._read.cache_clear()
        (tmp_path / f"{name}.py").write_text("changed = 1", encoding="utf-8")
        assert tacit.kernels.source_stamp([start]) != before, line
    tacit.kernels._read.cache_clear()


def test_a_kernel_keeps_its_readable_original():
    from tacit.planning.widths import practical_width

    assert practical_width.py_func(1.0, 3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0) == 3.0


def test_lean_kernels_refuse_to_allocate():
    @tacit.kernels.lean_kernel
    def wasteful(n):
        return np.zeros(n).sum()

    with pytest.raises(numba.core.errors.NumbaError):
        wasteful(3)


def test_only_lean_kernels_without_closures_are_inlined():
    @tacit.kernels.lean_kernel
    def lean(x):
        return 2 * x

    @tacit.kernels.kernel
    def ordinary(x):
        return 2 * x

    @tacit.kernels.lean_kernel
    def closed(x):
        return lean(x)

    assert tacit.kernels.inlined(ordinary) is ordinary
    assert tacit.kernels.inlined(closed) is closed
    copied = tacit.kernels.inlined(lean)
    assert copied is not lean
    assert copied.py_func is lean.py_func
    assert copied(21) == 42


def test_closures_of_one_name_have_symbols_of_their_own():
    # Symbols end with a number that counts from one in every process, so the name before it must tell closures apart:
    # objects that two processes have cached are linked into a third one by these names.
    symbols = set()
    for mechanism in ("gaussian", "bounded"):
        config = RunConfig(
            environment="riverswim:states=2,horizon=2", learner="ldp-obi", episodes=10, seeds=(0,), trust="local",
            epsilon=1.0, delta=1e-3, mechanism=mechanism,
        )  # fmt: skip
        privatizer = assemble(config).privatizer
        user = Trajectories(np.zeros((1, 3), dtype=np.int64), np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2)))
        privatizer.release(privatizer.begin(), user, TOTALS, SimulationNoise(np.random.default_rng(1)))
        (encoder,) = privatizer.kernel.py_func.__closure__
        for closure in (privatizer.kernel, encoder.cell_contents):
            closure._cache._prepare()  # as before it is compiled or loaded
            symbols.add(closure.py_func.__qualname__)
        (compiled,) = privatizer.kernel.overloads.values()
        assert privatizer.kernel.py_func.__qualname__.rpartition("_")[2] in compiled.fndesc.mangled_name
    assert len(symbols) == 4
