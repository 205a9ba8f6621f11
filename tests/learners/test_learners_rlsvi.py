"""RLSVI: the law of its values, that exploration is post-processing, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from papers.frontier.rlsvi import certified
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.rlsvi import perturbed
from tacit.planning.flow_projection import counters_of
from tacit.planning.weighted_rows import blank_rows
from tacit.released.counts import CountShape
from tacit.runs.config import RunConfig

COMMON = {"environment": "riverswim", "episodes": 4_000, "seeds": (0, 1), "constants": "practical", "workers": 1}
CENTRAL = {"trust": "central", "epsilon": 10.0, "delta": 1e-6}


@pytest.fixture
def model():
    """One step, two states; state 1 has a row of which nothing is known."""
    shape = CountShape(horizon=1, num_states=2, num_actions=2, staged=True)
    rows = blank_rows(counters_of(shape, False), 1)
    rows.r[:] = [[[0.5, 0.5], [0.9, 0.0]]]
    rows.n[:] = [[[100.0, 25.0], [100.0, 0.0]]]
    rows.reward_variance[:] = 400.0
    return rows


@pytest.mark.statistical
def test_policies_have_the_law_of_gaussian_values(model):
    # Two actions of equal mean are chosen alike whatever their noise; 20,000 draws, standard error 0.0035, 6 of them.
    drawn = perturbed(model, 1, 1.0, "added", 20_000, np.random.default_rng(0))
    assert abs(drawn[:, 0, 0].mean() - 0.5) < 0.021
    # An unknown row has N(0, 1) clipped to [0, 1] against about 0.9 ± 0.03: better with probability 1 - Φ(0.9) = 0.184.
    assert abs(drawn[:, 0, 1].mean() - 0.184) < 0.03
    # Means 0.5 and 0.4, deviations 0.05 and 0.1: the second is better with probability Φ(-0.1/0.112) = 0.186; with the
    # released noise of 20/100 and 20/25 in w it is nearly a coin.
    model.r[0, 0, 1] = 0.4
    drawn, full = (
        perturbed(model, 1, 1.0, kind, 20_000, np.random.default_rng(0))[:, 0, 0] for kind in ("added", "full")
    )
    assert abs(drawn.mean() - 0.186) < 0.03
    assert full.mean() > 0.3


def test_with_the_released_noise_alone_all_policies_are_greedy(model):
    drawn = perturbed(model, 1, 1.0, "released", 50, np.random.default_rng(0))
    assert set(drawn[:, 0, 1]) == {0}
    assert set(drawn[:, 0, 0]) == {0, 1}  # a tie


def test_its_releases_and_certificate_are_those_of_bucb():
    runs = {name: tacit.run(learner=name, **COMMON, **CENTRAL) for name in ("bucb", "rlsvi", "rlsvi:explore=released")}
    events = {name: found.certificate.epsilon for name, found in runs.items()}
    assert len(set(events.values())) == 1
    # It learns: a third of the uniform policy's regret and less, at seeds that are fixed
    rlsvi = runs["rlsvi"]
    assert rlsvi.regret[:, -1].mean() < 0.5 * rlsvi.uniform_regret * 4_000


def test_what_it_refuses():
    with pytest.raises(InvalidInput, match="no theorem"):
        tacit.run(learner="rlsvi", **{**COMMON, "constants": "theory"})
    with pytest.raises(NotSupported, match="declared support"):
        tacit.run(learner="rlsvi", support="declared", **COMMON)
    with pytest.raises(InvalidInput, match="explore"):
        tacit.run(learner="rlsvi:explore=more", **COMMON)
    assert RunConfig(environment="riverswim", learner="rlsvi", episodes=100, seeds=(0,)).learner == "rlsvi"


def test_exploration_noise_alone_certifies_little_and_visits_would_help():
    # μ² falls with 1/n: four times the visits halve μ, and one visit is worth no guarantee
    assert certified(6, 1) > 20
    assert certified(6, 400) < 1 < certified(6, 100)
    assert certified(6, 400, 20) > certified(6, 400)
