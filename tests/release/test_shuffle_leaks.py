"""Why every bit is its own message: integers leak, linked records leak more, single bits do not.

Exact, by enumeration of all noise bits of tiny batches run through the real packing; and played out with an explicit
distinguisher against the integer messages that [bai2024shuffle] and [bai2025secure] print.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from tacit.randomness import SimulationNoise
from tacit.release.shuffle.labels import BitNoise, paper_bit_noise
from tacit.release.shuffle.roles import Transport, coins, pack, permuted
from tacit.statistics.count_spec import ReleaseSpec

N, C, M = 2, 2, 2  # users, counters, noise bits per user and counter: 256 equally described outcomes
EPSILONS = (0.0, 0.3, 1.0, 2.0, 5.0)
ALICE, REPLACED, OTHERS = (0, 1), (), ()  # Alice sets both counters, her replacement and the others none of them


def transport(probability, overflow_prob=0.0):
    return Transport(
        num_counters=C,
        slots=2,
        users=N,
        bits_per_user=M,
        probability=probability,
        overflow_prob=overflow_prob,
    )


def bits_as_sent(overflow_prob=0.0):
    """The analyzer's view under the real packing: which messages there are; their order says nothing."""

    def view(users, noise, probability):
        described = transport(probability, overflow_prob)
        reports = [pack(described, np.array(o, dtype=np.uint32), n) for o, n in zip(users, noise, strict=True)]
        return tuple(sorted(Counter(label for report in reports for label in report).items()))

    return view


def integers(users, noise):
    """What each user would send as printed: z = y + noise for every counter."""
    return [
        tuple(int(c in o) + int(n.reshape(C, M)[c].sum()) for c in range(C)) for o, n in zip(users, noise, strict=True)
    ]


def integer_messages(users, noise, probability):
    """As printed: one shuffled multiset of integers per counter."""
    return tuple(tuple(sorted(z[c] for z in integers(users, noise))) for c in range(C))


def linked_records(users, noise, probability):
    """Worse: a user's integers travel together as one record."""
    return tuple(sorted(integers(users, noise)))


def law(view, first_user, probability):
    """The exact distribution of a view, over all noise bits."""
    found = Counter()
    for noise in itertools.product((0, 1), repeat=N * C * M):
        weight = math.prod(probability if bit else 1 - probability for bit in noise)
        per_user = np.array(noise, dtype=np.uint8).reshape(N, C * M)
        found[view([first_user] + [OTHERS] * (N - 1), per_user, probability)] += weight
    return found


def hockey_stick(P, Q, epsilon):
    return sum(max(0.0, mass - math.exp(epsilon) * Q[view]) for view, mass in P.items())


def curve(view, probability):
    P, Q = law(view, ALICE, probability), law(view, REPLACED, probability)
    return np.array([max(hockey_stick(P, Q, e), hockey_stick(Q, P, e)) for e in EPSILONS])


def curve_of_sums(probability):
    """Independent of all our code: two counters differ by one, each under Binomial(n·m, q)."""
    pmf = np.append(binom.pmf(np.arange(N * M + 1), N * M, probability), 0.0)
    plus = np.roll(pmf, 1)
    P, Q = np.outer(plus, plus), np.outer(pmf, pmf)
    return np.array(
        [max(np.maximum(P - math.exp(e) * Q, 0).sum(), np.maximum(Q - math.exp(e) * P, 0).sum()) for e in EPSILONS]
    )


@pytest.mark.parametrize("probability", [0.5, 0.3])
def test_g1_the_view_of_single_bits_is_exactly_as_private_as_the_sums(probability):
    np.testing.assert_allclose(curve(bits_as_sent(), probability), curve_of_sums(probability), atol=1e-12)


@pytest.mark.parametrize("probability", [0.5, 0.3])
def test_integers_leak_more_than_bits_and_linked_records_more_than_integers(probability):
    bits, sums = curve(bits_as_sent(), probability), curve_of_sums(probability)
    printed, linked = curve(integer_messages, probability), curve(linked_records, probability)
    np.testing.assert_allclose(bits, sums, atol=1e-12)
    assert np.all(printed >= bits - 1e-12)
    assert np.all(linked >= printed - 1e-12)
    assert (printed - bits).max() > 0.02
    assert (linked - printed).max() > 0.02


def test_integers_have_a_floor_that_no_epsilon_lowers():
    """z = m + 1 proves a one: 1 − (1 − 2^-m)^2 for two counters; single bits need all n·m noise bits to agree."""
    printed, bits = curve(integer_messages, 0.5), curve(bits_as_sent(), 0.5)
    assert printed[-1] == pytest.approx(1 - (1 - 2.0**-M) ** 2, abs=1e-12)
    assert bits[-1] == pytest.approx(1 - (1 - 2.0 ** -(N * M)) ** 2, abs=1e-12)


def test_a_visible_extra_block_stays_within_its_price():
    """Small blocks leak a little more than the sums, never more than (1 + e^eps) times their overflow probability."""
    overflow = 0.4
    described = transport(0.3, overflow)
    assert described.block < C * M
    p = 1 - (1 - binom.sf(described.block, C * M, 0.3)) ** N
    assert 0 < p <= overflow
    leaked = curve(bits_as_sent(overflow), 0.3) - curve_of_sums(0.3)
    price = np.array([(1 + math.exp(e)) * p for e in EPSILONS])
    assert np.all(leaked <= price)
    assert leaked.max() > 1e-4  # and it is no free lunch: without the price the claim would be false


# Played out ---------------------------------------------------------------------------------------------------------


class IntegerMessages:
    """The broken twin, as printed: each user sends z = y + noise per counter, and each counter is shuffled."""

    def __init__(self, spec, bit_noise):
        self.spec, self.bit_noise = spec, bit_noise

    def view(self, ones, noise):
        """Per counter the multiset of n integers, when user 0 sets these counters and nobody else any."""
        n, m = self.bit_noise.users, self.bit_noise.bits_per_user
        z = coins(n * self.spec.num_counters * m, self.bit_noise.probability, noise).reshape(n, -1, m).sum(axis=2)
        z[0, ones] += 1
        return np.sort(z, axis=0)


def certain(view, m):
    """The distinguisher: some integer of some counter is m + 1, which only a one in the data explains."""
    return bool((view == m + 1).any())


SIZES = {"num_states": 2, "num_actions": 2, "horizon": 3}
SPEC = ReleaseSpec.fine(**SIZES)
RARE = SPEC.labels(np.array([1, 1, 1]), np.array([1, 1, 1]), np.array([1, 1, 1]))
TRIALS = 300


def within(successes, probability):
    """False-alarm rate 1e-6, two-sided, exact."""
    return binom.ppf(5e-7, TRIALS, probability) <= successes <= binom.isf(5e-7, TRIALS, probability)


@pytest.mark.statistical
def test_an_explicit_distinguisher_beats_the_integer_messages():
    bit_noise = BitNoise(users=60, honest_users=60, bits_per_user=3, probability=0.5)
    twin, noise = IntegerMessages(SPEC, bit_noise), SimulationNoise(np.random.default_rng(1))
    expected = 1 - (1 - 2.0**-3) ** len(RARE)  # 0.66: the user touches 8 counters
    caught = sum(certain(twin.view(RARE, noise), 3) for _ in range(TRIALS))
    innocent = sum(certain(twin.view(RARE[:0], noise), 3) for _ in range(TRIALS))
    assert innocent == 0
    assert within(caught, expected)
    # Power: a distinguisher 25% weaker or stronger would not pass for this one.
    assert not within(0.75 * caught, expected)
    assert not within(1.25 * caught, expected)


@pytest.mark.statistical
def test_the_same_distinguisher_learns_nothing_from_single_bits():
    bit_noise = BitNoise(users=60, honest_users=60, bits_per_user=3, probability=0.5)
    noise = SimulationNoise(np.random.default_rng(2))
    carried = Transport(
        num_counters=SPEC.num_counters, slots=SPEC.slots, users=60, bits_per_user=3, probability=0.5, overflow_prob=0.0
    )
    fired = {}
    for name, ones in (("rare", RARE), ("nothing", RARE[:0])):
        fired[name] = 0
        for _ in range(40):
            reports = [
                pack(carried, ones if i == 0 else RARE[:0], coins(carried.noise_bits, 0.5, noise)) for i in range(60)
            ]
            # All it can count is ones per label; more of them than noise bits would be certainty.
            sums = np.bincount(permuted(reports, noise), minlength=SPEC.num_counters + 1)
            fired[name] += bool((sums[:-1] > bit_noise.total.bits).any())
    assert fired == {"rare": 0, "nothing": 0}
    # It would fire with probability 2^-180 per counter: far below any delta.
    assert binom.pmf(180, 180, 0.5) < 1e-50


@pytest.mark.parametrize(("users", "at_least"), [(20_000, 2e-6), (50_000, 0.017), (100_000, 0.435), (1_000_000, 0.99)])
def test_the_printed_protocol_fails_its_claim_by_the_computed_margin(users, at_least):
    """δ ≥ 1 − (1 − q^m)^{3H} at every ε, for the printed noise, H = 6, a claim of (1, 1e-6)."""
    noise = paper_bit_noise(
        epsilon=1.0, delta=1e-6, users=users, horizon=6, num_states=4, num_actions=2, variant="2024"
    )
    delta = -math.expm1(18 * math.log1p(-(noise.probability**noise.bits_per_user)))
    assert delta >= at_least * 0.98
    assert delta > 1e-6
