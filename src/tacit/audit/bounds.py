"""Lower bounds on epsilon from the errors of an attack, with stated confidence.

An attack looks at what was released and says "first" or "second" world. Its false alarms and misses were counted on
trials that had no part in choosing the attack. From the counts, two bounds:

G1  `event_epsilon` needs no assumption. (ε, δ)-privacy says P(S) ≤ e^ε Q(S) + δ for every event S, so

        ε ≥ ln((P(S) − δ) / Q(S))        with P(S) from below and Q(S) from above (Clopper-Pearson, half the error each)

    It sees only events that occur among the trials: at δ = 1e-6 a Gaussian needs far more trials than anybody has.

G2  `refuted` asks whether errors this small can happen under a stated trade-off curve at all. Events that certify
    δ(ε) for every ε admit a test with false alarms a and misses b only if, for every ε ≥ 0,

        b ≥ 1 − δ(ε) − e^ε a        and the same with a and b exchanged

    If that is broken, the events do not describe the mechanism (Lemma P12 (errors of an attack)): no assumption.

G3  `noise_factor` turns G2 into a number. Let the noise of the events be θ times as large as stated; the largest θ that
    is not refuted bounds the true one from above, and `curve_epsilon` is the accountant's ε at that θ. It assumes the
    FAMILY of the noise (Gaussian, Laplace, binomial, ... with these shifts), not its size. For Gaussian noise it is the
    conversion through Gaussian differential privacy, μ ≥ Φ⁻¹(1 − a) − Φ⁻¹(b).

G4  `exact_epsilon` needs no trials: it enumerates two discrete distributions.

Confidence. Each bound holds with probability 1 − `false_alarm` over the trials; several bounds on one configuration
share its false-alarm rate evenly (Bonferroni).

References: C. Clopper and E. Pearson (1934); P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for
differential privacy", ICML 2015; J. Dong, A. Roth and W. Su, "Gaussian differential privacy", JRSS B 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import betaincinv, ndtri

from tacit.accounting.composition import all_gaussian, delta_of, epsilon_of, gaussian_mu_of, merged, unprotected
from tacit.accounting.events import Events
from tacit.accounting.events.gaussian import gaussian_delta, gaussian_epsilon
from tacit.arrays import Floats
from tacit.errors import InvalidInput, require_count, require_real

_MAX_NOISE: Final = 32.0
"""Beyond this many times the stated noise an attack counts as blind."""
_SLOPES: Final = np.concatenate([[0.0], np.geomspace(1e-3, 14.0, 40)])
"""The ε at which a curve is compared; a finite grid can only miss a refutation, never make one up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How often a fixed attack said "second": in `first_hits` of `first` trials of the first world, and so on."""

    first: int
    first_hits: int
    second: int
    second_hits: int

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            trials = require_count(f"{name} trials", getattr(self, name))
            hits = require_count(f"{name} hits", getattr(self, f"{name}_hits"), least=0)
            if hits > trials:
                raise InvalidInput(f"hits must not exceed the {trials} trials, got {hits}")


def upper_rate(hits: int, trials: int, false_alarm: float) -> float:
    """The Clopper-Pearson upper bound: the true rate exceeds it with probability at most `false_alarm`.

    >>> round(upper_rate(0, 1000, 0.05), 6)     # 1 - 0.05^(1/1000)
    0.002991
    """
    return 1.0 if hits >= trials else float(betaincinv(hits + 1.0, float(trials - hits), 1.0 - false_alarm))


def lower_rate(hits: int, trials: int, false_alarm: float) -> float:
    """The Clopper-Pearson lower bound.

    >>> lower_rate(0, 10, 0.05), round(lower_rate(10, 10, 0.05), 6)
    (0.0, 0.741134)
    """
    return 0.0 if hits <= 0 else float(betaincinv(float(hits), trials - hits + 1.0, false_alarm))


def event_epsilon(errors: Errors, delta: float, false_alarm: float) -> float:
    """The best assumption-free bound from the event "says second" and from its complement (G1).

    >>> told_apart = Errors(first=1000, first_hits=0, second=1000, second_hits=1000)
    >>> round(event_epsilon(told_apart, 1e-6, 0.01), 2)
    5.11
    """
    require_real("delta", delta, low=0.0, high=1.0)
    require_real("false_alarm", false_alarm, low=0.0, high=0.5, open_low=True)
    # Two events, each with two bounds.
    each = false_alarm / 4.0
    found = 0.0
    for hits, trials, other, others in (
        (errors.second_hits, errors.second, errors.first_hits, errors.first),
        (errors.first - errors.first_hits, errors.first, errors.second - errors.second_hits, errors.second),
    ):
        # ε ≥ ln((P(S) − δ) / Q(S))
        above = lower_rate(hits, trials, each) - delta
        if above > 0.0:
            found = max(found, math.log(above / upper_rate(other, others, each)))
    return found


def refuted(errors: Errors, events: Events, false_alarm: float) -> bool:
    """Whether errors this small are impossible under these events (G2).

    >>> from tacit.accounting.events import GaussianEvent
    >>> errors = Errors(first=10000, first_hits=1500, second=10000, second_hits=8500)
    >>> [refuted(errors, ((GaussianEvent(sigma=sigma, shift=1.0), 1),), 0.01) for sigma in (0.4, 0.6)]
    [False, True]
    """
    a, b = _rates(errors, false_alarm)
    return _impossible(a, b, _curve(events))


def noise_factor(errors: Errors, events: Events, false_alarm: float) -> float:
    """The largest factor by which the noise of these events may be multiplied without being refuted (G3).

    Below 1 the events themselves are refuted; infinity means that the attack saw nothing.
    """
    a, b = _rates(errors, false_alarm)
    if a + b >= 1.0:
        return math.inf
    exposed = merged(events)
    if not exposed or unprotected(exposed):
        return 0.0 if not exposed else math.inf
    if all_gaussian(exposed):
        # μ ≥ Φ⁻¹(1 − a) − Φ⁻¹(b), and μ is inverse to the noise
        return gaussian_mu_of(exposed) / float(ndtri(1.0 - a) - ndtri(b))
    high = 1.0
    while not _impossible(a, b, _curve(quieter(exposed, high))):
        high *= 2.0
        if high > _MAX_NOISE:
            return math.inf
    low = high / 2.0
    while low > 1e-3 and _impossible(a, b, _curve(quieter(exposed, low))):
        high, low = low, low / 2.0
    for _ in range(9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _impossible(a, b, _curve(quieter(exposed, middle))) else (middle, high)
    return high


def curve_epsilon(factor: float, events: Events, delta: float) -> float:
    """The accountant's ε when the noise of these events is `factor` times as large (G3)."""
    if factor == math.inf:
        return 0.0
    exposed = merged(events)
    if factor <= 0.0 or not exposed:
        return math.inf
    if all_gaussian(exposed):
        return gaussian_epsilon(delta, gaussian_mu_of(exposed) / factor)
    return epsilon_of(quieter(exposed, factor), delta)


def quieter(events: Events, factor: float) -> Events:
    """The same events with `factor` times the noise.

    >>> from tacit.accounting.events import PureEvent
    >>> quieter(((PureEvent(epsilon=1.0), 3),), 2.0)
    ((PureEvent(epsilon=0.5), 3),)
    """
    return tuple((event.noisier(factor), count) for event, count in events)


def exact_delta(log_p: Floats, log_q: Floats, epsilon: float) -> float:
    """δ(ε) = max(Σ (p − e^ε q)₊, Σ (q − e^ε p)₊) over the common outcomes of two distributions (G4).

    >>> keep, flip = math.log(0.75), math.log(0.25)
    >>> round(exact_delta(np.array([keep, flip]), np.array([flip, keep]), 0.0), 12)
    0.5
    """
    p, q = np.exp(log_p), np.exp(log_q)
    grow = math.exp(epsilon)
    return max(math.fsum(np.maximum(p - grow * q, 0.0)), math.fsum(np.maximum(q - grow * p, 0.0)))


def exact_epsilon(log_p: Floats, log_q: Floats, delta: float) -> float:
    """The least ε with δ(ε) ≤ delta, by enumeration; infinite if there is none.

    >>> keep, flip = math.log(0.75), math.log(0.25)
    >>> round(exact_epsilon(np.array([keep, flip]), np.array([flip, keep]), 0.0), 9)     # ln 3
    1.098612289
    """
    require_real("delta", delta, low=0.0, high=1.0)
    # Rounding leaves about 1e-16 of the mass in doubt, which matters for δ = 0 only: there the largest ratio decides.
    if delta == 0.0:
        either = (log_p > -math.inf) | (log_q > -math.inf)
        return float(np.abs(log_p[either] - log_q[either]).max())
    return _bisected(lambda epsilon: exact_delta(log_p, log_q, epsilon) <= delta)


def _bisected(enough: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    if enough(low):
        return 0.0
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 500.0:
            return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _rates(errors: Errors, false_alarm: float) -> tuple[float, float]:
    """Upper bounds on the rates of false alarms and of misses, together with this confidence."""
    require_real("false_alarm", false_alarm, low=0.0, high=0.5, open_low=True)
    each = false_alarm / 2.0
    return (
        upper_rate(errors.first_hits, errors.first, each),
        upper_rate(errors.second - errors.second_hits, errors.second, each),
    )


@lru_cache(maxsize=256)
def _curve(events: Events) -> Floats:
    """δ at every ε of `_SLOPES`, by the accountant."""
    exposed = merged(events)
    if all_gaussian(exposed):
        mu = gaussian_mu_of(exposed)
        return np.array([gaussian_delta(epsilon, mu) for epsilon in _SLOPES])
    return np.array([delta_of(exposed, epsilon) for epsilon in _SLOPES])


def _impossible(a: float, b: float, delta: Floats) -> bool:
    """Whether no test has errors of at most (a, b): b < 1 − δ(ε) − e^ε a for some ε, or the same exchanged."""
    # The flatter line is the one through the smaller error: if any is broken, it is.
    low, high = min(a, b), max(a, b)
    return bool((high < 1.0 - delta - np.exp(_SLOPES) * low).any())
