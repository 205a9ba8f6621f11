"""An explicit set of deterministic policies, as a prefix tree: what the papers' elimination is about, made exact.

A policy is a sequence of H rules, one per step; a rule gives an action to each state, so there are R = A^S rules and
R^H = A^(HS) policies. Policies with the same first rules share their occupancy up to there, so a walk over the tree of
prefixes evaluates all of them with one small step per node: all 2^24 policies of RiverSwim (S=4, A=2, H=6) in a
fraction of a second. The tree is implicit: level h has R^(h+1) nodes, numbered so that the children of node i are
iR, ..., iR + R - 1, and a mask per level says which nodes still have a policy below them.

    maximize(P, w)   the policy with the largest <w, d> in any model: dynamic programming while the set is full, after
                     that branch and bound with the unconstrained values as the bound
    keep(P, u, c)    the policies with V^π(u, P) ≥ c: elimination

More than 2^26 policies are refused; `sdp-pe-plus` does without the list.

`cover_by_mixture` finds the mixture of active policies that covers all of them best, [bai2025secure] Eq. 3:

    min over mixtures D of φ   sup over μ in φ   Σ V^μ(1_{h,s,a}) / V^D(1_{h,s,a})

Printed as a minimum over single policies, it needs mixtures for its value to be the number n of reachable coordinates
(at most H·S·A), with 0/0 = 0. Start from given atoms (the policies that visit one coordinate most), reweight them by
the multiplicative rule that climbs Σ log y, and add the policy that violates the certificate most until
sup ≤ (1 + tol) n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, require
from tacit.kernels import kernel
from tacit.planning.dynamic import linear_values, occupancy

Mask = NDArray[np.uint8]

MAX_POLICIES: Final = 2**26
ROUNDS = 40
SWEEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicySet:
    """Deterministic policies that are still active."""

    horizon: int
    num_states: int
    num_actions: int
    alive: Mask | None
    """One byte per node, level after level; None: all policies."""
    size: int
    """How many policies the set has."""

    @property
    def rules(self) -> int:
        """R = A^S."""
        return int(self.num_actions**self.num_states)

    def maximize(self, P: Floats, rho: Floats, w: Floats, rng: np.random.Generator) -> tuple[float, Ints]:
        """The largest <w, d> over the set in the model (P, rho), and a policy[h,s] that attains it.

        Ties are broken at random: actions are tried in an order drawn from `rng`.
        """
        order = _rule_order(self, rng)
        V, _ = linear_values(P, w)
        if self.alive is None:
            policy = greedy_in_order(P, w, V, _action_order(self, rng))
            return float(rho @ V[0]), policy
        policy = np.zeros((self.horizon, self.num_states), dtype=np.int64)
        best = branch_and_bound(P, rho, w, V, self.alive, _offsets(self), _table(self), order, policy)
        return float(best), policy

    def keep(self, P: Floats, rho: Floats, u: Floats, c: float, *, strict: bool = False) -> PolicySet:
        """The policies of the set with V^π(u, P) ≥ c (above c, if `strict`)."""
        if self.alive is None:
            worst = -float(rho @ linear_values(P, -u)[0][0])
            if worst > c:
                return self  # even the worst policy stays, so nobody has to be asked
        total = int(_offsets(self)[-1])
        alive = np.ones(total, dtype=np.uint8) if self.alive is None else self.alive.copy()
        size = filter_tree(P, rho, u, c, strict, alive, _offsets(self), _table(self))
        if size == self.size:
            return self  # a full set stays full, and dynamic programming goes on
        return PolicySet(
            horizon=self.horizon, num_states=self.num_states, num_actions=self.num_actions, alive=alive, size=int(size)
        )

    def contains(self, policy: Ints) -> bool:
        """Whether policy[h,s] is still active."""
        if self.alive is None:
            return True
        node = 0
        for h in range(self.horizon):
            rule = 0
            for s in range(self.num_states):
                rule = rule * self.num_actions + int(policy[h, s])
            node = node * self.rules + rule
        return bool(self.alive[_offsets(self)[self.horizon - 1] + node])

    def describe(self) -> str:
        """For logs: sizes are functions of released statistics."""
        return f"{self.size} of {self.rules**self.horizon} policies"


def every_policy(*, horizon: int, num_states: int, num_actions: int) -> PolicySet:
    """All deterministic policies.

    >>> every_policy(horizon=6, num_states=4, num_actions=2).size == 2**24
    True
    >>> every_policy(horizon=20, num_states=50, num_actions=4)
    Traceback (most recent call last):
    ...
    tacit.errors.NotSupported: an explicit set holds at most 2^26 policies, and here are 4^1000 (A^(HS)); ...
    """
    require(min(horizon, num_states, num_actions) >= 1, "sizes must be positive", (horizon, num_states, num_actions))
    exponent = horizon * num_states
    if num_actions > 1 and exponent * np.log2(num_actions) > np.log2(MAX_POLICIES) + 1e-9:
        raise NotSupported(
            f"an explicit set holds at most 2^26 policies, and here are {num_actions}^{exponent} (A^(HS)); "
            "use the learner sdp-pe-plus, which eliminates policies without listing them"
        )
    size = num_actions**exponent
    return PolicySet(horizon=horizon, num_states=num_states, num_actions=num_actions, alive=None, size=size)


def _offsets(policies: PolicySet) -> Ints:
    """[H + 1]: where each level of the tree begins in the mask, and where the last one ends."""
    sizes = [policies.rules ** (h + 1) for h in range(policies.horizon)]
    return np.cumsum([0, *sizes], dtype=np.int64)


def _table(policies: PolicySet) -> Ints:
    """[R, S]: the action that each rule gives to each state; state 0 is the most significant digit."""
    R, S, A = policies.rules, policies.num_states, policies.num_actions
    numbers = np.arange(R, dtype=np.int64)
    return np.stack([(numbers // A ** (S - 1 - s)) % A for s in range(S)], axis=1)


def _rule_order(policies: PolicySet, rng: np.random.Generator) -> Ints:
    return np.stack([rng.permutation(policies.rules) for _ in range(policies.horizon)])


def _action_order(policies: PolicySet, rng: np.random.Generator) -> Ints:
    size = (policies.horizon, policies.num_states, policies.num_actions)
    return np.argsort(rng.random(size), axis=2)


@kernel
def greedy_in_order(P: Floats, w: Floats, V: Floats, order: Ints) -> Ints:
    """The greedy policy; among tied actions the first one in order[h,s,:]."""
    H, S, A = w.shape
    policy = np.zeros((H, S), dtype=np.int64)
    for h in range(H):
        for s in range(S):
            best = -np.inf
            for i in range(A):
                a = order[h, s, i]
                Q = w[h, s, a]
                if h < H - 1:
                    for t in range(S):
                        Q += P[h, s, a, t] * V[h + 1, t]
                if Q > best:
                    best = Q
                    policy[h, s] = a
    return policy


@kernel
def _step(P: Floats, w: Floats, table: Ints, h: int, rule: int, at: Floats, following: Floats, last: bool) -> float:
    """Play a rule at step h from the state probabilities `at`: what it collects; the next ones go to `following`."""
    S = at.shape[0]
    gained = 0.0
    if not last:
        for t in range(S):
            following[t] = 0.0
    for s in range(S):
        if at[s] > 0.0:
            a = table[rule, s]
            gained += at[s] * w[h, s, a]
            if not last:
                for t in range(S):
                    following[t] += at[s] * P[h, s, a, t]
    return gained


@kernel
def branch_and_bound(
    P: Floats, rho: Floats, w: Floats, V: Floats, alive: Mask, offsets: Ints, table: Ints, order: Ints, policy: Ints
) -> float:
    """Depth first over the live nodes; a subtree whose bound does not beat the best is left out."""
    H, S = policy.shape
    R = table.shape[0]
    at = np.zeros((H + 1, S))
    for s in range(S):
        at[0, s] = rho[s]
    collected = np.zeros(H + 1)
    position = np.zeros(H, dtype=np.int64)  # which of the rules (in order) comes next at each level
    node = np.zeros(H + 1, dtype=np.int64)
    chosen = np.zeros(H, dtype=np.int64)
    best = -np.inf
    h = 0
    while h >= 0:
        if position[h] == R:
            position[h] = 0
            h -= 1
            continue
        rule = order[h, position[h]]
        position[h] += 1
        child = node[h] * R + rule
        if alive[offsets[h] + child] == 0:
            continue
        last = h == H - 1
        total = collected[h] + _step(P, w, table, h, rule, at[h], at[h + 1], last)
        bound = total
        if not last:
            for s in range(S):
                bound += at[h + 1, s] * V[h + 1, s]
        if bound <= best:
            continue
        chosen[h] = rule
        if last:
            best = total
            for step in range(H):
                for s in range(S):
                    policy[step, s] = table[chosen[step], s]
        else:
            collected[h + 1] = total
            node[h + 1] = child
            h += 1
    return best


@kernel
def filter_tree(
    P: Floats, rho: Floats, u: Floats, c: float, strict: bool, alive: Mask, offsets: Ints, table: Ints
) -> int:
    """Clear the leaves that fall short of c and the nodes that have none left; returns how many leaves are left."""
    R, S = table.shape
    H = len(offsets) - 1
    at = np.zeros((H + 1, S))
    for s in range(S):
        at[0, s] = rho[s]
    collected = np.zeros(H + 1)
    rules = np.zeros(H, dtype=np.int64)
    node = np.zeros(H + 1, dtype=np.int64)
    below = np.zeros(H + 1, dtype=np.int64)  # leaves found below the node of each level
    h = 0
    while h >= 0:
        if rules[h] == R:
            rules[h] = 0
            if h > 0:
                if below[h] == 0:
                    alive[offsets[h - 1] + node[h]] = 0
                below[h - 1] += below[h]
                below[h] = 0
            h -= 1
            continue
        rule = rules[h]
        rules[h] += 1
        child = node[h] * R + rule
        if alive[offsets[h] + child] == 0:
            continue
        if h == H - 1:
            total = collected[h]
            for s in range(S):
                if at[h, s] > 0.0:
                    total += at[h, s] * u[h, s, table[rule, s]]
            if total > c or (total == c and not strict):
                below[h] += 1
            else:
                alive[offsets[h] + child] = 0
        else:
            collected[h + 1] = collected[h] + _step(P, u, table, h, rule, at[h], at[h + 1], False)
            node[h + 1] = child
            h += 1
    return int(below[0])


class Mixture(NamedTuple):
    """Policies with weights, and the certificate of their coverage."""

    policies: Ints
    """[I, H, S]"""
    weights: Floats
    """[I]"""
    sup: float
    reached: int


def cover_by_mixture(
    active: PolicySet, P: Floats, rho: Floats, atoms: Ints, rng: np.random.Generator, *, tolerance: float
) -> Mixture:
    """Weights for the atoms, and further atoms from the active set where these leave something uncovered."""
    atoms = np.unique(atoms, axis=0)
    A = active.num_actions
    visits = np.array([occupancy(P, rho, np.eye(A)[policy]) for policy in atoms])
    weights = np.full(len(atoms), 1.0 / len(atoms))
    sup, reached = np.inf, 0
    for _ in range(ROUNDS):
        reweight(visits.reshape(len(visits), -1), weights, SWEEPS)
        y = np.tensordot(weights, visits, axes=1)
        reached = int((y > 0.0).sum())
        w = np.where(y > 0.0, 1.0 / np.where(y > 0.0, y, 1.0), 0.0)
        sup, worst = active.maximize(P, rho, w, rng)
        if sup <= (1.0 + tolerance) * reached:
            break
        atoms = np.concatenate([atoms, worst[None]])
        visits = np.concatenate([visits, occupancy(P, rho, np.eye(A)[worst])[None]])
        weights = np.append(weights * (1.0 - 1.0 / reached), 1.0 / reached)
    return Mixture(policies=atoms, weights=weights / weights.sum(), sup=float(sup), reached=reached)


@kernel
def reweight(visits: Floats, weights: Floats, sweeps: int) -> None:
    """weights_i ← weights_i <1/y, d_i> / n: each sweep raises Σ log y."""
    count, cells = visits.shape
    y = np.zeros(cells)
    for _ in range(sweeps):
        reached = 0
        for c in range(cells):
            y[c] = 0.0
            for i in range(count):
                y[c] += weights[i] * visits[i, c]
            reached += int(y[c] > 0.0)
        total = 0.0
        for i in range(count):
            score = 0.0
            for c in range(cells):
                if y[c] > 0.0:
                    score += visits[i, c] / y[c]
            weights[i] *= score / max(reached, 1)
            total += weights[i]
        for i in range(count):
            weights[i] /= total
