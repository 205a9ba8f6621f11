"""Noise for a person who reports several times: the largest one-report epsilon that is still private for the person.

Families of noise have one parameter and come with calibrators for one report. A person with g reports meets the events
of g reports, E_g(noise). Calibrating at a smaller ε₁ ≤ ε for one report gives more noise, hence a smaller

    ε_g(ε₁) = ε(E_g(noise(ε₁)), δ),        noise(ε₁) = the calibrator's answer at (ε₁, δ),

and the answer is the largest ε₁ with ε_g(ε₁) ≤ ε. That costs what composition costs: ε₁ = ε/g for pure noise, μ₁ = μ/√g
for Gaussian noise.

Stages with noise of their own compose (Lemma P14 (several stages)): a person who reports in g of them meets the events
of those g, at worst of the g that cost most together (`worst_exposure`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from tacit.accounting.composition import all_gaussian, epsilon_of, gaussian_mu_of, merged
from tacit.accounting.events import Events
from tacit.accounting.privacy_loss import total
from tacit.accounting.search import least_real
from tacit.errors import NotSupported, require_count, require_real

T = TypeVar("T")

TOLERANCE = 1e-6
"""Relative, in the one-report epsilon."""
MAX_CHOICES = 300
"""How many choices of stages are compared; each is a composition."""


def largest_report_epsilon(
    make: Callable[[float], T], exposure: Callable[[T], Events], epsilon: float, delta: float
) -> T:
    """The noise `make(ε₁)` of the largest one-report epsilon ε₁ ≤ epsilon whose exposure is (epsilon, delta)-private.

    `make` calibrates one report at this ε₁ and delta; less ε₁ must mean more noise. `exposure` says what a person with
    all reports meets. What is returned was made at an ε₁ at which the accountant was asked and said yes, at most a
    millionth below the largest; with one report it is `make(epsilon)`.

    >>> from tacit.accounting.events import PureEvent
    >>> largest_report_epsilon(lambda e: PureEvent(epsilon=e), lambda noise: ((noise, 4),), 1.0, 0.0)
    PureEvent(epsilon=0.25)
    """
    target = require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0)
    made: dict[float, T] = {}

    def excess(inverse: float) -> float:
        made[inverse] = make(1.0 / inverse)
        certified = epsilon_of(exposure(made[inverse]), delta)
        return math.log(certified / target) if certified > 0.0 else -math.inf

    whole = 1.0 / target
    first = make(target)
    certified = epsilon_of(exposure(first), delta)
    if certified <= target:
        return first
    # Where ε_g is proportional to ε₁, the proportion is the answer itself.
    guess = whole * certified / target if math.isfinite(certified) else 2.0 * whole
    if excess(guess) <= 0.0 < excess(guess * (1.0 - TOLERANCE)):
        return made[guess]
    if delta == 0.0 and math.isinf(certified):
        raise NotSupported(
            "this noise never gives pure differential privacy (delta = 0): use a positive delta, or a mechanism with a "
            "pure guarantee ('laplace', 'rr', 'oue')"
        )
    return made[least_real(excess, guess, tolerance=TOLERANCE)]


def in_stages(events: Events, stages: int) -> Events:
    """What somebody meets who meets these events in each of so many stages.

    >>> from tacit.accounting.events import PureEvent
    >>> in_stages(((PureEvent(epsilon=0.5), 2),), 3)
    ((PureEvent(epsilon=0.5), 6),)
    """
    count = require_count("stages", stages)
    if count == 1:
        return events
    # By doubling: n·E = 2·(n//2)·E + (n mod 2)·E
    half = merged(in_stages(events, count // 2))
    return merged(half + half + (events if count % 2 else ()))


def worst_exposure(schedule: Sequence[Events], reports: int, delta: float) -> Events:
    """The events of the g stages, one report in each, that cost a person most at this delta: exactly, by comparison.

    Stages must have noise of their own. Those of Gaussian noise are ordered by their μ, equal ones are alike,
    and of others every choice is compared; where that is too much to compare, the schedule is refused.

    >>> from tacit.accounting.events import PureEvent
    >>> small, large = ((PureEvent(epsilon=0.1), 1),), ((PureEvent(epsilon=0.3), 1),)
    >>> worst_exposure([small, large, small, small], 2, 0.0) == merged(small + large)
    True
    """
    count = require_count("reports", reports)
    require_real("delta", delta, low=0.0, high=1.0)
    kinds = Counter(frozenset(merged(events)) for events in schedule)
    alike = {kind: tuple(sorted(kind, key=lambda one: (one[0].NAME, repr(one)))) for kind in kinds}
    limits = tuple((alike[kind], number) for kind, number in kinds.items() if kind)
    return _worst(limits, min(count, sum(number for _, number in limits)), float(delta))


def other_exposures(
    schedule: Sequence[Events], reports: int, delta: float, deltas: Sequence[float]
) -> tuple[Events, ...]:
    """What costs most at one of these deltas, where that is not what costs most at `delta`: each of them once.

    A curve over the deltas has to cover them, too: the stage that costs most at 1e-6 need not do so at 1e-12.
    """
    worst = worst_exposure(schedule, reports, delta)
    found = dict.fromkeys(worst_exposure(schedule, reports, other) for other in deltas)
    return tuple(events for events in found if events != worst)


@lru_cache(maxsize=256)
def _worst(kinds: tuple[tuple[Events, int], ...], reports: int, delta: float) -> Events:
    if reports == 0:
        return ()
    if len(kinds) == 1:
        return in_stages(kinds[0][0], reports)
    slacks = [slack for events, _ in kinds for event, _ in events if (slack := event.slack()) is not None]
    if all(all_gaussian(_curved(events)) for events, _ in kinds) and len({up_to for _, up_to in slacks}) <= 1:
        return _most(kinds, reports, _mu) + _most(kinds, reports, _slack)
    choices = list(_choices([number for _, number in kinds], reports, MAX_CHOICES + 1))
    if len(choices) > MAX_CHOICES:
        raise NotSupported(
            f"a person with {reports} reports in {len(kinds)} kinds of stages meets more than {MAX_CHOICES} "
            "combinations; plan stages of fewer different sizes, or fewer reports per person"
        )

    def exposure(choice: tuple[int, ...]) -> Events:
        return merged(tuple(pair for (events, _), n in zip(kinds, choice, strict=True) for pair in events * n))

    return max(map(exposure, choices), key=lambda events: epsilon_of(events, delta))


def _most(
    kinds: tuple[tuple[Events, int], ...], reports: int, part: Callable[[Events], tuple[float, Events]]
) -> Events:
    """The largest of these parts over so many stages."""
    parts = [part(events) for events, number in kinds for _ in range(min(number, reports))]
    largest = sorted(parts, key=lambda found: found[0], reverse=True)[:reports]
    return merged(tuple(pair for _, events in largest for pair in events))


def _curved(events: Events) -> Events:
    return tuple(pair for pair in events if pair[0].slack() is None)


def _mu(events: Events) -> tuple[float, Events]:
    return gaussian_mu_of(_curved(events)), _curved(events)


def _slack(events: Events) -> tuple[float, Events]:
    """Slacks are chosen apart from the noise: what they add is at most what the largest ones add."""
    slacks = tuple(pair for pair in events if pair[0].slack() is not None)
    added = total([(found[0], n) for event, n in slacks if (found := event.slack()) is not None], float)
    return float(added), slacks


def _choices(limits: Sequence[int], reports: int, most: int) -> Iterator[tuple[int, ...]]:
    """The ways to write `reports` as a sum of numbers within these limits, at most so many of them."""
    if not limits or not reports:
        if reports == 0:
            yield (0,) * len(limits)
        return
    left = most
    for n in range(min(limits[0], reports), -1, -1):
        for rest in _choices(limits[1:], reports - n, left):
            yield (n, *rest)
            left -= 1
            if left == 0:
                return
