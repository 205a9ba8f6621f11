"""Laplace noise, continuous and on the integers: closed forms, Google's accountant, trees and the local worst case."""

from __future__ import annotations

import itertools
import math

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as google

from tacit.accounting.events import LaplaceEvent
from tacit.accounting.pld import PLD, compose
from tacit.errors import InvalidInput


def laplace_pld(scale: float, shift: float, *, discrete: bool) -> PLD:
    return LaplaceEvent(scale=scale, shift=shift, discrete=discrete).pld()


@pytest.mark.parametrize("t", [1e-3, 0.1, 1.0, 8.0])
def test_one_counter_has_the_closed_form(t: float) -> None:
    pld = laplace_pld(1.0 / t, 1.0, discrete=False)
    for share in (0.0, 0.2, 0.77, 0.999):
        exact = -math.expm1((share - 1.0) * t / 2.0)  # δ(ε) = 1 − e^((ε − t)/2)
        assert exact <= pld.delta(share * t) <= exact * (1 + 1e-5) + 1e-7 * t
    assert pld.delta(t) == 0.0
    assert pld.epsilon(0.0) == t


@pytest.mark.parametrize(("scale", "shift"), [(3.0, 1), (3.0, 4), (36.0, 6), (0.5, 2)])
def test_one_integer_counter_equals_summation(scale: float, shift: int) -> None:
    pld = laplace_pld(scale, float(shift), discrete=True)
    with mpmath.workdps(30):
        r = mpmath.exp(-1 / mpmath.mpf(scale))
        mass = {z: (1 - r) / (1 + r) * r ** abs(z) for z in range(-int(60 * scale) - 60, int(60 * scale) + 60 + shift)}
        for share in (0.0, 0.3, 0.8, 0.99):
            epsilon = share * shift / scale
            terms = (mass[z] - mpmath.exp(epsilon) * mass[z - shift] for z in mass if z - shift in mass)
            exact = mpmath.fsum(x for x in terms if x > 0)
            assert exact * (1 - mpmath.mpf(10) ** -20) <= pld.delta(epsilon) <= exact * (1 + 1e-11)
    assert pld.epsilon(0.0) == pytest.approx(shift / scale, rel=1e-15)


def test_unit_steps_on_the_integers_are_randomized_bits() -> None:
    one, bit = laplace_pld(4.0, 1.0, discrete=True), PLD.from_guarantee(0.25, 0.0)
    for epsilon in (0.0, 0.1, 0.2):
        assert one.delta(epsilon) == pytest.approx(bit.delta(epsilon), rel=1e-12)


@pytest.mark.parametrize(("scale", "count"), [(1.0, 1), (10.0, 30), (252.0, 924)])
def test_googles_accountant_agrees(scale: float, count: int) -> None:
    theirs = google.from_laplace_mechanism(
        scale, value_discretization_interval=1e-3 / scale, use_connect_dots=True
    ).self_compose(count)
    ours = laplace_pld(scale, 1.0, discrete=False).self_compose(count)
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=1e-4)


def test_googles_accountant_agrees_on_the_integers() -> None:
    # The losses are ±1/8 and ±3/8, so a grid of eighths is exact.
    theirs = google.from_discrete_laplace_mechanism(1 / 8, sensitivity=3, value_discretization_interval=1 / 8)
    ours = laplace_pld(8.0, 3.0, discrete=True)
    for count in (2, 20):
        assert ours.self_compose(count).epsilon(1e-6) == pytest.approx(
            theirs.self_compose(count).get_epsilon_for_delta(1e-6), rel=1e-4
        )


def tree(horizon: int, episodes: int, cells: int, *, full: bool, factor: float = 1.0) -> PLD:
    """[bai2024adversarial]: N(x,a) and N(x,a,x') in trees; losses in a tree (full information) or once (bandit)."""
    levels = (episodes - 1).bit_length()
    node = laplace_pld(factor * 3 * horizon * levels, 1.0, discrete=False)
    if full:
        return compose([(node, (4 * horizon + cells) * levels)])
    return compose(
        [(node, 4 * horizon * levels), (laplace_pld(factor * 3 * horizon, 1.0, discrete=False), 2 * horizon)]
    )


@pytest.mark.parametrize(
    ("horizon", "episodes", "cells", "full", "pure", "approximate"),
    [
        (6, 10**4, 42, True, 4 / 3 + 42 / 18, 0.484),
        (6, 10**4, 42, False, 2.0, 0.766),
        (10, 10**5, 184, True, 4 / 3 + 184 / 30, 0.487),
        (10, 10**5, 184, False, 2.0, 0.604),
    ],
)
def test_the_central_tree(horizon: int, episodes: int, cells: int, full: bool, pure: float, approximate: float) -> None:
    """Claimed 1-JDP; really `pure`, but much better at δ = 1e-6 (Lemma S7 (losses))."""
    pld = tree(horizon, episodes, cells, full=full)
    assert pld.epsilon(0.0) == pytest.approx(pure, rel=1e-12)
    assert pld.epsilon(1e-6) == pytest.approx(approximate, abs=1e-3)


@pytest.mark.parametrize(("full", "factor"), [(True, 0.508), (False, 0.776)])
def test_the_tree_scaled_to_its_claim(full: bool, factor: float) -> None:
    assert tree(6, 10**4, 42, full=full, factor=factor - 1e-3).epsilon(1e-6) > 1.0
    assert tree(6, 10**4, 42, full=full, factor=factor + 1e-3).epsilon(1e-6) < 1.0


def test_local_laplace_gains_nothing_from_delta() -> None:
    """[garcelon2021local] Alg. 3, H = 6, b = 6H: pure 34/36, and 0.9438 at δ = 1e-5 for the concentrated pattern."""
    for discrete in (False, True):
        counts = [(laplace_pld(36.0, 6.0, discrete=discrete), 4), (laplace_pld(36.0, 5.0, discrete=discrete), 2)]
        assert compose(counts).epsilon(0.0) == pytest.approx(34 / 36, rel=1e-14)
        if not discrete:
            assert compose(counts).epsilon(1e-5) == pytest.approx(0.9438, abs=5e-5)


def test_concentrated_shifts_are_the_worst() -> None:
    """Merging two shifts into one is never better: Lemma S3 (merged shifts)."""
    for first, second in itertools.combinations_with_replacement((1.0, 2.0, 3.0), 2):
        for discrete in (False, True):
            merged = laplace_pld(4.0, first + second, discrete=discrete)
            parts = compose([(laplace_pld(4.0, x, discrete=discrete), 1) for x in (first, second)])
            for share in (0.0, 0.3, 0.6, 0.9):
                epsilon = share * (first + second) / 4.0
                assert parts.delta(epsilon) <= merged.delta(epsilon) * (1 + 1e-4)
            middle = 0.6 * (first + second) / 4.0
            assert parts.delta(middle) < 0.99 * merged.delta(middle)


def test_refusals() -> None:
    assert laplace_pld(2.0, 0.0, discrete=True).epsilon(0.0) == 0.0
    with pytest.raises(InvalidInput, match="whole shifts"):
        laplace_pld(2.0, 0.5, discrete=True)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput, match="scale"):
            laplace_pld(bad, 1.0, discrete=False)
