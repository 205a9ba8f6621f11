"""Channels of running totals and of local messages over a declared support: what they count, by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from central_tools import central_claim
from channel_tools import bits_channel, local_channel, noises, people, rows

from tacit.data.trajectories import Trajectory
from tacit.noise.layout import slot_bits, slot_cells
from tacit.noise.support_index import slots_of
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.registry import channel_from_dict
from tacit.release.totals_release import TotalsPlan
from tacit.released.counts import CountShape
from tacit.statistics.count_vectors import dimension_of
from tacit.support import Support

SUPPORT = Support(
    moves=[
        [[[1, 1, 0], [0, 1, 0]], [[0, 1, 1], [1, 1, 1]], [[0, 0, 1], [0, 0, 1]]],
        [[[1, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]],
        [[[1, 1, 0], [0, 1, 0]], [[0, 1, 1], [1, 1, 1]], [[0, 0, 1], [0, 0, 1]]],
    ],
    horizon=3,
    starts=[1, 1, 0],
    rewards=[[1, 0], [0, 1], [0, 0]],
)
"""Steps of their own, rows with one successor (at some steps, or at all), a late state, pairs that earn nothing."""
STAGED = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=SUPPORT)
SHAPES = {"apart": STAGED, "pooled": replace(STAGED, staged=False)}
WALKS = list(product(product(range(3), repeat=3), ((0, 0, 1), (1, 0, 1)), ((1.0, 1.0, 0.0), (0.0, 1.0, 1.0))))
LARGE = 300.0
"""At this epsilon nothing is flipped, left out or added."""


def possible(shape):
    """(rows within reach, rows that pay, what can follow a row) by stage, one step after the other."""
    stages = range(shape.horizon if shape.staged else 1)
    reach, pays, led = ([set() for _ in stages] for _ in range(3))
    here = {s for s in range(3) if SUPPORT.starts[s]}
    for h in range(3):
        k, after = (h if shape.staged else 0), set()
        for s, a in product(here, range(2)):
            reach[k].add((s, a))
            if SUPPORT.rewards[0, s, a]:
                pays[k].add((s, a))
            if h < 2:
                led[k] |= {(s, a, t) for t in range(3) if SUPPORT.moves[h, s, a, t]}
            after |= {t for t in range(3) if SUPPORT.moves[h, s, a, t]}
        here = after
    return reach, pays, led


def by_hand(shape, walks):
    """Transitions, visits and rewards of people, one step at a time; sure rows follow from their visits."""
    reach, pays, led = possible(shape)
    N, V, R = (np.zeros((shape.stages, 3, 2, *more)) for more in ((3,), (), ()))
    for states, actions, rewards in walks:
        for h in range(3):
            k, row = (h if shape.staged else 0), (states[h], actions[h])
            if row in reach[k]:
                V[k][row] += 1.0
                R[k][row] += rewards[h] if row in pays[k] else 0.0
            if h < 2 and (*row, states[h + 1]) in led[k]:
                N[k][(*row, states[h + 1])] += 1.0
    for k, one in enumerate(led):
        for row in {move[:2] for move in one}:
            after = [move[2] for move in one if move[:2] == row]
            if len(after) == 1:
                N[k][(*row, after[0])] = V[k][row]
    return N, V, R


def trajectories(walks):
    return [Trajectory(np.array(s), np.array(a), np.array(r)) for s, a, r in walks]


def same(statistics, wanted, scale=1.0):
    for found, exact in zip((statistics.transitions, statistics.visits, statistics.rewards), wanted, strict=True):
        np.testing.assert_allclose(found / scale, exact, atol=1e-6)


@pytest.mark.parametrize("name", SHAPES)
def test_central_totals_are_those_of_the_support(name, monkeypatch):
    none = "tacit.release.curator.draw_noise"
    monkeypatch.setattr(none, lambda size, variance, noise: np.zeros(size, dtype=np.int64))
    shape, people_ = SHAPES[name], trajectories(WALKS)
    size = StageSize(target=len(WALKS), least=2, query=TOTALS)
    for mechanism in ("factorization", "batched"):
        basis = TotalsPlan(shape=shape, claim=central_claim(), releases=2, mechanism=mechanism)
        channels = basis.channels([size] * 2)
        assert channels[0].noise.size < TotalsPlan(
            shape=replace(shape, support=None), claim=central_claim(), releases=2, mechanism=mechanism
        ).channels([size])[0].noise.size  # fmt: skip
        secret, memory, seen = channels[0].begin_secret(), channels[0].begin_memory(), []
        for channel in channels:
            assert channel_from_dict(channel.to_dict()) == channel
            seen += WALKS
            bodies = [channel.encode(one, SecureNoise()) for one in people_]
            secret, payload = channel.release(secret, bodies, TOTALS, SecureNoise())
            memory, released = channel.read(memory, payload, len(bodies))
            same(released.statistics, by_hand(shape, seen))


def test_where_no_transition_has_a_counter_its_noise_is_that_of_visits():
    sure = Support(moves=[[[0, 1, 0]] * 2, [[0, 0, 1]] * 2, [[1, 0, 0]] * 2], horizon=3)
    for support, factor in ((sure, 2.0), (SUPPORT, 1.0)):
        shape = replace(STAGED, support=support)
        basis = TotalsPlan(shape=shape, claim=central_claim(), releases=1)
        channel = basis.channels([StageSize(target=2, least=2, query=TOTALS)])[0]
        bodies = [channel.encode(None, SecureNoise())] * 2
        _, payload = channel.release(channel.begin_secret(), bodies, TOTALS, SecureNoise())
        found = channel.read(channel.begin_memory(), payload, 2)[1].statistics.variance
        assert found[0] == pytest.approx(factor * found[2])
        assert found[0] == pytest.approx(channel.noise_std()["transitions"] ** 2)


@pytest.mark.parametrize("name", SHAPES)
def test_shuffled_totals_are_those_of_the_support(name):
    shape = SHAPES[name]
    channel = bits_channel(shape, TOTALS, target=len(WALKS), least=2, q=Fraction(1, 2**60))
    noise = SimulationNoise(np.random.default_rng(0))
    bodies = [channel.encode(one, noise) for one in trajectories(WALKS)]
    _, payload = channel.release(channel.begin_secret(), bodies, TOTALS, noise)
    found = channel.read(channel.begin_memory(), payload, len(bodies))[1].statistics
    if shape.staged:
        same(found, by_hand(shape, WALKS))
    else:  # devices report steps apart, and what they report is pooled afterwards
        same(found, [part.sum(axis=0, keepdims=True) for part in by_hand(STAGED, WALKS)])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("mechanism", ["rr", "laplace", "subset"])
def test_local_messages_are_those_of_the_support(mechanism, name):
    """Without noise every message is exact; one of each slot, where devices send a single one."""
    shape = SHAPES[name]
    channel = local_channel(mechanism, shape, epsilon=LARGE)
    assert channel.body_size < local_channel(mechanism, replace(shape, support=None), epsilon=LARGE).body_size
    noise = noises(1)
    for walk, source in zip(WALKS[::5], ("secure", "simulation") * len(WALKS), strict=False):
        one, sent, scale = trajectories([walk])[0], {}, 1.0
        if mechanism == "subset":
            scale = float(len(channel.wire.slots))
            while len(sent) < scale:
                body = channel.encode(one, noise[source])
                sent[body[0]] = body
        else:
            sent[0] = channel.encode(one, noise[source])
        bodies = sorted(sent.values())
        for body in bodies:
            channel.check(body)
        counts = channel.begin_memory().released
        channel.add(counts, channel.wire.total(bodies))
        same(counts, by_hand(shape, [walk]), scale)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("mechanism", ["subset", "oue", "rr", "laplace", "gaussian"])
def test_a_wire_reads_what_the_privatizer_reads(mechanism, name):
    """The same integers through the bytes and through the mechanism itself; covers and any life have one length."""
    shape = SHAPES[name]
    channel = local_channel(mechanism, shape, delta=1e-6 if mechanism == "gaussian" else 0.0)
    assert channel_from_dict(channel.to_dict()) == channel
    lengths, outcome, transition = set(), channel.outcome, channel.transition
    for number, one in enumerate([None, *rows(people(shape, 12, 3)), *trajectories(WALKS[:12])]):
        body = channel.encode(one, noises(number)[("secure", "simulation")[number % 2]])
        channel.check(body)
        lengths.add(len(body))
        expected = np.zeros(dimension_of(shape))
        if mechanism in ("subset", "oue"):
            slot, bits = body[0], np.unpackbits(np.frombuffer(body[1:], dtype=np.uint8), bitorder="little")
            cells = slot_cells(shape, slot)
            own = transition if slot % 2 else outcome
            expected[cells] = own.debias(bits[: len(cells)].astype(np.int64), 1)
        elif mechanism == "rr":
            bits, used = np.unpackbits(np.frombuffer(body, dtype=np.uint8), bitorder="little").astype(np.int64), 0
            for slot in map(int, slots_of(shape)):
                cells, own = slot_cells(shape, slot), transition if slot % 2 else outcome
                expected[cells] += own.debias(bits[used : used + len(cells)], 1)
                used += slot_bits(shape, slot)
            assert used == channel.wire.bits
        else:
            expected[:] = np.frombuffer(body, dtype=channel.wire._type)
        np.testing.assert_allclose(channel.wire.total([body]), expected)
    assert lengths == {channel.body_size}
