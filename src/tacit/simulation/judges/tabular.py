"""Simulation only: the pseudo-regret of users in a tabular world. It is computed here and nowhere else.

Values of many policies at once, over possible successors: what a simulator asks about the groups of a batch.

The same operations in the same order as `dynamic.evaluate_stochastic`, without those that add a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts, sparse_transitions
from tacit.data.trajectories import Trajectories
from tacit.environments.tabular import TabularMDP
from tacit.kernels import inlined, kernel, lean_kernel
from tacit.lazy_jit import lazy_jit
from tacit.planning.dynamic import evaluate_deterministic, solve, value_of
from tacit.policies import AnyPolicy, DeterministicPolicy, Policy, tabular
from tacit.policies.tables import tables_of
from tacit.protocol import Measures, Plan


def _work(start: Ints, to: Ints, p: Floats, r: Floats, tables: Floats) -> int:
    J, H, S, A = tables.shape
    return int(J * H * S * (A + len(to) * A // (len(start) - 1)))


@lazy_jit(_work)
@kernel
def first_values(start: Ints, to: Ints, p: Floats, r: Floats, tables: Floats) -> Floats:
    """V_1[j,s] of policies with probabilities tables[j,h,s,a]; the successors of row i are to[start[i] : start[i+1]].

    >>> start, to = np.array([0, 1, 2]), np.array([1, 1])
    >>> first_values(start, to, np.ones(2), np.array([[[0.0], [1.0]]]), np.ones((1, 3, 2, 1))).tolist()
    [[2.0, 3.0]]
    """
    J, H, S, A = tables.shape
    stages, paid = (len(start) - 1) // (S * A), r.shape[0]
    found = np.zeros((J, S))
    V, ahead = np.zeros(S), np.zeros(S)
    for j in range(J):
        ahead[:] = 0.0
        for h in range(H - 1, -1, -1):
            stage, pays = min(h, stages - 1), min(h, paid - 1)
            for s in range(S):
                value = 0.0
                for a in range(A):
                    if tables[j, h, s, a] > 0.0:
                        # V_h(s) = Σ_a π(a|s) [ r_h(s,a) + Σ_s' P_h(s'|s,a) V_{h+1}(s') ]
                        total = r[pays, s, a]
                        row = (stage * S + s) * A + a
                        for c in range(start[row], start[row + 1]):
                            total += p[c] * ahead[to[c]]
                        value += tables[j, h, s, a] * total
                V[s] = value
            for s in range(S):
                ahead[s] = V[s]
        for s in range(S):
            found[j, s] = V[s]
    return found


class Truth(NamedTuple):
    """The true model and the optimal value of each first state."""

    P: Floats
    r: Floats
    best: Floats


class Tally(NamedTuple):
    """Running regret, and the values V^π of the policy they were last computed for."""

    regret: Floats
    """[1]"""
    policy: Ints
    V: Floats
    """[H+1, S]"""
    changes: Ints
    """[1]: how many times the policy differed from the one before."""


def truth_of(mdp: TabularMDP) -> Truth:
    """Solve the true model once."""
    P, r = np.array(mdp.stage_P), np.array(mdp.stage_r)
    _, V, _ = solve(P, r, mdp.horizon)
    return Truth(P=P, r=r, best=V[0].copy())


def begin_tally(mdp: TabularMDP) -> Tally:
    """No regret yet, and no policy (-1 is no action)."""
    H, S = mdp.horizon, mdp.num_states
    return Tally(
        regret=np.zeros(1),
        policy=np.full((H, S), -1, dtype=np.int64),
        V=np.zeros((H + 1, S)),
        changes=np.zeros(1, dtype=np.int64),
    )


@lean_kernel
def refresh(truth: Truth, tally: Tally, policy: Ints) -> None:
    """Recompute the values if the policy differs from the one they belong to."""
    H, S = policy.shape
    difference = 0
    for h in range(H):
        for s in range(S):
            # Without a branch: under random ties no processor could predict it.
            difference |= policy[h, s] ^ tally.policy[h, s]
            tally.policy[h, s] = policy[h, s]
    if difference != 0:
        tally.changes[0] += 1
        evaluate_deterministic(truth.P, truth.r, policy, tally.V)


_refreshed = inlined(refresh)


def _refreshing(truth: Truth, tally: Tally, policy: Ints) -> int:
    return int(policy.size * (1 + policy.shape[1]))


_refresh = lazy_jit(_refreshing)(refresh)


@lean_kernel
def count_user(truth: Truth, tally: Tally, parameters: Any, belief: Any, users: Any) -> None:
    """Add one user: V*(s_1) - V^π(s_1)."""
    _refreshed(truth, tally, belief.policy)
    tally.regret[0] += truth.best[users.states[0]] - tally.V[0, users.states[0]]


@lean_kernel
def record_regret(truth: Truth, tally: Tally, curves: Floats, mark: int, past: int) -> None:
    """Users come one by one, so every checkpoint is the end of a round."""
    curves[0, mark] = tally.regret[0]


def gaps_of(truth: Truth, policy: Policy, num_actions: int) -> Floats:
    """V*(s) - V^π(s) of any policy, for every first state s."""
    V = value_of(truth.P, truth.r, policy.probabilities(num_actions))
    return np.asarray(truth.best - V[0])


class TabularJudge:
    """Pseudo-regret against the optimal policy, from the realised first states of users."""

    count = staticmethod(count_user)
    record = staticmethod(record_regret)

    def __init__(self, mdp: TabularMDP, checkpoints: Ints) -> None:
        self.truth, self.tally, self.curves = truth_of(mdp), begin_tally(mdp), np.zeros((1, len(checkpoints)))
        self._checkpoints, self._actions, self._roads = checkpoints, mdp.num_actions, sparse_transitions(mdp)
        self._mark, self._total, self._changes = 0, 0.0, 0
        self._previous: AnyPolicy | None = None

    def see(
        self, learner: Any, belief: Any, plan: Plan[Any], users: Trajectories | ExactCounts, done: int, number: int
    ) -> None:
        """Count a round; within it the policies are the same, so the regret grows evenly."""
        cost = self._cost(plan, users, number)
        while self._mark < len(self._checkpoints) and self._checkpoints[self._mark] <= done + number:
            past = int(self._checkpoints[self._mark]) - done
            self.curves[0, self._mark] = self._total + cost * past / number
            self._mark += 1
        self._total += cost

    def _cost(self, plan: Plan[Any], users: Trajectories | ExactCounts, number: int) -> float:
        if plan.groups:
            self._changes += 1
            followed = [(policy, count) for policy, count in plan.arms(number) if count > 0]
            starts = users.groups if isinstance(users, ExactCounts) else self._starts(users, followed)
            gaps = self._gaps([tabular(policy) for policy, _ in followed])
            return sum(float(gap @ first) for gap, first in zip(gaps, starts, strict=True))
        if isinstance(plan.policy, DeterministicPolicy):
            _refresh(self.truth, self.tally, plan.policy.actions)
            gaps = self.truth.best - self.tally.V[0]
        else:
            gaps = gaps_of(self.truth, tabular(plan.policy), self._actions)
            self._changes += plan.policy is not self._previous
        self._previous = plan.policy
        if isinstance(users, Trajectories):
            return float(gaps[users.states[:, 0]].sum())
        return float(gaps @ users.starts)

    def _gaps(self, policies: list[Policy]) -> Floats:
        """V*(s) - V^π(s) of every policy [j,s], for every first state."""
        road = self._roads
        V = first_values(road.start, road.to, road.chance, self.truth.r, tables_of(policies, self._actions))
        return np.asarray(self.truth.best - V)

    def _starts(self, users: Trajectories, followed: Sequence[tuple[AnyPolicy, int]]) -> list[Ints]:
        """How many people of each group began in which state; groups come one after the other."""
        ends = np.cumsum([count for _, count in followed])
        found = np.split(users.states[:, 0], ends[:-1])
        return [np.bincount(group, minlength=len(self.truth.best)) for group in found]

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """The regret at the checkpoints."""
        return Measures(self.curves[0], int(self.tally.changes[0]) + self._changes, {})
