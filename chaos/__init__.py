"""Faults and loads for the services: real processes on loopback, killed, restored, replayed and flooded."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "tests" / "reference"

# Studies without noise, in which every person has a label: the same fakes that the tests of studies use.
if str(REFERENCE) not in sys.path:
    sys.path.insert(0, str(REFERENCE))
