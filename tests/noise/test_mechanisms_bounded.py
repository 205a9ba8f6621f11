"""Bounded noise: each numbered guarantee; the printed radius of the noise violates its claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported
from tacit.noise.bounded import Bounded, paper_bounded_limit
from tacit.randomness import SecureNoise, SimulationNoise


def cells(horizon: int) -> tuple[Family, ...]:
    families = [Family(name=name, up=1, down=1, shift=float(horizon)) for name in ("rewards", "visits")]
    if horizon > 1:
        families.append(Family(name="transitions", up=1, down=1, shift=float(horizon - 1)))
    return tuple(families)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def unit_density(x: float) -> float:
    return math.exp(-math.exp(min(1.0 / (1.0 - x * x), 50.0)))


def test_g1_what_the_printed_limit_really_gives() -> None:
    # Verdict table, row 16: S=4, A=2, H=6, claimed 1: really 4.26 at 1e-5; cells = SA or S²A.
    visits, transitions = (Bounded(limit=paper_bounded_limit(n, 6, 1.0, 1e-5)) for n in (8, 32))
    events = (*events_of(visits, cells(6)[:2]), *transitions.events(cells(6)[2]))
    assert epsilon_of(events, 1e-5) == pytest.approx(4.26, abs=0.02)
    assert epsilon_of(events, 0.0) == math.inf


def test_g2_moments_match_quadrature() -> None:
    norm = integrate.quad(unit_density, -1, 1)[0]
    second = integrate.quad(lambda x: x * x * unit_density(x), -1, 1)[0]
    assert Bounded(limit=7.0).std == pytest.approx(7.0 * math.sqrt(second / norm), rel=1e-8)
    assert Bounded(limit=1.0).std == pytest.approx(0.28627, abs=5e-6)
    assert norm == pytest.approx(0.054966, abs=5e-7)


@pytest.mark.statistical
def test_g2_samples_have_the_stated_distribution() -> None:
    # Kolmogorov-Smirnov, 20 000 draws, false-alarm rate 1e-4; a limit 25 % off is rejected.
    x = np.linspace(-1, 1, 4001)
    density = np.array([unit_density(v) if abs(v) < 1 else 0.0 for v in x])
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cdf /= cdf[-1]
    draws = Bounded(limit=5.0).sample(20_000, seeded(1))
    assert np.abs(draws).max() < 5.0
    assert stats.kstest(draws, lambda v: np.interp(v / 5.0, x, cdf)).pvalue > 1e-4
    assert stats.kstest(draws, lambda v: np.interp(v / 6.25, x, cdf)).pvalue < 1e-4


def test_g3_one_term_is_the_exact_quantile() -> None:
    norm = integrate.quad(unit_density, -1, 1, epsabs=1e-14)[0]
    for p in (0.5, 0.01, 1e-5):
        radius = Bounded(limit=3.0).radius(p)
        inner = integrate.quad(unit_density, -radius / 3.0, radius / 3.0, epsabs=1e-14)[0] / norm
        assert 1 - inner <= p + 1e-12
        below = integrate.quad(unit_density, -(radius - 0.003) / 3.0, (radius - 0.003) / 3.0, epsabs=1e-14)[0] / norm
        assert 1 - below > p


@pytest.mark.statistical
@pytest.mark.parametrize("terms", [2, 30])
def test_g3_radius_of_sums_covers_and_two_thirds_of_it_do_not(terms: int) -> None:
    # 20 000 sums, p = 0.05: false alarm when more than a binomial 1e-4 quantile of them leave the radius.
    mechanism = Bounded(limit=4.0)
    sums = np.abs(mechanism.sample((20_000, terms), seeded(2)).sum(axis=1))
    most = stats.binom.isf(1e-4, 20_000, 0.05)
    radius = mechanism.radius(0.05, terms)
    assert (sums > radius).sum() <= most
    assert (sums > radius * 2 / 3).sum() > most
    assert mechanism.radius(1e-300, terms) <= 4.0 * terms
    # Never above Hoeffding for range 2R.
    assert radius <= 4.0 * math.sqrt(2 * terms * math.log(2 / 0.05))


def test_g4_least_limit_for_reference_numbers() -> None:
    # Another accountant's R_min for three families with a common R: H=1 (1, 1e-5) 82.4; H=2 (2, .1) 14.06.
    assert Bounded.calibrate(cells(2), 2.0, 0.1).limit == pytest.approx(14.06, rel=3e-3)
    least = Bounded.calibrate(cells(1), 1.0, 1e-5)
    assert least.limit == pytest.approx(82.4, rel=3e-3)
    assert epsilon_of(events_of(least, cells(1)), 1e-5) <= 1.0
    with pytest.raises(NotSupported, match="laplace"):
        Bounded.calibrate(cells(1), 1.0, 0.0)


def test_bad_input() -> None:
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="limit"):
            Bounded(limit=bad)
    with pytest.raises(TypeError, match="simulations"):
        Bounded(limit=1.0).sample(1, SecureNoise())  # type: ignore[arg-type]
