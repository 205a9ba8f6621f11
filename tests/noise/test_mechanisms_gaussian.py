"""Gaussian noise: each numbered guarantee; the printed radius without √2 fails the coverage test that ours passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from printed_radii import paper_gaussian_radius
from scipy import stats

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported
from tacit.noise.gaussian import Gaussian, paper_gaussian_sigma
from tacit.randomness import SecureNoise, SimulationNoise


def cells(horizon: int) -> tuple[Family, ...]:
    """Aggregated over steps, one user sits in one cell all the time: the worst pattern of a local release."""
    families = [Family(name=name, up=1, down=1, shift=float(horizon)) for name in ("rewards", "visits")]
    if horizon > 1:
        families.append(Family(name="transitions", up=1, down=1, shift=float(horizon - 1)))
    return tuple(families)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("horizon", "proved", "stated"), [(1, 0.971, 0.105), (2, 1.036, 0.112), (6, 1.144, 0.124), (20, 1.191, 0.129)]
)
def test_g1_what_the_printed_constants_really_give(horizon: int, proved: float, stated: float) -> None:
    # Lemma S5 (pooled counts): exact epsilon at (1, 1e-5) of the c² version (false for H >= 2) and of the c version.
    for constant, expected in ((True, proved), (False, stated)):
        sigma = paper_gaussian_sigma(horizon, 1.0, 1e-5, proved_constant=constant)
        assert epsilon_of(events_of(Gaussian(sigma=sigma), cells(horizon)), 1e-5) == pytest.approx(expected, abs=6e-4)


def test_g1_the_printed_table_without_the_constant_is_far_off() -> None:
    # σ = H/ε (Table 1) really gives 12.0 at H = 6.
    assert epsilon_of(events_of(Gaussian(sigma=6.0), cells(6)), 1e-5) == pytest.approx(12.0, abs=0.05)


@pytest.mark.parametrize("sigma", [1.0, 5.0, 14.6])
def test_g1_the_discrete_twin_agrees_with_the_oracle(sigma: float) -> None:
    counter = Family(name="one", up=1, down=0, shift=1.0)
    events = Gaussian(sigma=sigma, discrete=True).events(counter)
    theirs = oracle.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=5e-5 / sigma)
    twelvefold = theirs.self_compose(12)
    for delta in (1e-8, 1e-5, 1e-3):
        assert epsilon_of(events, delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-4)
        twelve = twelvefold.get_epsilon_for_delta(delta)
        assert epsilon_of(events * 12, delta) == pytest.approx(twelve, rel=1e-4)
    # At some ε one counter on the lattice is less private than continuous noise: the analytic curve must not be used.
    smooth = Gaussian(sigma=sigma).events(counter)
    grid = np.linspace(1.0, 3.0, 41) / sigma
    assert max(delta_of(events, epsilon) / delta_of(smooth, epsilon) for epsilon in grid) > 1.0005
    with pytest.raises(InvalidInput, match="whole"):
        Gaussian(sigma=sigma, discrete=True).events(Family(name="rewards", up=1, down=0, shift=0.5))


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [0.6, 4.0])
def test_g2_discrete_samples_have_the_stated_distribution(sigma: float) -> None:
    # Chi-squared over whole values, 20 000 draws, false-alarm rate 1e-4; a σ 25 % off is rejected.
    z = np.arange(-60, 61)
    law = np.exp(-0.5 * (z / sigma) ** 2)
    law /= law.sum()
    assert Gaussian(sigma=sigma, discrete=True).variance == pytest.approx(float(law @ z**2), rel=1e-12)
    often = law * 20_000 > 10

    def pvalue(draws: np.ndarray) -> float:
        seen = np.bincount(draws.astype(int) + 60, minlength=121)
        table, expected = np.append(seen[often], seen[~often].sum()), np.append(law[often], law[~often].sum()) * 20_000
        return float(stats.chisquare(table, expected).pvalue)

    assert pvalue(Gaussian(sigma=sigma, discrete=True).sample(20_000, seeded(4))) > 1e-4
    assert pvalue(Gaussian(sigma=1.25 * sigma, discrete=True).sample((200, 100), seeded(4)).ravel()) < 1e-4


@pytest.mark.parametrize("sigma", [0.3, 2.0, 50.0])
def test_g3_the_discrete_radius_is_the_exact_quantile(sigma: float) -> None:
    z = np.arange(-4000, 4001)
    law = np.exp(-0.5 * (z / sigma) ** 2)
    law /= law.sum()
    for p in (0.4, 0.01, 1e-7):
        radius = Gaussian(sigma=sigma, discrete=True).radius(p)
        assert law[np.abs(z) > radius].sum() <= p
        assert radius == 0.0 or law[np.abs(z) > radius - 1].sum() > p
        many = Gaussian(sigma=sigma, discrete=True).radius(p, 9)
        assert many >= Gaussian(sigma=sigma).radius(p, 9)


@pytest.mark.statistical
def test_g2_samples_have_the_stated_distribution() -> None:
    # Kolmogorov-Smirnov, 20 000 draws, false-alarm rate 1e-4; a scale 25 % off is rejected.
    draws = Gaussian(sigma=3.0).sample(20_000, seeded(1))
    assert stats.kstest(draws / 3.0, "norm").pvalue > 1e-4
    assert stats.kstest(draws / 3.75, "norm").pvalue < 1e-4
    assert Gaussian(sigma=3.0).variance == 9.0


@pytest.mark.statistical
@pytest.mark.parametrize("terms", [1, 10])
def test_g3_radius_covers_and_the_printed_one_does_not(terms: int) -> None:
    # 100 000 sums, p = 0.003: false alarm when more than a binomial 1e-4 quantile of them leave the radius.
    mechanism = Gaussian(sigma=2.0)
    sums = np.abs(mechanism.sample((100_000, terms), seeded(2)).sum(axis=1))
    most, fewest = stats.binom.isf(1e-4, 100_000, 0.003), stats.binom.ppf(1e-4, 100_000, 0.003)
    outside = (sums > mechanism.radius(0.003, terms)).sum()
    assert fewest <= outside <= most  # exact: neither too small nor too large
    assert (sums > paper_gaussian_radius(2.0, 0.003, terms)).sum() > most


def test_g3_quantile_is_exact_and_below_the_valid_closed_formula() -> None:
    for p in (0.3, 1e-3, 1e-12):
        assert Gaussian(sigma=2.0).radius(p) == pytest.approx(2.0 * stats.norm.isf(p / 2), rel=1e-9)
        # Lemma N1 (sub-gamma radius) with c = 0: σ sqrt(2 n ln(2/p)) is valid.
        assert Gaussian(sigma=2.0).radius(p, 7) <= 2.0 * math.sqrt(2 * 7 * math.log(2 / p))


def test_g4_least_sigma_for_the_numbers_of_the_notes() -> None:
    # Verdict table, row 13: 52.0, complement encoding 41.2 at (1, 1e-5), H = 6.
    assert Gaussian.calibrate(cells(6), 1.0, 1e-5).sigma == pytest.approx(52.0, abs=0.05)
    assert Gaussian.calibrate(cells(6)[1:], 1.0, 1e-5).sigma == pytest.approx(41.2, abs=0.05)
    for epsilon, delta, mu in ((1, 1e-6, 0.23670), (1, 1e-5, 0.26805), (0.1, 1e-6, 0.02754), (3, 1e-5, 0.71912)):
        unit = (Family(name="one", up=1, down=0, shift=1.0),)
        assert 1 / Gaussian.calibrate(unit, epsilon, delta).sigma == pytest.approx(mu, abs=6e-6)
    twin = Gaussian.calibrate(cells(6), 1.0, 1e-5, discrete=True)
    assert twin.sigma == pytest.approx(52.0, abs=0.05)
    assert epsilon_of(events_of(twin, cells(6)), 1e-5) <= 1.0
    with pytest.raises(NotSupported, match="laplace"):
        Gaussian.calibrate(cells(2), 1.0, 0.0)


def test_bad_input() -> None:
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="sigma"):
            Gaussian(sigma=bad)
    with pytest.raises(TypeError, match="simulations"):
        Gaussian(sigma=1.0).sample(1, SecureNoise())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="failure_prob"):
        Gaussian(sigma=1.0).radius(math.nan)
    assert (Gaussian(sigma=1.0).sample(5, seeded(3)) == Gaussian(sigma=1.0).sample(5, seeded(3))).all()
