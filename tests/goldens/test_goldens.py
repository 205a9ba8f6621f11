"""The same inputs give the same numbers as before, on every processor; nothing is skipped.

The quick part here, every row with the marker `slow`. The same as a command that lists every row that differs:
`make goldens` (all rows) or `make goldens BASE=<commit>` (against what another commit makes on this machine).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import make
import numpy as np
import pytest
import values

pytestmark = pytest.mark.filterwarnings("ignore:learner:DeprecationWarning")  # cases are spelled as in 0.8
QUICK = make.quick_names()
GROUPS = sorted({name.partition("/")[0] for name in make.names()})
INTERPRETED = ("run/auto none", "run/auto central", "run/auto shuffle batch", "run/auto local small")
"""A small run under each trust model, for a process without the compiler."""


def differing(names: list[str], *, quick: bool) -> list[str]:
    committed = make.load()
    lines = (make.differs(name, committed.get(name), make.compute(name, quick=quick), quick=quick) for name in names)
    return [line for line in lines if line]


def in_group(group: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{group}/")]


def test_goldens_and_cases_are_the_same_rows() -> None:
    assert list(make.load()) == make.names()
    assert set(make.BY_CPU) <= set(make.names())


@pytest.mark.parametrize("group", sorted({name.partition("/")[0] for name in QUICK}))
def test_quick_rows_are_as_before(group: str) -> None:
    assert differing(in_group(group, QUICK), quick=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_every_row_is_as_before(group: str) -> None:
    assert differing(in_group(group, make.names()), quick=False) == []


def test_rows_are_the_same_with_the_compiler_off(tmp_path: Path) -> None:
    """Kernels are plain Python then, and may only differ in last bits of what the compiler reorders."""
    asked, out = tmp_path / "asked.json", tmp_path / "made.json"
    asked.write_text(json.dumps(INTERPRETED))
    code = f"import make; make.dump({str(asked)!r}, {str(out)!r}, quick=True)"
    place = str(Path(make.__file__).parent)
    path = os.pathsep.join([place, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)
    made, committed = json.loads(out.read_text()), make.load()
    assert [make.differs(name, committed[name], made[name]) for name in INTERPRETED] == [None] * len(INTERPRETED)


def test_a_hash_sees_one_bit_and_one_draw() -> None:
    numbers = np.arange(4.0)
    other = numbers.copy()
    other[2] = np.nextafter(other[2], 3.0)
    assert values.digest((numbers, 1)) == values.digest([numbers.copy(), 1])
    seen = (numbers, other, numbers.astype(int), numbers[:3], numbers.reshape(2, 2))
    assert len({values.digest(x) for x in seen}) == 5
    assert len({values.golden(x)["hash"] for x in seen}) == 5


def test_a_difference_is_told_by_its_place_and_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"std": {"visits": 2.0}, "regret": np.arange(40.0), "payload": bytes(40)}
    before = values.golden(row)
    last = row["regret"] * (1.0 + 1e-12)
    for other, told in (
        ({**row, "std": {"visits": 2.5}}, "row: std.visits: expected 2.0, got 2.5"),
        ({**row, "std": {}}, "row: std.visits is not there"),
        ({**row, "regret": last}, "row: regret.sha: expected"),
        ({**row, "payload": bytes(39) + b"1"}, "row: payload.sha: expected"),
    ):
        assert make.differs("row", before, values.golden(other)).startswith(told)
    monkeypatch.setattr(make, "BY_CPU", {"row": "1e-9"})
    assert make.differs("row", {**before, make.PLACE: make.here()}, values.golden({**row, "regret": last})) is not None
    before[make.PLACE] = "another processor"
    assert make.differs("row", before, values.golden({**row, "regret": last})) is None
    for other in ({**row, "regret": row["regret"] * (1.0 + 1e-8)}, {**row, "payload": bytes(39) + b"1"}):
        assert make.differs("row", before, values.golden(other)) is not None
    first = {"noise": "0" * 16, "values": {"noise": [1.0]}, make.PLACE: "another processor"}
    assert make.differs("row", first, {"noise": "1" * 16, "values": {"noise": [1.0 + 1e-12]}}) is None
    assert make.differs("row", first, {"noise": "1" * 16, "values": {"noise": [1.1]}}) is not None


def test_another_seed_differs_in_every_hash_and_another_speed_in_no_regret() -> None:
    names = in_group("trust", make.names())
    entry = make.load()[next(name for name in names if "trust=local" in name and name.startswith("trust/ucbvi "))]
    for key in ("regret", "generators", "belief", "released"):
        assert entry[f"compiled.seed0.{key}"] != entry[f"compiled.seed7.{key}"]
    for seed in (0, 7):
        # Both speeds are one meaning.
        assert entry[f"compiled.seed{seed}.regret"] == entry[f"interpreted.seed{seed}.regret"]
