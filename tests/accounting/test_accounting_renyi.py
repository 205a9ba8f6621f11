"""zCDP and Rényi forms against dp_accounting and against exact sums; conversions never flatter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event, rdp

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import (
    ApproximationEvent,
    BinomialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    UnprotectedEvent,
)
from tacit.accounting.renyi import (
    ORDERS,
    concentrated,
    epsilon_from_renyi,
    epsilon_from_rho,
    largest_epsilon,
    renyi_of,
    rho_of,
)
from tacit.errors import InvalidInput, NotSupported

GRID = list(1.0 + np.exp(np.linspace(-3.0, 8.0, 800)))


def theirs(event: dp_event.DpEvent, orders=GRID) -> rdp.RdpAccountant:
    found = rdp.RdpAccountant(orders=list(orders))
    found.compose(event)
    return found


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_a_gaussian_converts_as_dp_accounting_does(sigma, delta):
    events = ((GaussianEvent(sigma=sigma, shift=1.0), 3),)
    oracle = theirs(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(sigma), 3)).get_epsilon(delta)
    found = epsilon_from_rho(rho_of(events), delta)
    assert found == pytest.approx(oracle, rel=1e-4)
    # Every order is valid, so the best over all orders is at most theirs, and never below the exact curve.
    assert epsilon_of(events, delta) <= found <= oracle * (1.0 + 1e-9)


@pytest.mark.parametrize("scale", [0.5, 2.0, 40.0])
def test_laplace_has_the_divergences_of_dp_accounting(scale):
    event = LaplaceEvent(scale=scale, shift=1.0, discrete=False)
    oracle = theirs(dp_event.LaplaceDpEvent(scale), ORDERS)._rdp
    found = [renyi_of(((event, 1),), order) for order in ORDERS]
    assert found == pytest.approx(list(oracle), rel=1e-9)
    assert all(ours >= other * (1.0 - 1e-12) for ours, other in zip(found, oracle, strict=True))
    assert all(
        value <= order * rho_of(((event, 1),)) * (1.0 + 1e-9) for order, value in zip(ORDERS, found, strict=True)
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 4.0])
def test_a_pure_event_has_the_divergences_of_one_bit(epsilon):
    p = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    for order in ORDERS:
        exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1.0)
        found = renyi_of(((PureEvent(epsilon=epsilon), 1),), order)
        assert found >= exact * (1.0 - 1e-12)
        assert found == pytest.approx(min(exact, order * epsilon**2 / 2.0), rel=1e-9)


@pytest.mark.parametrize(("sigma", "shift"), [(0.6, 1), (1.0, 2), (7.5, 3)])
def test_a_discrete_gaussian_stays_below_its_form(sigma, shift):
    """Lemma P18 (Rényi forms), (b): by summing over the integers."""
    support = np.arange(-400, 401)
    log_p = -(support**2) / (2 * sigma**2)
    log_p -= np.logaddexp.reduce(log_p)
    log_q = -((support - shift) ** 2) / (2 * sigma**2)
    log_q -= np.logaddexp.reduce(log_q)
    events = ((GaussianEvent(sigma=sigma, shift=float(shift), discrete=True), 1),)
    for order in (1.5, 2.0, 4.0, 8.0):
        exact = np.logaddexp.reduce(order * log_p + (1 - order) * log_q) / (order - 1.0)
        assert exact <= renyi_of(events, order) * (1.0 + 1e-12)
        assert exact > 0.5 * renyi_of(events, order), "and near it"


def test_rounding_is_to_the_private_side():
    third = GaussianEvent(sigma=3.0, shift=1.0)
    assert rho_of(((third, 7),)) * 18 >= 7
    assert rho_of(((PureEvent(epsilon=0.1), 3),)) >= 0.015
    tiny = epsilon_from_rho(1e-12, 1e-6)
    assert 0.0 <= tiny < 1e-3


@pytest.mark.parametrize(
    "event",
    [
        BinomialEvent(bits=64, probability=0.5, shift=1),
        ApproximationEvent(tv=1e-9, up_to=4.0),
        UnprotectedEvent(),
    ],
)
def test_where_there_is_no_form_it_is_infinite(event):
    both = ((GaussianEvent(sigma=1.0, shift=1.0), 1), (event, 1))
    found = concentrated([both], 1e-6)
    assert math.isinf(found.rho)
    assert math.isinf(found.epsilon)
    assert all(math.isinf(value) for _, value in found.renyi)
    assert "none" in found.describe()
    assert not concentrated([both], 1e-6, claimed=5.0).holds


def test_the_worst_exposure_counts():
    small, large = (((GaussianEvent(sigma=s, shift=1.0), 1),) for s in (4.0, 2.0))
    assert concentrated([small, large], 1e-6) == concentrated([large], 1e-6)
    assert concentrated([], 1e-6).rho == math.inf


def test_delta_zero_needs_a_pure_form():
    assert math.isinf(epsilon_from_rho(0.1, 0.0))
    assert epsilon_from_rho(0.0, 0.0) == 0.0
    assert math.isinf(epsilon_from_renyi(lambda order: math.inf, 1e-6))
    for bad in (-1.0, math.nan, 2.0):
        with pytest.raises(InvalidInput):
            epsilon_from_rho(0.1, bad)


def test_the_largest_epsilon_for_a_rho():
    def noise(epsilon: float) -> float:
        return rho_of(((PureEvent(epsilon=epsilon), 2),))

    for rho in (0.25, 1e-9, 900.0):
        found = largest_epsilon(rho, noise)
        assert noise(found) <= rho < noise(found * (1.0 + 3e-6))
    with pytest.raises(NotSupported, match="no zCDP form"):
        largest_epsilon(0.25, lambda epsilon: math.inf)
