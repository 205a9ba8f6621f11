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

from tacit.accounting.ledger import Ledger
from tacit.data.counts import ExactCounts, flow_counts, join_counts
from tacit.data.trajectories import roll_out
from tacit.data.world import prepare_world
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.learners.contract import KernelLearner, Learner, Plan
from tacit.learners.gradient import GradientLearner
from tacit.learners.loss_contract import LossLearner
from tacit.loop.adversarial_loop import LossGame, LossMeasures, run_losses
from tacit.loop.compiled import fused_loop
from tacit.loop.gradient_measures import Objective
from tacit.loop.gradient_run import simulate_gradient
from tacit.loop.tally import Truth, begin_tally, gaps_of, refresh, truth_of
from tacit.policies import DeterministicPolicy
from tacit.privatizers.contract import CountPrivatizer
from tacit.randomness import SimulationNoise, seed_streams

__all__ = ["Progress", "SeedRun", "Speed", "log_checkpoints", "simulate"]

Speed = Literal["auto", "compiled", "interpreted"]
Progress = Callable[[int], None]
"""Called with the number of episodes done."""

CHUNK = 100_000
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
    objective: Objective | None = None
    """Exact values of what a policy gradient found (simulation only)."""
    losses: LossMeasures | None = None
    """What stands beside the regret where losses are adversarial (simulation only)."""


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
    ledger: Ledger | None = None,
) -> SeedRun:
    """Run `episodes` users through the loop and return the regret at the checkpoints.

    With a `ledger`, all users are charged before the first one comes: each of them is exposed to one privatizer once,
    so one charge with its claim and events covers the run. `BudgetSpent` is raised before anything happens.
    """
    episodes = require_count("episodes", episodes)
    marks = log_checkpoints(episodes) if checkpoints is None else np.asarray(checkpoints, dtype=np.int64)
    if len(marks) == 0 or marks[0] < 1 or marks[-1] != episodes or (np.diff(marks) <= 0).any():
        raise InvalidInput("checkpoints must increase strictly, start at 1 or later and end with the last episode")
    report = progress if progress is not None else _silent
    given: object = learner
    if isinstance(given, GradientLearner):
        compiled = speed != "interpreted"
        found = simulate_gradient(mdp, given, privatizer, marks, seed, compiled=compiled, progress=report)
        return SeedRun(seed, marks, found.regret, found.batches, found.seconds, found.objective)
    if isinstance(given, LossLearner):
        return _with_losses(mdp, given, privatizer, marks, seed, speed, report, ledger)
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
    run = _compiled if fusable and speed != "interpreted" else _interpreted
    receipt = _charge(ledger, episodes, privatizer, learner.name)
    started = time.perf_counter()
    regret, changes = run(mdp, learner, privatizer, marks, seed, report)
    seconds = time.perf_counter() - started
    if ledger is not None and receipt is not None:
        ledger.commit(receipt)
    return SeedRun(seed=seed, episodes=marks, regret=regret, policy_changes=changes, seconds=seconds)


def _charge(ledger: Ledger | None, episodes: int, privatizer: Any, recipient: str) -> Any:
    """Charge every user before the first one comes; nothing without a ledger."""
    if ledger is None:
        return None
    return ledger.charge(
        users=range(episodes),
        claim=privatizer.claim,
        events=privatizer.events(),
        recipient=recipient,
        what=privatizer.name,
        noise="simulation",
    )


def _with_losses(
    game: Any,
    learner: LossLearner,
    privatizer: Any,
    marks: NDArray[np.int64],
    seed: int,
    speed: Speed,
    progress: Progress,
    ledger: Ledger | None,
) -> SeedRun:
    """A run against an adversary."""
    require(isinstance(game, LossGame), f"{learner.name} plays in a LossGame, a world with an adversary", type(game))
    receipt = _charge(ledger, int(marks[-1]), privatizer, learner.name)
    compiled = speed != "interpreted"
    found = run_losses(game, learner, privatizer, seed=seed, marks=marks, compiled=compiled, progress=progress)
    if ledger is not None and receipt is not None:
        ledger.commit(receipt)
    changes = found.measures.solves
    return SeedRun(seed, marks, found.regret, changes, found.seconds, losses=found.measures)


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
    states, actions = np.zeros(mdp.horizon + 1, dtype=np.int64), np.zeros(mdp.horizon, dtype=np.int64)
    rewards = np.zeros(mdp.horizon)
    episodes, done = int(marks[-1]), 0
    while done < episodes:
        count = min(episodes - done, CHUNK)
        advance(
            learner.parameters, belief, privacy, state, world, truth, tally,
            done, count, marks, regret, streams.world, streams.learner, streams.noise, states, actions, rewards,
        )  # fmt: skip
        done += count
        progress(done)
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
    batch: Any
    while done < episodes:
        belief, plan = learner.plan(belief, streams.learner)
        users = episodes - done if plan.users is None else min(plan.users, episodes - done)
        if plan.groups:
            batch, cost = _mixed(mdp, truth, plan, users, streams.world)
            changes += 1
        else:
            if isinstance(plan.policy, DeterministicPolicy):
                refresh(truth, tally, plan.policy.actions)
                gaps = truth.best - tally.V[0]
            else:
                gaps = gaps_of(truth, plan.policy, mdp.num_actions)
                changes += plan.policy is not previous
            previous = plan.policy
            if users == 1 and plan.request is None:
                batch = roll_out(world, plan.policy, 1, streams.world)
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
            if plan.request is None:
                state, released = privatizer.release(state, batch, noise)
            else:
                state, released = privatizer.release_batch(state, batch, noise, plan.request)
            belief = learner.update(belief, released)
        del batch
        done += users
        progress(done)
    return regret, int(tally.changes[0]) + changes


def _mixed(
    mdp: TabularMDP, truth: Truth, plan: Plan, users: int, world: np.random.Generator
) -> tuple[ExactCounts, float]:
    """A batch whose users follow several policies, and what it cost; those in no group follow `plan.policy`."""
    left = users - sum(count for _, count in plan.groups)
    require(left >= 0, "the groups of a batch must not have more users than the batch", left)
    parts, cost = [], 0.0
    for policy, count in (*plan.groups, (plan.policy, left)):
        if count > 0:
            parts.append(flow_counts(mdp, policy, count, world))
            cost += float(gaps_of(truth, policy, mdp.num_actions) @ parts[-1].starts)
    return join_counts(parts), cost
