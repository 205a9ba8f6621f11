from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tacit

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
CPU_SECONDS = 1.0


def test_public_names_are_sorted_and_complete():
    assert list(tacit.__all__) == sorted(tacit.__all__)
    assert dir(tacit) == sorted(tacit.__all__)
    assert set(tacit._HOMES) | {"__version__"} == set(tacit.__all__)


@pytest.mark.parametrize("name", tacit.__all__)
def test_every_public_name_is_there_and_documented(name):
    found = getattr(tacit, name)
    if name != "__version__":
        assert (inspect.getdoc(found) or "").strip(), f"{name} has no docstring"


def test_the_reference_shows_every_public_name():
    page = REFERENCE.read_text()
    shown = set(re.findall(r"^\.\. auto(?:function|class|exception):: tacit\.(\w+)$", page, flags=re.MULTILINE))
    assert shown == set(tacit.__all__) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        _ = tacit.rum


def test_importing_is_cheap_and_compiles_nothing():
    script = (
        "import resource, sys\n"
        "def cpu():\n"
        "    usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    return usage.ru_utime + usage.ru_stime\n"
        "before = cpu()\n"
        "import tacit\n"
        "heavy = {'numba', 'matplotlib', 'pyarrow', 'gymnasium', 'typer', 'scipy'} & set(sys.modules)\n"
        "print(cpu() - before, sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, _, heavy = done.stdout.partition(" ")
    assert float(seconds) < CPU_SECONDS
    assert heavy.strip() == "[]"


def test_a_run_does_not_wait_for_modules_that_it_does_not_use():
    script = (
        "import sys\n"
        "from tacit.cli import main\n"
        "sys.argv = 'tacit run --environment riverswim --trust central --epsilon 1 --delta 1e-6 --episodes 40 "
        "--seeds 1 --workers 1'.split()\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as done:\n"
        "    assert not done.code, done.code\n"
        "print(sorted({'scipy.stats', 'scipy.signal', 'matplotlib', 'pyarrow', 'ray', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
