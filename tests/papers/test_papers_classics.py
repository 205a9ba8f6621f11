"""The case of classics: its design is as committed, its page shows what was committed, and cells can be run again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from docs.tables import FOLDER, case_tables, csv_of

from papers.cases.classics import FIGURES, SIZES, WORLDS, runs, table
from papers.recheck import recheck
from papers.redraw import committed_results, live_returns

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


def test_the_csv_shows_what_is_committed():
    assert len(CELLS) == 21
    assert all(cell["complete"] and cell["seeds"] == "4 of 4" for cell in CELLS)
    assert (
        (FOLDER / "classics.csv").read_text(encoding="utf-8") == case_tables()["classics.csv"] == csv_of(table(CELLS))
    )


def test_committed_differences_are_those_of_committed_returns():
    for cell in CELLS:
        returns, against = cell["returns"], cell["against"]
        assert against["final"]["mean"] == pytest.approx(np.mean(returns["final_per_seed"]) - against["value"])
        assert against["during"]["mean"] == pytest.approx(np.mean(returns["per_seed"]) - against["value"])
        assert (
            returns["final"]["low"] < returns["final"]["mean"] < returns["final"]["high"]
            or len(set(returns["final_per_seed"])) == 1
        )


def test_the_figure_can_be_drawn_from_committed_rows():
    """Returns so far end at the table's returns per user, and the references are the table's."""
    rows = pq.ParquetFile(ROOT / "results" / "cases" / "classics" / "results.parquet").read().to_pylist()
    for cell in CELLS:
        own = [row for row in rows if (row["run"], row["environment"]) == (cell["run"], cell["environment"])]
        totals = np.array([[row["regret"] for row in own if row["seed"] == seed] for seed in SIZES["paper"][1]])
        found = live_returns(cell, totals)
        assert [one.total[-1] / 20_000 for one in found] == pytest.approx(cell["returns"]["per_seed"], rel=1e-6)
        assert {one.uniform.mean for one in found} == {cell["returns"]["uniform"]["mean"]}
        assert {one.baseline.mean for one in found} == {cell["against"]["value"]}


@pytest.mark.slow
def test_the_figure_is_drawn_of_all_runs(tmp_path):
    drawn = committed_results("cases/classics", ROOT / "results")
    assert [result.label for result in drawn] == [cell["run"] for cell in CELLS]
    figure = FIGURES[0].draw(drawn, tmp_path / "classics.png", title="classics")
    assert [ax.get_title(loc="left") for ax in figure.axes] == [f"gymnasium:{world}" for world in WORLDS]


@pytest.mark.slow
def test_a_cell_run_again_is_the_same():
    (found,) = recheck("cases/classics", results=ROOT / "results", cells=1, seed=1, seconds=60.0)
    assert found.same
