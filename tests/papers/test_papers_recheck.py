"""Committed results are checked by running cells again: equal ones pass, changed ones are found."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.papers import catalogue
from tacit.papers.recheck import recheck
from tacit.papers.thinning import thin
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig

NAME = "toy/two-learners"


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A small experiment and its committed result."""
    configs = {
        learner: RunConfig(environment="riverswim", learner=learner, episodes=200, seeds=(0, 1), **options)
        for learner, options in (("psrl", {}), ("ucbvi", {"constants": "practical"}))
    }
    runs = tuple(Run(label=learner, config=config) for learner, config in configs.items())
    experiment = catalogue.Experiment(summary="two learners", runs=lambda scale: runs)
    monkeypatch.setitem(catalogue.EXPERIMENTS, NAME, experiment)
    run_comparison(runs, name=NAME, out=tmp_path / "runs", command="none", workers=1)
    thin(tmp_path / "runs", tmp_path / "results" / NAME)
    return tmp_path / "results"


def test_the_same_seeds_give_the_committed_numbers(committed):
    found = recheck(NAME, results=committed, cells=4)
    assert sorted((row.run, row.seed) for row in found) == [("psrl", 0), ("psrl", 1), ("ucbvi", 0), ("ucbvi", 1)]
    assert all(row.same and row.again == row.committed > 0.0 for row in found)
    assert recheck(NAME, results=committed, cells=2, seed=3) == recheck(NAME, results=committed, cells=2, seed=3)


def test_a_result_that_another_algorithm_made_is_found(committed, capsys):
    path = committed / NAME / "results.parquet"
    table = pq.ParquetFile(path).read()
    regret = table.column("regret").to_numpy().copy()
    regret[table.column("run").to_numpy(zero_copy_only=False) == "psrl"] *= 1.001
    pq.write_table(table.set_column(4, "regret", pa.array(regret)), path)
    found = {(row.run, row.seed): row for row in recheck(NAME, results=committed, cells=4)}
    assert [found["ucbvi", seed].same for seed in (0, 1)] == [True, True]
    assert [found["psrl", seed].difference for seed in (0, 1)] == pytest.approx([1e-3, 1e-3], rel=0.01)
    words = ["reproduce", NAME, "--check", "--cells", "4", "--results", str(committed), "--json"]
    assert main(words) == 1
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert sum(not cell["same"] for cell in cells) == 2


def test_what_cannot_be_checked_is_refused(committed):
    with pytest.raises(InvalidInput, match="must hold a committed result"):
        recheck(NAME, results=committed / "elsewhere")
    cells = json.loads((committed / NAME / "cells.json").read_text())
    for cell in cells["runs"]:
        cell["seconds"] = 100.0
    (committed / NAME / "cells.json").write_text(json.dumps(cells))
    with pytest.raises(InvalidInput, match="allow more"):
        recheck(NAME, results=committed, seconds=10.0)
