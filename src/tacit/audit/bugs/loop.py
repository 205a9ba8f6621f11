"""Loops around a correct privatizer that leak in one place, with the honest loop beside each. Never use the leaks.

Each lets a correct privatizer release what it releases and publishes something computed from it: the first state's
share, whether the next plan explores, how many users the batch had, updated parameters. With `leak`, the published
number comes from the data themselves. What is stated about both is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.events import Events, LaplaceEvent
from tacit.audit.attack import Target
from tacit.audit.gradients import gradient_view
from tacit.audit.privatizers import View
from tacit.audit.views import canaries
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.mechanisms.noise.laplace import Laplace
from tacit.privatizers.gradient import GradientPrivatizer
from tacit.privatizers.request import PrivacyRequest, gradient_request
from tacit.privatizers.table import make_privatizer
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.gradients import GradientShape

__all__ = [
    "Leak",
    "batch_size_loop",
    "first_state_loop",
    "gradient_loop",
    "precision_loop",
    "raw_baseline_loop",
    "regret_loop",
    "short_batch_loop",
]

Floats = NDArray[np.float64]
Published = Callable[[Trajectories, CountStatistics], float]

SHAPE: Final = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
USERS: Final = 8


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Leak:
    """What is said about a loop, and what can be seen of it."""

    target: Target
    view: View


def first_state_loop(*, leak: bool) -> Leak:
    """The estimate of the first state's distribution: from released visits, or from the first states themselves."""

    def published(users: Trajectories, released: CountStatistics) -> float:
        if leak:
            return float((users.states[:, 0] == SHAPE.num_states - 1).mean())
        return float(released.visits[0, SHAPE.num_states - 1].sum()) / len(users)

    return _counting("the first-state distribution", published)


def regret_loop(*, leak: bool) -> Leak:
    """Whether the next plan explores: decided by released rewards, or by what was really earned (the regret)."""

    def published(users: Trajectories, released: CountStatistics) -> float:
        return float((users.rewards.sum() if leak else released.rewards.sum()) >= 1.0)

    return _counting("whether the next plan explores", published)


def batch_size_loop(*, leak: bool) -> Leak:
    """How many users the batch had: fixed beforehand, or until something was earned."""

    def published(users: Trajectories, released: CountStatistics) -> float:
        del released
        earned = np.flatnonzero(users.rewards.sum(axis=1) > 0.0)
        return float(earned[0] + 1) if leak and len(earned) else float(len(users))

    return _counting("the size of the batch", published)


def gradient_loop(*, leak: bool) -> Leak:
    """θ after one batch: updated with the released gradient, or with the exact one ([he2025policy] Alg. 1, line 5)."""
    stated = _gradients(USERS)
    used = replace(stated, sigma=stated.sigma * 1e-6) if leak else stated
    return Leak(target=_target("the updated parameters", stated.events(), 1e-5), view=gradient_view(used))


def short_batch_loop(*, leak: bool) -> Leak:
    """A last batch of half the users: divided by the public m, or by its own size."""
    stated = _gradients(USERS)
    used = replace(stated, users_per_batch=USERS // 2) if leak else stated
    return Leak(target=_target("the last gradient", stated.events(), 1e-5), view=gradient_view(used))


def raw_baseline_loop(*, leak: bool) -> Leak:
    """The baseline of the next batch: a public constant, or the batch's own mean reward."""
    stated = _gradients(USERS)
    whole = gradient_view(stated)
    worlds = []
    for reward in (0.0, 1.0):
        still = np.zeros((USERS, 2), dtype=np.int64)
        worlds.append(Trajectories(still, still[:, :1].copy(), np.zeros((USERS, 1))))
        worlds[-1].rewards[0] = reward

    def record(users: Trajectories, trials: int, noise: SimulationNoise) -> Floats:
        out = whole.record(users, trials, noise)
        out[..., -1] = users.rewards.mean() if leak else 0.5
        return out

    def score(records: Floats) -> Floats:
        return np.asarray(records[:, 0, -1])

    view = View(seen="the baseline", worlds=(worlds[0], worlds[1]), record=record, score=score, width=whole.width)
    return Leak(target=_target("the baseline of the next batch", stated.events(), 1e-5), view=view)


def precision_loop(*, leak: bool) -> Leak:
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
            row[0, 0] = published(users, privatizer.release(state, counts, noise)[1])
        return out

    def score(records: Floats) -> Floats:
        return np.asarray(records[:, 0, 0])

    view = View(seen=seen, worlds=(first, second), record=record, score=score, width=1)
    return Leak(target=_target(seen, privatizer.events(), 0.0), view=view)


def _gradients(users: int) -> GradientPrivatizer:
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
