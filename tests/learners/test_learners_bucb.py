"""BUCB: schedule, model, reductions, and what it reaches at an equal epsilon."""

import numpy as np
import pytest

from tacit.environments.registry import make
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.bucb import BUCB
from tacit.planning.flow_projection import counters_of
from tacit.planning.weighted_rows import blank_rows, mixture_visits, row_weights
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)


def assembled(**changed):
    chosen = {"trust": "central", "epsilon": 1.0, "delta": 1e-6, "learner": "bucb", **changed}
    return assemble(RunConfig(environment="riverswim", episodes=20_000, seeds=(0,), **chosen))


def share_of_uniform(parts, seeds):
    """Simulation only: regret as a share of what uniform play costs."""
    K, (best, uniform) = parts.config.episodes, parts.values
    runs = [simulate(parts.mdp, parts.learner, parts.privatizer, episodes=K, seed=s, checkpoints=[K]) for s in seeds]
    return np.mean([run.regret[-1] for run in runs]) / (K * (best - uniform))


def test_the_schedule_grows_by_a_quarter_and_uses_up_the_run():
    learner = assembled().learner
    assert sum(learner.stages) == 20_000
    ratios = np.diff(np.log(learner.stages))
    np.testing.assert_allclose(ratios, np.log(1.25), atol=0.01)
    # 1.5 σ S A users, at most a twentieth of the run
    assert min(1.5 * learner.std * 8, 1000) <= learner.stages[0] < 1.25 * 1.5 * learner.std * 8 + 1


def test_given_sizes_are_kept():
    learner = BUCB(shape=SHAPE, episodes=5000, noise=Unprotected(shape=SHAPE, batches=()), sizes=(1000,) * 4)
    assert learner.stages == (1000,) * 5
    assert [batch.users for batch in learner.batches] == [1000] * 4


def test_without_noise_every_batch_counts_fully():
    weights, variance = row_weights(np.full((1, 2, 2, 3), 10.0), np.zeros((3, 3)))
    np.testing.assert_allclose(weights, 1.0)
    np.testing.assert_allclose(variance, 0.0)


def test_weights_are_those_of_the_best_linear_combination():
    """One row, fresh noise: w_b = m_b / (σ_b² + m_b/4), scaled."""
    m, sd = np.array([100.0, 10.0, 0.0]), np.array([5.0, 5.0, 1.0])
    weights, variance = row_weights(m[None, None, None], np.diag(sd**2))
    wanted = m / (sd**2 + m / 4)
    np.testing.assert_allclose(weights[0, 0, 0], wanted / wanted.max())
    assert variance[0, 0, 0] == pytest.approx(float(weights[0, 0, 0] ** 2 @ sd**2))


def test_visits_of_a_mixture_are_its_occupancy():
    mdp = make("riverswim")
    P = np.broadcast_to(np.array(mdp.P), (6, 4, 2, 4)).copy()
    model = blank_rows(counters_of(SHAPE, False), 6)._replace(p=P.reshape(-1, 4))
    policies = np.random.default_rng(0).integers(0, 2, (3, 6, 4))
    found = np.zeros((6, 4, 2))
    mixture_visits(model, np.array(mdp.rho), policies, np.array([10.0, 20.0, 30.0]), found)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), 60.0)
    wanted = np.zeros((6, 4, 2))
    for policy, users in zip(policies, (10.0, 20.0, 30.0), strict=True):
        at = users * np.array(mdp.rho)
        for h in range(6):
            for s in range(4):
                wanted[h, s, policy[h, s]] += at[s]
            at = sum(at[s] * P[h, s, policy[h, s]] for s in range(4))
    np.testing.assert_allclose(found, wanted)


def test_without_noise_the_model_is_the_empirical_one():
    mdp = make("riverswim")
    noise = Unprotected(shape=SHAPE, batches=())
    learner = BUCB(shape=SHAPE, episodes=4000, noise=noise)
    privatizer = noise.planned(learner.batches)
    belief = simulate(mdp, learner, privatizer, episodes=4000, seed=0).belief
    model, rho = learner.model(belief)
    counts = belief.transitions.sum(axis=0)
    known = counts[:-1].sum(axis=3) > 0.5
    total = counts[:-1].sum(axis=3, keepdims=True)
    np.testing.assert_allclose(model.P[:-1][known], (counts[:-1] / np.maximum(total, 1))[known])
    np.testing.assert_allclose(rho, np.array(mdp.rho))


@pytest.mark.parametrize("trust", ["none", "central", "shuffle"])
@pytest.mark.parametrize("pooled", ["false", "true"])
def test_it_learns_riverswim_under_every_trust_model(trust, pooled):
    private = {} if trust != "none" else {"epsilon": None, "delta": None}
    parts = assembled(trust=trust, learner=f"bucb:share_across_steps={pooled}", **private)
    assert share_of_uniform(parts, range(2)) < 0.35


def test_central_noise_is_correlated_by_the_learners_own_schedule():
    parts = assembled()
    assert parts.privatizer.following == parts.learner.following
    # What is stated to the learner is what the privatizer has.
    stated = parts.privatizer.batch_covariance(parts.learner.stages[:-1], parts.learner.following)
    np.testing.assert_allclose(parts.learner.covariance, stated)
    assert np.abs(stated - np.diag(np.diag(stated))).max() > 1.0


def test_refusals():
    with pytest.raises(InvalidInput, match="at least two batches"):
        BUCB(shape=SHAPE, episodes=2, noise=Unprotected(shape=SHAPE, batches=()))
    with pytest.raises(NotSupported, match="not local"):
        assembled(trust="local")
    with pytest.raises(InvalidInput, match="no theorem"):
        assembled(constants="theory")


TARGETS = {
    ("riverswim", "false"): {"central": (0.85, 0.18, 0.045), "shuffle": (0.88, 0.22, 0.08)},
    ("riverswim", "true"): {"central": (0.62, 0.12, 0.025), "shuffle": (0.70, 0.14, 0.035)},
}
"""Share of uniform play at epsilon 0.1, 1, 10, K = 20,000."""


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["central", "shuffle"])
@pytest.mark.parametrize("pooled", ["false", "true"])
def test_it_reaches_its_targets_on_riverswim(trust, pooled):
    for epsilon, target in zip((1.0, 10.0), TARGETS["riverswim", pooled][trust][1:], strict=True):
        parts = assembled(trust=trust, learner=f"bucb:share_across_steps={pooled}", epsilon=epsilon)
        assert share_of_uniform(parts, range(100, 120)) < target, epsilon
