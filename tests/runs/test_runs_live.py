"""Runs in live worlds: the loop, the learners and the certificates are the same; returns stand where regret would."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli.app import app
from tacit.environments.live import live
from tacit.environments.registry import make
from tacit.errors import InvalidInput, NotSupported
from tacit.planning.dynamic import evaluate_stochastic
from tacit.policies import uniform_policy
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.report import render_report
from tacit.runs.returns_report import interval_over
from tacit.simulation.judges.live import estimate_return
from tacit.simulation.simulate import simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "environments"))
import live_worlds

BLACKJACK = "gymnasium:Blackjack-v1,evaluation=200"
PRIVATE = {
    "none": {},
    "central": {"trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "shuffle": {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-6},
    "local": {"trust": "local", "epsilon": 1.0, "delta": 0.0},
}
CASES = [
    ("none", "bucb"),
    ("none", "psrl"),
    ("central", "bucb:share_across_steps=true"),
    ("shuffle", "bucb:share_across_steps=true"),
    ("shuffle", "sdp-pe-plus"),
    ("local", "ldp-obi:time_homogeneous=true"),
    ("local", "ldp-rts"),
    pytest.param("central", "dp-pg", marks=pytest.mark.slow),  # compiles for long, runs at once
    ("none", "uniform"),
]


def small(trust: str, learner: str, environment: object = BLACKJACK, **more: object) -> RunConfig:
    return RunConfig(environment=environment, learner=learner, episodes=600, seeds=(0, 1), **PRIVATE[trust], **more)  # type: ignore[arg-type]


def play(config: RunConfig, seed: int = 0, **more: object):
    parts = assemble(config)
    return simulate(parts.mdp, parts.learner, parts.privatizer, episodes=config.episodes, seed=seed, **more)


@pytest.mark.parametrize(("trust", "learner"), CASES)
def test_every_kind_of_learner_runs_and_a_seed_repeats_bit_for_bit(trust, learner):
    config = small(trust, learner)
    first, again, other = play(config), play(config), play(config, seed=1)
    assert first.returns == again.returns != other.returns
    assert np.isnan(first.regret).all()
    assert first.returns.clipped == 0.0
    # All users are counted, also whoever was left over: returns of Blackjack are whole, squares count decided games.
    total, squares = first.returns.total[-1], first.returns.squares[-1]
    assert total == int(total)
    assert abs(total) <= squares <= config.episodes
    assert squares > 0.8 * config.episodes  # few games are drawn
    assert first.policy is not None


SIZES = [
    ("central", "bucb:share_across_steps=true"),
    ("shuffle", "bucb"),
    ("local", "ldp-obi:time_homogeneous=true"),
    ("central", "dp-ucbvi"),
]


@pytest.mark.parametrize(("trust", "learner"), SIZES)
def test_certificates_are_those_of_a_table_of_the_same_size(trust, learner):
    live_parts = assemble(small(trust, learner))
    tabular = assemble(small(trust, learner, "random-mdp:states=29,actions=2,horizon=4"))
    assert live_parts.certificate == tabular.certificate
    assert live_parts.claim == tabular.claim
    assert live_parts.privatizer.noise_std() == tabular.privatizer.noise_std()


def test_rewards_are_rounded_where_devices_do_it_and_nowhere_else():
    rounded = {trust: assemble(small(trust, "auto")).mdp.rounded for trust in PRIVATE}
    assert rounded == {"none": False, "central": False, "shuffle": True, "local": True}


def test_a_live_river_is_learned_like_the_tabular_one():
    """The same learner from the live river and from its table: final values against each other, exactly evaluated."""
    mdp = make("riverswim")
    world = live(live_worlds.river, horizon=6, rewards=(0.0, 1.0), ends=False, stationary=True, evaluation=50)
    values = []
    for environment in (world, mdp):
        config = RunConfig(environment=environment, learner="bucb:share_across_steps=true", episodes=4000, seeds=(0,))
        policy = play(config).policy
        V = evaluate_stochastic(np.array(mdp.stage_P), np.array(mdp.stage_r), policy.probabilities(2))
        values.append(float(mdp.rho @ V[0]))
    assert min(values) > 0.9 * 0.4758  # V* by docs/environments.md; uniform play earns 0.0316


@pytest.mark.statistical
def test_fresh_episodes_measure_the_value_of_a_policy():
    """The interval of 3,000 episodes holds the exact value (fixed seed; widened to a false-alarm rate of 1e-4)."""
    mdp = make("riverswim")
    world = live(live_worlds.river, horizon=6, rewards=(0.0, 1.0), ends=False)
    uniform = uniform_policy(6, 4, 2)
    found = estimate_return(world, uniform, episodes=3000, rng=np.random.default_rng(2))
    V = evaluate_stochastic(np.array(mdp.stage_P), np.array(mdp.stage_r), uniform.table)
    truth = float(mdp.rho @ V[0])
    widened = 3.89 / 1.96 * (found.high - found.low) / 2
    assert abs(found.mean - truth) < widened < 0.5 * truth
    assert found.high - found.mean == pytest.approx(found.mean - found.low)


def test_results_are_kept_resumed_read_back_and_verified(tmp_path):
    options = {
        "environment": BLACKJACK,
        "learner": "bucb:share_across_steps=true",
        "episodes": 600,
        "seeds": 2,
        "workers": 1,
    }
    options |= {**PRIVATE["central"], "baseline": "dealer"}
    result = tacit.run(out=tmp_path / "run", **options)
    again = tacit.load(tmp_path / "run")
    assert again.returns == result.returns
    assert again.against == result.against
    assert again.world["discretiser"]["kind"] == "bins"
    assert np.isnan(again.regret).all()
    assert tacit.verify(tmp_path / "run").true
    assert tacit.run(out=tmp_path / "run", **options).returns == result.returns
    with pytest.raises(InvalidInput, match="another run"):
        tacit.run(out=tmp_path / "run", **{**options, "baseline": "uniform"})
    import pyarrow.parquet as pq

    columns = pq.ParquetFile(tmp_path / "run" / "results.parquet").read().column_names
    assert "return" in columns
    assert "regret" not in columns
    # What was measured is under the digests, too.
    kept = tmp_path / "run" / "returns.json"
    kept.write_text(kept.read_text().replace('"clipped": 0.0', '"clipped": 0.5'))
    assert "returns.json is not as it was written" in tacit.verify(tmp_path / "run").why


def test_worlds_that_are_handed_over_are_kept_with_their_discretiser(tmp_path):
    from tacit.environments.discretise import tiles

    rule = tiles(low=[-0.2, -1.0], high=[0.2, 1.0], counts=[2, 2])
    world = live(live_worlds.Pair, horizon=1, rewards=(0.0, 1.0), discretise=rule, evaluation=100)
    result = tacit.run(environment=world, learner="ucbvi", episodes=300, out=tmp_path / "run", workers=1)
    again = tacit.load(tmp_path / "run")
    assert again.config.environment == world
    assert again.returns == result.returns
    assert result.returns[0].final.mean == 1.0  # action 1 pays 1, everywhere
    assert 0.3 < result.returns[0].uniform.mean < 0.7
    assert "tacit.run(environment=live_worlds:Pair" in again.command


def test_policies_of_live_worlds_are_exported_with_their_names(tmp_path):
    options = {"learner": "bucb", "episodes": 300, "workers": 1, **PRIVATE["central"]}
    for number, environment in enumerate((BLACKJACK, live("Blackjack-v1", evaluation=100))):
        result = tacit.run(environment=environment, **options)
        path = tacit.export_bundle(result, tmp_path / f"{number}.json")
        found = tacit.load_bundle(path, unsigned=True)
        assert np.array_equal(found.policy.probabilities(2), result.policy.probabilities(2))
        assert found.certificate == result.certificate
        shown = CliRunner().invoke(app, ["policy", "show", str(path)])
        assert shown.exit_code == 0, shown.output
        assert "ended" in shown.output


@pytest.mark.slow
def test_processes_change_nothing():
    options = {"environment": BLACKJACK, "learner": "bucb", "episodes": 600, "seeds": 2}
    assert tacit.run(workers=2, **options).returns == tacit.run(workers=1, **options).returns


def test_summaries_tables_figures_and_json_speak_of_returns(tmp_path):
    result = tacit.run(environment=BLACKJACK, learner="bucb", episodes=600, seeds=2, workers=1, baseline="dealer")
    text = result.summary()
    assert "return per user (simulation only)" in text
    assert "there is no regret" in text
    assert "against the baseline 'dealer'" in text
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert plain["regret"] is None
    assert plain["returns"]["per_seed"] == [found.total[-1] / 600 for found in result.returns]
    assert plain["resolved"]["optimal_value"] is None
    assert plain["against"]["baseline"] == "dealer"
    result.plot(tmp_path / "returns.png")
    page = render_report(result)
    assert "<h2>Returns</h2>" in page
    assert "<h2>Regret</h2>" not in page
    assert math.isnan(result.uniform_regret)
    assert result.relative_regret is None


# Baselines ----------------------------------------------------------------------------------------------


def test_a_learner_of_a_fixed_policy_against_itself_loses_nothing_in_a_table():
    mdp = make("treatment")
    result = tacit.run(environment="treatment", learner="uniform", episodes=400, seeds=3, workers=1, baseline="uniform")
    found = result.against
    assert found.final.mean == 0.0
    assert (found.final.low, found.final.high) == (0.0, 0.0)
    assert found.during.mean == pytest.approx(0.0, abs=0.1)  # first states are drawn, values are exact
    optimal = tacit.run(
        environment="treatment", learner="optimal", episodes=400, seeds=2, workers=1, baseline="careful"
    )
    careful = tacit.run(
        environment="treatment", learner="optimal", episodes=400, seeds=2, workers=1, baseline="uniform"
    )
    V = 4.3186  # docs/environments.md
    assert optimal.against.value + optimal.against.final.mean == pytest.approx(V, abs=1e-4)
    assert careful.against.value + careful.against.final.mean == pytest.approx(V, abs=1e-4)
    assert optimal.against.value > careful.against.value
    assert mdp.name == "treatment"


def test_live_differences_are_those_of_the_measurements():
    result = tacit.run(environment=BLACKJACK, learner="bucb", episodes=600, seeds=2, workers=1, baseline="dealer")
    found, (one, two) = result.against, result.returns
    finals = [one.final.mean - one.baseline.mean, two.final.mean - two.baseline.mean]
    assert found.final == interval_over(np.array(finals))
    alone = tacit.run(environment=BLACKJACK, learner="bucb", episodes=600, seeds=1, workers=1, baseline="dealer")
    half = 1.959963984540054 * math.sqrt(one.final.variance + one.baseline.variance)
    assert alone.against.final.high - alone.against.final.mean == pytest.approx(half)


def test_the_interval_over_seeds_is_students():
    found = interval_over(np.array([1.0, 2.0, 3.0, 4.0]))
    assert (found.low, found.high) == (
        pytest.approx(0.4457, abs=1e-4),
        pytest.approx(4.5543, abs=1e-4),
    )  # t(3) = 3.1824
    assert interval_over(np.array([1.0])).low is None


def test_a_baseline_changes_no_row_and_is_written_only_where_there_is_one():
    plain = RunConfig(environment="riverswim", learner="ucbvi", episodes=500, seeds=(0,))
    measured = RunConfig(environment="riverswim", learner="ucbvi", episodes=500, seeds=(0,), baseline="always right")
    assert "baseline" not in plain.to_dict()
    assert RunConfig.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured
    assert "--baseline 'always right'" in measured.command()
    table = RunConfig(environment="riverswim", learner="ucbvi", episodes=500, seeds=(0,), baseline=[1, 1, 1, 1])
    assert RunConfig.from_dict(json.loads(json.dumps(table.to_dict()))) == table
    assert table.command().startswith("tacit.run(")
    one, other = (play(config, speed="interpreted") for config in (plain, measured))
    assert (one.regret == other.regret).all()


def test_refusals():
    with pytest.raises(NotSupported, match="has no table, so optimal is unknown there"):
        assemble(small("none", "optimal"))
    with pytest.raises(InvalidInput, match="no table"):
        assemble(small("none", "uc-o-reps", adversary="iid"))
    with pytest.raises(InvalidInput, match="unknown baseline"):
        assemble(small("none", "ucbvi", baseline="deal"))
    with pytest.raises(InvalidInput, match=r"tacit\.live"):
        RunConfig(environment=3, episodes=10, seeds=(0,))  # type: ignore[arg-type]


def test_the_command_line_takes_live_worlds_and_baselines(tmp_path):
    runner = CliRunner()
    words = ["run", "--environment", BLACKJACK, "--learner", "bucb", "--episodes", "300", "--baseline", "dealer"]
    done = runner.invoke(app, [*words, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "return per user" in done.output
    assert "against the baseline 'dealer'" in done.output
    listed = runner.invoke(app, ["list", "environments"]).output
    assert "gymnasium:CartPole-v1" in listed
    file = tmp_path / "games.toml"
    file.write_text(
        f'[defaults]\nenvironment = "{BLACKJACK}"\nepisodes = 300\nseeds = 1\nbaseline = "dealer"\n'
        '[[run]]\nlearner = "bucb"\n[[run]]\nlearner = "uniform"\n'
    )
    done = runner.invoke(app, ["compare", str(file), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "returns (simulation only)" in done.output
    assert (tmp_path / "out" / "regret.png").is_file()
