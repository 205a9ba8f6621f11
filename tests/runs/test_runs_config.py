from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.learners.fixed import FixedPolicy
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig, as_seeds, parse_learner

BASE = {"environment": "riverswim", "learner": "ucbvi", "episodes": 10, "seeds": (0,)}


def config(**choices):
    return RunConfig(**{**BASE, **choices})


def test_a_configuration_survives_json_and_keeps_its_hash():
    asked = config(epsilon=1, delta=1e-6, trust="shuffle", batch=np.int64(5), seeds=(3, 1), z=np.float64(0.5))
    again = RunConfig.from_dict(json.loads(json.dumps(asked.to_dict())))
    assert again == asked
    assert hash(again) == hash(asked)
    assert len({asked, again, config()}) == 2


def test_a_model_that_was_handed_over_is_known_by_its_fingerprint():
    model = make("random-mdp")
    asked = config(environment=model)
    plain = json.loads(json.dumps(asked.to_dict()))
    assert plain["environment"]["fingerprint"] == model.fingerprint()
    assert RunConfig.from_dict(plain, model=model) == asked
    for wrong in (None, make("riverswim")):
        with pytest.raises(InvalidInput, match=model.fingerprint()):
            RunConfig.from_dict(plain, model=wrong)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"episodes": -3}, "episodes must be a whole number of at least 1, got -3"),
        ({"episodes": 2.5}, "episodes"),
        ({"episodes": math.nan}, "episodes"),
        ({"episodes": True}, "episodes"),
        ({"seeds": ()}, "at least one seed"),
        ({"seeds": (1, 1)}, "every seed must be given once"),
        ({"seeds": (-1,)}, "seed must be a whole number of at least 0"),
        ({"checkpoints": 1}, "checkpoints"),
        ({"z": math.nan}, "z must be a finite number"),
        ({"z": -1.0}, "z must be a finite number"),
        ({"trust": "central", "epsilon": math.nan}, "epsilon must be a finite number"),
        ({"trust": "central", "epsilon": 0.0}, "epsilon must be a finite number"),
        ({"trust": "central", "epsilon": math.inf}, "epsilon must be a finite number"),
        ({"trust": "central", "epsilon": 1.0, "delta": math.nan}, "delta"),
        ({"trust": "centre", "epsilon": 1.0}, "did you mean 'central'"),
        ({"constants": "practcal"}, "did you mean 'practical'"),
        ({"calibration": "papr"}, "did you mean 'paper'"),
        ({"calibration": "none"}, "unknown calibration"),
        ({"batch": 0}, "batch"),
        ({"environment": 3}, "environment must be a name"),
    ],
)
def test_bad_values_are_refused_in_words(choices, words):
    with pytest.raises(InvalidInput, match=words):
        config(**choices)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"environment": "riverswin"}, "did you mean 'riverswim'"),
        ({"environment": "riverswim:state=4"}, "did you mean 'states'"),
        ({"learner": "ucbv"}, "did you mean 'ucbvi'"),
        ({"learner": "unifrm"}, "did you mean 'uniform'"),
        ({"learner": "ucbvi:bonos=hoeffding"}, "did you mean 'bonus'"),
        ({"learner": "ucbvi:time_homogeneous=maybe"}, "time_homogeneous must be one of false, true"),
        ({"learner": "ucbvi:staged"}, "name=value"),
        ({"learner": "uniform:time_homogeneous=true"}, "unknown option of learner uniform 'time_homogeneous'"),
        ({"learner": "uniform", "constants": "theory"}, "takes no options, no constants"),
        ({"learner": "psrl", "constants": "theory"}, "remove constants and z"),
        ({"constants": "none"}, "must be 'theory' or 'practical'"),
        ({"epsilon": 1.0}, "epsilon requires a trust model other than 'none'"),
        ({"delta": 1e-6}, "delta requires a trust model other than 'none'"),
        ({"mechanism": "laplace"}, "mechanism requires a trust model other than 'none'"),
        ({"trust": "local"}, "needs an epsilon"),
        ({"trust": "local", "epsilon": 1.0}, "needs a delta, which has no default"),
        ({"trust": "local", "epsilon": 1.0, "delta": 0.0, "mechanism": "laplac"}, "did you mean 'laplace'"),
        ({"trust": "local", "epsilon": 1.0, "delta": 0.5}, "delta must lie in"),
        ({"trust": "shuffle", "epsilon": 1.0, "delta": 1e-6, "batch": 100}, "batch"),
    ],
)
def test_what_cannot_be_built_is_refused_in_words(choices, words):
    with pytest.raises((InvalidInput, UnknownName, NotSupported), match=words):
        assemble(config(**choices))


def test_a_row_that_is_not_stochastic_is_named():
    with pytest.raises(InvalidInput, match="s=1, a=0"):
        config(environment=TabularMDP(P=[[[0.5, 0.5]], [[0.5, 0.4]]], r=[[0.0], [1.0]], rho=[1.0, 0.0], horizon=2))


def test_reference_policies_are_built_from_the_true_model():
    uniform, optimal = assemble(config(learner="uniform")), assemble(config(learner="optimal"))
    assert isinstance(uniform.learner, FixedPolicy)
    assert isinstance(optimal.learner, FixedPolicy)
    # V* and the uniform policy's value on RiverSwim, worked out independently.
    assert [round(value, 4) for value in optimal.values] == [0.4758, 0.0316]


def test_the_learner_decides_whether_steps_are_pooled():
    for spec, staged in [("psrl", True), ("psrl:time_homogeneous=false", True), ("psrl:time_homogeneous=true", False)]:
        parts = assemble(config(learner=spec))
        assert parts.learner.shape.staged is staged
        assert parts.privatizer.shape.staged is staged


def test_batches_belong_to_shuffling_unless_asked_for():
    assert config().users_per_batch == 1
    assert config(trust="local", epsilon=1.0).users_per_batch == 1
    assert config(trust="shuffle", epsilon=1.0).users_per_batch == 1000
    assert config(trust="shuffle", epsilon=1.0, batch=50).users_per_batch == 50


def test_the_command_names_every_choice_and_python_speaks_for_the_rest():
    asked = config(
        trust="local", epsilon=1.0, seeds=(4, 5), allow_large_delta=True, learner="psrl:time_homogeneous=true"
    )
    assert asked.command() == (
        "tacit run --environment riverswim --learner psrl:time_homogeneous=true --episodes 10 --seeds 2 --first-seed 4 "
        "--trust local --epsilon 1.0 --allow-large-delta"
    )
    scattered = config(seeds=(1, 4))
    assert scattered.command() == "tacit.run(environment='riverswim', learner='ucbvi', episodes=10, seeds=[1, 4])"


def test_seeds_are_a_number_or_a_list():
    assert as_seeds(2) == (0, 1)
    assert as_seeds(np.array([5, 7])) == (5, 7)
    for bad in (0, -1, 1.5, "3", True):
        with pytest.raises(InvalidInput):
            as_seeds(bad)


def test_learners_are_parsed_strictly():
    assert parse_learner("psrl") == ("psrl", {})
    for bad in ("psrl:", "psrl:staged=", "psrl:=true", "psrl:time_homogeneous=false,time_homogeneous=true"):
        with pytest.raises(InvalidInput):
            parse_learner(bad)
