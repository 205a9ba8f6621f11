"""Simulation only: the exact objective J(θ), its gradient and what the theorems of [he2025policy] bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.environments.tabular import TabularMDP
from tacit.kernels import kernel
from tacit.planning.dynamic import backward_induction
from tacit.policies.softmax import add_pull_back

__all__ = ["GradientTally", "GradientTruth", "begin_gradient_tally", "evaluate", "gradient_truth", "objective_of"]

Floats = NDArray[np.float64]


class GradientTruth(NamedTuple):
    """The true model and the optimal value of each first state."""

    P: Floats
    r: Floats
    rho: Floats
    best: Floats
    """[S]: V*(s)."""
    optimal: float
    """J* = Σ_s ρ(s) V*(s)."""


class GradientTally(NamedTuple):
    """Running sums over the iterates θ_1, ..., θ_T, and the exact values of the latest one."""

    sums: Floats
    """[4]: Σ_t J* - J(θ_t), Σ_t ‖∇J(θ_t)‖², Σ_t ‖∇J_λ(θ_t)‖², regret of the users."""
    V: Floats
    """[H+1,S]"""
    at: Floats
    """[H+1,S]: Pr(s_h = s)."""
    weights: Floats
    """[L,S,A]: ∂J/∂logits."""
    gradient: Floats
    """[d]: ∇J(θ)."""


def gradient_truth(mdp: TabularMDP) -> GradientTruth:
    """Solve the true model once."""
    P, r = np.array(mdp.stage_P), np.array(mdp.stage_r)
    _, V, _ = backward_induction(P, r, mdp.horizon)
    return GradientTruth(P=P, r=r, rho=np.array(mdp.rho), best=V[0].copy(), optimal=float(mdp.rho @ V[0]))


def begin_gradient_tally(mdp: TabularMDP, stages: int, dimension: int) -> GradientTally:
    """Nothing counted yet."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    return GradientTally(
        sums=np.zeros(4),
        V=np.zeros((H + 1, S)),
        at=np.zeros((H + 1, S)),
        weights=np.zeros((stages, S, A)),
        gradient=np.zeros(dimension),
    )


@kernel
def evaluate(truth: GradientTruth, features: Floats, table: Floats, tally: GradientTally) -> float:
    """J(θ) for the policy table[l,s,a]; writes V, the visits and ∇J(θ) into the tally."""
    L, S, A = table.shape
    H = tally.V.shape[0] - 1
    V, at, weights = tally.V, tally.at, tally.weights
    for h in range(H - 1, -1, -1):
        l, stage = min(h, L - 1), min(h, truth.P.shape[0] - 1)  # noqa: E741
        for s in range(S):
            V[h, s] = 0.0
            for a in range(A):
                V[h, s] += table[l, s, a] * _action_value(truth, V, h, H, stage, s, a)
    for s in range(S):
        at[0, s] = truth.rho[s]
        for h in range(H):
            at[h + 1, s] = 0.0
    for l in range(L):  # noqa: E741
        for s in range(S):
            for a in range(A):
                weights[l, s, a] = 0.0
    for h in range(H):
        l, stage = min(h, L - 1), min(h, truth.P.shape[0] - 1)  # noqa: E741
        for s in range(S):
            if at[h, s] == 0.0:
                continue
            for a in range(A):
                visits = at[h, s] * table[l, s, a]
                # ∂J/∂z_h(s,a) = Pr(s_h = s) π(a|s) [Q_h(s,a) - V_h(s)]
                weights[l, s, a] += visits * (_action_value(truth, V, h, H, stage, s, a) - V[h, s])
                if h + 1 < H:
                    for t in range(S):
                        at[h + 1, t] += visits * truth.P[stage, s, a, t]
    for j in range(tally.gradient.shape[0]):
        tally.gradient[j] = 0.0
    add_pull_back(features, weights, 1.0, tally.gradient)
    value = 0.0
    for s in range(S):
        value += float(truth.rho[s] * V[0, s])
    return value


@kernel
def _action_value(truth: GradientTruth, V: Floats, h: int, H: int, stage: int, s: int, a: int) -> float:
    total = float(truth.r[stage, s, a])
    if h + 1 < H:
        for t in range(V.shape[1]):
            total += truth.P[stage, s, a, t] * V[h + 1, t]
    return total


def objective_of(mdp: TabularMDP, features: Floats, table: Floats, dimension: int) -> tuple[float, Floats]:
    """J and ∇J of one softmax policy table[l,s,a]. Simulation only."""
    tally = begin_gradient_tally(mdp, table.shape[0], dimension)
    value = evaluate(gradient_truth(mdp), features, np.ascontiguousarray(table), tally)
    return float(value), tally.gradient
