"""A pilot: the first rounds of a run, and what they say about the time of all of them. Its result is thrown away.

Where users come one by one, or in batches of one size, a few rounds are simulated, and one of them costs what a round
more costs.

Of a learner that plans rarely, rounds of three sizes n are simulated: one user, as many as in the middle of its
schedule and as many as at its end. The CPU time t(n) of a round lies on the lines between them, and

    seconds(K) = Σ_i t(n_i)        over the users n_1, n_2, ... of its public schedule

Of other learners that plan batches, the real run is begun and given up after some rounds. The CPU time of round i is
fitted to those that were seen, with coefficients ≥ 0:

    counts of single batches          t_i = a + b i^p      a plan looks at every batch before it, p = 1 or 2: the larger
    returns                           t_i = a + b n_i      everybody is walked through the world
    everything else                   t_i = a

Seconds are CPU seconds, so a busy machine changes nothing, and what compilers take is left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from tacit.arrays import Floats, Ints
from tacit.compiling import seconds_compiling
from tacit.learners.contract import KernelLearner
from tacit.learners.rarely import RarelyReplanned, rare_schedule
from tacit.loop.simulate import COMPILED_FROM, Speed, simulate
from tacit.protocol import Query
from tacit.released.batches import BatchQuery
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import Assembled
from tacit.runs.config import RunConfig

__all__ = ["PILOT", "Pilot", "extrapolated", "pilot", "schedule"]

PILOT: Final = 500
"""Users of a pilot, where they come one by one; in batches there are at least two of them."""
LEAST_ROUNDS: Final = 5
ENOUGH: Final = 1.5
"""CPU seconds after which a pilot ends, once it has so many rounds, and a fifth of all ..."""
MOST: Final = 8.0
"""... and after which it ends anyway."""
SHORT: Final = 0.4
"""The same for each of the three sizes of a learner that plans rarely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What a pilot found."""

    seconds: float
    """Of one seed, in CPU time."""
    users: int
    """How many users it had."""


class _GivenUp(Exception):
    """The pilot has seen enough."""


@dataclass(slots=True)
class _Clock:
    """Told after every round; gives the run up when it has seen enough."""

    enough: float = ENOUGH
    most: float = MOST
    least: int = LEAST_ROUNDS
    done: list[int] = field(default_factory=lambda: [0])
    cpu: list[float] = field(default_factory=lambda: [time.process_time()])
    compiled: list[float] = field(default_factory=lambda: [seconds_compiling()])

    def __call__(self, done: int) -> None:
        if done == self.done[-1]:
            return
        self.done.append(done)
        self.cpu.append(time.process_time())
        self.compiled.append(seconds_compiling())
        if not self.clean.any():
            return
        so_far, rounds = float(self.took.sum()), len(self.done) - 1
        if so_far > self.most or (so_far > self.enough and rounds >= self.least):
            raise _GivenUp

    @property
    def clean(self) -> NDArray[np.bool_]:
        """In which rounds nothing was compiled."""
        return np.asarray(np.diff(np.array(self.compiled)) == 0.0)

    @property
    def took(self) -> Floats:
        """CPU seconds of every round; where something was compiled, those of the others."""
        took, clean = np.diff(np.array(self.cpu)), self.clean
        return np.where(clean, took, took[clean].mean() if clean.any() else took)


def pilot(parts: Assembled, config: RunConfig) -> Pilot:
    """The time of one seed, from its first rounds."""
    learner: Any = parts.learner
    if isinstance(learner, KernelLearner):
        return _users(parts, config, max(learner.least, learner.users_per_batch))
    if isinstance(learner, RarelyReplanned):
        return _rarely(parts, config, learner)
    known = len(schedule(learner, config.episodes, last=config.episodes))
    clock = _Clock(least=max(LEAST_ROUNDS, known // LEAST_ROUNDS))
    if _is_given_up(parts, learner, config.episodes, clock):
        sizes = schedule(learner, config.episodes, last=clock.done[-1] - clock.done[-2])
        return Pilot(seconds=extrapolated(clock.took, sizes, learner.asks), users=clock.done[-1])
    return Pilot(seconds=float(clock.took.sum()), users=config.episodes)  # the whole run was short


def schedule(learner: Any, episodes: int, *, last: int) -> Ints:
    """Users of every round of a learner that plans batches; where it keeps no schedule, all are as large as `last`.

    >>> from types import SimpleNamespace
    >>> schedule(SimpleNamespace(stages=(2, 4)), 10, last=4).tolist()
    [2, 4, 4]
    >>> schedule(SimpleNamespace(), 10, last=4).tolist()
    [4, 4, 2]
    """
    planned = getattr(learner, "stages", None) or getattr(learner, "batches", None) or ()
    sizes = [int(getattr(stage, "users", stage)) for stage in planned]
    left = episodes - sum(sizes)
    if not sizes:
        sizes, left = [last] * (episodes // last), episodes % last
    return np.array([*sizes, *([left] if left > 0 else [])], dtype=np.int64)


def extrapolated(took: Floats, sizes: Ints, asks: type[Query]) -> float:
    """Seconds of all rounds, by the seconds of the first ones; there must be one at least.

    >>> extrapolated(np.array([9.0, 9.0, 6.0, 11.0]), np.full(5, 5), BatchQuery)
    53.0
    >>> extrapolated(np.array([3.0, 3.0, 1.0, 1.0]), np.full(6, 5), Query)
    10.0
    """
    seen, rounds = len(took), len(sizes)
    order = np.arange(rounds) / rounds
    if asks is BatchQuery:
        # The first batch needs no plan, and the second one is the first to look things up.
        fits = [(min(power, seen // 2), order**power) for power in (1, 2)]
    elif asks is ReturnQuery:
        fits = [(0, sizes / float(sizes.max()))]
    else:
        fits = [(seen // 2, np.zeros(rounds))]  # the later plans know more of the world, as most of all will
    rest = max(_rest(took, skipped, driver) for skipped, driver in fits)
    return round(float(took.sum()) + rest, 9)


def _rest(took: Floats, skipped: int, driver: Floats) -> float:
    """Seconds of the rounds that were not seen, by a + b · driver with a, b ≥ 0, fitted to those after the skipped."""
    design = np.stack([np.ones(len(driver)), driver], axis=1)
    weights, _ = nnls(design[skipped : len(took)], took[skipped:])
    return float((design[len(took) :] @ weights).sum())


def _rarely(parts: Assembled, config: RunConfig, learner: RarelyReplanned) -> Pilot:
    """A pilot of rounds of three sizes."""
    sizes = rare_schedule(config.episodes)
    tried = np.unique([1, int(np.sqrt(sizes.max())), int(sizes.max())])
    took, users = [], 0
    for size in tried:
        clock = _Clock(enough=SHORT, most=MOST / 3)
        _is_given_up(parts, type(learner)(learner.inner, fewest=int(size)), config.episodes, clock)
        took.append(float(clock.took[len(clock.took) // 2 :].mean()))
        users += clock.done[-1]
    return Pilot(seconds=float(np.interp(sizes, tried, took).sum()), users=users)


def _is_given_up(parts: Assembled, learner: Any, episodes: int, clock: _Clock) -> bool:
    """Begin a run; whether it was given up before its end."""
    try:
        simulate(parts.mdp, learner, parts.privatizer, episodes=episodes, seed=0, progress=clock)
    except _GivenUp:
        return True
    return False


def _users(parts: Assembled, config: RunConfig, each: int) -> Pilot:
    """A pilot of some users, who come one by one or in batches of one size."""
    rounds = max(1, min(max(2, PILOT // each), config.episodes // each))
    # Two rounds compile everything: what the users of the last one report is released to nobody.
    _simulated(parts, min(2 * each, config.episodes))
    first, everything = _simulated(parts, each), _simulated(parts, rounds * each)
    # Of few rounds one releases nothing, which is a large part of them: a round more costs (t_r - t_1) / (r - 1).
    took = max(everything / rounds, (everything - first) / max(1, rounds - 1))
    return Pilot(seconds=took * config.episodes / each, users=rounds * each)


def _simulated(parts: Assembled, users: int) -> float:
    started = time.process_time()
    # A short run is interpreted, and a long one is not: the pilot is like the run.
    speed: Speed = "auto" if parts.config.episodes < COMPILED_FROM else "compiled"
    simulate(parts.mdp, parts.learner, parts.privatizer, episodes=users, seed=0, speed=speed)
    return time.process_time() - started
