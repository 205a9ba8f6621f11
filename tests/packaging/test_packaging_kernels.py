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
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path / "cache"))
    room = tmp_path / "tacit"
    room.mkdir()
    for real in ("kernels.py", "jit_progress.py"):
        shutil.copy(Path(tacit.kernels.__file__).with_name(real), room / real)
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


def test_a_type_that_moved_or_changed_misses(package):
    (package / "points.py").write_text(POINT, encoding="utf-8")
    (package / "doubled.py").write_text("from tacit.points import Point\n\n\n" + ARGUMENT, encoding="utf-8")
    assert python(package, DOUBLE) == ["2.0", "0"]
    (package / "points.py").unlink()
    (package / "doubled.py").write_text(POINT + ARGUMENT, encoding="utf-8")
    assert python(package, DOUBLE) == ["2.0", "0"]
    assert python(package, DOUBLE) == ["2.0", "1"]
    swapped = POINT.replace("x: float", "y: float = 5.0\n    x: float = 3.0")
    (package / "doubled.py").write_text(swapped + ARGUMENT, encoding="utf-8")
    assert python(package, DOUBLE.replace("Point(1.0)", "Point(1.0, 7.0)")) == ["14.0", "0"]


def test_sources_edited_under_a_running_process_are_cached_as_they_were_imported(package):
    bottom = (package / "bottom.py").as_posix()
    script = (
        "from tacit.top import top\nimport pathlib\n"
        f"path = pathlib.Path({bottom!r})\n"
        "path.write_text(path.read_text().replace('2 * x', '7 * x'))\nprint(top(1))"
    )
    assert python(package, script) == ["30"]  # what this process imported
    assert python(package, CALL) == ["80", "0"]  # and what the next one does


def test_an_edit_that_no_kernel_reads_invalidates_none(package, tmp_path):
    errors = package / "errors.py"
    errors.write_text("class Wrong(Exception):\n    pass\n", encoding="utf-8")
    top = package / "top.py"
    top.write_text("from tacit.errors import Wrong\n" + top.read_text(encoding="utf-8"), encoding="utf-8")
    assert python(package, CALL) == ["30", "0"]
    errors.write_text("# rewritten\nclass Wrong(ValueError):\n    code = 2\n", encoding="utf-8")
    top.write_text("# a comment, and lines that move\n\n\n" + top.read_text(encoding="utf-8"), encoding="utf-8")
    assert python(package, CALL) == ["30", "1"]


def test_a_second_copy_of_the_sources_starts_warm(package, tmp_path):
    assert python(package, CALL) == ["30", "0"]
    shutil.copytree(package, tmp_path / "second" / "tacit")
    assert python(tmp_path / "second" / "tacit", CALL) == ["30", "1"]


def test_constants_and_values_of_globals_are_part_of_the_content(package):
    (package / "top.py").write_text(
        "from tacit.kernels import kernel\nSIZE = 3\n\n@kernel\ndef top(x):\n    return SIZE * x\n", encoding="utf-8"
    )
    assert python(package, CALL) == ["3", "0"]
    text = (package / "top.py").read_text(encoding="utf-8")
    (package / "top.py").write_text(text.replace("SIZE = 3", "SIZE = 4"), encoding="utf-8")
    assert python(package, CALL) == ["4", "0"]


def test_what_cannot_be_told_apart_is_never_cached(package):
    (package / "top.py").write_text(
        "import numba\nfrom tacit.kernels import kernel\nITEMS = numba.typed.List([1, 2])\n\n"
        "@kernel\ndef top(x):\n    return x + (0 if x < 9 else len(ITEMS))\n",
        encoding="utf-8",
    )
    with pytest.raises(subprocess.CalledProcessError):  # numba refuses it, and so nothing is kept
        python(package, CALL)
    assert not list((package.parent / "cache").rglob("top-*"))


def test_every_kernel_of_tacit_has_a_content():
    found = 0
    for module in list(sys.modules.values()):
        if (getattr(module, "__name__", None) or "").startswith("tacit."):
            for value in vars(module).values():
                if hasattr(value, "py_func"):
                    assert len(tacit.kernels.digest(value)) == 64
                    found += 1
    assert found > 50


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
            closure._cache.content()  # as before it is compiled or loaded
            symbols.add(closure.py_func.__qualname__)
        (compiled,) = privatizer.kernel.overloads.values()
        assert privatizer.kernel.py_func.__qualname__.rpartition("_")[2] in compiled.fndesc.mangled_name
    assert len(symbols) == 4
