"""Private UCB-VI: value iteration with Hoeffding bonuses on private counts (Chowdhury and Zhou, AAAI 2022).

For any privatizer with |Ñ(s,a) - N(s,a)|, |R̃ - R| ≤ E₁ and |Ñ(s,a,s') - N(s,a,s')| ≤ E₂, all at once:

    n = (Ñ(s,a) + E₁) ∨ 1,    r̃ = R̃ / n,    P̃ = Ñ(s,a,s') / n
    b = (1 + H) L / √n + 3 E₁ / n + H (S E₂ + 2 E₁) / n,    L = √(2 ln(4 S A T / δ))

Regret Õ(√(S A H³ T) + S² A H³ / ε) under joint differential privacy. The form is the paper's, its numeric constants are
quoted from memory (docs/papers/central.md). Deviations: rewards where the paper has costs; the two radii are those of
the noise as it is now; rows of different steps count as different states in the logarithm.

Without noise E₁ = E₂ = 0 and this is UCB-VI with the bonus (1 + H) L / √(N ∨ 1).
"""

from __future__ import annotations

import math

from tacit.errors import InvalidInput, require_count, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import CountRequest, ask_nothing
from tacit.learners.fixed_bonus import (
    FixedBonusBelief,
    FixedBonusLearner,
    FixedBonusParameters,
    is_news,
    plan_with_fixed_bonus,
)
from tacit.learners.ucbvi import UCBVI, practical_ucbvi
from tacit.protocol import LearnerKernels
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CountPrecision, exact_counts, now_radius, precision_log_term

__all__ = ["PrivateUCBVI", "make_private_ucb_vi"]


@lean_kernel
def update(parameters: FixedBonusParameters, belief: FixedBonusBelief, released: CountStatistics) -> None:
    """Rows and bonuses anew, if the totals were published anew."""
    if not is_news(belief.users, belief.fresh, released.users[0]):
        return
    H, S, A = released.visits.shape
    precision, variance, L = parameters.precision, released.variance, parameters.log_precision
    E1 = max(now_radius(precision, variance, 1, L), now_radius(precision, variance, 2, L))
    E2 = now_radius(precision, variance, 0, L)
    width = math.sqrt(2.0 * parameters.log_term)
    for h in range(H):
        for s in range(S):
            for a in range(A):
                n = max(released.visits[h, s, a] + E1, 1.0)
                belief.r_tilde[h, s, a] = released.rewards[h, s, a] / n
                # b = L / √n + 3 E₁ / n  for the reward
                bonus = width / math.sqrt(n) + 3.0 * E1 / n
                if h < H - 1:
                    # + H L / √n + H (S E₂ + 2 E₁) / n  for the successor
                    bonus += H * width / math.sqrt(n) + H * (S * E2 + 2.0 * E1) / n
                    for t in range(S):
                        belief.P_tilde[h, s, a, t] = released.transitions[h, s, a, t] / n
                belief.bonus[h, s, a] = bonus


class PrivateUCBVI(FixedBonusLearner):
    """Optimism with Hoeffding widths on private counts of known precision.

    >>> learner = PrivateUCBVI(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
    >>> float(learner.begin().bonus.min())
    inf
    """

    kernels = LearnerKernels(plan_with_fixed_bonus, ask_nothing, update)

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        precision: CountPrecision | None = None,
        failure_prob: float = 0.05,
        users_per_batch: int = 1,
    ) -> None:
        delta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        rows = shape.horizon * shape.num_states * shape.num_actions
        steps = require_count("episodes", episodes) * shape.horizon
        parameters = FixedBonusParameters(
            log_term=math.log(4.0 * rows * steps / delta),
            log_precision=precision_log_term(shape, episodes, delta / 3.0),
            precision=precision or exact_counts(),
        )
        super().__init__(name="private-ucb-vi", shape=shape, parameters=parameters, users_per_batch=users_per_batch)


def make_private_ucb_vi(request: CountRequest) -> PrivateUCBVI | UCBVI:
    """The learner that a request amounts to."""
    if request.chosen == "practical":
        return practical_ucbvi(request, "private-ucb-vi")
    if request.z is not None:
        raise InvalidInput("z belongs to the practical rule; use constants 'practical' with it")
    users = request.users_per_batch
    return PrivateUCBVI(shape=request.shape, episodes=request.episodes, precision=request.counts, users_per_batch=users)
