"""Random small models for hypothesis, rows of probabilities that may miss some mass included."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from tacit.planning.coverage import linear_maximum, two_point
from tacit.planning.dynamic import evaluate_deterministic


class ConstrainedOptimum(NamedTuple):
    value: float
    occupancy: np.ndarray
    programs: int
    feasible: bool


def constrained_maximum(P, rho, w, u, c):
    """The occupancy measure with the largest <w, d> among those with <u, d> ≥ c."""
    _, highest = linear_maximum(P, rho, u)
    value, d, programs, feasible = two_point(P, rho, w, u, c, highest)
    return ConstrainedOptimum(value, d, programs + 1, feasible)


def evaluate_many(P, r, rho, policies):
    """The values ρ·V_1 of many deterministic policies[i,h,s]."""
    _, horizon, S = policies.shape
    V, values = np.zeros((horizon + 1, S)), []
    for policy in policies:
        evaluate_deterministic(P, r, policy, V)
        values.append(rho @ V[0])
    return np.array(values)


def greatest_visit_probabilities(P, rho, horizon):
    """max_π Pr(s_h = s) for every step and state, by one backward sweep each."""
    best = np.zeros((horizon, P.shape[1]))
    for step in range(horizon):
        V = np.eye(P.shape[1])  # [s, target]
        for h in range(step - 1, -1, -1):
            V = (P[min(h, len(P) - 1)] @ V).max(axis=1)
        best[step] = rho @ V
    return best


@st.composite
def models(draw, *, max_states=4, max_actions=3, max_horizon=4, substochastic=True):
    """(P, r, rho, horizon): sparse rows, ties and missing mass are all common."""
    S, A = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    horizon = draw(st.integers(1, max_horizon))
    stages = draw(st.sampled_from([1, horizon]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = rng.dirichlet(np.full(S, draw(st.sampled_from([0.1, 1.0]))), size=(stages, S, A))
    if substochastic and draw(st.booleans()):
        P *= rng.random((stages, S, A, 1))
        P[rng.random((stages, S, A)) < 0.2] = 0.0
    r = np.round(rng.random((stages, S, A)), 1)
    rho = rng.dirichlet(np.ones(S))
    return P, r, rho, horizon


def random_policy(rng, horizon, S, A):
    """Probabilities[h,s,a] with zeros among them."""
    table = rng.dirichlet(np.full(A, 0.5), size=(horizon, S))
    table[rng.random((horizon, S)) < 0.3] = np.eye(A)[rng.integers(A)]
    return table
