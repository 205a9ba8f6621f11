"""Composition: counts mean repetition, exact where it can be, from above where it cannot."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from renyi_accountant import ORDERS, renyi_divergence, renyi_epsilon, zcdp, zcdp_epsilon

import tacit
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import (
    all_gaussian,
    basic,
    delta_of,
    epsilon_of,
    gaussian_mu_of,
    merged,
    method_of,
    parallel,
    pure_epsilon_of,
)
from tacit.accounting.events import (
    BinomialEvent,
    BoundedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    UnprotectedEvent,
)
from tacit.accounting.events.gaussian import gaussian_epsilon, gaussian_pld
from tacit.errors import InvalidInput

EVERY_EVENT: list[Event] = [
    PureEvent(epsilon=0.3),
    LaplaceEvent(scale=4.0, shift=1.0, discrete=False),
    LaplaceEvent(scale=4.0, shift=2.0, discrete=True),
    GaussianEvent(sigma=5.0, shift=1.5),
    GaussianEvent(sigma=5.0, shift=2.0, discrete=True),
    BinomialEvent(bits=400, probability=0.5, shift=1),
    BinomialEvent(bits=400, probability=0.2, shift=-1),
    BoundedEvent(radius=20.0, shift=1.0),
    UnprotectedEvent(),
]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("n", [1, 3])
def test_n_times_an_event_is_the_event_written_n_times(event: Event, n: int) -> None:
    together, apart = ((event, n),), ((event, 1),) * n
    for delta in (0.0, 1e-6, 1e-3):
        assert epsilon_of(together, delta) == epsilon_of(apart, delta)
        assert method_of(together, delta) == method_of(apart, delta)
    assert delta_of(together, 0.5) == delta_of(apart, 0.5)
    assert list(renyi_divergence(together)) == list(renyi_divergence(apart))
    assert zcdp(together) == zcdp(apart)


@pytest.mark.parametrize("event", EVERY_EVENT[:-1], ids=lambda event: type(event).__name__)
def test_more_of_an_event_costs_more(event: Event) -> None:
    costs = [epsilon_of(((event, n),), 1e-6) for n in (1, 2, 4)]
    assert 0.0 < costs[0] < costs[1] < costs[2]


def test_counts_are_multiplied_in_exactly_one_line() -> None:
    source = Path(tacit.__file__).parent / "accounting"
    pattern = re.compile(r"\bcounts? \*|\* counts?\b")
    lines = [
        f"{path.name}: {line.strip()}"
        for path in sorted(source.rglob("*.py"))
        for line in path.read_text().splitlines()
        if pattern.search(line.split("#")[0]) and not line.strip().startswith(('"', "Σ"))
    ]
    assert lines == ["privacy_loss.py: added = added + count * additive(part)"]


def test_pure_composition_is_exact_rational_arithmetic() -> None:
    # [garcelon2021local] Laplace 6H/ε over 6H-2 counters: (6H-2)/(6H), row 12 of the verdict table.
    events = ((LaplaceEvent(scale=36.0, shift=1.0, discrete=False), 34),)
    found = epsilon_of(events, 0.0)
    assert Fraction(34, 36) <= Fraction(found) < Fraction(34, 36) + Fraction(1, 10**16)
    assert method_of(events, 0.0) == "pure composition"
    assert delta_of(events, found) == 0.0
    assert epsilon_of(((PureEvent(epsilon=0.25), 4),), 0.0) == 1.0  # exactly representable: no rounding at all
    # [bai2024adversarial] central, full information: 2/3 + 2/3 + X'A/(3H) = 3.67 with one tree node (row 8, per level).
    b = 3.0 * 6
    adversarial = ((LaplaceEvent(scale=b, shift=1.0, discrete=False), 12 + 12 + 42),)
    assert epsilon_of(adversarial, 0.0) == pytest.approx(11 / 3, rel=1e-12)


def test_gaussian_composition_adds_squares_and_rounds_up() -> None:
    events = ((GaussianEvent(sigma=5.0, shift=1.0), 7), (GaussianEvent(sigma=3.0, shift=0.5), 2))
    with mpmath.workdps(40):
        exact = mpmath.sqrt(7 * mpmath.mpf(1) / 25 + 2 * mpmath.mpf("0.25") / 9)
        assert exact <= gaussian_mu_of(events) <= exact * (1 + mpmath.mpf(2) ** -50)
    assert epsilon_of(events, 1e-6) == gaussian_epsilon(1e-6, gaussian_mu_of(events))
    assert method_of(events, 1e-6) == "analytic Gaussian"
    assert epsilon_of(events, 0.0) == math.inf
    with pytest.raises(InvalidInput, match="Gaussian"):
        gaussian_mu_of(((PureEvent(epsilon=1.0), 1),))


@pytest.mark.parametrize("mu", [0.05, 0.2367, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_the_gaussian_pld_lies_just_above_the_exact_curve(mu: float, delta: float) -> None:
    exact, found = gaussian_epsilon(delta, mu), gaussian_pld(mu).epsilon(delta)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-5)


def test_mixtures_agree_with_the_oracle() -> None:
    events = (
        (GaussianEvent(sigma=8.0, shift=1.0), 4),
        (LaplaceEvent(scale=10.0, shift=1.0, discrete=False), 6),
        (PureEvent(epsilon=0.1), 3),
    )
    parts = [
        oracle.from_gaussian_mechanism(8.0 / 2.0, value_discretization_interval=1e-4),
        oracle.from_laplace_mechanism(10.0, value_discretization_interval=1e-4).self_compose(6),
        oracle.from_privacy_parameters(
            oracle.common.DifferentialPrivacyParameters(0.1, 0.0), value_discretization_interval=1e-4
        ).self_compose(3),
    ]
    whole = parts[0].compose(parts[1]).compose(parts[2])
    for delta in (1e-8, 1e-6, 1e-4):
        assert epsilon_of(events, delta) == pytest.approx(whole.get_epsilon_for_delta(delta), rel=1e-4)
    assert method_of(events, 1e-6) == "PLD (FFT, pessimistic)"


def test_pure_events_never_cost_more_than_their_sum() -> None:
    few, many = ((PureEvent(epsilon=0.5), 2),), ((PureEvent(epsilon=0.01), 400),)
    assert epsilon_of(few, 1e-12) <= 1.0
    assert epsilon_of(many, 1e-6) < 0.3 * 4.0
    assert method_of(many, 1e-6) == "PLD (FFT, pessimistic)"
    # One counter that moves by much: a delta buys next to nothing (0.9438 at 1e-5, against 34/36 pure).
    laplace = (
        (LaplaceEvent(scale=36.0, shift=6.0, discrete=False), 4),
        (LaplaceEvent(scale=36.0, shift=5.0, discrete=False), 2),
    )
    assert epsilon_of(laplace, 1e-5) == pytest.approx(0.9438, abs=5e-5)


def test_biased_bits_cost_differently_up_and_down() -> None:
    up, down = (((BinomialEvent(bits=200, probability=0.1, shift=s), 3),) for s in (1, -1))
    # The guarantee covers both directions, so up alone and down alone are the same pair read backwards.
    assert epsilon_of(up, 1e-4) == pytest.approx(epsilon_of(down, 1e-4), rel=1e-9)
    mixed = (
        (BinomialEvent(bits=200, probability=0.1, shift=1), 3),
        (BinomialEvent(bits=200, probability=0.1, shift=-1), 3),
    )
    same = ((BinomialEvent(bits=200, probability=0.1, shift=1), 6),)
    assert epsilon_of(mixed, 1e-3) < epsilon_of(same, 1e-3)


@settings(deadline=None, max_examples=6)
@given(st.lists(st.tuples(st.sampled_from(EVERY_EVENT[:-1]), st.integers(0, 4)), max_size=4), st.floats(1e-9, 1e-2))
def test_epsilon_and_delta_are_two_views_of_one_curve(pairs: list[tuple[Event, int]], delta: float) -> None:
    events = tuple(pairs)
    epsilon = epsilon_of(events, delta)
    assert math.isinf(epsilon) or delta_of(events, epsilon) <= delta
    assert epsilon <= epsilon_of(events, 0.0)
    assert epsilon_of(events, delta) <= epsilon_of(events, delta / 10)
    assert epsilon_of(tuple(reversed(events)), delta) == pytest.approx(epsilon, rel=1e-6)


def test_nothing_and_everything() -> None:
    assert (epsilon_of((), 1e-6), delta_of((), 0.0), method_of((), 1e-6)) == (0.0, 0.0, "nothing released")
    exposed = ((UnprotectedEvent(), 1), (GaussianEvent(sigma=1.0, shift=1.0), 1))
    assert (epsilon_of(exposed, 1e-6), delta_of(exposed, 100.0)) == (math.inf, 1.0)
    assert method_of(exposed, 1e-6) == "no protection"
    free = ((PureEvent(epsilon=0.0), 3), (GaussianEvent(sigma=1.0, shift=0.0), 2), (UnprotectedEvent(), 0))
    assert merged(free) == ()
    assert epsilon_of(free, 0.0) == 0.0
    assert not all_gaussian(())
    for delta in (-1e-9, math.nan, 1.5):
        with pytest.raises(InvalidInput, match="delta"):
            epsilon_of((), delta)
    with pytest.raises(InvalidInput, match="epsilon"):
        delta_of((), math.nan)
    with pytest.raises(InvalidInput, match="count"):
        epsilon_of(((PureEvent(epsilon=0.1), -1),), 0.0)


def _claim(epsilon: float, delta: float, size: int = 1) -> PrivacyClaim:
    return PrivacyClaim(
        trust="shuffle",
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=size, per_stage=1),
        neighbours="replace-one",
        output="shuffled-transcript",
    )


def test_basic_composition_adds_and_parallel_takes_the_worst() -> None:
    claims = [_claim(0.1, 1e-7), _claim(0.2, 2e-7), _claim(0.3, 0.0)]
    added = basic(claims)
    assert (added.epsilon, added.delta) == (0.6, 3e-7)  # as decimal numbers, not 0.6000000000000001
    worst = parallel(claims)
    assert (worst.epsilon, worst.delta) == (0.3, 2e-7)
    # Lemma P7 (parallel composition): B batches over disjoint users are the claim of one batch (B-batch SDP).
    assert parallel([claims[0]] * 10_000) == claims[0]
    assert basic([no_privacy()] * 2) == parallel([no_privacy()]) == no_privacy()
    for compose in (basic, parallel):
        with pytest.raises(InvalidInput):
            compose([])
        with pytest.raises(InvalidInput, match="agree"):
            compose([_claim(0.1, 0.0), _claim(0.1, 0.0, size=2)])


@pytest.mark.parametrize("event", EVERY_EVENT[:5], ids=lambda event: type(event).__name__)
def test_renyi_and_concentrated_bounds_lie_above_the_exact_epsilon(event: Event) -> None:
    for n in (1, 10, 100):
        exact = epsilon_of(((event, n),), 1e-6)
        renyi = renyi_epsilon(((event, n),), 1e-6)
        assert exact <= renyi * (1 + 1e-9)
        assert renyi <= zcdp_epsilon(zcdp(((event, n),)), 1e-6) * (1 + 1e-3)


def test_renyi_divergence_matches_quadrature() -> None:
    alpha = 3.0
    for event, p, q in (
        (
            LaplaceEvent(scale=2.0, shift=1.0, discrete=False),
            lambda x: mpmath.exp(-abs(x) / 2) / 4,
            lambda x: mpmath.exp(-abs(x - 1) / 2) / 4,
        ),
        (GaussianEvent(sigma=1.5, shift=1.0), lambda x: mpmath.npdf(x, 0, 1.5), lambda x: mpmath.npdf(x, 1, 1.5)),
    ):
        moment = mpmath.quad(lambda x: p(x) ** alpha * q(x) ** (1 - alpha), [-80, -10, 0, 1, 10, 80])  # noqa: B023
        assert renyi_divergence(((event, 1),), (alpha,))[0] == pytest.approx(float(mpmath.log(moment) / 2), rel=1e-9)
    bit = PureEvent(epsilon=math.log(3.0))  # p = 3/4: ln(p³/(1-p)² + (1-p)³/p²)/2
    exact = math.log(0.75**3 / 0.25**2 + 0.25**3 / 0.75**2) / 2
    assert renyi_divergence(((bit, 1),), (3.0,))[0] == pytest.approx(exact, rel=1e-12)
    bounded = ((BoundedEvent(radius=60.0, shift=1.0), 1),)
    assert zcdp(bounded) == renyi_epsilon(bounded, 1e-6) == math.inf
    assert len(ORDERS) > 100
    with pytest.raises(InvalidInput, match="orders"):
        renyi_divergence(bounded, (1.0,))


def test_pure_epsilon_is_infinite_where_there_is_none() -> None:
    for event in EVERY_EVENT[3:]:
        assert pure_epsilon_of(((event, 1),)) == math.inf
