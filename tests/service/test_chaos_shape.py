"""What can be seen from outside, at a small scale: shapes, overflowing blocks, orders of batches, canaries."""

from __future__ import annotations

import pytest
from chaos import orders, row_shape
from chaos.parties import fast_directory

SIZE = row_shape.SCALES["ci"]


# A curator and a shuffler with every change; local trust, whose channel sends no other requests, before a merge.
TRUSTS = [pytest.param(trust, marks=pytest.mark.slow if trust == "local" else ()) for trust in row_shape.TRUSTS]


@pytest.fixture(scope="module", params=TRUSTS)
def seen(request):
    """A whole stage through the services, from extreme lives to what the learner has learned."""
    return row_shape.lived(request.param, SIZE["people"])


def test_extreme_lives_have_one_shape(seen):
    """One sequence of requests and one length of each, cover reports included."""
    assert seen.answers == {"counted": SIZE["people"]}
    assert len(seen.lengths) == 1
    assert len(seen.shapes) == 1


def test_canaries_are_nowhere(seen):
    """Not at the learner, not in the batch, not in what the shuffler says about itself; planted ones are found."""
    assert set(seen.canaries) >= {"address", "agent", "id", "time"}
    assert row_shape.found_canaries(seen) == {}
    leaks, caught = row_shape.planted(seen)
    assert caught == leaks >= 17
    assert any("study.db" in place for place in seen.learner)
    assert all(seen.learner[f"learner: {name}"] for name in ("log", "/metrics"))
    assert all(seen.shuffler[f"shuffler: {name}"] for name in ("log", "/metrics"))


@pytest.mark.statistical
def test_blocks_overflow_as_rarely_as_certified():
    """150 stages at 0.1: 36 or more have a probability below 1e-6; blocks for 0.49 are found."""
    found = row_shape._overflow_row(SIZE["stages"], seed=17)
    assert found["met"], found


@pytest.mark.statistical
@pytest.mark.parametrize("memory", [None, 16_384])
def test_batches_are_written_in_uniform_order(memory):
    """Three tests at 1e-6 each, over 60 orders that a collector wrote in memory or through buckets on the disk."""
    with fast_directory() as folder:
        found = row_shape.collected_orders(folder, SIZE["orders"], memory)
    assert all(sorted(order) == list(range(len(order))) for order in found)
    assert orders.alarms(found) == []


@pytest.mark.parametrize("name", list(orders.BIASED))
def test_a_shuffle_that_is_not_uniform_is_found(name):
    assert orders.alarms(orders.biased(name, SIZE["orders"], 900, seed=17)) != []
