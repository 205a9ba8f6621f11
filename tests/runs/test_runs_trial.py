"""Trials: errors in whole simulations under every trust model, freshness, claims, files, options of a run, refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tacit
from tacit.accounting.certificate import Certificate
from tacit.accounting.wording import SIMULATION
from tacit.cli import main
from tacit.data.arms import as_one_step
from tacit.documents import vouched
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported
from tacit.planning.arms import interval_of
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release import arms as module
from tacit.release.arms import composed, make_arms
from tacit.released.arms import ArmStatistics, FlippedBits, GaussianSum, NoNoise
from tacit.runs.report import render_report
from tacit.runs.trial_result import TrialResult

CLAIMS = {
    "none": {"trust": "none", "epsilon": None, "delta": None},
    "central": {"trust": "central", "epsilon": 1.0, "delta": 1e-5},
    "shuffle": {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-5},
    "local": {"trust": "local", "epsilon": 1.0, "delta": 0.0},
}
# Two steps, two actions: the second one earns 0.3 more per step. One state, so that every world is alike.
COIN = TabularMDP(P=[[[1.0], [1.0]]], r=[[0.3, 0.6]], rho=[1.0], horizon=2, name="coin", reward_scale=5.0)
RUN = {"environment": COIN, "learner": "uniform", "episodes": 10, "workers": 1}


@pytest.mark.parametrize("trust", CLAIMS)
def test_released_sums_have_the_mean_and_the_law_that_is_stated(trust):
    """Means and variances over 400 releases of 40 users; false-alarm rate below 1e-5 each."""
    arms = make_arms(users=(20, 20), **CLAIMS[trust])
    coins, noise = np.random.default_rng(0), SimulationNoise(np.random.default_rng(1))
    shares = [np.full(20, 0.25), np.full(20, 0.75)]
    found = np.array([arms.release(as_one_step(shares, coins), noise).means for _ in range(400)])
    f = arms.noise.flip
    mu = f + (1 - 2 * f) * np.array([0.25, 0.75])
    variance = (mu * (1 - mu) / 20 + arms.noise.variance() / 400) / (1 - 2 * f) ** 2
    assert np.abs(found.mean(axis=0) - [0.25, 0.75]).max() < 4.8 * np.sqrt(variance.max() / 400)
    assert np.abs(found.var(axis=0) / variance - 1.0).max() < 0.35


def misses(arms, runs, seed, told=None):
    coins, noise = np.random.default_rng(seed), SimulationNoise(np.random.default_rng(seed + 1))
    count = 0
    for _ in range(runs):
        shares = [coins.random(n) for n in arms.users]  # returns of every size, mean 1/2
        found = arms.release(as_one_step(shares, coins), noise)
        found = found if told is None else replace(found, noise=told)
        one = interval_of(found, 0.1)
        count += not one.low <= 0.0 <= one.high
    return count


@pytest.mark.parametrize("trust", CLAIMS)
def test_type_one_errors_through_the_privatizers(trust):
    """No difference: 60 trials at alpha 0.1; false-alarm rate 1e-4 each."""
    arms = make_arms(users=(40, 40), **CLAIMS[trust])
    assert misses(arms, 60, 5) <= stats.binom.ppf(1 - 1e-4, 60, 0.1)


def test_a_trial_that_forgets_its_noise_is_noticed():
    """The same count, where the test is told that there is no noise: it must fail (power above 0.999)."""
    arms = make_arms(users=(40, 40), trust="central", epsilon=0.3, delta=1e-5)
    assert misses(arms, 60, 5, told=NoNoise()) > stats.binom.ppf(1 - 1e-4, 60, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("trust", CLAIMS)
@pytest.mark.parametrize("environment", ["riverswim", "treatment", "gymnasium:Blackjack-v1"])
def test_coverage_in_several_worlds(environment, trust):
    """60 trials each of uniform play against itself (d = 0) and of an action's policy; false-alarm rate 1e-5 each."""
    first = tacit.make_environment(environment).action_names[0]
    wrong = 0
    for seed in range(60):
        found = tacit.trial(
            "uniform", against="uniform", environment=environment, users=150, seed=seed, **CLAIMS[trust]
        )
        wrong += not found.low <= 0.0 <= found.high
        if environment != "gymnasium:Blackjack-v1":
            named = f"always {first}"
            other = tacit.trial(
                named, against="uniform", environment=environment, users=150, seed=seed, **CLAIMS[trust]
            )
            wrong += not other.low <= other.truth <= other.high
    assert wrong <= stats.binom.ppf(1 - 1e-5, 120, 0.05)


def test_the_verdict_the_unit_and_the_truth():
    found = tacit.trial("always 1", against="always 0", environment=COIN, users=400, **CLAIMS["central"])
    assert found.verdict == "better"
    assert found.truth == pytest.approx(3.0)  # 2 steps, 0.3 more each, worth 5
    assert found.low < 3.0 < found.high
    assert found.means[0].low < 3.0 < found.means[0].high
    assert found.means[1].low < 6.0 < found.means[1].high
    assert found.claim.output == "published-sums"
    assert found.certificate.holds
    # (α + γ)/2 with γ = α/20, by Lemma B5 (exact arms): α/2 is not what is proved
    assert "a wrong 'better' has probability at most 0.02625" in found.lines[1]
    worse = tacit.trial("always 0", against="always 1", environment=COIN, users=400, **CLAIMS["central"])
    assert worse.verdict == "worse"
    table = tacit.trial(np.array([1]), environment=COIN, users=400, **CLAIMS["local"])
    assert table.verdict is None
    assert table.arms == ("policy",)
    assert table.low < 6.0 < table.high
    assert len(table.lines) == 2


def test_declared_bounds_clip_returns():
    clipped = tacit.trial("always 1", environment=COIN, users=300, bounds=(0.0, 5.0), **CLAIMS["none"])
    # Two Bernoulli rewards of 5 each, clipped at 5: 5 unless both fail, 5 (1 − 0.4²) = 4.2
    assert clipped.low < 4.2 < clipped.high < 5.0
    assert clipped.truth is None


def test_a_trial_is_written_and_read_and_must_follow_from_its_release(tmp_path):
    found = tacit.trial("always 1", against="always 0", environment=COIN, users=60, **CLAIMS["shuffle"])
    plain = json.loads(json.dumps(found.to_dict()))
    assert TrialResult.from_dict(plain).to_dict() == found.to_dict()
    for change in ({"verdict": "worse"}, {"low": found.low + 1.0}, {"alpha": 0.01}):
        with pytest.raises(InvalidInput, match="must follow"):
            TrialResult.from_dict({**plain, **change})
    with pytest.raises(InvalidInput, match="complete"):
        TrialResult.from_dict({name: part for name, part in plain.items() if name != "released"})


def test_people_who_come_again_are_added_up():
    result = tacit.run(**{**RUN, "learner": "bucb", "episodes": 200}, trust="central", epsilon=0.5, delta=1e-6)
    fresh = tacit.trial(result, against="always 0", users=50)
    again = tacit.trial(result, against="always 0", users=50, people="same")
    assert fresh.claim.epsilon == 0.5
    assert fresh.certificate.epsilon <= 0.5
    assert again.claim.epsilon == 1.0
    assert 0.5 < again.certificate.epsilon <= 1.0
    assert again.certificate.delta == 2e-6
    assert len(again.certificate.events) == len(result.certificate.events) + len(fresh.certificate.events)
    # Simulated noise protects nobody, whoever comes again.
    for found in (result, fresh, again):
        assert found.certificate.words.startswith(SIMULATION)
        assert not found.certificate.release
    terms = again.certificate.terms
    assert (terms.noise, terms.sizes["episodes"]) == ("simulation", 300)
    assert Certificate.from_dict(again.certificate.to_dict()) == again.certificate
    secure = replace(fresh.certificate, terms=replace(fresh.certificate.terms, noise="secure"))
    assert composed(secure, secure).release
    assert not composed(result.certificate, secure).release
    with pytest.raises(NotSupported, match="where its noise comes from"):
        composed(replace(result.certificate, terms=None), secure)
    with pytest.raises(InvalidInput, match="needs the run"):
        tacit.trial("always 1", environment=COIN, users=50, people="same", **CLAIMS["local"])
    nobody = make_arms(users=(9,), **CLAIMS["none"]).certificate()
    with pytest.raises(NotSupported, match="cannot be composed"):
        composed(fresh.certificate, nobody)
    asked = {**RUN, "learner": "ldp-rts", "episodes": 80, "reports_per_person": 2}
    several = tacit.run(**asked, trust="local", epsilon=1.0, delta=0.0)
    with pytest.raises(NotSupported, match="several users"):
        tacit.trial(several, users=50)


def test_a_trial_does_not_touch_the_coins_of_the_run():
    plain = tacit.run(**RUN, seeds=2)
    valued = tacit.run(**RUN, seeds=2, value_users=30)
    assert np.array_equal(plain.regret, valued.regret)
    assert plain.trials == ()
    assert "value_users" not in plain.config.to_dict()
    first, second = valued.trials
    assert first.released != second.released


def test_a_run_with_fresh_users_carries_its_value_everywhere(tmp_path, capsys):
    asked = {**RUN, "learner": "ldp-rts", "episodes": 80, "baseline": "always 0", "value_users": 40, **CLAIMS["local"]}
    result = tacit.run(**asked, out=tmp_path / "run")
    (found,) = result.trials
    assert found.arms == ("always 0", "policy")
    assert found.released.users == (40, 40)
    assert isinstance(found.released.noise, FlippedBits)
    assert result.to_json()["trials"][0]["verdict"] == found.verdict
    assert "against always 0" in result.summary()
    assert "By fresh users" in render_report(result)
    assert found.lines[0].split(":")[0] in render_report(result)
    assert tacit.load(tmp_path / "run").trials[0].released == found.released
    assert tacit.verify(tmp_path / "run").true
    kept = json.loads((tmp_path / "run" / "arms.json").read_text())
    kept["0"]["noise"]["flip"] = 0.1
    (tmp_path / "run" / "arms.json").write_text(json.dumps(kept))
    assert not tacit.verify(tmp_path / "run").true
    with pytest.raises(InvalidInput, match="must have its noise"):
        _ = tacit.load(tmp_path / "run").trials


def test_the_command_line(tmp_path, capsys):
    words = ["trial", "run", "always right", "--environment", "riverswim", "--against", "always left", "--users", "40"]
    claim = ["--trust", "local", "--epsilon", "1", "--delta", "0"]
    assert main([*words, *claim, "--out", str(tmp_path / "trial.json")]) == 0
    out = capsys.readouterr().out
    assert "always right against always left" in out
    plain = json.loads((tmp_path / "trial.json").read_text())
    assert TrialResult.from_dict(plain).released.users == (40, 40)
    assert tacit.verify(tmp_path / "trial.json").true
    (tmp_path / "forged.json").write_text(json.dumps(vouched({**plain, "verdict": "better", "low": 1.0})))
    assert "must follow" in tacit.verify(tmp_path / "forged.json").why
    # The certificate of a trial with a hundredth of the epsilon, over the noise that was released.
    stronger = ["trial", "run", "always right", "--environment", "riverswim", "--against", "always left"]
    weaker_claim = ["--users", "40", "--trust", "local", "--epsilon", "0.01", "--delta", "0"]
    assert main([*stronger, *weaker_claim, "--out", str(tmp_path / "other.json")]) == 0
    certificate = json.loads((tmp_path / "other.json").read_text())["certificate"]
    for change in ({"certificate": certificate}, {"seal": "approved"}, {"version": "0.8.0 "}, {"digest": None}):
        forged = {**plain, **change}
        (tmp_path / "forged.json").write_text(json.dumps(vouched(forged) if "digest" not in change else forged))
        assert not tacit.verify(tmp_path / "forged.json").true, change
    capsys.readouterr()
    assert main([*words, *claim, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] in ("better", "worse", "not shown")
    assert main(["trial", "size", "--effect", "0.3", "--trust", "none", "--json"]) == 0
    assert 30 < json.loads(capsys.readouterr().out)["users"] < 70
    for wrong in (
        ["trial", "run", "always right", "--users", "40", *claim],
        [*words[:-1], "0", *claim],
        [*words],
        [*words, *claim, "--bounds", "1"],
        [*words, *claim, "--people", "old"],
        [*words, "--trust", "central", "--epsilon", "1", "--delta", "0"],
        [*words, *claim, "--alpha", "0.9"],
        ["trial", "size", "--effect", "2", "--trust", "none"],
    ):
        assert main(wrong) == 2, wrong
        assert capsys.readouterr().err


def test_bad_input_is_refused_before_anybody_comes():
    with pytest.raises(InvalidInput, match="trust has no default"):
        tacit.trial("always 1", environment=COIN, users=5)
    with pytest.raises(InvalidInput, match="environment"):
        tacit.trial("always 1", users=5, **CLAIMS["local"])
    with pytest.raises(InvalidInput, match="lower one first"):
        tacit.trial("always 1", environment=COIN, users=5, bounds=(3.0, 1.0), **CLAIMS["local"])
    with pytest.raises(InvalidInput, match="range of a return must be a finite number"):
        tacit.trial("always 1", environment=COIN, users=5, bounds=(-1e308, 1e308), **CLAIMS["local"])
    with pytest.raises(NotSupported, match="never pure"):
        make_arms(users=(5,), trust="central", epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidInput, match="unknown trust"):
        make_arms(users=(5,), trust="centrall", epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidInput, match="users"):
        make_arms(users=(1,), trust="shuffle", epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidInput, match="value_users"):
        tacit.run(**RUN, value_users=0)
    with pytest.raises(NotSupported, match="no return in a declared range"):
        tacit.run(environment="layered:layers=3,states=2,actions=2", adversary="iid", learner="uc-o-reps",
                  episodes=5, value_users=5, workers=1)  # fmt: skip
    arms = make_arms(users=(3, 2), **CLAIMS["local"])
    with pytest.raises(InvalidInput, match="must have"):
        arms.release(as_one_step([np.zeros(2), np.zeros(3)], np.random.default_rng(0)), SecureNoise())


def test_arms_with_secure_noise_go_message_by_message():
    for trust in ("shuffle", "local"):
        arms = make_arms(users=(6, 6), **{**CLAIMS[trust], "epsilon": 4.0})
        found = arms.release(as_one_step([np.ones(6), np.ones(6)], np.random.default_rng(0)), SecureNoise())
        assert isinstance(found, ArmStatistics)
    assert set(module.RANK) == set(CLAIMS)
    assert isinstance(make_arms(users=(6,), **CLAIMS["central"]).noise, GaussianSum)
