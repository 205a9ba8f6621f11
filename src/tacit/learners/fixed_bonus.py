"""Optimistic backward induction with bonuses that do not depend on V: what private UCB-VI and PUCB have in common.

    Q̃_h(s,a) = min{ H - h + 1, max{ 0, r̃_h(s,a) + Σ_s' P̃_h(s'|s,a) Ṽ_{h+1}(s') + b_h(s,a) } }

P̃ may be a signed measure (noisy counts can be negative); a row that is not known yet has an infinite bonus. With the
logarithms of `fixed_bonus_parameters` the event of Lemma W1 (event of the widths) has probability 1 - `failure_prob`,
and on it both learners are optimistic at every release: Q̃ ≥ Q*.
Cost: O(H S² A) per plan; nothing but coins for ties while no new statistics are published.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner
from tacit.learners.ucbvi import UCBVI, practical_ucbvi
from tacit.planning.dynamic import break_ties
from tacit.planning.public_rows import PublicRows, public_rows, row_ceiling
from tacit.protocol import Totals
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CountPrecision, exact_counts, precision_log_term


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
