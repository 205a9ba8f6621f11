"""The analytic Gaussian: 60-digit oracle, vectors of another computation, and the sign of every rounding."""

from __future__ import annotations

import math

import mpmath
import pytest

from tacit.accounting.events.gaussian import classical_gaussian_sigma, gaussian_delta, gaussian_epsilon, gaussian_mu
from tacit.errors import InvalidInput

EPSILONS = [1e-3, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-5, 1e-2]


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"), [(1, 1e-6, 0.23670), (1, 1e-5, 0.26805), (0.1, 1e-6, 0.02754), (3, 1e-5, 0.71912)]
)
def test_mu_has_the_published_vectors(epsilon: float, delta: float, mu: float) -> None:
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=6e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_against_eighty_digits_on_the_private_side(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    computed, exact = gaussian_delta(epsilon, mu), exact_delta(epsilon, mu)
    assert exact <= computed <= delta, "rounded to the private side"
    assert computed <= exact * (1 + 1e-10), "and hardly at all"
    assert exact_delta(epsilon, mu * (1 + 1e-9)) > delta, "mu is the largest"
    certified = gaussian_epsilon(delta, mu)
    assert gaussian_delta(certified, mu) <= delta
    assert certified == pytest.approx(epsilon, rel=1e-9)
    assert exact_delta(certified * (1 - 1e-9), mu) > delta * (1 - 1e-8)


def test_the_curve_far_from_the_calibration() -> None:
    for epsilon in (0.0, 1e-3, 1.0, 20.0, 300.0):
        for mu in (1e-3, 0.1, 1.0, 5.0, 40.0):
            exact = exact_delta(epsilon, mu)
            assert exact <= gaussian_delta(epsilon, mu) <= exact * (1 + 1e-9) + 1e-300


def test_the_ends_of_the_range() -> None:
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_mu(1.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 0.1) == math.inf
    assert gaussian_epsilon(1.0, 3.0) == 0.0
    assert gaussian_epsilon(1e-6, 0.0) == 0.0
    assert gaussian_delta(1.0, 1e-300) < 1e-300


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_input_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        gaussian_delta(bad, 1.0)
    with pytest.raises(InvalidInput, match="mu"):
        gaussian_epsilon(1e-6, bad)
    with pytest.raises(InvalidInput, match="delta"):
        gaussian_mu(1.0, bad)


@pytest.mark.parametrize(("delta", "first_violated"), [(1e-3, 7.47), (1e-5, 8.43), (1e-6, 8.79), (1e-8, 9.38)])
def test_the_classical_formula_is_sound_up_to_a_point(delta: float, first_violated: float) -> None:
    """[he2025policy] states no restriction on epsilon; the printed formula fails above these values."""
    below, above = first_violated - 0.02, first_violated + 0.02
    assert gaussian_epsilon(delta, 1 / classical_gaussian_sigma(below, delta)) <= below
    assert gaussian_epsilon(delta, 1 / classical_gaussian_sigma(above, delta)) > above


def test_the_classical_formula_at_the_reference_instance() -> None:
    assert gaussian_epsilon(1e-5, 1 / classical_gaussian_sigma(1.0, 1e-5)) == pytest.approx(0.751, abs=5e-4)
    assert gaussian_epsilon(1e-5, 1 / classical_gaussian_sigma(10.0, 1e-5)) == pytest.approx(10.39, abs=5e-3)
    assert gaussian_epsilon(1e-5, 1 / classical_gaussian_sigma(20.0, 1e-5)) == pytest.approx(25.4, abs=5e-2)
    assert 1 / gaussian_mu(1.0, 1e-5) == pytest.approx(3.731, abs=1e-3)
    for epsilon, ratio in [(0.1, 0.635), (0.5, 0.726), (1, 0.770), (2, 0.823), (3, 0.861), (5, 0.920)]:
        tight = 1 / gaussian_mu(epsilon, 1e-5)
        assert tight / classical_gaussian_sigma(epsilon, 1e-5) == pytest.approx(ratio, abs=6e-4)


@pytest.mark.parametrize(
    ("horizon", "delta", "claimed", "actual"),
    [
        (1, 1e-5, 1.0, 0.971),
        (2, 1e-5, 1.0, 1.036),
        (6, 1e-5, 1.0, 1.144),
        (20, 1e-5, 1.0, 1.191),
        (1, 1e-6, 1.0, 1.027),
        (20, 1e-6, 1.0, 1.256),
        (6, 1e-6, 0.2, 0.215),
    ],
)
def test_garcelon_gaussian_with_c_squared(horizon: int, delta: float, claimed: float, actual: float) -> None:
    """[garcelon2021local] Prop. 11: σ = cH/ε₀ with c² = 4 ln(24/δ₀) does not deliver ε₀."""
    sigma = math.sqrt(4 * math.log(24 / delta)) * horizon / claimed
    mu = math.sqrt(4 * horizon**2 + 2 * (horizon - 1) ** 2) / sigma
    assert gaussian_epsilon(delta, mu) == pytest.approx(actual, abs=6e-4)
