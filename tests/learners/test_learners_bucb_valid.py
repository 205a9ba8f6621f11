"""BUCB in valid bands: intervals are kept with results, nobody else takes the constants, parts can be left out."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from papers.thinning import _intervals
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.bucb import BUCB
from tacit.planning.valid_bands import cautious_plan, widen_nothing
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

WORLD = "random-mdp:states=3,actions=2,horizon=3"
PRIVATE = {"trust": "shuffle", "epsilon": 5.0, "delta": 1e-6}


def config(**options) -> RunConfig:
    return RunConfig(environment=WORLD, episodes=2_000, **{"learner": "bucb", "seeds": (0,), **PRIVATE, **options})


@pytest.mark.parametrize("learner", ["bucb", "bucb:share_across_steps=true"])
def test_the_interval_contains_the_best_value_and_is_kept(learner, tmp_path):
    result = tacit.run(
        environment=WORLD, learner=learner, episodes=2_000, seeds=2, constants="valid", out=tmp_path / "run", **PRIVATE
    )
    best = result.resolved.optimal_value
    assert len(result.intervals) == 2
    assert all(found.low <= best <= found.high and found.beta == 0.05 for found in result.intervals)
    assert result.resolved.constants == "valid"
    back = tacit.load(tmp_path / "run")
    assert back.intervals == result.intervals
    assert back.to_json()["intervals"][0]["low"] == result.intervals[0].low
    assert _intervals(back)["interval"]["missed"] == 0


def test_the_practical_rule_ends_with_an_interval_too_and_others_do_not():
    parts = assemble(config())
    run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=2_000, seed=0)
    assert run.interval is not None
    assert run.interval.low <= parts.values[0] <= run.interval.high
    other = assemble(config(learner="ucbvi", trust="central"))
    assert simulate(other.mdp, other.learner, other.privatizer, episodes=400, seed=0).interval is None


def test_who_has_no_valid_bands_says_so():
    with pytest.raises(InvalidInput, match="constants 'valid' exist for bucb, lin-ucb, got ucbvi"):
        assemble(config(learner="ucbvi", trust="central", constants="valid"))
    with pytest.raises(NotSupported, match="no declared support"):
        assemble(RunConfig(environment="riverswim", learner="bucb", episodes=2_000, seeds=(0,), constants="valid",
                           support="declared", **PRIVATE))  # fmt: skip


def test_caution_takes_the_best_lower_bound_and_leaves_ties_to_the_other_policy():
    bands = widen_nothing(2, 2, 2)
    otherwise = np.array([[1, 0], [1, 1]])
    assert (cautious_plan(bands, otherwise) == otherwise).all()
    bands.q_lower[0, 0, 0] = 0.5
    assert cautious_plan(bands, otherwise).tolist() == [[0, 0], [1, 1]]


def test_a_run_that_ends_early_exploits_by_the_practical_rule():
    """Studies of version 0.8.0 did, and are replayed; only the planned last batch is cautious in the bands."""
    parts = assemble(config(constants="valid"))
    learner = parts.learner
    belief = simulate(parts.mdp, learner, parts.privatizer, episodes=2_000, seed=0).belief
    belief = belief._replace(q_lower=belief.q_lower + 9.0 * np.eye(2)[1])  # as if action 1 were proved to be better
    model, _ = learner.model(belief)
    plain = BUCB.exploiter(learner, belief, model, np.random.default_rng(5)).actions
    _, plan = learner.plan(belief, np.random.default_rng(5))
    assert (plan.policy.actions == 1).all()
    assert np.array_equal(learner.last(belief, plan, np.random.default_rng(5)).policy.actions, plain)
    assert (plain == 0).any()


@pytest.mark.parametrize("rule", ["practical", "valid"])
def test_a_stage_that_is_planned_anew_leaves_no_trace(rule):
    """A study may give a stage up and plan it again: what was followed stays beside what was released."""
    learner = assemble(config(constants=rule)).learner
    belief, _ = learner.plan(learner.begin(), np.random.default_rng(0))
    belief, _ = learner.plan(belief, np.random.default_rng(1))
    assert len(belief.policies) == len(belief.shares) == 1 + len(belief.users)
