"""The one loop: plan, act, judge, and for each release ask, release, update; once as Python, once as a kernel.

Both forms run the same kernels of learner, world, privatizer and judge in the same order on the same generators, so
their results are equal bit for bit. `fused` compiles a whole run of rounds into one function and is taken wherever all
parts have kernels; `interpret` drives everything else (batches that a learner plans one by one) and whoever wants to
look inside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import inlined, is_lean, kernel, lean_kernel
from tacit.policies import AnyPolicy
from tacit.protocol import Judge, Kernel, Learner, Privatizer, Sampler
from tacit.randomness import SimulationNoise, Streams

Progress = Callable[[int], None]


class RoundKernels(NamedTuple):
    """The kernels of one run, in the order in which a round calls them."""

    plan: Kernel
    act: Kernel
    count: Kernel
    ask: Kernel
    release: Kernel
    update: Kernel
    record: Kernel


class Ended(NamedTuple):
    """What is left when the last user has gone."""

    belief: Any
    released: Any
    """The last statistics that were released: public."""
    policy: AnyPolicy
    rounds: int
    done: int


def kernels_of(
    learner: Learner[Any, Any, Any], privatizer: Privatizer[Any, Any, Any], sampler: Sampler[Any], judge: Judge[Any]
) -> RoundKernels | None:
    """The kernels of a run, if all its parts have them."""
    mine, release = getattr(learner, "kernels", None), privatizer.kernel
    if mine is None or release is None or sampler.act is None:
        return None
    return RoundKernels(mine.plan, sampler.act, judge.count, mine.ask, release, mine.update, judge.record)


@cache
def fused(kernels: RoundKernels, releases: int) -> Kernel:
    """Compile the loop over these kernels; the result advances a run by `rounds` rounds of `each` users.

    `done` users came before. The users of the last round report only if `until` lies beyond them. How many releases a
    round has is compiled in, so that a single one has no loop around it.
    """
    plan, act, count, ask, release, update, record = (inlined(part) for part in kernels)
    # Whoever allocates needs reference counts, and so does the loop around it; releases never allocate.
    lean = all(is_lean(part) for part in kernels if part is not kernels.release)

    @(lean_kernel if lean else kernel)
    def advance(
        parameters: Any,
        belief: Any,
        query: Any,
        privacy: Any,
        state: Any,
        world: Any,
        users: Any,
        truth: Any,
        tally: Any,
        curves: Floats,
        checkpoints: Ints,
        done: int,
        rounds: int,
        each: int,
        until: int,
        world_coins: np.random.Generator,
        learner_coins: np.random.Generator,
        noise: np.random.Generator,
    ) -> None:
        mark = 0
        while mark < checkpoints.shape[0] and checkpoints[mark] <= done:
            mark += 1
        for _ in range(rounds):
            plan(parameters, belief, learner_coins)
            act(world, belief, users, world_coins)
            count(truth, tally, parameters, belief, users)
            if done + each < until:
                for number in range(releases):
                    ask(parameters, belief, query, number)
                    release(privacy, state, users, query, noise)
                    update(parameters, belief, state.released)
            while mark < checkpoints.shape[0] and checkpoints[mark] <= done + each:
                record(truth, tally, curves, mark, checkpoints[mark] - done)
                mark += 1
            done += each

    return advance


def run_fused(
    kernels: RoundKernels,
    learner: Any,
    privatizer: Privatizer[Any, Any, Any],
    sampler: Sampler[Any],
    judge: Judge[Any],
    checkpoints: Ints,
    streams: Streams,
    progress: Progress,
) -> Ended:
    """All rounds of a run in compiled code, which comes back after `sampler.chunk` users at the latest."""
    advance, belief, state = fused(kernels, int(learner.releases)), learner.begin(), privatizer.begin()
    query, privacy = learner.query(belief), privatizer.parameters
    episodes, each = int(checkpoints[-1]), int(learner.users_per_batch)
    # The data of the last users are of use to nobody, unless the final policy is what a run is for.
    until = episodes + 1 if learner.uses_last else episodes
    rounds, done = episodes // each, 0
    stride = max(1, sampler.chunk // each)
    for first in range(0, rounds, stride):
        number = min(stride, rounds - first)
        advance(
            learner.parameters, belief, query, privacy, state, sampler.arrays(done, number * each), sampler.buffers,
            judge.truth, judge.tally, judge.curves, checkpoints, done, number, each, until,
            streams.world, streams.learner, streams.noise,
        )  # fmt: skip
        done += number * each
        progress(done)
    return Ended(belief, state.released, learner.policy(belief), rounds, done)


def interpret(
    learner: Learner[Any, Any, Any],
    privatizer: Privatizer[Any, Any, Any],
    sampler: Sampler[Any],
    judge: Judge[Any],
    episodes: int,
    streams: Streams,
    progress: Progress,
) -> Ended:
    """All rounds of a run from Python, one part after the other."""
    noise = SimulationNoise(streams.noise)
    belief, state = learner.begin(), privatizer.begin()
    rounds, done = 0, 0
    policy: AnyPolicy | None = None
    while done + learner.least <= episodes:
        belief, plan = learner.plan(belief, streams.learner)
        left = episodes - done
        number = left if plan.users is None else min(plan.users, left)
        users = sampler.draw(plan, number, streams.world)  # sensitive from here ...
        judge.see(learner, belief, plan, users, done, number)
        if plan.query is not None and (done + number < episodes or learner.uses_last):
            for release in range(plan.releases):
                belief, query = learner.ask(belief, plan, release)
                state, released = privatizer.release(state, users, query, noise)
                belief = learner.update(belief, released)
        del users  # ... to here
        rounds, done, policy = rounds + 1, done + number, plan.policy
        progress(done)
    return Ended(belief, state.released, learner.policy(belief, policy), rounds, done)
