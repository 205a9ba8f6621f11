"""Subset selection of one slot: each numbered guarantee, by enumeration of all subsets."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from test_mechanisms_unary_encoding import SLOT, exact_tail, law_of_counter

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput
from tacit.noise.randomized_response import RandomizedResponse, private_keep
from tacit.noise.subset_selection import SubsetSelection, add_subset, best_size
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.randomness import SecureNoise, SimulationNoise

SIZES = [(2, 1), (3, 1), (5, 2), (6, 3), (8, 1)]


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def slot(epsilon: float, cells: int, size: int, *, slots: int = 1, feeding: int = 1) -> SubsetSelection:
    return SubsetSelection(epsilon=epsilon, slots=slots, feeding=feeding, cells=cells, size=size)


def law_of_subset(epsilon: float, cells: int, size: int, hot: int) -> dict[tuple[int, ...], float]:
    """From the definition: subsets with the true cell are e^ε times as probable as those without, all else alike."""
    weights = {
        subset: math.exp(epsilon) if hot in subset else 1.0 for subset in itertools.combinations(range(cells), size)
    }
    total = sum(weights.values())
    return {subset: weight / total for subset, weight in weights.items()}


@pytest.mark.parametrize(("cells", "size"), SIZES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_g1_a_replaced_vector_costs_epsilon_by_enumeration(epsilon: float, cells: int, size: int) -> None:
    laws = [law_of_subset(epsilon, cells, size, hot) for hot in range(cells)]
    worst = max(math.log(one[sent] / other[sent]) for one in laws for other in laws for sent in one)
    assert worst == pytest.approx(epsilon, rel=1e-12)
    assert epsilon_of(events_of(slot(epsilon, cells, size), SLOT), 0.0) == epsilon
    with pytest.raises(InvalidInput, match="one-hot"):
        slot(epsilon, cells, size).events(Family(name="cell", up=1, down=1, shift=2.0))


@pytest.mark.statistical
@pytest.mark.parametrize(("cells", "size"), SIZES)
def test_g1_sent_subsets_have_the_law_of_the_definition(cells: int, size: int) -> None:
    """Each of at most 20 subsets within 4.9 standard errors: false alarms below 1e-4 in all. Power: ε 20% off fails."""
    epsilon, users, hot = 1.5, 20_000, cells - 1
    sent = slot(epsilon, cells, size).randomize(np.full(users, hot), seeded(cells))
    assert (sent.sum(axis=1) == size).all()

    def far(law: dict[tuple[int, ...], float]) -> bool:
        wrong = False
        for subset, p in law.items():
            seen = sent[:, list(subset)].all(axis=1).mean()
            wrong = wrong or abs(seen - p) > 4.9 * math.sqrt(p * (1 - p) / users)
        return wrong

    assert not far(law_of_subset(epsilon, cells, size, hot))
    assert far(law_of_subset(1.2 * epsilon, cells, size, hot))


@pytest.mark.parametrize(("cells", "size"), SIZES)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 30.0])
def test_g2_probabilities_and_covariance_by_enumeration(epsilon: float, cells: int, size: int) -> None:
    mechanism, law = slot(epsilon, cells, size), law_of_subset(epsilon, cells, size, 0)
    bits = np.array([[1.0 if c in subset else 0.0 for c in range(cells)] for subset in law])
    chances = np.array(list(law.values()))
    mean = chances @ bits
    assert mean[0] == pytest.approx(mechanism.keep, rel=1e-12)
    assert mean[1:] == pytest.approx([mechanism.rise] * (cells - 1), rel=1e-9)
    assert mean[0] - mean[1] == pytest.approx(mechanism.contrast, rel=1e-9)
    covariance = (bits - mean).T @ ((bits - mean) * chances[:, np.newaxis])
    assert (covariance - np.diag(np.diag(covariance)) <= 1e-15).all()
    if cells > 2:
        assert covariance[1, 2] == pytest.approx(mechanism.covariance, rel=1e-9, abs=1e-15)
        assert covariance[0, 1] == pytest.approx(mechanism.true_covariance, rel=1e-9)
    for m in range(1, cells):  # sums over cells: without the true one, and with it
        sums = [mechanism.debias(bits[:, part].sum(axis=1), m) for part in (slice(1, m + 1), slice(0, m))]
        spread = [float(chances @ (total - held) ** 2) for held, total in enumerate(sums)]
        assert max(spread) == pytest.approx(mechanism.sum_variance(m), rel=1e-6)
        assert all(float(np.abs(total - held).max()) <= mechanism.reach(m) for held, total in enumerate(sums))


@pytest.mark.parametrize("ones", [0, 1, 3])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_g2_unbiased_with_the_stated_variance(epsilon: float, ones: int) -> None:
    mechanism = slot(epsilon, 8, 1, slots=5, feeding=3)
    values, law = law_of_counter(mechanism, ones)
    assert float(values @ law) == pytest.approx(ones, abs=1e-9)
    variance = float((values - ones) ** 2 @ law)
    assert variance == pytest.approx(mechanism.noise_variance + mechanism.weight * ones - ones**2, rel=1e-9)
    assert variance <= mechanism.variance * (1 + 1e-12)


@pytest.mark.parametrize(("slots", "feeding"), [(1, 1), (9, 1), (9, 5)])
@pytest.mark.parametrize("users", [1, 40])
def test_g3_radius_covers_exactly_whatever_the_bits(slots: int, feeding: int, users: int) -> None:
    mechanism = slot(1.0, 8, best_size(8, 1.0), slots=slots, feeding=feeding)
    for p in (0.1, 1e-3):
        radius = mechanism.radius(p, users)
        bits = {0, feeding // 2, feeding}
        assert max(exact_tail(mechanism, users, ones, radius) for ones in bits) <= p
        assert users == 1 or max(exact_tail(mechanism, users, ones, radius / 2) for ones in bits) > p


@pytest.mark.parametrize("cells", [1, 2, 3, 8, 16, 33, 200])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_g4_the_best_size_beats_every_other_and_unary_encoding(cells: int, epsilon: float) -> None:
    found = slot(epsilon, cells, best_size(cells, epsilon))
    others = [slot(epsilon, cells, size).noise_variance for size in range(1, max(2, cells))]
    assert found.noise_variance == min(others)
    assert found.noise_variance <= UnaryEncoding(epsilon=epsilon, slots=1, feeding=1).noise_variance


def test_g4_all_of_epsilon_for_one_slot_and_known_cases() -> None:
    found = SubsetSelection.calibrate(SLOT, 2.0, 0.0, slots=3, feeding=2, cells=8)
    assert found == slot(2.0, 8, 1, slots=3, feeding=2)
    # Two cells: randomized response of one bit.
    assert slot(1.3, 2, 1).noise_variance == pytest.approx(RandomizedResponse(epsilon=1.3).variance, rel=1e-12)
    # Direct answers: (d - 2 + e^ε)/(e^ε - 1)² per sender; one cell has nothing to hide.
    assert slot(2.0, 8, 1).noise_variance == pytest.approx((6 + math.exp(2)) / math.expm1(2) ** 2, rel=1e-12)
    assert slot(1.0, 1, 1).noise_variance == 0.0


def test_bad_input() -> None:
    for changes in ({"epsilon": 0.0}, {"cells": 0}, {"size": 0}, {"size": 8}, {"feeding": 2}):
        given = {"epsilon": 1.0, "slots": 1, "feeding": 1, "cells": 8, "size": 2} | changes
        with pytest.raises(InvalidInput):
            SubsetSelection(**given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="simulations"):
        slot(1.0, 4, 1).randomize([0, 1], SecureNoise())  # type: ignore[arg-type]


class Extreme:
    """A seeded generator at its largest or least uniform number: every comparison that can fail, or hold, does."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def lattice(probability: float) -> Fraction:
    """P(random() < probability), exactly: uniform numbers are multiples of 2⁻⁵³."""
    return Fraction(math.ceil(Fraction(probability) * 2**53), 2**53)


def log_ratio(one: Fraction, other: Fraction) -> float:
    with localcontext() as context:
        context.prec = 60
        quotient = Decimal(one.numerator) * other.denominator / (Decimal(one.denominator) * other.numerator)
        return float(quotient.ln())


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 14.0, 25.0, 30.0, 33.3, 35.0, 36.0, 36.6, 37.0, 40.0, 100.0, 800.0, 1e6])
def test_g1_sampled_messages_keep_epsilon_however_large_it_is(epsilon: float) -> None:
    # Up to 0.2.0 `keep` rounded to 1 from epsilon 37 on: the truth was sent always, and a finite epsilon certified.
    for cells, size in ((2, 1), (8, 1), (7, 3), (64, 1)):
        mechanism = SubsetSelection(epsilon=epsilon, slots=1, feeding=1, cells=cells, size=size)
        keep = lattice(mechanism.sampled_keep)
        # One subset with the truth against one without, the latter as rare as an uneven choice can make it.
        with_truth = keep / math.comb(cells - 1, size - 1)
        without = (1 - keep) / math.comb(cells - 1, size) * (1 - Fraction(cells, 2**53))
        paid = log_ratio(with_truth, without)
        assert paid <= epsilon
        # A lie that is larger by x costs x/(p (1-p)) less: here a unit of rounding and the share for uneven choices.
        assert paid >= min(epsilon, 36.7) - float((Fraction(2, 2**53) / (1 - keep) + Fraction(cells, 2**49)) / keep)
        assert mechanism.keep == pytest.approx(mechanism.sampled_keep, abs=1e-13)
        sent = np.zeros(cells)
        add_subset.py_func(sent, 0, cells, 0, cells, cells, 0, size, mechanism.sampled_keep, 1.0, Extreme(1 - 2.0**-53))
        assert sent[0] == 0.0
    bit = RandomizedResponse(epsilon=epsilon)
    flip, keep = lattice(bit.flip), lattice(private_keep(bit.flip))
    assert max(log_ratio(keep, flip), log_ratio(1 - flip, 1 - keep)) <= epsilon * (1 + 1e-15)
    vector = UnaryEncoding(epsilon=epsilon, slots=1, feeding=1)
    rise = lattice(vector.rise)
    assert log_ratio(1 - rise, rise) <= epsilon * (1 + 1e-15)
