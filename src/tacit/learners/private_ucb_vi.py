"""Private UCB-VI: value iteration with Hoeffding bonuses on private counts (Chowdhury and Zhou, AAAI 2022).

For any privatizer with |Ñ(s,a) - N(s,a)|, |R̃ - R| ≤ E₁ and |Ñ(s,a,s') - N(s,a,s')| ≤ E₂, all at once, and m = H - h:

    n = (Ñ(s,a) + E₁) ∨ 1,    r̃ = R̃ / n,    P̃ = Ñ(s,a,s') / n
    b = (1 + m) L / √n + 3 E₁ / n + m (S E₂ + 2 E₁) / n,    L = √(ℓ / 2),    ℓ = ln(2 H S A K / δ) ∨ 2

Constants: ours. With probability 1 - δ all Q̃ are at least Q* at every release: Lemma W2 (private UCB-VI is optimistic).
The form is the paper's; its printed constants are not reproduced here. Deviations from the printed form: rewards where
the paper has costs; m where it has H; one Hoeffding bound for reward and successor together; ℓ for K users and rows
that differ by step; the radii are those of the noise as it is now. The regret Õ(√(S A H³ T) + S² A H³ / ε) under joint
differential privacy is the paper's statement about its own constants.

Without noise E₁ = E₂ = 0 and this is UCB-VI with the bonus (H - h + 1) L / √(N ∨ 1).
"""

from __future__ import annotations

import math

from tacit.kernels import lean_kernel
from tacit.learners.contract import ask_nothing
from tacit.learners.fixed_bonus import (
    FixedBonusBelief,
    FixedBonusLearner,
    FixedBonusParameters,
    is_news,
    plan_with_fixed_bonus,
)
from tacit.planning.public_rows import row_radius
from tacit.protocol import LearnerKernels
from tacit.released.counts import CountStatistics
from tacit.released.precision import now_radius


@lean_kernel
def update(parameters: FixedBonusParameters, belief: FixedBonusBelief, released: CountStatistics) -> None:
    """Rows and bonuses anew, if the totals were published anew."""
    if not is_news(belief.users, belief.fresh, released.users[0]):
        return
    H, S, A = released.visits.shape
    precision, variance, L = parameters.precision, released.variance, parameters.log_precision
    E1 = max(now_radius(precision, variance, 1, L), now_radius(precision, variance, 2, L))
    in_row = row_radius(parameters.public, E1, now_radius(precision, variance, 0, L))
    width = math.sqrt(parameters.log_term / 2.0)
    for h in range(H):
        for s in range(S):
            for a in range(A):
                n = max(released.visits[h, s, a] + E1, 1.0)
                belief.r_tilde[h, s, a] = released.rewards[h, s, a] / n
                left = H - 1 - h
                # b = (1 + m) L / √n + 3 E₁ / n + m (S E₂ + 2 E₁) / n
                noise = 3.0 * E1 + left * (in_row + 2.0 * E1)
                belief.bonus[h, s, a] = (1.0 + left) * width / math.sqrt(n) + noise / n
                if h < H - 1:
                    for t in range(S):
                        belief.P_tilde[h, s, a, t] = released.transitions[h, s, a, t] / n


class PrivateUCBVI(FixedBonusLearner):
    """Optimism with Hoeffding widths on private counts of known precision.

    >>> from tacit.released.counts import CountShape
    >>> learner = PrivateUCBVI(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
    >>> float(learner.begin().bonus.min())
    inf
    """

    NAME = "private-ucb-vi"
    kernels = LearnerKernels(plan_with_fixed_bonus, ask_nothing, update)
