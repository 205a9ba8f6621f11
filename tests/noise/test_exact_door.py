"""The public samplers accept `SecureNoise` and nothing else, and refuse parameters that are no law."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.noise import exact
from tacit.noise.exact.bits import draw_order, secure_bits
from tacit.randomness import SecureNoise, SimulationNoise

CALLS: dict[str, Callable[[SecureNoise], np.ndarray]] = {
    "bernoulli": lambda noise: exact.bernoulli(10, noise, probability=Fraction(1, 3)),
    "bernoulli_each": lambda noise: exact.bernoulli_each(np.full(10, 0.5), noise),
    "bernoulli_logistic": lambda noise: exact.bernoulli_logistic(10, noise, gamma=1),
    "discrete_gaussian": lambda noise: exact.discrete_gaussian(10, noise, variance=10),
    "discrete_laplace": lambda noise: exact.discrete_laplace(10, noise, scale=10),
    "fair_bits": lambda noise: exact.fair_bits(10, noise),
    "geometric": lambda noise: exact.geometric(10, noise, scale=10),
    "permutation": lambda noise: exact.permutation(10, noise),
    "uniform_integers": lambda noise: exact.uniform_integers(10, noise, below=10),
}
CERTAIN: list[Callable[[SecureNoise], np.ndarray]] = [
    lambda noise: exact.bernoulli(10, noise, probability=1),
    lambda noise: exact.uniform_integers(10, noise, below=1),
    lambda noise: exact.discrete_laplace(0, noise, scale=1),
]


class SeededNoise(SecureNoise):
    """What a well-meaning test would write; it must not get through."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)


SEEDED = [
    np.random.default_rng(0),
    SimulationNoise(np.random.default_rng(0)),
    np.random.RandomState(0),
    random.Random(0),  # noqa: S311
    SeededNoise(),
    SecureNoise,
    None,
    0,
]


def test_every_sampler_is_tried_here() -> None:
    assert sorted(CALLS) == exact.__all__


@pytest.mark.parametrize("noise", SEEDED, ids=lambda noise: type(noise).__name__)
def test_a_seeded_generator_is_a_type_error(noise: object) -> None:
    for call in [*CALLS.values(), *CERTAIN]:
        with pytest.raises(TypeError, match=r"deployment noise needs tacit\.randomness\.SecureNoise"):
            call(noise)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_samplers_return_the_size_asked_for(name: str) -> None:
    assert CALLS[name](SecureNoise()).shape == (10,)


@pytest.mark.parametrize("size", [0, 1, (0, 3), (2, 3), (), (200_000,)])
def test_shapes(size: int | tuple[int, ...]) -> None:
    shape = size if isinstance(size, tuple) else (size,)
    for z in (
        exact.discrete_laplace(size, SecureNoise(), scale=1000),
        exact.discrete_gaussian(size, SecureNoise(), variance=10**7),
        exact.geometric(size, SecureNoise(), scale=3),
        exact.uniform_integers(size, SecureNoise(), below=3),
    ):
        assert z.shape == shape
        assert z.dtype == np.int64


def test_certain_outcomes() -> None:
    noise = SecureNoise()
    assert exact.bernoulli(50, noise, probability=1).all()
    assert not exact.bernoulli(50, noise, probability=0).any()
    assert (exact.discrete_laplace(50, noise, scale=Fraction(1, 1000)) == 0).all()
    assert (exact.discrete_gaussian(50, noise, variance=1e-300) == 0).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda noise: exact.discrete_laplace(1, noise, scale=0),
        lambda noise: exact.discrete_laplace(1, noise, scale=-1),
        lambda noise: exact.discrete_laplace(1, noise, scale=math.nan),
        lambda noise: exact.discrete_laplace(1, noise, scale=math.inf),
        lambda noise: exact.discrete_laplace(1, noise, scale=2**40 + 1),
        lambda noise: exact.discrete_laplace(-1, noise, scale=1),
        lambda noise: exact.discrete_laplace(1.5, noise, scale=1),
        lambda noise: exact.geometric(1, noise, scale=0),
        lambda noise: exact.discrete_gaussian(1, noise, variance=0),
        lambda noise: exact.discrete_gaussian(1, noise, variance=2**80 + 1),
        lambda noise: exact.bernoulli(1, noise, probability=1.5),
        lambda noise: exact.bernoulli(1, noise, probability=math.nan),
        lambda noise: exact.bernoulli_logistic(1, noise, gamma=-1),
        lambda noise: exact.uniform_integers(1, noise, below=0),
        lambda noise: exact.uniform_integers(1, noise, below=2**63 + 1),
        lambda noise: exact.permutation(-1, noise),
        lambda noise: exact.permutation(2**32 + 1, noise),
    ],
)
def test_what_is_no_law_is_refused(call: Callable[[SecureNoise], np.ndarray]) -> None:
    with pytest.raises(InvalidInput):
        call(SecureNoise())


def test_private_probabilities_are_clipped_and_never_raise() -> None:
    values = np.array([[-math.inf, -1.0, 0.0, 5e-324], [1.0, 1.5, math.inf, math.nan]])
    assert exact.bernoulli_each(values, SecureNoise()).tolist() == [[False] * 4, [True, True, True, False]]


def test_all_randomness_comes_from_the_operating_system_and_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def zeros(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    monkeypatch.setattr(os, "urandom", zeros)
    words = secure_bits(SecureNoise())
    for width, bytes_per_100 in [(1, 13), (3, 100), (9, 200), (16, 200), (17, 400), (64, 800)]:
        asked.clear()
        assert not words(100, width).any()
        assert asked == [bytes_per_100]
    # Two equal calls ask for equally many fresh bytes: the first leaves nothing behind for the second.
    totals = []
    for _ in range(2):
        asked.clear()
        exact.fair_bits(3, SecureNoise())
        exact.bernoulli(3, SecureNoise(), probability=Fraction(1, 2))
        totals.append(list(asked))
    assert totals[0] == totals[1] == [1, 6]


def test_an_order_with_ties_is_drawn_again() -> None:
    """Keys that tie would leave the order to the sorting algorithm; short keys show it."""
    keys = [np.array([3, 3, 1], dtype=np.uint64), np.array([5, 0, 2], dtype=np.uint64)]
    assert draw_order(3, lambda count, width: keys.pop(0)).tolist() == [1, 2, 0]
    assert keys == []
