"""Factorization counters: norms against exact arithmetic, the stream against linear algebra, reference numbers."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, optimize
from slow_counters import factorization_lower_bound, optimise_rates

from papers.square_root import SquareRootFactorization, square_root_coefficients, square_root_norm
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import GaussianEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded
from tacit.noise.continual import factorization as factorization_stream
from tacit.noise.continual.counter import allocate_gaussian, gaussian_shares, sample_path
from tacit.noise.continual.factorization import (
    BufferedToeplitz,
    buffer_weights,
    buffered_rates,
    noise_norm,
    strategy_norm,
)
from tacit.randomness import SecureNoise, SimulationNoise

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

from counter_checks import covariance_misfit, impulse_response
from slow_counters import buffered_columns, prefix_matrix, square_root_path

ONE = Family(name="count", up=1, down=0, shift=1.0)
P = Family(name="P", up=6, down=6, shift=1.0)
LOSS = Family(name="loss", up=42, down=0, shift=1.0)
BOTH = [SquareRootFactorization, BufferedToeplitz]


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def exact_matrices(counter: BufferedToeplitz) -> tuple[np.ndarray, np.ndarray]:
    """B and C = B⁻¹A for the very floats that the kernel multiplies with, in rational arithmetic."""
    b, c = buffered_columns(counter.params.rates, counter.params.weights, counter.steps)
    zeros = np.zeros(counter.steps)
    return tuple(linalg.toeplitz([float(value) for value in column], zeros) for column in (b, c))


@pytest.mark.parametrize("K", [1, 2, 30])
def test_buffered_toeplitz_g1_exposure_is_the_norm_of_its_own_c(K: int) -> None:
    counter = BufferedToeplitz.for_steps(K, 2.0)
    b, c = buffered_columns(counter.params.rates, counter.params.weights, K)
    assert all(sum(b[i] * c[k - i] for i in range(k + 1)) == 1 for k in range(K))  # B C = A, exactly
    norm = sum(value**2 for value in c)
    assert norm <= Fraction(counter.sensitivity) ** 2 <= norm * (1 + Fraction(1, 10**9))
    ((event, count),) = counter.events(P)
    assert (event, count) == (GaussianEvent(sigma=2.0, shift=counter.sensitivity), 12)


@pytest.mark.parametrize("K", [5000])
def test_buffered_toeplitz_g1_and_g2_norms_in_fifty_digits(K: int) -> None:
    counter = BufferedToeplitz.for_steps(K, 1.0)
    with mpmath.workdps(50):
        b, c = buffered_columns(counter.params.rates, counter.params.weights, K, number=mpmath.mpf)
        noise, strategy = (sum(value**2 for value in column) for column in (b, c))
        assert strategy <= mpmath.mpf(counter.sensitivity) ** 2 <= strategy * (1 + mpmath.mpf("1e-9"))
        assert counter.norm_at(K) == pytest.approx(float(noise), rel=1e-12)


@given(
    gaps=st.lists(st.floats(0.05, 3.0), min_size=2, max_size=10).filter(lambda g: len(g) % 2 == 0), K=st.integers(1, 60)
)
@settings(deadline=None, max_examples=40)
def test_norms_hold_for_any_interlacing_rates(gaps: list[float], K: int) -> None:
    """Privacy does not depend on how good the rates are: the certified norm is that of whatever C they have."""
    rates = np.exp(-np.cumsum(gaps)[::-1])
    poles, zeros = tuple(map(float, rates[0::2])), tuple(map(float, rates[1::2]))
    b, c = buffered_columns(poles, buffer_weights(poles, zeros), K, number=mpmath.mpf)
    assert noise_norm(poles, zeros, K) == pytest.approx(float(sum(x**2 for x in b)), rel=1e-9)
    assert strategy_norm(poles, zeros, K) == pytest.approx(float(sum(x**2 for x in c)), rel=1e-9)


def test_the_square_root_sensitivity_would_be_too_small_for_other_rates() -> None:
    """Broken twin: certify a buffered stream with g = Σ c_j² of the square root."""
    poles, zeros = (0.05,), (0.3,)
    counter = BufferedToeplitz(steps=1000, sigma=1.0, poles=poles, zeros=zeros)
    assert counter.sensitivity**2 > 1.5 * square_root_norm(1000)


@pytest.mark.parametrize("K", [1, 7, 60])
def test_buffered_toeplitz_g4_the_stream_is_the_matrix_b(K: int) -> None:
    counter = BufferedToeplitz.for_steps(K, 1.0)
    B, C = exact_matrices(counter)
    streamed = impulse_response(counter, K)
    np.testing.assert_allclose(streamed, B, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(streamed @ streamed.T, B @ B.T, rtol=1e-12)
    np.testing.assert_allclose(B @ C, prefix_matrix(K), rtol=1e-12, atol=1e-12)
    variances = [counter.variance_at(k) for k in range(1, K + 1)]
    np.testing.assert_allclose(np.diag(B @ B.T), variances, rtol=1e-12)  # G2
    # Nothing leaks from the future, and the inverse exists: the transcript is as good as C x + z.
    assert np.array_equal(streamed, np.tril(streamed))
    assert np.array_equal(np.diag(streamed), np.ones(K))


@pytest.mark.statistical
def test_buffered_toeplitz_g2_error_of_the_seeded_stream() -> None:
    """False alarms below 1e-5 (largest of 36 z-scores under 5.5); a scale 25% off, or redrawn noise, is rejected."""
    counter = BufferedToeplitz.for_steps(8, 3.0)
    B, _ = exact_matrices(counter)
    path = sample_path(counter, 40_000, seeded(1))
    assert covariance_misfit(path, 9.0 * B @ B.T) < 5.5
    assert covariance_misfit(1.25 * path, 9.0 * B @ B.T) > 5.5
    redrawn = np.concatenate([sample_path(counter, 40_000, seeded(10 + k))[k : k + 1] for k in range(8)])
    assert covariance_misfit(redrawn, 9.0 * B @ B.T) > 5.5


def test_square_root_factorization_g1_exposure() -> None:
    c = square_root_coefficients(300)
    C = linalg.toeplitz(c, np.zeros(300))
    np.testing.assert_allclose(C @ C, prefix_matrix(300), rtol=1e-12, atol=1e-12)
    counter = SquareRootFactorization(steps=300, sigma=2.0)
    norm = np.linalg.norm(C, axis=0).max()
    assert norm <= counter.sensitivity <= norm * (1 + 1e-9)
    assert counter.events(P) == ((GaussianEvent(sigma=2.0, shift=counter.sensitivity), 12),)


@pytest.mark.parametrize("K", [1, 2, 999, 1000, 1001, 20_000, 10**6])
def test_square_root_norm_in_constant_time_is_the_sum(K: int) -> None:
    assert square_root_norm(K) == pytest.approx(math.fsum(square_root_coefficients(K) ** 2), rel=1e-12)


def test_square_root_factorization_g2_path_and_error() -> None:
    K, d = 50, 3
    counter = SquareRootFactorization(steps=K, sigma=2.0)
    z = 2.0 * np.random.default_rng(5).standard_normal((K, d))
    np.testing.assert_allclose(counter.sample_path(d, seeded(5)), square_root_path(z), rtol=1e-10, atol=1e-12)
    c = square_root_coefficients(K)
    assert [counter.variance_at(k) for k in (1, 2, K)] == pytest.approx([4.0, 4.0 * 1.25, 4.0 * (c @ c)])
    with pytest.raises(TypeError):
        counter.sample_path(d, SecureNoise())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", BOTH)
def test_factorizations_g3_radius(kind: type[SquareRootFactorization | BufferedToeplitz]) -> None:
    counter = kind.for_steps(500, 2.0)
    assert counter.radius(math.erfc(3 / math.sqrt(2)), terms=4) == pytest.approx(3 * 2 * counter.max_std)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-5)])
def test_factorizations_g4_and_g5_calibration_is_private_and_least(
    kind: type[SquareRootFactorization | BufferedToeplitz], epsilon: float, delta: float
) -> None:
    counter = kind.calibrate([P, LOSS], epsilon, delta, 1000)
    assert epsilon_of(counter.events(P) + counter.events(LOSS), delta) <= epsilon
    less = kind.for_steps(1000, 0.999 * counter.sigma)
    assert epsilon_of(less.events(P) + less.events(LOSS), delta) > epsilon
    with pytest.raises(NotSupported, match="KaryTree"):
        kind.calibrate([P], 1.0, 0.0, 1000)


def test_reference_numbers() -> None:
    """Lemma C3 (square root), Lemma C4 (no better factorization), Lemma C8 (allocation): their numbers at (1, 1e-6)."""
    assert [round(square_root_norm(K), 3) for K in (1000, 10_000, 100_000)] == [3.265, 3.998, 4.731]
    mu = gaussian_mu(1.0, 1e-6)
    exact = SquareRootFactorization.calibrate([ONE], 1.0, 1e-6, 20_000).max_std
    stream = BufferedToeplitz.calibrate([ONE], 1.0, 1e-6, 20_000).max_std
    assert (round(exact, 1), round(stream, 1)) == (17.8, 17.9)
    assert round(factorization_lower_bound(20_000) / mu, 1) == 16.3
    full = allocate_gaussian([P, LOSS], [1.0, 1.0], 1.0, 1e-6, 10_000, SquareRootFactorization)
    assert [part.max_std for part in full] == pytest.approx([99.1, 135.6], abs=0.05)
    (counts,) = allocate_gaussian([P], [1.0], 1.0, 1e-6, 10_000, SquareRootFactorization)
    assert counts.max_std == pytest.approx(58.5, abs=0.05)
    streamed = allocate_gaussian([P, LOSS], [1.0, 1.0], 1.0, 1e-6, 10_000, BufferedToeplitz)
    assert [part.max_std for part in streamed] == pytest.approx([99.25, 135.8], abs=0.05)
    assert streamed[0].max_std <= 100.0
    # The same allocation on a Gaussian tree: 14 levels, 14 terms.
    tree = [math.sqrt(14) * sigma for sigma in gaussian_shares([P, LOSS], [1.0, 1.0], mu / math.sqrt(14))]
    assert tree == pytest.approx([347, 475], abs=0.5)


def test_lower_bound_is_the_nuclear_norm() -> None:
    A = prefix_matrix(40)
    assert factorization_lower_bound(40) == pytest.approx(np.linalg.norm(A, "nuc") / 40)
    assert factorization_lower_bound(40) < square_root_norm(40)


def test_allocation_is_private_and_optimal() -> None:
    families, weights = [P, LOSS, ONE], [1.0, 0.25, 5.0]
    split = allocate_gaussian(families, weights, 1.0, 1e-6, 1000, BufferedToeplitz)
    events = tuple(pair for counter, family in zip(split, families, strict=True) for pair in counter.events(family))
    assert 1.0 - 1e-6 < epsilon_of(events, 1e-6) <= 1.0
    d2 = np.array([family.l2_squared for family in families])
    mu = gaussian_mu(1.0, 1e-6) / split[0].sensitivity
    oracle = optimize.minimize(  # over the shares of μ²
        lambda v: np.dot(weights, d2 * np.exp(v).sum() / np.exp(v)) / mu**2, np.zeros(3), tol=1e-12
    )
    assert np.dot(weights, [counter.sigma**2 for counter in split]) == pytest.approx(oracle.fun, rel=1e-6)


def error(rates, K: int) -> float:
    return math.sqrt(noise_norm(*rates, K) * strategy_norm(*rates, K))


def test_one_entry_of_the_table_can_be_regenerated() -> None:
    found = optimise_rates(10**4, 4)
    assert np.ravel(found) == pytest.approx(np.ravel(buffered_rates(10**4)), rel=0.02)
    assert error(buffered_rates(10**4), 10**4) == pytest.approx(error(found, 10**4), rel=1e-5)


@pytest.mark.parametrize(
    ("K", "excess"), [(10, 1.0001), (100, 1.0001), (1000, 1.0002), (20_000, 1.0022), (10**6, 1.016), (10**7, 1.033)]
)
def test_four_buffers_are_close_to_the_square_root(K: int, excess: float) -> None:
    assert 1.0 <= error(buffered_rates(K), K) / square_root_norm(K) < excess


def test_bad_rates_are_refused() -> None:
    for poles, zeros in [((0.2, 0.1), (0.3, 0.4)), ((0.1,), (0.1,)), ((0.1,), (1.1,)), ((0.0,), (0.1,)), ((0.1,), ())]:
        with pytest.raises(InvalidInput):
            BufferedToeplitz(steps=5, sigma=1.0, poles=poles, zeros=zeros)
    with pytest.raises(InvalidInput):
        BufferedToeplitz.for_steps(5, math.nan)
    with pytest.raises(InvalidInput):
        BufferedToeplitz.for_steps(5, 1.0).std_at(6)


def test_the_budget_ends() -> None:
    counter = BufferedToeplitz.for_steps(3, 1.0)
    state, generator = counter.begin(2), np.random.default_rng(1)
    for _ in range(3):
        counter.step(counter.params, state, generator)
    with pytest.raises(PrivacyBudgetExceeded):
        counter.step(counter.params, state, generator)


def test_memory_does_not_depend_on_the_number_of_steps() -> None:
    sizes = {sum(part.nbytes for part in BufferedToeplitz.for_steps(K, 1.0).begin(288)) for K in (10**3, 10**8)}
    assert sizes == {8 * (1 + 288 * (4 + 1 + 1))}


def test_interpreted_and_compiled_streams_agree_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = BufferedToeplitz.for_steps(150, 7.3)
    path = sample_path(counter, 9, seeded(4))
    monkeypatch.setattr(factorization_stream, "buffered_advance", factorization_stream.buffered_advance.py_func)
    state, generator = counter.begin(9), np.random.default_rng(4)
    for row in path:
        counter.step.py_func(counter.params, state, generator)  # type: ignore[attr-defined]
        assert np.array_equal(state.noise, row)
