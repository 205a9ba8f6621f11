"""Noise for a person with several reports: closed forms, the private side, few questions, refusals."""

from __future__ import annotations

import math

import pytest

from tacit.accounting.bits import least_bits
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import ApproximationEvent, BinomialEvent, Events, GaussianEvent, PureEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.units import largest_report_epsilon
from tacit.errors import InvalidInput, NotSupported

DELTA = 1e-6


@pytest.mark.parametrize("g", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.5])
def test_pure_noise_costs_g(g: int, epsilon: float) -> None:
    found = largest_report_epsilon(lambda e: PureEvent(epsilon=e), lambda noise: ((noise, g),), epsilon, 0.0)
    assert found.epsilon == pytest.approx(epsilon / g, rel=1e-6)
    assert epsilon_of(((found, g),), 0.0) <= epsilon


@pytest.mark.parametrize("g", [1, 2, 5, 16])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_gaussian_noise_costs_the_square_root_of_g(g: int, epsilon: float) -> None:
    asked = []

    def make(one: float) -> GaussianEvent:
        asked.append(one)
        return GaussianEvent(sigma=math.nextafter(1.0 / gaussian_mu(one, DELTA), math.inf), shift=1.0)

    found = largest_report_epsilon(make, lambda noise: ((noise, g),), epsilon, DELTA)
    once = 1.0 / gaussian_mu(epsilon, DELTA)
    assert found.sigma == pytest.approx(math.sqrt(g) * once, rel=3e-6)
    assert epsilon_of(((found, g),), DELTA) <= epsilon
    assert len(asked) <= 20
    assert g > 1 or asked == [epsilon]


def test_noise_of_whole_numbers_ends_on_the_private_side() -> None:
    def exposure(bits: int) -> Events:
        return tuple((BinomialEvent(bits=bits, probability=0.5, shift=sign), 18 * 3) for sign in (1, -1))

    bits = largest_report_epsilon(lambda one: least_bits(one, DELTA, 18, 18), exposure, 1.0, DELTA)
    assert epsilon_of(exposure(bits), DELTA) <= 1.0 < epsilon_of(exposure(bits - 2), DELTA)


def test_slack_is_paid_too() -> None:
    def exposure(noise: GaussianEvent) -> Events:
        return ((noise, 4), (ApproximationEvent(tv=1e-8, up_to=1.0), 4))

    found = largest_report_epsilon(
        lambda one: GaussianEvent(sigma=1.0 / gaussian_mu(one, DELTA), shift=1.0), exposure, 1.0, DELTA
    )
    assert 0.999999 < epsilon_of(exposure(found), DELTA) <= 1.0


def test_what_can_never_be_private_is_refused() -> None:
    def pure(one: float) -> PureEvent:
        return PureEvent(epsilon=one)

    with pytest.raises(NotSupported, match="never gives pure"):
        largest_report_epsilon(lambda one: GaussianEvent(sigma=1 / one, shift=1.0), lambda noise: ((noise, 1),), 1.0, 0)
    with pytest.raises(InvalidInput, match="some amount of noise"):
        largest_report_epsilon(
            pure, lambda noise: ((noise, 1), (ApproximationEvent(tv=1e-3, up_to=1.0), 1)), 1.0, DELTA
        )
    for epsilon, delta in ((0.0, DELTA), (math.nan, DELTA), (1.0, -1.0), (math.inf, DELTA)):
        with pytest.raises(InvalidInput):
            largest_report_epsilon(pure, lambda noise: ((noise, 2),), epsilon, delta)
