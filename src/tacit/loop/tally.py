"""Simulation only: what the simulator knows and the learner does not. Regret is computed here and nowhere else."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.environments.tabular import TabularMDP
from tacit.kernels import lean_kernel
from tacit.planning.dynamic import backward_induction, evaluate_deterministic, evaluate_stochastic
from tacit.policies import Policy

__all__ = ["Tally", "Truth", "begin_tally", "gaps_of", "refresh", "truth_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    _, V, _ = backward_induction(P, r, mdp.horizon)
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


def gaps_of(truth: Truth, policy: Policy, num_actions: int) -> Floats:
    """V*(s) - V^π(s) of any policy, for every first state s."""
    V = evaluate_stochastic(truth.P, truth.r, policy.probabilities(num_actions))
    return np.asarray(truth.best - V[0])
