"""Private trust-region updates: natural gradients that move the policy by a public KL radius at most.

    x = (F(θ_t) + κ I)⁻¹ g,    g = ∇̃ + λ ∇B(θ_t)
    θ_{t+1} = θ_t + η x,       η = √(2ρ / gᵀx), halved until D(θ_t, θ_t + η x) ≤ ρ
    D(θ, θ') = E_{s ~ Unif} KL(π_θ(·|s) ‖ π_θ'(·|s))

∇̃ is the release of DP-PG, F the Fisher matrix of `tacit.learners.dp_npg`. ½ η² xᵀ(F + κI)x = ρ is the quadratic model
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

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.dp_npg import naturalise
from tacit.learners.dp_pg import add_barrier, learn_baseline
from tacit.learners.gradient import GradientBelief, GradientParameters
from tacit.released.gradients import GradientStatistics

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
