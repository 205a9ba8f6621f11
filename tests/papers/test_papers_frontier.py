"""The frontier page: it borrows the central runs of `frontier/central`, and its figure tells the truth."""

import shutil

import numpy as np
import pytest

import tacit
from tacit.papers.frontier import central as frontier_central
from tacit.papers.frontier import page as frontier
from tacit.runs.comparison import borrow_finished
from tacit.runs.config import RunConfig, as_seeds


def test_every_trust_model_stands_in_both_calibrations_on_four_environments():
    found = frontier.runs("paper")
    assert len({run.config.world_name for run in found}) == 4
    for trust in ("central", "shuffle", "local"):
        for calibration in ("tight", "paper"):
            mine = [r.config for r in found if (r.config.trust, r.config.calibration) == (trust, calibration)]
            assert {c.epsilon for c in mine} == {0.1, 1.0, 10.0}
            assert all(len(c.seeds) == 20 and c.constants == "practical" for c in mine)


def test_the_short_central_runs_are_those_of_the_central_frontier():
    known = {(run.label, run.config) for run in frontier_central.runs("paper")}
    short = [r for r in frontier.runs("paper") if r.config.trust == "central" and r.config.episodes == frontier.SHORT]
    assert len(short) == 24
    assert {(run.label, run.config) for run in short} <= known


@pytest.fixture(scope="module")
def few():
    options = {"environment": "riverswim", "episodes": 300, "seeds": 3, "workers": 1}
    return [
        tacit.run(learner="ucbvi", constants="practical", **options),
        tacit.run(learner="ldp-obi", constants="practical", trust="local", epsilon=10.0, delta=0.0, **options),
        tacit.run(learner="ldp-obi", constants="practical", trust="local", epsilon=1.0, delta=0.0, **options),
    ]


def test_points_stand_at_the_certified_epsilon(few, tmp_path):
    figure = frontier.FrontierFigure().draw(few, tmp_path / "frontier.png", title="frontier")
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    (line,) = (c.lines[0] for c in figure.axes[0].containers)
    assert line.get_xdata() == pytest.approx([few[2].certificate.epsilon, few[1].certificate.epsilon])
    shares = [r.regret[:, -1].mean() / (r.uniform_regret * 300) for r in (few[2], few[1])]
    assert line.get_ydata() == pytest.approx(shares)
    for result in few:
        mean, low, high = frontier.share_interval(result)
        assert low <= mean <= high
    table = frontier.summary_table(few)
    assert len(table.splitlines()) == 5
    assert f"{few[1].certificate.epsilon:.4g}" in table


def test_runs_of_a_child_are_borrowed(tmp_path):
    config = RunConfig(environment="riverswim", learner="uniform", episodes=10, seeds=as_seeds(1))
    child = tmp_path / "frontier" / "central" / "paper" / "riverswim" / "uniform"
    tacit.run(environment="riverswim", learner="uniform", episodes=10, seeds=1, out=child, workers=1)
    root = tmp_path / "frontier" / "paper"
    told = []
    assert borrow_finished({"riverswim/uniform": config}, root, notify=told.append) == 1
    assert np.array_equal(tacit.load(root / "riverswim" / "uniform").regret, tacit.load(child).regret)
    shutil.rmtree(root)
    other = RunConfig(environment="riverswim", learner="uniform", episodes=11, seeds=as_seeds(1))
    assert borrow_finished({"riverswim/uniform": other}, root, notify=told.append) == 0
