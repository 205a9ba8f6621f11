"""Committed results are checked by running cells again: equal ones pass, changed ones are found."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papers import catalogue, revisions
from papers import recheck as rechecking
from papers.__main__ import main
from papers.recheck import recheck
from papers.staleness import staleness
from papers.thinning import thin
from tacit.errors import InvalidInput
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
    words = ["check", NAME, "--cells", "4", "--results", str(committed), "--json"]
    assert main(words) == 1
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert sum(not cell["same"] for cell in cells) == 2


def forget(place):
    """The result as it would be if it had been made before there were fingerprints."""
    content = json.loads((place / "cells.json").read_text())
    for cell in content["runs"]:
        del cell["algorithm"]
    (place / "cells.json").write_text(json.dumps(content))


def test_every_run_is_checked_and_what_is_equal_gets_the_fingerprint_of_today(committed, monkeypatch, capsys):
    forget(committed / NAME)
    assert staleness(NAME, committed).before == ("psrl", "ucbvi")
    words = ["check", NAME, "--every", "--cells", "1", "--results", str(committed), "--json"]
    assert main([*words, "--stamp"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["run"] for cell in cells] == ["psrl", "ucbvi"]
    assert cells[0]["seed"] == cells[1]["seed"]  # runs that results share are run once
    found = staleness(NAME, committed)
    assert (found.current, found.before, found.stale) == (("psrl", "ucbvi"), (), ())
    assert found.words == "2 runs current (checked by rerunning 1 of 2 seeds)"
    assert main([*words[:-1], "--seed", "1", "--stamp"]) == 0  # another seed joins the first one
    assert {len(cell["checked"]["seeds"]) for cell in read(committed)} == {2}
    monkeypatch.setitem(revisions.LEARNERS, "psrl", ("a change",))
    assert [run for run, _ in staleness(NAME, committed).stale] == ["psrl"]


def test_a_run_that_differs_is_stamped_as_stale_and_not_as_current(committed):
    forget(committed / NAME)
    path = committed / NAME / "results.parquet"
    table = pq.ParquetFile(path).read()
    regret = table.column("regret").to_numpy().copy()
    regret[table.column("run").to_numpy(zero_copy_only=False) == "psrl"] *= 1.001
    pq.write_table(table.set_column(4, "regret", pa.array(regret)), path)
    words = ["check", NAME, "--every", "--cells", "1", "--results", str(committed), "--stamp"]
    assert main(words) == 1
    found = staleness(NAME, committed)
    assert found.current == ("ucbvi",)
    assert "gives other numbers" in found.stale[0][1]
    assert "checked" not in read(committed)[0]


def test_a_check_that_was_broken_off_goes_on_with_what_nobody_knows_yet(committed, monkeypatch, capsys):
    forget(committed / NAME)
    content = json.loads((committed / NAME / "cells.json").read_text())
    content["runs"][0]["seconds"] = 2.0 * content["runs"][1]["seconds"] + 1.0
    (committed / NAME / "cells.json").write_text(json.dumps(content))
    words = ["check", NAME, "--unknown", "--cells", "1", "--results", str(committed), "--stamp"]
    real, done = rechecking.stamp, []

    def once(*given, **options):
        if done:
            raise KeyboardInterrupt
        done.append(given)
        real(*given, **options)

    with monkeypatch.context() as broken:
        broken.setattr(rechecking, "stamp", once)
        assert main(words) != 0
    assert staleness(NAME, committed).current == ("ucbvi",)  # the cheaper one
    assert staleness(NAME, committed).before == ("psrl",)
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    assert [cell["run"] for cell in json.loads(capsys.readouterr().out)["cells"]] == ["psrl"]
    assert staleness(NAME, committed).before == ()
    assert main(words) == 2
    assert "of which nobody knows" in capsys.readouterr().err


def test_runs_of_one_name_in_several_worlds_are_told_apart(tmp_path, monkeypatch):
    runs = tuple(
        Run(label="uniform", config=RunConfig(environment=world, learner="uniform", episodes=50, seeds=(0,)))
        for world in ("riverswim", "random-mdp")
    )
    monkeypatch.setitem(catalogue.EXPERIMENTS, NAME, catalogue.Experiment(summary="one", runs=lambda scale: runs))
    run_comparison(runs, name=NAME, out=tmp_path / "runs", command="none", workers=1)
    thin(tmp_path / "runs", tmp_path / "results" / NAME)
    content = json.loads((tmp_path / "results" / NAME / "cells.json").read_text())
    content["runs"][0]["version"], content["runs"][0]["seconds"] = "0.0.1", 1e6
    (tmp_path / "results" / NAME / "cells.json").write_text(json.dumps(content))
    (row,) = recheck(NAME, results=tmp_path / "results", cells=9)  # the slow one is left out, not both
    assert (row.environment, row.same) == ("random-mdp", True)
    assert row.version != "0.0.1"


def test_stamps_need_a_check(capsys):
    assert main(["check", "--stamp"]) == 2
    assert "the name of a result" in capsys.readouterr().err


def read(committed):
    return json.loads((committed / NAME / "cells.json").read_text())["runs"]


def test_what_cannot_be_checked_is_refused(committed):
    with pytest.raises(InvalidInput, match="must hold a committed result"):
        recheck(NAME, results=committed / "elsewhere")
    cells = json.loads((committed / NAME / "cells.json").read_text())
    for cell in cells["runs"]:
        cell["seconds"] = 100.0
    (committed / NAME / "cells.json").write_text(json.dumps(cells))
    with pytest.raises(InvalidInput, match="allow more"):
        recheck(NAME, results=committed, seconds=10.0)
