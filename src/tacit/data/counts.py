"""Sensitive: exact counts, from trajectories or drawn directly by multinomial flow.

When many users follow one policy, the counts can be drawn layer by layer with one multinomial per (state, action):
exactly the distribution that counting trajectories has, at a cost that does not depend on the number of users (Lemma
L6 (aggregate draws)).

Sensitive: the flow of many people through a world, compiled; the coins are those of NumPy's own multinomials.

    N_h(s,·) ~ Multinomial(N_h(s), π_h(·|s))      N_h(s,a,·) ~ Multinomial(N_h(s,a), P_h(·|s,a))

A multinomial is drawn cell by cell, each one binomially among those who are left. A cell of probability 0 takes no
coin, so only possible successors are looked at: the work of a row is the number of its successors, not of all states.
`walk` and `walk_in_python` give the same counts from the same generator, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, require, require_count
from tacit.kernels import kernel, lean_kernel
from tacit.lazy_jit import LazyJit
from tacit.policies import Policy
from tacit.policies.tables import tables_of


class SparseTransitions(NamedTuple):
    """A world as it is walked: the possible successors of every row (l, s, a), side by side."""

    rho: Floats
    """[S]: of the first state."""
    start: Ints
    """[rows + 1]"""
    to: Ints
    """The successors of row i are to[start[i] : start[i+1]], in the order of states."""
    p: Floats
    """Beside `to`: probabilities that add up, as NumPy's multinomials want them;"""
    chance: Floats
    """and as the world has them."""
    r: Floats
    """[1 or H, S, A]"""
    draws: bool
    """Whether a reward is 0 or 1 at random, or its mean."""


@lru_cache(maxsize=4)
def sparse_transitions(mdp: TabularMDP) -> SparseTransitions:
    """The roads of a world, prepared once."""
    # NumPy's multinomial tolerates less rounding in a row than tacit does.
    P = mdp.stage_P / mdp.stage_P.sum(axis=-1, keepdims=True)
    rows = P.reshape(-1, P.shape[-1])
    of, to = np.nonzero(rows)
    start = np.searchsorted(of, np.arange(len(rows) + 1))
    return SparseTransitions(
        rho=mdp.rho / mdp.rho.sum(),
        start=start.astype(np.int64),
        to=to.astype(np.int64),
        p=rows[of, to],
        chance=np.array(mdp.stage_P.reshape(rows.shape)[of, to]),
        r=np.array(mdp.stage_r, dtype=np.float64),
        draws=mdp.reward_kind == "bernoulli",
    )


@kernel
def compiled_walk(
    roads: SparseTransitions,
    tables: Floats,
    users: Ints,
    generator: np.random.Generator,
    starts: Ints,
    visits: Ints,
    moves: Ints,
    rewards: Floats,
) -> None:
    """Add the flow of users[j] people of each policy, tables [J,H,S,A], to visits, moves and rewards [H,...].

    Their first states are written to starts [J,S].
    """
    J, H, S, A = tables.shape
    stages, paid = (len(roads.start) - 1) // (S * A), len(roads.r)
    here, led, acted = np.zeros(S, np.int64), np.zeros(S, np.int64), np.zeros((S, A), np.int64)
    for j in range(J):
        left, remaining = users[j], 1.0
        here[:] = 0
        for s in range(S - 1):
            if left <= 0:
                break
            here[s] = generator.binomial(left, min(1.0, roads.rho[s] / remaining))
            left -= here[s]
            remaining -= roads.rho[s]
        if left > 0:
            here[S - 1] = left
        starts[j] = here
        for h in range(H):
            for s in range(S):
                # π_h(·|s) among those who are left; whoever is left in the end takes the last action
                left, remaining = here[s], 1.0
                for a in range(A):
                    acted[s, a] = 0
                for a in range(A - 1):
                    if left <= 0:
                        break
                    acted[s, a] = generator.binomial(left, min(1.0, tables[j, h, s, a] / remaining))
                    left -= acted[s, a]
                    remaining -= tables[j, h, s, a]
                if left > 0:
                    acted[s, A - 1] = left
            first = min(h, stages - 1) * S * A
            led[:] = 0
            for s in range(S):
                for a in range(A):
                    left, remaining, row = acted[s, a], 1.0, first + s * A + a
                    if left == 0:
                        continue
                    for c in range(roads.start[row], roads.start[row + 1]):
                        if left <= 0 or roads.to[c] == S - 1:
                            break
                        number = generator.binomial(left, min(1.0, roads.p[c] / remaining))
                        moves[h, s, a, roads.to[c]] += number
                        led[roads.to[c]] += number
                        left -= number
                        remaining -= roads.p[c]
                    if left > 0:
                        moves[h, s, a, S - 1] += left
                        led[S - 1] += left
            for s in range(S):
                for a in range(A):
                    if acted[s, a] > 0:
                        r = roads.r[min(h, paid - 1), s, a]
                        visits[h, s, a] += acted[s, a]
                        rewards[h, s, a] += generator.binomial(acted[s, a], r) if roads.draws else acted[s, a] * r
            for s in range(S):
                here[s] = led[s]


def walk_in_python(
    roads: SparseTransitions,
    tables: Floats,
    users: Ints,
    generator: np.random.Generator,
    starts: Ints,
    visits: Ints,
    moves: Ints,
    rewards: Floats,
) -> None:
    """The same by NumPy, whole steps at a time."""
    J, H, S, A = tables.shape
    stages = (len(roads.start) - 1) // (S * A)
    for j in range(J):
        starts[j] = at = generator.multinomial(users[j], roads.rho)
        for h in range(H):
            acted = generator.multinomial(at, tables[j, h])
            # Rows that nobody visits take no coins, so they can be left out.
            s, a = np.nonzero(acted)
            led = generator.multinomial(acted[s, a], _rows(roads, (min(h, stages - 1) * S + s) * A + a, S))
            r = roads.r[min(h, len(roads.r) - 1)]
            visits[h] += acted
            moves[h, s, a] += led
            rewards[h, s, a] += generator.binomial(acted[s, a], r[s, a]) if roads.draws else (acted * r)[s, a]
            at = led.sum(axis=0)


def _rows(roads: SparseTransitions, which: Ints, num_states: int) -> Floats:
    """P(·) of these rows, over all states."""
    found, sizes = np.zeros((len(which), num_states)), roads.start[which + 1] - roads.start[which]
    of = np.repeat(np.arange(len(which)), sizes)
    cells = np.arange(len(of)) + np.repeat(roads.start[which] - np.cumsum(sizes) + sizes, sizes)
    found[of, roads.to[cells]] = roads.p[cells]
    return found


def _work(
    roads: SparseTransitions,
    tables: Floats,
    users: Ints,
    generator: np.random.Generator,
    starts: Ints,
    visits: Ints,
    moves: Ints,
    rewards: Floats,
) -> int:
    J, H, S, A = tables.shape
    return int(J * H * (200 + S * A))  # units of a quarter of a microsecond: calls of NumPy, then rows


class _Walk(LazyJit):  # type: ignore[type-arg]
    """Short runs by NumPy, which nobody has to compile."""

    def __init__(self) -> None:
        super().__init__(compiled_walk, _work)
        self._original = walk_in_python


walk = _Walk()
"""Compiled where that pays; both forms take the same coins."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactCounts:
    """N_h(s,a,s'), N_h(s,a), R_h(s,a) and the number of users who started in each state, over one batch."""

    transitions: Ints
    """[H, S, A, S]"""
    visits: Ints
    """[H, S, A]"""
    rewards: Floats
    """[H, S, A]"""
    starts: Ints
    """[S]"""
    users: int
    binary: bool
    """Whether every single reward was 0 or 1."""
    groups: tuple[Ints, ...] = ()
    """[S] each: first states by group, where the users of the batch follow several policies."""

    def __repr__(self) -> str:
        return f"ExactCounts({self.users} users)"  # never their contents


def count_trajectories(batch: Trajectories, num_states: int, num_actions: int) -> ExactCounts:
    """Count a batch of trajectories; without a state after the last step, its successor is the last state itself."""
    fits = batch.states.max(initial=0) < num_states and batch.actions.max(initial=0) < num_actions
    if not (fits and min(batch.states.min(initial=0), batch.actions.min(initial=0)) >= 0):
        raise InvalidInput("the trajectories must belong to an environment of this many states and actions")
    users, horizon = batch.actions.shape
    states = batch.states if batch.states.shape[1:] != (horizon,) else np.append(batch.states, batch.states[:, -1:], 1)
    whole = states.shape == (users, horizon + 1) and batch.rewards.shape == (users, horizon)
    require(whole, f"trajectories must have {horizon} steps", (batch.states.shape, batch.rewards.shape))
    transitions = np.zeros((horizon, num_states, num_actions, num_states), dtype=np.int64)
    rewards = np.zeros((horizon, num_states, num_actions))
    _count(states, batch.actions, batch.rewards, transitions, rewards)
    starts = np.bincount(batch.states[:, 0], minlength=num_states).astype(np.int64)
    binary = bool(np.isin(batch.rewards, (0.0, 1.0)).all())
    return ExactCounts(transitions, transitions.sum(axis=3), rewards, starts, len(batch), binary)


def flow_counts(mdp: TabularMDP, policy: Policy, users: int, generator: np.random.Generator) -> ExactCounts:
    """Draw the counts of `users` people who follow the policy, without drawing the people."""
    return replace(_flow(mdp, [(policy, users)], generator), groups=())


def flow_groups(mdp: TabularMDP, groups: Sequence[tuple[Policy, int]], generator: np.random.Generator) -> ExactCounts:
    """Draw the counts of several groups, each with a policy of its own, as those of one batch.

    The same as to `join_counts` of all their `flow_counts`, without a table of counts for each of them.
    """
    require(len(groups) > 0, "a batch must have at least one group of users", len(groups))
    return _flow(mdp, groups, generator)


def _no_counts(mdp: TabularMDP) -> ExactCounts:
    """Nobody came yet."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    transitions, visits = np.zeros((H, S, A, S), dtype=np.int64), np.zeros((H, S, A), dtype=np.int64)
    binary = mdp.reward_kind == "bernoulli" or bool(np.isin(mdp.stage_r, (0.0, 1.0)).all())
    return ExactCounts(transitions, visits, np.zeros((H, S, A)), np.zeros(S, dtype=np.int64), 0, binary)


def _flow(mdp: TabularMDP, groups: Sequence[tuple[Policy, int]], generator: np.random.Generator) -> ExactCounts:
    """The counts of groups of people who walk one after the other."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    numbers = [number for _, number in groups]
    if not all(type(number) is int and number > 0 for number in numbers):
        numbers = [require_count("users", number) for number in numbers]
    users = np.array(numbers, dtype=np.int64)
    tables = tables_of([policy for policy, _ in groups], A)
    fits = tables.shape[1:] == (H, S, A)
    require(fits, f"the policy must have the shape {(H, S, A)} of the environment", tables.shape[1:])
    tables = tables / tables.sum(axis=-1, keepdims=True)
    counts, starts = _no_counts(mdp), np.zeros((len(groups), S), dtype=np.int64)
    walk(sparse_transitions(mdp), tables, users, generator, starts, counts.visits, counts.transitions, counts.rewards)
    return replace(counts, starts=starts.sum(axis=0), users=int(users.sum()), groups=tuple(starts))


def join_counts(parts: Sequence[ExactCounts]) -> ExactCounts:
    """The counts of several groups of users as those of one batch."""
    require(len(parts) > 0, "a batch must have at least one group of users", len(parts))
    return ExactCounts(
        transitions=np.sum([part.transitions for part in parts], axis=0),
        visits=np.sum([part.visits for part in parts], axis=0),
        rewards=np.sum([part.rewards for part in parts], axis=0),
        starts=np.sum([part.starts for part in parts], axis=0),
        users=sum(part.users for part in parts),
        binary=all(part.binary for part in parts),
        groups=tuple(part.starts for part in parts),
    )


@kernel
def _count(states: Ints, actions: Ints, rewards: Floats, transitions: Ints, reward_sums: Floats) -> None:
    users, horizon = actions.shape
    for i in range(users):
        for h in range(horizon):
            s, a = states[i, h], actions[i, h]
            transitions[h, s, a, states[i, h + 1]] += 1
            reward_sums[h, s, a] += rewards[i, h]


class ExactLosses(NamedTuple):
    """Sensitive: totals over all users so far, and the losses of the last one."""

    transitions: Floats
    visits: Floats
    losses: Floats
    """[pairs]: Σ_k l_k(x,a), with bandit feedback over visited pairs."""
    own: Floats
    """[pairs]: the losses of the current user."""
    users: Ints

    def __repr__(self) -> str:
        return "ExactLosses()"  # never its contents


@lean_kernel
def take_in(full: bool, exact: ExactLosses, pairs: Ints, triples: Ints, losses: Floats) -> None:
    """Add one user to the exact totals, clipped into range: nothing here raises on data."""
    size = exact.own.shape[0]
    exact.users[0] += 1
    for pair in range(size):
        exact.own[pair] = 0.0
    if full:
        for pair in range(min(size, losses.shape[0])):
            exact.own[pair] = clipped(losses[pair])
    for h in range(pairs.shape[0]):
        pair = min(max(pairs[h], 0), size - 1)
        triple = min(max(triples[h], 0), exact.transitions.shape[0] - 1)
        new_pair, new_triple = True, True
        for g in range(h):
            # A layered trajectory visits a pair at most once; whoever reports one twice counts once.
            if min(max(pairs[g], 0), size - 1) == pair:
                new_pair = False
            if min(max(triples[g], 0), exact.transitions.shape[0] - 1) == triple:
                new_triple = False
        if new_pair:
            exact.visits[pair] += 1.0
        if new_triple:
            exact.transitions[triple] += 1.0
        if not full and h < losses.shape[0]:
            exact.own[pair] = clipped(losses[h])
    for pair in range(size):
        exact.losses[pair] += exact.own[pair]


@lean_kernel
def clipped(loss: float) -> float:
    """A loss in [0, 1]; NaN is 0."""
    if loss >= 1.0:
        return 1.0
    return loss if loss > 0.0 else 0.0
