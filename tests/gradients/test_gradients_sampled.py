"""Poisson sampling under replace-one: the proof's worst case, against brute force and another accountant."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import GaussianEvent, SampledGaussianEvent
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.accounting.pld import PLD


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
