"""The calibration search: the least noise, always on the private side, in few evaluations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.privacy_loss import total
from tacit.accounting.search import least_integer, least_real


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1e6), st.floats(-3.0, 3.0), st.sampled_from([0.5, 1.0, 2.0, 8.0]))
def test_least_real_ends_on_the_private_side(root: float, off: float, power: float) -> None:
    calls = []

    def excess(x: float) -> float:
        calls.append(x)
        return power * (math.log(root) - math.log(x))

    found = least_real(excess, root * math.exp(off))
    assert root <= found <= root * (1 + 1e-6) * (1 + 1e-12)
    assert found in calls, "what is returned was tested itself"
    assert len(calls) <= 40


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**7), st.floats(-3.0, 3.0))
def test_least_integer_is_the_least(answer: int, off: float) -> None:
    calls = []

    def excess(n: int) -> float:
        calls.append(n)
        return (answer - 0.5) - n

    assert least_integer(excess, max(answer * math.exp(off), 1e-3)) == answer
    assert len(calls) <= 60


def test_a_cliff_of_infinite_excess_is_no_obstacle() -> None:
    assert least_integer(lambda n: math.inf if n < 1000 else -1.0, 3.0) == 1000
    assert least_integer(lambda n: -math.inf, 50.0) == 1
    assert least_real(lambda x: math.inf if x < 0.3 else -math.inf, 1.0) == pytest.approx(0.3, rel=2e-6)


def test_total_is_the_sum_over_repetitions() -> None:
    parts = [(0.25, 3), (2.0, 1), (7.0, 0)]
    assert total(parts, lambda x: x) == sum([0.25] * 3 + [2.0])
