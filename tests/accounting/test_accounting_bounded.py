"""Bounded double-exponential noise: moments, independent brackets, radii of another accountant, the worst pattern."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from scipy.integrate import quad

from tacit.accounting.events.bounded import (
    BOUNDED_NORMALISER,
    BOUNDED_STD,
    bounded_density,
    bounded_pld,
    least_radius,
)
from tacit.accounting.pld import PLD, compose
from tacit.errors import InvalidInput


def pattern(horizon: int) -> tuple[int, ...]:
    """The concentrated replacement: ±H in rewards and visits, ±(H − 1) in transitions."""
    return (horizon,) * 4 + (horizon - 1,) * 2


def concentrated(radius: float, horizon: int) -> PLD:
    return compose([(bounded_pld(radius, float(horizon)), 4), (bounded_pld(radius, float(horizon - 1)), 2)])


def test_normaliser_and_deviation() -> None:
    assert pytest.approx(0.054966, abs=5e-7) == BOUNDED_NORMALISER
    assert pytest.approx(0.28627, abs=5e-6) == BOUNDED_STD
    z, _ = quad(lambda u: math.exp(-math.exp(1 / (1 - u * u))), -0.99, 0.99, epsabs=1e-13)
    assert pytest.approx(z, rel=1e-9) == BOUNDED_NORMALISER
    density = bounded_density(np.array([-5.0, -4.9999, 0.0, 2.0, 5.0, 7.0]), 5.0)
    assert density[[0, 1, 4, 5]].tolist() == [0.0] * 4
    assert density[2] == pytest.approx(math.exp(-math.e) / (5 * z), rel=1e-9)


@pytest.mark.parametrize("shift", [0.02, 0.3, 1.2])
def test_one_counter_equals_quadrature(shift: float) -> None:
    pld = bounded_pld(1.0, shift)

    def gap(u: float, epsilon: float) -> float:
        p, q = bounded_density(np.array([u, u - shift]))
        return max(0.0, float(p - math.exp(epsilon) * q))

    for epsilon in (0.0, 0.05, 0.5, 3.0):
        # The loss falls along the line: integrate up to where it passes epsilon.
        low, high = shift - 1.0, shift / 2
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if gap(middle, epsilon) > 0.0 or middle < shift - 0.999 else (low, middle)
        exact = quad(gap, -1.0, high, args=(epsilon,), epsabs=1e-15, epsrel=1e-12, limit=500, points=[high - 0.05])[0]
        assert exact * (1 - 1e-9) - 1e-14 <= pld.delta(epsilon) <= exact * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(
    ("horizon", "epsilon", "delta", "radius"),
    [
        (2, 1.0, 1e-5, 165.7),
        (2, 2.0, 1e-5, 97.8),
        (2, 2.0, 0.1, 14.06),
        (2, 6.0, 1e-5, 46.6),
        (2, 0.2, 1e-5, 600.0),
        (6, 1.0, 1e-5, 510.5),
        (6, 2.0, 1e-5, 300.5),
        (6, 2.0, 0.1, 45.95),
        (1, 1.0, 1e-5, 82.4),
    ],
)
def test_least_radius_has_the_published_vectors(horizon: int, epsilon: float, delta: float, radius: float) -> None:
    """The table rounds every loss up; ours is 0.1 to 0.4 % smaller and still an upper bound (bracketed below)."""
    found = least_radius(epsilon, delta, pattern(horizon))
    assert radius * (1 - 4e-3) <= found <= radius
    assert concentrated(found, horizon).delta(epsilon) <= delta
    assert concentrated(found * (1 - 1e-5), horizon).epsilon(delta) > epsilon


def test_googles_accountant_brackets_ours() -> None:
    """Binned outcomes are post-processing (a lower bound); each bin at its largest loss is an upper bound."""
    radius, shift, cells_per_unit = 165.1621, 2, 8
    bits = np.arange(-int(radius * cells_per_unit), int(radius * cells_per_unit) + 1)
    edges = bits / cells_per_unit
    mass = bounded_density((edges[:-1] + edges[1:]) / 2, radius) / cells_per_unit
    mass /= mass.sum()
    keep = mass > 1e-20

    def composed(pessimistic: bool) -> float:
        total = None
        for move, count in ((shift, 4), (shift - 1, 2)):
            upper = dict(zip(bits[:-1][keep].tolist(), np.log(mass[keep]).tolist(), strict=True))
            lower = {k + move * cells_per_unit: value for k, value in upper.items()}
            part = google.from_two_probability_mass_functions(
                lower,
                upper,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=1e-4,
                log_mass_truncation_bound=-35,
                symmetric=False,
            ).self_compose(count)
            total = part if total is None else total.compose(part)
        assert total is not None
        return float(total.get_epsilon_for_delta(1e-5))

    low, high = composed(False), composed(True)
    ours = concentrated(radius, shift).epsilon(1e-5)
    assert low <= ours <= high
    assert ours == pytest.approx((low + high) / 2, rel=1e-4)


def partitions(number: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    if number == 0:
        yield ()
    for part in range(min(number, largest or number), 0, -1):
        for rest in partitions(number - part, part):
            yield (part, *rest)


@pytest.mark.parametrize("ratio", [15.0, 80.0])
def test_the_concentrated_pattern_is_the_worst_of_all_partitions(ratio: float) -> None:
    """All partitions of H = 4 for both trajectories of one family, beside the concentrated others; any ε."""
    horizon, radius = 4, ratio * 4
    beside = [(bounded_pld(radius, 4.0), 2), (bounded_pld(radius, 3.0), 2)]

    def curve(ups: tuple[int, ...], downs: tuple[int, ...]) -> list[float]:
        pld = compose([*beside, *((bounded_pld(radius, float(x)), 1) for x in (*ups, *downs))])
        return [pld.delta(epsilon) for epsilon in (0.1, 0.5, 1.0, 2.0)]

    worst = curve((horizon,), (horizon,))
    for ups, downs in itertools.combinations_with_replacement(partitions(horizon), 2):
        for found, bound in zip(curve(ups, downs), worst, strict=True):
            assert found <= bound * (1 + 1e-5)


def test_merging_two_shifts_is_never_better() -> None:
    """The step from which the dominance of the concentrated pattern follows: Lemma S3 (merged shifts)."""
    for first, second in itertools.combinations_with_replacement((0.01, 0.1, 0.4), 2):
        merged = bounded_pld(1.0, first + second)
        parts = bounded_pld(1.0, first).compose(bounded_pld(1.0, second))
        for epsilon in (0.0, 0.02, 0.1, 0.5, 2.0):
            assert parts.delta(epsilon) <= merged.delta(epsilon) * (1 + 1e-5) + 1e-15


@pytest.mark.parametrize(
    ("states", "actions", "horizon", "claimed", "actual"),
    [(2, 2, 2, 0.2, 0.76), (2, 2, 2, 1.0, 7.5), (4, 2, 6, 0.2, 0.50), (4, 2, 6, 1.0, 4.26), (4, 2, 6, 2.0, 14.9)],
)
def test_the_printed_radius_with_constant_one(
    states: int, actions: int, horizon: int, claimed: float, actual: float
) -> None:
    """[garcelon2021local] Alg. 6 with C = 1, δ₀ = 1e-5, per-step ε = claimed/(3H): R₁ and R₂ really give `actual`."""
    step = claimed / (3 * horizon)
    first = math.sqrt(states * actions * math.log(1e5)) / step
    second = states * math.sqrt(actions * math.log(1e5)) / step
    pairs = [(bounded_pld(first, float(horizon)), 4), (bounded_pld(second, float(horizon - 1)), 2)]
    assert compose(pairs).epsilon(1e-5) == pytest.approx(actual, rel=1.2e-2)


def test_refusals() -> None:
    assert bounded_pld(5.0, 0.0).epsilon(0.0) == 0.0
    assert bounded_pld(5.0, 10.0).delta(9.0) == 1.0
    with pytest.raises(InvalidInput, match="use Laplace"):
        least_radius(1.0, 0.0, (1,))
    with pytest.raises(InvalidInput, match="radius"):
        bounded_pld(0.0, 1.0)
    with pytest.raises(InvalidInput, match="at least one shift"):
        least_radius(1.0, 1e-5, (0, 0))
