"""Sensitive: what users did. Trajectories are simulated here and leave only through a privatizer.

A `World` is a tabular MDP prepared for sampling: alias tables, so that a step costs the same for any number of states.
Walker's alias method: a row of n probabilities becomes n columns of equal mass, each holding at most two outcomes, and
one uniform number picks the column (its integer part) and the outcome (its fraction). Exact to the 53 bits of a double.

A `LayeredWorld` is a layered MDP prepared for one user after the other, drawn step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.environments.layered import LayeredMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import require, require_count
from tacit.kernels import kernel, lean_kernel
from tacit.lazy_jit import lazy_jit
from tacit.policies import DeterministicPolicy, Policy


class World(NamedTuple):
    """The sampler's arrays; the leading axis of the first three has length H, or 1 when the MDP is time-homogeneous."""

    cut: Floats
    """[H or 1, S, A, S]: a fraction below `cut` keeps the column's own state."""
    other: Ints
    """[H or 1, S, A, S]: the state that takes the rest of the column."""
    reward: Floats
    """[H or 1, S, A]: mean rewards."""
    first_cut: Floats
    """[S]: the same for the initial distribution."""
    first_other: Ints
    bernoulli: bool
    """Whether rewards are drawn (0 or 1 with this mean) or are the mean itself."""


def prepare_world(mdp: TabularMDP) -> World:
    """Build the alias tables of an MDP."""
    cut, other = alias_tables(mdp.stage_P.reshape(-1, mdp.num_states))
    first_cut, first_other = alias_tables(mdp.rho.reshape(1, -1))
    return World(
        cut=cut.reshape(mdp.stage_P.shape),
        other=other.reshape(mdp.stage_P.shape),
        reward=np.array(mdp.stage_r),
        first_cut=first_cut[0],
        first_other=first_other[0],
        bernoulli=mdp.reward_kind == "bernoulli",
    )


@lean_kernel
def alias_draw(cut: Floats, other: Ints, uniform: float) -> int:
    """The outcome that a uniform number in [0, 1) selects."""
    scaled = uniform * cut.shape[0]
    column = int(scaled)
    if scaled - column < cut[column]:
        return column
    return int(other[column])


@kernel
def _alias_tables(rows: Floats) -> tuple[Floats, Ints]:
    """Vose's construction for every row: columns with too little mass borrow from columns with too much."""
    count, n = rows.shape
    cut = np.ones((count, n))
    other = np.zeros((count, n), dtype=np.int64)
    low = np.zeros(n, dtype=np.int64)
    high = np.zeros(n, dtype=np.int64)
    mass = np.zeros(n)
    for i in range(count):
        lows, highs = 0, 0
        total = 0.0
        for j in range(n):
            total += rows[i, j]
        for j in range(n):
            mass[j] = rows[i, j] * n / total
            other[i, j] = j
            if mass[j] < 1.0:
                low[lows] = j
                lows += 1
            else:
                high[highs] = j
                highs += 1
        while lows > 0 and highs > 0:
            lows -= 1
            small, large = low[lows], high[highs - 1]
            cut[i, small] = mass[small]
            other[i, small] = large
            mass[large] -= 1.0 - mass[small]
            if mass[large] < 1.0:
                highs -= 1
                low[lows] = large
                lows += 1
        # What is left over differs from mass 1 by rounding only, except that an impossible state stays impossible.
        while lows > 0:
            lows -= 1
            if rows[i, low[lows]] == 0.0:
                cut[i, low[lows]] = 0.0
                other[i, low[lows]] = np.argmax(rows[i])
    return cut, other


alias_tables = lazy_jit(lambda rows: 4 * rows.size)(_alias_tables)
"""The same, called from Python."""


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
    table: Floats | Ints = policy.within(A) if isinstance(policy, DeterministicPolicy) else policy.probabilities(A)
    horizon = table.shape[0]
    require(table.shape[1] == S, f"the policy must have the {S} states of the environment", table.shape[1])
    stages = world.cut.shape[0]
    require(stages in (1, horizon), f"the policy must have the {stages} steps of the environment", horizon)
    states = np.zeros((users, horizon + 1), dtype=np.int64)
    actions = np.zeros((users, horizon), dtype=np.int64)
    rewards = np.zeros((users, horizon))
    follow = _walk_many if isinstance(policy, DeterministicPolicy) else _walk_many_stochastic
    follow(world, np.ascontiguousarray(table), generator, states, actions, rewards)
    return Trajectories(states, actions, rewards)


class LossUser(NamedTuple):
    """One user's visited pairs[H] and triples[H], and losses[X'A] (full information) or losses[H] (bandit)."""

    pairs: Ints
    triples: Ints
    losses: Floats
    row: Floats = np.zeros(0)
    """[X'A], simulation only: the losses of all pairs, for the judge."""

    def __repr__(self) -> str:
        return "LossUser()"  # never its contents


class FeatureUsers(NamedTuple):
    """Users with features: row x, action, reward; where all actions share one parameter, x is the action's row."""

    x: Floats
    """[n,d]: of length at most 1."""
    actions: Ints
    """[n]"""
    rewards: Floats
    """[n]: in [0, 1]."""
    lots: Ints
    """[n]: the action that a public lot gave each user before anything else; -1: the policy decided."""

    @property
    def users(self) -> int:
        """How many they are."""
        return len(self.actions)

    def one(self, k: int) -> FeatureUsers:
        """The k-th of them."""
        own = slice(k, k + 1)
        return FeatureUsers(self.x[own], self.actions[own], self.rewards[own], self.lots[own])

    def __repr__(self) -> str:
        return f"FeatureUsers({len(self.actions)} users)"  # never what they did


class WeightedUsers(NamedTuple):
    """Users with weights of policies: mean weights over the cap, centered weighted rewards, shares that were cut."""

    u: Floats
    """[n, policies]: in [0, 1]."""
    s: Floats
    """[n, policies]: in [-1/2, 1/2]."""
    c: Floats
    """[n, policies]: in [0, 1]."""

    @property
    def users(self) -> int:
        """How many they are."""
        return len(self.u)

    def one(self, k: int) -> WeightedUsers:
        """The k-th of them."""
        own = slice(k, k + 1)
        return WeightedUsers(self.u[own], self.s[own], self.c[own])

    def __repr__(self) -> str:
        return f"WeightedUsers({len(self.u)} users)"  # never what they did


class LayeredWorld(NamedTuple):
    """The sampler's arrays; the pair (x,a) has the number x A + a and its triples stand side by side."""

    first_triple: Ints
    """[pairs + 1]: where the triples of each pair begin."""
    first_state: Ints
    """[pairs]: the state to which the first triple of each pair leads."""
    cumulative: Floats
    """[triples]: P(x' or an earlier successor | x, a)."""
    actions: int


def prepare_layered(mdp: LayeredMDP) -> LayeredWorld:
    """Lay the transitions out for sampling."""
    first_triple, first_state, cumulative = [0], [], []
    for h, step in enumerate(mdp.transitions):
        for row in step.reshape(-1, step.shape[2]):
            sums = np.cumsum(row)
            # Rounding must not lead to a state that cannot be reached: the last possible one takes the rest.
            sums[np.flatnonzero(row)[-1] :] = 1.0
            cumulative.append(sums)
            first_triple.append(first_triple[-1] + len(row))
            first_state.append(int(mdp.layers[h + 1][0]))
    return LayeredWorld(
        first_triple=np.array(first_triple, dtype=np.int64),
        first_state=np.array(first_state, dtype=np.int64),
        cumulative=np.concatenate(cumulative),
        actions=mdp.num_actions,
    )


@lean_kernel
def walk_layered(
    world: LayeredWorld, policy: Floats, generator: np.random.Generator, pairs: Ints, triples: Ints
) -> None:
    """One user follows policy[pairs] from the first state to the last; writes pairs[H] and triples[H]."""
    A = world.actions
    x = 0
    for h in range(pairs.shape[0]):
        left = generator.random()
        a = A - 1
        for b in range(A):
            left -= policy[x * A + b]
            if left < 0.0:
                a = b
                break
        # Rounding can leave `left` non-negative: fall back on the last action that has any probability.
        while a > 0 and policy[x * A + a] <= 0.0:
            a -= 1
        pair = x * A + a
        uniform = generator.random()
        triple = world.first_triple[pair]
        while world.cumulative[triple] <= uniform:
            triple += 1
        pairs[h] = pair
        triples[h] = triple
        x = world.first_state[pair] + triple - world.first_triple[pair]


class TrajectoryLike(Protocol):
    """One user's episode: states [H] or [H+1], actions [H], rewards [H] in [0, 1]."""

    @property
    def states(self) -> NDArray[np.integer]: ...  # noqa: D102
    @property
    def actions(self) -> NDArray[np.integer]: ...  # noqa: D102
    @property
    def rewards(self) -> NDArray[np.floating]: ...  # noqa: D102


class Trajectory(NamedTuple):
    """The simplest such episode."""

    states: NDArray[np.integer]
    actions: NDArray[np.integer]
    rewards: NDArray[np.floating]

    def __repr__(self) -> str:
        return f"Trajectory({len(self.actions)} steps)"  # never its contents
