"""The local channel: the law of every message form, what is read from it, what it refuses."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from channel_tools import (
    FALSE_ALARM,
    SHAPE,
    SMALL,
    extreme,
    local_channel,
    local_plan,
    noises,
    people,
    rejected,
    request_of,
    rows,
    tampered,
)
from scipy import stats

from tacit.accounting.claims import PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectory
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.layout import exact_vector, slot_cells
from tacit.noise.support_index import places_of
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.codecs import IntegersCodec, SlotCodec
from tacit.release.contract import StageSize
from tacit.release.local import unfolded
from tacit.release.registry import channel_from_dict
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, empty_counts

TINY = CountShape(horizon=2, num_states=2, num_actions=1, staged=True)
"""Three slots of four cells each."""
ONE = Trajectory(np.array([0, 1, 0]), np.array([0, 0]), np.array([1.0, 0.0]))
DELTAS = {"subset": 0.0, "oue": 0.0, "rr": 0.0, "laplace": 0.0, "gaussian": 1e-6}
MECHANISMS = tuple(DELTAS)
SOURCES = ("secure", "simulation")


def seeded(seed):
    return SimulationNoise(np.random.default_rng(seed))


def channel_of(mechanism, shape=SMALL, **more):
    return local_channel(mechanism, shape, delta=DELTAS[mechanism], **more)


def sent_integers(channel, body):
    """The integers in a body, taken apart here on its own."""
    shape, wire = channel.shape, channel.wire
    if isinstance(wire, IntegersCodec):
        width = len(body) // channel.dimension
        return np.frombuffer(body, dtype=f"<i{width}").astype(np.int64)
    bits = [int(byte) >> place & 1 for byte in body for place in range(8)]
    SA = shape.num_states * shape.num_actions
    if isinstance(wire, SlotCodec):
        cells = SA * shape.num_states if body[0] % 2 else 2 * SA
        return np.array([body[0], *bits[8 : 8 + cells]], dtype=np.int64)
    vectors = shape.horizon * 2 * SA + (shape.horizon - 1) * SA * shape.num_states
    return np.array(bits[:vectors], dtype=np.int64)


def message_of(channel, sent):
    """The unbiased message of one device: every bit de-biased by itself, in the cells of its slot."""
    shape, message = channel.shape, np.zeros(channel.dimension)
    if isinstance(channel.wire, IntegersCodec):
        return sent.astype(float)
    one_slot, used = isinstance(channel.wire, SlotCodec), 0
    for slot in [int(sent[0])] if one_slot else range(2 * shape.horizon - 1):
        own = channel.transition if slot % 2 else channel.outcome
        cells = slot_cells(shape, slot)
        bits = sent[1:] if one_slot else sent[used : used + len(cells)]
        for cell, bit in zip(cells, bits, strict=True):
            message[cell] += float(own.debias(bit))
        used += len(cells)
    return message


def slot_law(channel, cells=(0, 1, 3)):
    """P(body) of the one-slot messages of ONE, or of other true cells: every slot alike, then true cell and others."""
    law = {}
    for slot, hot in enumerate(cells):  # of ONE: (s=0, r=1); 0 to 1; (s=1, r=0)
        mechanism = channel.transition if slot % 2 else channel.outcome
        for bits in itertools.product((0, 1), repeat=4):
            if channel.outcome.NAME == "oue":
                p = [mechanism.keep if i == hot else mechanism.rise for i in range(4)]
                mass = math.prod(p[i] if bits[i] else 1 - p[i] for i in range(4))
            elif sum(bits) == mechanism.size:
                k = mechanism.size
                mass = mechanism.keep / math.comb(3, k - 1) if bits[hot] else (1 - mechanism.keep) / math.comb(3, k)
            else:
                continue
            law[bytes([slot, sum(bit << i for i, bit in enumerate(bits))])] = mass / 3
    return law


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mechanism", ["subset", "oue"])
def test_g2_messages_of_one_slot_have_their_law(mechanism, source):
    """Chi-square over all messages, false-alarm rate 1e-6; the law at an epsilon of 1.2 for 2 is rejected."""
    channel, other = (channel_of(mechanism, TINY, epsilon=epsilon) for epsilon in (2.0, 1.2))
    noise, draws = noises(1)[source], 2500
    found = Counter(channel.encode(ONE, noise) for _ in range(draws))
    law, wrong = slot_law(channel), slot_law(other)
    assert sum(law.values()) == pytest.approx(1.0)
    assert set(found) <= set(law)
    observed = [found[body] for body in law]
    assert not rejected(observed, np.array([*law.values()]) * draws)
    assert rejected(observed, np.array([wrong[body] for body in law]) * draws)


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES)
def test_g2_randomized_response_flips_every_bit_alike_and_independently(source):
    channel, noise, draws = channel_of("rr", TINY, epsilon=6.0), noises(2)[source], 2000
    flip = channel.outcome.flip
    exact = np.zeros(12, dtype=int)
    exact[[0, 4 + 1, 8 + 3]] = 1
    flips = np.array([sent_integers(channel, channel.encode(ONE, noise)) for _ in range(draws)]) ^ exact
    z = stats.norm.isf(FALSE_ALARM / 24)
    assert np.abs(flips.mean(axis=0) - flip).max() < z * math.sqrt(flip * (1 - flip) / draws)
    assert not rejected(np.bincount(flips.sum(axis=1), minlength=13), stats.binom(12, flip).pmf(np.arange(13)) * draws)
    assert rejected(
        np.bincount(flips.sum(axis=1), minlength=13), stats.binom(12, flip * 1.5).pmf(np.arange(13)) * draws
    )


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_g2_integers_have_discrete_noise(mechanism, source):
    channel, noise, draws = channel_of(mechanism, TINY, epsilon=4.0), noises(3)[source], 900
    exact = np.zeros(channel.dimension)
    exact_vector(places_of(channel.shape), exact, 2, 2, 1, True, ONE.states, ONE.actions, ONE.rewards)
    drawn = np.array([sent_integers(channel, channel.encode(ONE, noise)) for _ in range(draws)]) - exact.astype(int)
    size = channel.outcome.parameters.scale
    z = np.arange(-int(60 * size), int(60 * size) + 1)

    def law(scale):
        exponent = np.abs(z) / scale if mechanism == "laplace" else z**2 / (2 * scale**2)
        weights = np.exp(-exponent)
        return weights / weights.sum() * drawn.size

    observed = np.bincount((drawn - z[0]).ravel(), minlength=len(z))
    assert not rejected(observed, law(size))
    assert rejected(observed, law(0.75 * size))
    correlation = np.corrcoef(drawn, rowvar=False) - np.eye(drawn.shape[1])
    assert np.abs(correlation).max() < stats.norm.isf(FALSE_ALARM / drawn.shape[1] ** 2) / math.sqrt(draws - 3)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_read_is_the_sum_of_the_messages(mechanism, staged):
    shape = replace(SMALL, horizon=3, staged=staged)
    channel, batch = channel_of(mechanism, shape, target=200), people(shape, 150, 4, rewards=0.4)
    _, payload = channel.simulate(channel.begin_secret(), batch, TOTALS, seeded(5))
    size = channel.body_size
    bodies = [payload[i : i + size] for i in range(0, len(payload), size)]
    assert bodies == sorted(bodies)
    wanted = empty_counts(shape)
    for body in bodies:
        channel.add(wanted, message_of(channel, sent_integers(channel, body)))
    wanted.variance[:] += 150 * channel.variance
    wanted.users[:] = 150
    _, found = channel.read(channel.begin_memory(), payload, 150)
    for mine, theirs in zip(found.statistics, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-7)
    assert found.claim == channel.claim


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_g3_a_payload_does_not_depend_on_who_came_first(mechanism):
    channel = channel_of(mechanism, target=50)
    bodies = [channel.encode(one, seeded(i)) for i, one in enumerate(rows(people(SMALL, 50, 6)))]
    back = bodies[::-1]
    payloads = [channel.release(channel.begin_secret(), those, TOTALS, seeded(0))[1] for those in (bodies, back)]
    assert payloads[0] == payloads[1]
    reads = [channel.read(channel.begin_memory(), payload, 50)[1].statistics for payload in payloads]
    assert all(one.tobytes() == other.tobytes() for one, other in zip(*reads, strict=True))
    first, last = payloads[0][: channel.body_size], payloads[0][-channel.body_size :]
    assert first != last
    swapped = last + payloads[0][channel.body_size : -channel.body_size] + first
    with pytest.raises(InvalidInput, match="sorted"):
        channel.read(channel.begin_memory(), swapped, 50)


@pytest.mark.statistical
@pytest.mark.parametrize("given", ["trajectories", "counts"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_s5_totals_are_unbiased_with_at_most_the_stated_variance(mechanism, given):
    """At 1e-6 over all entries; additive noise and randomized response attain the stated variance."""
    channel, batch, rounds = channel_of(mechanism, target=40), people(SMALL, 40, 7), 60
    exact = count_trajectories(batch, 2, 2)
    users, source, errors = batch if given == "trajectories" else exact, seeded(8), []
    for _ in range(rounds):
        _, payload = channel.simulate(channel.begin_secret(), users, TOTALS, source)
        found = channel.read(channel.begin_memory(), payload, 40)[1].statistics
        assert found.users.tolist() == [40]
        errors.append([*(found.transitions - exact.transitions)[0].ravel(), *(found.rewards - exact.rewards).ravel()])
    noise = np.array(errors)
    stated = np.repeat(found.variance[[0, 2]], [8, 8])
    entries = noise.size // rounds
    z = stats.norm.isf(FALSE_ALARM / 2 / entries)
    assert np.abs(noise.mean(axis=0) / np.sqrt(stated / rounds)).max() < z
    spread = (noise**2 / stated).mean()
    # Entries of a subset depend on each other; sixty rounds of sixteen counters of forty people are Gaussian enough.
    margin = z * math.sqrt(3.0 / noise.size)
    assert spread < 1.0 + margin
    if channel.outcome.sampling_variance == 0.0:
        assert spread > 1.0 - margin


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_s7_a_cover_report_looks_like_a_report_and_counts_for_nobody(mechanism, source):
    """It estimates zero everywhere; a subset, which cannot, a person spread evenly over the cells of every slot."""
    channel, noise, draws = channel_of(mechanism, TINY, epsilon=6.0, target=900), noises(9)[source], 900
    bodies = [channel.encode(None, noise) for _ in range(draws)]
    assert {len(body) for body in bodies} == {len(channel.encode(ONE, noise))} == {channel.body_size}
    for body in bodies[:20]:
        channel.check(body)
    _, payload = channel.release(channel.begin_secret(), bodies, TOTALS, noise)
    found = channel.read(channel.begin_memory(), payload, draws)[1].statistics
    share = 0.25 if mechanism == "subset" else 0.0
    z = stats.norm.isf(FALSE_ALARM / 16)
    cells = np.concatenate([found.transitions[0].ravel(), found.rewards.ravel()])
    stated = np.repeat(found.variance[[0, 2]], [4, 4])
    assert np.abs((cells - share * draws) / np.sqrt(stated)).max() < z


def test_s7_any_number_of_messages_from_least_on_is_released():
    channel = channel_of("subset", target=5, least=3)
    bodies = [channel.encode(one, seeded(1)) for one in rows(people(SMALL, 6, 1))]
    for few in (0, 2):
        with pytest.raises(PrivacyViolation, match="needs 3"):
            channel.release(channel.begin_secret(), bodies[:few], TOTALS, seeded(1))
    with pytest.raises(InvalidInput, match="at most the 5"):
        channel.release(channel.begin_secret(), bodies, TOTALS, seeded(1))
    with pytest.raises(InvalidInput, match="running totals"):
        channel.release(channel.begin_secret(), bodies[:4], BatchQuery(layer=None, failure_prob=None), seeded(1))
    _, payload = channel.release(channel.begin_secret(), bodies[:4], TOTALS, seeded(1))
    assert len(payload) == 4 * channel.body_size
    assert channel.CHARGED_AT == "open"


SILENT_NOISE = {"laplace": Laplace(scale=1e-3, discrete=True), "gaussian": Gaussian(sigma=1e-3, discrete=True)}


@pytest.mark.parametrize("replaced", [1, 2, 5])
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("mechanism", SILENT_NOISE)
def test_s6_replaced_reports_change_counts_by_no_more_than_is_certified(mechanism, replaced, staged):
    """With noise that never shows: g messages move g times what one does, and some pair attains it."""
    shape = replace(SMALL, horizon=3, staged=staged)
    channel = channel_of(mechanism, shape, target=8)
    silent = SILENT_NOISE[mechanism]
    channel = replace(channel, outcome=silent, transition=silent)
    # One message moves by at most the L1 or L2 distance of one report, and each of the g messages by as much.
    distance = (lambda moved: np.abs(moved).sum()) if mechanism == "laplace" else (lambda moved: (moved**2).sum())
    parts = [family.l1 if mechanism == "laplace" else family.l2_squared for family in channel.families()]
    most, largest = sum(parts), 0.0
    sitting = [Trajectory(np.full(4, s), np.full(3, s), np.full(3, float(s))) for s in (0, 1)]
    for trial in range(30):
        before = rows(people(shape, 8, trial)) if trial else [sitting[0]] * 8
        after = [*(rows(people(shape, 8, 99 - trial)) if trial else [sitting[1]] * 8)[:replaced], *before[replaced:]]
        sent = [
            np.array([sent_integers(channel, channel.encode(one, seeded(1))) for one in those])
            for those in (before, after)
        ]
        moved = [float(distance(change)) for change in sent[1] - sent[0]]
        assert max(moved) <= most
        assert moved[replaced:] == [0.0] * (8 - replaced)
        largest = max(largest, sum(moved))
    assert largest == replaced * most


def hot_cells(one):
    """The true cell of every slot of a trajectory of TINY: (s, r), s to s', (s, r)."""
    s, r = one.states, one.rewards
    return [2 * int(s[0]) + int(r[0] < 1), 2 * int(s[0]) + int(s[1]), 2 * int(s[1]) + int(r[1] < 1)]


@pytest.mark.parametrize("reports", [1, 2, 5])
@pytest.mark.parametrize("mechanism", ["subset", "oue"])
def test_s6_messages_of_one_slot_tell_apart_no_more_than_is_certified(mechanism, reports):
    """The likelihood ratio of g messages, over all pairs of people and all messages: at most e^epsilon, and attained.

    That `encode` has this law is tested above, for one person; the law of the others has their cells in its place.
    """
    channel = channel_of(mechanism, TINY, epsilon=2.0, reports=reports)
    assert hot_cells(ONE) == [0, 1, 3]
    everybody = [
        Trajectory(np.array([a, b, 0]), np.zeros(2, dtype=int), np.array([x, y]))
        for a, b, x, y in itertools.product((0, 1), (0, 1), (0.0, 1.0), (0.0, 1.0))
    ]
    laws = [slot_law(channel, hot_cells(one)) for one in everybody]
    worst = max(math.log(p[body] / q[body]) for p, q in itertools.product(laws, laws) for body in p)
    assert reports * worst <= 2.0 * (1.0 + 1e-9)
    assert reports * worst == pytest.approx(2.0)


@pytest.mark.parametrize("reports", [1, 2, 5])
def test_s6_flipped_bits_tell_apart_no_more_than_is_certified(reports):
    """Randomized response: the bits in which two people differ, times what one bit tells, times g messages."""
    channel = channel_of("rr", TINY, epsilon=2.0, reports=reports)
    silent = replace(channel.outcome, epsilon=60.0)
    exact = replace(channel, outcome=silent, transition=silent)
    everybody = [*rows(people(TINY, 60, 4)), *extreme(TINY)]
    bits = np.array([sent_integers(exact, exact.encode(one, seeded(1))) for one in everybody])
    differing = max(int((a != b).sum()) for a, b in itertools.combinations(bits, 2))
    flip = channel.outcome.flip
    assert differing == 6
    assert reports * differing * math.log((1 - flip) / flip) == pytest.approx(2.0)


@pytest.mark.parametrize("mechanism", ["subset", "oue", "rr"])
def test_events_are_those_of_the_privatizer(mechanism):
    privatizer = make_privatizer(request_of("local", epsilon=1.0, delta=0.0, mechanism=mechanism))
    channel = channel_of(mechanism, SHAPE, epsilon=1.0)
    assert channel.events() == channel.events_at(7) == privatizer.events()
    assert (channel.outcome, channel.transition) == (privatizer.outcome, privatizer.transition)
    assert channel.noise_std() == privatizer.noise_std()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_on_the_integers_costs_what_continuous_noise_does(mechanism):
    privatizer = make_privatizer(request_of("local", epsilon=1.0, delta=DELTAS[mechanism], mechanism=mechanism))
    channel = channel_of(mechanism, SHAPE, epsilon=1.0)
    assert 0.999 < epsilon_of(channel.events(), DELTAS[mechanism]) <= 1.0
    for name, std in channel.noise_std().items():
        assert std <= 1.005 * privatizer.noise_std()[name]


@pytest.mark.parametrize("mechanism", ["subset", "oue", "rr"])
@pytest.mark.parametrize("epsilon", [36.0, 40.0, 300.0])
@pytest.mark.parametrize("source", SOURCES)
def test_g2_large_epsilons_are_pure_and_readable(mechanism, epsilon, source):
    channel = channel_of(mechanism, SMALL, epsilon=epsilon)
    assert epsilon_of(channel.events(), 0.0) <= epsilon
    batch, noise = people(SMALL, 10, 3), noises(4)[source]
    bodies = [channel.encode(one, noise) for one in rows(batch)]
    _, payload = channel.release(channel.begin_secret(), bodies, TOTALS, noise)
    found = channel.read(channel.begin_memory(), payload, 10)[1].statistics
    assert np.isfinite(found.visits).all()
    if mechanism == "subset":
        # One slot of three, in which nothing is hidden any more: whole multiples of three, ten people in all.
        np.testing.assert_allclose(found.rewards / 3.0, np.rint(found.rewards / 3.0), atol=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [("subset", 0.0), ("oue", 0.0), ("rr", 0.0), ("laplace", 0.0), ("subset", 1e-6), ("gaussian", 1e-6)],
)
@pytest.mark.parametrize("reports", [2, 5])
def test_several_messages_of_one_person_keep_the_claim_together(mechanism, delta, reports):
    basis = local_plan(mechanism, epsilon=1.0, delta=delta, reports=reports)
    channels = basis.channels([StageSize(target=9, least=1, query=TOTALS)] * (reports + 1))
    assert 0.99 < epsilon_of(basis.exposure(channels, reports), delta) <= 1.0
    assert epsilon_of(basis.exposure(channels, reports + 1), delta) > 1.0


@pytest.mark.slow
def test_the_quietest_mechanism_is_that_of_the_privatizer():
    for reports, epsilon, delta in ((1, 1.0, 0.0), (5, 1.0, 0.0), (1, 12.0, 0.0), (3, 0.5, 1e-6)):
        request = request_of("local", epsilon=epsilon, delta=delta, unit=PrivacyUnit(reports=reports, per_stage=1))
        basis = make_privatizer(replace(request, whole=True))
        assert basis.name == make_privatizer(request).name
        assert basis.events() == basis.exposure(
            basis.channels([StageSize(target=9, least=1, query=TOTALS)] * 9), reports
        )


def test_squares_are_sent_where_a_learner_needs_them():
    channel = local_channel("laplace", SMALL, squares=True, target=20)
    batch = people(SMALL, 20, 2, rewards=0.5)
    _, payload = channel.simulate(channel.begin_secret(), batch, TOTALS, seeded(3))
    assert len(payload) == 20 * 2 * channel.dimension
    found = channel.read(channel.begin_memory(), payload, 20)[1].statistics
    assert not np.array_equal(found.squares, found.rewards)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_channel_survives_its_file_and_nothing_else_does(mechanism):
    channel = channel_of(mechanism)
    plain = json.loads(json.dumps(channel.to_dict(), allow_nan=False))
    assert channel_from_dict(plain) == channel
    assert channel_from_dict(plain).events() == channel.events()
    assert channel_from_dict(plain).encode(ONE, seeded(1)) == channel.encode(ONE, seeded(1))
    refused = 0
    for wrong in tampered(plain):
        try:
            found = channel_from_dict(wrong)
        except InvalidInput:
            refused += 1
        else:
            assert found != channel
            assert found.to_dict() == wrong
    assert refused > 200


@pytest.mark.parametrize(
    ("mechanism", "part", "wrong"),
    [
        ("subset", "outcome", {"slots": 5}),
        ("subset", "outcome", {"feeding": 2}),
        ("subset", "transition", {"cells": 9}),
        ("subset", "transition", {"size": 8}),
        ("laplace", "outcome", {"discrete": False}),
        ("gaussian", "transition", {"discrete": False}),
        ("laplace", "outcome", {"scale": [1, 3]}),
        ("rr", "outcome", {"epsilon": [0, 1]}),
        ("rr", "outcome", {"epsilon": [-1, 1]}),
    ],
)
def test_a_file_with_noise_that_does_not_fit_is_refused(mechanism, part, wrong):
    plain = channel_of(mechanism).to_dict()
    with pytest.raises(InvalidInput):
        channel_from_dict(plain | {part: plain[part] | wrong})


def test_mechanisms_without_an_exact_integer_form_are_refused():
    with pytest.raises(InvalidInput, match="exact integer form"):
        local_channel("bounded", delta=1e-6)
    with pytest.raises(NotSupported, match="never pure"):
        local_channel("gaussian", delta=0.0)
    plain = channel_of("laplace").to_dict()
    with pytest.raises(InvalidInput, match="exact integer form"):
        channel_from_dict(plain | {"mechanism": "bounded"})


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_body_has_one_length_whatever_a_person_did(mechanism, source):
    channel, noise = channel_of(mechanism), noises(10)[source]
    for one in [*extreme(SMALL), *rows(people(SMALL, 4, 1)), *rows(people(SMALL, 4, 1, rewards=0.5)), None]:
        body = channel.encode(one, noise)
        channel.check(body)
        assert len(body) == channel.body_size


def test_a_subset_of_the_reference_instance_takes_five_bytes():
    sizes = {name: channel_of(name, SHAPE, epsilon=1.0).body_size for name in MECHANISMS}
    assert sizes == {"subset": 5, "oue": 5, "rr": 32, "laplace": 512, "gaussian": 512}


def test_malformed_messages_are_refused_without_a_word_about_their_bits():
    subset = channel_of("subset", TINY)
    good = subset.encode(ONE, seeded(1))
    slot, bits = good[0], good[1]
    for wrong in (
        b"",
        good[:-1],
        good + b"\0",
        bytes([7, bits]),
        bytes([slot, bits | 0x10]),
        bytes([slot, 0]),
        bytes([slot, 15]),
    ):
        with pytest.raises(InvalidInput) as refused:
            subset.check(wrong)
        told = str(refused.value).rpartition("got ")[2].strip("'")
        assert told in {"another", "some", "another number"} or int(told) == len(wrong) != subset.body_size
    response = channel_of("rr", TINY)
    body = response.encode(ONE, seeded(1))
    with pytest.raises(InvalidInput, match="zeros"):
        response.check(body[:-1] + bytes([body[-1] | 0x80]))
    integers = channel_of("laplace", TINY)
    body, far = integers.encode(ONE, seeded(1)), integers.wire.limit + 1
    with pytest.raises(InvalidInput, match="within") as refused:
        integers.check(far.to_bytes(2, "little") + body[2:])
    assert str(far) not in str(refused.value)
    integers.check((far - 1).to_bytes(2, "little") + body[2:])
    for mechanism in MECHANISMS:
        channel = channel_of(mechanism)
        with pytest.raises(InvalidInput, match="bytes"):
            channel.check(channel.encode(ONE._replace(), seeded(1)) + b"\0")
        with pytest.raises(InvalidInput, match="payload"):
            channel.read(channel.begin_memory(), b"\0" * (channel.body_size + 1), 1)


def test_people_drawn_from_counts_have_those_counts():
    batch = people(SHAPE, 300, 5)
    counts = count_trajectories(batch, 4, 2)
    again = count_trajectories(unfolded(counts, np.random.default_rng(1)), 4, 2)
    for name in ("transitions", "visits", "rewards", "starts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(counts, name))
    constant = replace(counts, rewards=0.25 * counts.visits, binary=False)
    assert np.all(unfolded(constant, np.random.default_rng(1)).rewards == 0.25)
    with pytest.raises(NotSupported, match="several policies"):
        unfolded(replace(counts, groups=(counts.starts,)), np.random.default_rng(1))
