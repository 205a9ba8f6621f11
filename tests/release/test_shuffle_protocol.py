"""The three roles: what a device sends, what the shuffler refuses, what the analyzer computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import InvalidInput, Unsupportable
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.messages import Messages, Transport
from tacit.release.shuffle.noise import BitNoise
from tacit.release.shuffle.protocol import Shuffle
from tacit.release.shuffle.roles import pack, shuffle
from tacit.statistics.count_spec import ReleaseSpec

SIZES = {"num_states": 3, "num_actions": 2, "horizon": 3}
SPECS = [
    ReleaseSpec.fine(**SIZES),
    ReleaseSpec.fine(**SIZES, last_transition=True),
    ReleaseSpec.one_hot(**SIZES),
    ReleaseSpec.crude(**SIZES, layer=1),
]
NOISE = BitNoise(users=12, honest_users=12, bits_per_user=2, probability=0.3)


def simulated(seed):
    return SimulationNoise(np.random.default_rng(seed))


def people(users, seed):
    rng = np.random.default_rng(seed)
    return Trajectories(
        rng.integers(0, 3, (users, 4)), rng.integers(0, 2, (users, 3)), rng.integers(0, 2, (users, 3)).astype(float)
    )


def user(batch, i):
    return Trajectory(batch.states[i], batch.actions[i], batch.rewards[i])


def message_kinds(batch):
    return [batch, Shuffle(spec=batch.spec, bit_noise=batch.bit_noise, messages="every-bit")]


@pytest.mark.parametrize("spec", SPECS)
def test_g1_both_kinds_of_messages_carry_the_same_bits(spec):
    """Given the same noise bits, sending all bits and sending ones with dummies release the same numbers."""
    rng, batch = np.random.default_rng(1), people(12, 2)
    bits = [(rng.random(2 * spec.num_counters) < 0.3).astype(np.uint8) for _ in range(12)]
    released = []
    for overflow in (None, 0.0, 0.4):
        kind = "every-bit" if overflow is None else "ones"
        described = Shuffle(spec=spec, bit_noise=NOISE, messages=kind, overflow_prob=overflow or 0.0)
        transport = described.transport()
        reports = []
        for i in range(12):
            ones = spec.labels(batch.states[i], batch.actions[i], batch.rewards[i].astype(int))
            reports.append(pack(transport, ones, bits[i]))
        released.append(described.analyze(described.shuffle(reports, simulated(3))))
    exact = count_trajectories(batch, 3, 2)
    sums = spec.counters(exact.transitions, exact.visits, exact.rewards.astype(np.int64))
    drawn = np.sum([b.reshape(-1, 2).sum(axis=1) for b in bits], axis=0)
    expected = spec.arrays(sums + drawn - NOISE.total.mean)
    for found in released:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("spec", SPECS)
def test_g1_every_report_has_the_same_length_whatever_the_user_did(spec):
    for described in message_kinds(Shuffle(spec=spec, bit_noise=NOISE)):
        batch, size = people(40, 4), described.cost().messages_per_user
        assert {len(described.encode(user(batch, i), simulated(i))) for i in range(40)} == {size}
        assert {len(described.encode(user(batch, i), SecureNoise())) for i in range(5)} == {size}


def test_message_cost_is_what_is_sent():
    spec = ReleaseSpec.one_hot(num_states=4, num_actions=2, horizon=6)
    noise = BitNoise(users=1000, honest_users=1000, bits_per_user=2, probability=0.27)
    every = Shuffle(spec=spec, bit_noise=noise, messages="every-bit").cost()
    ones = Shuffle(spec=spec, bit_noise=noise).cost()
    few = Shuffle(spec=spec, bit_noise=noise, overflow_prob=1e-10).cost()
    assert (every.messages_per_user, every.bytes_per_user) == (256 * 3, 256 * 3 * 2)  # 768 bits
    assert ones.messages_per_user == 11 + 512
    assert few.messages_per_user < 0.45 * ones.messages_per_user


def test_the_block_is_the_smallest_that_keeps_its_promise():
    for users, bits, q, p in ((1000, 3, 0.28, 1e-9), (100_000, 1, 0.006, 1e-12), (10, 1, 0.5, 0.4)):
        kwargs = {"num_counters": 256, "slots": 17, "users": users, "bits_per_user": bits, "probability": q}
        B = Transport(kind="ones", overflow_prob=p, **kwargs).block
        assert users * binom.sf(B, 256 * bits, q) <= p < users * binom.sf(B - 1, 256 * bits, q)


def test_an_overflow_opens_another_block_and_loses_nothing():
    transport = Transport(
        kind="ones", num_counters=10, slots=1, users=1, bits_per_user=1, probability=0.2, overflow_prob=0.2
    )
    assert transport.block == 3
    report = pack(transport, np.array([4], dtype=np.uint32), np.ones(10, dtype=np.uint8))
    assert len(report) == 1 + transport.block * math.ceil(10 / transport.block)
    assert transport.fits(len(report), 1)
    assert not transport.fits(len(report) - 1, 1)
    counted = np.bincount(report.counters[report.bits == 1], minlength=10)
    assert counted.tolist() == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]


def test_g4_a_batch_with_missing_reports_is_aborted():
    described = Shuffle(spec=SPECS[0], bit_noise=NOISE)
    batch = people(12, 5)
    reports = [described.encode(user(batch, i), simulated(i)) for i in range(12)]
    with pytest.raises(Unsupportable, match=r"11 reports of 12 planned.*nothing released"):
        described.shuffle(reports[:11], simulated(0))
    with pytest.raises(InvalidInput, match="exactly the 12 planned"):
        described.shuffle([*reports, reports[0]], simulated(0))
    with pytest.raises(Unsupportable, match="nothing released"):
        described.aggregate(count_trajectories(people(11, 5), 3, 2), simulated(0))
    with pytest.raises(InvalidInput, match="12 reports"):
        described.analyze(Messages(reports[0].counters, reports[0].bits))
    short = Messages(reports[0].counters[:-1], reports[0].bits[:-1])
    with pytest.raises(InvalidInput, match="a report must have"):
        described.shuffle([*reports[:11], short], simulated(0))


def test_hostile_labels_and_bits_count_for_nothing_more_than_one_message():
    described = Shuffle(spec=SPECS[3], bit_noise=NOISE)
    batch = people(12, 6)
    reports = [described.encode(user(batch, i), simulated(i)) for i in range(12)]
    size = len(reports[0])
    reports[0] = Messages(np.full(size, 2**32 - 1, dtype=np.uint32), np.full(size, 255, dtype=np.uint8))
    released = described.analyze(described.shuffle(reports, simulated(0)))
    assert np.isfinite(released.transitions).all()
    assert released.transitions.max() <= 12 * 3 - NOISE.total.mean


def test_invalid_trajectories_are_clipped_without_a_word_about_them():
    described = Shuffle(spec=SPECS[1], bit_noise=NOISE, messages="every-bit")
    wild = Trajectory(np.array([99, -5, 2, 7]), np.array([-1, 3, 0]), np.array([np.nan, 17.5, -2.0]))
    tame = Trajectory(np.array([2, 0, 2, 2]), np.array([0, 1, 0]), np.array([0.0, 1.0, 0.0]))
    one, other = (described.encode(t, simulated(7)) for t in (wild, tame))
    np.testing.assert_array_equal(one.bits, other.bits)


@pytest.mark.parametrize(
    ("states", "actions", "rewards"),
    [
        (np.array([0, 1]), np.array([1, 1, 1]), np.zeros(3)),
        (np.array([0, 1, 2]), np.array([1, 1]), np.zeros(3)),
        (np.array([0, 1, 2]), np.array([1, 1, 1]), np.zeros(2)),
        (np.array([0.5, 1.5, 2.5]), np.array([1, 1, 1]), np.zeros(3)),
    ],
)
def test_wrong_shapes_are_refused_without_data(states, actions, rewards):
    with pytest.raises(InvalidInput) as refusal:
        Shuffle(spec=SPECS[0], bit_noise=NOISE).encode(Trajectory(states, actions, rewards), simulated(0))
    assert "array" not in str(refusal.value)
    assert "0.5" not in str(refusal.value)


def test_the_last_state_is_needed_only_as_printed():
    short = Trajectory(np.array([0, 1, 2]), np.array([0, 1, 0]), np.zeros(3))
    Shuffle(spec=SPECS[0], bit_noise=NOISE).encode(short, simulated(0))
    with pytest.raises(InvalidInput, match="states must have a length"):
        Shuffle(spec=SPECS[1], bit_noise=NOISE).encode(short, simulated(0))


def test_nothing_prints_what_users_did():
    described = Shuffle(spec=SPECS[0], bit_noise=NOISE)
    someone = user(people(1, 8), 0)
    assert repr(someone) == "Trajectory(3 steps)"
    size = described.cost().messages_per_user
    assert repr(described.encode(someone, simulated(0))) == f"Messages({size})"


def test_aggregate_is_for_simulations_and_for_whole_rewards():
    described = Shuffle(spec=SPECS[0], bit_noise=NOISE)
    batch = people(12, 9)
    with pytest.raises(TypeError, match="SimulationNoise"):
        described.aggregate(count_trajectories(batch, 3, 2), SecureNoise())
    batch.rewards[0, 0] = 0.25
    with pytest.raises(InvalidInput, match="counts of ones") as refusal:
        described.aggregate(count_trajectories(batch, 3, 2), simulated(0))
    assert "25" not in str(refusal.value)


def test_the_same_seed_gives_the_same_release():
    described, batch = Shuffle(spec=SPECS[2], bit_noise=NOISE), people(12, 10)
    first, again, other = (described.protocol(batch, simulated(seed)) for seed in (1, 1, 2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
    assert first.visits.tobytes() != other.visits.tobytes()


def test_secure_noise_runs_the_whole_protocol():
    """False-alarm rate below 1e-9: each of 30 numbers within 12 standard deviations of its exact count."""
    described, batch = Shuffle(spec=SPECS[0], bit_noise=NOISE), people(12, 11)
    released, exact = described.protocol(batch, SecureNoise()), count_trajectories(batch, 3, 2)
    assert np.abs(released.visits - exact.visits).max() <= 12 * NOISE.total.std
    assert not np.array_equal(released.visits, described.protocol(batch, SecureNoise()).visits)


# The order of the messages ------------------------------------------------------------------------------------------


def orders(send, count):
    """How often each order of four distinguishable messages came out."""
    found = np.zeros((4, 4))
    for _ in range(count):
        found[np.arange(4), send()] += 1
    return found


def two_reports():
    transport = Transport(
        kind="every-bit", num_counters=1, slots=1, users=2, bits_per_user=1, probability=0.5, overflow_prob=0.0
    )
    ids = np.arange(4, dtype=np.uint32)  # labels as serial numbers, so that the order can be seen
    return transport, [Messages(ids[i : i + 2], np.ones(2, dtype=np.uint8)) for i in (0, 2)]


def uneven(found):
    """False-alarm rate 1e-6: each of the four places holds each of the four messages equally often."""
    return min(chisquare(row).pvalue for row in found) < 1e-6 / 4


@pytest.mark.statistical
def test_the_shuffler_permutes_all_messages_of_the_batch_together():
    transport, reports = two_reports()
    for noise in (simulated(12), SecureNoise()):
        assert not uneven(orders(lambda noise=noise: shuffle(transport, reports, noise).counters, 2000))


@pytest.mark.statistical
def test_the_test_of_the_order_has_power():
    """Twins: no permutation; whole reports permuted (bits stay linked); only bits within a report permuted."""
    rng = np.random.default_rng(13)
    blocks = np.array([[0, 1], [2, 3]])
    assert uneven(orders(lambda: blocks.ravel(), 2000))
    assert uneven(orders(lambda: np.concatenate([rng.permutation(b) for b in blocks]), 2000))
    pairs = np.zeros(4)
    for _ in range(2000):
        pairs[int(blocks[rng.permutation(2)].ravel()[1])] += 1
    assert chisquare(pairs).pvalue < 1e-6
