"""Loops around a correct privatizer that leak in one place, with the honest loop beside each. Never use the leaks.

Each lets a correct privatizer release what it releases and publishes something computed from it: the first state's
share, whether the next plan explores, how many users the batch had, updated parameters. With `leak`, the published
number comes from the data themselves. What is stated about both is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mutants.planted import Mutation, bug
from papers.gradient_requests import gradient_request
from tacit.accounting.events import Events, LaplaceEvent
from tacit.audit.attack import Target
from tacit.audit.records import canaries
from tacit.audit.views import View, view_of
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Walked
from tacit.noise.laplace import Laplace
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.gradients import GradientShape

__all__ = ["LOOPS", "LOOP_BUGS", "Leak"]

Floats = NDArray[np.float64]
Published = Callable[[Trajectories, CountStatistics], float]

SHAPE: Final = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
USERS: Final = 8


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Leak:
    """What is said about a loop, and what can be seen of it."""

    target: Target
    view: View


def _first_state_loop(*, leak: bool) -> Leak:
    """The estimate of the first state's distribution: from released visits, or from the first states themselves."""

    def published(users: Trajectories, released: CountStatistics) -> float:
        if leak:
            return float((users.states[:, 0] == SHAPE.num_states - 1).mean())
        return float(released.visits[0, SHAPE.num_states - 1].sum()) / len(users)

    return _counting("the first-state distribution", published)


def _regret_loop(*, leak: bool) -> Leak:
    """Whether the next plan explores: decided by released rewards, or by what was really earned (the regret)."""

    def published(users: Trajectories, released: CountStatistics) -> float:
        return float((users.rewards.sum() if leak else released.rewards.sum()) >= 1.0)

    return _counting("whether the next plan explores", published)


def _batch_size_loop(*, leak: bool) -> Leak:
    """How many users the batch had: fixed beforehand, or until something was earned."""

    def published(users: Trajectories, released: CountStatistics) -> float:
        del released
        earned = np.flatnonzero(users.rewards.sum(axis=1) > 0.0)
        return float(earned[0] + 1) if leak and len(earned) else float(len(users))

    return _counting("the size of the batch", published)


def _gradient_loop(*, leak: bool) -> Leak:
    """θ after one batch: updated with the released gradient, or with the exact one ([he2025policy] Alg. 1, line 5)."""
    stated = _gradients(USERS)
    used = replace(stated, sigma=stated.sigma * 1e-6) if leak else stated
    return Leak(target=_target("the updated parameters", stated.events(), 1e-5), view=view_of(used))


def _short_batch_loop(*, leak: bool) -> Leak:
    """A last batch of half the users: divided by the public m, or by its own size."""
    stated = _gradients(USERS)
    used = replace(stated, users_per_batch=USERS // 2) if leak else stated
    return Leak(target=_target("the last gradient", stated.events(), 1e-5), view=view_of(used))


def _raw_baseline_loop(*, leak: bool) -> Leak:
    """The baseline of the next batch: a public constant, or the batch's own mean reward."""
    stated = _gradients(USERS)
    whole = view_of(stated)
    worlds = []
    for reward in (0.0, 1.0):
        still = np.zeros((USERS, 1), dtype=np.int64)
        worlds.append((Walked(still, still.copy(), np.zeros((USERS, 1))),))
        worlds[-1][0].rewards[0] = reward

    def record(users: tuple[Walked], trials: int, noise: SimulationNoise) -> Floats:
        out = whole.record(users, trials, noise)
        out[..., -1] = users[0].rewards.mean() if leak else 0.5
        return out

    def score(records: Floats) -> Floats:
        return np.asarray(records[:, 0, -1])

    view = View(seen="the baseline", worlds=(worlds[0], worlds[1]), record=record, score=score, width=whole.width)
    return Leak(target=_target("the baseline of the next batch", stated.events(), 1e-5), view=view)


def _precision_loop(*, leak: bool) -> Leak:
    """Laplace noise: on the integers, or in floating point with all of its bits."""
    mechanism = Laplace(scale=1.0, discrete=not leak)
    events: Events = ((LaplaceEvent(scale=1.0, shift=1.0, discrete=not leak), 1),)

    def record(users: float, trials: int, noise: SimulationNoise) -> Floats:
        return np.asarray(users + mechanism.sample((trials, 1, 1), noise))

    def score(records: Floats) -> Floats:
        y = records[:, 0, 0]
        # Adding 1 to a small number loses its last bits; what has lost them already was added to.
        return np.where((y - 1.0) + 1.0 == y, np.abs(y) - np.abs(y - 1.0), -2.0)

    view = View(seen="the number", worlds=(0.0, 1.0), record=record, score=score, width=1)
    return Leak(target=_target("a released number", events, 0.0), view=view)


def _counting(seen: str, published: Published) -> Leak:
    """A batch of users, a correct central release of it, and one published number."""
    request = PrivacyRequest(
        trust="central",
        shape=SHAPE,
        episodes=2 * USERS,
        epsilon=1.0,
        delta=0.0,
        calibration=None,
        mechanism="laplace-tree",
        users_per_batch=USERS,
    )
    privatizer = make_privatizer(request)
    first, second = canaries(SHAPE, USERS)
    first.rewards[:] = 0.0  # the replaced user alone earns something
    state = privatizer.begin()

    def record(users: Trajectories, trials: int, noise: SimulationNoise) -> Floats:
        counts = count_trajectories(users, SHAPE.num_states, SHAPE.num_actions)
        out = np.empty((trials, 1, 1))
        for row in out:
            row[0, 0] = published(users, privatizer.release(state, counts, TOTALS, noise)[1].statistics)
        return out

    def score(records: Floats) -> Floats:
        return np.asarray(records[:, 0, 0])

    view = View(seen=seen, worlds=(first, second), record=record, score=score, width=1)
    return Leak(target=_target(seen, privatizer.events(), 0.0), view=view)


def _gradients(users: int) -> Any:
    shape = GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=4)
    request = gradient_request(
        shape=shape,
        trust="central",
        epsilon=1.0,
        delta=1e-5,
        calibration="tight",
        users_per_batch=users,
        clip=None,
        tabular=True,
    )
    return make_privatizer(request)


def _target(seen: str, events: Events, delta: float) -> Target:
    return Target(
        kind="learner",
        name=seen,
        trust="central",
        calibration="tight",
        view=seen,
        claimed=1.0,
        delta=delta,
        events=events,
    )


def _leaking(what: str, loop: Callable[..., Leak]) -> Mutation:
    return bug(what, lambda: loop(leak=True), "audit")


LOOP_BUGS: Final[dict[str, Mutation]] = {
    "un-noised update": _leaking(
        "the parameters are updated with the exact gradient, as in the paper's line 5", _gradient_loop
    ),
    "last batch re-normalised": _leaking(
        "a short last batch is divided by its own size instead of the public one", _short_batch_loop
    ),
    "raw baseline": _leaking(
        "the baseline of the next batch is the mean reward of this one, without noise", _raw_baseline_loop
    ),
    "raw initial-state estimate": _leaking(
        "the distribution of the first state is estimated from the first states themselves", _first_state_loop
    ),
    "data-dependent batch size": _leaking("a batch ends as soon as somebody earned something", _batch_size_loop),
    "regret leaked into the plan": _leaking(
        "whether the next plan explores depends on what was really earned", _regret_loop
    ),
    "all bits of a float": _leaking("floating-point noise is released with all of its bits", _precision_loop),
}
"""Bugs around a correct privatizer, by name."""

LOOPS: Final[dict[str, Callable[[], Leak]]] = {
    "gradient update": lambda: _gradient_loop(leak=False),
    "last batch": lambda: _short_batch_loop(leak=False),
    "baseline": lambda: _raw_baseline_loop(leak=False),
    "initial-state estimate": lambda: _first_state_loop(leak=False),
    "batch size": lambda: _batch_size_loop(leak=False),
    "plan": lambda: _regret_loop(leak=False),
    "integer noise": lambda: _precision_loop(leak=False),
}
"""What they were planted in."""
