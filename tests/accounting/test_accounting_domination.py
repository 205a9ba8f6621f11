"""Lattice domination (Lemmas P15, P16): the exact curve, another implementation, small vectors, planted mistakes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutants.lattice import LATTICE_BUGS
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import BinomialEvent, LatticeEvent, MirroredEvent
from tacit.accounting.events.gaussian import gaussian_delta
from tacit.accounting.events.lattice import LatticeLaw, _law, gaussian_mu_of_shift, steepest
from tacit.audit.attack import Target, attack
from tacit.errors import InvalidInput, NotSupported

D = 1e-12
EPSILONS = (0.0, 0.01, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)


def share(law: LatticeLaw, deviation: float, shift: int = 1) -> float:
    """The deviation of the dominating Gaussian, as a share of that of the noise."""
    return shift / gaussian_mu_of_shift(law, shift, D) / deviation


@pytest.mark.parametrize(
    ("bits", "probability", "mirrored", "printed"),
    [
        (808, 0.01, True, 0.990),
        (7891, 0.01, True, 0.999),
        (64, 0.5, False, 0.807),
        (625, 0.5, False, 0.987),
        (1736, 0.1, False, 0.857),
        (6944, 0.1, False, 0.936),
        (27778, 0.1, False, 0.970),
    ],
)
def test_the_table_of_the_lemma(bits: int, probability: float, mirrored: bool, printed: float) -> None:
    deviation = math.sqrt((1 + mirrored) * bits * probability * (1 - probability))
    assert share(_law(bits, probability, mirrored), deviation) == pytest.approx(printed, abs=6e-4)


def test_less_likely_mirrored_bits_are_the_worst_of_the_table() -> None:
    for probability in (0.1, 0.05, 0.02, 0.01):
        bits = round(8.0 / (probability * (1 - probability)))
        deviation = math.sqrt(2 * bits * probability * (1 - probability))
        assert 0.989 < share(_law(bits, probability, True), deviation) < 0.995


@pytest.mark.parametrize("sigma", [0.5, 0.6, 0.7, 1.0, 2.0, 5.0, 10.0])
def test_the_discrete_gaussian_loses_a_twelfth_of_variance(sigma: float) -> None:
    law = LatticeLaw.discrete_gaussian(sigma)
    lost = [sigma**2 - (c / gaussian_mu_of_shift(law, c, D)) ** 2 for c in (1, 2, 5)]
    assert max(lost) == lost[0] < 0.09


def curve(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The exact delta, the worse order."""
    gamma = math.exp(epsilon)
    return max(math.fsum(np.maximum(a - gamma * b, 0.0)) for a, b in ((p, q), (q, p)))


def pair(law: LatticeLaw, shift: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.zeros(shift)
    return np.concatenate([law.mass, ends]), np.concatenate([ends, law.mass])


LAWS = {
    "64 fair": LatticeLaw.of_bits(64, 0.5),
    "1000 fair": LatticeLaw.of_bits(1000, 0.5),
    "400 of 0.1": LatticeLaw.of_bits(400, 0.1),
    "90 of 0.4": LatticeLaw.of_bits(90, 0.4),
    "mirrored 808 of 0.01": _law(808, 0.01, True),
    "mirrored 89 of 0.1": _law(89, 0.1, True),
    "discrete Gaussian 0.6": LatticeLaw.discrete_gaussian(0.6),
    "discrete Gaussian 3": LatticeLaw.discrete_gaussian(3.0),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("slack", [1e-12, 1e-6, 1e-3])
def test_the_gaussian_dominates_at_every_epsilon(name: str, shift: int, slack: float) -> None:
    p, q = pair(LAWS[name], shift)
    mu = gaussian_mu_of_shift(LAWS[name], shift, slack)
    if math.isinf(mu):
        ends = LAWS[name].mass
        assert max(ends[:shift].sum(), ends[-shift:].sum()) > slack * (1 - 1e-9)
        return
    for epsilon in EPSILONS:
        # masses are right to about 1e-12 of themselves
        assert curve(p, q, epsilon) <= slack + (1 - slack) * gaussian_delta(epsilon, mu) + 1e-12 * slack + 1e-17


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("slack", [1e-9, 1e-4])
def test_no_smaller_gaussian_dominates(name: str, slack: float) -> None:
    """Where a vertex touches, the tangent's slope is the odds at which a smaller mu fails."""
    mu = gaussian_mu_of_shift(LAWS[name], 1, slack)
    if math.isinf(mu):
        return
    p, q = pair(LAWS[name], 1)
    less = 0.999 * mu
    epsilons = np.linspace(0.0, 12.0, 4801)
    assert any(curve(p, q, e) > slack + (1 - slack) * gaussian_delta(float(e), less) * (1 + 1e-9) for e in epsilons)


def slow_mu(masses: list[Fraction], shift: int, slack: Fraction) -> mpmath.mpf:
    """Every vertex in both orders, in exact fractions and fifty digits."""
    with mpmath.workdps(50):

        def quantile(p: Fraction) -> mpmath.mpf:
            return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p.numerator) / p.denominator - 1)

        worst = mpmath.mpf(0)
        for k in range(len(masses) + shift + 1):
            alpha, beta = sum(masses[k:], Fraction(0)), sum(masses[: max(0, k - shift)], Fraction(0))
            for first, second in ((alpha, beta), (beta, alpha)):
                a, b = first / (1 - slack), second / (1 - slack)
                if a >= 1 or b >= 1:
                    continue
                if 0 in (a, b):
                    return mpmath.inf
                worst = max(worst, -quantile(a) - quantile(b))
        return worst


@given(st.integers(1, 24), st.fractions(Fraction(1, 50), Fraction(49, 50)), st.integers(1, 6), st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_another_implementation_agrees(bits: int, probability: Fraction, shift: int, digits: int) -> None:
    p = Fraction(float(probability))
    masses = [math.comb(bits, k) * p**k * (1 - p) ** (bits - k) for k in range(bits + 1)]
    slack = Fraction(float(10.0**-digits))
    exact = slow_mu(masses, shift, slack)
    found = gaussian_mu_of_shift(LatticeLaw.of_bits(bits, float(probability)), shift, float(slack))
    ends = {sum(masses[:shift], Fraction(0)), sum(masses[-shift:], Fraction(0))}
    if any(abs(end - slack) < Fraction(1, 10**9) * slack for end in ends):
        return  # infinite or not by a rounding
    assert float(exact) <= found
    assert found <= float(exact) * (1 + 1e-9) + 1e-12


def test_mirrored_bits_agree_with_another_implementation() -> None:
    q = Fraction(0.2)
    one = [math.comb(6, k) * q**k * (1 - q) ** (6 - k) for k in range(7)]
    masses = [sum((one[i] * one[i - d] for i in range(7) if 0 <= i - d <= 6), Fraction(0)) for d in range(-6, 7)]
    for shift, slack in itertools.product((1, 2, 3), (1e-2, 1e-3, 1e-7)):
        exact = float(slow_mu(masses, shift, Fraction(slack)))
        found = gaussian_mu_of_shift(_law(6, 0.2, True), shift, slack)
        assert exact <= found <= exact * (1 + 1e-7) or exact == found == math.inf


def test_mu_grows_with_the_shift_and_falls_with_bits_and_slack() -> None:
    law = LatticeLaw.of_bits(500, 0.3)
    mus = [gaussian_mu_of_shift(law, c, 1e-9) for c in range(1, 40)]
    assert all(a < b for a, b in itertools.pairwise(mus))
    assert gaussian_mu_of_shift(law, 3, 1e-9) == gaussian_mu_of_shift(law, -3, 1e-9)
    more = [gaussian_mu_of_shift(LatticeLaw.of_bits(n, 0.3), 2, 1e-9) for n in range(150, 600, 7)]
    assert all(a > b for a, b in itertools.pairwise(more))
    slacks = [gaussian_mu_of_shift(law, 2, 10.0**-d) for d in range(2, 25)]
    assert all(a <= b for a, b in itertools.pairwise(slacks))


def test_the_steepest_shift_covers_every_shift() -> None:
    for law, most in ((LatticeLaw.of_bits(40_000, 0.4), 700), (LatticeLaw.discrete_gaussian(0.8), 5)):
        kappa = steepest(law, most, 1e-10)
        shifts = sorted({1, 2, 3, most // 2, most} | set(range(1, most, 37)))
        assert all(gaussian_mu_of_shift(law, c, 1e-10) <= kappa * c for c in shifts)
        assert kappa <= 1.02 * max(gaussian_mu_of_shift(law, c, 1e-10) / c for c in shifts)


def exact_vector(law: LatticeLaw, shifts: tuple[int, ...], epsilon: float) -> float:
    p = q = np.ones(1)
    for c in shifts:
        a, b = pair(law, abs(c))
        p, q = np.outer(p, a if c > 0 else b).ravel(), np.outer(q, b if c > 0 else a).ravel()
    return curve(p, q, epsilon)


@pytest.mark.parametrize(("bits", "probability", "mirrored"), [(40, 0.5, False), (60, 0.25, False), (20, 0.2, True)])
def test_every_small_vector_is_covered(bits: int, probability: float, mirrored: bool) -> None:
    """All changes of two counters within the event, signs included, against enumeration of all outcomes."""
    event = LatticeEvent(
        bits=bits, probability=probability, mirrored=mirrored, largest=3, square=10, changed=2, slack_each=1e-3
    )
    law = _law(bits, probability, mirrored)
    assert math.isfinite(event.mu())
    for shifts in itertools.product(range(-3, 4), repeat=2):
        if sum(c * c for c in shifts) <= 10:
            for epsilon in (0.0, 0.2, 0.7, 1.5, 3.0, 6.0):
                assert exact_vector(law, shifts, epsilon) <= delta_of(((event, 1),), epsilon)


def test_counters_that_move_by_one_cost_little_more_than_exactly() -> None:
    for kind, bits, probability in (
        (BinomialEvent, 1576, 0.5),
        (BinomialEvent, 6944, 0.1),
        (MirroredEvent, 4000, 0.02),
    ):
        mirrored = kind is MirroredEvent
        exact = (
            (kind(bits=bits, probability=probability, shift=1), 11),
            (kind(bits=bits, probability=probability, shift=-1), 11),
        )
        vector = LatticeEvent(
            bits=bits, probability=probability, mirrored=mirrored, largest=1, square=22, changed=22, slack_each=1e-10
        )
        ratio = epsilon_of(((vector, 1),), 1e-6) / epsilon_of(exact, 1e-6)
        assert 1.0 < ratio < (1.10 if probability == 0.1 else 1.01)


def test_more_bits_only_help_and_what_is_added_adds_up() -> None:
    def epsilon(bits: int, count: int = 1, **changes: int) -> float:
        fields = {"largest": 4, "square": 30, "changed": 10} | changes
        event = LatticeEvent(bits=bits, probability=0.3, mirrored=False, slack_each=1e-11, **fields)
        return epsilon_of(((event, count),), 1e-6)

    values = [epsilon(bits) for bits in (400, 401, 500, 1000, 10_000)]
    assert all(a > b for a, b in itertools.pairwise(values))
    # two releases of length √30 are one of length √60, and two persons one change of twice the length
    assert epsilon(1000, 2) == pytest.approx(epsilon(1000, square=60, changed=20), rel=1e-4)
    event = LatticeEvent(bits=1000, probability=0.3, mirrored=False, slack_each=1e-11, largest=4, square=30, changed=10)
    assert event.scaled(2) == LatticeEvent(
        bits=1000, probability=0.3, mirrored=False, slack_each=1e-11, largest=8, square=120, changed=20
    )


def test_unknown_is_refused() -> None:
    fields = {"bits": 30, "probability": 0.5, "mirrored": False, "largest": 1, "square": 1, "changed": 1}
    few = LatticeEvent(**fields, slack_each=1e-12)
    assert few.mu() == epsilon_of(((few, 1),), 1e-6) == math.inf
    enough = LatticeEvent(**fields, slack_each=1e-8)
    assert math.isfinite(epsilon_of(((enough, 1),), 1e-6))
    assert epsilon_of(((enough, 1),), 0.9e-8) == math.inf, "no delta below the slack"
    for wrong in ({"slack_each": 0.0}, {"slack_each": 1e-9, "bits": 0}, {"slack_each": 1e-9, "largest": 1.5}):
        with pytest.raises((InvalidInput, TypeError)):
            LatticeEvent(**fields | wrong)
    with pytest.raises(NotSupported, match="too many outcomes"):
        LatticeLaw.of_bits(10**15, 0.5)


CHANGES = {
    "variance for mu": (1600, 0.1, (3,)),
    "mu of a shift of one": (300, 0.5, (40,)),
    "mu of one counter": (200, 0.5, (4, 4)),
    "slack forgotten": (60, 0.5, (2,)),
    "bits counted twice": (200, 0.5, (4, 4)),
}
"""Bits, their probability, and a change that shows what is wrong."""


def planted(name: str, kind: type[LatticeEvent]) -> tuple[LatticeEvent, LatticeLaw, tuple[int, ...]]:
    bits, probability, shifts = CHANGES[name]
    event = kind(
        bits=bits,
        probability=probability,
        mirrored=False,
        largest=max(shifts),
        square=sum(c * c for c in shifts),
        changed=len(shifts),
        slack_each=1e-3 if name == "slack forgotten" else 1e-11,
    )
    return event, LatticeLaw.of_bits(bits, probability), shifts


@pytest.mark.parametrize("name", LATTICE_BUGS)
def test_a_wrong_mu_is_caught_by_the_exact_curve(name: str) -> None:
    def refuted(kind: type[LatticeEvent]) -> bool:
        event, law, shifts = planted(name, kind)
        return any(
            exact_vector(law, shifts, e) > delta_of(((event, 1),), e) * (1 + 1e-6)
            for e in (*EPSILONS, 25.0, 30.0, 35.0, 40.0)
        )

    assert refuted(LATTICE_BUGS[name])
    assert not refuted(LatticeEvent)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["mu of one counter", "bits counted twice"])
def test_a_wrong_mu_is_caught_by_an_attack(name: str) -> None:
    """Twelve counters that gain four each: the sum over the counters tells most, 20,000 releases of either world."""
    generator, releases, counters = np.random.default_rng(5), 20_000, 12
    noise = generator.binomial(2000, 0.5, (2, releases, counters)).sum(axis=2).astype(float)

    def verdict(kind: type[LatticeEvent]) -> str:
        event = kind(
            bits=2000,
            probability=0.5,
            mirrored=False,
            largest=4,
            square=16 * counters,
            changed=counters,
            slack_each=1e-10,
        )
        target = Target(
            kind="mechanism", name=name, trust="shuffle", calibration="tight", view="all counters",
            claimed=20.0, delta=1e-5, events=((event, 1),),
        )  # fmt: skip
        return attack(target, noise[0], noise[1] + 4.0 * counters, false_alarm=1e-6).verdict

    assert verdict(LATTICE_BUGS[name]) == "CERTIFICATE REFUTED"
    assert verdict(LatticeEvent) == "holds"
