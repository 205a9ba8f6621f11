"""Goodness of fit of the public samplers, with power.

The operating system's bytes are replaced by seeded ones inside these tests (never outside), so that each is
reproducible: χ² against the exact law, false-alarm rate 1e-6 per test, and a parameter 25% off is rejected. One last
test draws from the real CSPRNG, which cannot be seeded; its false-alarm rate is 1e-9 per sampler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

from tacit.noise import exact
from tacit.randomness import SecureNoise

F = Fraction
FALSE_ALARM = 1e-6
DRAWS = 40_000
Cdf = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Sampler = Callable[[int, float], NDArray[np.int64]]


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(20_240_607)
    monkeypatch.setattr(os, "urandom", generator.bytes)


def p_value(samples: NDArray[np.int64], cdf: Cdf, bins: int = 30) -> float:
    """χ² of integers over bins of about equal probability, fixed by the law alone (fewer where it is coarse)."""
    edges = np.unique([least_integer(cdf, i / bins) for i in range(1, bins)])
    expected = np.diff(np.concatenate([[0.0], cdf(edges.astype(np.float64)), [1.0]])) * samples.size
    counts = np.bincount(np.searchsorted(edges, samples), minlength=edges.size + 1)
    possible = expected > 0
    assert (expected[possible] > 10).all(), "the χ² approximation needs more draws"
    if counts[~possible].any():
        return 0.0
    return float(stats.chisquare(counts[possible], expected[possible]).pvalue)


def least_integer(cdf: Cdf, q: float) -> int:
    """The least k with P(Z ≤ k) ≥ q."""
    low, high = -(2**50), 2**50
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cdf(np.array([float(middle)]))[0] >= q else (middle, high)
    return high


def laplace_cdf(scale: float) -> Cdf:
    r = np.exp(-1 / scale)

    def cdf(z: NDArray[np.float64]) -> NDArray[np.float64]:
        below, above = np.exp(np.minimum(z, 0) / scale), np.exp(-np.maximum(z + 1, 0) / scale)
        return np.where(z < 0, below / (1 + r), 1 - above / (1 + r))

    return cdf


def gaussian_cdf(variance: float) -> Cdf:
    support = np.arange(-int(12 * variance**0.5) - 12, int(12 * variance**0.5) + 13)
    total = np.cumsum(np.exp(-(support**2) / (2 * variance)))
    total /= total[-1]
    return lambda z: total[np.clip(z.astype(int) - support[0], 0, support.size - 1)]


def coin_cdf(p: float) -> Cdf:
    return lambda x: np.where(x < 0, 0.0, np.where(x < 1, 1 - p, 1.0))


# Each: the sampler as a function of one parameter (scaled by 25% for the power), that parameter, and its exact law.
LAWS: dict[str, tuple[Sampler, float, Cdf]] = {
    "Laplace 0.8": (lambda n, b: exact.discrete_laplace(n, SecureNoise(), scale=b), 0.8, laplace_cdf(0.8)),
    "Laplace 34": (lambda n, b: exact.discrete_laplace(n, SecureNoise(), scale=b), 34, laplace_cdf(34)),
    "Laplace 1e6": (lambda n, b: exact.discrete_laplace(n, SecureNoise(), scale=b), 1e6, laplace_cdf(1e6)),
    "Laplace 8e11": (lambda n, b: exact.discrete_laplace(n, SecureNoise(), scale=b), 8e11, laplace_cdf(8e11)),
    "geometric 5": (
        lambda n, b: exact.geometric(n, SecureNoise(), scale=b),
        5,
        lambda k: 1 - np.exp(-np.maximum(k + 1, 0) / 5),
    ),
    # A standard deviation 25% off is a variance 56% off.
    "Gaussian 1": (lambda n, s: exact.discrete_gaussian(n, SecureNoise(), variance=F(s) ** 2), 1, gaussian_cdf(1)),
    "Gaussian 99": (
        lambda n, s: exact.discrete_gaussian(n, SecureNoise(), variance=F(s) ** 2),
        99,
        gaussian_cdf(99**2),
    ),
    "Gaussian 1e5": (
        lambda n, s: exact.discrete_gaussian(n, SecureNoise(), variance=F(s) ** 2),
        1e5,
        gaussian_cdf(1e10),
    ),
    "coin 1/3": (
        lambda n, p: exact.bernoulli(n, SecureNoise(), probability=p).astype(np.int64),
        1 / 3,
        coin_cdf(1 / 3),
    ),
    "coin 1/(1+e)": (
        lambda n, g: exact.bernoulli_logistic(n, SecureNoise(), gamma=g).astype(np.int64),
        1,
        coin_cdf(1 / (1 + np.e)),
    ),
    "coins of 0.2": (
        lambda n, p: exact.bernoulli_each(np.full(n, p), SecureNoise()).astype(np.int64),
        0.2,
        coin_cdf(0.2),
    ),
    "uniform below 100": (
        lambda n, m: exact.uniform_integers(n, SecureNoise(), below=int(m)),
        100,
        lambda k: np.clip((k + 1) / 100, 0, 1),
    ),
}


@pytest.mark.statistical
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("name", LAWS)
def test_fit(name: str) -> None:
    sampler, parameter, cdf = LAWS[name]
    assert p_value(sampler(DRAWS, parameter), cdf) > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("factor", [1.25, 0.8])
@pytest.mark.parametrize("name", LAWS)
def test_power(name: str, factor: float) -> None:
    sampler, parameter, cdf = LAWS[name]
    assert p_value(sampler(DRAWS, parameter * factor), cdf) < FALSE_ALARM


def orders(shuffle: Callable[[], NDArray[np.int64]], count: int) -> float:
    """χ² p-value of the 24 orders of four things."""
    codes = np.array([shuffle() @ np.array([64, 16, 4, 1]) for _ in range(count)])
    counts = np.unique(codes, return_counts=True)[1]
    return float(stats.chisquare(np.concatenate([counts, np.zeros(24 - counts.size)])).pvalue)


@pytest.mark.statistical
@pytest.mark.usefixtures("seeded")
def test_permutations_are_uniform_and_a_careless_shuffle_is_caught() -> None:
    assert orders(lambda: exact.permutation(4, SecureNoise()), 6_000) > FALSE_ALARM

    def careless() -> NDArray[np.int64]:
        """Every place swaps with any place: 4⁴ equally likely paths cannot give 4! equally likely orders."""
        order = np.arange(4)
        for i, j in enumerate(exact.uniform_integers(4, SecureNoise(), below=4)):
            order[[i, j]] = order[[j, i]]
        return order

    assert orders(careless, 6_000) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("name", LAWS)
def test_fit_on_the_real_csprng(name: str) -> None:
    """Cannot be seeded: false-alarm rate 1e-9 per sampler. That the same statistic has power is shown above."""
    sampler, parameter, cdf = LAWS[name]
    assert p_value(sampler(DRAWS, parameter), cdf) > 1e-9
