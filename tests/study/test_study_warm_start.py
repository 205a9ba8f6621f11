"""Studies that begin with a log: its counts are stage 0, and its cost is in the certificate."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.bench_warm_start import released_log
from typer.testing import CliRunner

import tacit
from tacit.accounting.composition import epsilon_of
from tacit.cli.app import app
from tacit.documents import vouched
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.warm_start import WarmStart
from tacit.study.contract import certificate_under, parts_of
from tacit.study.design import StudyDesign, plan_study
from tacit.study.learn_files import save_learned
from tacit.study.study import Study
from tacit.study.verify import verify

WORLD = "riverswim:states=4,horizon=6"


@pytest.fixture(scope="module")
def start():
    return released_log(WORLD, 5_000, seed=1)


def planned(log, **changes):
    asked = {"states": log.states, "actions": log.actions, "horizon": 6, "trust": "central", "epsilon": 1.0}
    asked |= {"delta": 1e-6, "stages": 3, "target": 400, "start": log}
    return plan_study(**{**asked, **changes})


@pytest.mark.parametrize("reports", [1, 2])
def test_log_and_study_compose_to_the_claim_and_not_to_less(start, reports):
    """The accountant of both events: the claim's epsilon, within a thousandth; what the stages cost is less."""
    design = planned(start, reports_per_person=reports)
    parts = design.parts()
    both = (*start.events, *parts.events)
    assert epsilon_of(start.events, 1e-6) == pytest.approx(0.5, rel=1e-3)
    assert 0.999 < epsilon_of(both, 1e-6) <= 1.0
    found = parts.certificate
    assert found.holds
    assert found.epsilon == pytest.approx(epsilon_of(both, 1e-6), rel=1e-6)
    assert (found.claim.epsilon, found.claim.unit.reports) == (1.0, reports + 1)
    # What reports cost, and what the collector's ledger counts, is the part that the log leaves.
    assert parts.claim.epsilon == design.epsilon < 0.85
    assert parts.claim.unit.reports == reports
    assert 0.999 * design.epsilon < epsilon_of(parts.events, 1e-6) <= design.epsilon
    assert {party.parties: party.left for party in found.coalitions}["learner",]["central"][0] > 0.999
    plain = planned(start, start=None, learner="bucb", reports_per_person=reports)
    assert parts.channels[0].std > plain.parts().channels[0].std
    assert not {"start", "epsilon_with_log"} & set(plain.to_dict())


def test_a_study_begins_as_a_run_with_the_same_log(start):
    """Belief and model, bit for bit; and the first plan for as many people."""
    run = assemble(
        RunConfig(
            environment=WORLD, learner="bucb", trust="central", epsilon=1.0, delta=1e-6, episodes=2_000, seeds=(0,),
            start=start,
        )
    ).learner  # fmt: skip
    study = planned(start, target=run.stages[0]).parts().learner
    for one, other in zip(run.begin(), study.begin(), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(run.model(run.begin())[0].n, study.model(study.begin())[0].n)
    plans = [learner.plan(learner.begin(), np.random.default_rng(7))[1] for learner in (run, study)]
    arms = [[(policy.actions.tolist(), count) for policy, count in plan.groups] for plan in plans]
    assert len(arms[0]) > 1
    assert arms[0] == arms[1]
    cold = planned(start, start=None, learner="bucb").parts().learner
    assert len(cold.begin().users) == 0


def test_a_design_holds_what_its_verification_needs(start, tmp_path):
    design = planned(start)
    plain = json.loads(json.dumps(design.to_dict()))
    assert StudyDesign.from_dict(plain) == design
    assert start.line in design.declarations["start"]
    assert start.line in design.parts().certificate.terms.public["log"]
    Study.new(tmp_path / "study", design, seed=1).plan()
    assert verify(tmp_path / "study").true
    # A design that gives its stages the whole claim, or another log the same noise, does not keep it.
    parts_of(StudyDesign.from_dict(plain))
    free = [dict(channel) for channel in planned(start, start=None, learner="bucb").channels]
    for changes in ({"epsilon": 1.0, "channels": free}, {"start": {**plain["start"], "epsilon": 0.9}}):
        with pytest.raises(InvalidInput, match="keep its claim"):
            parts_of(StudyDesign.from_dict({**plain, **changes}))
    with pytest.raises(InvalidInput, match="come together"):
        StudyDesign.from_dict({name: value for name, value in plain.items() if name != "start"})


def test_what_begins_with_a_simulated_log_is_a_simulation(start):
    """The study's own noise is secure or not; the log's came from a seed, and its events are in the certificate."""
    assert start.noise == "simulation"
    for log, noise in ((start, "simulation"), (replace(start, noise="secure"), "secure")):
        found = planned(log).parts().certificate
        assert (found.terms.noise, found.release) == (noise, noise == "secure")
        assert ("SIMULATION" in found.describe()) == (noise == "simulation")
        assert certificate_under(found, "secure").release == (noise == "secure")
        assert not certificate_under(found, "simulation").release
        assert found.terms.sizes["episodes"] == 3 * 400 + log.people * log.reports


FEATURES = {"features": {"age": [18, 90]}, "actions": {"column": "a", "categories": ["x", "y"]},
            "reward": {"column": "r", "low": 0, "high": 1},
            "columns": {"person": "who", "propensity": "p"}}  # fmt: skip


def test_a_log_over_features_starts_nothing(tmp_path):
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps(FEATURES))
    rows = [f"{i},{18 + i},{'xy'[i % 2]},{i % 2},0.5" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["who,age,a,r,p", *rows]))
    asked = ["learn", str(tmp_path / "log.csv"), "--mapping", str(mapping), "--behaviour", "known"]
    found = CliRunner().invoke(app, [*asked, "--epsilon", "1", "--delta", "1e-6", "--out", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    with pytest.raises(InvalidInput, match="a log of states, got 'a log over features'"):
        WarmStart.of(tmp_path / "out")


@pytest.mark.parametrize(
    "edit",
    [{"policy": 3}, {"policy": {}}, {"request": 3}, {"payloads": 3}, {"payloads": ["?"]}, {"certificate": {}},
     {"certificate": {"terms": {"noise": "none"}}}, {"policy": {"states": 1, "actions": ["a"], "horizon": 1}}],
)  # fmt: skip
def test_a_log_that_was_edited_by_hand_is_refused_in_words(edit, tmp_path):
    place = learned_from_forty(tmp_path)
    plain = {name: value for name, value in json.loads(place.read_text()).items() if name != "digest"}
    place.write_text(json.dumps(vouched({**plain, **edit})))
    with pytest.raises(InvalidInput, match="must"):
        WarmStart.of(place)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"trust": "shuffle"}, NotSupported, "needs trust 'central'"),
        ({"learner": "ucbvi"}, NotSupported, "ucbvi cannot start with a log"),
        ({"constants": "valid"}, NotSupported, "practical rule"),
        ({"baseline": "uniform", "loss_budget": 0.1}, NotSupported, "practical rule"),
        ({"sees": (0, 0, 1, 1)}, InvalidInput, "policies over states"),
        ({"epsilon": 0.4}, InvalidInput, "what the log has cost"),
        ({"horizon": 5}, InvalidInput, "states, actions and horizon"),
        ({"rewards": (0.0, 2.0)}, InvalidInput, r"rewards in \[0, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused(start, changes, error, match):
    with pytest.raises(error, match=match):
        planned(start, **changes)


def test_rewards_have_the_bounds_of_the_log(start):
    wide = replace(start, rewards=(0.0, 2.0))
    assert planned(start, start=wide, rewards=(0.0, 2.0)).rewards == (0.0, 2.0)


def learned_from_forty(tmp_path):
    mapping = {
        "states": [{"column": "s", "categories": ["well", "sick"]}],
        "actions": {"column": "a", "categories": ["wait", "pill"]},
        "reward": {"low": 0, "high": 10},
        "horizon": 1,
        "columns": {"person": "who", "episode": None, "step": None},
    }
    i = np.arange(40)
    log = {"who": i, "s": np.array(["well", "sick"])[i % 2], "a": np.array(["wait", "pill"])[i // 2 % 2],
           "reward": 10.0 * (i % 2)}  # fmt: skip
    made = tacit.learn(log, mapping, epsilon=0.5, delta=1e-6, behaviour="known")
    return save_learned(made, tmp_path / "out")


def test_tacit_study_new_starts_with_a_file_of_tacit_learn(tmp_path):
    place = learned_from_forty(tmp_path)
    options = "--actions wait,pill --horizon 1 --rewards 0,10 --trust central --epsilon 1 --delta 1e-6 --stages 2"
    asked = ["study", "new", str(tmp_path / "study"), "--start", str(place), "--states", "well,sick", "--target", "50"]
    found = CliRunner().invoke(app, [*asked, *options.split()])
    assert found.exit_code == 0, found.output
    assert "a log of 40 people, epsilon 0.5" in found.output
    assert Study(tmp_path / "study").design.epsilon < 1.0 == Study(tmp_path / "study").design.epsilon_with_log
