"""Our privacy-loss distributions: exact enumeration, closed forms in many digits, Google's accountant, broken twins."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import privacy_loss
from tacit.accounting.events.gaussian import gaussian_delta, gaussian_epsilon
from tacit.accounting.pld import PLD, compose
from tacit.accounting.privacy_loss import PrivacyLoss
from tacit.errors import InvalidInput

PMF = tuple[list[float], list[float]]
SKEWED: PMF = ([0.1, 0.3, 0.6], [0.2, 0.35, 0.45])
LEAKING: PMF = ([0.01, 0.5, 0.49, 0.0], [0.0, 0.45, 0.53, 0.02])


def pair(pmf: PMF) -> PLD:
    with np.errstate(divide="ignore"):
        return PLD.from_log_pmfs(np.log(pmf[0]), np.log(pmf[1]))


def enumerated_delta(pmfs: list[PMF], epsilon: float) -> float:
    """The hockey-stick divergence by brute force over all outcomes, the worse of both directions."""
    there, back = [], []
    for outcome in itertools.product(*(range(len(p)) for p, _ in pmfs)):
        p = math.prod(pmfs[i][0][k] for i, k in enumerate(outcome))
        q = math.prod(pmfs[i][1][k] for i, k in enumerate(outcome))
        there.append(max(0.0, p - math.exp(epsilon) * q))
        back.append(max(0.0, q - math.exp(epsilon) * p))
    return max(math.fsum(there), math.fsum(back))


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 0.9, 1.5, 2.2])
@pytest.mark.parametrize(
    ("ups", "downs"), [((SKEWED, 4), (SKEWED, 0)), ((SKEWED, 3), (SKEWED, 2)), ((LEAKING, 2), (SKEWED, 3))]
)
def test_composition_equals_enumeration_in_the_worse_direction(
    ups: tuple[PMF, int], downs: tuple[PMF, int], epsilon: float
) -> None:
    reverse = (downs[0][1], downs[0][0])
    exact = enumerated_delta([ups[0]] * ups[1] + [reverse] * downs[1], epsilon)
    found = compose([(pair(ups[0]), ups[1]), (pair(downs[0]).reversed, downs[1])]).delta(epsilon)
    assert exact <= found <= exact * (1 + 1e-5) + 1e-15


def test_the_two_directions_differ_and_the_worse_one_counts() -> None:
    ups = pair(SKEWED).self_compose(4)
    forward, backward = ups.forward.delta(0.9), ups.backward.delta(0.9)
    assert abs(forward - backward) > 0.01 * forward, "otherwise this test shows nothing"
    assert ups.delta(0.9) == max(forward, backward)
    swapped = pair(SKEWED).reversed.self_compose(4)
    assert swapped.delta(0.9) == ups.delta(0.9)
    mixed = compose([(pair(SKEWED), 2), (pair(SKEWED).reversed, 2)])
    assert mixed.delta(0.9) == pytest.approx(enumerated_delta([SKEWED] * 2 + [(SKEWED[1], SKEWED[0])] * 2, 0.9), 1e-5)


@pytest.mark.parametrize(("count", "epsilon_0"), [(10, 0.3), (60, 0.2), (300, 0.05), (2000, 0.01)])
def test_randomized_bits_in_forty_digits_down_to_tiny_deltas(count: int, epsilon_0: float) -> None:
    """n bits have loss (2k − n) ε₀ with k binomial: an exact oracle far below the precision of a float."""
    composed = PLD.from_guarantee(epsilon_0, 0.0).self_compose(count)
    with mpmath.workdps(40):
        e = mpmath.mpf(epsilon_0)
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        weights = [mpmath.binomial(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
        smallest = 1.0
        for share in (0.1, 0.3, 0.5, 0.7):
            epsilon = share * min(count * epsilon_0, 12 * epsilon_0 * math.sqrt(count))
            terms = ((k, (2 * k - count) * e - epsilon) for k in range(count + 1))
            exact = mpmath.fsum(weights[k] * (1 - mpmath.exp(-gap)) for k, gap in terms if gap > 0)
            found = composed.delta(epsilon)
            assert exact <= found <= exact * (1 + 1e-4) + 3e-18
            smallest = min(smallest, float(exact))
            again = composed.epsilon(found)
            assert composed.delta(again) <= found
            assert again == pytest.approx(epsilon, rel=1e-9)
    assert count <= 60 or smallest < 1e-9


def test_pure_privacy_is_the_sum_of_the_largest_losses() -> None:
    parts = [(PLD.from_guarantee(0.25, 0.0), 3), (PLD.from_guarantee(0.1, 0.0), 2)]
    assert compose(parts).epsilon(0.0) == pytest.approx(0.95, rel=1e-15)
    assert compose(parts).delta(0.96) == 0.0
    assert compose(parts).epsilon(1e-12) <= 0.95
    assert compose([*parts, (pair(LEAKING), 1)]).epsilon(0.0) == math.inf


def test_n_times_is_n_written_down() -> None:
    bit, skewed = PLD.from_guarantee(0.2, 0.0), pair(SKEWED)
    once = compose([(bit, 7), (skewed, 3)])
    spelled = compose([(bit, 1)] * 7 + [(skewed, 1)] * 3)
    for epsilon in (0.1, 1.0, 2.0):
        assert once.delta(epsilon) == spelled.delta(epsilon)
    assert bit.self_compose(1).forward is bit.forward
    assert compose([]).epsilon(0.0) == 0.0
    assert compose([(bit, 0)]).delta(0.0) == 0.0
    assert bit.compose(skewed).delta(0.5) == compose([(bit, 1), (skewed, 1)]).delta(0.5)


def test_composing_a_composition_is_nearly_the_same() -> None:
    bit = PLD.from_guarantee(0.1, 0.0)
    nested, flat = bit.self_compose(10).self_compose(10), bit.self_compose(100)
    assert flat.epsilon(1e-6) * (1 - 1e-9) <= nested.epsilon(1e-6) <= flat.epsilon(1e-6) * (1 + 1e-4)


def test_a_guarantee_with_delta_and_no_protection() -> None:
    loose = PLD.from_guarantee(0.5, 1e-3)
    assert loose.delta(0.5) == pytest.approx(1e-3, rel=1e-9)
    assert loose.delta(0.5) >= 1e-3
    composed = loose.self_compose(5)
    assert composed.delta(2.5) >= 1 - (1 - 1e-3) ** 5
    assert composed.delta(2.5) == pytest.approx(1 - (1 - 1e-3) ** 5, rel=1e-9)
    assert composed.epsilon(1e-3) == math.inf
    assert compose([(PLD.unprotected(), 1), (loose, 3)]).delta(50.0) == 1.0


def google_plds(pmfs: list[tuple[PMF, int]], spacing: float, *, pessimistic: bool) -> list[Any]:
    """Both directions with Google's accountant; its default checks one only."""

    def one_way(swap: int) -> Any:
        composed = None
        for pmf, count in pmfs:
            upper, lower = pmf[swap], pmf[1 - swap]
            logs = [{k: math.log(x) for k, x in enumerate(values) if x > 0} for values in (lower, upper)]
            part = google.from_two_probability_mass_functions(
                logs[0],
                logs[1],
                pessimistic_estimate=pessimistic,
                value_discretization_interval=spacing,
                log_mass_truncation_bound=-60,
                symmetric=False,
            ).self_compose(count)
            composed = part if composed is None else composed.compose(part)
        return composed

    return [one_way(0), one_way(1)]


def test_googles_accountant_brackets_ours() -> None:
    mild: PMF = ([0.30, 0.42, 0.28], [0.28, 0.42, 0.30])
    other: PMF = ([0.10, 0.90], [0.11, 0.89])
    parts = [(mild, 20), (other, 30)]
    ours = compose([(pair(pmf), count) for pmf, count in parts])
    bounds = [google_plds(parts, 1e-5, pessimistic=side) for side in (False, True)]
    for delta in (1e-3, 1e-6, 1e-9):
        low, high = (max(float(way.get_epsilon_for_delta(delta)) for way in side) for side in bounds)
        assert low <= ours.epsilon(delta) <= high
        assert high - low < 1e-3 * high, "so that the middle is worth comparing with"
        assert ours.epsilon(delta) == pytest.approx((low + high) / 2, rel=1e-4)


def test_our_grid_is_finer_than_needed_and_coarser_grids_are_worse() -> None:
    bit = pair(SKEWED)
    fine, coarse, coarser = (compose([(bit, 30)], spacing=x).epsilon(1e-6) for x in (1e-4, 0.01, 0.05))
    assert fine <= coarse <= coarser
    assert compose([(bit, 30)]).epsilon(1e-6) == pytest.approx(fine, rel=1e-5)
    assert coarser > fine * (1 + 1e-4)


def test_a_gaussian_shift_composes_to_the_analytic_curve() -> None:
    x = np.linspace(-12.0, 12.1, 8001)
    cells = np.diff(x)[0]
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi) * cells
    shifted = PLD.from_symmetric_atoms(0.1 * (0.05 - x), density)  # a fine lattice: the sum is accurate to 1e-14
    composed = shifted.self_compose(16)
    for delta in (1e-3, 1e-6, 1e-12):
        assert composed.epsilon(delta) == pytest.approx(gaussian_epsilon(delta, 0.4), rel=2e-5)
    assert composed.delta(3.0) == pytest.approx(gaussian_delta(3.0, 0.4), rel=1e-3)


def test_broken_twin_with_losses_rounded_down_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = enumerated_delta([SKEWED] * 5, 0.9)

    def rounded_down(part: PrivacyLoss, spacing: float) -> privacy_loss._Grid:
        return privacy_loss._Grid(np.floor(part.losses / spacing).astype(np.int64), part.masses)

    monkeypatch.setattr(privacy_loss, "_on_grid", rounded_down)
    assert compose([(pair(SKEWED), 5)]).delta(0.9) < exact


def test_broken_twin_without_the_tail_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy_loss, "TAIL", 0.3)
    honest = compose([(pair(SKEWED), 5)])
    assert honest.delta(0.9) >= enumerated_delta([SKEWED] * 5, 0.9), "a bad window is expensive, never unsafe"
    assert honest.forward.infinity >= 0.3


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3),
    st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.floats(0.0, 3.0),
)
def test_upper_bound_for_any_pair(p: list[float], q: list[float], up: int, down: int, epsilon: float) -> None:
    pmf = ([x / sum(p) for x in p], [x / sum(q) for x in q])
    exact = enumerated_delta([pmf] * up + [(pmf[1], pmf[0])] * down, epsilon)
    found = compose([(pair(pmf), up), (pair(pmf).reversed, down)]).delta(epsilon)
    assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-4) + 1e-7


def test_immutable_and_strict() -> None:
    pld = pair(SKEWED).self_compose(3)
    with pytest.raises(ValueError, match="read-only"):
        pld.forward.masses[0] = 1.0
    with pytest.raises(AttributeError):
        pld.forward = pld.backward  # type: ignore[misc]
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput):
            pld.delta(bad)
        with pytest.raises(InvalidInput):
            pld.epsilon(bad)
    with pytest.raises(InvalidInput, match="count"):
        compose([(pld, -1)])
    with pytest.raises(InvalidInput, match="spacing"):
        compose([(pld, 2)], spacing=0.0)
    with pytest.raises(InvalidInput, match="share an outcome"):
        PLD.from_log_pmfs(np.array([0.0, -np.inf]), np.array([-np.inf, 0.0]))
    with pytest.raises(InvalidInput, match="one length"):
        PLD.from_log_pmfs(np.zeros(1), np.zeros(2))
