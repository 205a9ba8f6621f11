"""What a hostile reader found in the accountant, the ledger and the claims: each test failed once."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import mpmath
import pytest

from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import BinomialEvent, GaussianEvent, LaplaceEvent, PureEvent
from tacit.accounting.events.binomial import binomial_epsilon
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.accounting.ledger import Ledger
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape

LOCAL = PrivacyClaim(
    trust="local",
    epsilon=1.0,
    delta=0.0,
    unit=PrivacyUnit(reports=1, per_stage=1),
    neighbours="replace-one",
    output="every-message",
)


@pytest.mark.parametrize("scale", [0.5, 3.0, 7.0, 34.0])
@pytest.mark.parametrize("delta", [1e-14, 1e-12, 1e-9])
def test_epsilon_just_below_an_atom_is_rounded_up_although_its_loss_is_rounded(scale: float, delta: float) -> None:
    # One integer counter: δ(ε) = p (1 − e^(ε−t)) just below the largest loss t = 2/b, where p = P[z ≤ 0].
    found = epsilon_of(((LaplaceEvent(scale=scale, shift=2.0, discrete=True), 1),), delta)
    with mpmath.workdps(50):
        t = 2 / mpmath.mpf(scale)
        exact = (1 - mpmath.exp(found - t)) / (1 + mpmath.exp(-1 / mpmath.mpf(scale)))
        assert exact <= delta


def test_epsilon_of_discrete_gaussian_noise_is_rounded_up_near_its_atoms() -> None:
    sigma, shift, delta = 0.3, 2, 1e-9
    found = epsilon_of(((GaussianEvent(sigma=sigma, shift=float(shift), discrete=True), 1),), delta)
    with mpmath.workdps(50):
        weights = {z: mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for z in range(-30, 31)}
        excess = mpmath.fsum(
            max(mpmath.mpf(0), weights[z] - mpmath.exp(found) * weights.get(z - shift, mpmath.mpf(0))) for z in weights
        )
        assert excess / mpmath.fsum(weights.values()) <= delta


def test_a_ledger_refuses_what_exceeds_the_budget_by_less_than_a_float_can_show(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", LOCAL)
    release = {"users": range(10), "events": None, "recipient": "learner", "what": "visits", "noise": "secure"}
    ledger.charge(claim=LOCAL, **release)
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.charge(claim=replace(LOCAL, epsilon=1e-17), **release)
    assert len(ledger.entries()) == 1


def test_ten_tenths_still_fit_a_budget_of_one(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", LOCAL)
    for _ in range(10):
        ledger.charge(
            users=range(3),
            claim=replace(LOCAL, epsilon=0.1),
            events=None,
            recipient="learner",
            what="visits",
            noise="secure",
        )
    assert ledger.spent(0) == (1.0, 0.0)


@pytest.mark.parametrize(("trust", "delta"), [("local", 0.0), ("central", 1e-6), ("shuffle", 1e-6)])
def test_no_privatizer_certifies_a_person_who_contributes_several_trajectories(trust: str, delta: float | None) -> None:
    # The events of a privatizer are those of one trajectory: a claim about three would be certified by mistake.
    shape = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
    privatizer = make_privatizer(
        PrivacyRequest(
            trust=trust,
            shape=shape,
            episodes=1000,
            epsilon=1.0,
            delta=delta,
            calibration=None,
            mechanism=None,
            users_per_batch=500 if trust == "shuffle" else 1,
        )
    )
    group = replace(privatizer.claim, unit=PrivacyUnit(reports=3, per_stage=3))
    if trust == "shuffle":  # a simulation runs the stages of studies: they, and their plan, state the claim
        stages = tuple(replace(stage, claim=group) for stage in privatizer.channels)
        with pytest.raises(InvalidInput, match="at most one report per person and stage"):
            replace(privatizer, basis=replace(privatizer.basis, claim=group), channels=stages).certificate()
        return
    with pytest.raises(NotSupported, match="group"):
        replace(privatizer, claim=group).certificate()


@pytest.mark.parametrize(
    ("mechanism", "epsilon"), [("oue", 3000.0), ("oue", 1e6), ("rr", 1e6), ("gaussian", 1e6), ("bounded", 3000.0)]
)
def test_an_absurdly_large_epsilon_is_computed_and_not_a_crash(mechanism: str, epsilon: float) -> None:
    shape = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
    privatizer = make_privatizer(
        PrivacyRequest(
            trust="local",
            shape=shape,
            episodes=10,
            epsilon=epsilon,
            delta=1e-6,
            calibration=None,
            mechanism=mechanism,
            users_per_batch=1,
        )
    )
    assert privatizer.certificate().holds
    assert all(std >= 0.0 for std in privatizer.noise_std().values())


def test_certificates_of_very_many_noise_bits_stay_interactive() -> None:
    # What [bai2025secure] prints for (1e-3, 1e-12): a trillion bits, fourteen million outcomes of one counter.
    started = time.process_time()
    found = binomial_epsilon(10**12, 0.5, 18, 18, 1e-12)
    assert time.process_time() - started < 5.0
    # Binomial noise of so many bits is Gaussian to many digits: μ² = 36 / (N/4).
    assert found == pytest.approx(gaussian_epsilon(1e-12, math.sqrt(36 * 4 / 10**12)), rel=1e-4)


@pytest.mark.parametrize("epsilon", [35.3, 41.7, 49.3, 60.1])
@pytest.mark.parametrize("uses", [2, 3, 5])
def test_delta_of_nearly_certain_large_losses_is_rounded_up(epsilon: float, uses: int) -> None:
    # Two counters under one fair noise bit each give themselves away with probability 3/4; otherwise nearly all of the
    # remaining mass has the loss uses · ε, so that δ is all but 1 at a moderate ε.
    events = ((PureEvent(epsilon=epsilon), uses), (BinomialEvent(bits=1, probability=0.5, shift=1), 2))
    assert 1.0 - delta_of(events, 20.0) <= 1e-14


@pytest.mark.parametrize(("epsilon", "count"), [(1e-3, 1), (1e-3, 100_000), (0.05, 400), (0.7, 37), (5.0, 12)])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-3])
def test_randomized_bits_compose_to_the_binomial_sum_from_above(epsilon: float, count: int, delta: float) -> None:
    # k of n bits point to P with probability Binomial(n, e^ε/(1+e^ε)), and the loss is then (2k − n) ε: exact.
    found = epsilon_of(((PureEvent(epsilon=epsilon), count),), delta)
    with mpmath.workdps(30):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        first = int(mpmath.ceil((found / mpmath.mpf(epsilon) + count) / 2))
        term = mpmath.binomial(count, first) * p**first * (1 - p) ** (count - first)
        exact = mpmath.mpf(0)
        for k in range(first, count + 1):
            exact += term * (1 - mpmath.exp(found - (2 * k - count) * mpmath.mpf(epsilon)))
            term *= mpmath.mpf(count - k) / (k + 1) * p / (1 - p)
            if term < mpmath.mpf(delta) * mpmath.mpf(10) ** -20:
                break
        assert delta * 0.99 <= exact <= delta or found in (0.0, count * epsilon)


def test_a_release_without_protection_composes_with_anything() -> None:
    # Next to no finite mass in any part: the window of the transform is empty, and that is no reason to crash.
    events = ((BinomialEvent(bits=1, probability=1e-12, shift=1), 10), (PureEvent(epsilon=1.0), 3))
    assert delta_of(events, 1.0) == 1.0
    assert math.isinf(epsilon_of(events, 1e-3))
