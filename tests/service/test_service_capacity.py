"""The capacity page: made of the committed unit costs, and its numbers are what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.errors import InvalidInput
from tacit.service.capacity import KINDS, Machine, UnitCosts, capacity, page

ROOT = Path(__file__).parents[2]
COSTS = ROOT / "benchmarks" / "results" / "unit_costs.json"


def test_the_page_is_made_of_the_committed_costs():
    assert (ROOT / "docs" / "operations" / "capacity.md").read_text("utf-8") == page(UnitCosts.read(COSTS))


@pytest.mark.parametrize("kind", KINDS)
def test_work_grows_with_devices_and_shrinks_with_cores(kind):
    costs = UnitCosts.read(COSTS)
    few, many = capacity(kind, 10_000, costs), capacity(kind, 1_000_000, costs)
    assert many.intake == pytest.approx(100 * few.intake)
    assert many.disk > 30 * few.disk
    assert many.messages <= few.messages
    more = capacity(kind, 1_000_000, costs, Machine(cores=8))
    assert more.parts["issuer: signing"] == pytest.approx(many.parts["issuer: signing"] / 4)
    assert more.parts["shuffler: reports"] == many.parts["shuffler: reports"]
    assert many.first == max(many.parts, key=lambda name: many.parts[name])


def test_a_second_layer_costs_a_second_opening():
    costs = UnitCosts.read(COSTS)
    plain, mixed = capacity("shuffle", 100_000, costs), capacity("shuffle, mixed", 100_000, costs)
    assert mixed.device > plain.device
    assert mixed.after > 1.5 * plain.after
    assert "mixer: opening" in mixed.parts


def test_costs_that_are_missing_are_refused(tmp_path):
    place = tmp_path / "costs.json"
    content = json.loads(COSTS.read_text("utf-8"))
    place.write_text(json.dumps({**content, "rows": content["rows"][1:]}), encoding="utf-8")
    with pytest.raises(InvalidInput, match="unit costs"):
        UnitCosts.read(place)
    with pytest.raises(InvalidInput, match="kind must be"):
        capacity("free", 1000, UnitCosts.read(COSTS))
