"""The integers around e^-γ and around the thresholds contain the exact values and are narrow; undecided lanes go on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidInput
from tacit.noise.exact.blocks import LARGEST_SCALE, GaussianBlocks, GeometricBlocks, block_shift
from tacit.noise.exact.inversion import GUARD, _taylor, concave_tail, draw, exp_enclosure, rational, thresholds

F = Fraction


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@settings(deadline=None, max_examples=200)
@given(
    gamma=st.one_of(
        st.fractions(min_value=0, max_value=300),
        st.floats(min_value=0, max_value=1e6).map(Fraction),
        st.just(F(1e-300)),
    ),
    bits=st.integers(1, 300),
)
def test_exp_is_enclosed_narrowly(gamma: Fraction, bits: int) -> None:
    with mpmath.workdps(400):
        exact = mpmath.mpf(2) ** bits * mpmath.exp(-real(gamma))
        lower, upper = exp_enclosure(gamma, bits)
        assert lower <= exact <= upper
        assert upper - lower <= 2


@settings(deadline=None, max_examples=300)
@given(num=st.integers(1, 200), extra=st.integers(1, 200), bits=st.integers(1, 12))
def test_the_series_is_enclosed_with_its_remainder(num: int, extra: int, bits: int) -> None:
    lower, upper = _taylor(num, num + extra, bits)
    assert lower <= 2**bits * math.exp(-num / (num + extra)) <= upper


@pytest.mark.parametrize(
    "law", [GeometricBlocks(F(7, 3), 0), GaussianBlocks(F(400), 0), GaussianBlocks(F(10**9), 10)], ids=str
)
def test_weights_are_enclosed_to_their_last_bit(law: GeometricBlocks | GaussianBlocks) -> None:
    """Sharper than the thresholds can show: these are rounded to 64 bits fewer."""
    w = law.weights(64)
    with mpmath.workdps(120):
        for a, low, high in zip(w.outcomes, w.lower, w.upper, strict=True):
            assert low <= 2 ** (64 + GUARD) * mpmath.exp(-real(law.exponent(a << law.shift))) <= high


def survival(law: GeometricBlocks | GaussianBlocks, outcomes: Sequence[int]) -> list[mpmath.mpf]:
    """P(X comes after x_k), by sums over weights that are nothing like the recursion of the library."""
    step, far = 1 << law.shift, 4 * len(outcomes) + 400
    mass = [mpmath.exp(-real(law.exponent(step * a))) for a in range(far)]
    total = mpmath.fsum(mass)
    upto, answer = mpmath.mpf(0), []
    for weight in mass[: len(outcomes)]:
        upto += weight
        answer.append((total - upto) / total)
    return answer


LAWS = [
    GeometricBlocks(F(1, 50), 0),
    GeometricBlocks(F(7, 3), 0),
    GeometricBlocks(F(0.1), 0),
    GeometricBlocks(F(10**6), 17),
    GaussianBlocks(F(1, 9), 0),
    GaussianBlocks(F(400), 0),
    GaussianBlocks(F(10**9), 10),
]


@pytest.mark.parametrize("bits", [3, 64, 130])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_thresholds_are_enclosed_narrowly(law: GeometricBlocks | GaussianBlocks, bits: int) -> None:
    outcomes, lower, upper = thresholds(law, bits)
    with mpmath.workdps(120):
        tiny = mpmath.mpf(10) ** -100
        for exact, low, high in zip(survival(law, outcomes), lower, upper, strict=True):
            assert low - tiny <= 2**bits * exact <= high + tiny
            assert high - low <= 2
    assert lower[-1] == 0
    assert upper[-1] <= 1
    assert lower == sorted(lower, reverse=True)
    assert upper == sorted(upper, reverse=True)
    assert len(set(outcomes)) == len(outcomes)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_order_of_outcomes_does_not_depend_on_the_precision(law: GeometricBlocks | GaussianBlocks) -> None:
    short, long = thresholds(law, 20)[0], thresholds(law, 90)[0]
    assert list(long[: len(short)]) == list(short)


@given(st.lists(st.floats(0.01, 3), min_size=2, max_size=30))
def test_the_tail_of_a_log_concave_sequence_is_bounded(steps: list[float]) -> None:
    # Increasing steps make a log-concave sequence; integers round it by less than one unit each.
    weights = [10**12 * math.exp(-sum(sorted(steps)[:k])) for k in range(len(steps) + 1)]
    bound = concave_tail(math.floor(weights[0]), math.ceil(weights[1]))
    assert bound is None or bound >= sum(weights[1:]) * (1 - 1e-12)


def test_a_word_on_a_threshold_is_decided_by_the_next_one() -> None:
    """The path that a deployment takes once in 2^62 draws: the first 64 bits of U are those of T_k."""
    law = GeometricBlocks(F(20), 0)
    k = 7
    with mpmath.workdps(100):
        exact = mpmath.exp(-real(law.exponent(k + 1)))  # T_k = r^(k+1)
        first = int(mpmath.floor(exact * 2**64))
        second = int(mpmath.floor(exact * 2**128)) - (first << 64)

    def answer(*words: int) -> int:
        queue = list(words)
        result = draw(law, 1, lambda count, width: np.array([queue.pop(0) for _ in range(count)], dtype=np.uint64))
        assert not queue, "every word was needed"
        return int(result[0])

    assert answer(first + 1) == k
    assert answer(first - 1) == k + 1
    assert answer(first, second - 1) == k + 1
    assert answer(first, second + 1) == k
    assert answer(first, second, 2**64 - 1) == k
    assert answer(first, second, 0) == k + 1


def test_all_zero_words_walk_into_the_tail() -> None:
    """U < 2^-64 lies beyond the table of one word; the tail is not cut off."""
    law = GeometricBlocks(F(2), 0)
    queue = [0, 0, 2**63]
    result = draw(law, 1, lambda count, width: np.array([queue.pop(0) for _ in range(count)], dtype=np.uint64))
    # U = 2^-129 exactly, so #{k : U < e^-(k+1)/2} = ⌊2·129·ln 2⌋ unless the next word is asked for, which is not there.
    assert int(result[0]) == math.floor(2 * 129 * math.log(2))
    assert not queue


def test_block_length_keeps_tables_short_and_integers_in_range() -> None:
    for scale in (1, 511, 512, 10**6, LARGEST_SCALE):
        shift = block_shift(F(scale))
        assert shift == 0 or 256 <= scale / 2**shift < 512
        assert (2**31 << shift) <= 2**63


def test_rational_parameters_are_taken_exactly() -> None:
    assert rational("x", 0.1) == F(0.1) != F(1, 10)
    assert rational("x", np.float32(0.1)) == F(13421773, 134217728)
    assert rational("x", np.int64(3)) == 3
    assert rational("x", F(1, 3)) == F(1, 3)
    for bad in (math.nan, math.inf, -math.inf, True, "1/3", None, 1j):
        with pytest.raises(InvalidInput, match="x must be a finite number"):
            rational("x", bad)  # type: ignore[arg-type]
