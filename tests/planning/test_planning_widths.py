"""The practical rule, line by line against its formula in exact arithmetic."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.planning.widths import practical_width, row_model

UNIT = st.floats(0.0, 1.0)
POSITIVE = st.floats(0.01, 1e6)


@given(st.floats(0.0, 4.0), st.integers(1, 50), POSITIVE, UNIT, POSITIVE, POSITIVE, POSITIVE, POSITIVE)
def test_the_width_is_the_formula(z, remaining, n, r, variance, spread, sigma2_N, sigma2_R):
    with mpmath.workdps(40):
        Z, N, R = mpmath.mpf(z), mpmath.mpf(n), mpmath.mpf(r)
        inside = (variance + R * (1 - R) + mpmath.mpf("0.25") / N) / N + (sigma2_N * spread + sigma2_R) / N**2
        expected = float(Z * mpmath.sqrt(inside) + Z**2 / 3 * remaining / N)
    assert practical_width(z, remaining, n, r, variance, spread, sigma2_N, sigma2_R) == pytest.approx(expected, 1e-9)


def test_an_unknown_row_is_as_wide_as_what_is_left():
    assert practical_width(0.5, 7, 0.0, 0.3, 1.0, 1.0, 1.0, 1.0) == 7.0


def test_without_noise_the_width_shrinks_like_the_inverse_root():
    wide, narrow = (practical_width(1.0, 1, n, 0.5, 1.0, 2.0, 0.0, 0.0) for n in (1e6, 4e6))
    assert wide / narrow == pytest.approx(2.0, rel=1e-3)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(0, 1000))
def test_without_noise_a_row_is_the_plain_frequency(counts, rewards):
    counts = np.array(counts, dtype=np.float64)
    visits = counts.sum()
    row = np.full(len(counts), np.nan)
    n, r = row_model(counts, visits, float(min(rewards, visits)), 0.0, row)
    assert n == visits
    if visits:
        np.testing.assert_array_equal(row, counts / visits)
        assert r == min(rewards, visits) / visits
    else:
        assert not row.any()
        assert r == 0.0


def test_noisy_cells_near_zero_are_dropped_and_rewards_are_clipped():
    row = np.zeros(4)
    n, r = row_model(np.array([-3.0, 4.9, 5.1, 94.9]), 90.0, 200.0, 100.0, row)
    assert n == pytest.approx(100.0)
    np.testing.assert_allclose(row, [0.0, 0.0, 0.051, 0.949])
    assert r == 1.0
    assert row_model(np.array([-3.0, 1.0]), -2.0, 5.0, 100.0, np.zeros(2)) == (0.0, 0.0)


def test_the_last_step_rests_on_its_visits():
    n, r = row_model(np.zeros(3), 8.0, 2.0, 0.0, np.zeros(3))
    assert (n, r) == (0.0, 0.25)
    assert math.isfinite(r)


def test_a_weight_divides_the_counts_that_sampling_rests_on() -> None:
    # Without noise, n counts of weight w are as good as n/w users; the noise itself does not grow with the weight.
    light = practical_width(0.8, 4, 50.0, 0.3, 1.2, 2.0, 0.0, 0.0)
    assert practical_width(0.8, 4, 300.0, 0.3, 1.2, 2.0, 0.0, 0.0, 6.0) == pytest.approx(light, rel=1e-12)
    quiet = practical_width(1.0, 1, 1e9, 0.0, 0.0, 2.0, 9e12, 9e12)
    assert practical_width(1.0, 1, 1e9, 0.0, 0.0, 2.0, 9e12, 9e12, 6.0) == pytest.approx(quiet, rel=1e-4)
    assert practical_width(1.0, 1, 1e9, 0.5, 1.0, 2.0, 9e6, 9e6, 6.0) > 2.0 * practical_width(
        1.0, 1, 1e9, 0.5, 1.0, 2.0, 9e6, 9e6
    )
