"""Simulation only: what policies cost under the true transitions, and the best fixed policy in hindsight.

    R_k = Σ_{i ≤ k} V(π_i, l_i) - min_π Σ_{i ≤ k} V(π, l_i)

The minimum is over all policies and exact: V is linear in the losses, so backward induction on the cumulative losses of
the prefix finds it. It belongs to the prefix; when losses switch, a learner can beat it and R_k can be negative.

Two fixed policies stand beside every result, judged on the same losses: `uniform`, and `myopic`, which takes the action
of the least cumulative loss in each state and ignores where it leads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.environments.layered import LayeredMDP
from tacit.kernels import lean_kernel
from tacit.planning.layered import LayeredGeometry, layered_geometry

__all__ = [
    "LossTally",
    "LossTruth",
    "begin_loss_tally",
    "count_episode",
    "expected_loss",
    "hindsight",
    "loss_truth",
    "record_mark",
]

Floats = NDArray[np.float64]


class LossTruth(NamedTuple):
    """The true transitions."""

    geometry: LayeredGeometry
    transitions: Floats


class LossTally(NamedTuple):
    """Simulation only: what was paid, what the losses add up to, and scratch."""

    paid: Floats
    """[1]: Σ_i V(π_i, l_i)."""
    promised: Floats
    """[1]: Σ_i ⟨q_i, l_i⟩, what the learner's own (optimistic) occupancies would have paid."""
    outside: Floats
    """[1]: in how many episodes the true transitions were outside the learner's set."""
    cumulative: Floats
    """[pairs]: Σ_i l_i."""
    states: Floats
    policy: Floats


def loss_truth(mdp: LayeredMDP) -> LossTruth:
    """Lay the transitions out as the kernels read them."""
    return LossTruth(geometry=layered_geometry(mdp.widths, mdp.num_actions), transitions=mdp.flat_transitions)


def begin_loss_tally(truth: LossTruth) -> LossTally:
    """Nobody came yet."""
    pairs, X = len(truth.geometry.edges) - 1, int(truth.geometry.layers[-1])
    return LossTally(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(pairs), np.zeros(X), np.zeros(pairs))


@lean_kernel
def expected_loss(truth: LossTruth, policy: Floats, losses: Floats, states: Floats) -> float:
    """V(π, l) = Σ q^{P,π}(x,a) l(x,a); `states` [X] is scratch."""
    layers, edges, A = truth.geometry
    total = 0.0
    states[0] = 1.0
    for h in range(len(layers) - 2):
        after = layers[h + 1]
        for y in range(after, layers[h + 2]):
            states[y] = 0.0
        for x in range(layers[h], after):
            for a in range(A):
                pair = x * A + a
                weight = states[x] * policy[pair]
                total += weight * losses[pair]
                first = edges[pair]
                for i in range(first, edges[pair + 1]):
                    states[after + i - first] += weight * truth.transitions[i]
    return total


@lean_kernel
def hindsight(truth: LossTruth, losses: Floats, states: Floats, policy: Floats) -> float:
    """min_π V(π, l) by backward induction; the minimiser is written to policy[pairs], `states` [X] is scratch."""
    layers, edges, A = truth.geometry
    states[layers[len(layers) - 1] - 1] = 0.0
    for x in range(layers[len(layers) - 2] - 1, -1, -1):
        h = 0
        while layers[h + 1] <= x:
            h += 1
        best, chosen = np.inf, 0
        for a in range(A):
            pair = x * A + a
            first = edges[pair]
            value = losses[pair]
            for i in range(first, edges[pair + 1]):
                # Q(x,a) = L(x,a) + Σ_x' P(x'|x,a) V(x')
                value += truth.transitions[i] * states[layers[h + 1] + i - first]
            if value < best:
                best, chosen = value, a
        states[x] = best
        for a in range(A):
            policy[x * A + a] = 1.0 if a == chosen else 0.0
    return float(states[0])


@lean_kernel
def count_episode(
    truth: LossTruth, tally: LossTally, policy: Floats, occupancy: Floats, losses: Floats, lo: Floats, hi: Floats
) -> None:
    """Add one episode: what its policy is expected to pay, its losses, and whether the set had lost the truth."""
    edges = truth.geometry.edges
    tally.paid[0] += expected_loss(truth, policy, losses, tally.states)
    for pair in range(losses.shape[0]):
        tally.cumulative[pair] += losses[pair]
        for i in range(edges[pair], edges[pair + 1]):
            tally.promised[0] += occupancy[i] * losses[pair]
    for i in range(lo.shape[0]):
        if truth.transitions[i] < lo[i] - 1e-12 or truth.transitions[i] > hi[i] + 1e-12:
            tally.outside[0] += 1.0
            break


@lean_kernel
def record_mark(truth: LossTruth, tally: LossTally, mark: int, curves: Floats) -> None:
    """Write the regret of the learner, of the uniform and of the myopic policy on this prefix to curves[:, mark]."""
    A = truth.geometry.actions
    losses, states, policy = tally.cumulative, tally.states, tally.policy
    best = hindsight(truth, losses, states, policy)
    curves[0, mark] = tally.paid[0] - best
    for pair in range(losses.shape[0]):
        policy[pair] = 1.0 / A
    curves[1, mark] = expected_loss(truth, policy, losses, states) - best
    for x in range(losses.shape[0] // A):
        chosen = 0
        for a in range(1, A):
            if losses[x * A + a] < losses[x * A + chosen]:
                chosen = a
        for a in range(A):
            policy[x * A + a] = 1.0 if a == chosen else 0.0
    curves[2, mark] = expected_loss(truth, policy, losses, states) - best
