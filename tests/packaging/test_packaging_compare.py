"""Two versions are compared by their own sources, and what cannot be compared does not pass."""

from __future__ import annotations

import pytest
from benchmarks import compare

JOB = "loop ucbvi, central"


@pytest.fixture
def trees(tmp_path, monkeypatch):
    """Two source trees that hold nothing but a `tacit` with a `run`; the second one's fails."""
    monkeypatch.setattr(compare, "SHORT", 0.0)
    monkeypatch.setattr(compare, "ROOT", tmp_path / "candidate")
    bodies = {"base": "open('ran', 'a').write(learner)", "candidate": "raise ValueError('no such learner')"}
    for name, body in bodies.items():
        package = tmp_path / name / "src" / "tacit"
        package.mkdir(parents=True)
        text = f"def run(*, learner, environment, episodes, seeds, trust, epsilon, delta, workers):\n    {body}\n"
        (package / "__init__.py").write_text(text)
    return tmp_path


def test_a_job_runs_with_the_sources_of_a_tree_that_has_nothing_but_tacit(trees):
    """A base of long ago has other benchmarks, or none: the jobs come from here and need its `tacit` only."""
    cache = trees / "cache"
    cache.mkdir()
    seconds = compare.measured(trees / "base", JOB, cache)
    assert seconds is not None
    assert 0.0 <= seconds < 60.0
    assert (cache / "ran").read_text() == 3 * "ucbvi"  # once unmeasured, twice measured


def test_what_cannot_be_compared_fails_and_says_why(trees, capsys):
    rows = compare.compare(trees / "base", trees / "cache", [JOB], 1)
    assert [row["ratio"] for row in rows] == [None]
    assert "ValueError: no such learner" in capsys.readouterr().err
    assert compare.verdict(rows, 1.05) == 1
    assert f"not compared: {JOB}" in capsys.readouterr().out


def test_only_jobs_that_are_all_fast_enough_pass(capsys):
    assert compare.verdict([{"name": "a", "ratio": 1.05}, {"name": "b", "ratio": 0.2}], 1.05) == 0
    assert compare.verdict([{"name": "a", "ratio": 1.06}, {"name": "b", "ratio": 0.2}], 1.05) == 1
    assert compare.verdict([], 1.05) == 1
    assert "slower than 1.05 times the base: a\n" in capsys.readouterr().out
