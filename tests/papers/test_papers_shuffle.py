"""Both versions of SDP-PE and the added experiments of garcelon2021local: options, closed forms, averages, figures."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tacit
from papers.bai2024shuffle import elimination
from papers.bai2024shuffle.experiments import ablation_runs, complete_stages, constant_runs, growth_runs
from papers.catalogue import EXPERIMENTS, title_of
from papers.garcelon2021local import amplification, bound, noise, sizes
from papers.redraw import redraw
from papers.thinning import thin
from tacit.environments.registry import make
from tacit.errors import InvalidInput
from tacit.learners.sdp_pe import SDPPE, Rules, stage_lengths, xi
from tacit.released.counts import CountShape, empty_counts
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig
from tacit.runs.figures import NAMED, STYLES, style_of

RESULTS = Path(__file__).parents[2] / "results"
SMALL = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)


def learner(options: str, episodes: int = 3_000, constants: str = "theory") -> SDPPE:
    config = RunConfig(
        environment="random-mdp:seed=3", learner=f"sdp-pe:{options}", episodes=episodes, seeds=(0,), constants=constants
    )
    return assemble(config).learner


def test_c_scales_the_width_and_belongs_to_the_theorem():
    assert learner("C=0.1").width(64, 3.0) == pytest.approx(0.1 * learner("variant=2025").width(64, 3.0))
    assert learner("variant=2025").width(64, 3.0) == xi("2025", SMALL, learner("variant=2025").iota, 64, 3.0)
    # ι = ln(2 H X² A K / δ) with the δ of the option, which batches count with, too.
    told = learner("failure_prob=0.001")
    assert told.iota == pytest.approx(math.log(2 * 2 * 2**2 * 2 * 3_000 / 0.001))
    assert told.iota == pytest.approx(learner("variant=2025").iota + math.log(50.0))
    assert told._requests[0].failure_prob == pytest.approx(learner("variant=2025")._requests[0].failure_prob / 50.0)
    for bad in (
        "C=0",
        "C=no",
        "C=nan",
        "C1=-1",
        "growth=1",
        "first=2.5",
        "first=1",
        "failure_prob=0",
        "failure_prob=2",
    ):
        with pytest.raises(InvalidInput):
            learner(bad)
    with pytest.raises(InvalidInput, match="theory"):
        learner("C=0.1", constants="practical")


def test_the_schedule_grows_as_told_and_uses_everybody_up():
    assert stage_lengths(3_000, SMALL, "2025", Rules(growth=4.0, first=8)) == (8, 32, 128, 512, 320)
    assert stage_lengths(3_000, SMALL, "2025", Rules(first=64)) == (64, 128, 256, 512, 40)
    # Fixed √K = 55, b² but at least 2H, APEVE's K^(1 - 2^-b) = 55, 406, 1,103 (what is left: 539).
    assert set(stage_lengths(3_000, SMALL, "2025", Rules(schedule="fixed"))[:-1]) == {55}
    assert stage_lengths(3_000, SMALL, "2025", Rules(schedule="polynomial"))[:5] == (4, 4, 9, 16, 25)
    assert stage_lengths(3_000, SMALL, "2025", Rules(schedule="apeve")) == (55, 406, 539)
    for options in ("growth=4", "first=64", "variant=2024,growth=8"):
        assert sum(step.users for step in learner(options).steps) == 3_000


def test_what_is_not_forgotten_is_joined():
    joined = learner("forget=false")
    assert joined.rules.forget is False
    fine = tuple(
        empty_counts(SMALL)._replace(visits=np.full((2, 2, 2), visits), users=np.array([users]))
        for visits, users in ((3.0, 8), (5.0, 16))
    )
    counts, E, L = joined._joined(fine)
    # Under the theorem's constants: sums of counts, of E (none here) and of the first two L.
    assert (counts.visits == 8.0).all()
    assert (E, L) == (0.0, sum(stage_lengths(3_000, SMALL, "2025")[:2]))


def test_nothing_is_eliminated_before_the_first_users_and_something_after():
    found = elimination.first_users("random-mdp:seed=3", "2025", {})
    assert found["users"] == 3_072
    assert found["threshold"] < found["range"] == 2.0
    run = {"environment": "random-mdp:seed=3", "learner": "sdp-pe", "constants": "theory", "workers": 1, "seeds": 3}
    before = tacit.run(episodes=found["users"] // 2, **run)
    after = tacit.run(episodes=16 * found["users"], **run)
    last = np.diff(after.regret, axis=1)[:, -1] / np.diff(after.episodes)[-1]
    assert before.regret[:, -1].mean() > 0.9 * before.uniform_regret * before.config.episodes
    assert (last < 1e-6).all()


def test_the_committed_table_of_first_users_is_the_closed_form():
    rows = json.loads((RESULTS / "bai2024shuffle/elimination/elimination.json").read_text(encoding="utf-8"))["first"]
    public = [row for row in rows if row["noise"] == "no privacy"]
    assert len(public) == 6
    for row in public:
        assert row["users"] == elimination.first_users(row["environment"], row["version"], {})["users"]


def test_runs_end_with_whole_stages():
    for run in (*growth_runs("paper")[:1], *ablation_runs("paper")[:1], *constant_runs("paper")[:1]):
        variant = run.config.learner.partition("variant=")[2][:4]
        whole = complete_stages(str(run.config.environment).partition(",gap")[0], variant, run.config.episodes)
        assert run.config.episodes == whole


def test_the_lower_bound_is_held_by_the_average_over_all_pairs():
    runs = bound.runs("paper")
    one = [run for run in runs if run.label == runs[0].label]
    assert len({run.config.environment for run in one}) == len(bound.PAIRS) == 9
    assert len({seed for run in one for seed in run.config.seeds}) == 9 * len(one[0].config.seeds)
    path = RESULTS / "garcelon2021local/lower-bound/lower-bound.json"
    points = json.loads(path.read_text(encoding="utf-8"))["averages"]
    proof = [point for point in points if point["panel"] == bound.PROOF]
    assert len(proof) == 3 * 2 * 4
    assert all(point["pairs"] == 9 and point["regret"] > 2.0 * point["bound"] for point in proof)


def test_sizes_vary_one_thing_at_a_time():
    assert len(sizes.sizes("paper")) == 7
    assert all(sorted(size.values())[:2] == [2, 2] for size in sizes.sizes("paper"))
    path = RESULTS / "garcelon2021local/table1/table1.json"
    lines = json.loads(path.read_text(encoding="utf-8"))["lines"]
    assert all(
        line["powers"][axis]["power"] < line["printed"][axis] for line in lines for axis in ("states", "horizon")
    )


def test_eq_113_falls_while_every_report_is_linked():
    values = [amplification.amplified(10**j, 2, 0.2, 1e-6) for j in (4, 6, 8)]
    assert values[0] > values[1] > values[2] > 0.0
    assert amplification.linked_share(0.2, users=20) == 1.0
    # Twice the level halves nothing but the denominator: e^(ε/H) - 1.
    ratio = amplification.regret_bound(2, 2, 2, 100, 2.0) / amplification.regret_bound(2, 2, 2, 100, 4.0)
    assert ratio == pytest.approx(math.expm1(2.0) / math.expm1(1.0))


def test_figure_9_compares_two_possible_trajectories_that_differ_in_the_papers_cell():
    mdp, shown = make(noise.ENVIRONMENT), noise.two_trajectories()
    assert noise.CELL[1:] == (0, 1)
    assert mdp.r[0, 0].tolist() == [0.0, 1.0]
    assert shown["X"][1] != shown["X'"][1]
    for steps, inside in shown.values():
        assert inside == sum(reward for s, a, reward in steps if (s, a) == (0, 1))
        for h, ((s, a, reward), following) in enumerate(pairwise(steps)):
            assert reward == mdp.r[h, s, a]
            assert mdp.P[h, s, a, following[0]] > 0.0
    for name in ("fig8", "fig9"):
        kept = json.loads((RESULTS / f"garcelon2021local/{name}/{name}.json").read_text(encoding="utf-8"))
        assert all(len(h["edges"]) == len(h["counts"]) + 1 for h in kept["histograms"])


def test_a_learner_has_one_colour_everywhere():
    lines = ["UCB-VI", "PE", "SDP-PE tight, ε=1", "SDP-PE printed, ε=1", "mine", "yours"]
    found = {line: style_of(line, lines) for line in lines}
    assert found["SDP-PE tight, ε=1"][0] == found["SDP-PE printed, ε=1"][0] == STYLES[NAMED["SDP-PE"]][0]
    assert len({style[1:] for style in found.values()}) == len(lines)
    assert len({found[line][0] for line in ("UCB-VI", "PE", "mine", "yours", lines[2])}) == 5
    many = [f"line {i}" for i in range(20)]  # more lines than styles: dash and marker still tell them apart
    assert len({style_of(line, many)[1:] for line in many}) == len(many)


def test_figures_say_what_they_reproduce_and_are_drawn_again_from_rows(tmp_path, monkeypatch):
    assert all(title_of(name, "paper").startswith("Reproduction of ") for name in EXPERIMENTS if "/fig" in name)
    config = RunConfig(environment="random-mdp:seed=3", learner="uniform", episodes=60, seeds=(0, 1), checkpoints=10)
    runs = (Run(label="uniform", config=config),)
    from papers import catalogue

    monkeypatch.setitem(catalogue.EXPERIMENTS, "toy/again", catalogue.Experiment(summary="toy", runs=lambda _: runs))
    made = run_comparison(runs, name="toy/again", out=tmp_path / "runs", command="none", workers=1)
    thin(tmp_path / "runs", tmp_path / "toy" / "again")
    (drawn,) = redraw("toy/again", tmp_path)
    assert drawn.is_file()
    from papers.redraw import committed_results

    # A figure of other numbers is painted from the file that it wrote beside itself, without its rows.
    place = tmp_path / "bai2024shuffle" / "constants"
    place.mkdir(parents=True)
    numbers = (RESULTS / "bai2024shuffle/constants/constants.json").read_bytes()
    (place / "constants.json").write_bytes(numbers)
    (painted,) = redraw("bai2024shuffle/constants", tmp_path)
    assert painted.is_file()
    assert (place / "constants.json").read_bytes() == numbers
    (result,) = committed_results("toy/again", tmp_path)
    np.testing.assert_allclose(result.regret[:, -1], made[0].regret[:, -1], rtol=1e-6)
