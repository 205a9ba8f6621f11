"""Gaussian policies on the dose bandit: closed forms, clipping, and learning."""

import math

import numpy as np
import pytest

from tacit.data.gradients import Bounds, add_dose_gradients, prepare_clinic
from tacit.environments.bandits import DoseBandit, dose_bandit
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.judges.softmax import dose_truth
from tacit.simulation.simulate import simulate


def test_the_objective_is_the_integral_and_its_gradient_the_difference():
    bandit, theta = dose_bandit(contexts=3, seed=2), np.array([0.2, -0.1, 0.4])
    a = np.linspace(-8, 8, 20_001)
    slow = 0.0
    for s in range(3):
        mean = bandit.features[s] @ theta
        density = np.exp(-0.5 * ((a - mean) / 0.5) ** 2) / (0.5 * math.sqrt(2 * math.pi))
        slow += bandit.rho[s] * float((density * np.exp(-((a - bandit.target[s]) ** 2) / 2)).sum() * (a[1] - a[0]))
    assert bandit.objective(theta) == pytest.approx(slow, abs=1e-9)
    gradient, means = np.zeros(3), np.zeros(3)
    value = dose_truth(prepare_clinic(bandit), np.array(bandit.rho), theta, means, gradient)
    assert value == pytest.approx(bandit.objective(theta))
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        slope = (bandit.objective(theta + step) - bandit.objective(theta - step)) / 2e-6
        assert gradient[j] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("contexts", [2, 8])
def test_the_fisher_matrix_is_the_same_multiple_of_the_identity_in_every_dimension(contexts):
    bandit = dose_bandit(contexts=contexts)
    fisher = np.einsum("s,si,sj->ij", bandit.rho, bandit.features, bandit.features) / bandit.deviation**2
    np.testing.assert_allclose(fisher, 4.0 * np.eye(contexts))


def test_scores_are_unbounded_and_contributions_are_not():
    bandit = dose_bandit(contexts=2)
    clinic, pulls = prepare_clinic(bandit), np.zeros(2)
    for action in (0.1, 1e3, -1e9, math.inf, math.nan):
        for clip in (0.5, 3.0):
            bounds = Bounds(low=0.0, high=1.0, clip=clip, surrogate=math.inf)
            add_dose_gradients(
                bounds,
                clinic,
                np.zeros(2),
                np.zeros(1, int),
                np.array([action]),
                np.ones(1),
                np.ones(1, bool),
                0.0,
                pulls,
            )
            assert np.linalg.norm(pulls @ bandit.features) <= clip
            assert pulls.any() == math.isfinite(action)


def config(**more):
    given = {"environment": "dose-bandit:contexts=2", "learner": "dp-pg:policy=gaussian", "episodes": 100_000}
    return RunConfig(**{**given, "seeds": (0,), "trust": "central", "epsilon": 1.0, "delta": 1e-5, **more})


def test_private_gaussian_policies_find_the_dose():
    parts = assemble(config())
    # From Python: the fused loop of doses is compiled, and compared with this one, in `test_loop_registered`.
    found = simulate(
        parts.mdp, parts.learner, parts.privatizer, episodes=100_000, seed=0, speed="interpreted"
    ).objective
    first = dose_bandit(contexts=2).objective(np.zeros(2))
    assert parts.certificate.holds
    assert found.optimal - found.final < 0.1 * (found.optimal - first)
    assert found.optimal == pytest.approx(1 / math.sqrt(1.25))


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(InvalidInput, match="needs policy=gaussian"):
        assemble(config(learner="dp-pg"))
    with pytest.raises(InvalidInput, match="real-valued actions"):
        assemble(config(environment="contextual-bandit"))
    with pytest.raises(NotSupported, match="dp-pg"):
        assemble(config(learner="dp-ppo:policy=gaussian"))
    impossible = DoseBandit(
        features=np.ones((2, 1)), rho=np.full(2, 0.5), target=np.array([0.0, 1.0]), width=1.0, deviation=0.5
    )
    with pytest.raises(InvalidInput, match="linear in the features"):
        print(impossible.optimal_value)
