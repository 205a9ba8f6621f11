"""Whole numbers under Gaussian noise: the distance of the two laws, what it costs, and how the unit is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from central_tools import central_claim, simulated
from scipy.special import ndtr

from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import GaussianEvent
from tacit.errors import InvalidInput, NotSupported
from tacit.noise.exact import discrete_gaussian
from tacit.randomness import SecureNoise
from tacit.release.fixed_point import (
    VARIATION,
    draw_noise,
    fixed_point,
    from_payload,
    require_fixed_point,
    slack,
    spread,
    to_payload,
    total_variation,
    up_to,
)


def distance(s: float) -> float:
    """The total variation distance of the discrete Gaussian and the rounded continuous one, summed up."""
    z = np.arange(0, math.ceil(40 * s) + 1, dtype=np.float64)
    weight = np.exp(-z * z / (2.0 * s * s))
    discrete = weight / (2.0 * math.fsum(weight) - 1.0)
    # Upper tails keep their digits.
    rounded = ndtr(-(z - 0.5) / s) - ndtr(-(z + 0.5) / s)
    gap = np.abs(discrete - rounded)
    return math.fsum(gap) - 0.5 * float(gap[0])


@pytest.mark.parametrize("s", [1.0, 2.0, 7.3, 40.0, 256.0, 300.0, 2000.0])
def test_lemma_n7_holds_and_is_sharp(s: float) -> None:
    """The bound of Lemma N7 (rounded Gaussian) against the sum; the limit is φ(1)/12."""
    found = distance(s) * s * s
    limit = math.exp(-0.5) / math.sqrt(2.0 * math.pi) / 12.0
    assert found <= limit * (1.0 + 1.57 / s) + 1.01 * math.exp(-2.0 * math.pi**2 * s * s) * s * s
    if s >= 256.0:
        assert 0.99 * limit < found < VARIATION
        assert total_variation(1, int(s) ** 2) >= distance(float(int(s)))


def test_slack_is_paid_on_top_of_the_gaussian() -> None:
    """δ grows by (1 + e^up_to) tv; within a thousandth of δ at the chosen unit, and ε is that of the smaller δ."""
    claim = central_claim()
    unit, variance = fixed_point(claim, 4096, lambda unit: 4.0 * unit)
    assert unit & (unit - 1) == 0
    event = GaussianEvent(sigma=spread(variance, unit), shift=4.0)
    events = ((event, 1), *slack(claim, 4096, variance))
    assert 0.9985e-6 < delta_of(((event, 1),), 1.0) <= 0.999e-6
    added = delta_of(events, 1.0) - delta_of(((event, 1),), 1.0)
    assert math.isclose(added, (1.0 + math.exp(9.0)) * total_variation(4096, variance), rel_tol=1e-6)
    assert 0.0 < added <= 1e-9
    assert 0.9995 < epsilon_of(events, 1e-6) <= 1.0
    # Beyond `up_to` nothing is promised.
    assert up_to(claim) == 9.0
    assert delta_of(events, 9.1) == 1.0
    # Half the unit would not do.
    assert (1.0 + math.exp(9.0)) * total_variation(4096, variance // 4) > 1e-9


def test_simulated_noise_is_the_exact_sampler_on_other_bits() -> None:
    """The same quantiles from both sources: 40,000 draws each, a Kolmogorov distance of false alarm 1e-6."""
    first, second = draw_noise(40_000, 257**2, simulated(2)), discrete_gaussian(40_000, SecureNoise(), variance=257**2)
    grid = np.arange(-1000, 1001, 10)
    gap = np.abs(np.searchsorted(np.sort(first), grid) - np.searchsorted(np.sort(second), grid)).max() / 40_000
    assert gap <= math.sqrt(-math.log(1e-6 / 2.0) / 40_000)
    assert np.array_equal(first, draw_noise(40_000, 257**2, simulated(2)))


def test_payloads_and_refusals() -> None:
    """Eight bytes a number, any sign; noise too small, units that are no powers of two, claims beyond 64 bits."""
    numbers = np.array([0, -1, 2**62, -(2**62)])
    assert to_payload(numbers)[:16] == b"\0" * 8 + b"\xff" * 8
    assert np.array_equal(from_payload(to_payload(numbers), 4), numbers)
    with pytest.raises(InvalidInput, match="40 bytes"):
        from_payload(to_payload(numbers), 5)
    for unit, variance in ((1 << 16, 255**2), (3, 10**9), (1 << 37, 10**9), (1 << 16, 1 << 81), (1 << 16, 1e9)):
        with pytest.raises(InvalidInput):
            require_fixed_point(unit, variance)
    with pytest.raises(NotSupported, match="delta"):
        fixed_point(central_claim(delta=0.0), 10, lambda unit: float(unit))
    with pytest.raises(NotSupported, match="too coarse"):
        fixed_point(central_claim(epsilon=60.0), 10, lambda unit: float(unit))


def test_a_large_variance_is_written_down_and_read_again():
    """Few people and a strict slack need noise of more than 2^53 units squared; counts end there, variances do not."""
    from tacit.release.registry import channel_from_dict
    from tacit.study.design import plan_study

    design = plan_study(
        states=4, actions=2, horizon=6, trust="central", epsilon=8.0, delta=1e-6, stages=2, target=16, least=12
    )
    assert design.channels[0]["variance"] > 2**53
    assert [channel_from_dict(plain).to_dict() for plain in design.channels] == list(design.channels)
