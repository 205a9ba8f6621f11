"""Adversarial losses through `tacit.run`: results, their directories, figures, and the experiments of the paper."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import tacit
from papers.bai2024adversarial import experiments as runs
from papers.bai2024adversarial.figures import EpsilonFigure, GrowthFigure, SupportFigure, curves_of
from papers.catalogue import EXPERIMENTS
from tacit.environments.layered import layered
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.comparison import run_comparison
from tacit.runs.config import RunConfig
from tacit.runs.figures import plot

WORLD = "layered:layers=3,states=2,actions=2,seed=1"


def run(**changes):
    options = {"environment": WORLD, "adversary": "switching", "learner": "uc-o-reps", "episodes": 80, "workers": 1}
    return tacit.run(**{**options, "seeds": 2, "checkpoints": 6, **changes})


def test_a_result_survives_its_directory(tmp_path) -> None:
    kept = run(out=tmp_path / "a", trust="local", epsilon=3.0, delta=0.0)
    back = tacit.load(tmp_path / "a")
    assert (back.regret == kept.regret).all()
    assert back.losses == kept.losses
    assert back.resolved == kept.resolved
    assert back.to_json()["losses"] == kept.to_json()["losses"]
    assert (run(out=tmp_path / "a", trust="local", epsilon=3.0, delta=0.0).regret == kept.regret).all()
    with pytest.raises(InvalidInput, match="adversary"):
        run(out=tmp_path / "a", trust="local", epsilon=3.0, delta=0.0, adversary="iid")
    again = back.save(tmp_path / "b")
    assert tacit.load(again).losses == kept.losses


def test_configurations_are_written_so_that_they_can_be_typed() -> None:
    config = RunConfig(
        environment=WORLD,
        adversary="switching:segments=3",
        learner="uob-lbps",
        episodes=9,
        seeds=(0,),
        estimator="as-written",
    )
    assert RunConfig.from_dict(config.to_dict()) == config
    assert "--adversary switching:segments=3 --estimator as-written" in config.command()
    plain = RunConfig(environment="riverswim", learner="ucbvi", episodes=9, seeds=(0,))
    assert not {"adversary", "estimator", "public_losses"} & set(plain.to_dict())


def test_losses_and_worlds_can_be_handed_over(tmp_path) -> None:
    mine = np.random.default_rng(0).random((80, 5, 2))
    given = run(adversary=mine)
    np.save(tmp_path / "mine.npy", mine)
    named = run(adversary=f"table:path={tmp_path / 'mine.npy'}")
    assert (given.regret == named.regret).all()
    assert given.resolved.fingerprint == named.resolved.fingerprint
    assert given.resolved.fingerprint != run(adversary=1.0 - mine).resolved.fingerprint
    world = layered(layers=3, states=2, actions=2, seed=1).mdp
    assert (run(environment=world, adversary=mine).regret == given.regret).all()
    with pytest.raises(NotSupported, match="name them instead"):
        run(adversary=mine, out=tmp_path / "kept")
    for bad in (mine - 1.0, mine * np.nan, mine[:5], mine[:, :2]):
        with pytest.raises(InvalidInput, match="losses must"):
            run(adversary=bad)


def test_rows_do_not_depend_on_the_workers() -> None:
    assert (run(workers=2).regret == run(workers=1).regret).all()


def test_the_regret_of_seeds_is_against_their_own_hindsight() -> None:
    found = run(seeds=3, adversary="iid", episodes=400)
    uniform = np.array([measures.uniform[-1] for measures in found.losses])
    assert len(set(uniform.tolist())) == 3
    assert found.relative_regret == pytest.approx(found.regret[:, -1].mean() / uniform.mean())
    assert found.to_json()["relative_regret"] == found.relative_regret
    # Expected values per episode: minus losses, the best fixed policy first.
    assert found.resolved.uniform_value < found.resolved.optimal_value < 0.0


def test_figures_show_the_uniform_and_the_myopic_policy() -> None:
    figure = plot([run(environment="layered-trap")])
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert any("uniform policy" in text for text in texts)
    assert any("myopic policy" in text for text in texts)


def small(found):
    """The same experiment with one seed and few episodes."""
    return [
        dataclasses.replace(one, config=dataclasses.replace(one.config, episodes=one.config.episodes // 30, seeds=(0,)))
        for one in found
    ]


def test_every_experiment_of_the_paper_runs_and_is_drawn(tmp_path) -> None:
    for name, figures in (
        ("table1", (GrowthFigure(), EpsilonFigure())),
        ("estimator", (GrowthFigure(),)),
        ("support", (SupportFigure(),)),
    ):
        asked = EXPERIMENTS[f"bai2024adversarial/{name}"].runs("smoke")
        labels = [(one.config.environment_name, one.label) for one in asked]
        assert len(set(labels)) == len(labels)
        comparison = run_comparison(small(asked), name=name, out=None, command="test", workers=1)
        for figure in figures:
            path = tmp_path / f"{name}-{figure.name}.png"
            figure.draw(comparison.results, path, title=name)
            assert path.stat().st_size > 10_000
            said = json.loads(path.with_suffix(".json").read_text())
            assert said["curves"]


def test_the_table_covers_what_the_paper_claims() -> None:
    asked = runs.table_runs("paper")
    seen = {(one.config.learner, one.config.trust, one.config.constants) for one in asked}
    assert seen == {
        (learner, trust, constants)
        for learner in ("uc-o-reps", "uob-lbps")
        for trust in ("none", "central", "local")
        for constants in ("theory", "practical")
    }
    assert all(len(one.config.seeds) == 20 for one in asked)


def test_fitted_exponents_are_those_of_the_curves() -> None:
    made = [
        dataclasses.replace(
            found, regret=np.full((2, len(found.episodes)), 3.0 * found.config.episodes**0.5), label=label
        )
        for found, label in ((run(episodes=K), f"full, none, practical, K={K}") for K in (40, 160, 640))
    ]
    (curve,) = curves_of(made)
    assert curve["exponent"] == pytest.approx(0.5)
    assert curve["exponent_last"] == pytest.approx(0.5)
    assert curve["predicted"] == 0.5
    lost = [dataclasses.replace(found, regret=-found.regret) for found in made]
    assert curves_of(lost)[0]["exponent"] is None
