"""PSRL: what is sampled is the posterior, and the posterior finds the optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from contract_calls import told
from learner_tools import exact_statistics, homogeneous_mdp, shape_of, small_mdp

from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import riverswim
from tacit.errors import InvalidInput
from tacit.gammas import gamma_difference, gamma_draw
from tacit.learners.psrl import PSRL, beta_draw
from tacit.planning.dynamic import backward_induction
from tacit.policies import uniform_policy
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape, empty_counts
from tacit.simulation.simulate import simulate

DRAWS = 4000


def fits(sample, distribution) -> float:
    return float(scipy.stats.kstest(sample, distribution.cdf).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [0.3, 1.0, 1.05, 2.0, 40.0, 1e5])
def test_gamma_variates_are_gamma(shape):
    # Kolmogorov-Smirnov on 20,000 draws, false-alarm rate 1e-4 for each shape; a scale 25% off is rejected.
    rng = np.random.default_rng(1)
    sample = np.array([gamma_draw(shape, rng) for _ in range(20_000)])
    assert fits(sample, scipy.stats.gamma(shape)) > 1e-4
    assert fits(1.25 * sample, scipy.stats.gamma(shape)) < 1e-9


@pytest.mark.parametrize("shape", [1.0, 2.0, 300.0])
def test_differences_of_gamma_variates_are_those_of_numpy(shape):
    mine, theirs = np.random.default_rng(1), np.random.default_rng(1)
    found = gamma_difference(shape, 5000, mine)
    wanted = theirs.gamma(shape, size=5000) - theirs.gamma(shape, size=5000)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * shape)
    assert mine.bit_generator.state == theirs.bit_generator.state


def test_the_squeeze_of_the_gamma_variates_accepts_nothing_that_is_rejected():
    # -ln of the acceptance probability is t = -(x²/3y²)(ln(1+y) - y + y²/2 - y³/3); the shape enters by y alone, and
    # accepting with 1 - x²y²/6 needs 1 - exp(-t) ≤ t ≤ x²y²/6. Half of that bound would accept too much for y < 0.
    y = np.concatenate([np.linspace(-0.5, -0.01, 500), np.linspace(0.01, 0.5, 500)])
    t_over_x2 = -(np.log1p(y) - y + y**2 / 2 - y**3 / 3) / (3 * y**2)
    assert (t_over_x2 <= y**2 / 6).all()
    assert (t_over_x2 > y**2 / 12).any()


@pytest.mark.statistical
@pytest.mark.parametrize(("ones", "zeros"), [(0.0, 0.0), (0.0, 7.0), (5.0, 0.0), (3.0, 11.0), (0.4, 0.2)])
def test_beta_variates_are_beta(ones, zeros):
    # False-alarm rate 1e-4 each; the posterior with one observation more is rejected.
    rng = np.random.default_rng(2)
    sample = np.array([beta_draw(ones, zeros, rng) for _ in range(20_000)])
    assert fits(sample, scipy.stats.beta(1 + ones, 1 + zeros)) > 1e-4
    assert fits(sample, scipy.stats.beta(2 + ones, 1 + zeros)) < 1e-9


def sampled(learner, released):
    """Many posterior samples of the model of the stage that is sampled last."""
    belief = told(learner, learner.begin(), released)
    rng = np.random.default_rng(3)
    P, r = [], []
    for _ in range(DRAWS):
        belief, _ = learner.plan(belief, rng)
        P.append(belief.P_sample)
        r.append(belief.r_sample)
    return np.array(P), np.array(r)


@pytest.mark.statistical
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("prior", [1.0, 0.5])
def test_transitions_have_the_dirichlet_posterior(staged, prior):
    # Marginals of a Dirichlet are Beta(α_t, α₀ - α_t): 18 KS tests at 1e-5 each, false-alarm rate 2e-4; a prior of
    # double weight is rejected. Covariances: -α_s α_t / (α₀²(α₀+1)), 6 standard errors.
    mdp = homogeneous_mdp(1, horizon=2)
    released = exact_statistics(mdp, uniform_policy(2, 3, 2), 8, staged=staged)
    learner = PSRL(shape=shape_of(mdp, staged=staged), prior=prior)
    P, _ = sampled(learner, released)
    np.testing.assert_allclose(P.sum(axis=3), 1.0, rtol=1e-12)
    alpha = prior + released.transitions[0]
    doubled = []
    for s, a, t in np.ndindex(3, 2, 3):
        first, rest = alpha[s, a, t], alpha[s, a].sum() - alpha[s, a, t]
        assert fits(P[:, s, a, t], scipy.stats.beta(first, rest)) > 1e-5
        doubled.append(fits(P[:, s, a, t], scipy.stats.beta(first + prior, rest + 2 * prior)))
    assert min(doubled) < 1e-9
    for s, a in np.ndindex(3, 2):
        total = alpha[s, a].sum()
        expected = -alpha[s, a, 0] * alpha[s, a, 1] / (total**2 * (total + 1))
        products = (P[:, s, a, 0] - P[:, s, a, 0].mean()) * (P[:, s, a, 1] - P[:, s, a, 1].mean())
        assert abs(products.mean() - expected) < 6 * products.std() / math.sqrt(DRAWS)
    assert abs(np.corrcoef(P[:, 0, 0, 0], P[:, 1, 0, 0])[0, 1]) < 6 / math.sqrt(DRAWS)


@pytest.mark.statistical
def test_rewards_have_the_beta_posterior():
    # 6 KS tests at 1e-5; forgetting one success is rejected where there was one.
    mdp = homogeneous_mdp(1, horizon=2)
    released = exact_statistics(mdp, uniform_policy(2, 3, 2), 30, staged=True)
    _, r = sampled(PSRL(shape=shape_of(mdp, staged=True)), released)
    for s, a in np.ndindex(3, 2):
        ones, n = released.rewards[0, s, a], released.visits[0, s, a]
        assert fits(r[:, s, a], scipy.stats.beta(1 + ones, 1 + n - ones)) > 1e-5
        assert fits(r[:, s, a], scipy.stats.beta(2 + ones, 1 + n - ones)) < 1e-9


@pytest.mark.statistical
def test_rewards_have_the_normal_gamma_posterior():
    # The mean's marginal is Student t with 2α degrees, centre μ, scale √(β/(αλ)). KS at 1e-5; 25% wider is rejected.
    shape = CountShape(horizon=1, num_states=1, num_actions=2, staged=True)
    values = np.array([0.1, 0.4, 0.4, 0.9, 0.7])
    released = empty_counts(shape)
    released.visits[0, 0] = len(values), 0.0
    released.rewards[0, 0, 0], released.squares[0, 0, 0] = values.sum(), (values**2).sum()
    _, r = sampled(PSRL(shape=shape, reward_posterior="normal-gamma"), released)
    for action, data in ((0, values), (1, np.zeros(0))):
        n = len(data)
        mean = data.mean() if n else 0.0
        precision, alpha = 1 + n, 1 + n / 2
        rate = 1 + ((data - mean) ** 2).sum() / 2 + n * mean**2 / (2 * precision)
        marginal = {"df": 2 * alpha, "loc": n * mean / precision, "scale": math.sqrt(rate / (alpha * precision))}
        assert fits(r[:, 0, action], scipy.stats.t(**marginal)) > 1e-5
        assert fits(r[:, 0, action], scipy.stats.t(**marginal | {"scale": 1.25 * marginal["scale"]})) < 1e-5


@pytest.mark.parametrize("rewards", ["beta", "normal-gamma"])
@pytest.mark.parametrize("staged", [True, False])
def test_with_much_data_the_sampled_policy_is_optimal(rewards, staged):
    for seed in range(5):
        mdp = homogeneous_mdp(seed)
        best, _, policy = backward_induction(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)
        learner = PSRL(shape=shape_of(mdp, staged=staged), reward_posterior=rewards)
        released = exact_statistics(mdp, uniform_policy(4, 3, 2), 10**9, staged=staged)
        _, plan = learner.plan(told(learner, learner.begin(), released), np.random.default_rng(seed))
        clear = np.abs(best[..., 0] - best[..., 1]) > 1e-3
        assert clear.sum() >= 9
        np.testing.assert_array_equal(plan.policy.actions[clear], policy[clear])


def test_without_data_the_sampled_policy_is_a_coin():
    learner = PSRL(shape=shape_of(small_mdp(), staged=True))
    rng, belief = np.random.default_rng(0), learner.begin()
    mean = np.mean([learner.plan(belief, rng)[1].policy.actions for _ in range(2000)])
    assert abs(mean - 0.5) < 6 * 0.5 / math.sqrt(2000 * 12)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("rewards", ["beta", "normal-gamma"])
def test_riverswim_is_learned(staged, rewards):
    mdp = riverswim()
    learner = PSRL(shape=shape_of(mdp, staged=staged), reward_posterior=rewards)
    run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=20_000, seed=0)
    assert run.regret[-1] < 0.2 * 8884


def test_a_one_step_problem_is_learned():
    mdp = TabularMDP(P=np.ones((1, 2, 1)), r=[[0.2, 0.8]], rho=[1.0], horizon=1)
    for staged in (True, False):
        learner = PSRL(shape=shape_of(mdp, staged=staged))
        run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=2000, seed=0)
        assert run.regret[-1] < 0.05 * 2000 * 0.3


def test_a_tiny_prior_never_breaks_the_sample():
    learner = PSRL(shape=shape_of(small_mdp(), staged=True), prior=1e-4)
    belief, rng = learner.begin(), np.random.default_rng(0)
    corners = np.zeros(3)
    for _ in range(500):
        belief, _ = learner.plan(belief, rng)
        assert np.isfinite(belief.P_sample).all()
        np.testing.assert_allclose(belief.P_sample.sum(axis=2), 1.0, rtol=1e-9)
        corners += belief.P_sample.sum(axis=(0, 1))
    # A Dirichlet with a vanishing prior sits in every corner equally often (6 standard errors).
    assert (np.abs(corners - 1000) < 6 * math.sqrt(3000 * 2 / 9)).all()


def test_negative_noisy_counts_count_as_zero():
    shape = shape_of(small_mdp(), staged=True)
    noisy = empty_counts(shape)._replace(variance=np.ones(3))
    for field in (noisy.transitions, noisy.visits, noisy.rewards, noisy.squares):
        field -= 3.0
    learner = PSRL(shape=shape)
    belief = told(learner, learner.begin(), noisy)
    assert min(belief.transitions.min(), belief.visits.min(), belief.rewards.min(), belief.squares.min()) == 0.0
    noisy.visits[:] = -3.0
    noisy.transitions[:] = 5.0
    assert told(learner, belief, noisy).transitions.min() == 5.0


def test_options_are_checked():
    shape = shape_of(small_mdp(), staged=True)
    for wrong in ({"reward_posterior": "magic"}, {"prior": 0.0}, {"prior": float("nan")}):
        with pytest.raises(InvalidInput):
            PSRL(shape=shape, **wrong)
