"""The audit of everything as a table: `python -m papers audit`. It attacks what `tacit audit` attacks one by one.

Planted bugs are `tests/mutants`, which the tests share.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))
