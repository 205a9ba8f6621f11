"""DP-PG: REINFORCE on noisy batch gradients, one pass over fresh users ([he2025policy] Alg. 1).

    line 1   θ₁ = 0, T = ⌊N/m⌋
    line 4   ∇̃ = (1/m) Σ_i g_i + N(0, σ² I): the privatizer's work, and all that arrives here
    line 5   θ_{t+1} = θ_t + η (∇̃ + λ ∇B(θ_t))

The paper's line 5 prints the gradient without its noise; it must be the noisy one. B is the log-barrier of Eq. (3),
B(θ) = (1/|S||A|) Σ_{s,a} log π_θ(a|s), averaged over *all* states and therefore free of data (Lemma D6 (data-free
barrier)). The baseline, if there is one, is the precision-weighted mean of earlier released mean rewards, so it is
public when it is used.

Guarantees: `tacit.release.gradient`; sample complexity: Theorems 2 (stationary points), 3 and 4 (global optima).
"""

from __future__ import annotations

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
