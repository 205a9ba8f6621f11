"""The case of classics: its design is as committed, its page shows what was committed, and cells can be run again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.papers.cases.classics import SIZES, WORLDS, runs, table
from tacit.papers.recheck import recheck

ROOT = Path(__file__).parents[2]
CELLS = json.loads((ROOT / "results" / "cases" / "classics" / "cells.json").read_text(encoding="utf-8"))["runs"]


def test_the_design_is_that_of_the_page():
    made = runs("paper")
    assert len(made) == 21
    assert {(run.config.episodes, run.config.seeds) for run in made} == {SIZES["paper"]} == {(20_000, (10, 11, 12, 13))}
    assert {(run.config.environment, run.config.baseline) for run in made} == {
        (f"gymnasium:{world}", baseline) for world, baseline in WORLDS.items()
    }
    assert {run.config.epsilon for run in made} == {None, 1.0, 3.0}


def test_the_page_shows_what_is_committed():
    page = (ROOT / "docs" / "cases" / "classics.md").read_text(encoding="utf-8")
    assert len(CELLS) == 21
    assert all(cell["complete"] and cell["seeds"] == "4 of 4" for cell in CELLS)
    assert table(CELLS) in page


def test_committed_differences_are_those_of_committed_returns():
    for cell in CELLS:
        returns, against = cell["returns"], cell["against"]
        assert against["final"]["mean"] == pytest.approx(np.mean(returns["final_per_seed"]) - against["value"])
        assert against["during"]["mean"] == pytest.approx(np.mean(returns["per_seed"]) - against["value"])
        assert (
            returns["final"]["low"] < returns["final"]["mean"] < returns["final"]["high"]
            or len(set(returns["final_per_seed"])) == 1
        )


@pytest.mark.slow
def test_a_cell_run_again_is_the_same():
    (found,) = recheck("cases/classics", results=ROOT / "results", cells=1, seed=1, seconds=60.0)
    assert found.same
