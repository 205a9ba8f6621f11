"""Simulation only: the exact objective J(θ) of softmax policies, its gradient and what [he2025policy] bounds.

For Gaussian policies on a dose bandit the same in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.gradients import Clinic, prepare_clinic
from tacit.data.trajectories import Trajectories, Walked
from tacit.environments.bandits import DoseBandit
from tacit.environments.tabular import TabularMDP
from tacit.kernels import kernel
from tacit.learners.gradient import add_barrier
from tacit.planning.dynamic import solve
from tacit.policies.softmax import add_pull_back, softmax_table
from tacit.protocol import Kernel, Measures, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Simulation only: what the theorems of [he2025policy] speak about, exactly."""

    final: float
    """J of the policy in the end."""
    uniform: float
    """J(θ_U), θ_U uniform among the iterates."""
    average: float
    """(1/T) Σ_t J(θ_t)."""
    optimal: float
    """J*."""
    stationarity: float
    """(1/T) Σ_t ‖∇J(θ_t)‖² = E_U ‖∇J(θ_U)‖²."""
    regularised: float
    """The same for J_λ, the objective with the log-barrier."""


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
    barrier: Floats
    """[d]: ∇J_λ(θ)."""
    round: Floats
    """[2]: the regret before the latest round, and how many users came in it."""


def gradient_truth(mdp: TabularMDP) -> GradientTruth:
    """Solve the true model once."""
    P, r = np.array(mdp.stage_P), np.array(mdp.stage_r)
    _, V, _ = solve(P, r, mdp.horizon)
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
        barrier=np.zeros(dimension),
        round=np.zeros(2),
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


@kernel
def count_batch(truth: GradientTruth, tally: GradientTally, parameters: Any, belief: Any, users: Any) -> None:
    """Add the exact gap and gradient norms of the iterate, and Σ_i V*(s_i) - V^π(s_i) over the first states."""
    value = evaluate(truth, parameters.features, belief.table, tally)
    _count(truth, tally, parameters, belief, users, value)


@kernel
def count_network(truth: GradientTruth, tally: GradientTally, parameters: Any, belief: Any, users: Any) -> None:
    """The same at a network, whose features are those of the present θ."""
    value = evaluate(truth, belief.features, belief.table, tally)
    _count(truth, tally, parameters, belief, users, value)


@kernel
def _count(truth: GradientTruth, tally: GradientTally, parameters: Any, belief: Any, users: Any, value: float) -> None:
    tally.sums[0] += truth.optimal - value
    for j in range(tally.barrier.shape[0]):
        tally.barrier[j] = tally.gradient[j]
        tally.sums[1] += tally.gradient[j] * tally.gradient[j]
    add_barrier(parameters, belief, tally.barrier)
    for j in range(tally.barrier.shape[0]):
        tally.sums[2] += tally.barrier[j] * tally.barrier[j]
    tally.round[0] = tally.sums[3]
    tally.round[1] = users.states.shape[0]
    for i in range(users.states.shape[0]):
        s = users.states[i, 0]
        tally.sums[3] += truth.best[s] - tally.V[0, s]


@kernel
def record_batch(truth: Any, tally: Any, curves: Floats, mark: int, past: int) -> None:
    """The regret grows evenly within a batch, so between its ends it is interpolated."""
    before, after, users = tally.round[0], tally.sums[3], tally.round[1]
    curves[0, mark] = after if past == users else (after - before) / users * past + before


class BatchJudge:
    """What judges of policy gradients share: batches of one size, and a final policy that serves whoever is left."""

    count: Kernel
    record: Kernel = staticmethod(record_batch)
    truth: Any
    tally: Any

    def __init__(self, checkpoints: Ints) -> None:
        self.curves, self._checkpoints, self._mark = np.zeros((1, len(checkpoints))), checkpoints, 0

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: Any, done: int, number: int) -> None:
        """Run the kernels on what the interpreted loop holds."""
        self.count(self.truth, self.tally, learner.parameters, belief, users)
        while self._mark < len(self._checkpoints) and self._checkpoints[self._mark] <= done + number:
            past = int(self._checkpoints[self._mark]) - done
            self.record(self.truth, self.tally, self.curves, self._mark, past)
            self._mark += 1

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """Whoever is left over is served by the final policy and reports nothing."""
        objective = self.objective(learner, belief, rounds)
        left = np.maximum(self._checkpoints - float(done), 0.0)
        curve = np.where(left > 0.0, self.tally.sums[3], self.curves[0]) + left * (objective.optimal - objective.final)
        return Measures(curve, rounds, {"objective": objective})

    def objective(self, learner: Any, belief: Any, rounds: int) -> Objective:
        """What the run is judged by."""
        raise NotImplementedError


class SoftmaxJudge(BatchJudge):
    """The score of softmax policies in a tabular world."""

    count = staticmethod(count_batch)

    def __init__(self, mdp: TabularMDP, stages: int, dimension: int, checkpoints: Ints) -> None:
        super().__init__(checkpoints)
        self.truth, self.tally = gradient_truth(mdp), begin_gradient_tally(mdp, stages, dimension)

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: Trajectories, done: int, number: int) -> None:
        """The same for trajectories."""
        super().see(learner, belief, plan, Walked(users.states, users.actions, users.rewards), done, number)

    def objective(self, learner: Any, belief: Any, rounds: int) -> Objective:
        """Averages over the iterates, and the exact values of the last and of a uniform one."""
        averages = self.tally.sums[:3] / max(1, rounds)
        final = self._value(learner, belief.theta)
        uniform = self._value(learner, belief.sampled if rounds else belief.theta)
        return Objective(
            final=final,
            uniform=uniform,
            average=float(self.truth.optimal - averages[0]) if rounds else final,
            optimal=self.truth.optimal,
            stationarity=float(averages[1]),
            regularised=float(averages[2]),
        )

    def _value(self, learner: Any, theta: Floats) -> float:
        table = np.zeros_like(self.tally.weights)
        softmax_table(learner.parameters.features, np.ascontiguousarray(theta), table)
        return float(evaluate(self.truth, learner.parameters.features, table, self.tally))


class NetworkJudge(SoftmaxJudge):
    """The score of neural policies in a tabular world."""

    count = staticmethod(count_network)

    def _value(self, learner: Any, theta: Floats) -> float:
        table = np.ascontiguousarray(learner.policy_at(theta).table[:1])
        # Only the value is looked at: features of no width leave the gradient of the last iterate aside.
        weights = self.tally._replace(gradient=np.zeros(self.tally.weights.size))
        return float(evaluate(self.truth, learner.parameters.features, table, weights))


class DoseTruth(NamedTuple):
    """The true outcomes of doses."""

    clinic: Clinic
    rho: Floats
    optimal: float


class DoseTally(NamedTuple):
    """Running sums over the iterates, and scratch."""

    sums: Floats
    """[4]: Σ_t J* - J(θ_t), Σ_t ‖∇J(θ_t)‖², nothing, regret in expectation over contexts."""
    means: Floats
    gradient: Floats
    round: Floats
    """[2]: the regret before the latest round, and how many users came in it."""


@kernel
def dose_truth(clinic: Clinic, rho: Floats, theta: Floats, means: Floats, gradient: Floats) -> float:
    """Simulation only: J(θ) and ∇J(θ) in closed form; also writes means[s] = θ·x_s."""
    S, k = clinic.features.shape
    spread = clinic.width**2 + clinic.deviation**2
    value = 0.0
    gradient[:] = 0.0
    for s in range(S):
        means[s] = 0.0
        for j in range(k):
            means[s] += theta[j] * clinic.features[s, j]
        gap = means[s] - clinic.target[s]
        # J = Σ_s ρ_s w/√(w²+τ²) exp(-gap²/(2(w²+τ²)))
        part = rho[s] * clinic.width / math.sqrt(spread) * math.exp(-0.5 * gap * gap / spread)
        value += part
        for j in range(k):
            gradient[j] -= part * gap / spread * clinic.features[s, j]
    return value


@kernel
def count_doses(truth: DoseTruth, tally: DoseTally, parameters: Any, belief: Any, users: Any) -> None:
    """Add the exact gap and the gradient's norm of the iterate; every user of the batch costs the gap."""
    gap = truth.optimal - dose_truth(truth.clinic, truth.rho, belief.theta, tally.means, tally.gradient)
    tally.sums[0] += gap
    for j in range(tally.gradient.shape[0]):
        tally.sums[1] += tally.gradient[j] * tally.gradient[j]
    tally.round[0] = tally.sums[3]
    tally.round[1] = users.states.shape[0]
    tally.sums[3] += gap * users.states.shape[0]


class DoseJudge(BatchJudge):
    """The score of Gaussian policies; pseudo-regret is counted in expectation over contexts."""

    count = staticmethod(count_doses)

    def __init__(self, bandit: DoseBandit, checkpoints: Ints) -> None:
        super().__init__(checkpoints)
        self._bandit = bandit
        S, k = bandit.features.shape
        self.truth = DoseTruth(prepare_clinic(bandit), np.array(bandit.rho), bandit.optimal_value)
        self.tally = DoseTally(np.zeros(4), np.zeros(S), np.zeros(k), np.zeros(2))

    def objective(self, learner: Any, belief: Any, rounds: int) -> Objective:
        """Averages over the iterates, and the exact values of the last and of a uniform one."""
        final, number = self._bandit.objective(belief.theta), max(1, rounds)
        stationarity = float(self.tally.sums[1]) / number
        return Objective(
            final=final,
            uniform=self._bandit.objective(belief.sampled),
            average=self.truth.optimal - float(self.tally.sums[0]) / number if rounds else final,
            optimal=self.truth.optimal,
            stationarity=stationarity,
            regularised=stationarity,
        )
