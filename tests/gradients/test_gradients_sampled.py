"""The worst case of Lemma D4 (Poisson sample), under replace-one, against brute force and another accountant."""

import math
from dataclasses import replace

import numpy as np
import pytest
from gradient_tools import BANDIT, privatizer_of, random_users, shape_of, small_mdp, table_of
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.stats import norm

from tacit.accounting.claims import no_privacy
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import GaussianEvent, SampledGaussianEvent
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.accounting.pld import PLD
from tacit.data.trajectories import Trajectories
from tacit.policies.softmax import tabular_features
from tacit.randomness import SimulationNoise


def sampled_pld(r, q):
    return SampledGaussianEvent(sigma=1.0, norm=r, rate=q).pld()


def grid_pld(r, q, points=60_001):
    x = np.linspace(-14, 14, points)
    P = (1 - q) * norm.pdf(x) + q * norm.pdf(x, r)
    Q = (1 - q) * norm.pdf(x) + q * norm.pdf(x, -r)
    return PLD.from_log_pmfs(np.log(P / P.sum()), np.log(Q / Q.sum()))


@pytest.mark.parametrize("r", [0.5, 2.5])
def test_without_sampling_it_is_the_gaussian_mechanism(r):
    for delta in (1e-3, 1e-6):
        exact = gaussian_epsilon(delta, 2 * r)
        assert exact <= sampled_pld(r, 1.0).epsilon(delta) <= exact * (1 + 1e-4)


@pytest.mark.parametrize(("r", "q"), [(1.0, 0.01), (1.0, 0.5), (0.1, 0.2)])
def test_it_agrees_with_the_pair_on_a_fine_grid(r, q):
    for count in (1, 20):
        ours = sampled_pld(r, q).self_compose(count).epsilon(1e-6)
        grid = grid_pld(r, q).self_compose(count).epsilon(1e-6)
        assert ours == pytest.approx(grid, rel=2e-4)


def test_another_accountant_agrees():
    from dp_accounting.pld import privacy_loss_distribution as google

    # Mixtures of Gaussians: sensitivities 0 and 1 with probabilities 1-q and q on one side, mirrored on the other.
    q, r = 0.1, 1.0
    ours = sampled_pld(r, q)
    x = np.linspace(-12, 12, 200_001)
    width = x[1] - x[0]
    P = (1 - q) * norm.pdf(x) + q * norm.pdf(x, r)
    Q = (1 - q) * norm.pdf(x) + q * norm.pdf(x, -r)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        integral = float((np.maximum(P - math.exp(epsilon) * Q, 0.0) * width).sum())
        assert ours.delta(epsilon) == pytest.approx(integral, rel=1e-3)
        assert ours.delta(epsilon) >= integral * (1 - 1e-6)
    # Removing and adding costs more than replacing, for the same total change: add/remove twice is an upper bound.
    added = google.from_gaussian_mechanism(1.0, sensitivity=1.0, sampling_prob=q)
    assert ours.epsilon(1e-5) <= 2 * added.get_epsilon_for_delta(1e-5 / (1 + math.exp(3.0)))


def test_opposite_vectors_are_the_worst_case():
    # The first step of the proof, by quadrature in the plane: no other pair of vectors of norm ≤ C is worse.
    q, C, axis = 0.3, 1.2, np.linspace(-7, 7, 281)
    X, Y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2

    def density(v):
        return np.exp(-0.5 * ((X - v[0]) ** 2 + (Y - v[1]) ** 2)) / (2 * np.pi)

    def delta(v, w, alpha):
        P, Q = ((1 - q) * density((0, 0)) + q * density(u) for u in (v, w))
        return float(np.maximum(P - alpha * Q, 0).sum() * cell)

    generator = np.random.default_rng(0)
    for alpha in (0.7, 1.0, 1.5, 3.0):
        worst = delta((C, 0), (-C, 0), alpha)
        for _ in range(40):
            lengths, angle = C * np.sqrt(generator.random(2)), generator.uniform(0, np.pi)
            other = lengths[1] * np.array([math.cos(angle), math.sin(angle)])
            assert delta((lengths[0], 0), other, alpha) <= worst + 1e-9
        assert sampled_pld(C, q).delta(max(0.0, math.log(alpha))) >= delta((C, 0), (-C, 0), max(alpha, 1.0)) - 1e-6


def test_as_an_event_it_composes_with_others_and_n_events_are_one_event_n_times():
    event = SampledGaussianEvent(sigma=4.0, norm=1.0, rate=0.25)
    many = epsilon_of(((event, 8),), 1e-6)
    assert epsilon_of(((event, 3), (event, 5)), 1e-6) == many
    assert delta_of(((event, 8),), many) <= 1e-6
    assert epsilon_of(((event, 8), (GaussianEvent(sigma=4.0, shift=1.0), 1)), 1e-6) > many
    assert math.isinf(epsilon_of(((event, 1),), 0.0))
    assert epsilon_of(((SampledGaussianEvent(sigma=4.0, norm=0.0, rate=0.25), 1),), 0.0) == 0.0


def vector_of(privatizer, users, baseline):
    """What these users add to a release when drawn, against being absent, in standard deviations of the noise."""
    silent = replace(privatizer, claim=no_privacy(), calibration="none", sigma=0.0)
    shape, found = privatizer.shape, {}
    table = table_of(tabular_features(), np.zeros(shape.dimension), shape)
    for seed in range(200):
        noise = SimulationNoise(np.random.default_rng(seed))
        state, released = silent.release(
            silent.begin(), users, noise, features=tabular_features(), table=table, baseline=baseline
        )
        found[bool(state.chosen[0])] = np.append(released.statistics.gradient, released.statistics.reward)
    deviations = np.append(np.full(shape.dimension, privatizer.sigma), privatizer.parameters.reward_sigma)
    return (found[True] - found[False]) / deviations


def pair_epsilon(v, w, rate, count, delta, step=0.025, reach=8.5, width=1e-3):
    """The epsilon of (1-q) N(0) + q N(v) against (1-q) N(0) + q N(w), `count` times, from below: no accountant of ours.

    Quadrature in the plane of v and w; losses are rounded down to multiples of `width` and convolved.
    """
    first = v / np.linalg.norm(v)
    second = w - (w @ first) * first
    apart = float(np.linalg.norm(second))
    second = second / apart if apart > 1e-9 * np.linalg.norm(w) else np.zeros_like(first)  # opposite: one line
    axis = np.arange(-reach, reach + step, step)
    X, Y = np.meshgrid(axis + (v @ first) / 2, axis, indexing="ij")

    def density(u):
        return np.exp(-0.5 * ((X - u @ first) ** 2 + (Y - u @ second) ** 2)) * step**2 / (2 * np.pi)

    P, Q = ((1 - rate) * density(np.zeros_like(v)) + rate * density(u) for u in (v, w))
    bins = np.floor(np.log(P / Q) / width).astype(int)
    low = int(bins.min())
    law = np.bincount((bins - low).ravel(), weights=P.ravel())
    total = law
    for _ in range(count - 1):
        total = fftconvolve(total, law)
    losses = (np.arange(len(total)) + count * low) * width

    def excess(epsilon):
        return float((np.maximum(-np.expm1(epsilon - losses), 0.0) * np.maximum(total, 0.0)).sum()) - delta

    return brentq(excess, 0.0, 50.0, xtol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (10.0, 11.0), (-3.0, 1.0)])
@pytest.mark.parametrize(("rate", "epochs"), [(0.01, 1), (0.1, 1), (0.1, 4), (0.6, 2)])
def test_sampled_gradients_with_a_released_baseline_are_as_private_as_certified(rate, epochs, low, high):
    # Up to 0.2.0 the mean reward was released as it was but charged as if centred: the neighbours "all rewards highest"
    # and "all rewards lowest" had epsilon 1.11 at rate 0.1, 1.24 at rate 0.01 and 5.8 with rewards in [10, 11].
    mdp = small_mdp(horizon=6)
    privatizer = privatizer_of(
        shape_of(mdp), users=1, clip=1.0, delta=1e-6, rate=rate, epochs=epochs, baseline=None, low=low, high=high
    )
    path = np.zeros((1, 6), dtype=np.int64)
    best, worst = (Trajectories(path, path, np.full((1, 6), reward)) for reward in (high, low))
    baseline = (low + high) / 2
    v, w = (vector_of(privatizer, users, baseline) for users in (best, worst))
    certified = privatizer.certificate().epsilon
    assert 0.999 < certified <= 1.0
    for one, other in ((v, w), (w, v)):
        true = pair_epsilon(one, other, rate, epochs, 1e-6)
        assert true <= certified
        assert true >= 0.97 * certified
    # Somebody else's reward, whoever they are, is no farther from being absent than what is charged.
    ((event, _),) = privatizer.events()
    for reward in (low, high, baseline, math.nan, math.inf, -math.inf, 1e300):
        users = Trajectories(path, path, np.full((1, 6), reward))
        assert np.linalg.norm(vector_of(privatizer, users, baseline)) <= event.norm / event.sigma * (1 + 1e-9)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (10.0, 11.0)])
def test_the_mean_reward_of_a_sample_is_unbiased_and_that_of_everybody_is_the_mean(low, high):
    shape, m, rate = shape_of(BANDIT), 40, 0.25
    users = random_users(np.random.default_rng(0), shape, m)
    users = replace(users, rewards=low + (high - low) * users.rewards**2)
    table = table_of(tabular_features(), np.zeros(shape.dimension), shape)

    def mean_rewards(rate, runs):
        silent = privatizer_of(shape, epsilon=None, users=m, clip=1.0, rate=rate, baseline=None, low=low, high=high)
        noise, found = SimulationNoise(np.random.default_rng(1)), []
        for _ in range(runs):
            _, released = silent.release(silent.begin(), users, noise, features=tabular_features(), table=table)
            found.append(released.statistics.reward[0])
        return np.array(found)

    assert mean_rewards(1.0, 1)[0] == pytest.approx(users.rewards.mean(), abs=1e-12)
    found = mean_rewards(rate, 2_000)
    # Σ (r_i - c)² q(1-q)/(qm)²; five standard errors: a false alarm once in 10⁶. Uncentred, the variance on [10, 11]
    # would be 400 times as large, and a sample without the middle put back would be off by 10.
    variance = float(((users.rewards - (low + high) / 2) ** 2).sum()) * (1 - rate) / rate / m**2
    assert abs(found.mean() - users.rewards.mean()) < 5 * math.sqrt(variance / 2_000)
    assert found.var() == pytest.approx(variance, rel=0.2)
