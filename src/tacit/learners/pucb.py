"""PUCB: UBEV with private counters (Vietri, Balle, Krishnamurthy and Wu, ICML 2020), the first jointly private learner.

For counters that are all within E of the truth, ñ = Ñ(s,a) and m = H - h the steps that remain:

    Q̃_h(s,a) = min{ m + 1, (R̃ + Σ_s' Ñ(s,a,s') Ṽ_{h+1}(s')) / ñ + (1 + m) φ + ψ }    if ñ ≥ 2E and ñ > 0, else m + 1
    φ = √( ℓ / (2 ((ñ - E) ∨ 1)) ),    ψ = (1 + m S) E / ñ + (1 + m) E / ñ,    ℓ = ln(2 H S A K / β)

Constants: ours. With probability 1 - β all Q̃ are at least Q* at every release: Lemma W3 (PUCB is optimistic). The form
(sampling width φ, noise width ψ, threshold) is the paper's; its printed constants are not reproduced here. Deviations
from the printed form: m where the paper has H; ψ has no term of order E²/ñ²; ℓ for K users; Q̃ is also clipped at 0; E
is the radius of the noise as it is now; a row without any visit is unknown also without noise. The regret Õ(√(S² A H³
T) + S² A H³ / ε) under joint differential privacy is the paper's statement about its own constants. Without noise E = ψ
= 0 and this is UBEV with the width (H - h + 1) √(ℓ / 2N).
"""

from __future__ import annotations

import math

import numpy as np

from tacit.kernels import lean_kernel
from tacit.learners.contract import ask_nothing
from tacit.learners.fixed_bonus import (
    FixedBonusBelief,
    FixedBonusLearner,
    FixedBonusParameters,
    is_news,
    plan_with_fixed_bonus,
)
from tacit.protocol import LearnerKernels
from tacit.released.counts import CountStatistics
from tacit.released.precision import now_radius


@lean_kernel
def update(parameters: FixedBonusParameters, belief: FixedBonusBelief, released: CountStatistics) -> None:
    """Rows and widths anew, if the totals were published anew."""
    if not is_news(belief.users, belief.fresh, released.users[0]):
        return
    H, S, A = released.visits.shape
    E = 0.0
    for family in range(3):
        E = max(E, now_radius(parameters.precision, released.variance, family, parameters.log_precision))
    for h in range(H):
        for s in range(S):
            for a in range(A):
                n = released.visits[h, s, a]
                if n < 2.0 * E or n <= 0.0:
                    belief.bonus[h, s, a] = np.inf
                    continue
                belief.r_tilde[h, s, a] = released.rewards[h, s, a] / n
                left = H - 1 - h
                phi = math.sqrt(parameters.log_term / (2.0 * max(n - E, 1.0)))
                psi = (1.0 + left * parameters.public.widest) * E / n + (1.0 + left) * E / n
                belief.bonus[h, s, a] = (1.0 + left) * phi + psi
                if h < H - 1:
                    for t in range(S):
                        belief.P_tilde[h, s, a, t] = released.transitions[h, s, a, t] / n


class PUCB(FixedBonusLearner):
    """Optimism that trusts a row once its private count is twice the precision.

    >>> from tacit.released.counts import CountShape
    >>> learner = PUCB(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
    >>> float(learner.begin().bonus.min())
    inf
    """

    NAME = "pucb"
    kernels = LearnerKernels(plan_with_fixed_bonus, ask_nothing, update)
