"""Optimistic backward induction with bonuses that do not depend on V: what private UCB-VI and PUCB have in common.

    Q̃_h(s,a) = min{ H - h + 1, max{ 0, r̃_h(s,a) + Σ_s' P̃_h(s'|s,a) Ṽ_{h+1}(s') + b_h(s,a) } }

P̃ may be a signed measure (noisy counts can be negative); a row that is not known yet has an infinite bonus. With the
logarithms of `fixed_bonus_parameters` the event of Lemma W1 (event of the widths) has probability 1 - `failure_prob`,
and on it both learners are optimistic at every release: Q̃ ≥ Q*.
Cost: O(H S² A) per plan; nothing but coins for ties while no new statistics are published.

Private UCB-VI: value iteration with Hoeffding bonuses on private counts (Chowdhury and Zhou, AAAI 2022).

For any privatizer with |Ñ(s,a) - N(s,a)|, |R̃ - R| ≤ E₁ and |Ñ(s,a,s') - N(s,a,s')| ≤ E₂, all at once, and m = H - h:

    n = (Ñ(s,a) + E₁) ∨ 1,    r̃ = R̃ / n,    P̃ = Ñ(s,a,s') / n
    b = (1 + m) L / √n + 3 E₁ / n + m (S E₂ + 2 E₁) / n,    L = √(ℓ / 2),    ℓ = ln(2 H S A K / δ) ∨ 2

Constants: ours. With probability 1 - δ all Q̃ are at least Q* at every release: Lemma W2 (private UCB-VI is optimistic).
The form is the paper's; its printed constants are not reproduced here. Deviations from the printed form: rewards where
the paper has costs; m where it has H; one Hoeffding bound for reward and successor together; ℓ for K users and rows
that differ by step; the radii are those of the noise as it is now. The regret Õ(√(S A H³ T) + S² A H³ / ε) under joint
differential privacy is the paper's statement about its own constants.

Without noise E₁ = E₂ = 0 and this is UCB-VI with the bonus (H - h + 1) L / √(N ∨ 1).

PUCB: UBEV with private counters (Vietri, Balle, Krishnamurthy and Wu, ICML 2020), the first jointly private learner.

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
from typing import NamedTuple, Self

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing
from tacit.learners.ucbvi import UCBVI, practical_ucbvi
from tacit.planning.dynamic import break_ties
from tacit.planning.public_rows import PublicRows, public_rows, row_ceiling, row_radius
from tacit.protocol import LearnerKernels, Totals
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CountPrecision, exact_counts, now_radius, precision_log_term


class FixedBonusParameters(NamedTuple):
    """Public constants of the learner."""

    log_term: float
    """ℓ = ln(2 H S A K / β) ∨ 2, the logarithm of the sampling widths."""
    log_precision: float
    """L = ln(4 D K / β), the logarithm of the radii of D noisy numbers."""
    precision: CountPrecision
    public: PublicRows


def fixed_bonus_parameters(
    *, shape: CountShape, episodes: int, precision: CountPrecision | None, failure_prob: float
) -> FixedBonusParameters:
    """The logarithms of Lemma W1 (event of the widths): half of the failure probability for sampling, half for noise.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> found = fixed_bonus_parameters(shape=shape, episodes=20_000, precision=None, failure_prob=0.05)
    >>> round(found.log_term, 2), round(found.log_precision, 2)
    (17.46, 19.95)
    """
    beta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
    users = require_count("episodes", episodes)
    rows = shape.horizon * shape.num_states * shape.num_actions
    return FixedBonusParameters(
        log_term=max(2.0, math.log(2.0 * rows * users / beta)),
        log_precision=precision_log_term(shape, users, beta / 2.0),
        precision=precision or exact_counts(),
        public=public_rows(shape),
    )


class FixedBonusBelief(NamedTuple):
    """The private model, its bonuses and the current policy."""

    policy: Ints
    Q: Floats
    V: Floats
    P_tilde: Floats
    r_tilde: Floats
    bonus: Floats
    """[H, S, A]: infinite for a row that is not known."""
    users: Ints
    """[1]: how many users the statistics at hand cover."""
    fresh: Ints
    """[1]: 1 if statistics came since the last plan."""
    ties: Ints


@lean_kernel
def is_news(users: Ints, fresh: Ints, published: int) -> bool:
    """Whether the totals were published anew since the last look; remembers that they were seen."""
    if published == users[0]:
        return False
    users[0] = published
    fresh[0] = 1
    return True


@lean_kernel
def plan_with_fixed_bonus(
    parameters: FixedBonusParameters, belief: FixedBonusBelief, generator: np.random.Generator
) -> None:
    """Optimistic backward induction; ties between actions are broken at random."""
    H, S, A = belief.Q.shape
    if belief.fresh[0] == 1:
        belief.fresh[0] = 0
        for h in range(H - 1, -1, -1):
            for s in range(S):
                best = -1.0
                ties = 0
                for a in range(A):
                    ceiling = row_ceiling(parameters.public, h, s, a, (h * S + s) * A + a, H - h, belief.V[h + 1])
                    Q = belief.r_tilde[h, s, a] + belief.bonus[h, s, a]
                    # The last step leads nowhere.
                    if h < H - 1 and Q < np.inf:
                        for t in range(S):
                            Q += belief.P_tilde[h, s, a, t] * belief.V[h + 1, t]
                    Q = min(ceiling, max(0.0, Q))
                    belief.Q[h, s, a] = Q
                    ties = 1 if Q > best else ties + int(Q == best)
                    best = max(best, Q)
                belief.V[h, s] = best
                belief.ties[h, s] = ties
    break_ties(belief.Q, belief.V, belief.ties, belief.policy, generator)


class FixedBonusLearner(KernelLearner[FixedBonusBelief, Totals, CountStatistics]):
    """A learner with widths that are proved; subclasses say how rows and bonuses follow from the released counts."""

    NAME: str
    over_support = True

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        precision: CountPrecision | None = None,
        failure_prob: float = 0.05,
        users_per_batch: int = 1,
    ) -> None:
        require(shape.staged, f"{self.NAME} keeps the steps of an episode apart: staged must be true", shape.staged)
        parameters = fixed_bonus_parameters(
            shape=shape, episodes=episodes, precision=precision, failure_prob=failure_prob
        )
        super().__init__(
            name=self.NAME,
            shape=shape,
            constants="theory",
            z=None,
            parameters=parameters,
            users_per_batch=users_per_batch,
        )

    @classmethod
    def made(cls, request: CountRequest) -> Self | UCBVI:
        """The learner that a request amounts to."""
        if request.chosen == "practical":
            return practical_ucbvi(request, cls.NAME)
        if request.z is not None:
            raise InvalidInput("z belongs to the practical rule; use constants 'practical' with it")
        users = request.users_per_batch
        return cls(shape=request.shape, episodes=request.episodes, precision=request.counts, users_per_batch=users)

    def begin(self) -> FixedBonusBelief:
        """Nothing is known."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        return FixedBonusBelief(
            policy=np.zeros((H, S), dtype=np.int64),
            Q=np.zeros((H, S, A)),
            V=np.zeros((H + 1, S)),
            P_tilde=np.zeros((H, S, A, S)),
            r_tilde=np.zeros((H, S, A)),
            bonus=np.full((H, S, A), np.inf),
            users=np.zeros(1, dtype=np.int64),
            fresh=np.ones(1, dtype=np.int64),
            ties=np.zeros((H, S), dtype=np.int64),
        )


@lean_kernel
def update_private_ucb_vi(
    parameters: FixedBonusParameters, belief: FixedBonusBelief, released: CountStatistics
) -> None:
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
    kernels = LearnerKernels(plan_with_fixed_bonus, ask_nothing, update_private_ucb_vi)


@lean_kernel
def update_pucb(parameters: FixedBonusParameters, belief: FixedBonusBelief, released: CountStatistics) -> None:
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
    kernels = LearnerKernels(plan_with_fixed_bonus, ask_nothing, update_pucb)
