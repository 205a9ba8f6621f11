"""Worlds seen through public features: what is counted, how regret is measured, who refuses; and the taxi."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.gym import from_gymnasium
from tacit.environments.registry import make
from tacit.environments.state_features import seen_through
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.learners.table import LEARNERS
from tacit.planning.dynamic import value_of
from tacit.policies import DeterministicPolicy, uniform_policy
from tacit.protocol import Plan
from tacit.released.batches import BatchQuery
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.storage import RunDirectory
from tacit.simulation.features import SeenSampler

RIVER = "riverswim:states=3,horizon=3"
HALVES = (0, 0, 1)
PURE = {"trust": "local", "epsilon": 1.0, "delta": 0.0}
CENTRAL = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}


def config(learner="bucb", **given):
    values = {"environment": RIVER, "episodes": 300, "seeds": (0,), "sees": HALVES, "checkpoints": 2}
    return RunConfig(learner=learner, **{**values, **given})


def test_a_policy_over_features_is_lifted_state_by_state():
    seen = seen_through(make("treatment"), "side-effects")
    policy = DeterministicPolicy(np.arange(32).reshape(8, 4) % 3)
    lifted = seen.lift(policy)
    for s, feature in enumerate(seen.features):
        assert lifted.actions[:, s].tolist() == policy.actions[:, feature].tolist()
    uniform = seen.lift(uniform_policy(8, 4, 3))
    assert uniform.probabilities(3).shape == (8, 13, 3)
    with pytest.raises(UnknownName, match="side-effects"):
        seen_through(make("treatment"), "side-effect")
    with pytest.raises(InvalidInput, match="without gaps"):
        seen_through(make(RIVER), [0, 2, 2])
    with pytest.raises(InvalidInput, match="3 states"):
        seen_through(make(RIVER), [0, 1])


@pytest.mark.parametrize("rounded", [False, True])
def test_what_is_counted_are_features_of_the_same_people(rounded):
    seen = seen_through(make(RIVER), HALVES).for_run("shuffle" if rounded else "central")
    policy = DeterministicPolicy(np.array([[1, 0], [1, 1], [0, 1]]))
    plan = Plan(policy=policy, query=BatchQuery(layer=None, failure_prob=0.05), users=200)
    counts = SeenSampler(seen, alone=False, paths=False).draw(plan, 200, np.random.default_rng(3))
    people = roll_out(prepare_world(seen.mdp), seen.lift(policy), 200, np.random.default_rng(3))
    states = count_trajectories(people, 3, 2)
    assert counts.visits.sum() == 600
    # The first two states are one feature: their counters add up.
    assert np.array_equal(counts.visits[:, 0], states.visits[:, :2].sum(axis=1))
    assert np.array_equal(counts.transitions[:, 0, :, 0], states.transitions[:, :2, :, :2].sum(axis=(1, 3)))
    assert np.array_equal(counts.transitions[:, 1, :, 0], states.transitions[:, 2, :, :2].sum(axis=2))
    assert counts.starts.tolist() == states.visits[0].sum(axis=1).tolist()
    assert counts.binary or not rounded
    if rounded:
        assert np.array_equal(counts.rewards, np.round(counts.rewards))


@pytest.mark.parametrize("learner", ["bucb", pytest.param("ucbvi:time_homogeneous=true", marks=pytest.mark.slow)])
def test_regret_is_that_of_the_lifted_policies(learner):
    found = tacit.run(**{**config(learner).to_dict(), "seeds": 1})
    river = make(RIVER)
    best, _ = assemble(config(learner)).values
    seen = seen_through(river, HALVES)
    value = value_of(river.stage_P, river.stage_r, seen.lift(found.policies[0]).probabilities(2))
    # Whatever sees the first two states as one cannot do better than the best of its own policies.
    tables = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T.reshape(-1, 3, 2)
    values = [
        river.rho @ value_of(river.stage_P, river.stage_r, seen.lift(DeterministicPolicy(t)).probabilities(2))[0]
        for t in tables
    ]
    assert river.rho @ value[0] <= max(values) + 1e-12
    assert found.regret[0, -1] >= 300 * (best - max(values)) - 1e-9
    assert found.regret[0, -1] <= 300 * (best - min(values)) + 1e-9


def test_the_uniform_policy_has_its_regret_through_any_features():
    found = tacit.run(**{**config("uniform").to_dict(), "seeds": 1})
    assert found.relative_regret == pytest.approx(1.0)
    with pytest.raises(NotSupported, match="depends on the states"):
        assemble(config("optimal"))


@pytest.mark.slow
def test_whoever_sees_the_states_learns_as_without_features():
    runs = [tacit.run(**{**config("ucbvi", sees=s).to_dict(), "seeds": 2}) for s in (None, (0, 1, 2))]
    assert runs[0].regret.tolist() == runs[1].regret.tolist()


@pytest.mark.parametrize("private", [pytest.param(PURE, marks=pytest.mark.slow), {**PURE, "batch": 50}])
def test_devices_report_features(private):
    learner = "ldp-obi"
    parts = assemble(config(learner, **private))
    assert parts.privatizer.shape.num_states == 2
    assert parts.certificate.epsilon <= 1.0 + 1e-9
    found = tacit.run(**{**config(learner, **private).to_dict(), "seeds": 1})
    assert np.isfinite(found.regret).all()
    assert found.policies[0].actions.shape == (3, 2)


def test_features_and_support_go_together():
    parts = assemble(config(support="declared", **CENTRAL))
    told = make(RIVER).support.seen_through(HALVES)
    assert parts.privatizer.shape.support == told
    assert told.num_states == 2
    # From the first states the river leads to the last; from there back.
    assert told.moves[0].any(axis=1).tolist() == [[True, True], [True, True]]


def test_learners_that_do_not_count_refuse():
    names = {name for name, row in LEARNERS.items() if row.losses is not None or name.startswith("dp-pg")}
    assert names
    for name in names:
        with pytest.raises((NotSupported, InvalidInput)):
            assemble(config(name, **CENTRAL))


def test_a_run_says_what_its_policy_sees_and_is_read_again():
    named = config(environment="treatment", sees="side-effects", **CENTRAL)
    assert "--sees side-effects" in named.command()
    assert RunConfig.from_dict(named.to_dict()) == named
    assert named != config(environment="treatment", sees=None, **CENTRAL)
    assert "sees" not in config(sees=None).to_dict()
    assert config().command().startswith("tacit.run(")
    assert RunConfig.from_dict(config().to_dict()) == config()
    assert make(RIVER).fingerprint() != assemble(config()).mdp.fingerprint()
    with pytest.raises(UnknownName, match="features of riverswim"):
        assemble(config(sees="depth"))
    with pytest.raises(InvalidInput, match="feature"):
        config(sees=(0, -1, 1))


def test_a_world_that_was_handed_over_is_kept_with_its_declarations(tmp_path):
    world = make("treatment:horizon=2")
    tacit.run(environment=world, learner="bucb", episodes=50, seeds=1, sees="side-effects", support="declared",
              out=tmp_path / "run")  # fmt: skip
    kept = RunDirectory(tmp_path / "run").model()
    assert kept == world


def test_taxi_is_gymnasiums():
    taxi, table = make("taxi:horizon=3"), from_gymnasium("Taxi-v4", horizon=3)
    assert np.array_equal(taxi.stage_P, table.stage_P)
    assert np.array_equal(taxi.stage_r, table.stage_r)
    goal = np.array(taxi.features["goal"])
    # (row 0, column 0), passenger waiting at place 0 or in the taxi on the way there: other features
    assert goal[1] != goal[4 * 4 + 0]
    # where passengers wait decides, where they want to go does not
    assert goal[1] == goal[2] == goal[3]
    assert len({goal[s] for s in range(500) if s // 4 % 5 == s % 4}) == 1


def test_what_holds_over_states_only_is_refused():
    with pytest.raises(NotSupported, match="valid bands"):
        assemble(config(constants="valid", **CENTRAL))
    with pytest.raises(NotSupported, match="loss budget"):
        assemble(config(baseline="uniform", loss_budget=0.1, **CENTRAL))
    with pytest.raises(NotSupported, match="start from it"):
        assemble(config("bucb:start=baseline", baseline="uniform", **CENTRAL))
    assert assemble(config(baseline="uniform", **CENTRAL)).baseline is not None
