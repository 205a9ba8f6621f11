"""G3: real messages, really permuted, and one draw per counter release the same distribution.

Every check has a false-alarm rate of 1e-6 for its fixed seed, and twins with the noise 25% too small or too large, its
mean shifted by a quarter of a standard deviation, or one noise shared by two counters are all rejected.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from shuffle_tools import EVERYTHING, at_once, release_with, through_messages

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.randomness import SimulationNoise
from tacit.release.shuffle.labels import BitNoise
from tacit.released.counts import CountShape

USERS, ROUNDS, FALSE_ALARM = 10, 150, 1e-6
SHAPE = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
NOISE = BitNoise(users=USERS, honest_users=USERS, bits_per_user=2, probability=0.3)
PRINTED = {"fine": True, "one-hot": False}

pytestmark = pytest.mark.statistical


def alarms(noise, bits, probability):
    """Which checks reject that noise [rounds, counters] is independent Binomial(bits, probability), centred."""
    found = set()
    law, std = stats.binom(bits, probability), np.sqrt(bits * probability * (1 - probability))
    values = np.rint(noise + bits * probability).astype(int)
    edges = np.unique(law.ppf(np.linspace(0, 1, 16)[1:-1]))
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * values.size
    observed = np.bincount(np.searchsorted(edges, values.ravel()), minlength=len(expected))
    if stats.chisquare(observed, expected).pvalue < FALSE_ALARM:
        found.add("shape")
    z = stats.norm.isf(FALSE_ALARM / 2)
    if abs(noise.mean()) > z * std / np.sqrt(noise.size):
        found.add("mean")
    # The variance of a sample variance: (kurtosis − 1) σ⁴ / n
    excess = (1 - 6 * probability * (1 - probability)) / std**2
    if abs((noise**2).mean() - std**2) > z * std**2 * np.sqrt((2 + excess) / noise.size):
        found.add("variance")
    counters = noise.shape[1]
    correlation = np.abs(np.corrcoef(noise, rowvar=False) - np.eye(counters)).max() if counters > 1 else 0.0
    if correlation > stats.norm.isf(FALSE_ALARM / counters**2) / np.sqrt(len(noise) - 3):
        found.add("independence")
    return found


def people(rewards):
    rng = np.random.default_rng(1)
    return Trajectories(
        rng.integers(0, 2, (USERS, 3)), rng.integers(0, 2, (USERS, 2)), np.broadcast_to(rewards, (USERS, 2)).copy()
    )


def counters(spec, released):
    """The released numbers, one per counter, in an order of their own."""
    parts = [released.transitions[list(spec.transitions)].reshape(-1)]
    if spec.outcomes:
        parts += [(released.visits - released.rewards).ravel(), released.rewards.ravel()]
    else:
        parts += [released.visits.ravel(), released.rewards.ravel()]
    return np.concatenate(parts)


def noise_of(path, spec, batch):
    exact = count_trajectories(batch, 2, 2)
    return np.array([counters(spec, path()) - counters(spec, exact) for _ in range(ROUNDS)])


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("path", [through_messages, at_once])
def test_g3_both_paths_add_binomial_noise(name, path):
    described = release_with(SHAPE, NOISE, printed=PRINTED[name])
    batch, source = people([1.0, 0.0]), SimulationNoise(np.random.default_rng(2))
    given = batch if path is through_messages else count_trajectories(batch, 2, 2)
    noise = noise_of(lambda: path(described, given, source), described.spec, batch)
    assert alarms(noise, NOISE.total.bits, 0.3) == set()


def test_small_blocks_release_the_same_distribution():
    described = release_with(SHAPE, NOISE, printed=True, overflow=0.3)
    batch, source = people([1.0, 0.0]), SimulationNoise(np.random.default_rng(4))
    noise = noise_of(lambda: through_messages(described, batch, source), described.spec, batch)
    assert alarms(noise, NOISE.total.bits, 0.3) == set()


@pytest.mark.parametrize("path", ["messages", "aggregate"])
def test_g3_real_rewards_are_rounded_alike_on_both_paths(path):
    """A reward of 0.3 and noise bits of 0.3 make the law of a cell simple: Binomial(visits + noise bits, 0.3)."""
    described = release_with(SHAPE, NOISE, printed=True, query=EVERYTHING)
    batch, source = people([0.3, 0.3]), SimulationNoise(np.random.default_rng(5))
    exact = count_trajectories(batch, 2, 2)

    def release():
        if path == "messages":
            return through_messages(described, batch, source)
        return at_once(described, exact, source)

    released = np.array([release().rewards.ravel() for _ in range(ROUNDS)])
    visits = exact.visits.ravel()
    assert visits.max() >= 4  # without them this would be a test of the noise alone
    for cell in np.flatnonzero(visits):
        noise = released[:, [cell]] - 0.3 * visits[cell]
        assert alarms(noise, NOISE.total.bits + visits[cell], 0.3) == set()


def test_the_checks_have_power():
    rng, shape = np.random.default_rng(6), (ROUNDS, 24)
    bits, std = NOISE.total.bits, NOISE.total.std
    right = rng.binomial(bits, 0.3, shape) - bits * 0.3
    assert alarms(right, bits, 0.3) == set()
    for factor in (0.75, 1.25):
        scaled = round(bits * factor**2)
        off = rng.binomial(scaled, 0.3, shape) - scaled * 0.3
        assert {"variance", "shape"} <= alarms(off, bits, 0.3)
    assert {"mean", "shape"} <= alarms(right + 0.25 * std, bits, 0.3)
    shared = right.copy()
    shared[:, 1] = shared[:, 0]
    assert alarms(shared, bits, 0.3) == {"independence"}


def test_the_noise_of_one_missing_device_is_noticed():
    """Were a batch released without one of its reports, the planned mean would be subtracted from too few bits."""
    rng, bits = np.random.default_rng(7), NOISE.total.bits
    missing = rng.binomial(bits - 2, 0.3, (ROUNDS, 24)) - bits * 0.3
    assert "mean" in alarms(missing, bits, 0.3)
