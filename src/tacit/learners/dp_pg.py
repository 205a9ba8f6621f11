"""DP-PG: REINFORCE on noisy batch gradients, one pass over fresh users ([he2025policy] Alg. 1).

    line 1   θ₁ = 0, T = ⌊N/m⌋
    line 4   ∇̃ = (1/m) Σ_i g_i + N(0, σ² I): the privatizer's work, and all that arrives here
    line 5   θ_{t+1} = θ_t + η (∇̃ + λ ∇B(θ_t))

The paper's line 5 prints the gradient without its noise; it must be the noisy one. B is the log-barrier of Eq. (3),
B(θ) = (1/|S||A|) Σ_{s,a} log π_θ(a|s), averaged over *all* states and therefore free of data (Lemma D6 (data-free
barrier)). The baseline, if there is one, is the precision-weighted mean of earlier released mean rewards, so it is
public when it is used.

Guarantees: `tacit.release.gradient`; sample complexity: Theorems 2 (stationary points), 3 and 4 (global optima).

Private natural policy gradient: the released gradient, seen through the Fisher matrix of the policy.

    θ_{t+1} = θ_t + η (F(θ_t) + κ I)⁻¹ (∇̃ + λ ∇B(θ_t)),    F(θ) = E_{s ~ Unif, a ~ π_θ} [∇ log π ∇ log πᵀ]

F is taken under the uniform distribution over states (and steps), so it is computed from θ alone: the natural gradient
is post-processing of exactly the release that DP-PG uses, with the same claim, the same certificate and no re-use of
users. (The Fisher matrix of the paper's Assumption 2, under the users' own distribution of states, would be data and
would cost budget.) The damping κ bounds how much the noise in rarely taken actions is magnified.

The paper's Remark 1 asks for this; the guarantee is that of `tacit.release.gradient`.

Private trust-region updates: natural gradients that move the policy by a public KL radius at most.

    x = (F(θ_t) + κ I)⁻¹ g,    g = ∇̃ + λ ∇B(θ_t)
    θ_{t+1} = θ_t + η x,       η = √(2ρ / gᵀx), halved until D(θ_t, θ_t + η x) ≤ ρ
    D(θ, θ') = E_{s ~ Unif} KL(π_θ(·|s) ‖ π_θ'(·|s))

∇̃ is the release of DP-PG, F the Fisher matrix of `tacit.learners.dp_pg`. ½ η² xᵀ(F + κI)x = ρ is the quadratic model
of D, from above because of κ; D itself is computed in closed form from θ_t and θ_t + η x, over all states alike. So the
step and its halving read nothing but released values: the update is post-processing, with the claim and the certificate
of DP-PG (Lemma D8 (data-free trust region)).

TRPO (Schulman et al. 2015) also turns a step down whose surrogate objective, taken over the users' own trajectories,
has not improved, and takes F and D under the users' own states. Each of these looks at people's data once more without
noise: whether a step was taken would tell about them. Nothing of that is done here.

A noisy gradient is never short, so every update uses up its radius, however little was learned: radii of the practical
rule shrink with the number of updates (`tacit.runs.gradient_builder`). With `step`, η is at most that: then updates
whose natural step stays within the radius are exactly those of `dp-npg`.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.gradient import GradientBelief, GradientParameters
from tacit.released.gradients import GradientStatistics


@kernel
def ascend(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """Line 5: one step along the released gradient and the data-free one."""
    step = belief.scratch[0]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    add_barrier(parameters, belief, step)
    # θ_{t+1} = θ_t + η (∇̃_m J(θ_t) + λ ∇B(θ_t))
    for j in range(step.shape[0]):
        belief.theta[j] += parameters.step * step[j]
    learn_baseline(parameters, belief, released)


@kernel
def add_barrier(parameters: GradientParameters, belief: GradientBelief, gradient: Floats) -> None:
    """Add λ ∇B(θ) = (λ/|S|) (1/A - π(a|s)) in every state, pulled back to the parameters: no data, only θ."""
    if parameters.barrier == 0.0 or belief.table.shape[2] == 0:
        return
    L, S, A = belief.table.shape
    features = parameters.features
    k = features.shape[2]
    weight = parameters.barrier / (L * S)
    for l in range(L):  # noqa: E741
        for s in range(S):
            for a in range(A):
                w = weight * (1.0 / A - belief.table[l, s, a])
                if k == 0:
                    gradient[(l * S + s) * A + a] += w
                else:
                    for j in range(k):
                        gradient[l * k + j] += w * features[s, a, j]


@kernel
def learn_baseline(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """The next batch's baseline: the mean of all released mean rewards, weighted by their precision."""
    if released.variance[1] > 0.0:
        belief.precision[0] += released.reward[0] / released.variance[1]
        belief.precision[1] += 1.0 / released.variance[1]
        mean = belief.precision[0] / belief.precision[1]
        belief.baseline[0] = min(max(mean, parameters.low), parameters.high)


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


HALVINGS = 60
"""After so many the step is shorter than rounding; the policy then stays where it is."""


@kernel
def trust_ascend(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """One step along the natural gradient, to the border of the trust region."""
    step, gradient = belief.scratch[0], belief.scratch[1]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    add_barrier(parameters, belief, step)
    for j in range(step.shape[0]):
        gradient[j] = step[j]
    naturalise(parameters, belief, belief.scratch[2:], step)
    # gᵀx = xᵀ(F + κI)x, twice the quadratic model of the divergence at η = 1
    along = 0.0
    for j in range(step.shape[0]):
        along += gradient[j] * step[j]
    size = parameters.step
    if along > 0.0:
        size = min(size, math.sqrt(2.0 * parameters.kl / along))
    if size < math.inf:
        halved = 0
        while halved < HALVINGS and not divergence(parameters.features, belief, step, size) <= parameters.kl:
            size *= 0.5
            halved += 1
        if halved < HALVINGS:
            for j in range(step.shape[0]):
                belief.theta[j] += size * step[j]
    learn_baseline(parameters, belief, released)


@kernel
def divergence(features: Floats, belief: GradientBelief, direction: Floats, size: float) -> float:
    """The mean over all stages and states of KL(π_θ ‖ π_θ+ηx), from belief.theta and the direction x alone."""
    L, S, A = belief.table.shape
    total = 0.0
    for l in range(L):  # noqa: E741
        for s in range(S):
            # KL = Σ_a π(a) (z_a - z'_a) + log Σ_a exp z'_a - log Σ_a exp z_a,  z' = z + η ∂z·x
            top, moved = -math.inf, -math.inf
            for a in range(A):
                z = logit(features, belief.theta, l, s, a, S, A)
                top = max(top, z)
                moved = max(moved, z + size * logit(features, direction, l, s, a, S, A))
            mass, other, mean = 0.0, 0.0, 0.0
            for a in range(A):
                z, change = logit(features, belief.theta, l, s, a, S, A), logit(features, direction, l, s, a, S, A)
                mass += math.exp(z - top)
                other += math.exp(z + size * change - moved)
                mean += belief.table[l, s, a] * size * change
            total += moved - top + math.log(other) - math.log(mass) - mean
    return float(total / (L * S))


@kernel
def logit(features: Floats, theta: Floats, l: int, s: int, a: int, S: int, A: int) -> float:  # noqa: E741
    """z[l,s,a], which is linear in θ."""
    k = features.shape[2]
    if k == 0:
        return float(theta[(l * S + s) * A + a])
    found = 0.0
    for j in range(k):
        found += features[s, a, j] * theta[l * k + j]
    return found
