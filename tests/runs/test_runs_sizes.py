"""Defaults by size: small runs are what they were, large ones say what was chosen, and whoever chooses is obeyed."""

from dataclasses import replace

import pytest

import tacit
from tacit.learners.table import LEARNERS
from tacit.protocol import Totals
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.estimate import apply_size_defaults, estimate, is_large
from tacit.runs.files import read_comparison

LARGE = {"environment": "random-mdp:states=25,actions=4,horizon=4", "episodes": 1_000_001, "seeds": (0,)}
TRUSTS = {
    "none": {},
    "central": {"trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "local": {"trust": "local", "epsilon": 1.0, "delta": 0.0},
    "shuffle": {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-6},
}
COUNTING = [name for name in LEARNERS if LEARNERS[name].asks is Totals and not LEARNERS[name].reference]


@pytest.fixture
def tiny_is_large(monkeypatch):
    monkeypatch.setattr("tacit.runs.estimate.LARGE", 1e4)
    monkeypatch.setattr("tacit.runs.estimate.CELLS", 10)


def test_the_boundary_is_made_of_public_numbers_alone():
    world = {"horizon": 4, "states": 25, "actions": 4}  # exactly 10,000 cells
    assert [is_large(**world, episodes=K) for K in (1_000_000, 1_000_001)] == [False, True]
    assert not is_large(**world | {"actions": 3}, episodes=10**9)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("learner", COUNTING)
def test_every_large_run_can_be_assembled_and_names_its_choice(learner, trust):
    config = RunConfig(learner=learner, **LARGE, **TRUSTS[trust])
    if learner == "ldp-psrl" and trust in ("central", "shuffle"):
        return  # it adds up messages of single users: refused at every size
    found = apply_size_defaults(config)
    parts = assemble(found)
    if trust == "shuffle":
        assert found is config
        return
    assert found.learner == f"{learner}:replan=geometric"
    assert "replan=geometric" in found.by_size
    assert "1,000,001 users" in found.by_size
    assert not hasattr(parts.learner, "kernels")  # it plans batches
    if trust == "central":
        assert parts.privatizer.name == "central/batched-factorization"
        assert "mechanism batched-factorization" in found.by_size
    assert apply_size_defaults(found) == found
    assert found.choices == (found.by_size,)


def test_where_noise_must_be_pure_or_a_person_reports_twice_it_is_fresh_in_every_batch():
    central = TRUSTS["central"]
    for changes in ({"delta": 0.0}, {"reports_per_person": 2}):
        assert apply_size_defaults(RunConfig(learner="dp-ucbvi", **LARGE, **central | changes)).mechanism == "batched"


@pytest.mark.parametrize(
    "chosen",
    [
        {"episodes": 1_000_000},
        {"calibration": "paper"},
        {"batch": 100},
        {"learner": "bucb"},
        {"mechanism": "kary-tree"},
        {"learner": "ucbvi:replan=every", "mechanism": "batched"},
    ],
    ids=str,
)
def test_small_runs_and_whoever_chooses_get_what_they_asked_for(chosen):
    config = RunConfig(**{"learner": "ucbvi", **LARGE, **TRUSTS["central"], **chosen})
    assert apply_size_defaults(config) is config


def test_a_named_schedule_still_lets_the_learner_plan_rarely():
    found = apply_size_defaults(
        RunConfig(learner="ucbvi:time_homogeneous=true", mechanism="batched", **LARGE, **TRUSTS["central"])
    )
    assert (found.learner, found.mechanism) == ("ucbvi:time_homogeneous=true,replan=geometric", "batched")
    assert "mechanism" not in found.by_size


def test_result_dry_run_and_command_say_what_was_chosen(tiny_is_large, tmp_path):
    given = {"environment": "riverswim", "learner": "dp-ucbvi", "episodes": 300, "seeds": 1, **TRUSTS["central"]}
    result = tacit.run(**given, out=tmp_path / "run", workers=1)
    assert result.resolved.privatizer == "central/batched-factorization"
    assert result.config.by_size in result.summary()
    assert result.to_json()["by_size"] == result.config.by_size
    assert "dp-ucbvi:replan=geometric" in result.command
    assert "--mechanism batched-factorization" in result.command
    kept = tacit.load(tmp_path / "run")
    assert kept.config == result.config
    assert kept.config.by_size == result.config.by_size
    shown = estimate(result.config)
    assert shown.lines()[0] == result.config.by_size == shown.to_json()["by_size"]


def test_a_comparison_is_sized_too(tiny_is_large, tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(
        'name = "two"\n[defaults]\nenvironment = "riverswim"\nepisodes = 300\nseeds = 1\n'
        'trust = "central"\nepsilon = 1.0\ndelta = 1e-6\n[[run]]\nlearner = "ucbvi"\n[[run]]\nlearner = "bucb"\n'
    )
    _, (first, second) = read_comparison(file)
    assert first.config.mechanism == "batched-factorization"
    assert second.config.mechanism is None


def test_a_configuration_that_is_built_by_hand_is_left_alone(tiny_is_large):
    config = RunConfig(environment="riverswim", learner="ucbvi", episodes=300, seeds=(0,))
    assert config.by_size is None
    assert config.learner == "ucbvi"
    assert replace(config, by_size="why") == config  # why something was chosen decides no row


@pytest.mark.parametrize(
    "asked",
    [
        {"trust": "central", "delta": 0.0},
        {"trust": "central", "delta": 1e-6, "mechanism": "kary-tree"},
        {"trust": "central", "delta": 1e-6, "batch": 100},
        {"trust": "central", "delta": 1e-6, "calibration": "paper"},
        {"trust": "shuffle", "delta": 1e-6, "batch": 100},
        {"trust": "local", "delta": 0.0, "batch": 100},
        {"trust": "local", "delta": 0.0, "constants": "practical"},
    ],
    ids=str,
)
def test_what_auto_chooses_for_a_large_run_can_be_assembled_with_and_without_a_choice_by_size(asked):
    config = RunConfig(**LARGE, epsilon=1.0, **asked)
    assert config.because is not None
    for found in (config, apply_size_defaults(config)):
        assemble(found)
    assert ("geometric" in config.learner) == (asked["trust"] == "local" and "batch" not in asked)
