"""The least noise bits that are private: how many fair ones, and how rarely odd ones of either kind need to be.

More bits are never less private (Lemma M4 (more bits)), so calibration is a search, started from the closed form for a
Gaussian: N p (1 − p) ≈ differing/μ(ε, δ)². What one search for the number of bits found out bounds the next one, for
other sizes of a batch. Every answer was found private by the exact accountant in this process, whether it was searched
for or remembered by another one (`tacit.accounting.search`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tacit.accounting.composition import composed, epsilon_of
from tacit.accounting.events import BinomialEvent, Events, MirroredEvent
from tacit.accounting.events.binomial import MAX_BITS
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.privacy_loss import MIN_DELTA
from tacit.accounting.search import least_integer, least_real, recall, remember
from tacit.errors import InvalidInput, require, require_count, require_real


def gaussian_bits(epsilon: float, delta: float, up: int, down: int) -> float:
    """About how many fair bits are needed: Binomial(N, 1/2) is nearly a Gaussian of variance N/4, so 4 · differing/μ².

    >>> round(gaussian_bits(1.0, 1e-6, 1, 1))
    143
    """
    return 4.0 * _variance(epsilon, delta, up, down)


@lru_cache(maxsize=16384)
def least_bits(epsilon: float, delta: float, up: int, down: int, users: int = 1) -> int:
    """The fewest fair noise bits per counter, over all users together, that are (epsilon, delta)-private.

    Every user adds as many as every other: only multiples of `users` are tried, which takes fewer trials.

    >>> least_bits(1.0, 1e-6, 1, 1), least_bits(1.0, 1e-6, 1, 1, users=100)
    (148, 200)
    """
    n = require_count("users", users)
    guess, known = gaussian_bits(epsilon, delta, up, down), _known(epsilon, delta, up, down)

    def excess(each: int) -> float:
        bits = each * n
        # Lemma M4 (more bits)
        if bits <= known.few:
            return math.inf
        if bits >= known.enough:
            return -math.inf
        value = _excess(_binomial(bits, 0.5, up, down), epsilon, delta)
        if value > 0.0:
            known.few = max(known.few, bits)
        else:
            known.enough = min(known.enough, bits)
        return value

    return n * least_integer(excess, min(max(guess / n, known.few // n + 1.0), -(-known.enough // n)))


@dataclass(slots=True)
class _Known:
    """Of fair bits: as many as were found too few, and as many as were found enough."""

    few: int = 0
    enough: int = MAX_BITS


@lru_cache(maxsize=1024)
def _known(epsilon: float, delta: float, up: int, down: int) -> _Known:
    """What searches for this claim have found out."""
    return _Known()


@lru_cache(maxsize=16384)
def least_probability(epsilon: float, delta: float, up: int, down: int, bits: int) -> float:
    """The least probability of so many noise bits per counter that is (epsilon, delta)-private, rounded up.

    >>> round(least_probability(1.0, 1e-6, 2, 2, 1000), 4)
    0.0807
    """
    # N q (1 − q) ≈ differing / μ²
    variance = min(_variance(epsilon, delta, up, down), require_count("bits", bits) / 4.0)
    guess = 0.5 * (1.0 - math.sqrt(1.0 - 4.0 * variance / bits))

    def refuse() -> InvalidInput:
        needed = least_bits(epsilon, delta, up, down)
        return InvalidInput(
            f"one noise bit per user is not private with {bits} users; at least {needed} fair bits are needed in all: "
            "let each user send several"
        )

    return _least(lambda q: _binomial(bits, q, up, down), epsilon, delta, guess, 0.5, refuse)


@lru_cache(maxsize=16384)
def least_mirrored_probability(epsilon: float, delta: float, up: int, down: int, bits: int) -> float:
    """The least probability of `bits` noise bits of either bias that is (epsilon, delta)-private, rounded up.

    >>> round(least_mirrored_probability(10.0, 1e-6, 11, 11, 1000), 5)
    0.00311
    """
    # 2 N q (1 − q) ≈ differing / μ²
    spread = min(_variance(epsilon, delta, up, down) / require_count("bits", bits), 0.5)
    guess = max(0.5 * (1.0 - math.sqrt(1.0 - 2.0 * spread)), 1e-12)

    def refuse() -> InvalidInput:
        return InvalidInput(
            f"so few mirrored noise bits cannot give epsilon {epsilon:g}, delta {delta:g} to {up + down} counters, "
            f"got {bits}: let each user send several"
        )

    found = _least(lambda q: _mirrored(bits, q, up, down), epsilon, delta, guess, min(0.5, 16.0 * guess), refuse)
    return min(0.5, found)


def _least(
    events: Callable[[float], Events],
    epsilon: float,
    delta: float,
    guess: float,
    most: float,
    refuse: Callable[[], InvalidInput],
) -> float:
    """The least probability under which these events are private, to a millionth; refused beyond `most`."""
    question = f"{events(0.5)} {float(epsilon).hex()} {float(delta).hex()}"
    found = recall(question)
    if found is not None and _excess(events(min(found, 0.5)), epsilon, delta) <= 0.0:
        return found

    def excess(probability: float) -> float:
        value = _excess(events(min(probability, 0.5)), epsilon, delta)
        if value > 0.0 and probability >= most:
            raise refuse()
        return value

    found = least_real(excess, guess)
    certified = epsilon_of(events(min(found, 0.5)), delta)
    require(certified <= epsilon, "calibrated noise bits must be certified at their epsilon", given=certified)
    remember(question, found)
    return found


def _excess(events: Events, epsilon: float, delta: float) -> float:
    found = composed(events).delta(epsilon)
    return math.log(found / delta) if found > 0.0 else -math.inf


def _binomial(bits: int, probability: float, up: int, down: int) -> Events:
    ways = ((1, up), (-1, down))
    return tuple((BinomialEvent(bits=bits, probability=probability, shift=way), n) for way, n in ways if n)


def _mirrored(bits: int, probability: float, up: int, down: int) -> Events:
    ways = ((1, up), (-1, down))
    return tuple((MirroredEvent(bits=bits, probability=probability, shift=way), n) for way, n in ways if n)


def _variance(epsilon: float, delta: float, up: int, down: int) -> float:
    """The variance of Gaussian noise that is enough: differing / μ²."""
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    hint = "noise bits are bounded and cannot give delta = 0; use Laplace"
    require_real("delta", delta, low=MIN_DELTA, high=1.0, hint=hint)
    differing = require_count("up", up, least=0) + require_count("down", down, least=0)
    return require_count("up + down", differing) / gaussian_mu(epsilon, delta) ** 2
