"""By name: the documented command line, options, step sizes, experiments."""

import json
import math

import numpy as np
import pytest

import tacit
from papers.fitting import fit_exponent
from papers.he2025policy.experiments import EXPONENTS, rates_of, theorem_runs
from tacit.cli import main
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.gradient_builder import noise_term, theory_barrier, theory_batch, theory_smoothness, theory_step

COMMAND = "run --environment contextual-bandit --learner dp-pg --episodes 200000 --epsilon 1 --delta 1e-5 --json"


def test_the_documented_command_line(capsys):
    assert main(COMMAND.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trust"] == "central"
    assert found["batch"] == theory_batch(200_000, 50, 1.0)
    assert {"final", "optimal"} <= set(found["objective"])
    assert found["objective"]["optimal"] == pytest.approx(0.8181, abs=1e-4)
    assert found["objective"]["final"] > 0.75
    assert [claim["output"] for claim in found["claims"]] == ["final-policy", "other-users-actions"]
    assert found["certificate"]["holds"] is True
    assert found["certificate"]["method"] == "analytic Gaussian"


def test_results_are_kept_and_read_back(tmp_path):
    common = {"environment": "treatment-bandit", "learner": "dp-npg", "episodes": 5_000, "seeds": 2, "workers": 1}
    made = tacit.run(**common, epsilon=2.0, delta=1e-5, out=tmp_path / "run")
    read = tacit.load(tmp_path / "run")
    assert read.objectives == made.objectives
    assert read.to_json()["objective"] == made.to_json()["objective"]
    again = tacit.run(**common, epsilon=2.0, delta=1e-5)
    assert again.objectives == made.objectives
    assert (again.regret == made.regret).all()


@pytest.mark.parametrize(
    ("learner", "environment"),
    [
        ("dp-pg:time_homogeneous=true", "riverswim"),
        ("dp-pg:policy=linear,features=6", "treatment"),
        ("dp-pg:baseline=released", "contextual-bandit"),
        ("dp-pg:barrier=theory", "contextual-bandit"),
        ("dp-npg:policy=linear", "recommender"),
        ("dp-ppo:rate=0.5,epochs=2", "contextual-bandit"),
        ("dp-pg:step=0.5,clip=1", "hard-tree"),
    ],
)
def test_every_kind_runs_and_is_certified(learner, environment):
    found = tacit.run(environment=environment, learner=learner, episodes=2_000, epsilon=1.0, delta=1e-5, workers=1)
    assert found.certificate.holds
    assert found.certificate.epsilon > 0.9
    assert np.isfinite(found.regret).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learner": "dp-pg:polcy=linear"}, UnknownName, "did you mean 'policy'"),
        ({"learner": "dp-pg:policy=deep"}, InvalidInput, "must be one of softmax, linear, gaussian"),
        ({"learner": "dp-pg:step=-1"}, InvalidInput, "dp-pg:step"),
        ({"learner": "dp-pg:features=3"}, InvalidInput, "policy=linear"),
        ({"learner": "dp-pg:damping=1"}, UnknownName, "damping"),
        ({"learner": "dp-ppo:rate=2"}, InvalidInput, "dp-ppo:rate"),
        ({"trust": "local"}, NotSupported, "released under trust none or central, not local"),
        ({"trust": "shuffle"}, NotSupported, "released under trust none or central, not shuffle"),
        ({"delta": None}, InvalidInput, "delta above 0"),
        ({"mechanism": "laplace"}, NotSupported, "gaussian noise"),
        ({"z": 1.0}, InvalidInput, "remove z"),
        ({"batch": 2000}, InvalidInput, "larger than the number of episodes"),
        ({"learner": "dp-gp", "trust": "central"}, UnknownName, "dp-pg"),
    ],
)
def test_refusals_say_what_to_do(options, error, message):
    given = {"environment": "contextual-bandit", "learner": "dp-pg", "episodes": 1000, "seeds": (0,)}
    with pytest.raises(error, match=message):
        assemble(RunConfig(**{**given, "epsilon": 1.0, "delta": 1e-5, **options}))


def test_the_repairs_of_the_theorems():
    # m is a whole number of users within [1, N], also where the formula is not.
    assert theory_batch(100, 50, 0.001) == 100
    assert theory_batch(8, 1, 1e6) == 1
    # 1/L, not 1/(LB), which is infinite at m = 1; L has the barrier's own smoothness.
    L = theory_smoothness(1.0, math.sqrt(0.8), 1.0, barrier=0.5, states=10)
    assert pytest.approx(1.8 + 0.05) == L
    assert theory_step(L, 0.0, 10, 1.0) == 1 / L
    C = noise_term(1.0, math.sqrt(0.8), 100, 50, 0.1, barrier=0.0, states=10)
    assert pytest.approx(0.008 + 0.5) == C
    assert theory_step(L, C, 1000, 1.0) == pytest.approx(math.sqrt(2 / (1000 * L * C)))
    # Theorem 4: 2λ = α with N = α^-6 in the sampling term and √d α^(-9/2)/ε in the private one.
    assert theory_barrier(10**6, 4, 1e9) == pytest.approx(0.05)
    alpha = 2 * theory_barrier(10**6, 100, 1e-3)
    assert 10 / (alpha**4.5 * 1e-3) == pytest.approx(1e6)


def test_the_experiments_fit_what_they_say():
    assert fit_exponent(np.array([1e3, 1e5]), np.array([1.0, -1.0])) != fit_exponent(np.array([1.0]), np.array([1.0]))
    assert EXPONENTS["theorem2"] == (-1 / 2, -2 / 3)
    runs = theorem_runs("theorem2", "paper")
    assert {run.config.episodes for run in runs} == {10**k for k in (3, 4, 5, 6, 7)}
    assert all(len(run.config.seeds) >= 10 for run in runs)
    assert len({run.config.epsilon for run in runs}) == 4
    few = [
        tacit.run(
            environment=run.config.environment, learner=run.config.learner, episodes=run.config.episodes, seeds=2,
            constants="theory", epsilon=run.config.epsilon, delta=run.config.delta, batch=run.config.batch, workers=1,
        )
        for run in runs
        if run.config.episodes <= 10_000 and run.config.environment.endswith("contexts=2,actions=5")
    ]  # fmt: skip
    rates = rates_of("theorem2", few)
    assert len(rates["curves"]) == 4
    for curve in rates["curves"]:
        slope = math.log(curve["mean"][1] / curve["mean"][0]) / math.log(10)
        assert curve["exponent"] == pytest.approx(slope)
    json.dumps(rates, allow_nan=False)
    # The cost of privacy is against the same batches without noise, at every epsilon.
    named = {(result.config.episodes, result.config.batch): result for result in few if result.config.epsilon is None}
    for curve in (curve for curve in rates["curves"] if curve["epsilon"] is not None):
        for users, batch, mean, plain, cost in zip(
            *(curve[key] for key in ("users", "batch", "mean", "without_noise", "privacy_cost")), strict=True
        ):
            reference = named[int(users), batch]
            assert reference.resolved.users_per_batch == batch
            assert plain == np.mean([found.stationarity for found in reference.objectives])
            assert cost == pytest.approx(mean - plain)
    assert len({tuple(curve["batch"]) for curve in rates["curves"][1:]}) == 3
