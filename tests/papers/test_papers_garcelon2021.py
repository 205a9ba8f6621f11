"""The experiments of garcelon2021local: what they run, what they share, what is kept of them."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from papers.catalogue import EXPERIMENTS
from papers.frontier import local as frontier_local
from papers.garcelon2021local import bound as garcelon2021_bound
from papers.garcelon2021local import collusion
from papers.garcelon2021local import experiments as garcelon2021
from papers.garcelon2021local import noise as garcelon2021_noise
from papers.panels import PanelFigure
from papers.thinning import thin
from tacit.environments.registry import make
from tacit.errors import InvalidInput
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig, as_seeds

FIGURES = ["fig1", "fig2", "fig2-printed", "fig4", "fig5", "fig6", "fig7"]


@pytest.mark.parametrize("name", FIGURES)
def test_full_size_is_the_papers(name):
    runs = EXPERIMENTS[f"garcelon2021local/{name}"].runs("paper")
    for run in runs:
        config = run.config
        assert (config.episodes, len(config.seeds)) == (10**8, 20)
        parts = assemble(config)
        mdp = parts.mdp
        assert (mdp.num_states, mdp.num_actions, mdp.horizon) == (2, 2, 2)
        assert not parts.learner.shape.staged
        if config.trust == "local" and config.calibration == "tight":
            assert parts.certificate.holds
    epsilons = {run.config.epsilon for run in runs} - {None}
    assert epsilons == {"fig4": {0.2}, "fig5": {2.0}, "fig6": {20.0}}.get(name, {0.2, 2.0, 20.0})


def test_figures_two_to_six_show_every_mechanism_in_both_calibrations():
    found = {(r.config.mechanism, r.config.calibration) for r in garcelon2021.mechanism_runs("paper")}
    expected = {(m, c) for m in ("laplace", "gaussian", "rr", "bounded") for c in ("paper", "tight")}
    assert found - {(None, "tight")} == expected | {("oue", "tight"), ("subset", "tight")}


def test_the_printed_twin_has_the_lines_of_the_paper_and_the_other_reading_of_prop_10():
    runs = garcelon2021.printed_runs("paper")
    assert len(runs) == 1 + 5 * 3
    for run in runs[1:]:
        assert (run.config.constants, run.config.calibration) == ("printed", "paper")
        assert run.config.delta == (0.1 if run.config.mechanism.startswith(("gaussian", "bounded")) else 0.0)
    assert {run.config.mechanism for run in runs[1:]} == {
        "laplace",
        "gaussian:c=proof",
        "gaussian:c=statement",
        "rr",
        "bounded",
    }


def small(learner: str, label: str) -> Run:
    config = RunConfig(environment="random-mdp:seed=3", learner=learner, episodes=60, seeds=as_seeds(2))
    return Run(label=label, config=config)


def test_finished_runs_are_borrowed_and_unequal_ones_are_not(tmp_path):
    shared, other = small("psrl:time_homogeneous=true", "PSRL"), small("ucbvi:time_homogeneous=true", "UCB-VI")
    first = tmp_path / "figA" / "smoke"
    before = run_comparison([shared], name="a", out=first, command="c", workers=1)
    told: list[str] = []
    second = tmp_path / "figB" / "smoke"
    after = run_comparison(
        [shared, other], name="b", out=second, command="c", workers=1, borrow=True, notify=told.append
    )
    assert [line for line in told if "copied" in line]
    np.testing.assert_array_equal(before[0].regret, after[0].regret)
    changed = Run(label="PSRL", config=RunConfig.from_dict({**shared.config.to_dict(), "episodes": 61}))
    told.clear()
    run_comparison([changed], name="c", out=tmp_path / "figC" / "smoke", command="c", workers=1, borrow=True,
                   notify=told.append)  # fmt: skip
    assert not [line for line in told if "copied" in line]


def test_thinning_keeps_the_end_of_every_run_and_names_what_is_missing(tmp_path):
    runs = [small("psrl:time_homogeneous=true", "PSRL"), small("uniform", "uniform")]
    source = tmp_path / "all"
    comparison = run_comparison(runs, name="a", out=source, command="c", workers=1)
    (source / "random-mdp-seed-3" / "uniform" / "results.parquet").unlink()
    summary = thin(source, tmp_path / "kept")
    assert [(cell["run"], cell["complete"], cell["seeds"]) for cell in summary["runs"]] == [
        ("PSRL", True, "2 of 2"), ("uniform", False, "2 of 2"),
    ]  # fmt: skip
    table = pq.read_table(tmp_path / "kept" / "results.parquet").to_pydict()
    last = [r for r, episode in zip(table["regret"], table["episode"], strict=True) if episode == 60]
    np.testing.assert_allclose(last, comparison[0].regret[:, -1], rtol=1e-6)
    assert json.loads((tmp_path / "kept" / "cells.json").read_text())["experiment"] == "a"
    with pytest.raises(InvalidInput, match=r"comparison\.json"):
        thin(tmp_path, tmp_path / "nothing")


def test_a_reference_stands_in_every_panel(tmp_path):
    results = run_comparison([small("psrl:time_homogeneous=true", "PSRL"), small("uniform", "uniform")], name="a",
                             out=None, command="c", workers=1).results  # fmt: skip
    spec = PanelFigure(name="f", panels=lambda r: ("one", "two") if r.label == "uniform" else ("two",))
    figure = spec.draw(results, tmp_path / "f.png", title="t")
    assert {ax.get_title(loc="left") for ax in figure.axes} == {"one", "two"}
    assert (tmp_path / "f.png").is_file()


def test_hard_instances_have_the_proofs_gap():
    # Δ = √(LA/K)/(16√2 min{e^ε - 1, ½}); regret of never finding the pair, (H-d) Δ K, is above Eq. 28
    for K, epsilon in ((10_000, 0.2), (10**6, 2.0)):
        gap = garcelon2021_bound.hard_gap(K, epsilon)
        assert gap == pytest.approx(math.sqrt(9 / K) / (16 * math.sqrt(2) * min(math.expm1(epsilon), 0.5)))
        assert 3 * gap * K > garcelon2021_bound.least_regret(K, epsilon)
    names = {run.config.environment for run in garcelon2021_bound.runs("paper")}
    for name in names:
        mdp = make(name)
        assert (mdp.num_states, mdp.num_actions, mdp.horizon) == (6, 3, 5)


def test_collusion_is_certified_over_every_composition_of_the_other_bits():
    # Six people, written anew: all 64 outcomes of the bits, their sums, and the hockey-stick divergence in both orders.
    people, local = 6, 1.5
    flip = 1.0 / (1.0 + math.exp(local))

    def law(bits):
        sums = np.zeros(people + 1)
        for said in itertools.product((0, 1), repeat=people):
            sums[sum(said)] += math.prod(flip if a != b else 1.0 - flip for a, b in zip(bits, said, strict=True))
        return sums

    for zeros in range(people):
        others = [0] * zeros + [1] * (people - 1 - zeros)
        P, Q = law([1, *others]), law([0, *others])
        for epsilon in (0.0, 0.4, 1.0):
            exact = max(np.maximum(P - math.exp(epsilon) * Q, 0).sum(), np.maximum(Q - math.exp(epsilon) * P, 0).sum())
            assert collusion.missed(epsilon, local, people, zeros) == pytest.approx(exact, abs=1e-12)
    found = collusion.central_epsilon(local, people, 1e-2)
    worst = [max(collusion.missed(e, local, people, a) for a in range(people)) for e in (found, found - 1e-6)]
    assert worst[0] <= 1e-2 < worst[1]
    assert found < local


def test_the_committed_numbers_of_collusion_are_those_of_today():
    path = Path(__file__).parents[2] / "results/garcelon2021local/collusion/collusion.json"
    points = json.loads(path.read_text(encoding="utf-8"))["points"]
    assert [(one["people"], one["local"]) for one in points] == [
        (n, local) for n in collusion.PEOPLE for local in collusion.EPSILONS
    ]
    for one in points:
        if one["people"] == 100:
            assert one["central"] == pytest.approx(collusion.central_epsilon(one["local"], 100), rel=1e-9)


@pytest.mark.statistical
def test_fig8_totals_are_those_of_ucbvi():
    totals = garcelon2021_noise.collect_totals(20)
    assert totals.shape == (20,)
    assert ((totals >= 0) & (totals <= 2 * garcelon2021_noise.EPISODES)).all()
    assert totals.max() > 100  # the cell pays


def test_frontier_compares_one_guarantee():
    runs = frontier_local.runs("paper")
    environments = {run.config.environment for run in runs}
    assert len([name for name in environments if name.startswith("random-mdp")]) >= 10
    assert {"riverswim", "treatment"} <= environments
    for run in runs:
        assert len(run.config.seeds) == 20
        assert run.config.constants == "practical"
        if run.config.trust == "local":
            parts = assemble(run.config)
            assert parts.certificate.epsilon <= frontier_local.EPSILON * (1 + 1e-9)


def test_ratio_interval_is_paired():
    # The paper's regret is exactly twice ours, seed by seed: so is every resampled ratio.
    results = run_comparison(
        [small("psrl:time_homogeneous=true", "PSRL")], name="a", out=None, command="c", workers=1
    ).results
    double = replace(results[0], regret=2.0 * results[0].regret + 0.0)
    ratio, low, high = frontier_local.ratio_interval(double, results[0])
    assert (ratio, low, high) == pytest.approx((2.0, 2.0, 2.0))
