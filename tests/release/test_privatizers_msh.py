"""M_sh of [garcelon2021local] appendix I: its true local level, and reports that shuffling does not hide."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from papers.garcelon2021local.reshuffled import ReshuffledReports, link, resend
from tacit.accounting.composition import epsilon_of
from tacit.data.trajectories import Trajectories, prepare_world, roll_out
from tacit.environments.tabular_worlds import riverswim
from tacit.policies import uniform_policy
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)


def users(count, seed=0):
    mdp = riverswim()
    return roll_out(prepare_world(mdp), uniform_policy(6, 4, 2), count, np.random.default_rng(seed))


@pytest.mark.parametrize("reward_bits", [1, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_g1_the_level_is_that_of_all_flipped_bits(epsilon, reward_bits):
    mechanism = ReshuffledReports(shape=SHAPE, epsilon=epsilon, reward_bits=reward_bits)
    H = SHAPE.horizon
    assert mechanism.level == pytest.approx((4 * H - 2 + 2 * reward_bits * H) * epsilon)
    assert epsilon_of(mechanism.events(), 0.0) == pytest.approx(mechanism.level)
    certificate = mechanism.certificate()
    assert not certificate.holds  # "roughly H epsilon" is printed
    assert certificate.epsilon == pytest.approx(mechanism.level)


def test_g1_the_level_is_attained_by_two_trajectories():
    # Every bit of two trajectories in disjoint cells differs where one of them has a one: count them.
    mechanism = ReshuffledReports(shape=SHAPE, epsilon=1.0, reward_bits=2)
    ones = np.ones((1, 6))
    rng = np.random.default_rng(0)
    first, second = (mechanism._bits(np.full(7, s), np.zeros(6, dtype=np.int64), ones[0], rng) for s in (0, 3))
    differing = int((first != second).sum())
    # log-likelihood ratio of the report that equals the first trajectory's bits
    keep, flip = 1.0 - mechanism.bit.flip, mechanism.bit.flip
    assert differing * np.log(keep / flip) == pytest.approx(mechanism.level)


def test_the_agent_links_every_report_to_its_episode():
    mechanism = ReshuffledReports(shape=SHAPE, epsilon=1.0, reward_bits=1)
    reports = mechanism.report(users(60), SimulationNoise(np.random.default_rng(1)))
    coins = np.random.default_rng(2)
    seen = [resend(reports[:k], coins) for k in range(len(reports) + 1)]
    assert any(seen[k] != reports[:k] for k in range(len(reports)))  # they are permuted ...
    linked = [link(before, after) for before, after in itertools.pairwise(seen)]
    assert linked == reports  # ... and the permutation hides nothing


def test_a_batch_that_is_sent_once_hides_its_order():
    # The broken twin of the attack: without the earlier output there is nothing to subtract.
    mechanism = ReshuffledReports(shape=SHAPE, epsilon=1.0, reward_bits=1)
    reports = mechanism.report(users(60), SimulationNoise(np.random.default_rng(1)))
    once = resend(reports, np.random.default_rng(3))
    assert sorted(once) == sorted(reports)
    assert sum(a == b for a, b in zip(once, reports, strict=True)) < 10
    with pytest.raises(ValueError, match="unpack"):
        link([], once)


@pytest.mark.statistical
def test_g2_counters_are_unbiased():
    # z-scores over 4,000 users; 5 sd at 80 counters: false-alarm rate 5e-5. Dividing by the wrong factor is caught.
    mechanism, batch = ReshuffledReports(shape=SHAPE, epsilon=1.0, reward_bits=3), users(4000, seed=5)
    rewards = np.random.default_rng(0).random(batch.rewards.shape)
    batch = Trajectories(batch.states, batch.actions, rewards)
    found = mechanism.counters(mechanism.report(batch, SimulationNoise(np.random.default_rng(4))))
    visits, moves, sums = np.zeros((4, 2)), np.zeros((4, 2, 4)), np.zeros((4, 2))
    for h in range(6):
        np.add.at(visits, (batch.states[:, h], batch.actions[:, h]), 1.0)
        np.add.at(sums, (batch.states[:, h], batch.actions[:, h]), rewards[:, h])
        if h < 5:
            np.add.at(moves, (batch.states[:, h], batch.actions[:, h], batch.states[:, h + 1]), 1.0)
    spread = np.sqrt(4000 * 6 * mechanism.bit.variance)
    for estimate, truth in zip(found, (visits, moves, sums), strict=True):
        assert np.abs(estimate - truth).max() < 5.0 * spread
    assert np.abs(1.25 * found[0] - visits).max() > 5.0 * spread
