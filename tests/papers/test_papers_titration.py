"""The case of titration: its design is as committed, policies meet the same people, a study has secure noise."""

from __future__ import annotations

import json
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from docs.tables import FOLDER, csv_of

import tacit
from papers.cases import titration_budget
from papers.cases.titration import budget_large_runs, budget_runs, large_runs, runs
from papers.cases.titration_measures import measure, table, weeks_of
from papers.glucose.titration import TEXTBOOK
from tacit.policies import DeterministicPolicy
from tacit.runs.trial import trial_size
from tacit.runs.trial_result import TrialResult

ROOT = Path(__file__).parents[2]
RULE = np.tile(np.array(TEXTBOOK, dtype=np.int64), (7, 1))


def test_the_design_is_that_of_the_page():
    small, large = runs("paper"), large_runs("paper")
    assert {(run.config.episodes, run.config.seeds) for run in small} == {(20_000, tuple(range(200, 220)))}
    assert {(run.config.episodes, run.config.seeds) for run in large} == {(200_000, tuple(range(220, 240)))}
    cells = [(run.config.trust, run.config.epsilon) for run in small]
    private = [(trust, epsilon) for epsilon in (0.5, 1.0, 3.0) for trust in ("central", "shuffle", "local")]
    assert cells == [("none", None), *private]
    first = [(trust, epsilon) for epsilon in (1.0, 3.0, 0.5) for trust in ("central", "shuffle")]
    last = [("local", epsilon) for epsilon in (1.0, 3.0, 0.5)]
    assert [(run.config.trust, run.config.epsilon) for run in large] == [*first, *last]
    assert {run.config.baseline for run in (*small, *large)} == {"textbook"}
    assert {run.config.learner for run in large[:6]} == {"bucb:share_across_steps=true"}
    assert {run.config.learner for run in (*small, *large) if run.config.trust == "local"} == {"ldp-rts"}
    assert all(run.config.because is not None for run in (*small[1:], *large))


def test_budgets_are_those_of_the_page():
    small, large = budget_runs("paper"), budget_large_runs("paper")
    assert {(run.config.episodes, run.config.seeds) for run in small} == {(20_000, tuple(range(240, 260)))}
    assert {(run.config.episodes, run.config.seeds) for run in large} == {(200_000, tuple(range(260, 280)))}
    for found in (small, large):
        assert [(run.config.trust, run.config.epsilon) for run in found] == [("central", 1.0), ("shuffle", 1.0)]
        assert {(run.config.loss_budget, run.config.baseline) for run in found} == {(0.02, "textbook")}


def finished(name: str) -> tuple[Path, list[dict[str, Any]]]:
    found = ROOT / "results" / "cases" / name
    return found, [cell for cell in json.loads((found / "cells.json").read_text())["runs"] if cell["complete"]]


@pytest.mark.parametrize("name", ["titration", "titration-large"])
def test_the_csv_shows_what_is_committed(name):
    found, cells = finished(name)
    measures = json.loads((found / "measures.json").read_text(encoding="utf-8"))
    assert cells
    assert list(measures) == [cell["run"] for cell in cells]
    for cell in cells:
        seeds = len(cell["returns"]["per_seed"])
        assert cell["seeds"] == f"{seeds} of 20"
        assert len(measures[cell["run"]]["seeds"]) == seeds
    assert all(found["weeks"] == 4_000 for found in measures.values())
    assert (FOLDER / f"{name}.csv").read_text(encoding="utf-8") == csv_of(table(cells, measures))


@pytest.mark.parametrize("name", ["titration-budget", "titration-budget-large"])
def test_the_csv_shows_which_runs_kept_their_budget(name):
    _, cells = finished(name)
    assert len(cells) == 2
    assert (FOLDER / f"{name}.csv").read_text(encoding="utf-8") == csv_of(titration_budget.table(cells))
    for cell in cells:
        seeds = len(cell["returns"]["per_seed"])
        assert cell["seeds"] == f"{seeds} of 20"
        assert titration_budget.kept(cell) == seeds


def test_policies_meet_the_same_people():
    one, two = weeks_of(RULE, weeks=20, seed=3), weeks_of(RULE, weeks=20, seed=3)
    assert one[0].tobytes() == two[0].tobytes()
    assert one[0].tobytes() != weeks_of(RULE, weeks=20, seed=4)[0].tobytes()
    found = measure({3: DeterministicPolicy(RULE)}, weeks=20)
    assert found["difference"]["mean"] == 0.0
    assert found["below_difference"]["mean"] == 0.0
    keep = measure({3: DeterministicPolicy(np.ones((7, 15), dtype=np.int64))}, weeks=20)
    assert keep["rule"] == found["rule"]
    assert keep["difference"]["mean"] != 0.0


@pytest.mark.slow
def test_a_study_with_secure_noise_ends_with_a_policy_and_a_certificate(tmp_path):
    script = run_path(str(ROOT / "docs" / "cases" / "titration_study.py"))
    plan, run_study, STATES = script["plan"], script["run_study"], script["STATES"]
    design = plan(stages=3, people=60, epsilon=3.0)
    assert len(design.states) == len(set(STATES)) == 15
    found = run_study(tmp_path / "study", design, seed=1, weeks=50, say=lambda line: None)
    assert found["holds"]
    assert found["certified epsilon"] <= 3.0
    assert [row["noise"] for row in found["stages"]] == ["secure"] * 3
    assert all(row["taken"] == "taken" and row["epsilon"] <= 3.0 for row in found["stages"])
    assert np.array(found["policy"]).shape == (7, 15)


ARMS = {"central": 21_298, "shuffle": 21_733, "local": 123_025}


@pytest.mark.parametrize("trust", ARMS)
def test_trials_are_those_of_the_design_and_of_the_page(trust):
    place = ROOT / "results" / "cases" / "titration-large"
    assert tacit.verify(place / f"trial-{trust}.json").outcome == "true"
    trial = TrialResult.from_dict(json.loads((place / f"trial-{trust}.json").read_text(encoding="utf-8")))
    claim = trial.certificate.claim
    assert (claim.trust, claim.epsilon, claim.delta) == (trust, 1.0, 0.0 if trust == "local" else 1e-6)
    assert (trial.arms, trial.alpha, trial.bounds) == (("textbook", "policy"), 0.05, (0.0, 7.0))
    assert trial.released.users == (ARMS[trust], ARMS[trust])
    assert trial.certificate.holds
    found = trial.interval
    page = (ROOT / "docs" / "cases" / "titration.md").read_text(encoding="utf-8")
    seen = f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    assert f"| {trust} | {ARMS[trust]:,} | {seen} | {trial.verdict} |" in page
    assert f"policy-{trust}.json" in trial.command


@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_arms_have_the_size_that_the_design_derives(trust):
    delta = 0.0 if trust == "local" else 1e-6
    found = trial_size(effect=0.1, trust=trust, epsilon=1.0, delta=delta, power=0.9, bounds=(0.0, 7.0), mean=5.3)
    assert found.users == ARMS[trust]
