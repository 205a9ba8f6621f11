"""Stage learners by name: what a result says about their batches, and what is refused before anything runs."""

from __future__ import annotations

import pytest

from papers.catalogue import EXPERIMENTS
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.assemble import assemble
from tacit.runs.comparison import load
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.report import render_report
from tacit.runs.runner import run

PRIVATE = {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-6}


def test_a_result_says_what_each_batch_promises_and_costs(tmp_path):
    result = run(
        environment="riverswim",
        learner="sdp-pe-plus",
        episodes=4_000,
        seeds=2,
        workers=1,
        out=tmp_path / "r",
        **PRIVATE,
    )
    said = result.to_json()
    assert [batch["users"] for batch in said["batches"]] == [batch.users for batch in result.batches]
    assert sum(batch.users * batch.batches for batch in result.batches) < 4_000  # the last stage reports nothing
    assert all(batch.epsilon <= 1.0 for batch in result.batches)
    assert max(batch.epsilon for batch in result.batches) == pytest.approx(result.certificate.epsilon)
    assert said["batch"] == max(batch.users for batch in result.batches)
    again = load(tmp_path / "r")
    assert again.batches == result.batches
    assert "messages per user" in render_report(result)
    assert run(environment="riverswim", learner="ucbvi", episodes=10, workers=1).batches == ()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"trust": "local", "epsilon": 1.0, "delta": 1e-6},
            NotSupported,
            "single batches: released under trust none, central or shuffle, not local",
        ),
        ({**PRIVATE, "batch": 100}, InvalidInput, "plans the sizes of its batches itself"),
        ({"trust": "shuffle", "epsilon": 1.0, "delta": 0.0}, NotSupported, "pure"),
        ({**PRIVATE, "mechanism": "laplace"}, InvalidInput, "mechanism of trust 'shuffle'.*binomial"),
        ({**PRIVATE, "constants": "theory"}, InvalidInput, "no theorem"),
        ({"epsilon": 1.0}, InvalidInput, "requires a trust model"),
        ({**PRIVATE, "episodes": 5}, InvalidInput, "run more episodes"),
    ],
)
def test_what_cannot_run_is_refused_in_words(options, error, words):
    settings = {"environment": "riverswim", "learner": "sdp-pe-plus", "episodes": 1_000, "seeds": as_seeds(1)}
    with pytest.raises(error, match=words):
        assemble(RunConfig(**(settings | options)))


def test_a_horizon_of_one_is_a_bandit():
    for learner in ("sdp-pe", "sdp-pe-plus", "bucb"):
        result = run(environment="riverswim:states=2,horizon=1", learner=learner, episodes=600, workers=1)
        assert result.regret.shape[0] == 1


def test_the_experiments_of_the_shuffle_model_are_listed():
    fig4 = EXPERIMENTS["bai2025secure/fig4"].runs
    labels = [run.label for run in fig4("paper")]
    assert len(labels) == 62  # 42, sixteen of DP-UCBVI, four of UCBVI with the noise of another paper
    assert all(len(run.config.seeds) == 20 for run in fig4("paper"))
