"""Randomized response: each numbered guarantee; the printed radius fails the coverage test that ours passes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from printed_radii import paper_response_radius
from scipy import stats

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput
from tacit.noise.randomized_response import RandomizedResponse, paper_response_epsilon, private_keep
from tacit.randomness import SecureNoise, SimulationNoise

H = 6
THREE = (
    Family(name="rewards", up=H, down=H, shift=1.0),
    Family(name="visits", up=H, down=H, shift=1.0),
    Family(name="transitions", up=H - 1, down=H - 1, shift=1.0),
)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def test_g1_each_bit_costs_its_epsilon() -> None:
    # Verdict table, row 15: ε₀ = ε/6H gives (6H-2)/(6H) = 0.944.
    paper = RandomizedResponse(epsilon=paper_response_epsilon(H, 1.0))
    assert epsilon_of(events_of(paper, THREE), 0.0) == pytest.approx(34 / 36, rel=1e-12)
    bit = RandomizedResponse(epsilon=0.7)
    assert math.log((1 - bit.flip) / bit.flip) == pytest.approx(0.7, rel=1e-12)
    # A counter of two bits that both flip is two bits.
    assert epsilon_of(bit.events(Family(name="x", up=1, down=0, shift=2.0)), 0.0) == pytest.approx(1.4)
    with pytest.raises(InvalidInput, match="whole"):
        bit.events(Family(name="x", up=1, down=0, shift=0.5))


@pytest.mark.parametrize("epsilon", [1 / 36, 1.0, 4.0])
def test_g2_unbiased_with_the_stated_variance_by_enumeration(epsilon: float) -> None:
    mechanism = RandomizedResponse(epsilon=epsilon)
    for bit in (0, 1):
        law = {bit: 1 - mechanism.flip, 1 - bit: mechanism.flip}
        values = {sent: float(mechanism.debias(sent)) for sent in law}
        mean = sum(law[sent] * values[sent] for sent in law)
        assert mean == pytest.approx(bit, abs=1e-12)
        variance = sum(law[sent] * (values[sent] - mean) ** 2 for sent in law)
        assert variance == pytest.approx(mechanism.variance, rel=1e-9)
    # Lemma L1 (randomized response): H e^ε₀/(e^ε₀-1)² per cell and episode; std 88.2 at ε₀ = 1/36, H = 6.
    if epsilon == 1 / 36:
        assert math.sqrt(H) * mechanism.std == pytest.approx(88.2, abs=0.05)


@pytest.mark.statistical
def test_g2_bits_and_their_aggregate_have_the_same_distribution() -> None:
    # Two-sample chi-squared over the number of ones, 20 000 sums of 12 bits, 5 of them one; false-alarm rate 1e-4.
    mechanism = RandomizedResponse(epsilon=1.0)
    bits = np.tile(np.arange(12) < 5, (20_000, 1)).astype(int)
    one_by_one = mechanism.debias(mechanism.randomize(bits, seeded(1)).sum(axis=1), 12) - 5

    def distance(other: np.ndarray) -> float:
        edges = mechanism.debias(np.arange(1.5, 11.0), 12) - 5
        table = np.array([np.bincount(np.digitize(x, edges), minlength=11) for x in (one_by_one, other)])
        return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 10]).pvalue)

    assert distance(mechanism.arrived(np.full(20_000, 5), 12, seeded(2).generator) - 5) > 1e-4
    # Power: the aggregate of 25 % less noise is found out.
    assert distance(RandomizedResponse(epsilon=1.25).arrived(np.full(20_000, 5), 12, seeded(2).generator) - 5) < 1e-4


@pytest.mark.statistical
def test_g2_samples_are_centred() -> None:
    # Mean of 40 000 draws within 3.9 standard errors: false-alarm rate 1e-4. A missing de-biasing term is rejected.
    mechanism = RandomizedResponse(epsilon=0.5)
    draws = mechanism.sample(40_000, seeded(3))
    error = 3.9 * mechanism.std / 200.0
    assert abs(draws.mean()) < error
    assert abs(draws.mean() + mechanism.gain * mechanism.flip) > error
    assert draws.std() == pytest.approx(mechanism.std, rel=0.05)


def exact_tail(mechanism: RandomizedResponse, terms: int, ones: int, radius: float) -> float:
    """P(|error of the de-biased sum| > radius), by convolving the kept ones with the raised zeros."""
    kept = stats.binom.pmf(np.arange(ones + 1), ones, 1 - mechanism.flip)
    raised = stats.binom.pmf(np.arange(terms - ones + 1), terms - ones, mechanism.flip)
    error = mechanism.debias(np.arange(terms + 1), terms) - ones
    return float(np.convolve(kept, raised)[np.abs(error) > radius].sum())


@pytest.mark.parametrize("epsilon", [1 / 36, 1 / 12, 1.0, 5.0])
@pytest.mark.parametrize("terms", [1, 12, 300])
def test_g3_radius_covers_exactly_whatever_the_bits(epsilon: float, terms: int) -> None:
    mechanism = RandomizedResponse(epsilon=epsilon)
    for p in (0.2, 0.003, 1e-9):
        radius = mechanism.radius(p, terms)
        assert max(exact_tail(mechanism, terms, ones, radius) for ones in {0, terms // 2, terms}) <= p
        assert radius <= mechanism.gain * math.sqrt(terms / 2 * math.log(2 / p)) * (1 + 1e-6)  # never above Hoeffding


def test_g3_the_printed_radius_does_not_cover() -> None:
    # Another range than in Lemma L1 (randomized response): at ε₀ = 1/12 the tail is 0.056 where 0.003 is needed.
    mechanism, terms, p = RandomizedResponse(epsilon=1 / 12), 300, 0.003
    printed = paper_response_radius(1 / 12, p, terms)
    assert exact_tail(mechanism, terms, 0, printed) > 10 * p
    assert exact_tail(mechanism, terms, 0, mechanism.radius(p, terms)) <= p
    # From ε₀ = ln 2 on, the printed range exceeds the true one and the radius is valid.
    large = RandomizedResponse(epsilon=1.0)
    assert exact_tail(large, terms, 0, paper_response_radius(1.0, p, terms)) <= p


def test_g4_largest_epsilon_per_bit() -> None:
    found = RandomizedResponse.calibrate(THREE, 1.0, 0.0)
    assert found.epsilon == pytest.approx(1 / 34, rel=1e-12)
    assert epsilon_of(events_of(found, THREE), 0.0) <= 1.0


@pytest.mark.parametrize("epsilon", [0.5, 14.0, 36.0, 37.0, 100.0, 1e6])
def test_g5_no_bit_is_certain_and_sampling_keeps_epsilon(epsilon: float) -> None:
    bit = RandomizedResponse(epsilon=epsilon)
    # P(random() < p), exactly: uniform numbers are multiples of 2⁻⁵³.
    flip, keep = (Fraction(math.ceil(Fraction(p) * 2**53), 2**53) for p in (bit.flip, private_keep(bit.flip)))
    assert 0 < flip < 1
    assert 0 < keep < 1
    assert max(math.log(keep / flip), math.log((1 - flip) / (1 - keep))) <= epsilon * (1 + 1e-13)


def test_bad_input() -> None:
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="epsilon"):
            RandomizedResponse(epsilon=bad)
    for sampler in (lambda m, s: m.sample(1, s), lambda m, s: m.randomize([0], s)):
        with pytest.raises(TypeError, match="simulations"):
            sampler(RandomizedResponse(epsilon=1.0), SecureNoise())
