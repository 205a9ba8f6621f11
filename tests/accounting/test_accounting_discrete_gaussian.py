"""The discrete Gaussian: summation in many digits, Google's accountant, and how close it is to the continuous one."""

from __future__ import annotations

import math

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as google

from tacit.accounting.events import GaussianEvent
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.accounting.pld import PLD
from tacit.errors import InvalidInput


def discrete_pld(sigma: float, shift: float) -> PLD:
    return GaussianEvent(sigma=sigma, shift=shift, discrete=True).pld()


@pytest.mark.parametrize(("sigma", "shift"), [(0.7, 1), (4.2247, 1), (25.0, 6)])
def test_one_counter_equals_summation(sigma: float, shift: int) -> None:
    pld = discrete_pld(sigma, shift)
    with mpmath.workdps(30):
        s = mpmath.mpf(sigma)
        weight = {z: mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * s * s)) for z in range(-600, 601)}
        norm = mpmath.fsum(weight.values())
        for epsilon in (0.0, 0.5, 1.0, 4.0):
            terms = (weight[z] - mpmath.exp(epsilon) * weight[z - shift] for z in range(-590, 601))
            exact = mpmath.fsum(x for x in terms if x > 0) / norm
            assert exact <= pld.delta(epsilon) <= exact * (1 + 1e-10) + 1e-40


def test_googles_accountant_agrees() -> None:
    theirs = google.from_discrete_gaussian_mechanism(
        25.0, sensitivity=1, value_discretization_interval=2e-5
    ).self_compose(36)
    ours = discrete_pld(25.0, 1).self_compose(36)
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-3)
        assert ours.epsilon(delta) <= theirs.get_epsilon_for_delta(delta), "they round every loss up"


def test_many_counters_are_close_to_the_continuous_noise() -> None:
    ours = discrete_pld(25.0, 1).self_compose(36).epsilon(1e-6)
    assert ours == pytest.approx(gaussian_epsilon(1e-6, math.sqrt(36) / 25.0), rel=1e-4)
    assert discrete_pld(4.2247, 1).epsilon(1e-6) > gaussian_epsilon(1e-6, 1 / 4.2247) * (1 + 5e-4)


def test_refusals() -> None:
    assert discrete_pld(3.0, 0).epsilon(0.0) == 0.0
    for bad in (-2.0, 0.5):
        with pytest.raises(InvalidInput, match="shift"):
            discrete_pld(3.0, bad)
    with pytest.raises(InvalidInput, match="sigma"):
        discrete_pld(math.nan, 1)
