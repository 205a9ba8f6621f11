"""The experiment frontier/central: its table of certified epsilons, its grid and its report."""

from __future__ import annotations

import pytest

from papers.catalogue import experiment_named
from papers.frontier import central as frontier
from tacit.runs.assemble import assemble
from tacit.runs.runner import run


@pytest.mark.parametrize(("horizon", "epsilon"), sorted(frontier.PAPER_EPSILON))
def test_the_table_says_what_the_accountant_finds_rounded_up(horizon, epsilon):
    environment = next(name for name, steps in frontier.ENVIRONMENTS.items() if steps == horizon)
    label = f"paper tree, ε={epsilon:g}"
    config = next(
        it.config for it in frontier.runs("paper") if it.label == label and it.config.environment == environment
    )
    assert assemble(config).mdp.horizon == horizon
    found = assemble(config).certificate.epsilon
    assert found <= frontier.PAPER_EPSILON[horizon, epsilon] <= found * 1.001


def test_the_grid_has_every_environment_epsilon_and_both_calibrations():
    runs = experiment_named("frontier/central").runs("paper")
    for environment in frontier.ENVIRONMENTS:
        here = [it.config for it in runs if it.config.environment == environment]
        assert {config.epsilon for config in here} >= set(frontier.EPSILONS)
        for epsilon in frontier.EPSILONS:
            private = {(it.calibration, it.mechanism) for it in here if it.epsilon == epsilon}
            assert private >= {("paper", None), ("tight", "factorization"), ("tight", "batched-factorization")}
        assert all(len(config.seeds) == 20 and config.episodes == 20_000 for config in here)
    assert len({(it.config.environment, it.label) for it in runs}) == len(runs)
    shown = [it for it in runs if it.label.endswith("ε=1")]
    assert {it.config.delta for it in shown} == {1e-6}


def test_the_summary_names_guarantee_noise_and_regret():
    result = run(
        environment="riverswim", learner="dp-ucbvi", episodes=50, seeds=2, trust="central", epsilon=1.0, delta=1e-6
    )
    table = frontier.summary_table([result]).splitlines()
    assert len(table) == 3
    cells = [cell.strip() for cell in table[2].split("|")[1:-1]]
    assert cells[0] == "riverswim"
    assert float(cells[2]) == pytest.approx(1.0, rel=1e-3)
    std = assemble(result.config).privatizer.noise_std()["transitions"]
    assert float(cells[3]) == pytest.approx(std, rel=1e-3)
    assert cells[4].startswith(f"{result.regret[:, -1].mean():,.0f} ±")
