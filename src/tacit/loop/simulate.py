"""One simulated run: users come, the privatizer stands between them and the learner, the simulator counts the regret.

    plan -> charge -> roll out -> release -> forget -> update

Two speeds, one meaning. `compiled` fuses the kernels of learner and privatizer into one function and is used whenever
both have kernels and users come one by one; `interpreted` calls the same kernels step by step from Python and serves
everything else (batches, debugging, a service). The same seed gives bit-identical results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.data.counts import flow_counts
from tacit.data.trajectories import roll_out
from tacit.data.world import prepare_world
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.learners.contract import KernelLearner, Learner
from tacit.loop.compiled import fused_loop
from tacit.loop.tally import begin_tally, gaps_of, refresh, truth_of
from tacit.policies import DeterministicPolicy
from tacit.privatizers.contract import CountPrivatizer
from tacit.randomness import SimulationNoise, seed_streams

__all__ = ["Progress", "SeedRun", "Speed", "log_checkpoints", "simulate"]

Speed = Literal["auto", "compiled", "interpreted"]
Progress = Callable[[int], None]
"""Called with the number of episodes done."""

CHUNK = 1_000_000
"""The compiled loop returns to Python at least this often, for progress and interruption."""


@dataclass(frozen=True, slots=True, eq=False)
class SeedRun:
    """What the simulator saw of one run; regret is simulation-only."""

    seed: int
    episodes: NDArray[np.int64]
    """The checkpoints."""
    regret: NDArray[np.float64]
    """Cumulative pseudo-regret at each checkpoint (simulation only)."""
    policy_changes: int
    seconds: float


def log_checkpoints(episodes: int, count: int = 100) -> NDArray[np.int64]:
    """Log-spaced episode numbers from 1 to `episodes`, the last one always included.

    >>> log_checkpoints(1000, count=4).tolist()
    [1, 10, 100, 1000]
    """
    episodes = require_count("episodes", episodes)
    grid = np.unique(np.rint(np.geomspace(1, episodes, num=require_count("count", count, least=2))).astype(np.int64))
    grid[-1] = episodes
    return grid


def simulate(
    mdp: TabularMDP,
    learner: Learner[Any],
    privatizer: CountPrivatizer,
    *,
    episodes: int,
    seed: int,
    checkpoints: Sequence[int] | NDArray[np.int64] | None = None,
    speed: Speed = "auto",
    progress: Progress | None = None,
) -> SeedRun:
    """Run `episodes` users through the loop and return the regret at the checkpoints."""
    episodes = require_count("episodes", episodes)
    marks = log_checkpoints(episodes) if checkpoints is None else np.asarray(checkpoints, dtype=np.int64)
    if len(marks) == 0 or marks[0] < 1 or marks[-1] != episodes or (np.diff(marks) <= 0).any():
        raise InvalidInput("checkpoints must increase strictly, start at 1 or later and end with the last episode")
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    for part, shape in (("learner", learner.shape), ("privatizer", privatizer.shape)):
        # Kernels do not check their indices, so nothing else may come this far.
        sizes = (shape.horizon, shape.num_states, shape.num_actions)
        require(sizes == (H, S, A), f"the {part} must have the horizon, states, actions {H, S, A} of the mdp", sizes)
    agree = learner.shape.staged == privatizer.shape.staged
    require(agree, "learner and privatizer must agree on `staged`", learner.shape.staged)
    fusable = isinstance(learner, KernelLearner) and hasattr(privatizer, "release_kernel")
    fusable = fusable and getattr(learner, "users_per_batch", None) == 1
    if speed == "compiled" and not fusable:
        raise NotSupported(f"{learner.name} with {privatizer.name} does not run compiled; use speed='interpreted'")
    report = progress if progress is not None else _silent
    run = _compiled if fusable and speed != "interpreted" else _interpreted
    started = time.perf_counter()
    regret, changes = run(mdp, learner, privatizer, marks, seed, report)
    seconds = time.perf_counter() - started
    return SeedRun(seed=seed, episodes=marks, regret=regret, policy_changes=changes, seconds=seconds)


def _silent(done: int) -> None:
    del done


def _compiled(
    mdp: TabularMDP, learner: Any, privatizer: Any, marks: NDArray[np.int64], seed: int, progress: Progress
) -> tuple[NDArray[np.float64], int]:
    streams, tally = seed_streams(seed), begin_tally(mdp)
    belief, state = learner.begin(), privatizer.begin()
    world, truth, privacy = prepare_world(mdp), truth_of(mdp), privatizer.parameters
    advance = fused_loop(type(learner).plan_kernel, type(learner).update_kernel, privatizer.release_kernel)
    regret = np.zeros(len(marks))
    done = 0
    for i, mark in enumerate(marks):
        while done < mark:
            count = int(min(mark - done, CHUNK))
            advance(
                learner.parameters, belief, privacy, state, world, truth, tally,
                count, streams.world, streams.learner, streams.noise,
            )  # fmt: skip
            done += count
            progress(done)
        regret[i] = tally.regret[0]
    return regret, int(tally.changes[0])


def _interpreted(
    mdp: TabularMDP, learner: Any, privatizer: Any, marks: NDArray[np.int64], seed: int, progress: Progress
) -> tuple[NDArray[np.float64], int]:
    streams, truth, world = seed_streams(seed), truth_of(mdp), prepare_world(mdp)
    noise = SimulationNoise(streams.noise)
    belief, state = learner.begin(), privatizer.begin()
    tally = begin_tally(mdp)
    episodes, changes, next_mark = int(marks[-1]), 0, 0
    regret = np.zeros(len(marks))
    done, total, previous = 0, 0.0, None
    while done < episodes:
        belief, plan = learner.plan(belief, streams.learner)
        users = episodes - done if plan.users is None else min(plan.users, episodes - done)
        if isinstance(plan.policy, DeterministicPolicy):
            refresh(truth, tally, plan.policy.actions)
            gaps = tally.gaps
        else:
            gaps = gaps_of(truth, plan.policy, mdp.num_actions)
            changes += plan.policy is not previous
        previous = plan.policy
        if users == 1:
            batch: Any = roll_out(world, plan.policy, 1, streams.world)
            cost = float(gaps[batch.states[0, 0]])
        else:
            batch = flow_counts(mdp, plan.policy, users, streams.world)
            cost = float(gaps @ batch.starts)
        # Within a batch the policy is one and the same, so the regret grows evenly.
        while next_mark < len(marks) and marks[next_mark] <= done + users:
            regret[next_mark] = total + cost * (int(marks[next_mark]) - done) / users
            next_mark += 1
        total += cost
        # The last users' data are of use to nobody: they are never released.
        if plan.reports and done + users < episodes:
            state, released = privatizer.release(state, batch, noise)
            belief = learner.update(belief, released)
        del batch
        done += users
        progress(done)
    return regret, int(tally.changes[0]) + changes
