"""Results of an unfinished comparison: the seeds that are there, as they were, and how many the design has."""

from __future__ import annotations

import numpy as np
import pytest

from papers.part import finished_part, main
from papers.thinning import thin
from tacit.errors import InvalidInput
from tacit.runs.archive import read_result
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig


def runs(seeds: tuple[int, ...]) -> list[Run]:
    options = {"environment": "riverswim", "episodes": 60, "seeds": seeds}
    return [
        Run(label="PSRL", config=RunConfig(learner="psrl:time_homogeneous=true", constants="none", **options)),
        Run(label="uniform", config=RunConfig(learner="uniform", constants="none", **options)),
    ]


def test_a_part_has_the_finished_seeds_and_says_of_how_many(tmp_path):
    source = tmp_path / "all"
    whole = run_comparison(runs((3, 4, 5)), name="a", out=source, command="c", workers=1)
    unfinished = source / "riverswim" / "uniform"
    (unfinished / "results.parquet").unlink()
    (unfinished / "seeds" / "seed-000005.parquet").unlink()
    (unfinished / "seeds" / ".tmp-seed-000005.parquet").write_bytes(b"half")
    before = sorted(path.name for path in unfinished.rglob("*"))
    assert finished_part(source, tmp_path / "part") == {"PSRL": "3 of 3", "uniform": "2 of 3"}
    assert sorted(path.name for path in unfinished.rglob("*")) == before
    read = read_result(tmp_path / "part" / "riverswim" / "uniform")
    assert read.seeds == (3, 4)
    np.testing.assert_array_equal(read.regret, whole[1].regret[:2])
    cells = thin(tmp_path / "part", tmp_path / "kept")["runs"]
    assert [(cell["complete"], cell["seeds"]) for cell in cells] == [(True, "3 of 3"), (True, "2 of 3")]


def test_one_seed_is_no_part_and_places_must_fit(tmp_path, capsys):
    source = tmp_path / "all"
    run_comparison(runs((3, 4)), name="a", out=source, command="c", workers=1)
    (source / "riverswim" / "uniform" / "results.parquet").unlink()
    (source / "riverswim" / "uniform" / "seeds" / "seed-000004.parquet").unlink()
    assert main([str(source), str(tmp_path / "part")]) == 0
    assert "uniform: 1 of 2 seeds" in capsys.readouterr().out
    assert not (tmp_path / "part" / "riverswim" / "uniform").exists()
    assert [cell["complete"] for cell in thin(tmp_path / "part", tmp_path / "kept")["runs"]] == [True, False]
    with pytest.raises(InvalidInput, match="new directory"):
        finished_part(source, tmp_path / "part")
    with pytest.raises(InvalidInput, match=r"comparison\.json"):
        finished_part(tmp_path, tmp_path / "nothing")
    assert main([]) == 2
