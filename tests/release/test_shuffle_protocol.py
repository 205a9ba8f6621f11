"""What a device sends, what the shuffler refuses, what anybody computes from the sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare
from shuffle_tools import EVERYTHING, at_once, release_with, rows_of, through_messages

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import InvalidInput, PrivacyViolation
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.labels import BitNoise
from tacit.release.shuffle.roles import Transport, pack, permuted
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=3, num_states=3, num_actions=2, staged=True)
NOISE = BitNoise(users=12, honest_users=12, bits_per_user=2, probability=0.3)
LAYER = BatchQuery(layer=1, failure_prob=None)
RELEASES = [
    release_with(SHAPE, NOISE, printed=True),
    release_with(SHAPE, NOISE, printed=True, query=TOTALS),  # the successors of the last step, too
    release_with(SHAPE, NOISE),
    release_with(SHAPE, NOISE, query=LAYER),
]


def simulated(seed):
    return SimulationNoise(np.random.default_rng(seed))


def people(users, seed):
    rng = np.random.default_rng(seed)
    return Trajectories(
        rng.integers(0, 3, (users, 4)), rng.integers(0, 2, (users, 3)), rng.integers(0, 2, (users, 3)).astype(float)
    )


def user(batch, i):
    return Trajectory(batch.states[i], batch.actions[i], batch.rewards[i])


def labels_of(release, body):
    return np.frombuffer(body, dtype=release.labels)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("overflow", [0.0, 0.4])
def test_g1_messages_carry_the_bits(release, overflow):
    """Given the noise bits, the ones that are sent add up to the data and the noise, whatever the blocks hold."""
    rng, batch, spec = np.random.default_rng(1), people(12, 2), release.spec
    bits = [(rng.random(2 * spec.num_counters) < 0.3).astype(np.uint8) for _ in range(12)]
    described = release_with(SHAPE, NOISE, query=release.query, printed=release.printed, overflow=overflow)
    reports = []
    for i in range(12):
        ones = spec.labels(batch.states[i], batch.actions[i], batch.rewards[i].astype(int))
        reports.append(np.sort(pack(described.transport, ones, bits[i])).astype(described.labels).tobytes())
    payload = described.release(described.begin_secret(), reports, release.query, simulated(3))[1]
    exact = count_trajectories(batch, 3, 2)
    sums = spec.counters(exact.transitions, exact.visits, exact.rewards.astype(np.int64))
    drawn = np.sum([b.reshape(-1, 2).sum(axis=1) for b in bits], axis=0)
    assert np.frombuffer(payload, dtype="<i8").tolist() == (sums + drawn).tolist()
    expected = spec.arrays(sums + drawn - NOISE.total.mean)
    for found, wanted in zip(described.noisy(payload, 12), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("release", RELEASES)
def test_g3_every_report_has_the_same_length_whatever_the_user_did(release):
    batch, size = people(40, 4), release.body_size
    assert size == release.labels.itemsize * release.transport.cost().messages_per_user
    assert {len(release.encode(user(batch, i), simulated(i))) for i in range(40)} == {size}
    assert {len(release.encode(user(batch, i), SecureNoise())) for i in range(5)} == {size}


def test_message_cost_is_what_is_sent():
    shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    noise = BitNoise(users=1000, honest_users=1000, bits_per_user=2, probability=0.27)
    ones = release_with(shape, noise).transport.cost()
    few = release_with(shape, noise, overflow=1e-10).transport.cost()
    assert (ones.messages_per_user, ones.bytes_per_user) == (11 + 512, 2 * (11 + 512))
    assert few.messages_per_user < 0.45 * ones.messages_per_user


def test_the_block_is_the_smallest_that_keeps_its_promise():
    for users, bits, q, p in ((1000, 3, 0.28, 1e-9), (100_000, 1, 0.006, 1e-12), (10, 1, 0.5, 0.4)):
        kwargs = {"num_counters": 256, "slots": 17, "users": users, "bits_per_user": bits, "probability": q}
        B = Transport(overflow_prob=p, **kwargs).block
        assert users * binom.sf(B, 256 * bits, q) <= p < users * binom.sf(B - 1, 256 * bits, q)


def test_an_overflow_opens_another_block_and_loses_nothing():
    transport = Transport(num_counters=10, slots=1, users=1, bits_per_user=1, probability=0.2, overflow_prob=0.2)
    assert transport.block == 3
    report = pack(transport, np.array([4], dtype=np.uint32), np.ones(10, dtype=np.uint8))
    assert len(report) == 1 + transport.block * math.ceil(10 / transport.block)
    counted = np.bincount(report[report < 10], minlength=10)
    assert counted.tolist() == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]


def test_g2_a_batch_with_missing_reports_is_aborted():
    release, batch = RELEASES[0], people(12, 5)
    reports = [release.encode(user(batch, i), simulated(i)) for i in range(12)]

    def counted(bodies):
        return release.release(release.begin_secret(), bodies, EVERYTHING, simulated(0))

    for take in (counted, lambda bodies: release.shuffle(bodies, simulated(0))):
        with pytest.raises(PrivacyViolation, match=r"11 reports and needs 12.*nothing is released"):
            take(reports[:11])
        with pytest.raises(InvalidInput, match="at most the 12"):
            take([*reports, reports[0]])
    with pytest.raises(PrivacyViolation, match="nothing is released"):
        at_once(release, count_trajectories(people(11, 5), 3, 2), simulated(0))
    with pytest.raises(PrivacyViolation, match="needs 12"):
        release.noisy(counted(reports)[1], 11)
    with pytest.raises(InvalidInput, match="a body must have"):
        counted([*reports[:11], reports[0][:-2]])


def test_invalid_trajectories_are_clipped_without_a_word_about_them():
    wild = Trajectory(np.array([99, -5, 2, 7]), np.array([-1, 3, 0]), np.array([np.nan, 17.5, -2.0]))
    tame = Trajectory(np.array([2, 0, 2, 2]), np.array([0, 1, 0]), np.array([0.0, 1.0, 0.0]))
    one, other = (RELEASES[1].encode(t, simulated(7)) for t in (wild, tame))
    assert one == other


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
        RELEASES[0].encode(Trajectory(states, actions, rewards), simulated(0))
    assert "array" not in str(refusal.value)
    assert "0.5" not in str(refusal.value)


def test_the_last_state_is_needed_only_as_printed():
    short = Trajectory(np.array([0, 1, 2]), np.array([0, 1, 0]), np.zeros(3))
    RELEASES[0].encode(short, simulated(0))
    with pytest.raises(InvalidInput, match="states must have a length"):
        RELEASES[1].encode(short, simulated(0))


def test_nothing_prints_what_users_did():
    assert repr(user(people(1, 8), 0)) == "Trajectory(3 steps)"


def test_sums_at_once_are_for_simulations_and_for_whole_rewards():
    release, batch = RELEASES[0], people(12, 9)
    counts = count_trajectories(batch, 3, 2)
    with pytest.raises(TypeError, match="SimulationNoise"):
        at_once(release, counts, SecureNoise())
    counts.rewards[0, 0, 0] += 0.25
    with pytest.raises(InvalidInput, match="counts of ones") as refusal:
        at_once(release, counts, simulated(0))
    assert "25" not in str(refusal.value)


def test_the_same_seed_gives_the_same_release():
    release, batch = RELEASES[2], people(12, 10)
    first, again, other = (through_messages(release, batch, simulated(seed)) for seed in (1, 1, 2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
    assert first.visits.tobytes() != other.visits.tobytes()


def test_secure_noise_runs_the_whole_protocol():
    """False-alarm rate below 1e-9: each of 30 numbers within 12 standard deviations of its exact count."""
    release, batch = RELEASES[0], people(12, 11)
    released, exact = through_messages(release, batch, SecureNoise()), count_trajectories(batch, 3, 2)
    assert np.abs(released.visits - exact.visits).max() <= 12 * NOISE.total.std
    assert not np.array_equal(released.visits, through_messages(release, batch, SecureNoise()).visits)


def test_the_shuffler_hands_on_all_messages_and_their_sums_are_the_payload():
    release, batch = RELEASES[2], people(12, 12)
    bodies = [release.encode(one, simulated(i)) for i, one in enumerate(rows_of(batch))]
    out, C = release.shuffle(bodies, simulated(1)), release.spec.num_counters
    sent = np.concatenate([labels_of(release, body) for body in bodies])
    assert sorted(out.tolist()) == sorted(sent.tolist())
    payload = release.release(release.begin_secret(), bodies, EVERYTHING, simulated(1))[1]
    assert np.bincount(out, minlength=C + 1)[:C].astype("<i8").tobytes() == payload


# The order of the messages ------------------------------------------------------------------------------------------


def orders(send, count):
    """How often each order of four distinguishable messages came out."""
    found = np.zeros((4, 4))
    for _ in range(count):
        found[np.arange(4), send()] += 1
    return found


def two_reports():
    ids = np.arange(4, dtype=np.uint32)  # labels as serial numbers, so that the order can be seen
    return [ids[i : i + 2] for i in (0, 2)]


def uneven(found):
    """False-alarm rate 1e-6: each of the four places holds each of the four messages equally often."""
    return min(chisquare(row).pvalue for row in found) < 1e-6 / 4


@pytest.mark.statistical
def test_the_shuffler_permutes_all_messages_of_the_batch_together():
    reports = two_reports()
    for noise in (simulated(12), SecureNoise()):
        assert not uneven(orders(lambda noise=noise: permuted(reports, noise), 2000))


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
