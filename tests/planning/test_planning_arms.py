"""Upper laws and intervals of arms: against exact enumeration, with errors that are counted, not hoped for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.errors import InvalidInput
from tacit.noise.dominating_pmf import DominatingPMF, at_least, binomial_above, gaussian_law, half_bits_laws, upper_law
from tacit.planning import arms as module
from tacit.planning.arms import interval_of, mean_set, power_of, verdict_of
from tacit.released.arms import ArmStatistics, BitNoiseSum, FlippedBits, GaussianSum, NoNoise, noise_from_dict

NOISES = (NoNoise(), GaussianSum(std=6.0), BitNoiseSum(bits=400, probability=0.3), FlippedBits(flip=0.27))


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_the_law_above_a_binomial_mean_is_above_it_and_close(p):
    n = 50
    law = binomial_above(n, max(0.0, p - 0.01), min(1.0, p + 0.01), 0.002, 0.002)
    exact = stats.binom(n, p)
    for y in np.linspace(-0.3, 0.3, 61):
        truth = float(exact.sf(math.ceil(n * (y + p) - 1e-9) - 1))
        assert law.tail(float(y)) >= truth - 1e-12
        further = float(exact.sf(math.ceil(n * (y - 0.03 + p) - 1e-9) - 1))
        assert law.tail(float(y)) <= further + 0.03  # another mean within the set, and a step of the grid


def test_noise_laws_are_above_the_noise_and_close():
    gauss = gaussian_law(2.0, 0.02)
    up, down = half_bits_laws(300, 0.2, 1.0, 0.05)
    bits = stats.binom(300, 0.2)
    for y in (-1.0, 0.0, 0.7, 2.5, 6.0):
        assert stats.norm.sf(y / 2.0) <= gauss.tail(y) <= stats.norm.sf((y - 0.02) / 2.0) + 1e-12
        assert bits.sf(math.ceil(60 + 2 * y - 1e-9) - 1) <= up.tail(y) + 1e-12
        assert bits.cdf(math.floor(60 - 2 * y + 1e-9)) <= down.tail(y) + 1e-12
        assert up.tail(y) <= bits.sf(math.ceil(60 + 2 * y - 0.2) - 1) + 1e-12
    assert at_least(np.array([-1.0, 301.0]), 300, 0.2).tolist() == [1.0, 0.0]


def test_sums_of_laws_are_convolutions_and_what_lies_beyond_is_kept():
    a = DominatingPMF(step=0.5, first=-1, mass=np.array([0.25, 0.5]), beyond=0.25)
    b = DominatingPMF(step=0.5, first=2, mass=np.array([0.9, 0.1]), beyond=0.0)
    total = a + b
    assert total.first == 1
    assert np.allclose(total.mass, [0.225, 0.475, 0.05])
    assert total.tail(0.5) == pytest.approx(1.0)
    assert total.tail(1.0) == pytest.approx(0.775)
    assert total.quantile(0.2) == math.inf
    assert total.quantile(0.31) == 1.0
    with pytest.raises(InvalidInput, match="one grid"):
        _ = a + DominatingPMF(step=0.4, first=0, mass=np.ones(1), beyond=0.0)
    assert upper_law(lambda y: np.where(y <= 0.0, 1.0, 0.0), -1.0, 1.0, 0.5).quantile(0.0) == 0.5


def released(rng, noise, users, means):
    """Draw a release from its exact law, by NumPy alone."""
    sums = []
    for n, p in zip(users, means, strict=True):
        f = noise.flip
        total = float(rng.binomial(n, f + (1 - 2 * f) * p))
        if isinstance(noise, GaussianSum):
            total += rng.normal(0.0, noise.std)
        if isinstance(noise, BitNoiseSum):
            total += (rng.binomial(noise.bits, noise.probability) - rng.binomial(noise.bits, noise.probability)) / 2
        sums.append(total)
    return ArmStatistics(sums=tuple(sums), users=tuple(users), noise=noise)


def wrong(noise, users, means, runs, seed, told=None, alpha=0.1):
    """How many intervals of a difference miss it; `told` is the noise that the test is told of instead."""
    rng, missed = np.random.default_rng(seed), 0
    for _ in range(runs):
        found = released(rng, noise, users, means)
        if told is not None:
            found = ArmStatistics(sums=found.sums, users=found.users, noise=told)
        one = interval_of(found, alpha)
        missed += not one.low <= means[1] - means[0] <= one.high
    return missed


def most(runs, alpha, alarm):
    """The most misses that a right test has, but for the false-alarm rate."""
    return int(stats.binom.ppf(1.0 - alarm, runs, alpha))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.KIND)
def test_intervals_are_wrong_as_rarely_as_they_say(noise):
    """False-alarm rate 1e-4 each; at alpha 0.1, 80 runs."""
    assert wrong(noise, (60, 60), (0.5, 0.5), 80, 1) <= most(80, 0.1, 1e-4)


@pytest.mark.parametrize(
    ("noise", "told"),
    [
        (GaussianSum(std=14.0), NoNoise()),
        (GaussianSum(std=14.0), GaussianSum(std=5.0)),
        (BitNoiseSum(bits=1600, probability=0.3), BitNoiseSum(bits=100, probability=0.3)),
    ],
)
def test_noise_that_is_not_accounted_for_is_noticed(noise, told):
    """The power of the count above: a test that is told of less noise misses far too often."""
    assert wrong(noise, (60, 60), (0.5, 0.5), 80, 2, told=told) > most(80, 0.1, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.KIND)
@pytest.mark.parametrize("means", [(0.02, 0.02), (0.5, 0.55), (0.97, 0.9)])
@pytest.mark.parametrize("users", [(15, 15), (400, 150)])
def test_intervals_are_wrong_as_rarely_as_they_say_everywhere(noise, means, users):
    """False-alarm rate 1e-5 each; at alpha 0.05, 500 runs."""
    assert wrong(noise, users, means, 500, 3, alpha=0.05) <= most(500, 0.05, 1e-5)


def test_small_arms_are_covered_exactly():
    """Every outcome of two arms of 12 users, enumerated: the probability of a miss is at most alpha at every truth."""
    n, alpha = 12, 0.1
    pairs = [(a, b) for a in range(n + 1) for b in range(n + 1)]
    found = {
        (a, b): interval_of(ArmStatistics(sums=(float(a), float(b)), users=(n, n), noise=NoNoise()), alpha)
        for a, b in pairs
    }
    for p0, p1 in ((0.5, 0.5), (0.1, 0.1), (0.2, 0.7), (0.0, 0.3)):
        law = [(a, b, stats.binom.pmf(a, n, p0) * stats.binom.pmf(b, n, p1)) for a, b in pairs]
        above = sum(mass for a, b, mass in law if found[a, b].low > p1 - p0)
        below = sum(mass for a, b, mass in law if found[a, b].high < p1 - p0)
        assert above <= alpha / 2
        assert below <= alpha / 2


def test_one_arm_is_its_value():
    one = interval_of(ArmStatistics(sums=(30.0,), users=(100,), noise=NoNoise()), 0.05)
    assert one.estimate == 0.3
    assert one.p_value is None
    exact = stats.binomtest(30, 100).proportion_ci(0.95)  # Clopper and Pearson
    assert exact.low - 0.02 < one.low < exact.low + 0.01
    assert exact.high - 0.01 < one.high < exact.high + 0.02


def test_verdict_interval_and_p_value_say_the_same():
    for sums, expected in (((300.0, 420.0), "better"), ((420.0, 300.0), "worse"), ((300.0, 310.0), "not shown")):
        one = interval_of(ArmStatistics(sums=sums, users=(600, 600), noise=GaussianSum(std=3.0)), 0.05)
        assert verdict_of(one) == expected
        assert (one.p_value <= 0.05) == (expected != "not shown")


def test_the_sets_of_means_are_wide_enough_for_the_noise(monkeypatch):
    quiet, loud = (mean_set(0.3, 200, noise, 0.01) for noise in (NoNoise(), GaussianSum(std=20.0)))
    assert loud[0] < quiet[0] < 0.3 < quiet[1] < loud[1]
    assert mean_set(0.3, 200, FlippedBits(flip=0.4), 0.01)[0] == 0.4  # a flipped bit has a mean of at least f
    assert mean_set(-0.4, 200, GaussianSum(std=20.0), 0.01)[0] == 0.0


@pytest.mark.slow
def test_power_is_a_lower_bound_of_what_happens():
    """200 tests; false-alarm rate 1e-4."""
    noise, users, means = GaussianSum(std=5.0), (300, 300), (0.5, 0.63)
    stated, rng = power_of(users, noise, 0.05, means), np.random.default_rng(4)
    runs = [verdict_of(interval_of(released(rng, noise, users, means), 0.05)) for _ in range(200)]
    assert stats.binom.cdf(runs.count("better"), 200, stated) > 1e-4
    assert stated > runs.count("better") / 200 - 0.15  # and not a useless one
    assert power_of(users, noise, 0.05, (0.5, 0.5)) < 0.05


def test_bad_input_is_refused():
    good = ArmStatistics(sums=(1.0,), users=(10,), noise=NoNoise())
    for alpha in (0.0, 0.6, math.nan, 1e-12):
        with pytest.raises(InvalidInput, match="alpha"):
            interval_of(good, alpha)
    with pytest.raises(InvalidInput, match="one arm or two"):
        interval_of(ArmStatistics(sums=(1.0,) * 3, users=(5,) * 3, noise=NoNoise()), 0.05)
    for numbers in ({"sums": (math.nan,), "users": (3,)}, {"sums": (1.0, 2.0), "users": (3,)}):
        with pytest.raises(InvalidInput):
            ArmStatistics(**numbers, noise=NoNoise())
    for noise in NOISES:
        plain = ArmStatistics(sums=(1.0,), users=(9,), noise=noise).to_dict()
        assert ArmStatistics.from_dict(plain).noise == noise
    with pytest.raises(InvalidInput, match="unknown noise"):
        noise_from_dict({"kind": "no"})
    with pytest.raises(InvalidInput, match="other numbers"):
        noise_from_dict({"kind": "gaussian", "sigma": 1.0})
    assert module.NUISANCE < 0.5
