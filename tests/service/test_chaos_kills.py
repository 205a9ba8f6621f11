"""Processes that die, at any moment and at named edges: nothing acknowledged is lost, twice, unpaid or shown twice."""

from __future__ import annotations

import pytest
from chaos import row_failpoints, row_kills
from chaos.histories import history
from chaos.row_histories import MUTANTS, honest

KILLS = {"plain": (2, 24), "sealed": (3, 6)}
"""(kills, writers) with every change: every party dies once."""


def test_killed_under_24_writers():
    rows = [row_kills.plain(*KILLS["plain"], seed=17), row_kills.sealed(*KILLS["sealed"], seed=17)]
    for row in rows:
        assert row["met"], row
        assert row["counts"]["killed shuffler"] >= 1
        assert row["counts"]["killed learner"] >= 1


POINTS = (("shuffler", "release:before commit"), ("shuffler", "add:after commit"), ("learner", "take:before commit"))
"""With every change: before it is shown, after it is acknowledged, before it is learned from."""


def test_named_failpoints_and_the_mutants_that_they_find():
    rows = [
        row_failpoints.labelled("release, add, take", POINTS, 1, "test-central"),
        row_failpoints.labelled("paid before the stage opens", row_failpoints.LOCAL[:1], 1, "test-local"),
        row_failpoints.publishes_first(),
        row_failpoints.acknowledges_first(),
    ]
    assert [row for row in rows if not row["met"]] == []


@pytest.mark.slow
def test_more_named_failpoints_sealed_ones_too():
    rows = row_failpoints.run("ci")
    assert len(rows) >= 3
    assert [row for row in rows if not row["met"]] == []


def test_at_least_eight_failpoints_in_release_take_plan_and_issue():
    edges = {edge for _, edge in (*row_failpoints.PLAIN, *row_failpoints.LOCAL, *row_failpoints.SEALED)}
    steps = [edge.partition(":")[0] for edge in edges]
    assert sum(step in ("release", "take", "plan", "issue") for step in steps) >= 8
    assert {"release", "take", "plan", "issue", "open", "close", "add", "batch", "bundle", "issuer"} <= set(steps)


@pytest.mark.slow
def test_killed_again_and_again_under_24_writers():
    rows = row_kills.run("ci")
    assert len(rows) == 2
    for row in rows:
        assert row["met"], row


@pytest.mark.parametrize("histories", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_random_histories_over_real_processes(histories):
    row = honest(histories, 24, seed=0)
    assert row["met"], row
    assert row["counts"]["released"] >= 1


@pytest.mark.parametrize(
    ("mutant", "seed"),
    [
        # Over processes one of them; all of them in one process: `test_study_histories`.
        ("no minimum", 3),
        pytest.param("person twice", 2, marks=pytest.mark.slow),
        pytest.param("closed lets in", 2, marks=pytest.mark.slow),
    ],
)
def test_histories_find_mutants(mutant, seed):
    found, _ = history(seed, mutant)
    assert found[MUTANTS[mutant]] > 0
