"""`plan`: what so many people can teach under a claim, before there are any; and which epsilon a wish needs.

    people  =  those who are learned from  +  a trial of two arms, baseline and policy      (`share` of them)
    noise      of a counter, fresh in every stage, and of an arm: the exact accountant's calibration
    x          signal per decision:  (effect/H) / √(p(1-p)/N + σ²/(2N²)),  N visits of a row if they are evenly spread,
               p the reward of a step half way to the effect, σ the noise of all batches, weighed by their people
    share of the possible gain that the learned policy has: the nearest simulations of the bank, by x and sizes
    success    the trial says "better": its power at that gain (`tacit.planning.arms`), averaged over these simulations

Stages grow as bucb's own do: per person, five equal ones carry a fifth less noise, ten a tenth more. The bank
(`plan_bank.json`) holds random worlds in which bucb learned under central trust. A plan knows no world: what it says is
a mean over worlds of these sizes, and `error` is how far single worlds of the bank are from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtr, ndtri

from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.errors import NotSupported, require, require_count, require_epsilon, require_real, with_suggestions
from tacit.learners.bucb import BUCB
from tacit.learners.sdp_pe_plus import EVERYTHING
from tacit.planning.arms import power_of
from tacit.release.arms import make_arms
from tacit.release.batch_release import BatchPlan
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.arms import NoNoise
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.precision import CountPrecision, exact_counts
from tacit.types import Trust

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANK: Final = files("tacit.runs") / "plan_bank.json"
NEIGHBOURS: Final = 40
"""So many simulated worlds of the bank speak for a plan."""
SCALES: Final = (1.0, 0.5, 0.5, 0.35)
"""Of the logarithms of signal, states, actions and horizon, where worlds are compared."""
MOST_PEOPLE, MOST_ROWS = 10**7, 10**5
"""A plan beyond these takes minutes, or more memory than there is."""
EPSILONS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """What one epsilon gives."""

    epsilon: float
    noise_std: float
    """Of one counter of the learning part."""
    signal: float
    """x: the effect of one decision over the standard error of a row's mean reward."""
    share: float
    """The mean share of the possible gain that the learned policy has."""
    success: float
    """The probability that the trial says 'better'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a study of these sizes can be expected to find; make it with `tacit.plan`."""

    people: int
    states: int
    actions: int
    horizon: int
    trust: Trust
    delta: float
    effect: float
    baseline: float
    stationary: bool
    share: float
    alpha: float
    power: float
    rows: tuple[PlanRow, ...]
    epsilon: float | None
    """The least epsilon with the wished probability of success; None: none up to 8 has it."""
    error: float
    """The standard deviation of a single world's probability around the plan's, over the bank."""

    @property
    def visits(self) -> float:
        """How often each (state, action), at each step unless stationary, is met if it is evenly spread."""
        return _visits(self.learned_from, self.states, self.actions, self.horizon, self.stationary)

    @property
    def arm(self) -> int:
        """People in each arm of the trial."""
        return max(2, int(self.share * self.people / 2))

    @property
    def learned_from(self) -> int:
        """People who are learned from."""
        return self.people - 2 * self.arm

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["rows"] = [{name: getattr(row, name) for name in row.__dataclass_fields__} for row in self.rows]
        return {**plain, "visits": self.visits, "arm": self.arm, "learned_from": self.learned_from}

    @property
    def line(self) -> str:
        """The answer, in one sentence."""
        what = f"a policy better by {self.effect:g} at best is found with probability {self.power:g}"
        if self.epsilon is None:
            return (
                f"{what} at no epsilon up to {EPSILONS[-1]:g}: more people, fewer states or a larger effect are needed"
            )
        return f"{what} from epsilon {self.epsilon:.2g} on (single worlds differ from that by ±{self.error:.2f})"

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Rows (epsilon, noise in a counter, signal, share of the gain, probability of success)."""
        return tuple(
            (f"{r.epsilon:g}", f"{r.noise_std:,.3g}", f"{r.signal:.2f}", f"{r.share:.0%}", f"{r.success:.2f}")
            for r in self.rows
        )

    def figure(self) -> Figure:
        """The probability of success over epsilon."""
        import matplotlib.pyplot as plt

        drawn, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
        x, y = [row.epsilon for row in self.rows], np.array([row.success for row in self.rows])
        axes.fill_between(x, np.clip(y - self.error, 0, 1), np.clip(y + self.error, 0, 1), alpha=0.2, linewidth=0)
        axes.plot(x, y, marker="o", markersize=3)
        axes.axhline(self.power, color="0.6", linewidth=0.8)
        axes.set(xscale="log", ylim=(0, 1), xlabel="epsilon", ylabel="probability of finding a better policy")
        return drawn


@with_suggestions()
@checked
def plan(
    *,
    people: int,
    states: int,
    actions: int,
    horizon: int,
    trust: Trust,
    effect: float,
    delta: float,
    baseline: float | None = None,
    stationary: bool = False,
    epsilon: float | Sequence[float] | None = None,
    power: float = 0.8,
    share: float = 0.3,
    alpha: float = 0.05,
) -> Plan:
    """Say what a study can find, before anybody is asked: noise, people per arm, probability of success by epsilon.

    Parameters
    ----------
    people
        All of them: those who are learned from, and the `share` of them who try the policy against the baseline.
    states, actions, horizon
        The sizes; with features, the number of their combinations.
    trust, delta, epsilon
        The claim. One epsilon or several; eleven from 0.1 to 8 by default.
    effect
        By how much the best policy's return exceeds that of the baseline (returns from 0 to `horizon`).
    baseline
        The baseline's return; half of the rest of the range, which is the worst, by default.
    stationary
        Whether it is declared that nothing depends on the step.
    power
        The wished probability of success, for the answer which epsilon is needed.
    share, alpha
        The part of the people in the trial, and its error.

    Returns
    -------
    Plan
        A row for each epsilon, the least epsilon with the wished probability, `table()` and `figure()`.

    Raises
    ------
    NotSupported
        Under local trust, for which the bank has no simulations.

    Examples
    --------
    >>> found = plan(people=20_000, states=4, actions=3, horizon=1, trust="central", effect=0.1, delta=1e-6)
    >>> found.arm, found.epsilon < 0.5, found.rows[0].success < found.rows[-1].success
    (3000, True, True)
    """
    sizes = {"states": require_count("states", states), "actions": require_count("actions", actions, least=2)}
    sizes["horizon"] = H = require_count("horizon", horizon)
    if trust not in ("central", "shuffle"):
        raise NotSupported(
            f"a plan knows trust 'central' and 'shuffle', got {trust!r}; use tacit.trial_size for trials"
        )
    gain = require_real("effect", effect, low=0.0, high=float(H), open_low=True)
    base = (
        (H - gain) / 2.0
        if baseline is None
        else min(H - gain, require_real("baseline", baseline, low=0.0, high=H - gain + 1e-9))
    )
    wanted = require_real("power", power, low=0.0, high=0.99, open_low=True)
    part = require_real("share", share, low=0.0, high=0.9, open_low=True)
    require_count("people", people, 100, MOST_PEOPLE)
    rows_of_world = states * actions * horizon
    require(rows_of_world <= MOST_ROWS, f"states x actions x horizon must be at most {MOST_ROWS:,}", rows_of_world)
    given = EPSILONS if epsilon is None else (epsilon,) if isinstance(epsilon, int | float) else tuple(epsilon)
    arm = max(2, int(part * people / 2))
    rows, errors = [], []
    for one in sorted(require_epsilon(value) for value in given):
        noise, heard, together = _noise(people - 2 * arm, trust, one, delta, stationary, **sizes)
        x = signal(people=heard, noise_std=together, effect=gain, baseline=base, stationary=stationary, **sizes)
        shares = _shares(x, **sizes)
        means = (base / H, gain / H)
        reached = _powers(shares, arm, trust, one, delta, alpha, means)
        rows.append(
            PlanRow(epsilon=one, noise_std=noise, signal=x, share=float(shares.mean()), success=float(reached.mean()))
        )
        errors.append(float(reached.mean(axis=1).std()))
    return Plan(
        people=people, trust=trust, delta=delta, effect=gain, baseline=base, stationary=stationary, share=part,
        alpha=alpha, power=wanted, rows=tuple(rows), epsilon=_reached(rows, wanted),
        error=float(np.mean(sorted(errors)[-3:])), **sizes,
    )  # fmt: skip


def signal(
    *,
    people: float,
    states: int,
    actions: int,
    horizon: int,
    noise_std: float,
    effect: float,
    baseline: float,
    stationary: bool,
) -> float:
    """The effect of one decision over the standard error of a row's mean reward, if visits are evenly spread.

    >>> sizes = dict(people=800, states=4, actions=2, horizon=1)
    >>> round(signal(**sizes, noise_std=0.0, effect=0.1, baseline=0.45, stationary=True), 2)
    2.0
    """
    N = _visits(people, states, actions, horizon, stationary)
    steps = horizon if stationary else 1
    p = min(0.95, max(0.05, (baseline + effect / 2.0) / horizon))
    # r̂ = R/(R + C):  p(1-p)/N + v/(2N²), with noise v = σ² of every step that is added up
    return effect / horizon / math.sqrt(p * (1.0 - p) / N + steps * noise_std**2 / (2.0 * N * N))


def heard_together(learner: BUCB) -> tuple[float, float]:
    """How many people report in all batches, and the deviation of the noise that they carry if batches weigh best.

    With people n_b and noise of covariance Σ the information about a counter is n'Σ⁻¹n: σ = Σ n_b / √(n'Σ⁻¹n).
    """
    n = np.array([batch.users for batch in learner.batches], dtype=np.float64)
    information = float(n @ np.linalg.solve(learner.covariance, n))
    return float(n.sum()), float(n.sum()) / math.sqrt(information)


def _visits(people: float, states: int, actions: int, horizon: int, stationary: bool) -> float:
    return people * (horizon if stationary else 1) / (states * actions)


@lru_cache(maxsize=1)
def _bank() -> tuple[Floats, Floats]:
    """Places [rows, 4] and shares [rows, seeds] of all simulated worlds."""
    held = json.loads(BANK.read_text(encoding="utf-8"))
    places = np.log(np.array([held[name] for name in ("signal", "states", "actions", "horizon")], dtype=np.float64))
    return places.T * np.array(SCALES), np.array(held["shares"], dtype=np.float64)


def _shares(x: float, *, states: int, actions: int, horizon: int) -> Floats:
    """[neighbours, seeds]: the shares of the gain in the nearest worlds of the bank."""
    places, shares = _bank()
    here = np.log(np.array([x, states, actions, horizon])) * np.array(SCALES)
    nearest = np.argsort(((places - here) ** 2).sum(axis=1), kind="stable")[:NEIGHBOURS]
    return np.asarray(shares[nearest])


def _powers(
    shares: Floats, arm: int, trust: Trust, epsilon: float, delta: float, alpha: float, means: tuple[float, float]
) -> Floats:
    """The power of the trial at every share of the gain."""
    noise = make_arms(users=(arm, arm), trust=trust, epsilon=epsilon, delta=delta).noise
    base, gain = means
    p = np.clip(base + gain * np.minimum(shares, 1.0), 0.0, 1.0)
    # Normal, with the threshold in deviations that the exact trial of this size has: power = Φ(d/s - z)
    s = np.sqrt((base * (1.0 - base) + p * (1.0 - p)) / arm + 2.0 * noise.variance() / arm**2)
    return np.asarray(ndtr((p - base) / s - _threshold(arm, alpha, round(base, 2))))


@lru_cache(maxsize=256)
def _threshold(arm: int, alpha: float, base: float) -> float:
    """The least difference that a trial without noise calls better, in deviations, from its exact power."""
    p = min(max(base, 0.01), 0.99)
    step = min(2.8 * math.sqrt(2.0 * p * (1.0 - p) / arm), (1.0 - p) / 2.0)
    s = math.sqrt((p * (1.0 - p) + (p + step) * (1.0 - p - step)) / arm)
    exact = power_of((arm, arm), NoNoise(), alpha, (p, p + step))
    return step / s - float(ndtri(min(max(exact, 1e-6), 1.0 - 1e-6)))


@lru_cache(maxsize=256)
def _noise(
    people: int, trust: Trust, epsilon: float, delta: float, stationary: bool, states: int, actions: int, horizon: int
) -> tuple[float, float, float]:
    """The deviation of the noise in one counter of a batch, and what `heard_together` says of all batches."""
    shape = CountShape(horizon=horizon, num_states=states, num_actions=actions, staged=True)
    noise = study_noise(shape, people, trust, epsilon, delta)
    learner = BUCB(shape=shape, episodes=people, noise=noise, pooled=stationary)
    return (noise.batch_std(people, EVERYTHING), *heard_together(learner))


def study_noise(shape: CountShape, people: int, trust: Trust, epsilon: float, delta: float) -> Any:
    """The noise of the stages of a study: fresh in every stage, whatever simulations of the trust model can do."""
    request = PrivacyRequest(
        asks=BatchQuery, trust=trust, shape=shape, episodes=people, epsilon=epsilon, delta=delta, calibration="tight",
        mechanism=None, users_per_batch=people,
    )  # fmt: skip
    if trust == "central":
        return BatchPlan.of(request, least=Fraction(1))
    # Shuffled batches of all sizes have nearly the same noise, and calibrating each of them takes seconds.
    made: Any = make_privatizer(request)
    return _Alike(float(made.batch_std(people, EVERYTHING)))


@dataclass(frozen=True)
class _Alike:
    """Batches with independent noise of one deviation."""

    std: float

    def batch_std(self, users: int, query: Any) -> float:
        return self.std

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        return np.diag(np.full(len(sizes), self.std**2))

    def count_precision(self) -> CountPrecision:
        return exact_counts()


def _reached(rows: Sequence[PlanRow], power: float) -> float | None:
    """Where the probability reaches the power, between two rows by logarithm; None: nowhere."""
    require(len(rows) > 0, "there must be an epsilon", 0)
    for before, row in zip([None, *rows[:-1]], rows, strict=True):
        if row.success < power:
            continue
        if before is None:
            return row.epsilon
        part = (power - before.success) / (row.success - before.success)
        return float(math.exp(math.log(before.epsilon) + part * math.log(row.epsilon / before.epsilon)))
    return None
