"""Slack: closeness in total variation, against brute force on finite mechanisms; where it ends nothing is promised."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import mpmath
import numpy as np
import pytest

from tacit.accounting.certificate import certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import delta_of, epsilon_of, merged, method_of
from tacit.accounting.events import ApproximationEvent, BinomialEvent, Event, GaussianEvent, LaplaceEvent, PureEvent
from tacit.accounting.events.gaussian import gaussian_delta
from tacit.accounting.pld import PLD
from tacit.errors import InvalidInput

DELTA = 1e-6


@dataclass(frozen=True)
class Pair(Event):
    """Two laws on a few outcomes."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    NAME: ClassVar[str] = "pair"

    def pld(self) -> PLD:
        with np.errstate(divide="ignore"):
            return PLD.from_log_pmfs(np.log(self.p), np.log(self.q))

    def pure(self) -> float:
        return math.inf

    def scaled(self, factor: float) -> Pair:
        return self

    def noisier(self, factor: float) -> Pair:
        return self

    def signal(self) -> float:
        return math.inf


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    gamma = math.exp(epsilon)
    return float(max(np.maximum(p - gamma * q, 0.0).sum(), np.maximum(q - gamma * p, 0.0).sum()))


def moved(law: np.ndarray, tv: float, coins: np.random.Generator) -> np.ndarray:
    """Another law at the distance tv, on the same outcomes."""
    take = coins.dirichlet(np.full(len(law), 0.3)) * tv
    taken = np.minimum(take, law)
    give = coins.dirichlet(np.full(len(law), 0.3)) * taken.sum()
    return np.asarray(law - taken + give)


@pytest.mark.parametrize("seed", range(8))
def test_no_close_pair_is_less_private_than_what_is_accounted(seed: int) -> None:
    coins = np.random.default_rng(seed)
    p, q = coins.dirichlet(np.ones(4)), coins.dirichlet(np.ones(4))
    tv, up_to = 10.0 ** coins.uniform(-4, -1), float(coins.uniform(0.2, 2.0))
    events = ((Pair(tuple(p), tuple(q)), 2), (ApproximationEvent(tv=tv, up_to=up_to), 2))
    worst = 0.0
    for _ in range(200):
        # Two rounds, each of a law that is only close, the second one chosen in view of the first outcome.
        first = [moved(p, tv, coins), moved(q, tv, coins)]
        then = [[moved(law, tv, coins) for _ in range(4)] for law in (p, q)]
        joint = [np.concatenate([first[w][x] * then[w][x] for x in range(4)]) for w in (0, 1)]
        for epsilon in (0.0, up_to / 2, up_to):
            found, most = hockey_stick(joint[0], joint[1], epsilon), delta_of(events, epsilon)
            assert found <= most
            worst = max(worst, found / most)
    assert worst > 0.3  # the bound is not empty


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_the_bound_is_attained_by_randomized_response(epsilon: float) -> None:
    # P' moves tv to an outcome of its own, Q' as much away from where P is likely: Lemma P13 (close laws).
    tv = 1e-3
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    p = np.array([keep, 1.0 - keep - tv, tv, 0.0])
    q = np.array([1.0 - keep - tv, keep, 0.0, tv])
    exact = hockey_stick(p, q, epsilon)
    stated = delta_of(((PureEvent(epsilon=epsilon), 1), (ApproximationEvent(tv=tv, up_to=epsilon), 1)), epsilon)
    assert exact * (1 - 1e-12) <= stated <= exact * (1 + 1e-12)
    assert stated == pytest.approx((1.0 + math.exp(epsilon)) * tv, rel=1e-12)


def test_a_gaussian_beside_slack_stays_analytic() -> None:
    noise, slack = GaussianEvent(sigma=5.0, shift=1.0), ApproximationEvent(tv=1e-9, up_to=2.0)
    events = ((noise, 3), (slack, 2))
    assert method_of(events, DELTA) == "analytic Gaussian"
    mu = math.sqrt(3) / 5.0
    with mpmath.workdps(40):
        added = 2 * (1 + mpmath.exp(2)) * mpmath.mpf(1e-9)
        for epsilon in (0.5, 1.0, 2.0):
            exact = mpmath.mpf(gaussian_delta(epsilon, mu)) + added
            assert exact * (1 - mpmath.mpf(1e-14)) <= delta_of(events, epsilon) <= exact * (1 + mpmath.mpf(1e-12))
    found = epsilon_of(events, DELTA)
    assert delta_of(events, found) <= DELTA < delta_of(events, found * (1 - 1e-9))
    assert found > epsilon_of(((noise, 3),), DELTA)


@pytest.mark.parametrize(
    "noise",
    [BinomialEvent(bits=2000, probability=0.5, shift=1), LaplaceEvent(scale=10.0, shift=1.0, discrete=True)],
    ids=lambda event: event.NAME,
)
def test_other_noise_beside_slack_is_composed_and_then_added_to(noise: Event) -> None:
    alone, slack = ((noise, 4),), ApproximationEvent(tv=1e-8, up_to=1.0)
    added = float(slack.slack()[0])
    for epsilon in (0.05, 0.2, 1.0):
        assert delta_of((*alone, (slack, 1)), epsilon) == pytest.approx(delta_of(alone, epsilon) + added, rel=1e-12)
    assert epsilon_of((*alone, (slack, 1)), DELTA) == pytest.approx(epsilon_of(alone, DELTA - added), rel=1e-9)
    assert method_of((*alone, (slack, 1)), DELTA) == method_of(alone, DELTA)


def test_where_a_slack_ends_nothing_is_promised() -> None:
    noise, slack = GaussianEvent(sigma=1.0, shift=1.0), ApproximationEvent(tv=1e-9, up_to=2.0)
    assert epsilon_of(((noise, 1),), DELTA) > 2.0
    assert epsilon_of(((noise, 1), (slack, 1)), DELTA) == math.inf
    quiet = ((GaussianEvent(sigma=9.0, shift=1.0), 1), (slack, 1))
    assert delta_of(quiet, 2.0) < 1e-7
    assert delta_of(quiet, math.nextafter(2.0, 3.0)) == 1.0
    # The least of several.
    assert delta_of((*quiet, (ApproximationEvent(tv=1e-12, up_to=1.0), 1)), 1.5) == 1.0
    # More slack than delta, and no delta at all.
    for delta in (0.0, 8e-9):
        assert epsilon_of(quiet, delta) == math.inf
    assert epsilon_of(quiet, 9e-9) < math.inf
    assert epsilon_of(((PureEvent(epsilon=0.1), 1), (slack, 1)), 0.0) == math.inf
    assert epsilon_of(((PureEvent(epsilon=0.1), 1), (slack, 1)), 9e-9) == pytest.approx(0.1, rel=1e-6)
    assert delta_of(((ApproximationEvent(tv=0.5, up_to=1000.0), 1),), 1.0) == 1.0


def test_nothing_but_slack() -> None:
    events = ((ApproximationEvent(tv=1e-9, up_to=1.0), 1),)
    assert (epsilon_of(events, DELTA), method_of(events, DELTA)) == (0.0, "total variation")
    assert epsilon_of(events, 1e-9) == math.inf
    assert merged(((ApproximationEvent(tv=0.0, up_to=1.0), 5),)) == ()


def test_slack_is_added_as_often_as_it_is_counted() -> None:
    for tv, n in itertools.product((1e-12, 1e-7), (1, 7)):
        slack = ApproximationEvent(tv=tv, up_to=1.0)
        together = ((PureEvent(epsilon=0.3), 1), (slack, n))
        apart = ((PureEvent(epsilon=0.3), 1), *[(slack, 1)] * n)
        assert delta_of(together, 1.0) == delta_of(apart, 1.0) >= n * (1 + math.e) * tv * (1 - 1e-15)


def test_a_certificate_says_slack_and_agrees_with_itself() -> None:
    claim = PrivacyClaim(
        trust="central",
        epsilon=1.0,
        delta=DELTA,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output="other-users-actions",
    )
    events = ((GaussianEvent(sigma=5.0, shift=1.0), 1), (ApproximationEvent(tv=1e-12, up_to=1.0), 1))
    found = certify(events, (), claim, calibration="tight")
    assert found.holds
    assert found.method == "analytic Gaussian"
    assert dict(found.curve)[0.0] == math.inf
    assert type(found).from_dict(found.to_dict()) == found == found.derived()


@pytest.mark.parametrize("wrong", [{"tv": -1e-9}, {"tv": 1.1}, {"tv": math.nan}, {"up_to": -1.0}, {"up_to": math.inf}])
def test_a_slack_without_meaning_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="slack"):
        ApproximationEvent(**{"tv": 1e-9, "up_to": 1.0, **wrong})
