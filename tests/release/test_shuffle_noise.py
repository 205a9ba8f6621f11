"""Calibration of the noise bits: reference numbers, the private side, the honest share."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom
from shuffle_tools import EVERYTHING, plan_of, release_with, shuffle_claim

from tacit.accounting.bits import least_bits
from tacit.accounting.events import MirroredEvent, binomial
from tacit.accounting.events.binomial import binomial_delta, binomial_epsilon, mirrored_pld
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.protocol import TOTALS
from tacit.release.contract import StageSize
from tacit.release.shuffle.labels import BitNoise, least_bit_noise
from tacit.release.shuffle.roles import overflow_slack
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.statistics.count_spec import ReleaseSpec

REFERENCE = {"num_states": 4, "num_actions": 2, "horizon": 6}
FINE = ReleaseSpec.fine(**REFERENCE)
PRINTED = ReleaseSpec.fine(**REFERENCE, last_transition=True)
ONE_HOT = ReleaseSpec.one_hot(**REFERENCE)
CRUDE = ReleaseSpec.crude(**REFERENCE, layer=2)
CRUDE_WITH_VISITS = ReleaseSpec.crude(**REFERENCE, layer=2, visits=True)


SHAPE = CountShape(**REFERENCE, staged=True)


def tight(spec, **asked):
    return least_bit_noise(spec.families(), **{"epsilon": 1.0, "delta": 1e-6, "users": 1000, **asked})


def stage_of(users=1000, *, query=EVERYTHING, epsilon=1.0, delta=1e-6, **more):
    plan = plan_of(SHAPE, shuffle_claim(epsilon=epsilon, delta=delta), **more)
    return plan.release_of(StageSize(target=users, least=users, query=query))


def certified(noise, spec, delta=1e-6):
    """What the exact accountant finds for the events of this noise in these counters."""
    events = noise.events(spec.families())
    (event, _), *_ = events
    assert all((e.bits, e.probability) == (event.bits, event.probability) for e, _ in events)
    up = sum(count for e, count in events if e.shift == 1)
    down = sum(count for e, count in events if e.shift == -1)
    assert (up, down) == (spec.differing // 2, spec.differing // 2)
    if isinstance(event, MirroredEvent):
        return mirrored_pld(event.bits, event.probability, up + down).epsilon(delta)
    return binomial_epsilon(event.bits, event.probability, up, down, delta)


@pytest.mark.parametrize(
    ("spec", "largest"), [(FINE, 24.7), (PRINTED, 25.5), (ONE_HOT, 19.9), (CRUDE, 6.5), (CRUDE_WITH_VISITS, 8.65)]
)
def test_g2_tight_noise_of_the_reference_instance(spec, largest):
    noise = tight(spec)
    assert noise.total.std <= largest
    assert 0.9999 <= certified(noise, spec) <= 1.0


@pytest.mark.parametrize("query", [EVERYTHING, BatchQuery(layer=2, failure_prob=None), TOTALS])
def test_a_plan_takes_the_least_noise_for_the_counters_of_its_query(query):
    stage = stage_of(query=query)
    assert stage.spec == (CRUDE if query not in (EVERYTHING, TOTALS) else ONE_HOT)
    assert stage.bit_noise(1000) == tight(stage.spec)
    assert stage.noise_std()["transitions"] == stage.law(1000).std


def test_crude_noise_with_visits_at_batches_that_can_use_nearly_fair_bits():
    """288 fair bits have std 8.49; with one bit per user the bias grows with the batch (8.61 at 1000 users)."""
    assert least_bits(1.0, 1e-6, 2, 2) == 288
    assert tight(CRUDE_WITH_VISITS, users=100).total.std <= 8.5


def test_rounding_up_to_whole_bits_per_user_costs_nothing():
    """m = ⌈N/n⌉ bits; fair ones would have std 27.4 where 24.6 is enough."""
    noise = tight(FINE)
    assert noise.bits_per_user == math.ceil(least_bits(1.0, 1e-6, 17, 17) / 1000) == 3
    assert math.sqrt(3000) / 2 > 27.3
    assert noise.total.std < 1.003 * math.sqrt(least_bits(1.0, 1e-6, 17, 17)) / 2


def test_the_biased_bits_of_the_design_notes():
    for spec, users, q in ((FINE, 10_000, 0.06517), (FINE, 100_000, 0.00614), (ONE_HOT, 10_000, 0.04115)):
        noise = least_bit_noise(spec.families(), epsilon=1.0, delta=1e-6, users=users)
        assert noise.bits_per_user == 1
        assert noise.probability == pytest.approx(q, rel=0.006)


def test_g2_calibration_rounds_to_the_private_side():
    for spec, users in ((FINE, 1000), (CRUDE_WITH_VISITS, 1000), (ONE_HOT, 50)):
        noise = least_bit_noise(spec.families(), epsilon=1.0, delta=1e-6, users=users)
        up = spec.differing // 2
        assert binomial_delta(noise.total.bits, noise.probability, up, up, 1.0) <= 1e-6
        assert binomial_delta(noise.total.bits, noise.probability * 0.99, up, up, 1.0) > 1e-6


@pytest.mark.parametrize(("variant", "std", "epsilon"), [("2024", 336.2, 0.063), ("2025", 378.2, 0.055)])
def test_paper_noise_and_what_it_really_gives(variant, std, epsilon):
    stage = stage_of(calibration="paper", variant=variant, users_per_batch=1000, query=TOTALS)
    assert stage.spec == PRINTED
    assert stage.noise_std()["visits"] == pytest.approx(std, abs=0.1)
    assert certified(stage.bit_noise(1000), stage.spec) == pytest.approx(epsilon, abs=0.0005)


def test_paper_noise_beyond_tau_is_one_biased_bit():
    stage = stage_of(1_000_000, calibration="paper", variant="2024", users_per_batch=1_000_000, query=TOTALS)
    assert stage.bits_per_user == 1
    assert float(stage.probability) == pytest.approx(0.2256, abs=1e-4)
    assert certified(stage.bit_noise(1_000_000), stage.spec) == pytest.approx(0.04972, abs=3e-4)


def test_an_honest_share_raises_the_noise_and_only_honest_bits_are_certified():
    whole, half = tight(FINE), tight(FINE, honest_fraction=0.5)
    assert half.honest_users == 500
    assert all(event.bits == 500 * half.bits_per_user for event, _ in half.events(FINE.families()))
    assert certified(half, FINE) <= 1.0
    assert half.total.std == pytest.approx(math.sqrt(2) * whole.total.std, rel=0.01)
    # Without the share the same batch would not survive the loss of half of its noise.
    lost = binomial_epsilon(500 * whole.bits_per_user, whole.probability, 17, 17, 1e-6)
    assert lost > 1.3


class Trials:
    """Counts the privacy-loss distributions that are computed."""

    def __init__(self, monkeypatch):
        self.bits, self.last = [], None
        original = binomial._counter.__wrapped__

        def counted(bits, probability):
            if self.last != (bits, probability):  # up and down share one
                self.bits.append(bits)
            self.last = bits, probability
            return original(bits, probability)

        monkeypatch.setattr(binomial, "_counter", counted)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-4, 1e-12), (1e-5, 1e-6), (1e-5, 1e-12), (1e-9, 1e-12)])
def test_a_hopeless_request_is_refused_without_any_work(epsilon, delta, monkeypatch):
    # Up to 0.2.0 the smallest batch was computed exactly first: a minute for distributions over 10⁸ outcomes.
    trials = Trials(monkeypatch)
    with pytest.raises(InvalidInput, match=r"a batch must have about .* users .* got 1000"):
        tight(FINE, epsilon=epsilon, delta=delta, max_bits_per_user=4096)
    assert trials.bits == []


def test_an_extreme_request_takes_few_trials(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path))  # no answer is remembered
    trials = Trials(monkeypatch)
    extreme = {"epsilon": 1.03e-3, "delta": 1e-12, "users": 10**6}
    noise = least_bit_noise(FINE.families(), **extreme, max_bits_per_user=4096)
    assert len(trials.bits) <= 8
    assert all(bits == noise.bits_per_user * 10**6 for bits in trials.bits[-4:])


@pytest.mark.parametrize("users", [1, 7, 100, 288, 289, 5000])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_bits_that_everybody_adds_alike_are_the_fewest_bits_rounded_up(users, epsilon):
    fewest = least_bits(epsilon, 1e-6, 2, 2)
    assert least_bits(epsilon, 1e-6, 2, 2, users) == math.ceil(fewest / users) * users


def test_minimum_batch():
    asked = {"honest_fraction": 0.9, "max_bits_per_user": 8}
    honest = math.ceil(least_bits(1.0, 1e-6, 17, 17) / 8)
    least = next(n for n in range(honest, 2 * honest) if math.floor(0.9 * n) >= honest)
    assert tight(FINE, users=least, **asked).bits_per_user == 8
    with pytest.raises(InvalidInput, match=f"a batch must have at least {least} users"):
        tight(FINE, users=least - 1, **asked)
    with pytest.raises(InvalidInput, match="at least 4 users"):
        tight(FINE, users=3, honest_fraction=0.25)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"delta": -1e-6},
        {"delta": 1.5},
        {"delta": float("nan")},
        {"users": 0},
        {"users": 10.5},
        {"honest": 0.0},
        {"honest": 1.1},
        {"honest": float("nan")},
        {"overflow": -0.1},
        {"overflow": 1e-6},
        {"overflow": float("nan")},
    ],
)
def test_bad_input_is_refused(bad):
    with pytest.raises(InvalidInput):
        stage_of(**bad)


def test_names_are_checked():
    with pytest.raises(UnknownName, match="2025"):
        stage_of(calibration="paper", variant="2026")
    with pytest.raises(InvalidInput, match="'tight' or 'paper'"):
        stage_of(calibration="none")


def test_pure_privacy_is_refused_and_an_alternative_named():
    with pytest.raises(NotSupported, match="delta"):
        stage_of(delta=0.0)
    with pytest.raises(NotSupported, match="laplace"):
        tight(FINE, delta=0.0)


def test_an_overflow_is_paid_from_delta():
    plain, batch = stage_of(), stage_of(overflow=1e-7)
    slack = overflow_slack(1.0, 1e-7)
    assert slack == pytest.approx((1 + math.e) * 1e-7)
    assert plain.events() == plain.bit_noise(1000).events(ONE_HOT.families())
    noise = batch.bit_noise(1000)
    assert binomial_delta(noise.total.bits, noise.probability, 11, 11, 1.0) <= 1e-6 - slack
    assert noise.probability > float(plain.probability)


def test_precision_covers_with_exact_tails():
    noise = BitNoise(users=1000, honest_users=1000, bits_per_user=1, probability=0.0437)
    batch = release_with(SHAPE, noise, query=BatchQuery(layer=2, failure_prob=None))
    assert batch.spec == CRUDE
    noise, entries = noise.total, 32 + 8
    E = batch.precision(1000, 0.05)
    for terms in (1, 4):
        law = binom(terms * noise.bits, noise.probability)
        miss = law.sf(terms * noise.mean + E / 4) + law.cdf(math.ceil(terms * noise.mean - E / 4) - 1)
        assert miss <= 0.05 / entries
    # The sum of four cells decides, and a tenth less would not do for it.
    assert law.sf(4 * noise.mean + 0.9 * E / 4) > 0.05 / entries / 2
