"""The same inputs give the same numbers as before: a part of the goldens here, all of them with the marker `slow`.

The complete check is also a command that lists every row that differs: `python tests/goldens/make.py --check`.
Last bits depend on the processor and the libraries: where others are, rows cannot be compared and are skipped aloud; a
row that was written alone on another machine says so itself.
"""

from __future__ import annotations

import cases
import make
import numpy as np
import probe
import pytest

same_place = pytest.mark.skipif(make.made_on() != make.here(), reason=f"goldens were made on {make.made_on()}")
GROUPS = ("options", "trust", "mechanisms", "stages", "gradients", "losses")


def quick() -> dict[str, list[str]]:
    """One row of each learner in each group of runs; of mechanisms, one row of each."""
    found: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    for name, row in cases.runs().items():
        arguments = row["arguments"]
        shown = (
            arguments.get("mechanism", "") if row["group"] == "mechanisms" else arguments["learner"].partition(":")[0]
        )
        found[row["group"]].setdefault(shown, name)
    return {group: list(chosen.values()) for group, chosen in found.items()}


def in_group(group: str) -> list[str]:
    return [name for name in make.names() if name.startswith(f"{group}/")]


def differing(names: list[str]) -> list[str]:
    committed = make.load()
    return [line for name in names for line in make.differences(name, committed.get(name))]


def test_goldens_and_cases_are_the_same_rows() -> None:
    assert list(make.load()) == make.names()


@same_place
@pytest.mark.parametrize("group", GROUPS)
def test_one_row_of_each_learner_is_as_before(group: str) -> None:
    assert differing(quick()[group]) == []


@same_place
@pytest.mark.parametrize("group", ["certify", "directory"])
def test_certificates_and_directories_are_as_before(group: str) -> None:
    assert differing(in_group(group)) == []


@pytest.mark.slow
@same_place
@pytest.mark.parametrize("group", GROUPS)
def test_every_run_is_as_before(group: str) -> None:
    assert differing(in_group(group)) == []


def test_a_hash_sees_one_bit_and_one_draw() -> None:
    values = np.arange(4.0)
    other = values.copy()
    other[2] = np.nextafter(other[2], 3.0)
    assert probe.digest((values, 1)) == probe.digest([values.copy(), 1])
    assert len({probe.digest(x) for x in (values, other, values.astype(int), values[:3], values.reshape(2, 2))}) == 5


def test_another_seed_differs_in_every_hash_and_another_speed_in_no_regret() -> None:
    name = next(name for name in in_group("trust") if "trust=local" in name and name.startswith("trust/ucbvi "))
    entry = make.load()[name]
    for key in ("regret", "generators", "belief", "released"):
        assert entry[f"compiled.seed0.{key}"] != entry[f"compiled.seed7.{key}"]
    for seed in (0, 7):
        # Both speeds are one meaning.
        assert entry[f"compiled.seed{seed}.regret"] == entry[f"interpreted.seed{seed}.regret"]
