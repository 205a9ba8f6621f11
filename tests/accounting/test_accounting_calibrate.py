"""Calibration: the least noise, on the private side; a little less noise is no longer private."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.accounting.calibrate import calibrate, events_of, least_noise
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation
from tacit.noise.binomial import Binomial
from tacit.noise.bounded import Bounded
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.unary_encoding import UnaryEncoding

STEPS = (Family(name="visits", up=6, down=6, shift=1.0), Family(name="transitions", up=5, down=5, shift=1.0))
CELLS = (Family(name="visits", up=1, down=1, shift=2.0),)

LESS = 1.0 - 1e-4
CASES: list[tuple[type[Any], tuple[Family, ...], float, float, Any]] = [
    (Laplace, STEPS, 1.0, 0.0, lambda m: Laplace(scale=m.scale * LESS, discrete=False)),
    (Laplace, STEPS, 1.0, 1e-6, lambda m: Laplace(scale=m.scale * LESS, discrete=False)),
    (Gaussian, STEPS, 1.0, 1e-6, lambda m: Gaussian(sigma=m.sigma * LESS)),
    (Gaussian, CELLS, 8.0, 1e-9, lambda m: Gaussian(sigma=m.sigma * LESS)),
    (RandomizedResponse, STEPS, 1.0, 0.0, lambda m: RandomizedResponse(epsilon=m.epsilon / LESS)),
    (RandomizedResponse, CELLS, 2.0, 1e-5, lambda m: RandomizedResponse(epsilon=m.epsilon / LESS)),
    (UnaryEncoding, (*CELLS[:0], Family(name="slot", up=1, down=1, shift=1.0)), 1.0, 0.0,
     lambda m: UnaryEncoding(epsilon=m.epsilon / LESS, slots=1, feeding=1)),
    (Bounded, CELLS, 4.0, 1e-3, lambda m: Bounded(limit=m.limit * LESS)),
    (Binomial, STEPS, 1.0, 1e-6, lambda m: Binomial(bits=m.bits - 2, probability=0.5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "families", "epsilon", "delta", "less"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_calibration_rounds_to_the_private_side(
    mechanism: type[Any], families: tuple[Family, ...], epsilon: float, delta: float, less: Any
) -> None:
    found = calibrate(mechanism, families, epsilon=epsilon, delta=delta)
    assert epsilon_of(events_of(found, families), delta) <= epsilon
    assert epsilon_of(events_of(less(found), families), delta) > epsilon


def test_closed_formulas_come_out_exactly() -> None:
    assert calibrate(Laplace, STEPS, epsilon=0.5, delta=0.0).scale == 44.0  # Δ₁/ε = 22/0.5
    assert calibrate(RandomizedResponse, STEPS, epsilon=1.0, delta=0.0).epsilon == pytest.approx(1 / 22, rel=1e-12)
    slot = (Family(name="slot", up=1, down=1, shift=1.0),)
    assert calibrate(UnaryEncoding, slot, epsilon=1.0, delta=0.0).epsilon == 1.0
    # μ(1, 1e-6) = .23670, σ = Δ₂/μ: Lemma P5 (Gaussian curve)
    assert calibrate(Gaussian, STEPS, epsilon=1.0, delta=1e-6).sigma == pytest.approx(math.sqrt(22) / 0.23670, rel=1e-4)


def test_calibrations_are_cached() -> None:
    first = calibrate(Binomial, STEPS, epsilon=1.0, delta=1e-6)
    assert calibrate(Binomial, list(STEPS), epsilon=1, delta=1e-6) is first


@pytest.mark.parametrize("mechanism", [Gaussian, Bounded, Binomial])
def test_what_cannot_be_pure_says_so_and_names_what_can(mechanism: type[Any]) -> None:
    with pytest.raises(NotSupported, match="laplace"):
        calibrate(mechanism, (Family(name="visits", up=2, down=2, shift=1.0),), epsilon=1.0, delta=0.0)
    with pytest.raises(NotSupported, match="laplace"):
        least_noise(lambda sigma: Gaussian(sigma=sigma), CELLS, epsilon=1.0, delta=0.0, enough=1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0), (math.inf, 0.0), (1.0, -1e-9), (1.0, math.nan)]
)
def test_bad_targets_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidInput):
        calibrate(Laplace, STEPS, epsilon=epsilon, delta=delta)


def test_nothing_to_release_and_wrong_shifts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="released"):
        calibrate(Laplace, (), epsilon=1.0, delta=0.0)
    for mechanism in (Binomial, UnaryEncoding):
        with pytest.raises(InvalidInput):
            calibrate(mechanism, CELLS, epsilon=1.0, delta=1e-6)


def test_a_mechanism_that_lies_about_its_calibration_is_caught() -> None:
    class Halved(Laplace):
        @classmethod
        def calibrate(cls, families: Any, epsilon: float, delta: float, *, discrete: bool = False) -> Any:
            honest = Laplace.calibrate(families, epsilon, delta)
            return Laplace(scale=honest.scale / 2, discrete=discrete)

    with pytest.raises(PrivacyViolation, match="certifies 2"):
        calibrate(Halved, STEPS, epsilon=1.0, delta=0.0)
