"""Optimized unary encoding of one slot: each numbered guarantee, by enumeration and with exact tails."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.randomness import SecureNoise, SimulationNoise

SLOT = (Family(name="one slot", up=1, down=1, shift=1.0),)


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def law_of_vector(mechanism: UnaryEncoding, hot: int | None, width: int) -> dict[tuple[int, ...], float]:
    """The distribution of the sent bits of a one-hot vector (or of the zero vector)."""
    rise = [mechanism.keep if cell == hot else mechanism.rise for cell in range(width)]
    return {
        sent: math.prod(p if bit else 1 - p for p, bit in zip(rise, sent, strict=True))
        for sent in itertools.product((0, 1), repeat=width)
    }


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_g1_a_replaced_vector_costs_epsilon_by_enumeration(epsilon: float) -> None:
    mechanism = UnaryEncoding(epsilon=epsilon, slots=18, feeding=1)
    laws = [law_of_vector(mechanism, hot, 4) for hot in range(4)]
    worst = max(math.log(one[sent] / other[sent]) for one in laws for other in laws for sent in one)
    assert worst == pytest.approx(epsilon, rel=1e-12)
    # An empty vector (zero-out) costs less: ln((e^ε+1)/2).
    empty = law_of_vector(mechanism, None, 4)
    loss = max(abs(math.log(empty[sent] / laws[0][sent])) for sent in empty)
    assert loss == pytest.approx(max(math.log((math.exp(epsilon) + 1) / 2), math.log(2 * (1 - mechanism.rise))))
    assert loss < epsilon
    assert epsilon_of(events_of(mechanism, SLOT), 0.0) == epsilon
    with pytest.raises(InvalidInput, match="one-hot"):
        mechanism.events(Family(name="cell", up=1, down=1, shift=2.0))


def law_of_counter(mechanism: UnaryEncoding, ones: int) -> tuple[np.ndarray, np.ndarray]:
    """One user's estimate of a counter with this many ones among its feeding bits: values and probabilities."""
    one, zero = ones / mechanism.slots, (mechanism.feeding - ones) / mechanism.slots
    rises = one * mechanism.keep + zero * mechanism.rise
    falls = one + zero - rises
    values = np.array([float(mechanism.debias(1)), float(mechanism.debias(0)), 0.0])
    return values, np.array([rises, falls, 1.0 - one - zero])


@pytest.mark.parametrize("ones", [0, 1, 6])
def test_g2_unbiased_with_the_stated_variance_by_enumeration(ones: int) -> None:
    mechanism = UnaryEncoding(epsilon=1.0, slots=18, feeding=6)
    values, law = law_of_counter(mechanism, ones)
    assert float(values @ law) == pytest.approx(ones, abs=1e-9)
    variance = float((values - ones) ** 2 @ law)
    assert variance == pytest.approx(mechanism.noise_variance + 2 * 18 * ones - ones**2, rel=1e-9)
    assert variance <= mechanism.variance * (1 + 1e-12)


def test_g2_reference_numbers() -> None:
    # Lemma L2 (one slot): 3H² · 4e^ε/(e^ε-1)² = 398 against 2592 at H = 6, ε = 1; a noise std of at most 20.
    mechanism = UnaryEncoding(epsilon=1.0, slots=18, feeding=6)
    assert mechanism.noise_variance == pytest.approx(3 * 36 * 4 * math.e / (math.e - 1) ** 2)
    assert math.sqrt(mechanism.noise_variance) <= 20.0
    assert mechanism.sampling_variance == 180.0
    assert mechanism.std == pytest.approx(math.sqrt(397.8 + 180), abs=0.01)


@pytest.mark.statistical
def test_g2_randomized_bits_and_samples_are_unbiased() -> None:
    # Means within 3.9 standard errors of 40 000 draws: false-alarm rate 1e-4 each; the other probability is rejected.
    mechanism = UnaryEncoding(epsilon=1.0, slots=1, feeding=1)
    sent = mechanism.randomize(np.tile([0, 1], (40_000, 1)), seeded(1)).mean(axis=0)
    for mean, p, wrong in ((sent[0], mechanism.rise, mechanism.keep), (sent[1], mechanism.keep, mechanism.rise)):
        error = 3.9 * math.sqrt(p * (1 - p) / 40_000)
        assert abs(mean - p) < error < abs(mean - wrong)
    slots = UnaryEncoding(epsilon=1.0, slots=18, feeding=6)
    draws = slots.sample(40_000, seeded(2))
    assert abs(draws.mean()) < 3.9 * math.sqrt(slots.noise_variance / 40_000)
    assert draws.var() == pytest.approx(slots.noise_variance, rel=0.1)  # a third of the slots: 12.5 would be 25 % off


def exact_tail(mechanism: UnaryEncoding, users: int, ones: int, radius: float) -> float:
    """P(|error of the counter| > radius) for users with this many ones each, summed over all outcomes."""
    values, law = law_of_counter(mechanism, ones)
    tail = 0.0
    for rises in range(users + 1):
        falls = np.arange(users - rises + 1)
        error = rises * values[0] + falls * values[1] - users * ones
        fall = stats.binom.pmf(falls, users - rises, min(law[1] / (1 - law[0]), 1.0))
        tail += float(stats.binom.pmf(rises, users, law[0]) * fall[np.abs(error) > radius].sum())
    return tail


@pytest.mark.parametrize(("slots", "feeding"), [(1, 1), (18, 1), (18, 6)])
@pytest.mark.parametrize("users", [1, 40])
def test_g3_radius_covers_exactly_whatever_the_bits(slots: int, feeding: int, users: int) -> None:
    mechanism = UnaryEncoding(epsilon=1.0, slots=slots, feeding=feeding)
    for p in (0.1, 1e-3):
        radius = mechanism.radius(p, users)
        bits = {0, feeding // 2, feeding}
        assert max(exact_tail(mechanism, users, ones, radius) for ones in bits) <= p
        # Half of it does not cover: the bound is not vacuous, and the test would notice one that is too small.
        assert users == 1 or max(exact_tail(mechanism, users, ones, radius / 2) for ones in bits) > p


def test_g4_all_of_epsilon_for_one_slot() -> None:
    found = UnaryEncoding.calibrate(SLOT, 1.0, 0.0, slots=18, feeding=6)
    assert found == UnaryEncoding(epsilon=1.0, slots=18, feeding=6)
    whole = UnaryEncoding.calibrate([Family(name="steps", up=6, down=6, shift=1.0)], 1.0, 0.0)
    assert whole.epsilon == pytest.approx(1 / 6, rel=1e-12)  # all slots sent: each gets its share


def test_bad_input() -> None:
    for changes in ({"epsilon": 0.0}, {"epsilon": math.nan}, {"slots": 0}, {"feeding": 0}, {"feeding": 19}):
        with pytest.raises(InvalidInput):
            UnaryEncoding(**({"epsilon": 1.0, "slots": 18, "feeding": 6} | changes))  # type: ignore[arg-type]
    mechanism = UnaryEncoding(epsilon=1.0, slots=1, feeding=1)
    with pytest.raises(TypeError, match="simulations"):
        mechanism.sample(1, SecureNoise())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="simulations"):
        mechanism.randomize([0, 1], SecureNoise())  # type: ignore[arg-type]
