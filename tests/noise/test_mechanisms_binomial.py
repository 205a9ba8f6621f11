"""Binomial noise: each numbered guarantee, and the numbers of the shuffle model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from papers.bai2025secure.verdicts import hoeffding_bits
from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import BinomialEvent
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported
from tacit.noise.binomial import Binomial, paper_binomial, paper_threshold
from tacit.randomness import SecureNoise, SimulationNoise

H = 6


def counters(differing: int) -> tuple[Family, ...]:
    return (Family(name="counters", up=differing // 2, down=differing // 2, shift=1.0),)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def test_g1_up_and_down_are_separate_events() -> None:
    mechanism = Binomial(bits=100, probability=0.2)
    family = Family(name="visits", up=2, down=3, shift=1.0)
    assert mechanism.events(family) == (
        (BinomialEvent(bits=100, probability=0.2, shift=1), 2),
        (BinomialEvent(bits=100, probability=0.2, shift=-1), 3),
    )
    with pytest.raises(InvalidInput, match="by one"):
        mechanism.events(Family(name="cell", up=1, down=1, shift=2.0))


@pytest.mark.parametrize(
    ("users", "cells", "bits", "epsilon"),
    [
        (100, None, 451_300, 0.06288),
        (1_000, None, 452_000, 0.06283),
        (10_000, None, 460_000, 0.06224),
        (1_000, H * 4 * 2, 572_000, 0.05537),
    ],
)
def test_g1_the_printed_noise_is_true_with_sixteenfold_slack(
    users: int, cells: int | None, bits: int, epsilon: float
) -> None:
    # Sum view, replace-one: docs/guarantees.md, rows 1 and 2.
    mechanism = paper_binomial(H, 1.0, 1e-6, users=users, cells=cells)
    assert mechanism == Binomial(bits=bits, probability=0.5)
    assert epsilon_of(events_of(mechanism, counters(6 * H)), 1e-6) == pytest.approx(epsilon, rel=2e-3)


def test_g1_the_printed_noise_with_more_users_than_bits() -> None:
    mechanism = paper_binomial(H, 1.0, 1e-6, users=1_000_000)
    assert mechanism.bits == 1_000_000
    assert mechanism.probability == pytest.approx(0.2256, abs=1e-4)
    assert mechanism.std == pytest.approx(418.0, abs=0.1)
    assert epsilon_of(events_of(mechanism, counters(6 * H)), 1e-6) == pytest.approx(0.04972, rel=2e-3)
    # Lemma M3 (enough bits): the constant 96 absorbs the missing factor 2 and the missing composition of β.
    assert hoeffding_bits(1 / (6 * H), 1e-6 / (6 * H)) < paper_threshold(H, 1.0, 1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("probability", [0.5, 0.05])
def test_g2_samples_have_the_stated_distribution(probability: float) -> None:
    # Chi-squared over whole values, 20 000 draws, false-alarm rate 1e-4; 25 % fewer bits are rejected.
    mechanism = Binomial(bits=200, probability=probability)
    values = np.arange(201)
    law = stats.binom.pmf(values, 200, probability)
    often = law * 20_000 > 10

    def pvalue(noise: np.ndarray) -> float:
        seen = np.bincount(np.rint(noise + mechanism.mean).astype(int), minlength=201)
        table, expected = np.append(seen[often], seen[~often].sum()), np.append(law[often], law[~often].sum()) * 20_000
        return float(stats.chisquare(table, expected).pvalue)

    assert pvalue(mechanism.sample(20_000, seeded(1))) > 1e-4
    fewer = Binomial(bits=150, probability=probability)
    assert pvalue(fewer.sample(20_000, seeded(1)) + fewer.mean - mechanism.mean) < 1e-4
    assert pvalue(fewer.sample(20_000, seeded(1))) < 1e-4  # the right mean and 25 % less variance
    assert mechanism.variance == pytest.approx(200 * probability * (1 - probability))


@pytest.mark.parametrize("probability", [0.5, 0.05, 0.001])
@pytest.mark.parametrize("bits", [1, 7, 2571])
@pytest.mark.parametrize("terms", [1, 5])
def test_g3_radius_is_the_exact_quantile(bits: int, probability: float, terms: int) -> None:
    mechanism = Binomial(bits=bits, probability=probability)
    sums = stats.binom(bits * terms, probability)
    mean = bits * terms * probability
    for p in (0.5, 0.01, 1e-6):
        radius = mechanism.radius(p, terms)
        above, below = mean + radius, mean - radius
        assert sums.sf(math.floor(above + 1e-9)) <= p / 2
        assert sums.cdf(math.ceil(below - 1e-9) - 1) <= p / 2
        # The next smaller radius leaves one side uncovered.
        less = radius - 0.5
        assert radius <= 1.0 or max(sums.sf(math.floor(mean + less)), sums.cdf(math.ceil(mean - less) - 1)) > p / 2


def test_g3_the_precision_of_a_reference_instance() -> None:
    # Binomial quantiles: tight fine E = 4t = 468 and paper E = 6210 at K=2e4, δ=.1, H=6, X=4, A=2, calls = B(H+1).
    counters_released, calls = H * 4 * 2 * (4 + 2), 7 * 10
    p = 0.1 / (calls * counters_released)
    assert 4 * Binomial(bits=2574, probability=0.5).radius(p) == pytest.approx(468, rel=0.05)
    assert 4 * Binomial(bits=452_000, probability=0.5).radius(p) == pytest.approx(6210, rel=0.05)


@pytest.mark.parametrize(
    ("differing", "bits", "most_std"), [(36, 2574, 25.5), (22, 1573, 19.9), (4, 288, 8.6), (2, 148, 6.1)]
)
def test_g4_fewest_bits_for_reference_numbers(differing: int, bits: int, most_std: float) -> None:
    # Bits of another accountant (±0.3 %), and the least noise that is promised.
    mechanism = Binomial.calibrate(counters(differing), 1.0, 1e-6)
    assert mechanism.bits == pytest.approx(bits, rel=3e-3)
    assert mechanism.std <= most_std
    assert epsilon_of(events_of(mechanism, counters(differing)), 1e-6) <= 1.0


@pytest.mark.parametrize("users", [1, 100, 288, 289, 1000])
def test_g4_bits_are_spread_over_the_users(users: int) -> None:
    mechanism = Binomial.calibrate(counters(4), 1.0, 1e-6, users=users)
    assert mechanism.bits % users == 0
    assert mechanism.bits - Binomial.calibrate(counters(4), 1.0, 1e-6).bits < users
    assert epsilon_of(events_of(mechanism, counters(4)), 1e-6) <= 1.0


def test_bad_input() -> None:
    for changes in ({"bits": 0}, {"bits": 1.5}, {"probability": 0.0}, {"probability": 0.6}, {"probability": math.nan}):
        with pytest.raises(InvalidInput):
            Binomial(**({"bits": 10, "probability": 0.5} | changes))  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="laplace"):
        Binomial.calibrate(counters(4), 1.0, 0.0)
    with pytest.raises(TypeError, match="simulations"):
        Binomial(bits=1, probability=0.5).sample(1, SecureNoise())  # type: ignore[arg-type]
