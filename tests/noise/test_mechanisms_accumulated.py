"""Accumulated noise keeps its four guarantees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting.calibrate import events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import GaussianEvent, LaplaceEvent
from tacit.accounting.families import Family
from tacit.errors import PrivacyBudgetExceeded
from tacit.noise.continual.accumulated import AccumulatedNoise
from tacit.noise.continual.counter import sample_path
from tacit.randomness import SimulationNoise

FAMILIES = (Family(name="moves", up=5, down=5, shift=1.0), Family(name="outcomes", up=6, down=6, shift=1.0))
BOTH = [1e-6, 0.0]


@pytest.mark.parametrize("delta", BOTH)
def test_g1_one_noise_covers_a_user_however_many_steps_there_are(delta):
    few, many = (AccumulatedNoise.calibrate(FAMILIES, 1.0, delta, steps) for steps in (1, 500))
    assert few.events(FAMILIES[0]) == many.events(FAMILIES[0])
    ((event, count),) = many.events(FAMILIES[0])
    assert count == 10
    assert isinstance(event, LaplaceEvent if delta == 0.0 else GaussianEvent)
    # The noise of a step is drawn for that step alone: prefix k is prefix k-1 plus fresh noise.
    path = sample_path(many, 3, SimulationNoise(np.random.default_rng(0)))
    own = np.diff(path, axis=0, prepend=0.0)
    assert np.abs(np.corrcoef(own[:-1].ravel(), own[1:].ravel())[0, 1]) < 0.15


@pytest.mark.statistical
@pytest.mark.parametrize("delta", BOTH)
def test_g2_the_variance_of_prefix_k_is_k_times_that_of_one_step(delta):
    # 20,000 counters: a standard error of at most 1.6% (Laplace); false alarms beyond 6 of them, 25% is 15 of them.
    counter = AccumulatedNoise.calibrate(FAMILIES, 1.0, delta, 9)
    path = sample_path(counter, 20_000, SimulationNoise(np.random.default_rng(1)))
    for k in (1, 4, 9):
        ratio = path[k - 1].var() / counter.variance_at(k)
        assert abs(ratio - 1.0) < 0.1
        assert abs(1.25 * ratio - 1.0) > 0.1
    assert counter.max_std == counter.std_at(9) == pytest.approx(3 * counter.std_at(1))


@pytest.mark.statistical
@pytest.mark.parametrize("delta", BOTH)
def test_g3_the_radius_covers_and_is_not_idle(delta):
    # 20,000 prefixes at 5%: 1000 ± 31 outside; false alarms beyond 6 standard errors.
    counter = AccumulatedNoise.calibrate(FAMILIES, 1.0, delta, 7)
    last = np.abs(sample_path(counter, 20_000, SimulationNoise(np.random.default_rng(2)))[-1])
    assert (last > counter.radius(0.05)).sum() < 1000 + 6 * 31
    assert (last > counter.radius(0.05) / 1.25).sum() > 1000 + 6 * 31
    two = counter.radius(0.05, terms=2)
    assert counter.radius(0.05) < two < 2 * counter.radius(0.05)


@pytest.mark.parametrize("delta", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_g4_calibration_is_private_and_least(delta, epsilon):
    counter = AccumulatedNoise.calibrate(FAMILIES, epsilon, delta, 10)
    assert epsilon_of(events_of(counter, FAMILIES), delta) <= epsilon
    less = AccumulatedNoise(steps=10, scale=counter.scale * 0.999, pure=counter.pure)
    assert epsilon_of(events_of(less, FAMILIES), delta) > epsilon
    if delta == 0.0:
        assert counter.scale == pytest.approx(22.0 / epsilon)
    elif epsilon == 1.0:
        assert counter.scale == pytest.approx(math.sqrt(22.0) / 0.2367, rel=2e-3)


def test_what_was_not_paid_for_is_refused():
    counter = AccumulatedNoise(steps=1, scale=1.0, pure=True)
    state, generator = counter.begin(2), np.random.default_rng(0)
    counter.step(counter.params, state, generator)
    with pytest.raises(PrivacyBudgetExceeded):
        counter.step(counter.params, state, generator)
