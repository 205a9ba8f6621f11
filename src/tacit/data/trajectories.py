"""Sensitive: what users did. Trajectories are simulated here and leave only through a privatizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.world import World, alias_draw
from tacit.errors import require, require_count
from tacit.kernels import kernel, lean_kernel
from tacit.policies import DeterministicPolicy, Policy

__all__ = ["Trajectories", "Walked", "roll_out", "walk"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """A batch of users: states[i,h] for h = 0..H (the last is where the last step led), actions[i,h], rewards[i,h]."""

    states: Ints
    actions: Ints
    rewards: Floats

    def __repr__(self) -> str:
        return f"Trajectories({len(self.actions)} users)"  # never their contents

    def __len__(self) -> int:
        return len(self.actions)


class Walked(NamedTuple):
    """Users as kernels see them: one, states[H+1], actions[H], rewards[H]; or many, with a leading axis."""

    states: Ints
    actions: Ints
    rewards: Floats

    def __repr__(self) -> str:
        return "Walked()"  # never their contents


@lean_kernel
def walk(
    world: World, policy: Ints, generator: np.random.Generator, states: Ints, actions: Ints, rewards: Floats
) -> None:
    """One user follows policy[h,s]; the trajectory is written to states[H+1], actions[H], rewards[H]."""
    horizon = actions.shape[0]
    s = alias_draw(world.first_cut, world.first_other, generator.random())
    for h in range(horizon):
        stage = min(h, world.cut.shape[0] - 1)
        a = policy[h, s]
        states[h] = s
        actions[h] = a
        mean = world.reward[stage, s, a]
        # A mean of 0 or 1 needs no coin.
        if world.bernoulli and 0.0 < mean < 1.0:
            rewards[h] = 1.0 if generator.random() < mean else 0.0
        else:
            rewards[h] = mean
        s = alias_draw(world.cut[stage, s, a], world.other[stage, s, a], generator.random())
    states[horizon] = s


@lean_kernel
def _walk_many(
    world: World, policy: Ints, generator: np.random.Generator, states: Ints, actions: Ints, rewards: Floats
) -> None:
    for i in range(actions.shape[0]):
        walk(world, policy, generator, states[i], actions[i], rewards[i])


@kernel
def _walk_many_stochastic(
    world: World, policy: Floats, generator: np.random.Generator, states: Ints, actions: Ints, rewards: Floats
) -> None:
    users, horizon = actions.shape
    S, A = policy.shape[1], policy.shape[2]
    drawn = np.zeros((horizon, S), dtype=np.int64)
    for i in range(users):
        # A user visits one state per step, so drawing an action for every state first changes no distribution.
        for h in range(horizon):
            for s in range(S):
                left = generator.random()
                chosen = A - 1
                for a in range(A):
                    left -= policy[h, s, a]
                    if left < 0.0:
                        chosen = a
                        break
                # Rounding can leave `left` non-negative: fall back on the last action that has any probability.
                while policy[h, s, chosen] == 0.0:
                    chosen -= 1
                drawn[h, s] = chosen
        walk(world, drawn, generator, states[i], actions[i], rewards[i])


def roll_out(world: World, policy: Policy, users: int, generator: np.random.Generator) -> Trajectories:
    """Let `users` people follow the policy, one trajectory each."""
    users = require_count("users", users)
    S, A = world.reward.shape[1], world.reward.shape[2]
    table = policy.probabilities(A)
    horizon = table.shape[0]
    require(table.shape[1] == S, f"the policy must have the {S} states of the environment", table.shape[1])
    stages = world.cut.shape[0]
    require(stages in (1, horizon), f"the policy must have the {stages} steps of the environment", horizon)
    states = np.zeros((users, horizon + 1), dtype=np.int64)
    actions = np.zeros((users, horizon), dtype=np.int64)
    rewards = np.zeros((users, horizon))
    if isinstance(policy, DeterministicPolicy):
        _walk_many(world, np.ascontiguousarray(policy.actions, dtype=np.int64), generator, states, actions, rewards)
    else:
        _walk_many_stochastic(world, np.ascontiguousarray(table), generator, states, actions, rewards)
    return Trajectories(states, actions, rewards)
