"""The loop fused with one learner and one privatizer into a single compiled function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tacit.data.trajectories import walk
from tacit.kernels import kernel
from tacit.loop.tally import refresh

__all__ = ["fused_loop"]


@cache
def fused_loop(
    plan: Callable[..., None], update: Callable[..., None], release: Callable[..., None]
) -> Callable[..., None]:
    """Compile the whole interaction of these three kernels; the result advances a run by any number of episodes."""

    @kernel
    def advance(
        parameters: Any,
        belief: Any,
        privacy: Any,
        state: Any,
        world: Any,
        truth: Any,
        tally: Any,
        episodes: int,
        world_coins: np.random.Generator,
        learner_coins: np.random.Generator,
        noise: np.random.Generator,
    ) -> None:
        horizon = belief.policy.shape[0]
        states = np.zeros(horizon + 1, dtype=np.int64)
        actions = np.zeros(horizon, dtype=np.int64)
        rewards = np.zeros(horizon)
        for _ in range(episodes):
            plan(parameters, belief, learner_coins)
            refresh(truth, tally, belief.policy)
            walk(world, belief.policy, world_coins, states, actions, rewards)
            tally.regret[0] += tally.gaps[states[0]]
            release(privacy, state, states, actions, rewards, noise)
            update(parameters, belief, state.released)

    return advance
