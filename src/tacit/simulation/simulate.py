"""One simulated run: users come, the privatizer stands between them and the learner, the simulator counts the regret.

    charge -> plan -> act -> release -> forget -> update -> ... -> commit

Two speeds, one meaning. `compiled` fuses the kernels of all parts into one function, where they all have kernels;
`interpreted` runs the same rounds from Python, step by step. Learners that plan batches of their own are driven from
Python at both speeds: one of their rounds is a whole batch. The same seed gives bit-identical results, so `auto` is a
matter of time only: a short run is over before its loop would be compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np

from tacit.accounting.ledger import Ledger
from tacit.arrays import Floats, Ints
from tacit.environments.bandits import DoseBandit
from tacit.environments.layered import LossGame
from tacit.environments.live import LiveWorld
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, require, require_count
from tacit.learners.contract import require_over_support
from tacit.planning.valid_bands import ValueInterval
from tacit.policies import AnyPolicy
from tacit.protocol import Learner, Privatizer, World
from tacit.randomness import seed_streams
from tacit.released.arms import ArmStatistics
from tacit.simulation.judges.games import LossMeasures
from tacit.simulation.judges.live import ReturnMeasures
from tacit.simulation.judges.softmax import Objective
from tacit.simulation.loop import interpret, kernels_of, run_fused
from tacit.simulation.worlds import world_of

Speed = Literal["auto", "compiled", "interpreted"]
Progress = Callable[[int], None]
"""Called with the number of episodes done."""
COMPILED_FROM: Final = 512
"""From so many episodes on, `auto` compiles: one from Python costs 0.2 ms more, a new fused loop 3 to 10 s once."""
AGREEMENTS: Final = (
    ("users_per_batch", "users_per_batch", "number of users per batch"),
    ("releases", "epochs", "number of releases per batch"),
    ("feedback", "feedback", "feedback"),
)
"""What learner and privatizer must have alike where both state it: kernels check neither sizes nor payments."""


@dataclass(frozen=True, slots=True, eq=False)
class SeedRun:
    """What the simulator saw of one run; regret is simulation-only."""

    seed: int
    episodes: Ints
    """The checkpoints."""
    regret: Floats
    """Cumulative pseudo-regret at each checkpoint (simulation only); NaN in a live world, where nobody knows it."""
    policy_changes: int
    seconds: float
    policy: AnyPolicy | None = None
    """The policy that the run ended with; None in results that were stored before policies were."""
    belief: Any = None
    """What the learner believed in the end; not stored."""
    released: Any = None
    """The last statistics that the privatizer released; not stored."""
    objective: Objective | None = None
    """Exact values of what a policy gradient found (simulation only)."""
    losses: LossMeasures | None = None
    """What stands beside the regret where losses are adversarial (simulation only)."""
    returns: ReturnMeasures | None = None
    """What users of a live world earned (simulation only)."""
    interval: ValueInterval | None = None
    """Where the value of the best policy lies, by what was released; None for learners without valid bands."""
    arms: ArmStatistics | None = None
    """What fresh users released about the final policy after the run; None where nobody was asked."""


def log_checkpoints(episodes: int, count: int = 100) -> Ints:
    """Log-spaced episode numbers from 1 to `episodes`, the last one always included.

    >>> log_checkpoints(1000, count=4).tolist()
    [1, 10, 100, 1000]
    """
    return _grid(require_count("episodes", episodes), require_count("count", count, least=2)).copy()


@lru_cache(maxsize=64)
def _grid(episodes: int, count: int) -> Ints:
    grid = np.unique(np.rint(np.geomspace(1, episodes, num=count)).astype(np.int64))
    grid[-1] = episodes
    return grid


def _interval(environment: Any, learner: Any, belief: Any) -> ValueInterval | None:
    """The learner's own statement about V*, where worlds have a table: bands know no other worlds."""
    states = getattr(learner, "interval", None)
    return states(belief) if callable(states) and isinstance(environment, TabularMDP) else None


def simulate(
    environment: TabularMDP | LossGame | DoseBandit | LiveWorld | World,
    learner: Learner[Any, Any, Any],
    privatizer: Privatizer[Any, Any, Any],
    *,
    episodes: int,
    seed: int,
    checkpoints: Sequence[int] | Ints | None = None,
    speed: Speed = "auto",
    progress: Progress | None = None,
    ledger: Ledger | None = None,
) -> SeedRun:
    """Run `episodes` users through the loop and return the regret at the checkpoints.

    Parameters
    ----------
    environment
        A `TabularMDP`, loss game, bandit or world.
    learner, privatizer
        Objects whose queries agree.
    episodes, seed
        How many users, and the seed of everything.
    checkpoints
        Episode numbers to record; by default 100 on a log scale.
    speed
        `"auto"`, `"compiled"` or `"interpreted"`; the same bits.
    progress
        Called with the episodes that are done.
    ledger
        Charged once for all users before the first one.

    Returns
    -------
    SeedRun
        Regret at the checkpoints (simulation only) and the last policy.

    Raises
    ------
    PrivacyBudgetExceeded
        If the ledger has no room; nothing has happened then.

    Examples
    --------
    >>> import tacit
    >>> from tacit.learners.psrl import PSRL
    >>> from tacit.release.none import Unprotected
    >>> from tacit.released.counts import CountShape
    >>> mdp = tacit.make_environment("riverswim")
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> found = simulate(mdp, PSRL(shape=shape), Unprotected(shape=shape), episodes=20, seed=0)
    >>> found.regret.shape == found.episodes.shape
    True
    """
    episodes = require_count("episodes", episodes)
    marks = log_checkpoints(episodes) if checkpoints is None else np.asarray(checkpoints, dtype=np.int64)
    if len(marks) == 0 or marks[0] < 1 or marks[-1] != episodes or (np.diff(marks) <= 0).any():
        raise InvalidInput("checkpoints must increase strictly, start at 1 or later and end with the last episode")
    report = progress if progress is not None else _silent
    for what, given in (("environment", environment), ("learner", learner), ("privatizer", privatizer)):
        object_given = given is not None and not isinstance(given, str)
        require(object_given, f"the {what} of simulate must be an object", given, "tacit.run takes names")
    world = world_of(environment, learner.asks)
    _require_agreement(world, learner, privatizer)
    sampler = world.sampler(learner, episodes=episodes, seed=seed)
    judge = world.judge(learner, marks)
    interpreted = speed == "interpreted" or (speed == "auto" and episodes < COMPILED_FROM)
    kernels = None if interpreted else kernels_of(learner, privatizer, sampler, judge)
    receipt = None
    if ledger is not None:
        receipt = ledger.charge(
            users=range(episodes),
            claim=privatizer.claim,
            events=privatizer.events(),
            recipient=learner.name,
            what=privatizer.name,
            noise="simulation",
        )
    streams = seed_streams(seed)
    started = time.perf_counter()
    if kernels is not None:
        ended = run_fused(kernels, learner, privatizer, sampler, judge, marks, streams, report)
    else:
        ended = interpret(learner, privatizer, sampler, judge, episodes, streams, report)
    seconds = time.perf_counter() - started
    if ledger is not None and receipt is not None:
        ledger.commit(receipt)
    found = judge.finish(learner, ended.belief, ended.rounds, ended.done)
    if ended.done < episodes:  # whoever was left over was served by the last policy
        report(episodes)
    return SeedRun(
        seed=seed,
        episodes=marks,
        regret=found.regret,
        policy_changes=found.changes,
        seconds=seconds,
        belief=ended.belief,
        released=ended.released,
        policy=ended.policy,
        interval=_interval(environment, learner, ended.belief),
        **found.details,
    )


def _require_agreement(world: World, learner: Learner[Any, Any, Any], privatizer: Privatizer[Any, Any, Any]) -> None:
    """Raise unless world, learner and privatizer speak of the same statistics."""
    if not issubclass(learner.asks, privatizer.answers):
        raise InvalidInput(
            f"{learner.name} asks for {learner.asks.words()}, which {privatizer.name} does not answer: it answers "
            f"{privatizer.answers.words()}"
        )
    world.fits(learner.shape, "learner")
    world.fits(privatizer.shape, "privatizer")
    agree = learner.shape.staged == privatizer.shape.staged
    require(agree, "learner and privatizer must agree on `staged`", learner.shape.staged)
    require(learner.shape == privatizer.shape, "learner and privatizer must agree on the shape", privatizer.shape)
    require_over_support(learner, getattr(learner.shape, "support", None) is not None)
    for mine, theirs, what in AGREEMENTS:
        wanted, offered = getattr(learner, mine, None), getattr(privatizer, theirs, None)
        same = wanted is None or offered is None or wanted == offered
        require(same, f"{learner.name} needs a privatizer whose {what} is {wanted}", offered)


def _silent(done: int) -> None:
    del done
