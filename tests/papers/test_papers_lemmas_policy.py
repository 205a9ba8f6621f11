"""Lemmas 1 to 5 and Proposition 1 of [he2025policy] on contextual bandits with softmax, by exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

S, A = 3, 4
MEAN_SQUARE = 1 - 1 / A
"""The printed G^2. It bounds the mean of |1_a - pi|^2, which these lemmas need; privacy needs its largest value, 2."""


def softmax(theta):
    weights = np.exp(theta - theta.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@pytest.fixture(params=range(4))
def bandit(request):
    """First states rho[s], rewards R[s, a] in [0, 1], parameters theta[s, a]."""
    rng = np.random.default_rng(request.param)
    return rng.dirichlet(np.full(S, 2.0)), rng.random((S, A)), rng.normal(size=(S, A))


def estimates(bandit):
    """g(s, a) = R(s, a) grad log pi(a|s) as rows, and the probability of each."""
    rho, R, theta = bandit
    pi, rows, chances = softmax(theta), [], []
    for s in range(S):
        for a in range(A):
            row = np.zeros((S, A))
            row[s] = R[s, a] * (np.eye(A)[a] - pi[s])
            rows.append(row.ravel())
            chances.append(rho[s] * pi[s, a])
    return np.array(rows), np.array(chances)


def test_lemma_1_gradient_domination_with_two_parameters(bandit):
    """pi(a|s) ~ exp(theta f(s,a)); mu, G and alpha_bias are those at this theta, u = F^-1 grad J."""
    rho, R, theta = bandit
    f = np.random.default_rng(9).normal(size=(S, A, 2))
    pi = softmax(f @ theta[0, :2])
    score = f - (pi[..., None] * f).sum(1, keepdims=True)
    chance = rho[:, None] * pi
    fisher = np.einsum("sa,sai,saj->ij", chance, score, score)
    gradient = np.einsum("sa,sa,sai->i", chance, R, score)
    advantage = R - (pi * R).sum(1, keepdims=True)
    rest = (advantage - score @ np.linalg.solve(fisher, gradient))[range(S), R.argmax(1)]  # under the best policy
    mu, G = np.linalg.eigvalsh(fisher)[0], np.linalg.norm(score, axis=2).max()
    gap = rho @ (R.max(1) - (pi * R).sum(1))
    assert gap <= G / mu * np.linalg.norm(gradient) + math.sqrt(rho @ rest**2)


def test_lemma_2_is_an_equality_up_to_the_norm_of_one_gradient(bandit):
    rows, chances = estimates(bandit)
    mean, m, noise = chances @ rows, 7, 0.3
    second = mean @ mean + (chances @ (rows**2).sum(1) - mean @ mean) / m + S * A * noise**2
    assert second <= (1 - 1 / m) * mean @ mean + MEAN_SQUARE / m + S * A * noise**2
    pair = chances[:, None] * chances[None]
    total = ((rows[:, None] + rows[None]) ** 2).sum(2) / 4
    assert (pair * total).sum() == pytest.approx(mean @ mean + (chances @ (rows**2).sum(1) - mean @ mean) / 2)  # m = 2


def test_lemma_3_bounds_the_hessian(bandit):
    rho, R, theta = bandit

    def gradient(flat):
        pi = softmax(flat.reshape(S, A))
        return (rho[:, None] * pi * (R - (pi * R).sum(1, keepdims=True))).ravel()

    hessian = np.array([approx_fprime(theta.ravel(), lambda x, i=i: gradient(x)[i], 1e-6) for i in range(S * A)])
    assert np.linalg.norm(hessian, 2) <= MEAN_SQUARE + 1.0  # R_max (G^2 + F), also Lemma 6


def test_lemma_4_on_a_quadratic_with_noise():
    """J(x) = -x^2/2 has L = 1; gradients with E g^2 = B |grad|^2 + C; both sides by exact recursion of E x^2."""
    for B, C, eta, T in ((1.0, 0.5, 0.1, 50), (0.5, 0.1, 1.5, 200), (1.0, 0.0, 0.5, 10), (2.0, 1.0, 0.9, 1000)):
        square, seen = 9.0, []
        for _ in range(T):
            seen.append(square)  # |grad J|^2 = x^2
            square = square - 2 * eta * square + eta**2 * (B * square + C)
        bound = 2 * 4.5 / (eta * T * (2 - B * eta)) + C * eta / (2 - B * eta)
        assert np.mean(seen) <= bound


def test_lemma_5_and_proposition_1_with_the_log_barrier(bandit):
    """Every point with a gradient of at most lambda/(2 S A) is within 2 lambda of the best."""
    rho, R, theta = bandit
    best = rho @ R.max(1)
    rows, chances = estimates(bandit)
    for weight in (0.02, 0.1):
        barrier = (weight / S * (1 / A - softmax(theta))).ravel()
        mean, m = chances @ rows + barrier, 5
        second = mean @ mean + (chances @ (rows**2).sum(1) - (chances @ rows) @ (chances @ rows)) / m
        assert (barrier**2).sum() <= weight**2 / S * (1 - 1 / A)
        assert second <= (1 - 1 / m) * mean @ mean + 2 / m * MEAN_SQUARE * (1.0 + weight**2 / S)

        def climb(flat, weight=weight):
            pi = softmax(flat.reshape(S, A))
            worth = (pi * R).sum(1)
            J = rho @ worth + weight / (S * A) * np.log(pi).sum()
            slope = rho[:, None] * pi * (R - worth[:, None]) + weight / S * (1 / A - pi)
            return -J, -slope.ravel()

        # From a stationary point outwards, as far as the proposition allows.
        found = minimize(climb, theta.ravel(), jac=True, options={"maxiter": 5000, "gtol": 1e-9}).x
        rng = np.random.default_rng(0)
        tried = 0
        for _ in range(50):
            near = found + rng.normal(size=S * A) * rng.choice((0.01, 0.1, 0.3))
            if math.sqrt((climb(near)[1] ** 2).sum()) <= weight / (2 * S * A):
                tried += 1
                assert best - rho @ (softmax(near.reshape(S, A)) * R).sum(1) <= 2 * weight
        assert tried > 5
