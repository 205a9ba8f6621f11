"""Lower bounds: against closed forms, an independent accountant and brute force, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import (
    BinomialEvent,
    BoundedEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from tacit.accounting.events.binomial import binomial_epsilon
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.audit.attack import Finding, Target, attack
from tacit.audit.bounds import (
    Errors,
    curve_epsilon,
    event_epsilon,
    exact_delta,
    exact_epsilon,
    lower_rate,
    noise_factor,
    quieter,
    refuted,
    upper_rate,
)
from tacit.errors import InvalidInput


@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (5, 5), (3, 17), (400, 1000), (1, 10**6)])
def test_rates_are_clopper_and_pearson_s(hits, trials):
    interval = stats.binomtest(hits, trials).proportion_ci(confidence_level=0.98, method="exact")
    assert lower_rate(hits, trials, 0.01) == pytest.approx(interval.low, rel=1e-9, abs=1e-15)
    assert upper_rate(hits, trials, 0.01) == pytest.approx(interval.high, rel=1e-9)


def test_G1_the_event_bound_is_its_formula():
    errors = Errors(first=1000, first_hits=20, second=2000, second_hits=600)
    said = math.log((lower_rate(600, 2000, 0.01) - 0.001) / upper_rate(20, 1000, 0.01))
    assert event_epsilon(errors, 0.001, 0.04) == pytest.approx(said)
    # The complement of the event counts as well, and a delta above every frequency leaves nothing.
    mirrored = Errors(first=2000, first_hits=1400, second=1000, second_hits=980)
    assert event_epsilon(mirrored, 0.001, 0.04) == pytest.approx(said)
    assert event_epsilon(errors, 1.0, 0.04) == 0.0


def test_G3_gaussian_errors_are_converted_through_gaussian_differential_privacy():
    events = ((GaussianEvent(sigma=2.0, shift=1.0), 4),)  # mu = 1
    errors = Errors(first=10**6, first_hits=308_538, second=10**6, second_hits=691_462)
    a, b = upper_rate(308_538, 10**6, 0.005), upper_rate(308_538, 10**6, 0.005)
    mu = stats.norm.isf(a) - stats.norm.ppf(b)
    assert noise_factor(errors, events, 0.01) == pytest.approx(1 / mu, rel=1e-9)
    assert curve_epsilon(1 / mu, events, 1e-6) == pytest.approx(gaussian_epsilon(1e-6, mu), rel=1e-9)
    # The bisection for all other noise finds the same when many small shifts are as good as one Gaussian.
    many = ((PureEvent(epsilon=0.05), 400),)
    assert noise_factor(errors, many, 0.01) == pytest.approx(1 / mu, rel=5e-3)


def test_G2_a_curve_is_refuted_exactly_where_no_test_is_that_good():
    laplace = ((LaplaceEvent(scale=1.0, shift=1.0, discrete=False), 1),)
    # The best test of Lap(0, 1) against Lap(1, 1): a = e^(-t)/2 and b = e^(t-1)/2 at any threshold t in [0, 1].
    for t in (0.2, 0.5, 0.9):
        a, b = math.exp(-t) / 2, math.exp(t - 1) / 2
        n = 10**9
        at = Errors(first=n, first_hits=round(a * n), second=n, second_hits=n - round(b * n))
        better = Errors(first=n, first_hits=round(0.995 * a * n), second=n, second_hits=n - round(0.995 * b * n))
        assert not refuted(at, laplace, 1e-3)
        assert refuted(better, laplace, 1e-3)


def test_nothing_seen_bounds_nothing_and_everything_seen_bounds_everything():
    blind = Errors(first=1000, first_hits=500, second=1000, second_hits=500)
    events = ((LaplaceEvent(scale=1.0, shift=1.0, discrete=False), 3),)
    assert noise_factor(blind, events, 0.01) == math.inf
    assert curve_epsilon(math.inf, events, 0.0) == 0.0
    told = Errors(first=1000, first_hits=0, second=1000, second_hits=1000)
    assert noise_factor(told, events, 0.01) < 1.0
    assert noise_factor(told, (), 0.01) == 0.0  # nothing is said to be released, and yet the worlds differ
    assert noise_factor(told, ((UnprotectedEvent(), 1),), 0.01) == math.inf  # no protection is claimed


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (LaplaceEvent(scale=2.0, shift=1.0, discrete=True), 0.0),
        (GaussianEvent(sigma=3.0, shift=1.0), 1e-6),
        (BinomialEvent(bits=400, probability=0.3, shift=-1), 1e-6),
        (BoundedEvent(radius=30.0, shift=1.0), 1e-6),
        (PureEvent(epsilon=0.4), 0.0),
        (SampledGaussianEvent(sigma=3.0, norm=1.0, rate=0.5), 1e-6),
    ],
)
def test_more_noise_is_less_epsilon_for_every_event(event, delta):
    events = ((event, 2),)
    assert quieter(events, 1.0) == events
    assert epsilon_of(quieter(events, 2.0), delta) < 0.7 * epsilon_of(events, delta)


def test_G4_enumeration_agrees_with_the_accountant():
    k = np.arange(152)
    law = stats.binom(150, 0.5)
    found = exact_epsilon(law.logpmf(k), law.logpmf(k - 1), 1e-6)
    assert found == pytest.approx(binomial_epsilon(150, 0.5, 1, 0, 1e-6), rel=1e-5)
    assert exact_delta(law.logpmf(k), law.logpmf(k - 1), found) <= 1e-6
    assert exact_epsilon(np.log([0.5, 0.5]), np.array([0.0, -np.inf]), 0.4) == math.inf
    assert exact_epsilon(np.log([0.5, 0.5]), np.log([0.5, 0.5]), 0.0) == 0.0


def test_bad_counts_are_refused():
    with pytest.raises(InvalidInput, match="must not exceed the 10 trials"):
        Errors(first=10, first_hits=11, second=10, second_hits=0)
    with pytest.raises(InvalidInput, match="delta"):
        event_epsilon(Errors(first=10, first_hits=1, second=10, second_hits=1), math.nan, 0.01)


TARGET = Target(
    kind="mechanism", name="bit", trust="-", calibration="tight", view="a bit", claimed=1.0, delta=0.0,
    events=((PureEvent(epsilon=1.0), 1),),
)  # fmt: skip


def bits(generator, epsilon, trials):
    """Randomized response in two worlds."""
    keep = 1 / (1 + math.exp(-epsilon))
    return (generator.random(trials) > keep).astype(float), (generator.random(trials) < keep).astype(float)


@pytest.mark.statistical
def test_a_right_certificate_is_refuted_no_more_often_than_stated():
    """False-alarm rate 0.1 per bound; 2000 attacks on the very edge; the allowed number is exceeded with p < 1e-4.

    Power: with 30 % more epsilon than certified, most attacks alarm.
    """
    generator = np.random.default_rng(3)

    def alarms(epsilon, attacks, trials):
        keep = 1 / (1 + math.exp(-epsilon))
        found = np.zeros(2)
        for hits, misses in generator.binomial(trials, 1 - keep, (attacks, 2)):
            errors = Errors(first=trials, first_hits=hits, second=trials, second_hits=trials - misses)
            found += [event_epsilon(errors, 0.0, 0.1) > 1.0, refuted(errors, TARGET.events, 0.1)]
        return found

    assert alarms(1.0, 2000, 1000).max() <= stats.binom.ppf(0.9999, 2000, 0.1)
    assert alarms(1.3, 100, 4000).min() > 80


def test_the_verdict_follows_from_the_numbers_and_survives_json():
    generator = np.random.default_rng(0)
    right = attack(TARGET, *bits(generator, 1.0, 20_000), false_alarm=0.01)
    wrong = attack(TARGET, *bits(generator, 2.0, 20_000), false_alarm=0.01)
    assert (right.verdict, wrong.verdict) == ("holds", "CERTIFICATE REFUTED")
    assert wrong.noise_factor < 1 < right.noise_factor
    assert 0.9 < right.by_events < 1.0 < wrong.by_events
    assert Finding.from_dict(right.to_dict()) == right
    blind = attack(TARGET, np.zeros(100), np.zeros(100), false_alarm=0.01)
    assert (blind.attacked, blind.to_dict()["noise_factor"]) == (0.0, "inf")
    assert Finding.from_dict(blind.to_dict()) == blind
    with pytest.raises(InvalidInput, match="verdict must follow"):
        Finding.from_dict(wrong.to_dict() | {"verdict": "holds"})
    with pytest.raises(InvalidInput, match="entries"):
        Finding.from_dict({"name": "x"})
