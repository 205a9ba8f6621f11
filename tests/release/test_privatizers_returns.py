"""One bit about a return: its law on both paths, its certificate, its exact form on a device, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.accounting.claims import PrivacyUnit, no_privacy
from tacit.accounting.composition import pure_epsilon_of
from tacit.accounting.events import PureEvent
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import InvalidInput, NotSupported
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.request import PrivacyRequest
from tacit.release.returns import OneBitReturns, ReturnRelease, bit_chances
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.released.returns import ReturnQuery

SHAPE = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
REWARDS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.5], [1.0, 1.0, 1.0], [0.25, 0.25, 0.0], [1.0, 0.0, 0.0]])
MEAN = ReturnQuery(groups=(3, 2), bit="mean", level=2.0)
TAIL = ReturnQuery(groups=(3, 2), bit="tail", level=1.0)
CHANCES = {"mean": [0.0, 0.75, 1.0, 0.25, 0.5], "tail": [0.0, 1.0, 1.0, 0.0, 0.0]}


def people(rewards: Any = REWARDS) -> Trajectories:
    users, H = rewards.shape
    return Trajectories(np.zeros((users, H + 1), np.int64), np.zeros((users, H), np.int64), np.array(rewards))


def made(epsilon: float | None = 1.0, **changes: Any) -> OneBitReturns:
    asked: dict[str, Any] = {
        "trust": "none" if epsilon is None else "local", "shape": SHAPE, "episodes": 100, "epsilon": epsilon,
        "delta": None if epsilon is None else 0.0, "calibration": None, "mechanism": None, "users_per_batch": 1,
        "asks": ReturnQuery,
    }  # fmt: skip
    found = make_privatizer(PrivacyRequest(**asked | changes))
    assert isinstance(found, OneBitReturns)
    return found


def stage_of(privatizer: OneBitReturns) -> ReturnRelease:
    return privatizer.release_of(StageSize(target=5, least=5, query=MEAN))


def law(chances: list[float], flip: float) -> np.ndarray[Any, Any]:
    """The exact distribution of the number of ones, bit by bit."""
    found = np.ones(1)
    for chance in chances:
        one = flip + (1.0 - 2.0 * flip) * chance
        found = np.convolve(found, [1.0 - one, one])
    return found


@pytest.mark.parametrize("query", [MEAN, TAIL], ids=lambda query: query.bit)
def test_the_chance_of_a_bit_is_the_rounded_return_or_the_tail(query: ReturnQuery) -> None:
    assert bit_chances(REWARDS, query).tolist() == CHANCES[query.bit]


@pytest.mark.statistical
@pytest.mark.parametrize("path", ["aggregate", "messages", "secure"])
@pytest.mark.parametrize("query", [MEAN, TAIL], ids=lambda query: query.bit)
def test_G3_both_paths_have_the_law_of_independent_flipped_bits(query: ReturnQuery, path: str) -> None:
    """Chi-squared against the exact law of both groups; false-alarm rate 1e-6 each."""
    privatizer, users, count = made(1.0), people(), 2000 if path != "secure" else 800
    noise = SimulationNoise(np.random.default_rng(7))
    seen, stage = np.zeros((count, 2), dtype=np.int64), stage_of(privatizer)
    for row in seen:
        if path == "messages":
            _, payload = stage.simulate(stage.begin_secret(), users, query, noise)
            row[:] = stage.read(stage.begin_memory(), payload, 5)[1].statistics.ones[:2]
        else:
            used: Any = noise if path == "aggregate" else SecureNoise()
            row[:] = privatizer.release(privatizer.begin(), users, query, used)[1].statistics.ones
    flip, chances = 1.0 / (1.0 + math.e), CHANCES[query.bit]
    for group, part in ((0, chances[:3]), (1, chances[3:])):
        expected = count * law(part, flip)
        observed = np.bincount(seen[:, group], minlength=len(expected))
        assert stats.chisquare(observed, expected).pvalue > 1e-6


@pytest.mark.statistical
def test_G2_debiased_ones_are_unbiased_with_the_stated_variance() -> None:
    """The mean of 4,000 releases of a hundred people, within five standard errors."""
    privatizer, query = made(0.7), ReturnQuery(groups=(100,), bit="mean", level=3.0)
    users, noise = people(np.full((100, 3), 0.4)), SimulationNoise(np.random.default_rng(3))
    state, told = privatizer.begin(), privatizer.bit_noise()
    ones = [privatizer.release(state, users, query, noise)[1].statistics.ones[0] for _ in range(4000)]
    found = told.debias(np.array(ones), np.full(4000, 100.0))
    # Var = n (e^ε/(e^ε−1)² + x(1−x)) at x = 0.4
    variance = 100.0 * (math.exp(0.7) / math.expm1(0.7) ** 2 + 0.4 * 0.6)
    assert abs(found.mean() - 40.0) < 5.0 * math.sqrt(variance / 4000)
    assert found.var() == pytest.approx(variance, rel=0.15)


def test_G1_the_certificate_is_pure_and_all_of_epsilon_is_on_the_bit() -> None:
    privatizer = made(1.5)
    assert privatizer.events() == ((PureEvent(epsilon=1.5), 1),)
    found = privatizer.certificate()
    assert (found.holds, found.epsilon, found.delta, found.method) == (True, 1.5, 0.0, "pure composition")
    # e^ε is exactly the ratio of the two answers
    flip = privatizer.bit_noise().flip
    assert (1.0 - flip) / flip == pytest.approx(math.exp(1.5), rel=1e-12)


def test_G1_reports_of_one_person_compose() -> None:
    privatizer = made(1.5, unit=PrivacyUnit(reports=3, per_stage=1))
    ((event, count),) = privatizer.events()
    assert isinstance(event, PureEvent)
    assert (count, event.epsilon) == (3, pytest.approx(0.5, rel=1e-6))
    assert pure_epsilon_of(privatizer.events()) <= Fraction(3, 2)
    assert privatizer.certificate().holds


def test_without_a_trust_model_bits_are_as_they_are() -> None:
    privatizer, noise = made(None), SimulationNoise(np.random.default_rng(0))
    released = privatizer.release(privatizer.begin(), people(), TAIL, noise)[1]
    assert released.statistics.ones.tolist() == [2.0, 0.0]
    assert released.claim == no_privacy()
    assert privatizer.certificate().epsilon == math.inf


def test_a_device_sends_one_bit_and_the_server_reads_nothing_else() -> None:
    stage, user = stage_of(made(40.0)), people()
    sent = list(stage.answers_of(user, TAIL, SecureNoise()))
    # At epsilon 40 a bit is flipped with probability e^-40.
    assert [(body[0], float(body[1])) for body in sent] == list(zip([0, 0, 0, 1, 1], CHANCES["tail"], strict=True))
    _, payload = stage.release(stage.begin_secret(), sent, TAIL, SecureNoise())
    assert stage.read(stage.begin_memory(), payload, 5)[1].statistics.ones[:2].tolist() == [2.0, 0.0]
    for odd in (b"\x00\x02", b"\x00\xff"):
        with pytest.raises(InvalidInput, match="must end with a bit"):
            stage.check(odd)
    one = Trajectory(user.states[0], user.actions[0], user.rewards[0])
    with pytest.raises(TypeError, match="SecureNoise"):
        stage.answer(TAIL, 0, one, np.random.default_rng(0))  # type: ignore[arg-type]


def test_what_nobody_may_report_is_clipped() -> None:
    odd = people(np.array([[np.nan, -3.0, -np.inf], [np.inf, 7.0, 1e300]]))
    query = ReturnQuery(groups=(2,), bit="mean", level=3.0)
    assert bit_chances(odd.rewards, query).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"mechanism": "laplace"}, "randomized response"), ({"trust": "central"}, "not central"),
     ({"trust": "shuffle", "delta": 1e-6}, "not shuffle")],
)  # fmt: skip
def test_other_mechanisms_and_trust_models_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(NotSupported, match=words):
        made(1.0, **changes)


def test_what_does_not_fit_is_refused() -> None:
    privatizer, noise = made(1.0), SimulationNoise(np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="no paper prints"):
        made(1.0, calibration="paper")
    with pytest.raises(InvalidInput, match="5 users"):
        privatizer.release(privatizer.begin(), people(REWARDS[:4]), MEAN, noise)
    with pytest.raises(InvalidInput, match="3 steps"):
        privatizer.release(privatizer.begin(), people(REWARDS[:, :2]), MEAN, noise)
    with pytest.raises(InvalidInput, match="only under trust 'none'"):
        replace(privatizer, mechanism=None)
    for wrong in ({"groups": ()}, {"groups": (0,)}, {"bit": "median"}, {"level": 0.0}, {"level": math.nan}):
        with pytest.raises(InvalidInput):
            ReturnQuery(**{"groups": (1,), "bit": "mean", "level": 1.0, **wrong})  # type: ignore[arg-type]
