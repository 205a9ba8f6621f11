"""Mirrored noise bits in shuffled batches: messages end to end, where they are used, and what is left without some."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare
from shuffle_tools import EVERYTHING, plan_of, release_with, rows_of, shuffle_claim, through_messages

from tacit.accounting import bits as searches
from tacit.accounting import epsilon_of
from tacit.accounting.events.binomial import BinomialEvent, mirrored_law
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.audit.mechanisms import message_scores
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, UnknownName
from tacit.noise.mirrored import Mirrored
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.shuffle.labels import BitNoise, least_bit_noise
from tacit.release.shuffle.roles import Transport, noise_coins, pack
from tacit.release.shuffle_release import ShuffleRelease
from tacit.released.counts import CountShape
from tacit.statistics.count_spec import ReleaseSpec

SPEC = ReleaseSpec.one_hot(num_states=4, num_actions=2, horizon=6)
DELTA = 1e-6
SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)


def stage_of(
    users: int, epsilon: float, *, delta: float = DELTA, shape: CountShape = SHAPE, **more: Any
) -> ShuffleRelease:
    plan = plan_of(shape, shuffle_claim(epsilon=epsilon, delta=delta), **more)
    return plan.release_of(StageSize(target=users, least=users, query=EVERYTHING))


@pytest.mark.parametrize("users", [200, 3386])
@pytest.mark.parametrize(("epsilon", "used"), [(1.0, False), (4.0, False), (7.0, True), (10.0, True), (20.0, True)])
def test_the_least_noise_is_used_and_keeps_the_claim(users: int, epsilon: float, used: bool) -> None:
    batch, noise = stage_of(users, epsilon), stage_of(users, epsilon).bit_noise(users)
    assert batch.mirrored == used
    assert epsilon_of(batch.events(), DELTA) <= epsilon
    gauss = math.sqrt(SPEC.differing) / gaussian_mu(epsilon, DELTA)
    assert noise.total.std < 1.03 * gauss
    if used:
        one_bias = least_bit_noise(SPEC.families(), epsilon=epsilon, delta=DELTA, users=users, kind="binomial")
        assert noise.total.std < 0.98 * one_bias.total.std
        # A tenth less noise is not private any more: nothing is given away.
        q = 0.8 * noise.probability
        less = Mirrored(bits=noise.honest.bits, probability=q)
        assert epsilon_of(tuple(e for f in SPEC.families() for e in less.events(f)), DELTA) > epsilon


@pytest.mark.parametrize("epsilon", [4.05, 4.2, 7.0])
@pytest.mark.parametrize("users", [150, 20_000])
def test_which_bits_are_used_is_found_without_both_searches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, epsilon: float, users: int
) -> None:
    """An answer is the better one of both kinds; where mirrored bits win, the others are not searched for."""
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path))
    families, questions, right = (
        ReleaseSpec.one_hot(num_states=3, num_actions=2, horizon=1).families(),
        [],
        searches._excess,
    )
    monkeypatch.setattr(searches, "_excess", lambda *words: questions.append(words[0][0][0]) or right(*words))

    def asked(kind: Any) -> BitNoise:
        for cached in (
            searches.least_bits,
            searches.least_probability,
            searches.least_mirrored_probability,
            searches._known,
        ):
            cached.cache_clear()
        questions.clear()
        return least_bit_noise(families, epsilon=epsilon, delta=DELTA, users=users, kind=kind)

    found, asked_of_one_bias = asked(None), [event for event in questions if isinstance(event, BinomialEvent)]
    one, both = asked("binomial"), asked("mirrored-binomial")
    assert found == (both if both.total.std < 0.98 * one.total.std else one)
    if found.mirrored:
        assert [event for event in asked_of_one_bias if event.probability != 0.5] == []


def test_bits_of_one_bias_have_the_floor_that_the_lemma_states() -> None:
    up = SPEC.differing // 2
    for epsilon in (10.0, 20.0, 40.0):
        noise = least_bit_noise(SPEC.families(), epsilon=epsilon, delta=DELTA, users=20_000, kind="binomial")
        assert 1 - (1 - (1 - noise.probability) ** 20_000) ** up <= DELTA
        assert noise.total.std == pytest.approx(math.sqrt(math.log(up / DELTA)), rel=0.01)


def test_a_named_kind_is_used_at_every_epsilon_and_others_are_refused() -> None:
    for epsilon, kind in itertools.product((1.0, 10.0), ("binomial", "mirrored-binomial")):
        batch = stage_of(500, epsilon, kind=kind)
        assert batch.name == f"shuffle/{kind}"
        assert epsilon_of(batch.events(), DELTA) <= epsilon
    with pytest.raises(UnknownName, match="kind of noise bits"):
        stage_of(500, 1.0, kind="gaussian")


def test_without_some_devices_less_is_lost_than_with_bits_of_one_bias() -> None:
    """What is left at the same delta if a share of the devices sends no noise or tells it: Lemma M5 (honest share)."""
    left: dict[str, list[float]] = {}
    for kind in ("binomial", "mirrored-binomial"):
        noise = stage_of(1000, 10.0, kind=kind).bit_noise(1000)
        for honest in (1000, 990, 900, 500):
            events = replace(noise, honest_users=honest).events(SPEC.families())
            left.setdefault(kind, []).append(epsilon_of(events, DELTA))
    one_bias, mirrored = left["binomial"], left["mirrored-binomial"]
    assert math.isinf(one_bias[1])  # at their floor, one device in a hundred is all
    assert mirrored == sorted(mirrored)
    np.testing.assert_allclose(mirrored, [10.0, 10.06, 10.63, 14.96], atol=0.01)


def test_an_honest_share_covers_the_claim_alone() -> None:
    batch = stage_of(1000, 10.0, honest=0.5)
    noise = batch.bit_noise(1000)
    assert noise.mirrored
    assert noise.honest.bits == 500
    assert epsilon_of(batch.events(), DELTA) <= 10.0
    assert noise.total.std == pytest.approx(2**0.5 * 2.49, rel=0.01)


def test_the_messages_of_tiny_batches_give_away_the_sums_and_nothing_else() -> None:
    """All noise bits of two devices with one counter: two views are equal exactly where the sums are."""
    transport = Transport(
        num_counters=1, slots=1, users=2, bits_per_user=1, probability=0.25, mirrored=True, overflow_prob=0.0
    )
    views: dict[int, set[tuple[object, ...]]] = {}
    for data in itertools.product((0, 1), repeat=2):
        for bits in itertools.product((0, 1), repeat=4):
            reports = [
                pack(transport, np.array([0] * y, dtype=np.uint32), np.array(bits[2 * i : 2 * i + 2], dtype=np.uint8))
                for i, y in enumerate(data)
            ]
            assert {len(report) for report in reports} == {transport.report_size}
            seen = Counter(int(label) for report in reports for label in report)
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
        num_counters=4, slots=1, users=users, bits_per_user=1, probability=q, mirrored=True,
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
    noise = BitNoise(users=30, honest_users=30, bits_per_user=1, probability=0.1, mirrored=True)
    batch, source = release_with(SHAPE, noise), SimulationNoise(np.random.default_rng(3))
    people = Trajectories(np.zeros((30, 7), dtype=int), np.ones((30, 6), dtype=int), np.ones((30, 6)))
    assert {len(batch.encode(one, source)) for one in rows_of(people)} == {batch.body_size}
    released = through_messages(batch, people, source)
    assert abs(released.visits[0, 0, 1] - 30) < 8 * batch.noise_std()["visits"]
    assert abs(released.transitions.sum() - 30 * 5) < 8 * noise.total.std * math.sqrt(SPEC.num_counters)


def test_small_blocks_keep_room_for_all_sure_bits() -> None:
    shared = {"num_counters": 50, "slots": 5, "users": 100, "bits_per_user": 1, "probability": 0.01}
    plain = Transport(**shared, overflow_prob=1e-9)
    both = Transport(**shared, overflow_prob=1e-9, mirrored=True)
    assert both.block == plain.block + 50 < both.noise_bits
    with pytest.raises(InvalidInput, match="must not overflow"):
        Transport(**shared, overflow_prob=1e-9, mirrored=True, fixed_block=plain.block)


@pytest.mark.statistical
def test_an_attack_on_whole_transcripts_stays_below_the_certificate() -> None:
    """The best event of 600 transcripts in each world, by the likelihood ratio of the sums."""
    batch = stage_of(12, 7.0, delta=1e-3, shape=CountShape(horizon=2, num_states=2, num_actions=2, staged=True))
    assert batch.mirrored
    certified = epsilon_of(batch.events(), 1e-3)
    with_one, without = message_scores(batch, 600, 5)
    for cut in (0.0, 2.0, 4.0):
        hits, misses = (int((scores[:, 3] > cut).sum()) for scores in (without, with_one))
        lower = binomtest(hits, 600).proportion_ci(1 - 1e-6).low
        upper = binomtest(misses, 600).proportion_ci(1 - 1e-6).high
        assert lower <= math.exp(certified) * upper + 1e-3
    assert abs(with_one[:, 3].mean() - without[:, 3].mean()) > 1.0  # the attack sees something
