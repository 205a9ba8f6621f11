"""The shuffle channel: the law of its noise, what a report can change, what it refuses."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from channel_tools import (
    EVERYTHING,
    FALSE_ALARM,
    SILENT,
    SMALL,
    bits_channel,
    extreme,
    noises,
    people,
    rejected,
    rows,
    shuffle_basis,
    tampered,
)
from scipy import stats

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import ApproximationEvent
from tacit.accounting.events.binomial import mirrored_law
from tacit.data.counts import count_trajectories
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation
from tacit.noise.binomial import binomial_tail
from tacit.protocol import TOTALS, Totals
from tacit.randomness import SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.registry import CHANNELS, channel_from_dict
from tacit.release.shuffle.labels import least_bit_noise
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape

ROUNDS = 120


def seeded(seed):
    return SimulationNoise(np.random.default_rng(seed))


def histogram(payload):
    return np.frombuffer(payload, dtype="<i8")


def exact_sums(channel, batch):
    counts = count_trajectories(batch, channel.shape.num_states, channel.shape.num_actions)
    return channel.spec.counters(counts.transitions, counts.visits, counts.rewards.astype(np.int64))


def payloads(channel, batch, path):
    """Noise of many releases of one stage, [rounds, counters], by one of three paths."""
    if path == "counts":
        source = seeded(3)
        counts = count_trajectories(batch, channel.shape.num_states, channel.shape.num_actions)
        drawn = [channel.simulate(channel.begin_secret(), counts, channel.query, source)[1] for _ in range(ROUNDS)]
    else:
        source = noises(4)[path]
        drawn = [
            channel.release(
                channel.begin_secret(), [channel.encode(one, source) for one in rows(batch)], channel.query, source
            )[1]
            for _ in range(ROUNDS)
        ]
    return np.array([histogram(payload) for payload in drawn]) - exact_sums(channel, batch)


def binomial_rejects(noise, bits, q):
    law = stats.binom(bits, q)
    return rejected(np.bincount(noise.ravel(), minlength=bits + 1), law.pmf(np.arange(bits + 1)) * noise.size)


@pytest.mark.statistical
@pytest.mark.parametrize("path", ["secure", "simulation", "counts"])
@pytest.mark.parametrize("users", [8, 10])
def test_g1_every_path_adds_binomial_noise_of_as_many_devices_as_reported(path, users):
    """False-alarm rate 1e-6 per case; noise of one device more or less, or 25% off, is rejected."""
    channel = bits_channel()
    noise = payloads(channel, people(SMALL, users, 1), path)
    assert noise.min() >= 0
    assert not binomial_rejects(noise, 2 * users, 0.3)
    assert binomial_rejects(noise, 2 * users, 0.375)
    assert binomial_rejects(noise, 2 * (users + 1), 0.3)


@pytest.mark.statistical
@pytest.mark.parametrize("path", ["secure", "simulation", "counts"])
def test_g1_every_path_adds_mirrored_noise_where_the_channel_says_so(path):
    """False-alarm rate 1e-6 per case; a deviation 25% off is rejected."""
    users = 8
    channel = bits_channel(m=1, q=Fraction(0.1), mirrored=True)
    noise = payloads(channel, people(SMALL, users, 1), path)

    def rejects(q):
        first, mass = mirrored_law(users, q)
        return rejected(np.bincount(noise.ravel(), minlength=2 * users + 1), mass * noise.size) and first == -users

    assert not rejects(0.1)
    assert rejects(0.17)
    assert rejects(0.055)


def test_a_mirrored_channel_reads_what_people_did_and_refuses_what_nobody_sends():
    channel = bits_channel(m=1, mirrored=True)
    batch = people(SMALL, 10, 1)
    bodies = [channel.encode(one, seeded(4)) for one in rows(batch)]
    assert {len(body) for body in bodies} == {channel.body_size} == {len(channel.encode(None, seeded(5)))}
    label = np.zeros(channel.body_size // channel.labels.itemsize, dtype=channel.labels)
    label[4:] = channel.spec.num_counters  # four times the first label: one data bit and two noise bits are three
    with pytest.raises(InvalidInput, match="at most 3 times"):
        channel.check(label.tobytes())
    plain = channel.to_dict()
    assert type(channel).from_dict(plain) == channel
    for other in (1, False, "true"):
        with pytest.raises(InvalidInput, match="mirrored must be"):
            type(channel).from_dict({**plain, "mirrored": other})
    assert "mirrored" not in bits_channel(m=1).to_dict()


@pytest.mark.statistical
@pytest.mark.parametrize("path", ["secure", "counts"])
@pytest.mark.parametrize("query", [TOTALS, EVERYTHING])
def test_s5_what_is_read_is_unbiased_with_the_stated_variance(path, query):
    """Mean and covariance of released minus exact, at 1e-6 over all entries together."""
    channel, batch = bits_channel(query=query), people(SMALL, 9, 2)
    counts = count_trajectories(batch, 2, 2)
    source = noises(5)[path] if path == "secure" else seeded(5)
    errors = []
    for _ in range(ROUNDS):
        if path == "secure":
            bodies = [channel.encode(one, source) for one in rows(batch)]
            _, payload = channel.release(channel.begin_secret(), bodies, query, source)
        else:
            _, payload = channel.simulate(channel.begin_secret(), counts, query, source)
        assert len(payload) == 8 * channel.spec.num_counters
        _, private = channel.read(channel.begin_memory(), payload, 9)
        found = private.statistics
        assert found.users.tolist() == [9]
        assert private.claim == channel.claim
        errors.append([(found.transitions - counts.transitions)[0].ravel(), (found.rewards - counts.rewards).ravel()])
    noise = np.array([np.concatenate(parts) for parts in errors])
    stated = np.repeat(found.variance[[0, 2]], [8, 8])
    entries = noise.shape[1]
    z = stats.norm.isf(FALSE_ALARM / 2 / entries)
    assert np.abs(noise.mean(axis=0)).max() < z * np.sqrt(stated.max() / ROUNDS)
    assert stats.chi2(ROUNDS * entries).cdf((noise**2 / stated).sum()) == pytest.approx(0.5, abs=0.5 - FALSE_ALARM)
    correlation = np.corrcoef(noise, rowvar=False) - np.eye(entries)
    assert np.abs(correlation).max() < stats.norm.isf(FALSE_ALARM / entries**2) / math.sqrt(ROUNDS - 3)


@pytest.mark.parametrize(
    "query", [EVERYTHING, BatchQuery(layer=0, failure_prob=0.1), BatchQuery(layer=None, failure_prob=0.1)]
)
def test_a_simulation_runs_the_very_stages(query):
    """The same seed, report by report: bit for bit, consistent counts included."""
    basis = shuffle_basis(SMALL, least=Fraction(1), overflow=0.0)
    channel = basis.release_of(StageSize(target=60, least=60, query=query))
    planned = Staged(channels=(), basis=basis, batches=()).planned([PlannedBatch(users=60, query=query)])
    batch = people(SMALL, 60, 4, rewards=0.3)
    _, wanted = planned.release(planned.begin(), batch, query, seeded(6))
    _, payload = channel.simulate(channel.begin_secret(), batch, query, seeded(6))
    _, found = channel.read(channel.begin_memory(), payload, 60)
    for mine, theirs in zip(found.statistics, wanted.statistics, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("staged", [True, False])
def test_running_totals_add_up_in_memory(staged):
    shape = replace(SMALL, staged=staged)
    basis = shuffle_basis(shape, asks=Totals, least=Fraction(1), overflow=0.0, users=50)
    channel = basis.release_of(StageSize(target=50, least=50, query=TOTALS))
    memory, noise, sums = channel.begin_memory(), seeded(7), np.zeros(channel.spec.num_counters)
    for seed in range(3):
        counts = count_trajectories(people(shape, 50, seed), 2, 2)
        _, payload = channel.simulate(channel.begin_secret(), counts, TOTALS, noise)
        memory, found = channel.read(memory, payload, 50)
        sums += histogram(payload) - 50 * channel.bits_per_user * float(channel.probability)
    wanted = channel.spec.arrays(sums)
    for name in ("transitions", "visits", "rewards"):
        whole = getattr(wanted, name) if staged else getattr(wanted, name).sum(axis=0, keepdims=True)
        np.testing.assert_allclose(getattr(found.statistics, name), whole, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.statistics.variance, 3 * np.square([*channel.noise_std().values()]))
    assert found.statistics.users.tolist() == [150]


def test_s7_fewer_than_least_are_never_released_and_more_than_wanted_are_refused():
    channel, source = bits_channel(), seeded(1)
    bodies = [channel.encode(one, source) for one in rows(people(SMALL, 11, 3))]
    counts = count_trajectories(people(SMALL, 7, 3), 2, 2)
    secret = channel.begin_secret()
    for few in (0, 1, 7):
        with pytest.raises(PrivacyViolation, match="needs 8"):
            channel.release(secret, bodies[:few], EVERYTHING, source)
    with pytest.raises(PrivacyViolation, match="needs 8"):
        channel.simulate(secret, counts, EVERYTHING, source)
    with pytest.raises(InvalidInput, match="at most the 10"):
        channel.release(secret, bodies, EVERYTHING, source)
    with pytest.raises(InvalidInput, match="asks for"):
        channel.release(secret, bodies[:9], BatchQuery(layer=0, failure_prob=None), source)
    _, payload = channel.release(secret, bodies[:9], EVERYTHING, source)
    for wrong in (7, 11):
        with pytest.raises((InvalidInput, PrivacyViolation)):
            channel.read(channel.begin_memory(), payload, wrong)


@pytest.mark.parametrize("source", ["secure", "simulation"])
def test_s7_a_cover_report_has_the_length_of_a_report_and_adds_nothing(source):
    channel = bits_channel(q=SILENT)
    noise = noises(8)[source]
    empty = channel.encode(None, noise)
    channel.check(empty)
    assert len(empty) == len(channel.encode(rows(people(SMALL, 1, 1))[0], noise)) == channel.body_size
    batch = people(SMALL, 4, 5)
    bodies = [channel.encode(one, noise) for one in rows(batch)] + [empty] * 6
    _, payload = channel.release(channel.begin_secret(), bodies, EVERYTHING, noise)
    np.testing.assert_array_equal(histogram(payload), exact_sums(channel, batch))


@pytest.mark.parametrize("replaced", [1, 2, 5])
@pytest.mark.parametrize(
    "query", [EVERYTHING, BatchQuery(layer=0, failure_prob=None), BatchQuery(layer=1, failure_prob=None)]
)
def test_s6_replaced_reports_change_no_more_than_is_certified(query, replaced):
    """With noise that never shows, over `replaced` stages with one report each: attained, and never exceeded."""
    channel = bits_channel(query=query, q=SILENT)
    up, down = (sum(getattr(family, side) for family in channel.families()) for side in ("up", "down"))
    rng, reached = np.random.default_rng(9), 0
    for trial in range(40):
        ups, downs = 0, 0
        for stage in range(replaced):
            batch = rows(people(SMALL, 8, 100 * trial + stage))
            other = rows(people(SMALL, 1, rng.integers(10**6)))[0] if trial % 2 else next(extreme(SMALL))
            before, after = (
                histogram(
                    channel.release(
                        channel.begin_secret(), [channel.encode(one, seeded(1)) for one in those], query, seeded(1)
                    )[1]
                )
                for those in (batch, [*batch[:-1], other])
            )
            change = after - before
            assert np.abs(change).max() <= 1
            ups, downs = ups + int((change > 0).sum()), downs + int((change < 0).sum())
        assert ups <= replaced * up
        assert downs <= replaced * down
        reached = max(reached, ups + downs)
    assert reached == replaced * (up + down) or replaced == 5


@pytest.mark.parametrize(
    "query", [EVERYTHING, BatchQuery(layer=2, failure_prob=0.05), BatchQuery(layer=5, failure_prob=None)]
)
def test_events_are_those_of_the_noise_calibrated_at_least(query):
    basis = shuffle_basis(overflow=0.0)
    channel = basis.release_of(StageSize(target=1000, least=900, query=query))
    wanted = least_bit_noise(channel.families(), epsilon=1.0, delta=1e-6, users=900)
    assert channel.events() == wanted.events(channel.families())
    full = epsilon_of(channel.events_at(1000), 1e-6)
    assert full < epsilon_of(channel.events(), 1e-6) <= 1.0
    assert basis.batch_std(1000, query) == pytest.approx(wanted.total.std * math.sqrt(10 / 9), rel=1e-9)
    with pytest.raises(PrivacyViolation, match="needs 900"):
        channel.events_at(899)
    with pytest.raises(InvalidInput, match="at most the 1000"):
        channel.events_at(1001)


def test_an_honest_share_counts_on_fewer_devices():
    basis = shuffle_basis(overflow=0.0, honest_fraction=0.8)
    channel = basis.release_of(StageSize(target=1000, least=900, query=EVERYTHING))
    assert channel.honest == 720
    (event, _), *_ = channel.events()
    assert event.bits == 720 * channel.bits_per_user
    (event, _), *_ = channel.events_at(950)
    assert event.bits == 760 * channel.bits_per_user


@pytest.mark.parametrize("reports", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_stages_of_several_sizes_keep_the_claim_of_a_returning_person(reports):
    """Whatever stages a person reports in: their worst choice, found by comparing all, is within epsilon."""
    basis = shuffle_basis(SMALL, reports=reports)
    queries = (EVERYTHING, BatchQuery(layer=0, failure_prob=None))
    sizes = [StageSize(target=n, least=basis.least_of(n), query=query) for n in (300, 1000, 4000) for query in queries]
    channels = basis.channels(sizes)
    found = epsilon_of(basis.exposure(channels, reports), 1e-6)
    assert 0.995 < found <= 1.0
    for chosen in itertools.combinations(channels, reports):
        events = tuple(pair for channel in chosen for pair in channel.events())
        assert epsilon_of(events, 1e-6) <= found


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 1e-9), (12.0, 1e-6), (1.0, 1e-12)])
def test_overflowing_blocks_are_paid_for_and_shorten_reports(epsilon, delta):
    small, whole = (shuffle_basis(epsilon=epsilon, delta=delta, overflow=p) for p in (None, 0.0))
    stage = StageSize(target=1000, least=900, query=EVERYTHING)
    channel, other = small.release_of(stage), whole.release_of(stage)
    slack, count = channel.events()[-1]
    assert (type(slack), count, slack.tv) == (ApproximationEvent, 1, float(channel.overflow))
    assert slack.tv == 1e-10 or slack.tv < 1e-10 < delta * 1e6
    assert float(slack.slack()[0]) <= 0.0101 * delta
    # As much as the privatizer of the same delta would charge, and no more noise than a hundredth of delta costs.
    assert epsilon_of(channel.events(), delta) <= epsilon
    assert epsilon_of(channel.events(), delta) == pytest.approx(epsilon_of(other.events(), delta), rel=0.01)
    assert small.batch_std(1000, EVERYTHING) <= 1.001 * whole.batch_std(1000, EVERYTHING)
    assert channel.body_size < other.body_size
    # No sooner: one slot fewer would overflow too often.
    transport = channel.transport
    sure = transport.noise_bits - transport.rare_bits  # room for mirrored bits is always kept
    assert (sure > 0) == channel.mirrored == (epsilon > 3.0)
    tail = binomial_tail(channel.block - sure - 1, transport.rare_bits, float(channel.probability))
    assert 1000 * tail > channel.overflow


@pytest.mark.parametrize("reports", [2, 5])
def test_several_reports_cost_noise_as_their_square_root(reports):
    one, several = shuffle_basis(), shuffle_basis(reports=reports)
    ratio = several.batch_std(1000, EVERYTHING) / one.batch_std(1000, EVERYTHING)
    assert ratio == pytest.approx(math.sqrt(reports), rel=0.02)
    stages = [StageSize(target=1000, least=900, query=EVERYTHING)] * 7
    channels = several.channels(stages)
    assert 0.99 < epsilon_of(several.exposure(channels, reports), 1e-6) <= 1.0
    assert epsilon_of(several.exposure(channels, reports + 1), 1e-6) > 1.0


def test_a_channel_survives_its_file_and_nothing_else_does():
    basis = shuffle_basis(SMALL)
    for query in (EVERYTHING, BatchQuery(layer=0, failure_prob=0.1)):
        channel = basis.release_of(StageSize(target=100, least=90, query=query))
        plain = json.loads(json.dumps(channel.to_dict(), allow_nan=False))
        assert channel_from_dict(plain) == channel
        assert CHANNELS[channel.KIND].from_dict(plain).events() == channel.events()
    refused = 0
    for wrong in tampered(plain):
        try:
            found = channel_from_dict(wrong)
        except InvalidInput:
            refused += 1
        else:
            assert found != channel
            assert found.to_dict() == wrong  # another channel, well-formed and as it was written
    assert refused > 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"least": 1, "honest": 1},
        {"honest": 91},
        {"least": 101},
        {"probability": [1, 3]},
        {"probability": [3, 4]},
        {"bits_per_user": 0},
        {"block": 5},
        {"overflow": [1, 1]},
        {"messages": "every-bit"},
        {"kind": "local"},
    ],
)
def test_a_file_with_noise_that_nobody_can_draw_is_refused(wrong):
    plain = shuffle_basis(SMALL, overflow=0.0).release_of(StageSize(target=100, least=90, query=EVERYTHING)).to_dict()
    with pytest.raises(InvalidInput):
        channel_from_dict(plain | wrong)


@pytest.mark.parametrize("source", ["secure", "simulation"])
def test_g3_every_body_has_one_length_whatever_a_person_did(source):
    noise = noises(10)[source]
    for channel in (bits_channel(), bits_channel(query=TOTALS, shape=replace(SMALL, staged=False))):
        for one in [*extreme(SMALL), *rows(people(SMALL, 5, 1)), *rows(people(SMALL, 5, 1, rewards=0.5))]:
            body = channel.encode(one, noise)
            channel.check(body)
            assert len(body) == channel.body_size


def test_g3_a_block_that_overflows_adds_whole_blocks_and_loses_nothing():
    whole, short = bits_channel(), bits_channel(block=20, overflow=0.5)
    one, labels = rows(people(SMALL, 1, 3))[0], short.labels.itemsize
    bodies = {seed: short.encode(one, seeded(seed)) for seed in range(60)}
    longer = {seed for seed, body in bodies.items() if len(body) > short.body_size}
    assert 0 < len(longer) < 30
    assert all(len(bodies[seed]) == short.body_size + 20 * labels for seed in longer)
    chosen = [*sorted(longer)[:1], *(seed for seed in range(8) if seed not in longer)][:8]
    sent = [[channel.encode(one, seeded(seed)) for seed in chosen] for channel in (short, whole)]
    released = [
        channel.release(channel.begin_secret(), mine, EVERYTHING, seeded(0))[1]
        for channel, mine in zip((short, whole), sent, strict=True)
    ]
    assert released[0] == released[1]


def test_g5_malformed_bodies_are_refused_without_a_word_about_their_labels():
    channel = bits_channel(q=SILENT)
    C, m = channel.spec.num_counters, channel.bits_per_user
    good = np.frombuffer(channel.encode(rows(people(SMALL, 1, 1))[0], seeded(1)), dtype=channel.labels)
    beyond, unsorted, stuffed = good.copy(), good[::-1].copy(), np.full(len(good), C, dtype=channel.labels)
    beyond[-1] = C + 7
    stuffed[: m + 2] = 17
    for wrong in (good[:-1], np.append(good, [C]), beyond, unsorted, stuffed, good[:0]):
        with pytest.raises(InvalidInput) as refused:
            channel.check(wrong.astype(channel.labels).tobytes())
        assert "17" not in str(refused.value)
        assert str(C + 7) not in str(refused.value)
    with pytest.raises(InvalidInput):
        channel.check(good.tobytes()[:-1])
    stuffed[m + 1] = C
    channel.check(stuffed.tobytes())


def test_a_payload_that_nobody_can_have_sent_is_not_read():
    channel = bits_channel()
    C = channel.spec.num_counters
    good = np.zeros(C, dtype="<i8")
    channel.read(channel.begin_memory(), good.tobytes(), 8)
    negative, large = good.copy(), good.copy()
    negative[3], large[3] = -1, 8 * 3 + 1
    for wrong in (negative.tobytes(), large.tobytes(), good.tobytes()[:-8], good.tobytes() + b"\0"):
        with pytest.raises(InvalidInput):
            channel.read(channel.begin_memory(), wrong, 8)


def test_many_counters_take_longer_labels():
    wide = CountShape(horizon=2, num_states=150, num_actions=3, staged=True)
    assert bits_channel(wide, BatchQuery(layer=1, failure_prob=None), q=SILENT).labels.itemsize == 2
    assert bits_channel(wide, q=SILENT).labels.itemsize == 4


def test_what_cannot_be_offered_is_refused():
    with pytest.raises(NotSupported, match="delta"):
        shuffle_basis(delta=0.0)
    with pytest.raises(InvalidInput, match="least"):
        shuffle_basis(least=Fraction(11, 10))
    with pytest.raises(InvalidInput, match="least"):
        shuffle_basis(least=0.9)
    with pytest.raises(InvalidInput, match="batch_std"):
        shuffle_basis().noise_std()
