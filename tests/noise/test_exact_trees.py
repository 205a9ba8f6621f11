"""The samplers' cores on *every* string of random bits: exact probabilities, no statistics.

The cores take words of any width, so the code that runs on 64-bit words in a deployment is enumerated here with words
of a few bits. For every outcome the law's exact value must lie between the probability already decided and that plus
the probability of the paths still undecided at the depth of the tree.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import slow_exact_samplers as slow
from slow_exact_samplers import PathBits, Tree, tree

from tacit.noise.exact import blocks
from tacit.noise.exact.bits import draw_below, draw_order
from tacit.noise.exact.blocks import GaussianBlocks, GeometricBlocks, draw_magnitudes, draw_symmetric, propose
from tacit.noise.exact.inversion import LogisticCoin, RationalCoin, draw_coins, draw_each, exp_enclosure

Exact = Callable[[int], mpmath.mpf]
F = Fraction


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def laplace(scale: Fraction) -> Exact:
    r = mpmath.exp(-1 / real(scale))
    return lambda z: (1 - r) / (1 + r) * r ** abs(z)


def geometric(scale: Fraction) -> Exact:
    r = mpmath.exp(-1 / real(scale))
    return lambda k: (1 - r) * r**k if k >= 0 else mpmath.mpf(0)


def gaussian(variance: Fraction) -> Exact:
    q = mpmath.exp(-1 / (2 * real(variance)))
    total = mpmath.jtheta(3, 0, q)  # Σ_z q^(z²)
    return lambda z: q ** (z * z) / total


def coin(p: mpmath.mpf) -> Exact:
    return lambda x: {0: 1 - p, 1: p}.get(x, mpmath.mpf(0))


def fits(found: Tree, exact: Exact, outcomes: range) -> bool:
    """decided ≤ exact ≤ decided + undecided for each outcome, and nothing outside its support was decided."""
    low = {z: real(found.decided.get(z, F(0))) for z in outcomes}
    slack = mpmath.mpf(10) ** -40
    inside = all(low[z] - slack <= exact(z) <= low[z] + real(found.undecided) + slack for z in outcomes)
    beyond = all(real(mass) <= exact(z) + slack for z, mass in found.decided.items() if isinstance(z, int))
    return inside and beyond


@pytest.fixture(autouse=True)
def precise() -> None:
    mpmath.mp.dps = 60


def one(draw: Callable[..., np.ndarray], *arguments: object, width: int) -> Callable[[PathBits], int]:
    return lambda bits: int(draw(*arguments, 1, bits, width=width)[0])


CASES = [
    ("coin 1/3", one(draw_coins, RationalCoin(F(1, 3)), width=2), coin(real(F(1, 3)))),
    ("coin 5/8", one(draw_coins, RationalCoin(F(5, 8)), width=2), coin(real(F(5, 8)))),
    ("coin 999/1000", one(draw_coins, RationalCoin(F(999, 1000)), width=3), coin(real(F(999, 1000)))),
    ("logistic 1", one(draw_coins, LogisticCoin(F(1)), width=2), coin(1 / (1 + mpmath.e))),
    ("geometric 3/2", one(draw_magnitudes, GeometricBlocks(F(3, 2), 0), width=3), geometric(F(3, 2))),
    ("geometric 3/2, blocks of 4", one(draw_magnitudes, GeometricBlocks(F(3, 2), 2), width=2), geometric(F(3, 2))),
    ("Laplace 2/3", one(draw_symmetric, GeometricBlocks(F(2, 3), 0), width=3), laplace(F(2, 3))),
    ("Laplace 2, blocks of 2", one(draw_symmetric, GeometricBlocks(F(2), 1), width=2), laplace(F(2))),
    ("Gaussian 1", one(draw_symmetric, GaussianBlocks(F(1), 0), width=3), gaussian(F(1))),
    ("Gaussian 7/3, blocks of 2", one(draw_symmetric, GaussianBlocks(F(7, 3), 1), width=2), gaussian(F(7, 3))),
]


@pytest.mark.parametrize(("name", "sampler", "exact"), CASES, ids=[name for name, *_ in CASES])
def test_every_bit_string(name: str, sampler: Callable[[PathBits], Hashable], exact: Exact) -> None:
    found = tree(sampler, depth=12)
    # Samplers that may start again leave more undecided here; their single rounds are enumerated below.
    again = "blocks" in name or "Laplace" in name or "Gaussian" in name
    assert found.undecided < (F(1, 2) if again else F(1, 100))
    assert fits(found, exact, range(-12, 13))
    assert sum(found.decided.values()) + found.undecided == 1


ROUNDS = [GeometricBlocks(F(3, 2), 2), GeometricBlocks(F(2), 1), GaussianBlocks(F(7, 3), 1), GaussianBlocks(F(40), 2)]


@pytest.mark.parametrize("law", ROUNDS, ids=str)
@pytest.mark.parametrize("width", [1, 2])
def test_one_round_of_block_rejection(law: GeometricBlocks | GaussianBlocks, width: int) -> None:
    """P(n is proposed and kept) = e^-γ(n) / (m·Σ_a e^-γ(m·a)), proportional to the law: starting again is exact."""

    def kept(bits: PathBits) -> int | None:
        n, keep = propose(law, 1, bits, width)
        return int(n[0]) if keep[0] else None

    m = 1 << law.shift
    total = m * sum(mpmath.exp(-real(law.exponent(m * a))) for a in range(300))
    found = tree(kept, depth=15)
    assert found.undecided < F(1, 50)
    assert fits(found, lambda n: mpmath.exp(-real(law.exponent(n))) / total, range(13))


def test_wide_enclosures_cost_bits_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactness rests on the enclosures being true, not on their being narrow."""

    def wide(gamma: Fraction, bits: int) -> tuple[int, int]:
        lower, upper = exp_enclosure(gamma, bits)
        return max(0, lower - 3), upper + 3

    monkeypatch.setattr(blocks, "exp_enclosure", wide)
    found = tree(lambda bits: int(blocks._below_exp(F(2, 3), int(bits(1, 4)[0]), bits, 4)), depth=16)
    assert 0 < found.undecided < F(1, 1000)
    assert fits(found, coin(mpmath.exp(-real(F(2, 3)))), range(-1, 3))
    law = GaussianBlocks(F(11, 3), 1)
    found = tree(one(draw_magnitudes, law, width=4), depth=12)
    total = mpmath.nsum(lambda n: mpmath.exp(-(n**2) / (2 * real(law.variance))), [0, mpmath.inf])
    assert fits(found, lambda n: mpmath.exp(-real(law.exponent(n))) / total if n >= 0 else mpmath.mpf(0), range(12))


@pytest.mark.parametrize("wrong", [F(15, 8), F(6, 5)], ids=["25% wide", "20% narrow"])
def test_the_tree_sees_a_wrong_scale(wrong: Fraction) -> None:
    found = tree(one(draw_symmetric, GeometricBlocks(wrong, 0), width=3), depth=12)
    assert not fits(found, laplace(F(3, 2)), range(-12, 13))


def test_dyadic_laws_are_decided_completely() -> None:
    found = tree(one(draw_coins, RationalCoin(F(5, 8)), width=3), depth=3)
    assert found == Tree({1: F(5, 8), 0: F(3, 8)}, F(0))


def test_a_double_is_its_own_probability() -> None:
    # 0.1 is not 1/10; 2^-5 + 2^-7 ends exactly at the second word.
    for p in (0.1, 0.7, 2.0**-5 + 2.0**-7):
        found = tree(lambda bits, p=p: int(draw_each(np.array([p]), bits, width=4)[0]), depth=16)
        assert found.undecided <= F(1, 2**16)
        assert fits(found, coin(real(F(p))), range(2))


def test_the_work_of_a_coin_does_not_depend_on_its_probability() -> None:
    """How many words a coin takes has one law, whatever p is: 0, 1, a fraction that ends, one that does not, NaN."""

    def words(p: float) -> Tree:
        def run(bits: PathBits) -> int:
            draw_each(np.array([p]), bits, width=2)
            return bits.used

        return tree(run, depth=10)

    assert words(0.3) == Tree({2 * k: F(3, 4**k) for k in range(1, 6)}, F(1, 4**5))
    assert all(words(p) == words(0.3) for p in (0.0, 1.0, 0.5, 0.75, 2.0**-40, -3.0, 7.0, np.inf, np.nan))


def test_certain_coins_are_certain() -> None:
    for p, certain in ((0.0, 0), (1.0, 1)):
        found = tree(lambda bits, p=p: int(draw_each(np.array([p]), bits, width=2)[0]), depth=10)
        assert found == Tree({certain: 1 - F(1, 4**5)}, F(1, 4**5))


def test_lanes_are_independent() -> None:
    def pair(bits: PathBits) -> tuple[int, ...]:
        return tuple(draw_magnitudes(GeometricBlocks(F(1), 0), 2, bits, width=2).tolist())

    found = tree(pair, depth=14)
    law = geometric(F(1))
    assert found.undecided < F(1, 20)
    for x in range(4):
        for y in range(4):
            low = real(found.decided.get((x, y), F(0)))
            assert low <= law(x) * law(y) <= low + real(found.undecided)


@pytest.mark.parametrize("below", [1, 2, 3, 5, 8])
def test_uniform_integers_have_no_modulo_bias(below: int) -> None:
    found = tree(lambda bits: int(draw_below(below, 1, bits)[0]), depth=15)
    assert len(set(found.decided.values())) == 1
    assert len(found.decided) == below
    assert found.undecided < F(1, 100)


def test_every_order_is_equally_likely() -> None:
    found = tree(lambda bits: tuple(draw_order(3, bits, width=2).tolist()), depth=12)
    assert len(found.decided) == math.factorial(3)
    assert len(set(found.decided.values())) == 1
    assert found.undecided < F(1, 2)


TWINS = [
    ("exp", lambda bits: slow.bernoulli_exp(F(2, 3), bits.bit), coin(mpmath.exp(-real(F(2, 3))))),
    ("Laplace", lambda bits: slow.discrete_laplace(F(1, 2), bits.bit), laplace(F(1, 2))),
    ("Gaussian", lambda bits: slow.discrete_gaussian(F(1, 2), bits.bit), gaussian(F(1, 2))),
]


@pytest.mark.parametrize(("name", "sampler", "exact"), TWINS, ids=[name for name, *_ in TWINS])
def test_the_slow_twins_have_the_same_laws(name: str, sampler: Callable[[PathBits], Hashable], exact: Exact) -> None:
    found = tree(sampler, depth=12)
    assert found.undecided < F(1, 2)
    assert fits(found, exact, range(-8, 9))
