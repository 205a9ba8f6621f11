"""What every test may use: the slow twins of `tests/reference`, chaos, and one small budget for hypothesis."""

from __future__ import annotations

import sys
from pathlib import Path

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
