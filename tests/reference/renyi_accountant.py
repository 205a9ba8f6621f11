"""A second accountant by Rényi and concentrated differential privacy: adding up moments, an opinion from above.

    Rényi of order α        D_α(P‖Q) = ln E_Q[(P/Q)^α] / (α-1), the larger of both directions; adds up over events
    zero-concentrated (ρ)   D_α ≤ ρ α for every α > 1; adds up, too

Both are upper bounds and never beat the exact accountant of `tacit.accounting.composition`. Discrete Gaussian noise
under whole shifts has at most the moments of continuous noise. Noise with a bounded support has infinite moments, so it
has no guarantee of this kind.

References: I. Mironov (2017); M. Bun and T. Steinke (2016); the conversion is that of C. Canonne, G. Kamath and
T. Steinke (2020).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.composition import merged
from tacit.accounting.events import Event, Events, GaussianEvent, LaplaceEvent, PureEvent
from tacit.accounting.privacy_loss import total
from tacit.errors import require, require_real

__all__ = ["ORDERS", "renyi_divergence", "renyi_epsilon", "zcdp", "zcdp_epsilon"]

Floats = NDArray[np.float64]

ORDERS: Final[tuple[float, ...]] = tuple(float(x) for x in 1.0 + np.geomspace(0.01, 10_000.0, 400))
"""The orders α that the conversion tries; any of them is valid, more of them are a little tighter."""

_ROUND_UP: Final = 1.0 + 1e-12


def renyi_divergence(events: Events, orders: tuple[float, ...] = ORDERS) -> Floats:
    """The Rényi divergence of all events together, at each order.

    >>> renyi_divergence(((GaussianEvent(sigma=2.0, shift=1.0), 4),), (2.0, 8.0))
    array([1., 4.])
    """
    alpha = np.asarray(orders, dtype=np.float64)
    require(bool(np.all(alpha > 1.0)), "orders must exceed 1", given=float(alpha.min()))
    return np.asarray(np.zeros_like(alpha) + total(merged(events), lambda event: _divergence(event, alpha)))


def renyi_epsilon(events: Events, delta: float) -> float:
    """An epsilon at this delta by way of Rényi divergences; never below the exact one.

    >>> round(renyi_epsilon(((GaussianEvent(sigma=1.0, shift=0.2367), 1),), 1e-6), 2)   # exactly: 1.00
    1.08
    """
    require_real("delta", delta, low=0.0, high=1.0, open_low=True, hint="delta = 0 needs pure composition")
    alpha = np.asarray(ORDERS)
    divergence = renyi_divergence(events, ORDERS)
    # ε = D_α + ln((α-1)/α) − (ln δ + ln α)/(α-1)
    epsilon = divergence + np.log1p(-1.0 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1.0)
    return max(0.0, float(np.min(epsilon)) * _ROUND_UP)


def zcdp(events: Events) -> float:
    """The ρ of zero-concentrated differential privacy of all events together, rounded up; inf if there is none.

    >>> zcdp(((GaussianEvent(sigma=2.0, shift=1.0), 8),)).__round__(9)
    1.0
    """
    return float(total(merged(events), _concentrated)) * _ROUND_UP


def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon at this delta for ρ-zCDP by the closed formula ρ + 2 √(ρ ln(1/δ)).

    >>> round(zcdp_epsilon(0.5, 1e-5), 3)
    5.299
    """
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)
    require(rho >= 0.0, "rho must not be negative", given=rho)
    return (rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))) * _ROUND_UP


def _concentrated(event: Event) -> float:
    if isinstance(event, GaussianEvent):
        return (event.shift / event.sigma) ** 2 / 2.0
    epsilon = _pure(event)
    return epsilon**2 / 2.0


def _divergence(event: Event, alpha: Floats) -> Floats:
    if isinstance(event, GaussianEvent):
        return alpha * (event.shift / event.sigma) ** 2 / 2.0
    epsilon = _pure(event)
    if math.isinf(epsilon):
        return np.full_like(alpha, math.inf)
    if isinstance(event, LaplaceEvent) and not event.discrete:
        # D_α = ln [α/(2α-1) e^((α-1)ε) + (α-1)/(2α-1) e^(−αε)] / (α-1)
        heavy = np.log(alpha / (2.0 * alpha - 1.0)) + (alpha - 1.0) * epsilon
        light = np.log((alpha - 1.0) / (2.0 * alpha - 1.0)) - alpha * epsilon
        return np.asarray(np.logaddexp(heavy, light) / (alpha - 1.0))
    # One randomized bit dominates everything that is ε-private: with p = e^ε/(1+e^ε),
    # D_α = ln [p^α (1-p)^(1-α) + (1-p)^α p^(1-α)] / (α-1)
    high, low = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    moments = np.logaddexp(alpha * high + (1.0 - alpha) * low, alpha * low + (1.0 - alpha) * high)
    return np.asarray(moments / (alpha - 1.0))


def _pure(event: Event) -> float:
    if isinstance(event, PureEvent):
        return event.epsilon
    return event.shift / event.scale if isinstance(event, LaplaceEvent) else math.inf
