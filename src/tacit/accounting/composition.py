"""Composition: what everything that one user is exposed to costs together, exactly where exactness is possible.

    events                        at δ = 0                  at δ > 0
    pure (bits, slots) only       Σ ε, exactly              the smaller of Σ ε and the PLD
    Laplace                       Σ shift/scale, exactly    the smaller of Σ shift/scale and the PLD
    continuous Gaussian only      never private             analytic: μ² = Σ (shift/σ)²
    all others, and mixtures      never private             PLD by FFT, an upper bound to about six digits
    slack beside any of these     never private             what is left at δ minus the slack, if that is a δ, and ε
                                                            does not exceed what the slack was priced for

Every answer is rounded up. An event brings its own curve (`tacit.accounting.events`); here they only add up. Counts are
multiplied in one line of tacit, `tacit.accounting.privacy_loss.total`; so `n` times an event costs what the event
written down `n` times costs. Events with the same description are merged first.

Users in disjoint batches compose in parallel: each pays for one batch only, so the claim for the whole is the worst
of the batches (`parallel`), adaptively too. Claims about the same users add up (`basic`).

References: pure and basic composition, C. Dwork et al. (2006); Gaussian, B. Balle and Y.-X. Wang (2018); PLD: see
`tacit.accounting.privacy_loss`; parallel: Lemma P7 (parallel composition).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events.gaussian import gaussian_delta, gaussian_epsilon, gaussian_pld
from tacit.accounting.events.protocol import Event, Events, require_event, rounded_up
from tacit.accounting.pld import PLD, compose
from tacit.accounting.privacy_loss import total
from tacit.errors import InvalidInput, require, require_count, require_real

Method: TypeAlias = Literal[
    "nothing released",
    "no protection",
    "pure composition",
    "analytic Gaussian",
    "PLD (FFT, pessimistic)",
    "total variation",
]


def epsilon_of(events: Events, delta: float) -> float:
    """The least epsilon that the accountant certifies for these events at this delta, rounded up.

    >>> from tacit.accounting.events import GaussianEvent, LaplaceEvent
    >>> round(epsilon_of(((LaplaceEvent(scale=36.0, shift=1.0, discrete=False), 34),), 0.0), 4)
    0.9444
    >>> round(epsilon_of(((GaussianEvent(sigma=1.0, shift=0.0394495), 36),), 1e-6), 3)
    1.0
    """
    require_real("delta", delta, low=0.0, high=1.0)
    events, slack, up_to = _apart(merged(events))
    left = _rounded_down(Fraction(delta) - slack)
    found = _epsilon(events, left) if left >= 0.0 else math.inf
    return found if found <= up_to else math.inf


def delta_of(events: Events, epsilon: float) -> float:
    """The least delta that the accountant certifies for these events at this epsilon, rounded up.

    >>> from tacit.accounting.events import PureEvent
    >>> delta_of(((PureEvent(epsilon=0.25), 4),), 1.0)
    0.0
    """
    require_real("epsilon", epsilon, low=0.0)
    events, slack, up_to = _apart(merged(events))
    if epsilon > up_to:
        return 1.0
    # δ(ε) + Σ (1 + e^up_to) tv: Lemma P13 (close laws)
    return min(1.0, rounded_up(Fraction(_delta(events, epsilon)) + slack))


def method_of(events: Events, delta: float) -> Method:
    """How `epsilon_of` computes its answer, in words for the certificate.

    >>> from tacit.accounting.events import GaussianEvent
    >>> method_of(((GaussianEvent(sigma=2.0, shift=1.0), 3),), 1e-6)
    'analytic Gaussian'
    """
    events, slack, _ = _apart(merged(events))
    delta = max(0.0, _rounded_down(Fraction(delta) - slack))
    if not events:
        return "total variation" if slack else "nothing released"
    if unprotected(events):
        return "no protection"
    if delta > 0.0 and all_gaussian(events):
        return "analytic Gaussian"
    if delta == 0.0 or _pure(events) <= _epsilon(events, delta):
        return "pure composition"
    return "PLD (FFT, pessimistic)"


def pure_epsilon_of(events: Events) -> float:
    """The pure epsilon (delta = 0): Σ count · epsilon in exact arithmetic, rounded up once; inf if there is none.

    >>> from tacit.accounting.events import PureEvent
    >>> pure_epsilon_of(((PureEvent(epsilon=0.1), 10),)) <= 1.0000000000000002
    True
    """
    return _pure(merged(events))


@lru_cache(maxsize=64)
def composed(events: Events) -> PLD:
    """The privacy loss of all these events together, each listed once; the Gaussian ones are one shift of length μ."""
    gaussian = tuple((event, count) for event, count in events if event.mu_squared() is not None)
    pairs = [(_event_pld(event), count) for event, count in events if event.mu_squared() is None]
    if gaussian:
        pairs.append((gaussian_pld(_mu(gaussian)), 1))
    return compose(pairs)


def gaussian_mu_of(events: Events) -> float:
    """The μ of Gaussian events together, rounded up: μ² = Σ count · (shift/σ)².

    >>> from tacit.accounting.events import GaussianEvent
    >>> round(gaussian_mu_of(((GaussianEvent(sigma=2.0, shift=1.0), 16),)), 12)
    2.0
    """
    return _mu(merged(events))


def all_gaussian(events: Events) -> bool:
    """Whether every event is continuous Gaussian noise (and there is one): then μ says everything."""
    return len(events) > 0 and all(event.mu_squared() is not None for event, _ in events)


def unprotected(events: Events) -> bool:
    """Whether something is released as it is: then nothing is private, whatever else is."""
    return any(not event.PROTECTS for event, _ in events)


def merged(events: Events) -> Events:
    """The same exposure with every event listed once; what costs nothing is dropped.

    >>> from tacit.accounting.events import PureEvent
    >>> bit = PureEvent(epsilon=0.5)
    >>> merged(((bit, 2), (bit, 1), (PureEvent(epsilon=0.0), 7))) == ((bit, 3),)
    True
    """
    counts = Counter[Event]()
    for event, count in events:
        require_event(event)
        counts[event] += require_count("count of an event", count, least=0)
    return tuple([(event, count) for event, count in counts.items() if count > 0 and _pure_of(event) != 0])


def basic(claims: Sequence[PrivacyClaim]) -> PrivacyClaim:
    """What these claims about the same users give together: epsilons and deltas add, rounded up.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> tenth = PrivacyClaim(trust="local", epsilon=0.1, delta=1e-7, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="every-message")
    >>> basic([tenth] * 10).epsilon, basic([tenth] * 10).delta
    (1.0, 1e-06)
    """
    first = _alike(claims)
    if first.trust == "none":
        return first
    epsilon, delta = added_up(claim.epsilon for claim in claims), added_up(claim.delta for claim in claims)
    return replace(first, epsilon=epsilon, delta=delta, allow_large_delta=True)


def parallel(claims: Sequence[PrivacyClaim]) -> PrivacyClaim:
    """What these claims about disjoint users give together: the worst of them (Lemma P7 (parallel composition)).

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> batch = PrivacyClaim(trust="shuffle", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="shuffled-transcript")
    >>> parallel([batch] * 1000) == batch
    True
    """
    first = _alike(claims)
    if first.trust == "none":
        return first
    epsilon, delta = max(claim.epsilon for claim in claims), max(claim.delta for claim in claims)
    return replace(first, epsilon=epsilon, delta=delta, allow_large_delta=True)


def added_up(values: Iterable[float]) -> float:
    """The sum of the decimal numbers that these print as: the float that prints as it, or the next larger one.

    >>> added_up([0.1] * 10)
    1.0
    """
    printed = [Decimal(repr(value)) for value in values]
    if not all(value.is_finite() for value in printed):
        return math.inf
    exact = sum(map(Fraction, printed), Fraction(0))
    near = float(exact)
    return near if Fraction(Decimal(repr(near))) >= exact else math.nextafter(near, math.inf)


@lru_cache(maxsize=4096)
def _epsilon(events: Events, delta: float) -> float:
    """`epsilon_of` for merged events that have a curve."""
    pure = _pure(events)
    if delta == 0.0 or not events or unprotected(events):
        return pure
    if all_gaussian(events):
        return gaussian_epsilon(delta, _mu(events))
    return min(pure, composed(events).epsilon(delta))


def _delta(events: Events, epsilon: float) -> float:
    """`delta_of` for merged events that have a curve."""
    if _pure(events) <= epsilon:
        return 0.0
    if unprotected(events):
        return 1.0
    if all_gaussian(events):
        return gaussian_delta(epsilon, _mu(events))
    return composed(events).delta(epsilon)


def _apart(events: Events) -> tuple[Events, Fraction, float]:
    """The events that have a curve, what all slacks add to δ, and the least of the ε that they were priced for."""
    curves = tuple([(event, count) for event, count in events if event.slack() is None])
    slacks = [(slack, count) for event, count in events if (slack := event.slack()) is not None]
    added = Fraction(total(slacks, lambda slack: slack[0]))
    return curves, added, min((slack[1] for slack, _ in slacks), default=math.inf)


def _rounded_down(exact: Fraction) -> float:
    return -rounded_up(-exact)


def _pure(events: Events) -> float:
    exact = total(events, _pure_of)
    return exact if isinstance(exact, float) else rounded_up(Fraction(exact))


def _mu(events: Events) -> float:
    square = total(events, _mu_squared)
    return math.nextafter(math.sqrt(rounded_up(Fraction(square))), math.inf) if square else 0.0


def _mu_squared(event: Event) -> Fraction:
    square = event.mu_squared()
    if square is None:
        raise InvalidInput(f"only continuous Gaussian events have a mu, got {event}")
    return square


@lru_cache(maxsize=4096)
def _pure_of(event: Event) -> Fraction | float:
    pure = event.pure()
    require(pure >= 0, "the pure epsilon of an event must be a number from zero on", given=pure)
    return pure if pure == math.inf else Fraction(pure)


@lru_cache(maxsize=256)
def _event_pld(event: Event) -> PLD:
    return event.pld()


def _alike(claims: Sequence[PrivacyClaim]) -> PrivacyClaim:
    require(len(claims) > 0, "there must be a claim to compose", given=0)
    kinds = {(claim.trust, claim.unit, claim.neighbours, claim.output) for claim in claims}
    require(len(kinds) == 1, "composed claims must agree in trust, unit, neighbours and output", given=len(kinds))
    return claims[0]
