"""Laplace noise: each numbered guarantee, and radii that cover while broken ones do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput
from tacit.noise.laplace import Laplace, paper_laplace_scale
from tacit.randomness import SecureNoise, SimulationNoise

H = 6
THREE = (
    Family(name="rewards", up=H, down=H, shift=1.0),
    Family(name="visits", up=H, down=H, shift=1.0),
    Family(name="transitions", up=H - 1, down=H - 1, shift=1.0),
)
COMPLEMENT = THREE[1:]  # (R, N-R) together change by 2H, transitions by 2(H-1)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def test_g1_pure_epsilon_is_l1_over_scale_and_attained() -> None:
    # Verdict table, row 12: the printed 6H/ε gives (6H-2)/(6H) = 0.944; tight b = (6H-2)/ε.
    paper = Laplace(scale=paper_laplace_scale(H, 1.0), discrete=False)
    assert epsilon_of(events_of(paper, THREE), 0.0) == pytest.approx(34 / 36, rel=1e-12)
    for discrete in (False, True):
        one = Laplace(scale=2.0, discrete=discrete)
        (family,) = (Family(name="x", up=1, down=0, shift=3.0),)
        assert delta_of(one.events(family), 1.5) == 0.0
        assert delta_of(one.events(family), 1.4) > 0.0
    # Row 11: [bai2024adversarial] Local prints 3H/ε for bandit feedback: 2ε, not ε.
    local = Laplace(scale=paper_laplace_scale(H, 1.0, families=3) / 2, discrete=False)
    bandit = tuple(Family(name=name, up=H, down=H, shift=1.0) for name in ("visits", "transitions", "losses"))
    assert epsilon_of(events_of(local, bandit), 0.0) == pytest.approx(2.0, rel=1e-12)


def test_g2_variance_of_both_twins() -> None:
    assert Laplace(scale=36.0, discrete=False).std == pytest.approx(50.9, abs=0.05)
    z = np.arange(-4000, 4001)
    for scale in (0.3, 5.0, 34.0):
        mass = np.exp(-np.abs(z) / scale)
        exact = float((mass * z**2).sum() / mass.sum())
        assert Laplace(scale=scale, discrete=True).variance == pytest.approx(exact, rel=1e-9)
    # Lemma N3 (discrete twins): the integer twin has variance about 2b² - 1/6.
    assert Laplace(scale=34.0, discrete=True).variance == pytest.approx(2 * 34.0**2 - 1 / 6, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("discrete", [False, True])
def test_g2_samples_have_the_stated_distribution(discrete: bool) -> None:
    # Chi-squared on 20 bins, 40 000 draws, false-alarm rate 1e-4; a scale 25 % off is rejected.
    threshold = stats.chi2.isf(1e-4, 19)
    mechanism = Laplace(scale=8.0, discrete=discrete)
    edges = np.concatenate([[-np.inf], np.arange(-27.5, 27.0, 3.0), [np.inf]])
    cdf = np.where(edges < 0, 0.5 * np.exp(-np.abs(edges) / 8.0), 1 - 0.5 * np.exp(-np.abs(edges) / 8.0))
    if discrete:  # P(Z ≤ x) at floor(x)
        q, k = math.exp(-1 / 8.0), np.floor(edges)
        with np.errstate(over="ignore", invalid="ignore"):
            cdf = np.where(k < 0, q ** np.abs(k) / (1 + q), 1 - q ** (k + 1) / (1 + q))
        cdf[0], cdf[-1] = 0.0, 1.0
    expected = np.diff(cdf) * 40_000

    def statistic(draws: np.ndarray) -> float:
        seen, _ = np.histogram(draws, np.concatenate([[-1e9], edges[1:-1], [1e9]]))
        return float(((seen - expected) ** 2 / expected).sum())

    assert statistic(mechanism.sample(40_000, seeded(1))) < threshold
    assert statistic(Laplace(scale=10.0, discrete=discrete).sample(40_000, seeded(1))) > threshold


def test_g3_one_term_is_the_exact_quantile() -> None:
    mechanism = Laplace(scale=5.0, discrete=False)
    assert mechanism.radius(0.01) == pytest.approx(5.0 * math.log(100.0), rel=1e-8)
    for p in (0.5, 0.05, 1e-9):
        t = Laplace(scale=5.0, discrete=True).radius(p)
        tail = 2 * math.exp(-(t + 1) / 5.0) / (1 + math.exp(-1 / 5.0))
        assert tail <= p
        assert tail * math.exp(1 / 5.0) > p  # one less would not cover


@pytest.mark.statistical
@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("terms", [1, 14])
def test_g3_radius_covers_and_three_quarters_of_it_does_not(discrete: bool, terms: int) -> None:
    # 20 000 sums, p = 0.05: false alarm when more than a binomial 1e-4 quantile of them leave the radius.
    mechanism = Laplace(scale=7.0, discrete=discrete)
    sums = np.abs(mechanism.sample((20_000, terms), seeded(2)).sum(axis=1))
    most = stats.binom.isf(1e-4, 20_000, 0.05)
    radius = mechanism.radius(0.05, terms)
    assert (sums > radius).sum() <= most
    # The exact radius is tight; the Chernoff bound has a slack of at most a third here.
    assert (sums > radius * (0.75 if terms == 1 or not discrete else 0.6)).sum() > most


def test_g3_sums_are_at_most_chernoff_and_at_most_the_closed_formula() -> None:
    # Lemma N6 (closed Laplace radius): b sqrt(8 max(L, ln(2/d')) ln(2/d'))
    mechanism = Laplace(scale=3.0, discrete=False)
    for terms in (1, 14, 1000, 100_000):
        for p in (0.1, 1e-6):
            log = math.log(2 / p)
            closed = 3.0 * math.sqrt(8 * max(terms, log) * log)
            assert 0.0 < mechanism.radius(p, terms) <= closed
            assert mechanism.radius(p, terms) <= Laplace(scale=3.0, discrete=True).radius(p, terms) + 1.0
    # For many terms the radius approaches the Gaussian quantile from above.
    gauss = stats.norm.isf(0.025) * math.sqrt(2 * 9 * 400)
    assert gauss < mechanism.radius(0.05, 400) * 1.001 < gauss * 1.01


def test_g4_least_scale_for_the_numbers_of_the_notes() -> None:
    assert Laplace.calibrate(THREE, 1.0, 0.0).scale == 34.0
    complement = Laplace.calibrate(COMPLEMENT, 1.0, 0.0)
    assert complement.std <= 31.2  # Lemma S6 (complements): R and N^p (paper: 50.9)
    assert complement.scale == 22.0
    assert Laplace.calibrate(THREE, 1.0, 0.0, discrete=True).discrete
    assert Laplace.calibrate(THREE, 1.0, 1e-6).scale < 34.0


def test_simulation_noise_only_and_whole_shifts_only() -> None:
    mechanism = Laplace(scale=1.0, discrete=True)
    with pytest.raises(TypeError, match="simulations"):
        mechanism.sample(1, SecureNoise())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="whole"):
        mechanism.events(Family(name="rewards", up=1, down=1, shift=0.5))
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="scale"):
            Laplace(scale=bad, discrete=False)
    for bad in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InvalidInput, match="failure_prob"):
            mechanism.radius(bad)
    with pytest.raises(InvalidInput, match="terms"):
        mechanism.radius(0.1, 0)
    assert (mechanism.sample(5, seeded(3)) == mechanism.sample(5, seeded(3))).all()
    assert mechanism.events(Family(name="nothing", up=0, down=0, shift=1.0)) == ()
