"""`auto`: what the rule chooses, that the choice runs, and that everything names the learner that ran."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.environments.registry import ENVIRONMENTS, make_environment
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.learners.auto import LARGE, Situation, choose_learner
from tacit.learners.table import learner_row
from tacit.protocol import Totals
from tacit.released.batches import BatchQuery
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig, parse_learner
from tacit.runs.files import read_comparison
from tacit.study.design import StudyDesign, plan_study

RIVER = {"environment": "riverswim", "episodes": 2000, "seeds": (0,)}
CLAIM = {"epsilon": 1.0, "delta": 1e-6}
STUDY = {"states": 3, "actions": 2, "horizon": 3, "stages": 4, "target": 500, **CLAIM}


def stepwise() -> TabularMDP:
    """A world of which nobody declares that it is stationary."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(4, 3, 2))
    return TabularMDP(P=P, r=rng.random((4, 3, 2)), rho=[1.0, 0.0, 0.0], horizon=4)


@pytest.mark.parametrize(
    ("trust", "pooled", "staged"),
    [
        ("none", "ucbvi:time_homogeneous=true", "ucbvi"),
        ("central", "bucb:share_across_steps=true", "bucb"),
        ("shuffle", "bucb:share_across_steps=true", "bucb"),
        ("local", "ldp-obi:time_homogeneous=true", "ldp-obi"),
    ],
)
def test_the_declaration_decides_about_pooling(trust: str, pooled: str, staged: str) -> None:
    claim = {} if trust == "none" else {**CLAIM, "epsilon": 8.0}
    river = RunConfig(**RIVER, trust=trust, **claim)
    assert river.learner == pooled
    assert "is declared stationary" in str(river.because)
    other = RunConfig(environment=stepwise(), episodes=2000, seeds=(0,), trust=trust, **claim)
    assert other.learner == staged
    assert "not declared stationary" in str(other.because)


@pytest.mark.parametrize(
    "options",
    [
        {"trust": "central", **CLAIM, "delta": 0.0},
        {"trust": "central", **CLAIM, "constants": "theory"},
        {"trust": "central", **CLAIM, "mechanism": "kary-tree"},
        {"trust": "central", **CLAIM, "mechanism": "batched"},
        {"trust": "central", **CLAIM, "reports_per_person": 2},
        {"trust": "central", **CLAIM, "episodes": 39},
        {"trust": "central", **CLAIM, "episodes": 40},
        {"trust": "shuffle", **CLAIM, "batch": 500},
        {"trust": "shuffle", **CLAIM, "constants": "theory"},
        {"trust": "shuffle", **CLAIM, "honest_fraction": 0.5},
        {"trust": "local", **CLAIM, "delta": 0.0, "constants": "theory"},
        {"trust": "local", **CLAIM, "mechanism": "rr"},
        {"trust": "none", "constants": "theory", "batch": 10},
        {"trust": "none", "episodes": 1},
    ],
)  # fmt: skip
def test_whatever_is_chosen_can_be_built_and_keeps_the_claim(options: dict[str, object]) -> None:
    parts = assemble(RunConfig(**{**RIVER, **options}))
    assert parts.config.because
    assert options["trust"] == "none" or parts.certificate.holds


def test_below_epsilon_5_people_of_local_trust_are_asked_for_one_bit() -> None:
    assert RunConfig(**RIVER, trust="local", epsilon=4.9, delta=0.0).learner == "ldp-rts"
    for other in ({"epsilon": 5.0}, {"constants": "practical"}, {"mechanism": "rr"}, {"episodes": 999}):
        config = RunConfig(**{**RIVER, "trust": "local", "epsilon": 1.0, "delta": 0.0, **other})
        assert config.learner == "ldp-obi:time_homogeneous=true"
    parts = assemble(RunConfig(**RIVER, trust="local", epsilon=1.0, delta=0.0))
    assert parts.certificate.holds


def test_printed_calibrations_count_running_totals() -> None:
    config = RunConfig(**RIVER, trust="central", epsilon=1.0, delta=0.0, calibration="paper")
    assert config.learner == "ucbvi"
    assert assemble(config).privatizer.calibration == "paper"


def test_gradients_and_references_are_never_chosen() -> None:
    sizes = {"horizon": 50, "states": 300, "actions": 10}
    for trust in ("none", "central", "shuffle", "local"):
        for epsilon in (0.01, 1.0, 20.0):
            for delta in (0.0, 1e-6):
                for episodes in (1, 1000, 10**7):
                    here = Situation(
                        trust=trust, epsilon=epsilon, delta=delta, episodes=episodes, stationary=True, **sizes
                    )
                    name, options = parse_learner(choose_learner(here).learner)
                    row = learner_row(name)
                    row.check(name, options)
                    assert row.asks in (Totals, BatchQuery, ReturnQuery)
                    assert not row.reference


def test_large_models_are_planned_rarely() -> None:
    small = Situation(trust="local", episodes=10**4, horizon=1, states=1, actions=int(LARGE) // 10**4, stationary=False)
    assert choose_learner(small).learner == "ldp-obi"
    assert choose_learner(replace(small, episodes=10**4 + 1)).learner == "ldp-obi:replan=geometric"


def test_every_environment_with_counts_declares_itself_and_tells_the_truth() -> None:
    for name in ENVIRONMENTS:
        world = make_environment(name)
        if isinstance(world, TabularMDP):
            alike = bool(np.all(world.P == world.P[:1]) and np.all(world.r == world.r[:1]))
            assert not world.stationary or alike, name
    assert make_environment("riverswim").stationary
    assert not stepwise().stationary


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"environment": "layered"}, "uc-o-reps"),
        ({"environment": "riverswim", "adversary": "iid"}, "uob-lbps"),
        ({"environment": "dose-bandit"}, "dp-pg:policy=gaussian"),
        ({"environment": "riverswim", "learner": "auto:share_across_steps=true"}, "auto takes no options"),
    ],
)
def test_what_no_rule_covers_is_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        RunConfig(**{"episodes": 100, "seeds": (0,), **options})


def test_a_run_names_the_learner_that_ran(tmp_path: Path) -> None:
    asked = {**RIVER, "episodes": 200, "trust": "central", **CLAIM}
    result = tacit.run(**asked, out=tmp_path / "run", workers=1)
    named = tacit.run(**asked, learner="bucb:share_across_steps=true", workers=1)
    assert np.array_equal(result.regret, named.regret)
    assert result.summary().startswith(
        "auto: bucb:share_across_steps=true, because batches carry least noise under central"
    )
    assert named.config.because is None
    assert "auto" not in named.summary()
    assert "--learner bucb:share_across_steps=true" in result.config.command()
    assert "auto" not in result.config.command()
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["config"]["learner"] == "bucb:pooled=weighed"  # as 0.8 spells it
    assert stored["config"]["because"] == result.config.because
    assert RunConfig.from_dict(result.config.to_dict()) == result.config == named.config
    # The same run: read back
    again = tacit.run(**asked, learner="bucb:share_across_steps=true", out=tmp_path / "run", workers=1)
    assert again.config.because == result.config.because
    assert result.to_json()["because"] == result.config.because


def test_a_comparison_may_leave_its_learner_out(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    shared = '[defaults]\nenvironment = "riverswim"\nepisodes = 100\nseeds = 1\n'
    file.write_text(shared + '[[run]]\nname = "chosen"\n[[run]]\nlearner = "uniform"\n')
    _, runs = read_comparison(file)
    assert [run.config.learner for run in runs] == ["ucbvi:time_homogeneous=true", "uniform"]


@pytest.mark.parametrize(
    ("trust", "stationary", "learner"),
    [
        ("central", True, "bucb:share_across_steps=true"),
        ("shuffle", False, "bucb"),
        ("local", True, "ldp-rts"),
    ],
)
def test_a_study_names_the_learner_that_learns(trust: str, stationary: bool, learner: str) -> None:
    design = plan_study(trust=trust, stationary=stationary, **STUDY)
    assert design.learner == learner
    assert str(design.choice).startswith(f"auto: {learner}, because ")
    assert StudyDesign.from_dict(json.loads(json.dumps(design.to_dict()))) == design
    named = plan_study(trust=trust, stationary=stationary, learner=learner, **STUDY)
    assert named.choice is None
    assert named.channels == design.channels


def test_a_local_study_chooses_as_a_run_does() -> None:
    for change in ({}, {"epsilon": 8.0}, {"target": 200}, {"mechanism": "subset"}):
        design = plan_study(trust="local", stationary=True, **{**STUDY, **change})
        batch = {"batch": 1} if change.get("mechanism") else {}
        run = RunConfig(
            environment="riverswim", episodes=design.stages * design.target, seeds=(0,), trust="local",
            epsilon=design.epsilon, delta=design.delta, mechanism=design.mechanism, **batch,
        )  # fmt: skip
        assert design.learner == run.learner


def test_a_study_refuses_other_declarations() -> None:
    with pytest.raises(InvalidInput, match="auto takes no options"):
        plan_study(trust="central", learner="auto:share_across_steps=true", **STUDY)
    with pytest.raises(InvalidInput, match="stationary must be True or False"):
        plan_study(trust="central", stationary="yes", **STUDY)
