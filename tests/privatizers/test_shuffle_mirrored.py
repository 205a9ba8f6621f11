"""Mirrored noise bits: their law and their accountant by enumeration, messages end to end, and where they are used."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from tacit.accounting import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.events.mirrored import MirroredEvent, mirrored_law, mirrored_pld
from tacit.accounting.families import Family
from tacit.checks.messages import message_scores
from tacit.errors import InvalidInput, NotSupported
from tacit.mechanisms.noise.mirrored import Mirrored
from tacit.privatizers.shuffle.messages import Transport
from tacit.privatizers.shuffle.noise import BitNoise, least_bit_noise
from tacit.privatizers.shuffle.protocol import Shuffle
from tacit.privatizers.shuffle.roles import Trajectory, noise_coins, pack
from tacit.privatizers.shuffle.spec import ReleaseSpec
from tacit.randomness import SecureNoise, SimulationNoise

SPEC = ReleaseSpec.one_hot(num_states=4, num_actions=2, horizon=6)
DELTA = 1e-6


def enumerated(N: int, q: Fraction) -> dict[int, Fraction]:
    """The law of X − X', by summing over everything, in exact arithmetic."""
    one = [comb(N, k) * q**k * (1 - q) ** (N - k) for k in range(N + 1)]
    law: dict[int, Fraction] = {}
    for (i, a), (j, b) in itertools.product(enumerate(one), repeat=2):
        law[i - j] = law.get(i - j, Fraction(0)) + a * b
    return law


def hockey_stick(law: dict[int, Fraction], moves: tuple[int, ...], epsilon: float) -> float:
    """δ(ε) of counters that move by these numbers, over all outcomes."""
    factor, total = Fraction(math.exp(epsilon)), Fraction(0)
    low, high = min(law) - 1, max(law) + 1
    for outcome in itertools.product(range(low, high + 1), repeat=len(moves)):
        p = math.prod((law.get(k, Fraction(0)) for k in outcome), start=Fraction(1))
        q = math.prod(
            (law.get(k - move, Fraction(0)) for k, move in zip(outcome, moves, strict=True)), start=Fraction(1)
        )
        total += max(Fraction(0), p - factor * q)
    return float(total)


@pytest.mark.parametrize(
    ("N", "q"), [(1, Fraction(1, 2)), (4, Fraction(1, 8)), (9, Fraction(3, 10)), (30, Fraction(1, 64))]
)
def test_the_law_is_that_of_the_enumeration(N: int, q: Fraction) -> None:
    first, mass = mirrored_law(N, float(q))
    law = enumerated(N, q)
    assert first == -N
    assert len(mass) == 2 * N + 1
    np.testing.assert_allclose(mass, [float(law[d]) for d in range(-N, N + 1)], rtol=1e-12)
    noise = Mirrored(bits=N, probability=float(q))
    assert noise.variance == pytest.approx(float(sum(d * d * p for d, p in law.items())))


@pytest.mark.parametrize("moves", [(1,), (-1,), (1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 5.0])
def test_the_accountant_is_never_below_the_enumeration_and_hardly_above(moves: tuple[int, ...], epsilon: float) -> None:
    N, q = 5, Fraction(1, 4)
    exact = hockey_stick(enumerated(N, q), moves, epsilon)
    stated = mirrored_pld(N, float(q), len(moves)).delta(epsilon)
    assert exact <= stated <= exact * 1.001 + 1e-9


def test_up_and_down_compose_alike_and_the_event_says_so() -> None:
    up, down = (MirroredEvent(bits=100, probability=0.05, shift=shift) for shift in (1, -1))
    several = epsilon_of(((up, 2), (down, 1)), DELTA)
    assert several == pytest.approx(epsilon_of(((up, 3),), DELTA))
    assert several == pytest.approx(mirrored_pld(100, 0.05, 3).epsilon(DELTA))
    with pytest.raises(NotSupported, match="shifts of one"):
        up.scaled(2.0)
    with pytest.raises(InvalidInput):
        MirroredEvent(bits=100, probability=0.7, shift=1)


@pytest.mark.parametrize("users", [20, 1000, 3386])
@pytest.mark.parametrize(("epsilon", "used"), [(1.0, False), (3.0, False), (7.0, True), (10.0, True), (20.0, True)])
def test_the_least_noise_is_used_and_keeps_the_claim(users: int, epsilon: float, used: bool) -> None:
    batch = Shuffle.tight(SPEC, epsilon=epsilon, delta=DELTA, users=users)
    assert batch.bit_noise.mirrored == used
    assert epsilon_of(batch.events(), DELTA) <= epsilon
    gauss = math.sqrt(SPEC.differing) / gaussian_mu(epsilon, DELTA)
    assert batch.bit_noise.total.std < 1.02 * gauss
    if used:
        one_bias = least_bit_noise(SPEC.families(), epsilon=epsilon, delta=DELTA, users=users)
        assert batch.bit_noise.total.std < 0.98 * one_bias.total.std
        # A tenth less noise is not private any more: nothing is given away.
        q = 0.8 * batch.bit_noise.probability
        less = Mirrored(bits=batch.bit_noise.honest.bits, probability=q)
        assert epsilon_of(tuple(e for f in SPEC.families() for e in less.events(f)), DELTA) > epsilon


def test_bits_of_one_bias_have_the_floor_that_the_lemma_states() -> None:
    up = SPEC.differing // 2
    for epsilon in (10.0, 20.0, 40.0):
        noise = least_bit_noise(SPEC.families(), epsilon=epsilon, delta=DELTA, users=20_000)
        assert 1 - (1 - (1 - noise.probability) ** 20_000) ** up <= DELTA
        assert noise.total.std == pytest.approx(math.sqrt(math.log(up / DELTA)), rel=0.01)


def test_an_honest_share_covers_the_claim_alone() -> None:
    batch = Shuffle.tight(SPEC, epsilon=10.0, delta=DELTA, users=1000, honest_fraction=0.5)
    assert batch.bit_noise.mirrored
    assert batch.bit_noise.honest.bits == 500
    assert epsilon_of(batch.events(), DELTA) <= 10.0
    assert batch.bit_noise.total.std == pytest.approx(2**0.5 * 2.49, rel=0.01)


@pytest.mark.parametrize("kind", ["every-bit", "ones"])
def test_the_messages_of_tiny_batches_give_away_the_sums_and_nothing_else(kind: str) -> None:
    """All noise bits of two devices with one counter: two views are equal exactly where the sums are."""
    transport = Transport(
        kind=kind, num_counters=1, slots=1, users=2, bits_per_user=1, probability=0.25, mirrored=True, overflow_prob=0.0
    )
    views: dict[int, set[tuple[object, ...]]] = {}
    for data in itertools.product((0, 1), repeat=2):
        for bits in itertools.product((0, 1), repeat=4):
            reports = [
                pack(transport, np.array([0] * y, dtype=np.uint32), np.array(bits[2 * i : 2 * i + 2], dtype=np.uint8))
                for i, y in enumerate(data)
            ]
            assert {len(report) for report in reports} == {transport.report_size}
            seen = Counter((int(c), int(b)) for r in reports for c, b in zip(r.counters, r.bits, strict=True))
            views.setdefault(sum(data) + sum(bits), set()).add(tuple(sorted(seen.items())))
    assert all(len(found) == 1 for found in views.values())
    assert len({next(iter(found)) for found in views.values()}) == len(views) == 7


@pytest.mark.statistical
@pytest.mark.parametrize("source", ["secure", "simulation", "aggregate"])
def test_every_path_draws_the_law(source: str) -> None:
    """False alarms: 1e-6 each; a probability a quarter off is noticed."""
    users, q, trials = 3, 0.2, 1500
    law = Mirrored(bits=users, probability=q)
    noise = SecureNoise() if source == "secure" else SimulationNoise(np.random.default_rng(11))
    transport = Transport(
        kind="ones", num_counters=4, slots=1, users=users, bits_per_user=1, probability=q, mirrored=True,
        overflow_prob=0.0,
    )  # fmt: skip
    if source == "aggregate":
        drawn = law.sample(4 * trials, noise).astype(int)
    else:
        bits = np.array([[noise_coins(transport, noise) for _ in range(users)] for _ in range(trials)])
        drawn = bits.reshape(trials, users, 2, 4).sum(axis=(1, 2)).astype(int).ravel() - users

    def p_value(probability: float) -> float:
        _, mass = mirrored_law(users, probability)
        return float(chisquare(np.bincount(drawn + users, minlength=len(mass)), mass * len(drawn)).pvalue)

    assert p_value(q) > 1e-6
    assert p_value(1.25 * q) < 1e-6


def test_the_whole_protocol_is_unbiased_and_complete() -> None:
    batch = Shuffle(
        spec=SPEC, bit_noise=BitNoise(users=30, honest_users=30, bits_per_user=1, probability=0.1, mirrored=True)
    )
    episode = Trajectory(np.zeros(6, dtype=int), np.ones(6, dtype=int), np.ones(6))
    noise = SimulationNoise(np.random.default_rng(3))
    reports = [batch.encode(episode, noise) for _ in range(30)]
    assert {len(report) for report in reports} == {batch.cost().messages_per_user}
    released = batch.analyze(batch.shuffle(reports, noise))
    assert abs(released.visits[0, 0, 1] - 30) < 8 * batch.noise_std()["visits"]
    assert abs(released.transitions.sum() - 30 * 5) < 8 * batch.bit_noise.total.std * math.sqrt(SPEC.num_counters)


def test_small_blocks_keep_room_for_all_sure_bits() -> None:
    shared = {"kind": "ones", "num_counters": 50, "slots": 5, "users": 100, "bits_per_user": 1, "probability": 0.01}
    plain = Transport(**shared, overflow_prob=1e-9)
    both = Transport(**shared, overflow_prob=1e-9, mirrored=True)
    assert both.block == plain.block + 50 < both.noise_bits
    with pytest.raises(InvalidInput, match="must not overflow"):
        Transport(**shared, overflow_prob=1e-9, mirrored=True, fixed_block=plain.block)


@pytest.mark.statistical
def test_an_attack_on_whole_transcripts_stays_below_the_certificate() -> None:
    """The best event of 2000 transcripts in each world, by the likelihood ratio of the sums."""
    spec = ReleaseSpec.one_hot(num_states=2, num_actions=2, horizon=2)
    batch = Shuffle.tight(spec, epsilon=7.0, delta=1e-3, users=12)
    assert batch.bit_noise.mirrored
    certified = epsilon_of(batch.events(), 1e-3)
    with_one, without = message_scores(batch, 2000, 5)
    for cut in (0.0, 2.0, 4.0):
        hits, misses = (int((scores[:, 3] > cut).sum()) for scores in (without, with_one))
        lower = binomtest(hits, 2000).proportion_ci(1 - 1e-6).low
        upper = binomtest(misses, 2000).proportion_ci(1 - 1e-6).high
        assert lower <= math.exp(certified) * upper + 1e-3
    assert abs(with_one[:, 3].mean() - without[:, 3].mean()) > 1.0  # the attack sees something


def test_a_radius_covers_what_it_says() -> None:
    law = Mirrored(bits=1000, probability=0.0031)
    first, mass = mirrored_law(1000, 0.0031)
    outcomes = first + np.arange(len(mass))
    for failure in (0.1, 1e-3, 1e-6):
        assert float(mass[np.abs(outcomes) > law.radius(failure)].sum()) <= failure
    family = Family(name="one", up=1, down=1, shift=1.0)
    assert [event.shift for event, _ in law.events(family)] == [1, -1]
