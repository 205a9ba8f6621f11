"""Runs that begin with a log: its counts are batch 0, and its cost is in the certificate."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.bench_warm_start import released_log

import tacit
from tacit.accounting.composition import epsilon_of
from tacit.accounting.ledger import Ledger
from tacit.documents import vouched
from tacit.errors import InvalidInput, NotSupported
from tacit.randomness import SimulationNoise
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.warm_start import WarmStart
from tacit.study.learn_files import save_learned
from tacit.study.learning import learn

WORLD = "riverswim:states=4,horizon=6"
ASKED = {"environment": WORLD, "learner": "bucb", "trust": "central", "epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def start():
    return released_log(WORLD, 5_000, seed=1)


def config(start, **changes):
    return RunConfig(**{**ASKED, "episodes": 2_000, "seeds": (0, 1), "start": start, **changes})


def test_log_and_run_compose_to_the_claim_and_not_to_less(start):
    """The accountant of both events: the claim's epsilon, within a millionth; with more noise it would be smaller."""
    parts = assemble(config(start))
    events = parts.privatizer.events()
    inner = parts.privatizer.inner
    assert set(start.events) | set(inner.events()) == set(events)
    assert epsilon_of(start.events, 1e-6) == pytest.approx(0.5, rel=1e-3)
    assert 0.999 < epsilon_of(events, 1e-6) <= 1.0
    assert parts.certificate.holds
    assert parts.certificate.epsilon == pytest.approx(epsilon_of(events, 1e-6), rel=1e-6)
    assert {family.name for family in parts.certificate.families} >= {"transitions", "transitions of the log"}
    alone = assemble(config(None)).privatizer
    assert inner.noise.std > alone.noise.std
    assert parts.claim.unit.reports == 2
    # What a Gaussian of the log leaves: μ² = μ_total² - μ_log².
    assert (alone.noise.std / inner.noise.std) ** 2 == pytest.approx(1 - (0.12 / 0.2367) ** 2, abs=0.05)


def test_the_counts_of_the_log_are_batch_0(start):
    learner = assemble(config(start)).learner
    belief = learner.begin()
    assert belief.users.tolist() == [5_000]
    assert np.abs(belief.visits[0] - start.counts.visits).mean() < 5 * start.counts.variance[1] ** 0.5
    assert learner.covariance[0, 0] == start.counts.variance[2]
    assert (learner.covariance[0, 1:] == 0).all()
    _, plan = learner.plan(belief, np.random.default_rng(0))
    assert len(plan.groups) > 0  # mixtures from the first batch on, and nobody plays uniformly


def test_a_log_saves_regret(start):
    """Of 2,000 people with fixed seeds: 275 with the log and 785 without."""
    options = {**ASKED, "episodes": 2_000, "seeds": 2, "workers": 1}
    warm, cold = tacit.run(**options, start=start), tacit.run(**options)
    assert warm.regret[:, -1].mean() < cold.regret[:, -1].mean() / 2
    again = RunConfig.from_dict(json.loads(json.dumps(warm.config.to_dict())))
    assert again == warm.config
    assert "start=" in warm.config.call()
    assert "start" not in cold.config.to_dict()


def test_a_file_of_learn_starts_a_run_and_a_changed_one_does_not(start, tmp_path):
    mdp = tacit.make_environment(WORLD)
    mapping = {
        "states": [{"column": "s", "categories": list(mdp.state_names)}],
        "actions": {"column": "a", "categories": list(mdp.action_names)},
        "reward": {"low": 0, "high": 1},
        "horizon": 6,
    }
    rows = {
        "person": np.repeat(np.arange(30), 6), "episode": np.zeros(180, int), "step": np.tile(np.arange(6), 30),
        "s": np.full(180, mdp.state_names[0]), "a": np.full(180, mdp.action_names[1]), "reward": np.zeros(180),
    }  # fmt: skip
    noise = SimulationNoise(np.random.default_rng(0))
    learned = learn(rows, mapping, epsilon=0.5, delta=1e-6, behaviour="known", reports_per_person=2, noise=noise)
    path = save_learned(learned, tmp_path / "out")
    found = WarmStart.of(path)
    assert found == WarmStart.of(tmp_path / "out") == WarmStart.of(found.to_dict())
    assert (found.reports, found.people) == (2, 30)
    assert found.events == learned.certificate.events
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "request": {**content["request"], "epsilon": 0.1}}))
    with pytest.raises(InvalidInput, match="as it was written"):
        WarmStart.of(path)
    path.write_text(json.dumps(vouched({**content, "format": "other"})))
    with pytest.raises(InvalidInput, match=r"learned\.json of tacit learn"):
        WarmStart.of(path)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"trust": "shuffle"}, NotSupported, "needs trust 'central'"),
        ({"learner": "psrl"}, NotSupported, "psrl cannot start with a log"),
        ({"constants": "valid"}, NotSupported, "practical rule"),
        ({"epsilon": 0.4}, InvalidInput, "what the log has cost"),
        ({"environment": "riverswim:states=5,horizon=6"}, InvalidInput, "states, actions and horizon"),
    ],
)
def test_what_does_not_fit_is_refused(start, changes, error, match):
    with pytest.raises(error, match=match):
        assemble(config(start, **changes))


def test_rewards_on_another_scale_are_refused_and_a_ledger_is_charged_for_both(start, tmp_path):
    with pytest.raises(InvalidInput, match=r"rewards in \[0, 1\]"):
        assemble(config(replace(start, rewards=(0.0, 2.0))))
    parts = assemble(config(start))
    ledger = Ledger.open(tmp_path / "ledger.db", parts.claim)
    ledger.commit(
        ledger.charge(
            users=range(5),
            claim=parts.claim,
            events=parts.privatizer.events(),
            recipient="x",
            what="x",
            noise="simulation",
        )
    )
    assert 0.999 < ledger.spent(0)[0] <= 1.0
