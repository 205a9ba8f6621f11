"""Mirrored noise bits as a mechanism: law, accountant and calibration by enumeration in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest

from tacit.accounting import epsilon_of
from tacit.accounting.events.binomial import MirroredEvent, mirrored_law, mirrored_pld
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported
from tacit.noise.binomial import Binomial
from tacit.noise.mirrored import Mirrored

DELTA = 1e-6
FAMILIES = (Family(name="all", up=11, down=11, shift=1.0),)


def enumerated(N: int, q: Fraction) -> dict[int, Fraction]:
    """The law of X − X', by summing over everything, in exact arithmetic."""
    one = [comb(N, k) * q**k * (1 - q) ** (N - k) for k in range(N + 1)]
    law: dict[int, Fraction] = {}
    for (i, a), (j, b) in itertools.product(enumerate(one), repeat=2):
        law[i - j] = law.get(i - j, Fraction(0)) + a * b
    return law


def hockey_stick(law: dict[int, Fraction], moves: tuple[int, ...], epsilon: float) -> float:
    """δ(ε) of counters that move by these numbers, over all outcomes."""
    factor, total = Fraction(math.exp(epsilon)), Fraction(0)
    low, high = min(law) - 1, max(law) + 1
    for outcome in itertools.product(range(low, high + 1), repeat=len(moves)):
        p = math.prod((law.get(k, Fraction(0)) for k in outcome), start=Fraction(1))
        q = math.prod(
            (law.get(k - move, Fraction(0)) for k, move in zip(outcome, moves, strict=True)), start=Fraction(1)
        )
        total += max(Fraction(0), p - factor * q)
    return float(total)


@pytest.mark.parametrize("moves", [(1,), (-1,), (1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 5.0])
def test_g1_the_accountant_is_never_below_the_enumeration_and_hardly_above(moves, epsilon):
    N, q = 5, Fraction(1, 4)
    exact = hockey_stick(enumerated(N, q), moves, epsilon)
    stated = mirrored_pld(N, float(q), len(moves)).delta(epsilon)
    assert exact <= stated <= exact * 1.001 + 1e-9


def test_g1_up_and_down_compose_alike_and_the_event_says_so():
    up, down = (MirroredEvent(bits=100, probability=0.05, shift=shift) for shift in (1, -1))
    several = epsilon_of(((up, 2), (down, 1)), DELTA)
    assert several == pytest.approx(epsilon_of(((up, 3),), DELTA))
    assert several == pytest.approx(mirrored_pld(100, 0.05, 3).epsilon(DELTA))
    with pytest.raises(NotSupported, match="shifts of one"):
        up.scaled(2.0)
    with pytest.raises(InvalidInput):
        MirroredEvent(bits=100, probability=0.7, shift=1)


@pytest.mark.parametrize(
    ("N", "q"), [(1, Fraction(1, 2)), (4, Fraction(1, 8)), (9, Fraction(3, 10)), (30, Fraction(1, 64))]
)
def test_g2_the_law_is_that_of_the_enumeration(N, q):
    first, mass = mirrored_law(N, float(q))
    law = enumerated(N, q)
    assert first == -N
    assert len(mass) == 2 * N + 1
    np.testing.assert_allclose(mass, [float(law[d]) for d in range(-N, N + 1)], rtol=1e-12)
    noise = Mirrored(bits=N, probability=float(q))
    assert noise.variance == pytest.approx(float(sum(d * d * p for d, p in law.items())))


@pytest.mark.parametrize(("N", "q"), [(1000, 0.003), (20_000, 1.5e-4), (5000, 0.02), (3000, 0.5)])
def test_g1_losses_at_the_edges_of_the_window_are_right_to_twelve_digits(N, q):
    """The windows leave terms out; against sums of 40 digits over four times as many terms."""
    first, mass = mirrored_law(N, q)
    found = np.diff(np.log(mass))
    centre = int(N * q)
    low, high = max(0, centre - 2 * len(mass)), min(N, centre + 2 * len(mass))
    with mpmath.workdps(40):
        odds = mpmath.mpf(q) / (1 - mpmath.mpf(q))
        one = [mpmath.mpf(1)]
        for k in range(low + 1, high + 1):
            one.append(one[-1] * (N - k + 1) / k * odds)

        def at(d: int) -> mpmath.mpf:
            return mpmath.fsum(one[k + abs(d)] * one[k] for k in range(len(one) - abs(d)))

        for place in (0, 1, len(mass) // 2):
            loss = mpmath.log(at(first + place + 1) / at(first + place))
            assert abs(float(loss) - found[place]) < 1e-12


def test_g3_a_radius_covers_what_it_says_and_no_smaller_one_does():
    law = Mirrored(bits=1000, probability=0.0031)
    for terms in (1, 7):
        first, mass = mirrored_law(terms * 1000, 0.0031)
        outcomes = np.abs(first + np.arange(len(mass)))
        for failure in (0.1, 1e-3, 1e-6):
            radius = law.radius(failure, terms)
            assert float(mass[outcomes > radius].sum()) <= failure < float(mass[outcomes > radius - 1].sum())
    wide = Mirrored(bits=10**6, probability=0.5)  # too wide to be listed
    assert 2.5 * wide.std < wide.radius(0.01) < 4.1 * wide.std


@pytest.mark.parametrize("users", [1, 50, 1000])
def test_g4_a_calibration_keeps_the_claim_and_gives_nothing_away(users):
    for epsilon in (1.0, 10.0):
        law = Mirrored.calibrate(FAMILIES, epsilon, DELTA, users=users)
        assert law.bits % users == 0
        assert epsilon_of(tuple(law.events(FAMILIES[0])), DELTA) <= epsilon
        less = Mirrored(bits=law.bits, probability=0.97 * law.probability)
        assert epsilon_of(tuple(less.events(FAMILIES[0])), DELTA) > epsilon
        fair = Binomial.calibrate(FAMILIES, epsilon, DELTA, users=users)
        assert law.std < 1.001 * fair.std


def test_too_few_bits_are_refused():
    from tacit.accounting.bits import least_mirrored_probability

    with pytest.raises(InvalidInput, match="so few mirrored noise bits"):
        least_mirrored_probability(1.0, 1e-6, 11, 11, 10)
