"""Every secure path as a pair: what the library releases, and the same from recorded bytes, by slow means of its own.

The left side of a path calls production code with `SecureNoise`. The right side counts in Python loops and draws from
`recorded_bits.Recorded`, whose samplers are slow twins of the exact ones. Paths of channels are made for every kind of
`CHANNELS` and every mechanism of its registry: a new one without a twin here has no path, and a test says so.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from central_tools import central_claim
from channel_tools import SMALL, bits_channel, claim_of, local_channel, request_of
from recorded_bits import Recorded

from tacit.data.trajectories import FeatureUsers, LossUser, Trajectory
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise
from tacit.release.batch_release import BatchPlan
from tacit.release.contract import StageSize
from tacit.release.gradient_noise import GradientSpec
from tacit.release.gradient_release import GradientPlan, gradient_sums
from tacit.release.local import RANDOMIZERS
from tacit.release.loss_release import LossPlan
from tacit.release.registry import CHANNELS
from tacit.release.table import make_privatizer
from tacit.release.totals_release import MECHANISMS, TotalsPlan
from tacit.release.vectors import VectorPlan
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import GradientShape, SoftmaxQuery
from tacit.released.losses import LayeredShape, LossQuery, unrolled
from tacit.released.moments import MomentQuery, MomentShape
from tacit.released.returns import ReturnQuery
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.hpke import SecretKey, inner_info
from tacit.study import external_shuffle
from tacit.study.contract import left_out
from tacit.study.learning import deal
from tacit.study.sealed_batches import message_size
from tacit.study.trial import trial_bit

NOISE = SecureNoise()
POOLED = CountShape(horizon=3, num_states=2, num_actions=2, staged=False)
PEOPLE = 6
EVERYTHING = BatchQuery(layer=None, failure_prob=None)
MEANS = ReturnQuery(groups=(2, 4), bit="mean", level=2.0)


@dataclass(frozen=True)
class SecurePath:
    """What is released, and the same from recorded bytes."""

    name: str
    release: Callable[[], Any]
    replay: Callable[[Recorded], Any]


def lives(shape: Any, seed: int) -> list[Any]:
    """People with certain and with fractional rewards, one of them with values that no honest device has; covers."""
    rng, H = np.random.default_rng(seed), shape.horizon
    found: list[Any] = [
        Trajectory(rng.integers(0, shape.num_states, H + 1), rng.integers(0, shape.num_actions, H), rewards)
        for rewards in (np.zeros(H), np.ones(H), rng.random(H), np.full(H, 0.3))
    ]
    found.append(Trajectory(np.full(H + 1, 99), np.full(H, -5), np.full(H, np.nan)))
    return [*found, None]


def clipped(person: Any, shape: Any) -> tuple[list[int], list[int], list[float]]:
    states = [min(max(int(s), 0), shape.num_states - 1) for s in person.states]
    actions = [min(max(int(a), 0), shape.num_actions - 1) for a in person.actions]
    return states, actions, [0.0 if r != r else min(max(float(r), 0.0), 1.0) for r in person.rewards]


# ------------------------------------------------------------------------------------------------ bodies of a curator


def grid_levels(rewards: list[float], levels: int, bits: Recorded) -> list[int]:
    whole = [int(Fraction(r) * levels) for r in rewards]
    up = bits.each([float(Fraction(r) * levels - k) for r, k in zip(rewards, whole, strict=True)])
    return [k + coin for k, coin in zip(whole, up, strict=True)]


def walked(channel: Any, people: list[Any], bits: Recorded) -> list[tuple[list[int], list[int], list[int]]]:
    """States, actions and reward levels of everybody who is no cover."""
    found = []
    for person in people:
        if person is not None:
            states, actions, rewards = clipped(person, channel.shape)
            found.append((states, actions, grid_levels(rewards, channel.levels, bits)))
    return found


def little(values: list[int]) -> bytes:
    return b"".join(int(value).to_bytes(8, "little", signed=True) for value in values)


def totals_vector(shape: CountShape, rows: list[Any], levels: int) -> list[int]:
    """[transitions | rewards | complements] of one stage, in units of 1/levels."""
    S, A, H, stages = shape.num_states, shape.num_actions, shape.horizon, shape.stages
    hops = (H - 1) if shape.staged else 1
    moves, earned, missed = [0] * (hops * S * A * S), [0] * (stages * S * A), [0] * (stages * S * A)
    for states, actions, gains in rows:
        for h in range(H):
            layer = h if shape.staged else 0
            cell = (layer * S + states[h]) * A + actions[h]
            earned[cell] += gains[h]
            missed[cell] += levels - gains[h]
            if h < H - 1:
                moves[cell * S + states[h + 1]] += levels
    return [*moves, *earned, *missed]


def central_totals() -> Iterator[SecurePath]:
    for mechanism in (*MECHANISMS, None):
        for shape in (SMALL, POOLED):
            basis = TotalsPlan(shape=shape, claim=central_claim(2), releases=3, mechanism=mechanism)
            stages = [StageSize(target=PEOPLE, least=1, query=TOTALS)] * 3
            channels, crowds = basis.channels(stages), [lives(shape, seed) for seed in range(3)]

            def release(channels=channels, crowds=crowds) -> list[bytes]:
                secret, payloads = channels[0].begin_secret(), []
                for channel, crowd in zip(channels, crowds, strict=True):
                    bodies = [channel.encode(person, NOISE) for person in crowd]
                    secret, payload = channel.release(secret, bodies, TOTALS, NOISE)
                    payloads.append(payload)
                return payloads

            def replay(bits: Recorded, channels=channels, crowds=crowds) -> list[bytes]:
                past, payloads = [], []
                for k, (channel, crowd) in enumerate(zip(channels, crowds, strict=True)):
                    past.append(totals_vector(channel.shape, walked(channel, crowd, bits), channel.levels))
                    z = bits.gaussian(len(past[0]), channel.variance)
                    C = channel.noise.column
                    w = [sum(C[k - j] * past[j][i] for j in range(k + 1)) + z[i] for i in range(len(z))]
                    payloads.append(little([k, *w]))
                return payloads

            yield SecurePath(f"central-totals {mechanism} {shape.staged}", release, replay)


def batch_vector(shape: CountShape, layer: int | None, rows: list[Any], levels: int) -> list[int]:
    """Transitions of all layers but the last and outcomes of all; or the transitions of one layer."""
    S, A, H = shape.num_states, shape.num_actions, shape.horizon
    layers = range(H - 1) if layer is None else (layer,)
    moves = [0] * (len(layers) * S * A * S)
    outcomes = [0] * (H * S * A * 2 if layer is None else 0)
    for states, actions, gains in rows:
        for row, h in enumerate(layers):
            moves[((row * S + states[h]) * A + actions[h]) * S + states[h + 1]] += levels
        for h in range(H if layer is None else 0):
            cell = ((h * S + states[h]) * A + actions[h]) * 2
            outcomes[cell] += levels - gains[h]
            outcomes[cell + 1] += gains[h]
    return [*moves, *outcomes]


def released_once(channel: Any, query: Any, crowd: list[Any]) -> bytes:
    bodies = [channel.encode(person, NOISE) for person in crowd]
    return channel.release(channel.begin_secret(), bodies, query, NOISE)[1]


def central_batch() -> Iterator[SecurePath]:
    for layer in (None, 0):
        query = BatchQuery(layer=layer, failure_prob=None)
        basis = BatchPlan(shape=SMALL, claim=central_claim())
        [channel] = basis.channels([StageSize(target=PEOPLE, least=1, query=query)])
        crowd = lives(SMALL, 4)

        def replay(bits: Recorded, channel=channel, crowd=crowd, layer=layer) -> bytes:
            x = batch_vector(channel.shape, layer, walked(channel, crowd, bits), channel.levels)
            z = bits.gaussian(len(x), channel.variance)
            return little([channel.unit // channel.levels * a + b for a, b in zip(x, z, strict=True)])

        yield SecurePath(f"central-batch {layer}", lambda c=channel, q=query, p=crowd: released_once(c, q, p), replay)


def through_layers(life: Trajectory, S: int, A: int, bits: Recorded) -> LossUser:
    """Pairs and triples of a trajectory in the unrolled world, numbered by counting; the first action is a coin."""
    H = len(life.actions)
    layers = [[0], *[list(range(S))] * H, [0]]
    pairs, triples = {}, {}
    for h in range(H + 1):
        for state in layers[h]:
            for action in range(A):
                pairs[h, state, action] = len(pairs)
                for after in layers[h + 1]:
                    triples[h, state, action, after] = len(triples)
    states, actions = [0, *map(int, life.states[:H]), 0], [bits.below(A)[0], *map(int, life.actions)]
    met = [(h, states[h], actions[h]) for h in range(H + 1)]
    losses = np.array([0.0, *(1.0 - life.rewards)])
    moved = [triples[h, state, action, states[h + 1]] for h, state, action in met]
    return LossUser(np.array([pairs[one] for one in met]), np.array(moved), losses)


def central_losses() -> Iterator[SecurePath]:
    layered, steps = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3)), unrolled(2, 2, 3)
    lived = [
        Trajectory(np.array([k, 1, 0]), np.array([2 - k, k]), np.array([reward, 0.25]))
        for k, reward in enumerate((0.37, 1))
    ]
    for shape, full in ((layered, True), (layered, False), (steps, False)):
        channel = LossPlan(shape=shape, claim=central_claim(), full=full, releases=3).alone
        losses = [np.full(4 if full else 2, loss) for loss in (0.0, 0.37, 1.0)]
        crowd = [LossUser(np.array([k % 2, 2]), np.array([k % 4, 4]), losses[k]) for k in range(2)]
        users: list[Any] = [*(crowd if shape == layered else lived), None]

        def release(channel=channel, users=users, full=full) -> list[bytes]:
            secret, payloads = channel.begin_secret(), []
            for user in users:
                secret, payload = channel.release(secret, [channel.encode(user, NOISE)], LossQuery(full=full), NOISE)
                payloads.append(payload)
            return payloads

        def replay(bits: Recorded, channel=channel, users=users, full=full, shape=shape) -> list[bytes]:
            past, payloads, C = [], [], channel.noise.column
            for k, person in enumerate(users):
                moved, met = [0] * shape.triples, [0] * shape.pairs
                user = through_layers(person, 2, 3, bits) if isinstance(person, Trajectory) else person
                if user is not None:
                    rounded = grid_levels([float(one) for one in user.losses], channel.levels, bits)
                    for triple in user.triples:
                        moved[int(triple)] = channel.levels
                    for place, level in zip(range(shape.pairs) if full else user.pairs, rounded, strict=True):
                        met[int(place)] = level
                past.append([*moved, *(met if full else ())])
                z = [
                    *bits.gaussian(shape.triples, channel.transition_variance),
                    *bits.gaussian(shape.pairs, channel.loss_variance),
                ]
                w = [sum(C[k - j] * past[j][i] for j in range(k + 1)) for i in range(len(past[0]))]
                w += [] if full else [one * (channel.unit // channel.levels) for one in met]
                payloads.append(little([k, *(a + b for a, b in zip(w, z, strict=True))]))
            return payloads

        yield SecurePath(f"central-losses {full} {shape.horizon}", release, replay)


def central_gradient() -> Iterator[SecurePath]:
    """The sums of gradients are those of the library (`test_study_gradient` has their oracle); coins and noise not."""
    shape = GradientShape(horizon=3, num_states=2, num_actions=2, staged=True, dimension=12)
    for rate in (1.0, 0.25):
        spec = GradientSpec(clip=1.0, tabular=True, rate=rate, baseline=None, epochs=2)
        claim = claim_of("central")
        basis = GradientPlan(shape=shape, claim=claim, spec=spec, users_per_batch=PEOPLE)
        [channel] = basis.channels([StageSize(target=PEOPLE, least=1, query=SoftmaxQuery)])
        crowd = lives(shape, 6)

        def release(channel=channel, crowd=crowd) -> list[bytes]:
            bodies, secret, payloads = [channel.encode(person, NOISE) for person in crowd], channel.begin_secret(), []
            for _ in range(channel.questions):
                secret, payload = channel.release(secret, bodies, channel.query, NOISE)
                payloads.append(payload)
            return payloads

        def replay(bits: Recorded, channel=channel, crowd=crowd, rate=rate) -> list[bytes]:
            rows = walked(channel, crowd, bits)
            people = SimpleNamespace(
                states=np.array([row[0] for row in rows]),
                actions=np.array([row[1] for row in rows]),
                levels=np.array([row[2] for row in rows]),
            )
            payloads = []
            for _ in range(channel.questions):
                chosen = np.array(bits.bernoulli(len(rows), rate), dtype=bool)
                sums = gradient_sums(
                    shape,
                    channel.spec.bounds,
                    channel.query,
                    people,
                    channel.levels,
                    chosen,
                    channel.unit,
                    channel.whole,
                )
                z = bits.gaussian(len(sums), channel.variance)
                payloads.append(little([int(a) + b for a, b in zip(sums, z, strict=True)]))
            return payloads

        yield SecurePath(f"central-gradient {rate}", release, replay)


def central_channels() -> dict[str, Any]:
    """A channel of every kind under central trust."""
    totals = TotalsPlan(shape=SMALL, claim=central_claim(), releases=1, mechanism="batched")
    [batch] = BatchPlan(shape=SMALL, claim=central_claim()).channels(
        [StageSize(target=PEOPLE, least=1, query=EVERYTHING)]
    )
    shape = GradientShape(horizon=2, num_states=2, num_actions=2, staged=True, dimension=8)
    spec = GradientSpec(clip=1.0, tabular=True, baseline=None)
    [slopes] = GradientPlan(shape=shape, claim=central_claim(), spec=spec, users_per_batch=PEOPLE).channels(
        [StageSize(target=PEOPLE, least=1, query=SoftmaxQuery)]
    )
    layered = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3))
    return {
        "central-totals": totals.channels([StageSize(target=PEOPLE, least=1, query=TOTALS)])[0],
        "central-batch": batch,
        "central-gradient": slopes,
        "central-losses": LossPlan(shape=layered, claim=central_claim(), full=True, releases=1).alone,
        "central-vectors": vector_channel("central"),
    }


def central_noise(name: str, channel: Any, count: int) -> np.ndarray:
    """Numbers of payloads of stages of cover reports, over the stated deviation: nobody is in them, noise is."""
    cover = channel.encode(None, NOISE)
    assert set(cover) == {0xFF}
    found: list[float] = []
    while len(found) < count:
        payload = channel.release(channel.begin_secret(), [cover], channel.query, NOISE)[1]
        numbers = np.frombuffer(payload, dtype="<i8")
        if name == "central-losses":
            moved, lost = np.split(numbers[1:], [channel.shape.triples])
            found += [*(moved / channel.transition_variance**0.5), *(lost / channel.loss_variance**0.5)]
        else:
            numbered = name == "central-totals"
            found += list(numbers[1 if numbered else 0 :] / channel.variance**0.5)
    return np.array(found)


# ------------------------------------------------------------------------------------------------------ shuffle trust


def data_labels(shape: CountShape, person: Any, bits: Recorded) -> list[int]:
    """The counters at one, in the order of the blocks; rewards are rounded to bits first."""
    states, actions, rewards = clipped(person, shape)
    vector = batch_vector(shape, None, [(states, actions, bits.each(rewards))], 1)
    return [label for label, count in enumerate(vector) if count]


def device_labels(channel: Any, person: Any, bits: Recorded) -> list[int]:
    """All labels of one device, sorted, dummies last."""
    data = [] if person is None else data_labels(channel.shape, person, bits)
    C, m, q = len(batch_vector(channel.shape, None, [], 1)), channel.bits_per_user, channel.probability

    def drawn() -> list[int]:
        return bits.fair(C * m) if q == Fraction(1, 2) else bits.bernoulli(C * m, q)

    noise = [place // m for place, bit in enumerate(drawn()) if bit]
    if channel.mirrored:
        noise += [place // m for place, bit in enumerate(drawn()) if not bit]
    H = channel.shape.horizon
    blocks = max(1, -(-len(noise) // channel.block))
    return sorted([*data, *noise, *[C] * (2 * H - 1 - len(data) + blocks * channel.block - len(noise))])


def shuffle_channels() -> Iterator[tuple[str, Any]]:
    for q in (Fraction(0.3), Fraction(1, 2)):
        for mirrored in (False, True):
            for query in (EVERYTHING, TOTALS):
                made = bits_channel(query=query, q=q, mirrored=mirrored, target=PEOPLE, least=2)
                yield f"shuffle {float(q)} {mirrored} {type(query).__name__}", made


def shuffle() -> Iterator[SecurePath]:
    for name, channel in shuffle_channels():
        crowd = lives(channel.shape, 7)

        def release(channel=channel, crowd=crowd) -> tuple[list[bytes], bytes]:
            bodies = [channel.encode(person, NOISE) for person in crowd]
            return bodies, channel.release(channel.begin_secret(), bodies, channel.query, NOISE)[1]

        def replay(bits: Recorded, channel=channel, crowd=crowd) -> tuple[list[bytes], bytes]:
            labels = [device_labels(channel, person, bits) for person in crowd]
            C = len(batch_vector(channel.shape, None, [], 1))
            sums = [sum(own.count(label) for own in labels) for label in range(C)]
            return [b"".join(one.to_bytes(2, "little") for one in own) for own in labels], little(sums)

        yield SecurePath(name, release, replay)


# -------------------------------------------------------------------------------------------------------- local trust


def slots_of(shape: CountShape, person: Any, bits: Recorded) -> list[tuple[int, int, int]]:
    """Slot, cells and the true cell of every one-hot vector; the cell of nobody is -1."""
    S, A, H = shape.num_states, shape.num_actions, shape.horizon
    if person is not None:
        states, actions, rewards = clipped(person, shape)
        ones = bits.each(rewards)
    found = []
    for slot in range(2 * H - 1):
        h, cells, hot = slot // 2, S * A * S if slot % 2 else 2 * S * A, -1
        if person is not None:
            cell = states[h] * A + actions[h]
            hot = cell * S + states[h + 1] if slot % 2 else cell + (0 if ones[h] else S * A)
        found.append((slot, cells, hot))
    return found


def packed(bits: list[int], size: int) -> bytes:
    return sum(bit << place for place, bit in enumerate(bits)).to_bytes(size, "little")


def local_body(channel: Any, person: Any, bits: Recorded) -> bytes:
    shape, name = channel.shape, channel.outcome.NAME
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    if name in ("subset", "oue"):
        slot = bits.below(2 * H - 1)[0]
        _, cells, hot = slots_of(shape, person, bits)[slot]
        own = channel.transition if slot % 2 else channel.outcome
        if name == "subset":
            hot = bits.below(cells)[0] if person is None else hot
            left = bits.logistic(1, own.epsilon, Fraction(cells - own.size, own.size))[0]
            others = [cell for cell in range(cells) if cell != hot]
            chosen = {others[place] for place in bits.order(cells - 1)[: own.size - 1 + left]}
            sent = [int(cell in chosen or (cell == hot and not left)) for cell in range(cells)]
        else:
            extra = person is None
            sent = bits.logistic(cells + extra, own.epsilon)
            sent[hot] = bits.fair(1)[0]
            sent = sent[:cells]
        return bytes([slot]) + packed(sent, channel.body_size - 1)
    if name == "rr":
        sent = []
        for slot, cells, hot in slots_of(shape, person, bits):
            own = channel.transition if slot % 2 else channel.outcome
            sent += [int(cell == hot) ^ flip for cell, flip in enumerate(bits.logistic(cells, own.epsilon))]
        return packed(sent, channel.body_size)
    moves, outcomes = (H - 1) * S * A * S, 2 * H * S * A
    exact = [0] * (moves + outcomes)
    if person is not None:
        states, actions, rewards = clipped(person, shape)
        exact = totals_vector(shape, [(states, actions, bits.each(rewards))], 1)
    draw = bits.laplace if name == "laplace" else bits.gaussian
    amounts = [
        own.scale if name == "laplace" else Fraction(own.sigma) ** 2 for own in (channel.transition, channel.outcome)
    ]
    noise = [*draw(moves, amounts[0]), *draw(outcomes, amounts[1])]
    width = channel.body_size // len(exact)
    return b"".join((a + z).to_bytes(width, "little", signed=True) for a, z in zip(exact, noise, strict=True))


def local_channels() -> dict[str, Any]:
    return {
        name: local_channel(name, delta=1e-6 if name == "gaussian" else 0.0, target=2 * PEOPLE) for name in RANDOMIZERS
    }


def local() -> Iterator[SecurePath]:
    for mechanism, channel in local_channels().items():
        crowd = [*lives(SMALL, 8), *lives(SMALL, 9)]

        def replay(bits: Recorded, channel=channel, crowd=crowd) -> bytes:
            return b"".join(sorted([local_body(channel, person, bits) for person in crowd]))

        yield SecurePath(f"local {mechanism}", lambda c=channel, p=crowd: released_once(c, TOTALS, p), replay)


def return_channel() -> Any:
    plan: Any = make_privatizer(request_of("local", SMALL, asks=ReturnQuery, epsilon=1.0, delta=0.0))
    return plan.release_of(StageSize(target=PEOPLE, least=1, query=MEANS))


def local_returns() -> Iterator[SecurePath]:
    channel, crowd = return_channel(), lives(SMALL, 10)
    groups = [0, 0, 1, 1, 1, 1]

    def release() -> bytes:
        bodies = [channel.answer(MEANS, g, person, NOISE) for g, person in zip(groups, crowd, strict=True)]
        return channel.release(channel.begin_secret(), bodies, MEANS, NOISE)[1]

    def replay(bits: Recorded) -> bytes:
        bodies = []
        for group, person in zip(groups, crowd, strict=True):
            if person is None:
                bit = bits.below(2)[0]
            else:
                _, _, rewards = clipped(person, SMALL)
                bit = bits.each([min(sum(rewards), MEANS.level) / MEANS.level])[0]
                bit ^= bits.logistic(1, channel.epsilon)[0]
            bodies.append(bytes([group, bit]))
        return b"".join(sorted(bodies))

    yield SecurePath("local-returns", release, replay)


# ------------------------------------------------------------------------------------ vectors, whatever the trust model


def rows(seed: int) -> list[Any]:
    """People with features, in and out of range; a cover."""
    rng = np.random.default_rng(seed)
    x = [*rng.normal(size=(3, 2)) / 2, np.array([np.nan, 0.5]), np.array([30.0, -40.0])]
    gains = [0.0, 1.0, 0.3, np.nan, 7.0]
    found: list[Any] = [
        FeatureUsers(one[None], np.array([a]), np.array([r]), np.array([lot]))
        for one, a, r, lot in zip(x, [0, 1, 1, -5, 9], gains, [0, 1, 0, 0, -1], strict=True)
    ]
    return [*found, None]


VECTORS = MomentShape(features=2, actions=2, shared=False, grid=64)


def vector_channel(trust: str, lots: bool = False, people: int = PEOPLE) -> Any:
    delta = 0.0 if trust == "local" else 1e-3
    claim = claim_of(trust, epsilon=8.0 if trust == "shuffle" else 1.0, delta=delta)
    plan = VectorPlan(claim=claim, shape=VECTORS, asks=MomentQuery)
    return plan.release_of(StageSize(target=people, least=2 if trust == "shuffle" else 1, query=MomentQuery(lots=lots)))


def whole_row(person: Any, bits: Recorded, lots: bool = False) -> tuple[list[int], int, int]:
    """The row in whole numbers, its slot, and 2r - 1 in sixteenths; by the words of the docstring."""
    x = [0.0 if v != v else float(v) for v in person.x[0]]
    length = max(1.0, sum(v * v for v in x) ** 0.5)
    X, slot = [int(v / length * 64) for v in x], min(max(int(person.actions[0]), 0), 1)
    r = float(person.rewards[0])
    level = 16.0 * (0.0 if r != r else min(max(r, 0.0), 1.0))
    level = int(level) + bits.each([level - int(level)])[0]
    if lots and slot != person.lots[0]:
        X = [0, 0]
    return X, slot, 2 * level - 16


def moments_of(X: list[int], T: int) -> list[int]:
    return [181 * X[0] ** 2, 256 * X[0] * X[1], 181 * X[1] ** 2, 1024 * T * X[0], 1024 * T * X[1]]


def central_vectors() -> Iterator[SecurePath]:
    channel, crowd = vector_channel("central"), rows(12)

    def replay(bits: Recorded) -> bytes:
        sums = [0] * 10
        for person in crowd[:-1]:
            X, slot, T = whole_row(person, bits)
            for place, amount in enumerate(moments_of(X, T)):
                sums[5 * slot + place] += amount
        return little([a + z for a, z in zip(sums, bits.gaussian(10, channel.variance), strict=True)])

    yield SecurePath("central-vectors", lambda: released_once(channel, channel.query, crowd), replay)
    users = FeatureUsers(*(np.concatenate(parts) for parts in zip(*crowd[:-1], strict=True)))

    def table(bits: Recorded) -> bytes:
        """The same people as a table: all rewards are rounded in one draw."""
        gains = [0.0 if r != r else min(max(float(r), 0.0), 1.0) * 16.0 for r in users.rewards]
        ups, sums = bits.each([gain - int(gain) for gain in gains]), [0] * 10
        for person, gain, up in zip(crowd[:-1], gains, ups, strict=True):
            X, slot, _ = whole_row(person, SimpleNamespace(each=lambda _: [0]))  # type: ignore[arg-type]
            for place, amount in enumerate(moments_of(X, 2 * (int(gain) + up) - 16)):
                sums[5 * slot + place] += amount
        return little([a + z for a, z in zip(sums, bits.gaussian(10, channel.variance), strict=True)])

    def release() -> bytes:
        return bytes(channel.release_table(channel.begin_secret(), users, PEOPLE, NOISE)[1])

    yield SecurePath("central-vectors of a table", release, table)


def shuffle_vectors() -> Iterator[SecurePath]:
    channel, crowd = vector_channel("shuffle"), rows(13)
    m, q, unit = channel.bits_per_user, channel.probability, 2**channel.shift

    def replay(bits: Recorded) -> bytes:
        sums = [0] * 10
        for person in crowd:
            own = 2 * [0, 4, 0, 8, 8]
            if person is not None:
                X, slot, T = whole_row(person, bits)
                dithers = bits.below(unit, 5)
                for place, amount in enumerate(moments_of(X, T)):
                    own[5 * slot + place] += (amount + dithers[place]) // unit
            noise = bits.bernoulli(10 * m, q)
            sums = [s + a + sum(noise[m * c : m * c + m]) for c, (s, a) in enumerate(zip(sums, own, strict=True))]
        return little(sums)

    yield SecurePath("shuffle-vectors", lambda: released_once(channel, channel.query, crowd), replay)


def indexed(channel: Any, person: Any, bits: Recorded, lots: bool) -> bytes:
    """One message of local trust."""
    seed, size, k, M = bytes(bits.below(256, 16)), 2 if lots else 4, channel.chosen, channel.directions
    stratum, v = -1, [0] * size
    if person is not None:
        X, slot, T = whole_row(person, bits, lots)
        stratum = int(person.lots[0]) if lots else 0
        for place in range(2):
            v[place if lots else 2 * slot + place] = 1024 * T * X[place]
    if stratum < 0:
        stratum, v = bits.below(2 if lots else 1)[0], [0] * size
    scores = []
    for j in range(M // 2):
        digests = [hashlib.sha256(seed + bytes([j]) + i.to_bytes(2, "little")).digest() for i in range(size)]
        u = [sum(f"{byte:b}".count("1") for byte in digest) - 128 for digest in digests]
        scores.append(sum(a * b for a, b in zip(u, v, strict=True)))
    scores += [-score for score in scores]
    if bits.below(2)[0] == 0 and bits.below(256 * 64**2)[0] ** 2 >= sum(a * a for a in v):
        scores = [-score for score in scores]
    ranked = sorted(range(M), key=lambda j: (-scores[j], j))
    others = bits.logistic(1, channel.epsilon, Fraction(M - k, k))[0]
    place = k + bits.below(M - k)[0] if others else bits.below(k)[0]
    return stratum.to_bytes(2, "little") + seed + bytes([ranked[place]])


def local_vectors() -> Iterator[SecurePath]:
    for lots in (False, True):
        channel, crowd = vector_channel("local", lots), rows(14)

        def replay(bits: Recorded, channel=channel, crowd=crowd, lots=lots) -> bytes:
            return b"".join(sorted([indexed(channel, person, bits, lots) for person in crowd]))

        name = f"local-vectors {lots}"
        yield SecurePath(name, lambda c=channel, p=crowd: released_once(c, c.query, p), replay)


TWINS: dict[str, Callable[[], Iterator[SecurePath]]] = {
    "central-batch": central_batch,
    "central-gradient": central_gradient,
    "central-losses": central_losses,
    "central-totals": central_totals,
    "central-vectors": central_vectors,
    "local": local,
    "local-returns": local_returns,
    "local-vectors": local_vectors,
    "shuffle": shuffle,
    "shuffle-vectors": shuffle_vectors,
}
"""The twin of every kind of channel."""

# ------------------------------------------------------------------------------------------- orders, lots and counters


def orders() -> Iterator[SecurePath]:
    data = bytes(range(200))
    pairs = [data[i : i + 2] for i in range(0, 200, 2)]
    yield SecurePath(
        "permuted",
        lambda: external_shuffle.permuted(data, 2),
        lambda bits: b"".join(pairs[i] for i in bits.order(100)),
    )

    def scattered() -> bytes:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "out")
            external_shuffle.write_permuted([data], path, size=2, total=200, memory=400)
            return path.read_bytes()

    def gathered(bits: Recorded, messages: list[bytes] | None = None, first: bool = True) -> bytes:
        own = pairs if messages is None else messages
        if external_shuffle.COPIES * 2 * len(own) <= 400:
            return b"".join(own[i] for i in bits.order(len(own)))
        count = min(external_shuffle.MAX_BUCKETS, -(-2 * external_shuffle.COPIES * 2 * len(own) // 400))
        chunk = 400 // external_shuffle.COPIES // 2
        pieces = [own] if first else [own[i : i + chunk] for i in range(0, len(own), chunk)]
        buckets: list[list[bytes]] = [[] for _ in range(count)]
        for piece in pieces:
            for one, bucket in zip(piece, bits.below(count, len(piece)), strict=True):
                buckets[bucket].append(one)
        return b"".join(gathered(bits, bucket, first=False) for bucket in buckets)

    yield SecurePath("written in random order", scattered, gathered)
    yield SecurePath("ladder", lambda: left_out(30, 20, NOISE), lambda bits: sorted(bits.order(30)[20:]))
    persons = SimpleNamespace(persons=np.repeat(np.arange(4), 5), people=4)
    yield SecurePath(
        "episodes of a log",
        lambda: deal(persons, 2, "random", NOISE).T.tolist(),
        lambda bits: [[5 * person + i for i in bits.order(5)[:2]] for person in range(4)],
    )
    yield SecurePath(
        "return of a trial",
        lambda: [trial_bit(total, (0.0, 10.0)) for total in (-1.0, 2.5, 7.0, 99.0)],
        lambda bits: [float(bits.each([share])[0]) for share in (0.0, 0.25, 0.7, 1.0)],
    )
    yield sealed_order()
    yield shuffled_roles()


def sealed_order() -> SecurePath:
    """The order in which labels are sealed: the learner's key opens the messages one by one."""
    channel = bits_channel(target=PEOPLE, least=2)
    key = SecretKey(bytes(range(32)))
    C = len(batch_vector(channel.shape, None, [], 1))
    body = b"".join(min(i // 3, C).to_bytes(2, "little") for i in range(channel.body_size // 2))
    study = bytes(32)

    def release() -> list[bytes]:
        sealed = seal_body(channel, body, study=study, stage=0, learner=key.public)
        size = message_size(channel, 1)
        opener = key.opener(inner_info(study, 0, key.id))
        return [opener(sealed[i : i + size]) for i in range(0, len(sealed), size)]

    def replay(bits: Recorded) -> list[bytes]:
        return [body[2 * i : 2 * i + 2] for i in bits.order(len(body) // 2)]

    return SecurePath("sealed labels", release, replay)


def shuffled_roles() -> SecurePath:
    """The three roles of the shuffle protocol: all reports, then one order of all messages."""
    channel = bits_channel(target=3, least=3)
    crowd = lives(SMALL, 11)[1:4]
    transport = channel.transport

    def release() -> list[int]:
        return channel.shuffle([channel.encode(person, NOISE) for person in crowd], NOISE).tolist()

    def replay(bits: Recorded) -> list[int]:
        sent: list[int] = []
        C, m = transport.num_counters, transport.bits_per_user
        for person in crowd:
            states, actions, rewards = clipped(person, SMALL)
            data = channel.spec.labels(np.array(states), np.array(actions), np.array(bits.each(rewards))).tolist()
            noise = [place // m for place, bit in enumerate(bits.bernoulli(C * m, transport.probability)) if bit]
            blocks = max(1, -(-len(noise) // transport.block))
            dummies = [C] * (transport.slots - len(data) + blocks * transport.block - len(noise))
            sent += sorted([*data, *noise, *dummies])
        return [sent[i] for i in bits.order(len(sent))]

    return SecurePath("roles of the shuffle protocol", release, replay)


KINDS = tuple(kind for kind, made in CHANNELS.items() if made.__module__.startswith("tacit."))
"""Every kind of tacit; other tests put their fakes beside them."""
OF_CHANNELS = [(kind, path) for kind in KINDS if kind in TWINS for path in TWINS[kind]()]
PATHS = [path for _, path in OF_CHANNELS] + [*orders()]
