"""The case of what to show first: its design is as committed, and its page shows what was committed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from docs.tables import FOLDER, csv_of

from papers.cases.recommender import large_runs, runs, table
from papers.cases.recommender_package import difference
from papers.cases.recommender_package import table as in_package
from papers.recheck import recheck

ROOT = Path(__file__).parents[2]


def test_the_design_is_that_of_the_page():
    small, large = runs("paper"), large_runs("paper")
    assert {(run.config.episodes, run.config.seeds) for run in small} == {(20_000, tuple(range(200, 220)))}
    assert {(run.config.episodes, run.config.seeds) for run in large} == {(200_000, tuple(range(220, 240)))}
    private = [(trust, epsilon) for epsilon in (0.5, 1.0, 3.0) for trust in ("central", "shuffle", "local")]
    assert [(run.config.trust, run.config.epsilon) for run in small] == [("none", None), *private]
    assert [(run.config.trust, run.config.epsilon) for run in large] == [("central", 1.0), ("shuffle", 1.0)]
    assert {run.config.baseline for run in (*small, *large)} == {"interest"}
    assert {run.config.environment for run in (*small, *large)} == {
        "gymnasium:papers.worlds:tacit/Watching-v0,evaluation=10000"
    }
    assert all(run.config.because is not None for run in (*small[1:], *large))


@pytest.mark.parametrize(("name", "runs"), [("recommender", 10), ("recommender-large", 2)])
def test_the_csv_shows_what_is_committed(name, runs):
    cells = json.loads((ROOT / "results" / "cases" / name / "cells.json").read_text(encoding="utf-8"))["runs"]
    assert len(cells) == runs
    assert all(cell["complete"] and cell["seeds"] == "20 of 20" for cell in cells)
    assert (FOLDER / f"{name}.csv").read_text(encoding="utf-8") == csv_of(table(cells))


@pytest.mark.parametrize("name", ["recommender", "recommender-large"])
def test_the_csv_shows_what_was_measured_in_the_package(name):
    measured = json.loads((ROOT / "results" / "cases" / name / "package.json").read_text(encoding="utf-8"))
    assert measured["visits"] == 400
    assert (FOLDER / f"{name}-package.csv").read_text(encoding="utf-8") == csv_of(in_package(measured))
    for run in ("central, ε=1", "shuffle, ε=1"):
        cell = measured["policies"][run]
        assert cell["package"]["difference"]["low"] < cell["twin"]["difference"]["mean"]
        assert cell["twin"]["difference"]["mean"] < cell["package"]["difference"]["high"]


def test_the_interval_of_a_difference_is_that_of_two_means():
    found, other = np.array([1.0, 2.0, 3.0, 6.0]), np.array([0.0, 1.0])
    half = 1.96 * np.sqrt(np.var(found, ddof=1) / 4 + np.var(other, ddof=1) / 2)
    assert difference(found, other) == {"mean": 2.5, "low": 2.5 - half, "high": 2.5 + half}


@pytest.mark.slow
def test_a_cell_run_again_is_the_same():
    (found,) = recheck("cases/recommender", results=ROOT / "results", cells=1, seed=1, seconds=60.0)
    assert found.same
