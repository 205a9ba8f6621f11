"""Binomial noise: tables of another accountant, exact enumeration, Google's accountant, signs of every calibration."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from scipy import stats

from papers.bai2025secure.verdicts import hoeffding_bits
from tacit.accounting.bits import least_bits, least_probability
from tacit.accounting.events import binomial
from tacit.accounting.events.binomial import binomial_delta, binomial_epsilon, binomial_pld
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.accounting.pld import compose
from tacit.errors import InvalidInput


def enumerated_delta(bits: int, probability: float, up: int, down: int, epsilon: float) -> float:
    """All outcomes of all counters, both directions."""
    k = np.arange(-1, bits + 2)
    noise = {shift: stats.binom.pmf(k - shift, bits, probability) for shift in (-1, 0, 1)}
    p = q = np.ones(1)
    for shift in [1] * up + [-1] * down:
        p, q = np.outer(p, noise[0]).ravel(), np.outer(q, noise[shift]).ravel()
    return max(
        math.fsum(np.maximum(first - math.exp(epsilon) * second, 0.0))
        for first, second in itertools.permutations((p, q))
    )


@pytest.mark.parametrize(("bits", "probability"), [(6, 0.5), (7, 0.3), (5, 0.85)])
@pytest.mark.parametrize(("up", "down"), [(1, 0), (0, 1), (1, 1), (3, 0), (1, 3), (2, 2)])
def test_small_cases_equal_enumeration(bits: int, probability: float, up: int, down: int) -> None:
    for epsilon in (0.0, 0.4, 1.1, 3.0):
        exact = enumerated_delta(bits, probability, up, down, epsilon)
        found = binomial_delta(bits, probability, up, down, epsilon)
        assert exact * (1 - 1e-13) <= found <= exact * (1 + 3e-5) + 1e-15


def test_the_ends_of_the_support_leak_whatever_epsilon() -> None:
    assert binomial_delta(10, 0.5, 1, 0, 30.0) == pytest.approx(2**-10, rel=1e-9)
    assert binomial_delta(10, 0.5, 1, 0, 30.0) >= 2**-10
    assert binomial_delta(10, 0.2, 0, 1, 30.0) == pytest.approx(0.8**10, rel=1e-9), "the worse end"
    assert binomial_epsilon(10, 0.5, 1, 0, 1e-6) == math.inf


def test_biased_bits_need_both_directions() -> None:
    """Two counters up are, seen from the other neighbour, two counters down: the worse of the two is reported."""
    pld = binomial_pld(60, 0.2, 2, 0)
    assert pld.forward.delta(1.0) != pytest.approx(pld.backward.delta(1.0), rel=0.05)
    assert pld.delta(1.0) == max(pld.forward.delta(1.0), pld.backward.delta(1.0))
    assert binomial_delta(60, 0.2, 2, 0, 1.0) == binomial_delta(60, 0.2, 0, 2, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "bits"), [(1 / 36, 1e-6 / 36, 187_746), (1 / 4, 2.5e-7, 2070), (1 / 2, 5e-7, 513)]
)
def test_hoeffding_bits_has_the_published_vectors(epsilon: float, delta: float, bits: int) -> None:
    assert hoeffding_bits(epsilon, delta) == bits
    assert binomial_delta(bits, 0.5, 1, 0, epsilon) <= delta, "the closed formula is sound"


@pytest.mark.parametrize(
    ("epsilon", "differing", "bits"),
    [
        (1.0, 36, 2574),
        (1.0, 34, 2431),
        (1.0, 22, 1573),
        (1.0, 4, 288),
        (1.0, 2, 148),
        (0.1, 36, 190_144),
        (0.1, 34, 179_584),
        (0.1, 22, 116_128),
        (0.1, 4, 21_104),
        (0.1, 2, 10_552),
        (3.0, 36, 344),
        (3.0, 34, 325),
        (3.0, 22, 211),
        (3.0, 4, 42),
        (3.0, 2, 26),
    ],
)
def test_least_bits_has_the_published_table(epsilon: float, differing: int, bits: int) -> None:
    """The table's N are upper bounds of a coarser grid: at most 0.3 % (and one bit) above ours, never below."""
    half = differing // 2
    found = least_bits(epsilon, 1e-6, half, half)
    assert bits * (1 - 3e-3) - 1 <= found <= bits
    assert binomial_delta(found, 0.5, half, half, epsilon) <= 1e-6 < binomial_delta(found - 1, 0.5, half, half, epsilon)


def test_the_noise_is_at_most_what_is_promised() -> None:
    assert math.sqrt(least_bits(1.0, 1e-6, 18, 18)) / 2 <= 25.5
    assert math.sqrt(least_bits(1.0, 1e-6, 11, 11)) / 2 <= 19.9
    assert math.sqrt(least_bits(1.0, 1e-6, 2, 2)) / 2 <= 8.6


@pytest.mark.parametrize(
    ("differing", "users", "probability"),
    [(34, 10_000, 0.06517), (34, 100_000, 0.00614), (22, 10_000, 0.04115), (4, 1000, 0.0809), (4, 10_000, 0.00757)],
)
def test_least_probability_has_the_published_vectors(differing: int, users: int, probability: float) -> None:
    half = differing // 2
    found = least_probability(1.0, 1e-6, half, half, users)
    assert probability * (1 - 5e-3) <= found <= probability * (1 + 1e-3)
    assert binomial_delta(users, found, half, half, 1.0) <= 1e-6
    assert binomial_delta(users, found * (1 - 2e-6), half, half, 1.0) > 1e-6


@pytest.mark.parametrize(
    ("bits", "probability", "horizon", "epsilon"),
    [
        (4513 * 100, 0.5, 6, 0.06288),
        (452 * 1000, 0.5, 6, 0.06283),
        (46 * 10_000, 0.5, 6, 0.06224),
        (5 * 100_000, 0.5, 6, 0.05952),
        (1_000_000, 451_277 / 2e6, 6, 0.04972),
        (451_278 * 100, 0.5, 6, 0.00517),
        (4513 * 10_000, 0.5, 6, 0.00517),
        (5717 * 100, 0.5, 6, 0.05538),
        (572 * 1000, 0.5, 6, 0.05537),
        (58 * 10_000, 0.5, 6, 0.05496),
        (13 * 1000, 0.5, 1, 0.16094),
        (5015 * 1000, 0.5, 20, 0.03291),
    ],
)
def test_what_the_printed_calibration_certifies(bits: int, probability: float, horizon: int, epsilon: float) -> None:
    """[bai2024shuffle], [bai2025secure]: 3H counters up and 3H down at δ = 1e-6, within 5 s of processor time."""
    start = time.process_time()
    found = binomial_epsilon(bits, probability, 3 * horizon, 3 * horizon, 1e-6)
    assert time.process_time() - start < 5.0
    assert epsilon * (1 - 2e-3) <= found <= epsilon * (1 + 5e-4)


def test_zero_out_costs_less() -> None:
    """One user's data erased instead of replaced: 3H counters move, all down (Lemma S4 (staged counts))."""
    assert binomial_epsilon(452_000, 0.5, 0, 18, 1e-6) == pytest.approx(0.0433, abs=1e-4)
    assert binomial_epsilon(1_000_000, 451_277 / 2e6, 0, 18, 1e-6) == pytest.approx(0.0342, abs=1e-4)


@pytest.mark.parametrize(
    ("bits", "probability", "up", "down"), [(2574, 0.5, 18, 18), (148, 0.5, 1, 1), (400, 0.1, 1, 0), (900, 0.3, 4, 1)]
)
def test_googles_accountant_brackets_ours(bits: int, probability: float, up: int, down: int) -> None:
    deviation = math.sqrt(bits * probability * (1 - probability))
    k = np.arange(max(0, int(bits * probability - 14 * deviation)), min(bits, int(bits * probability + 14 * deviation)))
    logs = stats.binom.logpmf(k, bits, probability).tolist()
    here, there = dict(zip(k.tolist(), logs, strict=True)), dict(zip((k + 1).tolist(), logs, strict=True))

    def epsilon(ups: int, downs: int, *, pessimistic: bool) -> float:
        def part(lower: dict[int, float], upper: dict[int, float]) -> google.PrivacyLossDistribution:
            return google.from_two_probability_mass_functions(
                lower,
                upper,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=1 / (1500 * deviation),
                log_mass_truncation_bound=-60,
                symmetric=False,
            )

        composed = part(there, here).self_compose(ups) if ups else part(here, there).self_compose(downs)
        if ups and downs:
            composed = composed.compose(part(here, there).self_compose(downs))
        return float(composed.get_epsilon_for_delta(1e-6))

    low, high = (max(epsilon(up, down, pessimistic=s), epsilon(down, up, pessimistic=s)) for s in (False, True))
    ours = binomial_epsilon(bits, probability, up, down, 1e-6)
    assert low <= ours <= high
    assert ours == pytest.approx((low + high) / 2, rel=1e-4)


def test_more_bits_are_never_less_private() -> None:
    deltas = [binomial_delta(bits, 0.5, 2, 2, 1.0) for bits in range(100, 400, 20)]
    assert all(later < earlier for earlier, later in itertools.pairwise(deltas))


def test_group_shift_of_one_counter_is_not_hidden_by_the_count() -> None:
    """The same event n times is one event with count n, in any order."""
    assert binomial_pld(300, 0.4, 2, 1).delta(0.7) == pytest.approx(
        binomial_pld(300, 0.4, 1, 1).compose(binomial_pld(300, 0.4, 1, 0)).delta(0.7), rel=1e-5
    )


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="cannot give delta = 0"):
        least_bits(1.0, 0.0, 1, 1)
    with pytest.raises(InvalidInput, match="fair bits are needed in all"):
        least_probability(1.0, 1e-6, 17, 17, 100)
    with pytest.raises(InvalidInput, match="strictly between"):
        binomial_epsilon(10, 1.0, 1, 1, 1e-6)
    with pytest.raises(InvalidInput, match="bits"):
        binomial_epsilon(0, 0.5, 1, 1, 1e-6)
    with pytest.raises(InvalidInput, match="up \\+ down"):
        least_bits(1.0, 1e-6, 0, 0)
    for bad in (math.nan, 0.0, -1.0, math.inf):
        with pytest.raises(InvalidInput, match="epsilon"):
            least_bits(bad, 1e-6, 1, 1)


@pytest.mark.parametrize(("bits", "probability"), [(10**10, 0.5), (10**10, 0.2), (3 * 10**10, 0.03)])
def test_blocks_by_formula_are_the_blocks_of_listed_outcomes(bits: int, probability: float) -> None:
    # Where both can be computed: every outcome, and 10⁵ blocks of neighbours by Stirling's formula.
    reach = binomial.DEVIATIONS * math.sqrt(bits * probability * (1.0 - probability)) + binomial.MARGIN
    listed, summed = binomial._counter.__wrapped__(bits, probability), binomial._summed(bits, probability, reach)
    unit = 1.0 / math.sqrt(bits * probability * (1.0 - probability))
    for up, down in ((1, 0), (18, 18), (200, 150)):
        slow, fast = (compose([(one, up), (one.reversed, down)]) for one in (listed, summed))
        for deviations in (0.0, 0.5, 2.0, 5.0):
            epsilon = deviations * unit * math.sqrt(up + down)
            assert fast.delta(epsilon) == pytest.approx(slow.delta(epsilon), rel=1e-6)


@pytest.mark.parametrize("bits", [10**12, 77_598_160_000_000, 10**18])
def test_very_many_bits_are_gaussian_noise_at_the_price_of_few_atoms(bits: int) -> None:
    pld = binomial_pld.__wrapped__(bits, 0.5, 18, 18)
    mu = 2.0 * math.sqrt(36 / bits)
    for delta in (mu / 50.0, mu / 1e4):
        assert pld.epsilon(delta) == pytest.approx(gaussian_epsilon(delta, mu), rel=1e-5)
    assert binomial._counter.__wrapped__(bits, 0.5).forward.losses.size <= 2**18 + 16
