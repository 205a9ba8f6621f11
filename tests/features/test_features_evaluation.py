"""Off-policy values of policies over features: weights, and doubly robust with a linear model of released moments."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.errors import InvalidInput, NotSupported
from tacit.policies import DeterministicPolicy
from tacit.policies.feature_policy import FeaturePolicy
from tacit.policies.linear import LinearPolicy
from tacit.randomness import SimulationNoise
from tacit.study import evaluation
from tacit.study.evaluation import EvaluationRequest, evaluate
from tacit.study.feature_mapping import FeatureMapping
from tacit.study.verify import verify

MAPPING = {
    "features": {"age": [0, 100], "intercept": True, "norm": 1.0},
    "actions": {"column": "given", "categories": ["wait", "walk"]},
    "reward": {"column": "points", "low": 0, "high": 10},
    "columns": {"person": "who", "propensity": "p"},
}
KNOWN = FeatureMapping.from_dict(MAPPING)


def walk_above(age):
    """Walk where 0.5 (x_age - x_of_this_age) > 0, for the encoded row."""
    edge = KNOWN.features.encode({"age": [age]})[0]
    where = KNOWN.features.names.index("age")
    theta = np.zeros((1, 2, len(edge)))
    theta[0, 1, where], theta[0, 1, 1 - where] = edge[1 - where], -edge[where]
    linear = LinearPolicy(theta, actions=2)
    return FeaturePolicy(features=KNOWN.features, actions=("wait", "walk"), reward=(0.0, 10.0), policy=linear,
                         fallback=(1.0, 0.0))  # fmt: skip


def drawn(people, seed, each=1):
    """Walking earns 8 of 10 above 50 and 2 below, waiting 5; walks are drawn with 1/4 below and 3/4 above."""
    rng, n = np.random.default_rng(seed), people * each
    age = rng.choice([20.0, 30.0, 70.0, 80.0], n)
    p = np.where(age > 50, 0.75, 0.25)
    walk = rng.random(n) < p
    points = 10.0 * (rng.random(n) < np.where(walk, np.where(age > 50, 0.8, 0.2), 0.5))
    given = np.array(["wait", "walk"])[walk.astype(int)]
    who = np.repeat(np.arange(people), each)
    return {"who": who, "age": age, "given": given, "points": points, "p": np.where(walk, p, 1.0 - p)}


TRUTH, EARNED = 6.5, 5.75
"""Walk above 50: (8 + 5)/2. The rule in use: (.75·8 + .25·5 + .25·2 + .75·5)/2."""
ASKED = {"epsilon": 1.0, "delta": 1e-6, "min_propensity": 0.25}


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["snips", "ips", "dr"])
def test_intervals_hold_the_value_of_a_policy_over_rows(estimator):
    """Nominal 95%: of 200 logs, 178 to 200 (binomial, false alarm below 1e-3); a value that is 1.5 off: at most 10.

    Rewards are a step in age, so the linear model of dr is wrong, and the weights of its residuals must make up for it.
    """
    hits = np.zeros(3)
    for seed in range(200):
        noise = SimulationNoise(np.random.default_rng([seed, 1]))
        found = evaluate(walk_above(50), drawn(1_500, seed), MAPPING, estimator=estimator, noise=noise, **ASKED)
        one = found["policy"]
        hits += [one.low <= TRUTH <= one.high, found["log"].low <= EARNED <= found["log"].high,
                 one.low <= TRUTH - 1.5 <= one.high]  # fmt: skip
    assert (hits[:2] >= 178).all()
    assert hits[2] <= 10


def test_a_policy_over_rows_has_the_value_of_the_same_policy_over_states():
    """A reduction: ages as states, the same people, the same coins: equal payloads and values."""
    log = drawn(300, 3, each=2)
    states = {**{name: MAPPING[name] for name in ("actions", "reward")}, "horizon": 1,
              "states": [{"column": "age", "edges": [50], "names": ["young", "old"]}],
              "columns": {"person": "who", "episode": None, "step": None, "propensity": "p"}}  # fmt: skip
    tabular = tacit.NamedPolicy(
        policy=DeterministicPolicy(np.array([[0, 1]])), states=("young", "old"), actions=("wait", "walk")
    )
    found = [
        evaluate(policy, log, mapping, noise=SimulationNoise(np.random.default_rng(0)), **ASKED)
        for policy, mapping in ((walk_above(50), MAPPING), (tabular, states))
    ]
    assert found[0].payloads == found[1].payloads
    assert [one.to_dict() for one in found[0].values] == [one.to_dict() for one in found[1].values]
    assert found[0].certificate.epsilon == found[1].certificate.epsilon <= 1.0
    killed = evaluate(walk_above(50).kill(), log, MAPPING, noise=SimulationNoise(np.random.default_rng(0)), **ASKED)
    assert killed.payloads != found[0].payloads


def wide(people, seed):
    """Rewards linear in age, propensities of 1/4 to 3/4: what a linear model is for."""
    rng = np.random.default_rng(seed)
    age = 100.0 * rng.random(people)
    p = 0.25 + 0.005 * age
    walk = rng.random(people) < p
    points = 10.0 * np.clip(np.where(walk, age / 100.0, 0.5) + 0.1 * (rng.random(people) - 0.5), 0.0, 1.0)
    given = np.array(["wait", "walk"])[walk.astype(int)]
    return {"who": np.arange(people), "age": age, "given": given, "points": points, "p": np.where(walk, p, 1.0 - p)}


def test_the_residuals_of_a_right_model_are_small_without_noise(monkeypatch):
    """By hand: θ of least squares, Σ π q + w (r - q), and an interval of less than half the width of ips."""
    monkeypatch.setattr("tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, np.int64))
    log, rng, widths = wide(4_000, 1), SimulationNoise(np.random.default_rng(0)), {}
    for estimator in ("ips", "dr"):
        found = evaluate(
            walk_above(50), log, MAPPING, estimator=estimator, noise=rng, **{**ASKED, "epsilon": 10.0, "delta": 1e-3}
        )
        widths[estimator] = found["policy"].high - found["policy"].low
    request, payloads = found.request, found.payloads
    theta = evaluation._model(request, payloads[:1])
    x = KNOWN.features.encode({"age": log["age"]})
    q, walk, r = np.clip(0.5 + x @ theta.T, 0.0, 1.0), log["given"] == "walk", log["points"] / 10.0
    new = log["age"] > 50
    w = (walk == new) / log["p"]
    value = 10.0 * (np.where(new, q[:, 1], q[:, 0]) + w * (r - np.where(walk, q[:, 1], q[:, 0]))).mean()
    assert found["policy"].value == pytest.approx(value, abs=0.02)
    assert widths["dr"] < widths["ips"] / 2
    assert found.certificate.holds
    assert found.certificate.epsilon > 9.9


@pytest.mark.parametrize("estimator", ["snips", "dr"])
def test_the_command_evaluates_a_file_and_verify_derives_it_again(tmp_path, capsys, estimator):
    log = drawn(400, 5)
    with (tmp_path / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(log)
        writer.writerows(zip(*log.values(), strict=True))
    (tmp_path / "mapping.json").write_text(json.dumps(MAPPING))
    (tmp_path / "new.json").write_text(walk_above(50).to_json())
    out = tmp_path / "value.json"
    options = ["--epsilon", "1", "--delta", "1e-6", "--min-propensity", "0.25", "--estimator", estimator, "--out"]
    files = [str(tmp_path / name) for name in ("log.csv", "new.json")]
    assert main(["evaluate", *files, "--mapping", str(tmp_path / "mapping.json"), *options, str(out)]) == 0
    assert "new" in capsys.readouterr().out
    assert verify(out).true
    plain = json.loads(out.read_text())["request"]
    assert EvaluationRequest.from_dict(plain).to_dict() == plain
    assert FeatureMapping.from_dict(KNOWN.to_dict()) == KNOWN


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"estimator": "dm"}, NotSupported, "no counts of states"),
        ({"propensity": "estimated"}, NotSupported, "no counts of states"),
        ({"trust": "local", "delta": 0.0}, NotSupported, "no counts of states"),
        ({"min_propensity": None}, InvalidInput, "must be declared"),
        ({"min_propensity": 0.5}, InvalidInput, "at least the declared"),
        ({"mapping": {**MAPPING, "columns": {}}}, InvalidInput, "column of propensities"),
        ({"mapping": {**MAPPING, "features": {"age": [0, 90], "norm": 1.0}}}, InvalidInput, "features and actions"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, match):
    asked = {"mapping": MAPPING, **ASKED, **changes}
    with pytest.raises(error, match=match):
        evaluate(walk_above(50), drawn(20, 1), noise=SimulationNoise(np.random.default_rng(0)), **asked)
