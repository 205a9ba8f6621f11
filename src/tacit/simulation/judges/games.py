"""Simulation only: what policies cost under the true transitions, and the best fixed policy in hindsight.

    R_k = Σ_{i ≤ k} V(π_i, l_i) - min_π Σ_{i ≤ k} V(π, l_i)

The minimum is over all policies and exact: V is linear in the losses, so backward induction on the cumulative losses of
the prefix finds it. It belongs to the prefix; when losses switch, a learner can beat it and R_k can be negative.

Two fixed policies stand beside every result, judged on the same losses: `uniform`, and `myopic`, which takes the action
of the least cumulative loss in each state and ignores where it leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.layered import LayeredMDP
from tacit.kernels import lean_kernel
from tacit.learners.loss_contract import TALLY
from tacit.planning.layered import LayeredGeometry, layered_geometry
from tacit.protocol import Measures, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class LossMeasures:
    """Simulation only: what stands beside the regret of one run."""

    uniform: tuple[float, ...]
    """At each checkpoint: the regret of the uniform policy on the same losses."""
    myopic: tuple[float, ...]
    """At each checkpoint: the regret of the policy that ignores transitions."""
    solves: int
    unconverged: int
    """Solves whose certificate was not good enough; the policy is feasible all the same."""
    iterations: float
    """Newton steps per solve."""
    fallbacks: int
    worst_gap: float
    worst_residual: float
    infeasible: int
    """Rows of counts for which Eq. 5.1 had no solution."""
    floored: int
    """Occupancies that were raised to the least positive value."""
    outside: float
    """Share of the episodes in which the true transitions were outside the set."""
    width: float
    """Mean hi - lo of the last set, over steps that can lead to several states."""
    optimism: float = 0.0
    """Σ_k ⟨q^{P,π_k} - q_k, l_k⟩: what was paid beyond what the learner's own occupancies promised. It is the part of
    the regret that unknown transitions cause, Õ(H C_M √K) in Theorems 3.3 and 4.2."""


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


@lean_kernel
def count_game(truth: LossTruth, tally: LossTally, parameters: Any, belief: Any, users: Any) -> None:
    """Add the episode of one user; `row` holds the losses of all pairs, whatever the user met of them."""
    count_episode(truth, tally, belief.policy, belief.occupancy, users.row, belief.set.lo, belief.set.hi)


@lean_kernel
def record_game(truth: LossTruth, tally: LossTally, curves: Floats, mark: int, past: int) -> None:
    """Users come one by one, so every checkpoint is the end of a round."""
    record_mark(truth, tally, mark, curves)


class GameJudge:
    """Regret against the best policy in hindsight; it may be negative."""

    count = staticmethod(count_game)
    record = staticmethod(record_game)

    def __init__(self, mdp: LayeredMDP, checkpoints: Ints) -> None:
        self.truth = loss_truth(mdp)
        self.tally, self.curves = begin_loss_tally(self.truth), np.zeros((3, len(checkpoints)))
        self._checkpoints = checkpoints

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: Any, done: int, number: int) -> None:
        """Run the kernels on what the interpreted loop holds."""
        self.count(self.truth, self.tally, learner.parameters, belief, users)
        for mark in np.flatnonzero(self._checkpoints == done + number):
            self.record(self.truth, self.tally, self.curves, int(mark), 1)

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """The regret at the checkpoints, and what stands beside it."""
        found = dict(zip(TALLY, belief.tally.tolist(), strict=True))
        fans = np.diff(self.truth.geometry.edges)
        several = np.repeat(fans, fans) > 1
        widths = (belief.set.hi - belief.set.lo)[several]
        floored = getattr(belief.work, "floored", None)
        measures = LossMeasures(
            uniform=tuple(self.curves[1].tolist()),
            myopic=tuple(self.curves[2].tolist()),
            solves=int(found["solves"]),
            unconverged=int(found["unconverged"]),
            iterations=found["iterations"] / max(1.0, found["solves"]),
            fallbacks=int(found["fallbacks"]),
            worst_gap=found["worst_gap"],
            worst_residual=found["worst_residual"],
            infeasible=int(found["infeasible"]),
            floored=0 if floored is None else int(floored[0]),
            outside=float(self.tally.outside[0]) / done,
            width=float(widths.mean()) if len(widths) else 0.0,
            optimism=float(self.tally.paid[0] - self.tally.promised[0]),
        )
        return Measures(self.curves[0], measures.solves, {"losses": measures})
