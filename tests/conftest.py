"""What every test may use: the slow twins of `tests/reference`, chaos, one small budget for hypothesis, and an order.

Workers share the tests by files (`pytest -n 3 --dist loadfile`) and compile kernels as they go, into one cache. So
files that compile the same kernels form a family, which one worker runs, and families with the most to compile come
first, side by side: no kernel is compiled twice at the same time, and the many short files fill the end. Tests of
services and browsers mostly wait for other processes; they are a family, too, so that others compute meanwhile.
"""

from __future__ import annotations

import gc
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Fixtures hold no doctests, and several files of this name cannot be collected as modules; traces of the reference are
# made where its package is installed.
collect_ignore_glob = ["conftest.py", "*/conftest.py", "*/make_traces.py"]

sys.path.insert(0, str(Path(__file__).parent / "reference"))
sys.path.append(str(Path(__file__).parents[1]))

# The first example may compile a kernel, so time is no sign of a defect; derandomised, so that a red run is red again.
settings.register_profile(
    "tacit", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tacit")

FAMILIES = {
    "losses": r"adversarial|study_losses|layered|flow",
    "gradients": r"tests/gradients/|_gradient",
    "services": r"tests/(service|browser)/",
    "counts": r"tests/(simulation|goldens)/",
    "checks": r"tests/audit/",
    "learners": r"tests/learners/",
    "examples": r"tests/test_(docs|examples)",
}
"""Name of a family -> what the paths of its files match; the first that does, in the order in which they start."""


def family(nodeid: str) -> str:
    """The family of a test, or its file where it has none."""
    path = nodeid.partition("::")[0]
    return next((name for name, pattern in FAMILIES.items() if re.search(pattern, path)), path)


def _quick(config: pytest.Config) -> bool:
    """Whether what is slow is left out; with it, families would be too long for one worker."""
    return config.getoption("markexpr") == "not slow"


@cache
def _points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """The entry points of a group where modules are looked for in these places."""
    del path
    return entry_points(group=group)


def pytest_configure(config: pytest.Config) -> None:
    """Installed packages stay what they are during the tests: each place is scanned for entry points once.

    Tests that install a package put a new place on the path, and it is found there.
    """
    patch = pytest.MonkeyPatch()
    patch.setattr("tacit.plugins.entry_points", lambda group: _points(group, tuple(sys.path)))
    # What is kept about this machine is not the user's during tests.
    state = tempfile.TemporaryDirectory()
    patch.setenv("XDG_STATE_HOME", state.name)
    config.add_cleanup(patch.undo)
    config.add_cleanup(state.cleanup)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What `GUARDS.md` lists is slow. Families first, if there are workers; otherwise everything stays where it is."""
    from guards import COLLECTED, guards  # beside this file

    listed, collected = guards(), config.stash.setdefault(COLLECTED, {})
    for item in items:
        name, _, case = item.name.removesuffix("]").partition("[")
        cases = listed[name][0] if name in listed else ()
        if cases is None or case in cases:
            item.add_marker("slow")
        collected.setdefault(name, []).append((case, item.get_closest_marker("slow") is not None))
    if hasattr(config, "workerinput") and _quick(config):
        ranks = {name: rank for rank, name in enumerate(FAMILIES)}
        items.sort(key=lambda item: ranks.get(family(item.nodeid), len(ranks)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays until the end: the garbage collector need not look at it again and again.

    Compilers make millions of small objects that live, so it looks less often at the others, too.
    """
    del session
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _long_runs_stay_in_their_process() -> Iterator[None]:
    """Runs whose number of workers nobody stated: all cores are busy with other tests, and new processes would import
    and compile everything again. Numbers do not depend on it; tests of processes ask for them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.runs.schedule.TRIAL_SECONDS", math.inf)
        yield


INTERPRETED_BELOW = 4_000
"""Users of a run that nobody asked to be compiled: a second or two of work, where to compile its loop takes ten."""


@pytest.fixture(autouse=True, scope="session")
def _short_runs_are_interpreted() -> Iterator[None]:
    """Both speeds are the same run, bit for bit: `tests/simulation/test_loop_registered.py` compares all learners.

    So runs that are made for something else need no loop of their own; tests of a speed name it.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in ("simulation.simulate", "runs.schedule"):
            patch.setattr(f"tacit.{module}.COMPILED_FROM", INTERPRETED_BELOW)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A family stays with one worker, and they are handed out in the order of the collection."""
    from xdist.scheduler import LoadFileScheduling

    class ByFamily(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return family(nodeid)

    if config.getoption("dist") != "loadfile" or not _quick(config):
        return None
    config.option.loadscopereorder = False
    return ByFamily(config, log)
