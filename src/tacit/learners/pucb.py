"""PUCB: UBEV with private counters (Vietri, Balle, Krishnamurthy and Wu, ICML 2020), the first jointly private learner.

For counters that are all within E of the truth, ñ = Ñ(s,a):

    Q̃_h(s,a) = min{ H - h + 1, (R̃ + Σ_s' Ñ(s,a,s') Ṽ_{h+1}(s')) / ñ + (H + 1) φ + ψ }    if ñ ≥ 2E, else H - h + 1
    φ = √( 2 ln(4 S A H T / β) / ((ñ - E) ∨ 1) ),    ψ = (1 + S H) (3 E / ñ + 2 E² / ñ²)

Regret Õ(√(S² A H³ T) + S² A H³ / ε) under joint differential privacy. The form is the paper's, its numeric constants
are quoted from memory (docs/papers/central.md). Deviations: Q̃ is also clipped at 0; E is the radius of the noise as it
is now; a row without any visit is unknown also without noise. Without noise E = ψ = 0 and this is UBEV with the width
(H + 1) √(2 ln(·) / N).
"""

from __future__ import annotations

import math

import numpy as np

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

__all__ = ["PUCB", "make_pucb"]


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
                phi = math.sqrt(2.0 * parameters.log_term / max(n - E, 1.0))
                psi = (1.0 + S * H) * (3.0 * E / n + 2.0 * E * E / (n * n))
                belief.bonus[h, s, a] = (H + 1.0) * phi + psi
                if h < H - 1:
                    for t in range(S):
                        belief.P_tilde[h, s, a, t] = released.transitions[h, s, a, t] / n


class PUCB(FixedBonusLearner):
    """Optimism that trusts a row once its private count is twice the precision.

    >>> learner = PUCB(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
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
        beta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        rows = shape.horizon * shape.num_states * shape.num_actions
        steps = require_count("episodes", episodes) * shape.horizon
        parameters = FixedBonusParameters(
            log_term=math.log(4.0 * rows * steps / beta),
            log_precision=precision_log_term(shape, episodes, beta / 3.0),
            precision=precision or exact_counts(),
        )
        super().__init__(name="pucb", shape=shape, parameters=parameters, users_per_batch=users_per_batch)


def make_pucb(request: CountRequest) -> PUCB | UCBVI:
    """The learner that a request amounts to."""
    if request.chosen == "practical":
        return practical_ucbvi(request, "pucb")
    if request.z is not None:
        raise InvalidInput("z belongs to the practical rule; use constants 'practical' with it")
    users = request.users_per_batch
    return PUCB(shape=request.shape, episodes=request.episodes, precision=request.counts, users_per_batch=users)
