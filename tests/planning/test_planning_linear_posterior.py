"""The posterior of linear rewards: ridge regression without noise, the same in every basis, calibrated with noise."""

from __future__ import annotations

import numpy as np
from scipy.stats import ortho_group

from tacit.planning.linear_posterior import linear_posterior, soft_floor, thompson_draws


def world(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.concatenate([np.ones((n, 1)), rng.standard_normal((n, d - 1))], axis=1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    theta = rng.standard_normal(d) / np.sqrt(4.0 * d)
    s = (rng.random(n) < 0.5 + np.clip(x @ theta, -0.5, 0.5)) - 0.5
    return x.T @ x, x.T @ s, theta


def test_without_noise_it_is_ridge_regression() -> None:
    rng, d = np.random.default_rng(1), 6
    gram, rewards, _ = world(rng, 400, d)
    found = linear_posterior(gram[None], rewards[None], np.zeros(1), np.zeros(1))
    # (G + d I)⁻¹ v and (4 G + 4 d I)⁻¹
    np.testing.assert_allclose(found.mean[0], np.linalg.solve(gram + d * np.eye(d), rewards), rtol=1e-9)
    np.testing.assert_allclose(found.covariance[0], np.linalg.inv(4.0 * gram + 4.0 * d * np.eye(d)), rtol=1e-9)


def test_nothing_known_is_the_prior_and_indefinite_sums_are_no_error() -> None:
    d = 4
    empty = linear_posterior(np.zeros((2, d, d)), np.zeros((2, d)), np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(empty.covariance, np.broadcast_to(np.eye(d) / (4 * d), (2, d, d)))
    noisy = linear_posterior(-1e6 * np.eye(d)[None], np.full((1, d), 50.0), np.full(1, 100.0), np.full(1, 17.0))
    assert np.isfinite(noisy.mean).all()
    assert (noisy.std <= np.sqrt(1 / (4 * d)) + 1e-12).all()


def test_the_law_does_not_depend_on_the_basis() -> None:
    rng, d = np.random.default_rng(2), 5
    gram, rewards, _ = world(rng, 300, d)
    noise = rng.standard_normal((d, d))
    gram = gram + 8.0 * (noise + noise.T)
    Q = ortho_group.rvs(d, random_state=3)
    variances = (np.full(1, 64.0), np.full(1, 18.0))
    plain = linear_posterior(gram[None], rewards[None], *variances)
    turned = linear_posterior((Q @ gram @ Q.T)[None], (Q @ rewards)[None], *variances)
    np.testing.assert_allclose(turned.mean[0], Q @ plain.mean[0], atol=1e-9)
    np.testing.assert_allclose(turned.covariance[0], Q @ plain.covariance[0] @ Q.T, atol=1e-9)


def test_intervals_cover_under_noise_and_would_not_if_it_were_left_out() -> None:
    """2,000 coordinates, 1.96 deviations: nominal 95 %; the bar of 90 % fails with probability below 1e-9 at 94 %."""
    rng, d = np.random.default_rng(4), 5
    inside, ignoring = 0, 0
    for _ in range(400):
        gram, rewards, theta = world(rng, 2000, d)
        E = rng.standard_normal((d, d)) * 12.0 / np.sqrt(2.0)
        gram = gram + (E + E.T) / np.sqrt(2.0)
        rewards = rewards + 12.0 * rng.standard_normal(d)
        full = linear_posterior(gram[None], rewards[None], np.full(1, 144.0), np.full(1, 144.0))
        less = linear_posterior(gram[None], rewards[None], np.full(1, 144.0), np.zeros(1))
        inside += int((np.abs(full.mean[0] - theta) <= 1.96 * full.std[0]).sum())
        ignoring += int((np.abs(less.mean[0] - theta) <= 1.96 * less.std[0]).sum())
    assert inside >= 0.9 * 2000
    assert ignoring < 0.9 * 2000


def test_the_floor_has_no_cancellation() -> None:
    found = soft_floor(np.array([-1e12, -1.0, 0.0, 1.0, 1e12]), np.array(1.0))
    np.testing.assert_allclose(found, [1e-12, (np.sqrt(5) - 1) / 2, 1.0, (np.sqrt(5) + 1) / 2, 1e12], rtol=1e-9)


def test_draws_have_the_law_of_the_posterior() -> None:
    rng, d = np.random.default_rng(5), 3
    gram, rewards, _ = world(rng, 50, d)
    posterior = linear_posterior(gram[None], rewards[None], np.zeros(1), np.zeros(1))
    drawn = thompson_draws(posterior, rng, draws=40_000, inflation=0.5)[:, 0]
    # Five standard errors of 40,000 draws: false alarms below 1e-5; 0.6 in place of 0.5 is rejected.
    np.testing.assert_allclose(drawn.mean(0), posterior.mean[0], atol=5 * 0.5 * posterior.std.max() / 200)
    apart = 0.25 * 0.04 * posterior.std.max() ** 2
    np.testing.assert_allclose(np.cov(drawn.T), 0.25 * posterior.covariance[0], atol=apart)
