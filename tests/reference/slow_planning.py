"""Dynamic programming in plain Python, written from the definitions: lists, recursion and no sweep order of its own.

Values are computed forwards from "what happens next" by memoised recursion, not by the backward sweeps of the package,
so that the two can agree only by being right.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from scipy.optimize import linprog


def step_of(array, h):
    """The array of step h, whether it is stored once or for every step."""
    return array[0] if len(array) == 1 else array[h]


def optimal_values(P, r, horizon):
    """Q[h,s,a] and V[h,s] by recursion on the steps that are left."""
    S, A = r.shape[1:]

    @cache
    def value(h, s):
        return 0.0 if h == horizon else max(q(h, s, a) for a in range(A))

    @cache
    def q(h, s, a):
        row = step_of(P, h)[s, a]
        return float(step_of(r, h)[s, a]) + sum(float(row[t]) * value(h + 1, t) for t in range(S))

    Q = np.array([[[q(h, s, a) for a in range(A)] for s in range(S)] for h in range(horizon)])
    V = np.array([[value(h, s) for s in range(S)] for h in range(horizon + 1)])
    return Q, V


def policy_values(P, r, policy):
    """V[h,s] of policy[h,s,a] by recursion."""
    horizon, S, A = policy.shape

    @cache
    def value(h, s):
        if h == horizon:
            return 0.0
        total = 0.0
        for a in range(A):
            row = step_of(P, h)[s, a]
            follow = sum(float(row[t]) * value(h + 1, t) for t in range(S))
            total += float(policy[h, s, a]) * (float(step_of(r, h)[s, a]) + follow)
        return total

    return np.array([[value(h, s) for s in range(S)] for h in range(horizon + 1)])


def path_occupancy(P, rho, policy):
    """d[h,s,a] by adding up the probability of every path: exponential in the horizon, and hard to get wrong."""
    horizon, S, A = policy.shape
    d = np.zeros((horizon, S, A))

    def follow(h, s, probability):
        if h == horizon or probability == 0.0:
            return
        for a in range(A):
            weight = probability * policy[h, s, a]
            d[h, s, a] += weight
            for t in range(S):
                follow(h + 1, t, weight * step_of(P, h)[s, a, t])

    for s in range(S):
        follow(0, s, rho[s])
    return d


def all_policies(horizon, S, A):
    """Every deterministic policy[h,s]."""
    for flat in itertools.product(range(A), repeat=horizon * S):
        yield np.array(flat, dtype=np.int64).reshape(horizon, S)


def lp_best_occupancy(P, r, rho, horizon):
    """The greatest Σ d·r over all occupancy measures d[h,s,a], as a linear program; returns (value, d)."""
    S, A = r.shape[1:]
    cell = {key: i for i, key in enumerate(itertools.product(range(horizon), range(S), range(A)))}
    rows, right = [], []
    for h, s in itertools.product(range(horizon), range(S)):
        # Σ_a d_h(s,a) - Σ_{s',a'} d_{h-1}(s',a') P(s|s',a') = ρ(s) 1{h = 0}
        row = np.zeros(len(cell))
        for a in range(A):
            row[cell[h, s, a]] = 1.0
            if h > 0:
                for before in range(S):
                    row[cell[h - 1, before, a]] -= step_of(P, h - 1)[before, a, s]
        rows.append(row)
        right.append(rho[s] if h == 0 else 0.0)
    cost = [-step_of(r, h)[s, a] for h, s, a in cell]
    found = linprog(cost, A_eq=np.array(rows), b_eq=right, bounds=(0, None), method="highs")
    return -found.fun, found.x.reshape(horizon, S, A)
