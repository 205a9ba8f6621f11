"""Faults and loads for the services: real processes on loopback, killed, restored, replayed and flooded."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "tests" / "reference"

# Studies without noise, in which every person has a label, tables of older versions and a PostgreSQL server: the same
# that the tests use.
sys.path += [str(place) for place in (REFERENCE, ROOT / "tests" / "service") if str(place) not in sys.path]
