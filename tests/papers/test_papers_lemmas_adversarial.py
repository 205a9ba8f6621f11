"""Appendix E and the remarks of [bai2024adversarial], and Prop. 9 of [garcelon2021local]: checked one by one.

By closed form, exact enumeration, or chance; what is false as printed has a counterexample and the repair that holds.
Lemmas E.8, E.10, E.12 and E.13 are those of the shuffle papers, too (`test_papers_lemmas_shuffle`).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats


def laplace_tail(t, m):
    """P[S > t] for the sum S of m Laplace variables of scale one: a difference of two gamma variables, exactly.

    G_1 > t + G_2 iff a Poisson process has fewer than m points until then: Poisson(t) and negative binomial ones.
    """
    near = stats.poisson.pmf(np.arange(m), t)
    far = stats.nbinom.cdf(np.arange(m), m, 0.5)
    return float((near * far[::-1]).sum())


def test_the_tail_of_laplace_sums_is_right():
    assert laplace_tail(2.0, 1) == pytest.approx(math.exp(-2.0) / 2)
    assert laplace_tail(0.0, 5) == pytest.approx(0.5)
    sums = np.random.default_rng(0).laplace(size=(200_000, 3)).sum(1)
    assert (sums > 3.0).mean() == pytest.approx(laplace_tail(3.0, 3), abs=0.002)


def test_proposition_9_of_garcelon_bounds_the_tail_of_laplace_sums():
    """At the least nu that it allows, and at that of Eq. 56, which takes ln where sqrt(ln) would do."""
    largest = 0.0
    for k, delta in itertools.product((1, 2, 5, 20, 100, 400), np.geomspace(1e-10, 0.99, 30)):
        log = math.log(2 / delta)
        nu = max(math.sqrt(k), math.sqrt(log))
        largest = max(largest, 2 * laplace_tail(nu * math.sqrt(8 * log), k) / delta)
        largest = max(largest, 2 * laplace_tail(max(math.sqrt(k), log) * math.sqrt(8 * log), k) / delta)
    assert 0.0 < largest <= 1.0


def test_lemmas_e1_and_e2():
    rng = np.random.default_rng(0)
    for R in (-0.5, 0.5, 2.0):  # Lemma E.1: Z below R everywhere and below Y >= 0 on the event
        chance, event, Y = rng.dirichlet(np.ones(50)), rng.random(50) < 0.7, rng.random(50)
        Z = np.where(event, np.minimum(R, Y), R) - rng.random(50)
        assert chance @ Z <= chance @ Y + chance[~event].sum() * R
    for t in (0.1, 1.0, 3.0, 1e6):  # Lemma E.2, with equality from t = 1 on
        beyond = 1.0 if t < 1.0 else 2 * stats.laplace.sf(math.log(t))
        assert beyond <= (1 + 1e-9) / t


def test_lemma_e4_is_false_near_its_edge_and_true_with_root_two():
    moment, allowed = lambda s: 1 / (1 - s**2), lambda s: math.exp(2 * s**2)  # beta = 1, lambda = s
    assert moment(0.95) > 1.6 * allowed(0.95)
    assert all(moment(s) <= allowed(s) for s in np.linspace(0, math.sqrt(0.5), 200))


@pytest.mark.parametrize(("n", "m"), [(2, 1), (7, 1), (50, 2), (50, 3), (1000, 4), (1000, 20), (10**6, 7)])
def test_lemma_e7_holds_although_e4_does_not(n, m):
    """E max of n sums of m Laplace variables, exactly, for m > ln(n)/2; and a proof for all such n and m."""
    assert m > math.log(n) / 2

    def above(t):  # P[max > t] - P[max < -t]
        tail = laplace_tail(t, m)
        return -math.expm1(n * math.log1p(-tail)) - math.exp(n * math.log(max(tail, 1e-300)))

    mean = integrate.quad(above, 0.0, 80.0 + 10 * m, limit=200)[0]
    bound = 2 * math.sqrt(2 * m * math.log(n))
    assert 0.2 * bound < mean <= bound


def test_lemma_e7_is_proved_with_another_lambda():
    """With u = ln(n)/(2 m) < 1: (2 u - ln(1 - s^2))/s <= 4 sqrt(u) at s = sqrt(u) up to 0.79 and at s = 0.8 above."""
    for u in np.linspace(1e-6, 1.0, 2000):
        s = math.sqrt(u) if u < 0.79 else 0.8
        assert (2 * u - math.log(1 - s**2)) / s <= 4 * math.sqrt(u)


def test_lemma_e9_under_greedy_and_random_sequences():
    rng = np.random.default_rng(0)
    for trial in range(400):
        total, root, share, largest = 0.0, 0.0, 0.0, rng.random() ** 2 if trial else 1.0
        for _ in range(rng.integers(1, 60)):
            Z = max(1.0, total)
            z = Z * (1.0 if rng.random() < 0.5 else rng.random()) * largest
            root, share, total = root + z / math.sqrt(Z), share + z / Z, total + z
            after = max(1.0, total)
            assert root <= (math.sqrt(2) + 1) * math.sqrt(after) + 1e-9
            assert share <= 2 * math.log(after) + 1 + 1e-9


def test_lemma_e11_for_one_tuple_and_one_count():
    """iota is no logarithm here. Missed at most 0.3/iota times: the union over x, a, x' and N is 0.3 X delta."""
    shares = np.concatenate([np.geomspace(1e-3, 0.5, 10), 1 - np.geomspace(1e-3, 0.5, 10)])
    for n, p, log in itertools.product((5, 30, 300, 3000), shares, (2.0, 5.0, 10.0)):
        k = np.arange(n + 1)
        width = np.sqrt(2 * k / n * (1 - k / n) * log / n) + 14 * log / (3 * n)
        assert stats.binom.pmf(k, n, p)[np.abs(k / n - p) > np.minimum(1, width)].sum() <= 0.3 * math.exp(-log)


def band(P, N, log, E):
    """The width of Lemma E.14, its last term outside the root."""
    return np.minimum(1, np.sqrt(2 * P * (1 - P) * log / N) + (4 * E + 7 * log) / N)


def test_lemma_e15_and_corollary_e16_lack_a_factor_of_two():
    """Both P and P' are within the band around the estimate, so they may be two bands apart."""
    N, log, E = 1e6, 10.0, 1.0
    beta = float(band(np.array(0.5), N, log, E))
    P, other = 0.5 + beta, 0.5 - beta
    printed = math.sqrt(2 * other * (1 - other) * log / N) + (7 * E + 26 * log) / N
    assert P - other > 1.8 * printed
    support = (2 * math.sqrt(P * (1 - P))) ** 2  # C_(x,a) with two successors
    assert 2 * (P - other) > 1.8 * (math.sqrt(2 * support * log / N) + 2 * (7 * E + 26 * log) / N)
    rng = np.random.default_rng(0)
    size = 20_000
    centre, N = rng.random(size) ** 2, 10 ** rng.uniform(1, 6, size)
    log, E = rng.uniform(1, 30, size), rng.uniform(0, 50, size)
    N = np.maximum(N, 4 * E + 7 * log)  # Eq. D.1
    P, other = (np.clip(centre + rng.uniform(-1, 1, size) * band(centre, N, log, E), 0, 1) for _ in range(2))
    assert (np.abs(P - other) <= 2 * (np.sqrt(2 * other * (1 - other) * log / N) + (7 * E + 26 * log) / N)).all()


def test_lemma_e17_and_the_worst_case_of_the_effective_support():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 8):
        rows = rng.dirichlet(np.full(n, 0.5), size=500)
        assert (np.sqrt(rows * (1 - rows)).sum(1) ** 2 <= n - 1 + 1e-9).all()
    for _ in range(200):  # C_M <= X sqrt(A), which Table 1 and the remarks use
        sizes, A = [1, *rng.integers(1, 9, rng.integers(1, 6)), 1], int(rng.integers(1, 6))
        worst = sum(math.sqrt(A * x * (y - 1)) for x, y in itertools.pairwise(sizes))
        assert worst <= sum(sizes) * math.sqrt(A)


def test_lemma_e18_the_mixture_lies_in_the_set():
    for K, E, log in itertools.product((1, 10, 10**4), (0.1, 1.0, 1e3), (1.0, 10.0)):
        assert 1 / K <= min(1.0, (4 * E + 7 * log) / (K + E))  # how far it moves a row; its width at the largest count


def occupancies(P, policy, start=0, at=0):
    """q(x, a) of every layer from `at` on, given state `start` there."""
    found, now = [], np.eye(P[at].shape[0])[start]
    for step, choice in zip(P[at:], policy[at:], strict=True):
        found.append(now[:, None] * choice)
        now = np.einsum("xa,xay->y", found[-1], step)
    return [*found, now[:, None]]


@pytest.mark.parametrize("seed", range(3))
def test_lemmas_e19_e20_and_e21_on_random_layered_worlds(seed):
    rng = np.random.default_rng(seed)
    sizes, A, H = (1, 3, 2, 3, 1), 2, 4
    X = sum(sizes)
    draw = lambda x, y: rng.dirichlet(np.full(y, 0.7), size=(x, A))  # noqa: E731
    P, N = [draw(x, y) for x, y in itertools.pairwise(sizes)], [rng.uniform(200, 5000, (x, A)) for x in sizes[:-1]]
    log, E = 5.0, 2.0
    width = [band(p, n[..., None], log, E) for p, n in zip(P, N, strict=True)]
    Q = [np.clip(p + rng.uniform(-1, 1, p.shape) * w, 1e-9, None) for p, w in zip(P, width, strict=True)]
    Q = [q / q.sum(2, keepdims=True) for q in Q]
    one, two = ([rng.dirichlet(np.ones(A), size=x) for x in sizes[:-1]] for _ in range(2))
    q, other = occupancies(P, one), occupancies(Q, one)
    for layer, x in ((3, 0), (3, 2), (2, 1)):
        told, first, second = 0.0, 0.0, 0.0
        for h in range(layer):
            for w in range(sizes[h + 1]):
                reach = {0: P, 1: Q}
                seen = [occupancies(reach[i], one, w, h + 1)[layer - h - 1][x].sum() for i in (0, 1)]
                told += (q[h] * (P[h] - Q[h])[..., w]).sum() * seen[1]  # Lemma E.19, P_1 = P and P_2 = Q
                first += (q[h] * np.sqrt(P[h] * (1 - P[h]) * log / N[h][..., None])[..., w]).sum() * seen[0]
        second = X**2 * sum((q[h] * (E + log) / N[h]).sum() for h in range(H))
        gap = (q[layer][x] - other[layer][x]).sum()
        assert gap == pytest.approx(told)
        assert abs(gap) <= 4 * first + 26 * second  # Lemma E.21, an order: with constants that it may have
    moved = sum(np.abs(a - b).sum() for a, b in zip(q[:-1], occupancies(P, two)[:-1], strict=True))
    paid = sum((q[h].sum(1)[:, None] * np.abs(one[h] - two[h])).sum() for h in range(H))
    assert moved <= H * paid  # Lemma E.20


def test_lemmas_e22_e23_and_e24_in_expectation_and_along_every_path():
    for share, K in itertools.product((1e-4, 0.01, 0.3, 1.0), (10, 1000)):
        total = 0.0
        for k in range(1, K + 1):
            n = np.arange(k)
            total += share * (stats.binom.pmf(n, k - 1, share) / np.maximum(n, 1)).sum()
        assert total <= 2 * (1 + math.log(K))  # Lemma E.22 for one (x, a), exactly; deviations by Lemma E.10
    for X, A, K, H, delta in itertools.product((3, 30), (2, 5), (1, 100), (2, 29), (0.1, 1e-6)):
        assert X < H + 1 or X * A * K / delta >= H / delta  # Proposition E.23: layers need H + 1 states
    rng = np.random.default_rng(0)
    for _ in range(50):  # Lemma E.24, Eq. E.-6, along a path
        support, K = rng.uniform(0, 3, 6), 400
        visited = rng.choice(6, K, p=rng.dirichlet(np.ones(6)))
        counts, total = np.zeros(6), 0.0
        for i in visited:
            total += math.sqrt(support[i]) / math.sqrt(max(counts[i], 1))
            counts[i] += 1
        assert total <= (math.sqrt(2) + 1) * math.sqrt(support.sum() * K)


def test_remarks_5_3_5_4_5_9_and_5_10_by_their_orders():
    """Exponents of (X, A, H, K, 1/epsilon) of the printed terms; ratios are differences of exponents."""
    order = lambda X=0.0, A=0.0, H=0.0, K=0.0, e=0.0: np.array([X, A, H, K, e])  # noqa: E731
    worst = order(X=1, A=0.5, H=1, K=0.5)  # H X sqrt(A K): without privacy, and H C_M sqrt(K) at worst
    central = {"full": order(X=2, A=1, H=2, e=1), "bandit": order(X=1.5, A=1, H=1, K=0.5, e=1)}
    local = {"full": order(X=2, A=1, H=2, K=0.5, e=1), "bandit": order(X=4, A=1, H=2, K=0.5, e=1)}
    # 5.3: the term of privacy is of lower order in K with full information; with bandits it is sqrt(X A)/epsilon
    # times the other one for every K
    assert (central["full"] - worst)[3] < 0
    assert (central["bandit"] - worst == order(X=0.5, A=0.5, e=1)).all()
    # 5.9: X H sqrt(A)/epsilon and X^3 H sqrt(A)/epsilon times the bound without privacy, for every K: no match
    assert (local["full"] - worst == order(X=1, A=0.5, H=1, e=1)).all()
    assert (local["bandit"] - worst == order(X=3, A=0.5, H=1, e=1)).all()
    # 5.4 and 5.10: the same power of 1/epsilon as the cited lower bounds; under LDP of K, too; larger ones of X
    assert all(found[4] == 1.0 for found in (*central.values(), *local.values()))
    below = order(X=0.5, A=0.5, H=1, K=0.5, e=1)
    assert all((found - below)[3] == 0.0 and (found - below)[0] > 0.0 for found in local.values())
    # Theorems 5.2 and 5.8 are 3.3 and 4.2 with E = H/epsilon (and sqrt(K) under LDP)
    E, E_prime = order(H=1, e=1), order(H=1, e=1)
    assert (order(X=2, A=1, H=1) + E == central["full"]).all()
    assert (order(X=1.5, A=1, K=0.5) + E_prime == central["bandit"]).all()
    assert (order(X=4, A=1, H=1) + E + order(K=0.5) == local["bandit"]).all()
