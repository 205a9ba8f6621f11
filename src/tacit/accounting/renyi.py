"""Concentrated and Rényi forms of a guarantee, where there are any, and the way back to (epsilon, delta).

Rényi differential privacy of order α bounds the divergence D_α of any two neighbours by ε(α); ρ-zCDP is ε(α) ≤ αρ for
every α > 1 (M. Bun and T. Steinke, 2016). Events add up at every order (`total`): both forms come from the events of a
certificate. Lemma P18 (Rényi forms) states them:

    Gaussian noise, continuous or on the integers     ε(α) = α μ²/2 with μ = shift/σ, and ρ = μ²/2
    Laplace noise                                     closed form below; ρ = ε²/2 with ε = shift/scale
    every other event with a pure ε                   that of one randomized bit; ρ = ε²/2
    bounded noise, sampled users, slack               none: their divergence is infinite, or has no closed form here

    ρ-zCDP, or ε(α)-RDP, gives (ε, δ) with ε = ε(α) + ln(1 − 1/α) − ln(αδ)/(α − 1) for every α > 1
    (C. Canonne, G. Kamath and T. Steinke, 2020, Prop. 12).

Every number is rounded up. A claim (ε, δ) says nothing about ρ; a certificate does, since it holds the events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.accounting.composition import merged
from tacit.accounting.events.protocol import Event, Events, rounded_up
from tacit.accounting.privacy_loss import total
from tacit.accounting.wording import shown_up
from tacit.errors import MAX_EPSILON, NotSupported, require_real

ORDERS: Final = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""At which the Rényi form is shown."""
ROUND_UP: Final = 1.0 + 2.0**-40
"""More than the rounding errors of a closed form."""
STEPS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Concentrated:
    """The zCDP and Rényi form of a certificate; infinite where there is none."""

    rho: float
    """What is certified, rounded up."""
    claimed: float | None
    """What was asked for; None: nothing."""
    renyi: tuple[tuple[float, float], ...]
    """Pairs of an order and the divergence of that order, rounded up."""
    delta: float
    epsilon: float
    """What rho alone gives at delta: never below what the exact accountant certifies."""

    @property
    def holds(self) -> bool:
        """Whether what was asked for is confirmed."""
        return self.claimed is None or self.rho <= self.claimed

    def describe(self) -> str:
        """The form in words."""
        if math.isinf(self.rho):
            return "zCDP: none; the noise is bounded, sampled, or proved only to be close to a law that has one."
        asked = "" if self.claimed is None else f"claimed rho {self.claimed:g}, which is {str(self.holds).lower()}; "
        orders = ", ".join(f"{shown_up(epsilon)} at order {order:g}" for order, epsilon in self.renyi)
        back = f"; by itself it gives epsilon {shown_up(self.epsilon)} at delta {self.delta:g}" if self.delta else ""
        return f"zCDP: {asked}certified rho {shown_up(self.rho)}{back}. Rényi: {orders}."

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; infinity is written "inf"."""
        pairs = [[order, _plain(epsilon)] for order, epsilon in self.renyi]
        found = {"rho": _plain(self.rho), "claimed": self.claimed, "holds": self.holds, "renyi": pairs}
        return {**found, "delta": self.delta, "epsilon": _plain(self.epsilon)}


def concentrated(exposures: Sequence[Events], delta: float, claimed: float | None = None) -> Concentrated:
    """The zCDP and Rényi form of what people are exposed to, the worst of several exposures.

    Parameters
    ----------
    exposures
        The events of a person, once for every kind of person.
    delta
        Where the form is turned into an epsilon.
    claimed
        The rho that was asked for.

    Returns
    -------
    Concentrated
        Infinite where there is no such form.

    Examples
    --------
    >>> from tacit.accounting.events import GaussianEvent
    >>> found = concentrated([((GaussianEvent(sigma=10.0, shift=1.0), 20),)], 1e-6)
    >>> round(found.rho, 9), round(found.epsilon, 2)
    (0.1, 2.14)
    """
    if claimed is not None:
        require_real("rho", claimed, low=0.0, open_low=True)
    rho = max((rho_of(events) for events in exposures), default=math.inf)
    worst = tuple((order, max((renyi_of(one, order) for one in exposures), default=math.inf)) for order in ORDERS)
    return Concentrated(rho=rho, claimed=claimed, renyi=worst, delta=delta, epsilon=epsilon_from_rho(rho, delta))


def rho_of(events: Events) -> float:
    """The rho of zero-concentrated differential privacy of these events together, rounded up; inf if there is none.

    >>> from tacit.accounting.events import PureEvent
    >>> rho_of(((PureEvent(epsilon=0.5), 4),))
    0.5
    """
    exact = total(merged(events), _rho)
    return exact if isinstance(exact, float) else rounded_up(Fraction(exact))


def renyi_of(events: Events, order: float) -> float:
    """The Rényi divergence of this order of these events together, rounded up; inf if none is known.

    >>> from tacit.accounting.events import GaussianEvent
    >>> round(renyi_of(((GaussianEvent(sigma=1.0, shift=1.0), 1),), 8.0), 9)
    4.0
    """
    require_real("order", order, low=1.0, open_low=True)
    return float(total(merged(events), lambda event: _renyi(event, order))) * ROUND_UP


def epsilon_from_rho(rho: float, delta: float) -> float:
    """The epsilon at this delta that rho-zCDP gives by itself, rounded up.

    >>> round(epsilon_from_rho(0.1, 1e-6), 2)
    2.14
    """
    return epsilon_from_renyi(lambda order: order * rho, delta)


def epsilon_from_renyi(divergence: Callable[[float], float], delta: float) -> float:
    """The least epsilon at this delta over all orders of a Rényi form, rounded up."""
    require_real("delta", delta, low=0.0, high=1.0)
    if delta == 0.0 or not math.isfinite(divergence(2.0)):
        return 0.0 if divergence(2.0) == 0.0 else math.inf

    def at(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        # ε = ε(α) + ln(1 − 1/α) − ln(αδ)/(α − 1)
        found = divergence(order) + math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1.0)
        return max(0.0, found) * ROUND_UP

    # Every order is valid, so a search that misses the least one still rounds up.
    low, high = -8.0, 24.0
    for _ in range(STEPS):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if at(left) <= at(right) else (left, high)
    return min(at(low), at(high))


def largest_epsilon(rho: float, certified: Callable[[float], float]) -> float:
    """The largest epsilon, to a part in 10⁶, whose noise is certified for this rho.

    Raises `NotSupported` where the noise has no zCDP form.
    """
    require_real("rho", rho, low=1e-12, high=1e3)
    low = high = math.sqrt(2.0 * rho)
    if math.isinf(certified(low)):
        raise NotSupported("this noise has no zCDP form: choose Gaussian or Laplace noise, or a pure mechanism")
    while certified(low) > rho:
        low, high = low / 2.0, low
    while high <= MAX_EPSILON / 2.0 and certified(high) <= rho:
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-6):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if certified(middle) <= rho else (low, middle)
    return low


def _rho(event: Event) -> Fraction | float:
    square, pure = event.concentrated(), event.pure()
    if square is not None:
        return square / 2
    return math.inf if math.isinf(pure) else Fraction(pure) ** 2 / 2


def _renyi(event: Event, order: float) -> float:
    square, pure = event.concentrated(), event.pure()
    if square is not None:
        return order * rounded_up(square / 2)
    if math.isinf(pure):
        return math.inf
    epsilon = rounded_up(Fraction(pure))
    bit = min(epsilon, order * epsilon**2 / 2.0)
    if epsilon == 0.0 or order * epsilon > 600.0:
        return bit
    if math.isfinite(own := event.renyi(order)):
        return min(bit, own)
    # D_α = ln((e^(αε) + e^((1−α)ε)) / (1 + e^ε)) / (α − 1), of one randomized bit
    grown = math.exp(order * epsilon) + math.exp((1.0 - order) * epsilon)
    return min(bit, math.log(grown / (1.0 + math.exp(epsilon))) / (order - 1.0))


def _plain(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
