"""The appendices of [bai2024shuffle] and [bai2025secure]: their tools, checked by enumeration, closed form or chance.

"Lemma 31" is one of [bai2024shuffle]; those of [bai2025secure] say so. What is false as printed has a counterexample
here and, where there is one, the repair that holds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

SHARES = np.concatenate([np.geomspace(1e-3, 0.5, 12), 1.0 - np.geomspace(1e-3, 0.5, 12)])


def kernel(rng, *shape):
    """Random distributions over the last axis."""
    return rng.dirichlet(np.full(shape[-1], 0.7), size=shape[:-1])


def visits(P, policy):
    """V(1_{h,x,a}, P) = the probability of every (h, x, a), from state 0; rows of P may sum to less than one."""
    found, now = [], np.eye(P.shape[1])[0]
    for step, choice in zip(P, policy, strict=True):
        found.append(now[:, None] * choice)
        now = np.einsum("xa,xay->y", found[-1], step)
    return np.array(found)


def value(P, r, policy):
    """V_h(x) by backward induction."""
    V = [np.zeros(P.shape[1])]
    for step, reward, choice in zip(P[::-1], r[::-1], policy[::-1], strict=True):
        V.insert(0, (choice * (reward + step @ V[0])).sum(1))
    return V


@pytest.mark.parametrize("seed", range(5))
def test_lemmas_13_16_17_and_18_of_the_absorbing_mdp(seed):
    rng = np.random.default_rng(seed)
    H, X, A = 4, 3, 2
    P, policy = kernel(rng, H, X, A, X), kernel(rng, H, X, A)
    rare = rng.random(P.shape) < 0.2  # W
    absorbing = np.where(rare, 0.0, P)  # P', without the row of the absorbing state
    d, kept = visits(P, policy), visits(absorbing, policy)
    assert (d >= kept - 1e-15).all()  # Lemma 13
    caught = [(kept[h, ..., None] * np.where(rare, P, 0.0)[h]).sum() for h in range(H)]
    survives = 1.0
    for h in range(H):  # Eq. 14: P[B] is the same under both, one minus the probability of never being caught
        survives -= caught[h]
    assert survives == pytest.approx((kept[-1][..., None] * absorbing[-1]).sum())
    r = rng.random((H, X, A))
    bias = (r * (d - kept)).sum()
    assert -1e-15 <= bias <= H * sum(caught)  # Lemma 18
    close = np.clip(absorbing * (1.0 + rng.uniform(-1.0, 1.0, P.shape) / (H + 1)), 0.0, None)
    ratio = visits(close, policy)[kept > 0] / kept[kept > 0]
    assert (ratio <= 4.0).all()  # Lemma 16, both sides
    assert (ratio >= 1.0 / 3.0).all()


def test_lemma_16_has_the_right_constants():
    H = np.arange(2, 1000)
    assert ((1 + 1 / H) ** H <= 3.0).all()
    assert ((1 - 1 / H) ** H >= 0.25).all()


def test_lemma_15_is_false_for_little_noise_and_true_from_two_on():
    """Also Lemma 14 of [bai2025secure]. C_1 = 6; the proof writes 4 E iota where Lemma 14 has 4 E + 7 iota."""

    def relative(H, E, iota):
        least = 6 * E * H**2 * iota  # what W leaves over
        return H * (math.sqrt(2 * iota / least) + (4 * E + 7 * iota) / least)  # at P~ = 1; must be at most 1

    assert relative(2, 1.0, 10.0) > 1.19
    assert 4 * 1.0 + 7 * 10.0 > 4 * 1.0 * 10.0
    for H, E, iota in itertools.product((2, 3, 6, 20), (2.0, 3.0, 10.0, 1e3), (8.0, 16.0, 40.0)):
        assert relative(H, E, iota) <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_lemma_19_the_simulation_lemma_is_an_identity(seed):
    rng = np.random.default_rng(seed)
    H, X, A = 4, 3, 2
    policy, (P, Q) = kernel(rng, H, X, A), (kernel(rng, H, X, A, X) for _ in range(2))
    r, s = rng.random((2, H, X, A))
    V, W, d = value(P, r, policy), value(Q, s, policy), visits(Q, policy)
    told = sum((d[h] * (r[h] - s[h] + (P[h] - Q[h]) @ V[h + 1])).sum() for h in range(H))
    assert V[0][0] - W[0][0] == pytest.approx(told)


def test_lemmas_23_24_and_25_elimination_keeps_the_best_and_regret_adds_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values, width = rng.random(30), rng.uniform(0.01, 0.4)
        seen = values + rng.uniform(-width, width, 30)
        left = seen > seen.max() - 2 * width
        assert left[values.argmax()]  # Lemma 23
        assert (values.max() - values[left] <= 4 * width).all()  # Lemma 24, for those that are left after stage b
    for stages in range(2, 40):  # Lemma 25: L_b = 2^b; 8 C L_b / sqrt(L_(b-1)) adds up to at most 8 C * 3.5 sqrt(K)
        L = 2.0 ** np.arange(1, stages + 1)
        assert (L[1:] / np.sqrt(L[:-1])).sum() <= 3.5 * math.sqrt(2 * L.sum())


def test_lemma_26_on_a_grid():
    """Also Lemma E.8 of [bai2024adversarial]: for every x, y and alpha the least beta that is allowed."""
    x, y, alpha = np.meshgrid(*(np.linspace(0, 1, 81) for _ in range(2)), np.geomspace(1e-3, 2.0, 30))
    deviation = np.sqrt(y * (1 - y))
    beta = np.maximum(0.0, np.abs(x - y) - alpha * deviation)
    assert (deviation <= np.sqrt(x * (1 - x)) + 1.9 * alpha + 1.5 * np.sqrt(beta) + 1e-12).all()


def test_lemma_27_holds_below_and_not_for_every_delta_above():
    for n, mu, log in itertools.product((10, 100, 1000), (0.001, 0.02, 0.1, 0.5, 0.9), (0.1, 1.0, 3.0, 10.0, 23.0)):
        below = stats.binom.cdf(np.ceil(mu * n - math.sqrt(2 * mu * n * log) - 1e-12) - 1, n, mu)
        above = stats.binom.sf(np.floor(mu * n + math.sqrt(3 * mu * n * log) + 1e-12), n, mu)
        assert below <= math.exp(-log)
        if log <= mu * n / 3:  # as in Lemma 42, where E[Q] is at least 48 ln(2/beta)
            assert above <= math.exp(-log)
    n, mu, delta = 1000, 0.001, 1e-10
    above = stats.binom.sf(np.floor(mu * n + math.sqrt(3 * mu * n * math.log(1 / delta))), n, mu)
    assert above > 1000 * delta


def two_points(n, p):
    """x is -1 or 1, the latter with probability p: probabilities, deviations from the mean, empirical variances."""
    k = np.arange(n + 1)
    share = k / n
    return stats.binom.pmf(k, n, p), np.abs(2 * share - 2 * p), 4 * share * (1 - share)


def test_lemmas_28_29_and_33_on_laws_with_two_points():
    for n, p, delta in itertools.product((2, 5, 20, 100), SHARES, (0.9, 0.3, 0.05, 1e-3, 1e-6)):
        chance, deviation, variance = two_points(n, p)
        log = math.log(2 / delta)
        wide = math.sqrt(2 * 4 * p * (1 - p) * log / n) + 2 * log / (3 * n)
        assert chance[deviation > wide + 1e-12].sum() <= delta  # Lemma 28, A = 1
        assert chance[deviation > np.sqrt(2 * variance * log / n) + 7 * log / (3 * n) + 1e-12].sum() <= delta
        assert chance[deviation / 2 > math.sqrt(2 * log / n)].sum() <= delta**4  # Lemma 33: Hoeffding with room


def test_lemma_30_the_exponential_moment():
    """E exp(Y - E Y^2) <= 1 for Y <= 1 with mean zero (lambda = R = 1); Markov does the rest. Also Lemma E.10."""
    low, high = np.meshgrid(-np.geomspace(1e-3, 1e3, 60), np.linspace(1e-3, 1.0, 40))
    p = -low / (high - low)  # of the upper point
    second = p * high**2 + (1 - p) * low**2
    assert (p * np.exp(high - second) + (1 - p) * np.exp(low - second) <= 1.0 + 1e-12).all()


def test_lemmas_31_and_32_visits_fall_short_of_half_of_their_mean():
    """Also Lemmas 12 and 18 of [bai2025secure]. exp(sum P/2 - X) is a supermartingale; W = iota gives Lemma 32."""
    P = np.linspace(0, 1, 1001)
    assert (np.exp(P / 2) * (1 - P + P / math.e) <= 1.0 + 1e-15).all()
    for p, W in itertools.product((0.02, 0.2, 0.7, 1.0), (0.5, 1.0, 3.0)):
        alive = np.zeros(401)
        alive[0], fallen = 1.0, 0.0
        for n in range(1, 401):  # exactly: the law of the number of ones among runs that never fell short
            alive[1:] = alive[1:] * (1 - p) + alive[:-1] * p
            alive[0] *= 1 - p
            short = np.arange(401) < n * p / 2 - W
            fallen += alive[short].sum()
            alive[short] = 0.0
        assert fallen <= math.exp(-W)


def private_counts(rng, size):
    """Counts and private counts within E as Assumption 4 has them: n of N, kept from below."""
    E = rng.uniform(0.5, 30.0, size)
    N = rng.integers(1, 400, size).astype(float)
    n = np.floor(rng.random(size) * (N + 1))
    noisy = N + rng.random(size) * E
    return E, N, n, noisy, np.clip(n + rng.uniform(-1, 1, size) * E, 0.0, noisy)


def test_lemmas_34_35_37_and_38_follow_from_assumption_4():
    """Rewards: n is the sum of rewards. Also Lemmas E.12 and E.13 of [bai2024adversarial]."""
    rng = np.random.default_rng(0)
    E, N, n, noisy, private = private_counts(rng, 20_000)
    mean, seen, log = n / N, private / noisy, rng.uniform(1.0, 20.0, 20_000)
    assert (np.abs(seen - mean) <= 2 * E / noisy + 1e-12).all()
    assert (np.abs(seen * (1 - seen) - mean * (1 - mean)) <= 4 * E / noisy + 1e-12).all()
    sign = rng.choice((-1, 1), 20_000)
    worst = np.clip(mean + sign * np.sqrt(2 * log / N), 0, 1)  # the edge of Lemma 33
    assert (np.abs(seen - worst) <= np.sqrt(2 * log / noisy) + 2 * E / noisy + 1e-12).all()
    worst = np.clip(mean + sign * (np.sqrt(2 * mean * log / N) + 14 * log / (3 * N)), 0, 1)  # that of Lemma 36
    assert (np.abs(seen - worst) <= np.sqrt(2 * seen * log / noisy) + (4 * E + 7 * log) / noisy + 1e-12).all()


def left_out(n, p, log):
    """How often the band of Lemma 36 misses p."""
    share = np.arange(n + 1) / n
    width = np.sqrt(2 * share * log / n) + 14 * log / (3 * n)
    return stats.binom.pmf(np.arange(n + 1), n, p)[np.abs(share - p) > np.minimum(1, width) + 1e-13].sum()


def test_lemmas_36_and_38_hold_with_one_logarithm_and_not_with_two():
    for n, p, log in itertools.product((5, 30, 300, 3000), SHARES, (2.0, 5.0, 10.0)):
        assert left_out(n, p, log) <= 0.12 * math.exp(-log)
    delta = 1e-6
    iota = math.log(2 * 6 * 2 * 20_000 / delta)  # as printed: iota is a logarithm, and ln(iota) is taken of it
    assert left_out(10_000, 0.1, math.log(iota)) > 300 * 4 * delta  # one tuple alone
    assert left_out(10_000, 0.1, iota) < delta / 1e6


def test_corollary_39_lacks_the_square_root_of_two():
    X, N, log, E = 4, 1e6, 10.0, 1.0
    each = math.sqrt(2 / X * log / N) + (4 * E + 7 * log) / N
    P = np.full(X, 1 / X) + each * np.array([1, -1, 1, -1])  # inside the event of Lemma 38 around P~ = 1/X
    assert P.min() >= 0.0
    assert P.sum() == pytest.approx(1.0)
    distance, rest = np.abs(P - 1 / X).sum(), X * (4 * E + 7 * log) / N
    assert distance > math.sqrt(X * log / N) + rest
    assert distance <= math.sqrt(2 * X * log / N) + rest + 1e-12


def test_lemmas_40_and_41_have_constants_below_one_in_simulation():
    """Exact maxima over G in {0, H}^X (convex: at a corner) and over nu, 100 samples each; no proof of the order."""
    rng = np.random.default_rng(0)
    X, A, H, N, delta = 4, 2, 3, 500, 0.05
    corners = H * np.array(list(itertools.product((0, 1), repeat=X))).T
    for _ in range(100):
        P, mu, r = kernel(rng, X, A, X), rng.dirichlet(np.ones(X * A)).reshape(X, A), rng.random((X, A))
        counts = rng.multinomial(N, (mu[..., None] * P).ravel()).reshape(X, A, X)
        total = np.maximum(counts.sum(2), 1)
        gap = (P - counts / total[..., None]) @ corners
        worst = (mu[..., None] * gap**2).max(1).sum(0).max()
        assert worst <= H**2 * X / N * math.log(A * H * N / delta)
        paid = rng.binomial(counts.sum(2), r) / total
        assert (mu * (r - paid) ** 2).max(1).sum() <= X / N * math.log(A * N / delta)
