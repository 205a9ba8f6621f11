"""The loop fused with one learner and one privatizer into a single compiled function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import walk
from tacit.kernels import inlined, lean_kernel
from tacit.loop.tally import refresh

__all__ = ["fused_loop"]


@cache
def fused_loop(
    plan: Callable[..., None], update: Callable[..., None], release: Callable[..., None]
) -> Callable[..., None]:
    """Compile the whole interaction of these three kernels; the result advances a run by any number of episodes.

    The last three arguments hold the trajectory of the current user (states[H+1], actions[H], rewards[H]).
    `done` episodes came before; the regret at every mark that is passed is written to `regret`.
    """
    plan, update, release = inlined(plan), inlined(update), inlined(release)
    judge = inlined(refresh)

    @lean_kernel
    def advance(
        parameters: Any,
        belief: Any,
        privacy: Any,
        state: Any,
        world: Any,
        truth: Any,
        tally: Any,
        done: int,
        episodes: int,
        marks: Any,
        regret: Any,
        world_coins: np.random.Generator,
        learner_coins: np.random.Generator,
        noise: np.random.Generator,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
    ) -> None:
        mark = 0
        while mark < marks.shape[0] and marks[mark] <= done:
            mark += 1
        for episode in range(done + 1, done + episodes + 1):
            plan(parameters, belief, learner_coins)
            judge(truth, tally, belief.policy)
            walk(world, belief.policy, world_coins, states, actions, rewards)
            # V*(s_1) - V^π(s_1)
            tally.regret[0] += truth.best[states[0]] - tally.V[0, states[0]]
            # The last user's data are of use to nobody: they are never released, at either speed.
            if episode < marks[marks.shape[0] - 1]:
                release(privacy, state, states, actions, rewards, noise)
                update(parameters, belief, state.released)
            if mark < marks.shape[0] and marks[mark] == episode:
                regret[mark] = tally.regret[0]
                mark += 1

    return advance
