"""Private natural policy gradient: the released gradient, seen through the Fisher matrix of the policy.

    θ_{t+1} = θ_t + η (F(θ_t) + κ I)⁻¹ (∇̃ + λ ∇B(θ_t)),    F(θ) = E_{s ~ Unif, a ~ π_θ} [∇ log π ∇ log πᵀ]

F is taken under the uniform distribution over states (and steps), so it is computed from θ alone: the natural gradient
is post-processing of exactly the release that DP-PG uses, with the same claim, the same certificate and no re-use of
users. (The Fisher matrix of the paper's Assumption 2, under the users' own distribution of states, would be data and
would cost budget.) The damping κ bounds how much the noise in rarely taken actions is magnified.

The paper's Remark 1 asks for this; the guarantee is that of `tacit.release.gradient`.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.dp_pg import add_barrier, learn_baseline
from tacit.learners.gradient import GradientBelief, GradientParameters
from tacit.released.gradients import GradientStatistics


@kernel
def natural_ascend(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """One step along the natural gradient."""
    step = belief.scratch[0]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    add_barrier(parameters, belief, step)
    naturalise(parameters, belief, belief.scratch[1:], step)
    for j in range(step.shape[0]):
        belief.theta[j] += parameters.step * step[j]
    learn_baseline(parameters, belief, released)


@kernel
def naturalise(parameters: GradientParameters, belief: GradientBelief, fisher: Floats, g: Floats) -> None:
    """G ← (F(θ) + κ I)⁻¹ g; `fisher` [d,d] is scratch of linear policies."""
    if parameters.features.shape[2] == 0:
        _solve_tabular(belief.table, parameters.damping, g)
    else:
        solve_linear(parameters.features, belief.table, parameters.damping, fisher, g)


@kernel
def _solve_tabular(table: Floats, damping: float, g: Floats) -> None:
    """G ← (F + κ I)⁻¹ g, block by block: F_s = (Diag π - π πᵀ)/(L S) and Sherman–Morrison."""
    L, S, A = table.shape
    share = 1.0 / (L * S)
    for l in range(L):  # noqa: E741
        for s in range(S):
            at = (l * S + s) * A
            # With D = π/(LS) + κ:  (D - ππᵀ/(LS))⁻¹ g = D⁻¹g + D⁻¹π (πᵀD⁻¹g)/(LS) / (1 - πᵀD⁻¹π/(LS))
            along, own = 0.0, 0.0
            for a in range(A):
                d = table[l, s, a] * share + damping
                along += table[l, s, a] * g[at + a] / d
                own += table[l, s, a] * table[l, s, a] / d
            factor = share * along / (1.0 - share * own)
            for a in range(A):
                d = table[l, s, a] * share + damping
                g[at + a] = (g[at + a] + factor * table[l, s, a]) / d


@kernel
def solve_linear(features: Floats, table: Floats, damping: float, F: Floats, g: Floats) -> None:
    """The same for linear policies: F is block-diagonal over stages; Cholesky in place."""
    L, S, A = table.shape
    k = features.shape[2]
    mean = np.zeros(k)
    for l in range(L):  # noqa: E741
        at = l * k
        for i in range(k):
            for j in range(k):
                F[at + i, at + j] = damping if i == j else 0.0
        for s in range(S):
            for j in range(k):
                mean[j] = 0.0
                for a in range(A):
                    mean[j] += table[l, s, a] * features[s, a, j]
            for a in range(A):
                w = table[l, s, a] / (L * S)
                for i in range(k):
                    for j in range(i + 1):
                        F[at + i, at + j] += w * (features[s, a, i] - mean[i]) * (features[s, a, j] - mean[j])
        for i in range(k):  # F = C Cᵀ
            for j in range(i + 1):
                left = F[at + i, at + j]
                for n in range(j):
                    left -= F[at + i, at + n] * F[at + j, at + n]
                F[at + i, at + j] = math.sqrt(left) if i == j else left / F[at + j, at + j]
        for i in range(k):
            for n in range(i):
                g[at + i] -= F[at + i, at + n] * g[at + n]
            g[at + i] /= F[at + i, at + i]
        for i in range(k - 1, -1, -1):
            for n in range(i + 1, k):
                g[at + i] -= F[at + n, at + i] * g[at + n]
            g[at + i] /= F[at + i, at + i]
