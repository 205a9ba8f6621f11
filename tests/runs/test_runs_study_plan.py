"""Plans: noise of the accountant, power of the trial, shares of the bank, and the same question backwards."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.make_plan_bank import row

import tacit
from tacit.cli import main
from tacit.errors import InvalidInput, NotSupported
from tacit.planning.arms import power_of
from tacit.release.arms import make_arms
from tacit.released.counts import CountShape
from tacit.runs import study_plan
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.study_plan import _powers, plan, signal, study_noise
from tacit.study import plan_study

ASKED = {"people": 4_000, "states": 6, "actions": 4, "horizon": 1, "trust": "central", "effect": 0.2, "delta": 1e-6}


def test_noise_arms_and_signal_are_those_of_the_parts():
    found = plan(**ASKED, epsilon=1.0)
    (one,) = found.rows
    assert (found.arm, found.learned_from) == (600, 2_800)
    claim = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
    config = RunConfig(
        environment="treatment-bandit", learner="bucb", episodes=2_800, seeds=(0,), mechanism="batched", **claim
    )
    parts = assemble(config)
    assert one.noise_std == pytest.approx(parts.privatizer.noise.std, rel=1e-3)
    # All batches, weighed best: information n'Σ⁻¹n about a counter; rewards half way between baseline and best.
    n = np.array([batch.users for batch in parts.learner.batches], dtype=float)
    together, N = n.sum() / np.sqrt(n @ np.linalg.inv(parts.learner.covariance) @ n), n.sum() / 24
    assert one.signal == pytest.approx(0.2 / np.sqrt(0.25 / N + together**2 / 2 / N**2), rel=1e-3)
    # The power of the trial is the exact lower bound, but for a few hundredths.
    arms = make_arms(users=(60, 60), trust="central", epsilon=1.0, delta=1e-6)
    said = _powers(np.array([0.5, -0.3]), 60, "central", 1.0, 1e-6, 0.05, (0.2, 0.8))
    assert said[0] == pytest.approx(power_of(arms.users, arms.noise, 0.05, (0.2, 0.6)), abs=0.06)
    assert said[1] < 0.01


@pytest.mark.parametrize(("trust", "tolerance"), [("central", 1e-12), ("shuffle", 0.02)])
def test_a_plan_counts_on_the_noise_of_a_study(trust, tolerance):
    sizes = {"states": tuple("abcd"), "actions": ("u", "v", "w"), "horizon": 3}
    claim = {"trust": trust, "epsilon": 1.0, "delta": 1e-6}
    learner = plan_study(**sizes, learner="bucb", **claim, stages=5, target=2_000, least=2_000).parts().learner
    shape = CountShape(horizon=3, num_states=4, num_actions=3, staged=True)
    noise = study_noise(shape, 10_000, trust, 1.0, 1e-6)
    reported = [batch.users for batch in learner.batches]
    assert len(reported) == 5
    found = noise.batch_covariance(reported, learner.following)
    np.testing.assert_allclose(found, learner.covariance, rtol=tolerance, atol=0.0)
    assert np.count_nonzero(found - np.diag(np.diag(found))) == 0


def test_more_of_anything_helps_and_the_question_can_be_asked_backwards():
    found = plan(**ASKED)
    chances = [one.success for one in found.rows]
    assert np.diff(chances).min() > -0.05  # neighbours of the bank change from row to row
    assert found.epsilon is not None
    assert plan(**ASKED, epsilon=found.epsilon).rows[0].success == pytest.approx(0.8, abs=0.08)
    more = plan(**{**ASKED, "people": 8_000})
    assert more.epsilon is not None
    assert more.epsilon < found.epsilon
    assert plan(**{**ASKED, "effect": 0.02}).epsilon is None
    assert "more people" in plan(**{**ASKED, "effect": 0.02}).line
    pooled = {
        "people": 1_000,
        "states": 3,
        "actions": 2,
        "horizon": 5,
        "noise_std": 20.0,
        "effect": 1.0,
        "baseline": 2.0,
    }
    assert signal(**pooled, stationary=True) > 2.0 * signal(**pooled, stationary=False)


def test_rows_of_the_bank_can_be_made_again():
    bank = json.loads(study_plan.BANK.read_text(encoding="utf-8"))
    first = row(0)
    assert first is not None
    assert {name: bank[name][0] for name in first} == first
    assert len(bank["signal"]) > 900 - 200


def test_what_a_plan_does_not_know_is_refused():
    for changes, error in (
        ({"trust": "local"}, NotSupported), ({"effect": 1.5}, InvalidInput), ({"people": 10}, InvalidInput),
        ({"people": 10**12}, InvalidInput), ({"states": 10**6, "actions": 10}, InvalidInput),
        ({"baseline": 0.9}, InvalidInput), ({"epsilon": ()}, InvalidInput),
    ):  # fmt: skip
        with pytest.raises(error):
            plan(**{**ASKED, **changes})


def test_the_command_prints_a_table_an_answer_and_a_figure(tmp_path, capsys):
    words = [f"--{name}={value}" for name, value in ASKED.items()]
    picture = tmp_path / "plan.png"
    assert main(["plan", *words, "--epsilon", "0.5", "--epsilon", "2", "--figure", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "600 in each arm" in shown
    assert "is found with probability 0.8" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["plan", *words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["epsilon"] == tacit.plan(**ASKED).epsilon
    assert len(content["rows"]) == 11
