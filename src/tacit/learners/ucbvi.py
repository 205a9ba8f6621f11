"""UCBVI: optimistic value iteration on counts (Azar, Osband and Munos 2017), replanned after every release.

    Q̄_h(s,a) = min( Q̄_h(s,a) of before, H - h + 1, r̂_h(s,a) + Σ_s' P̂_h(s'|s,a) V̄_{h+1}(s') + b_h(s,a) )

`constants="theory"` with `bonus="hoeffding"` (the paper's UCBVI-CH, regret Õ(H √(SAT))) or `"bernstein"` (UCBVI-BF,
Õ(√(HSAT)) for T ≥ H³S³A); `constants="practical"` uses the rule shared by every learner (`planning.widths`), which
also knows the variance of privacy noise, so that the same learner runs under any privatizer.

Deviations: rewards are unknown here, so the Bernstein bonus gains the empirical-Bernstein width of the mean reward (the
Hoeffding bonus absorbs it in its constant 7); time-inhomogeneous models count stages as states in the log term.
The practical rule does not take the minimum with the previous Q̄: its widths may legitimately grow with the noise.

Cost: O(H S² A) per plan, O(H S A) per update plus O(S) per changed row.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.kernels import inlined, lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing, practical_z
from tacit.planning.dynamic import break_ties
from tacit.planning.public_rows import PublicRows, public_rows, reward_noise, row_ceiling, row_spread
from tacit.planning.widths import practical_width, row_model
from tacit.protocol import Constants, LearnerKernels, Totals
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import Sampling, everything_sent

Bonus = Literal["hoeffding", "bernstein"]
HOEFFDING, BERNSTEIN, PRACTICAL = 0, 1, 2
N, N_LAST, REWARD, BONUS, BONUS_LAST, SEEN = range(6)


class Parameters(NamedTuple):
    """Public constants of the learner."""

    rule: int
    log_term: float
    z: float
    sampling: Sampling
    public: PublicRows


class UCBVIBelief(NamedTuple):
    """The model, its widths and the current policy; the leading axis of the model is H, or 1 when steps are pooled."""

    policy: Ints
    Q: Floats
    V: Floats
    P_hat: Floats
    rows: Floats
    """[H or 1, S, A, 6]: what is known of a row, side by side: to find a number in memory costs more than to use it.

    N: how many transitions the row rests on; N_LAST: how many visits it rests on at the last step, where only its
    reward counts; REWARD: the mean reward; BONUS, BONUS_LAST: the part of the width that does not depend on V;
    SEEN: the visits at the last update, to find the rows that changed.
    """
    doubt: Floats
    """[H or 1, S]: how far V of a state may be off, squared (the last term of the Bernstein bonus)."""
    variance: Floats
    ties: Ints
    """[H, S]: how many actions are best."""
    stale: Ints
    """[H or 1, S]: how many plans there were before a row of the state changed last."""
    plans: Ints
    """[1]: how many plans there were."""
    changed: NDArray[np.uintp]
    """Scratch, (h, s, a) in each line: the rows that an update finds changed."""


@lean_kernel
def update(parameters: Parameters, belief: UCBVIBelief, released: CountStatistics) -> None:
    """Refresh the rows of the model whose counts changed."""
    stages, S, A = released.visits.shape
    H = belief.policy.shape[0]
    share, stated = parameters.sampling.noise_share, released.variance
    sigma2_N, sigma2_n, sigma2_R = share[0] * stated[0], share[1] * stated[1], share[2] * stated[2]
    belief.variance[0], belief.variance[1], belief.variance[2] = sigma2_N, sigma2_n, sigma2_R
    # Without noise a row changes with its visits; whole-numbered noise can repeat a value by chance.
    noisy = sigma2_N + sigma2_n + sigma2_R != 0.0
    last = np.uintp(stages - 1)
    # Search first, work after: among the addresses that the work needs, the search would be much slower.
    count = 0
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                if noisy or released.visits[h, s, a] != belief.rows[h, s, a, SEEN]:
                    belief.changed[count, 0], belief.changed[count, 1], belief.changed[count, 2] = h, s, a
                    count += 1
    for i in range(count):
        h, s, a = belief.changed[i, 0], belief.changed[i, 1], belief.changed[i, 2]
        row, visits = belief.rows[h, s, a], released.visits[h, s, a]
        n, r = row_model(
            released.transitions[h, s, a], visits, released.rewards[h, s, a], sigma2_N, belief.P_hat[h, s, a]
        )
        row[N], row[REWARD], row[SEEN] = n, r, visits
        row[BONUS] = _fixed_bonus(parameters, H, n, r)
        if h == last:
            # The last step has no successor that matters: only its reward is learned, from the visits. Pooled over the
            # steps, a state that is reached at the last step only has visits but no transitions.
            row[N_LAST] = visits if visits > 0.5 * math.sqrt(sigma2_n) else 0.0
            row[BONUS_LAST] = _fixed_bonus(parameters, H, row[N_LAST], r)
        belief.stale[h, s] = belief.plans[0]
    if parameters.rule == BERNSTEIN:
        for h in range(stages):
            for s in range(S):
                arrivals = 0.0
                for a in range(A):
                    arrivals += released.visits[h, s, a]
                if arrivals > 0.0:
                    # min{ 100² H³ S² A L² / N'_h(y), H² }
                    bound = 100.0 * 100.0 * float(H) ** 3 * S * S * A * parameters.log_term * parameters.log_term
                    belief.doubt[h, s] = min(bound / arrivals, float(H * H))


@inlined
@lean_kernel
def _fixed_bonus(parameters: Parameters, H: int, n: float, r: float) -> float:
    """The part of the width that does not depend on V."""
    L = parameters.log_term
    if n <= 0.0 or parameters.rule == PRACTICAL:
        return 0.0
    if parameters.rule == HOEFFDING:
        # b = 7 H L √(1/N)
        return 7.0 * H * L * math.sqrt(1.0 / n)
    # 14 H L / (3N), and for the unknown mean reward √(2 r̂(1-r̂) L / N) + 7 L / (3N)
    return 14.0 * H * L / (3.0 * n) + math.sqrt(2.0 * r * (1.0 - r) * L / n) + 7.0 * L / (3.0 * n)


@lean_kernel
def plan(parameters: Parameters, belief: UCBVIBelief, generator: np.random.Generator) -> None:
    """Optimistic backward induction; ties between actions are broken at random.

    Only states whose rows, or whose successors' values, changed since the last plan are computed again: with widths at
    the ceiling, as they are for long under theory constants, that is one state per step.
    """
    H, S, A = belief.Q.shape
    stages, public = belief.P_hat.shape[0], parameters.public
    everything = parameters.rule == BERNSTEIN  # its last term looks at the arrivals of all successors
    moved = everything
    for step in range(H):
        h = max(0, H - 1 - step)  # visibly not negative: no index below is checked for counting from the end
        stage, following = h if stages > 1 else 0, min(h + 1, stages - 1)
        moving = everything
        for s in range(S):
            if not moved and belief.stale[stage, s] != belief.plans[0]:
                continue
            best = -1.0
            ties = 0
            for a in range(A):
                # Q̄_h(s,a) = min( Q̄_h(s,a) of before, H - h + 1, r̂ + P̂ V̄ + b ); a support may say less than H - h + 1
                place = (stage * S + s) * A + a
                Q = row_ceiling(public, h, s, a, place, H - h, belief.V[h + 1])
                if parameters.rule != PRACTICAL:
                    Q = min(Q, belief.Q[h, s, a])
                row = belief.rows[stage, s, a]
                n, r, width = row[N], row[REWARD], row[BONUS]
                if h == H - 1:
                    n, width = row[N_LAST], row[BONUS_LAST]
                # P̂ V̄ and the rest of b are not negative: a row that is at its ceiling without them is done.
                if n > 0.0 and r + width < Q:
                    mean = 0.0
                    if h < H - 1:
                        for t in range(S):
                            mean += belief.P_hat[stage, s, a, t] * belief.V[h + 1, t]
                    if parameters.rule != HOEFFDING:
                        variance, spread, doubt = 0.0, 0.0, 0.0
                        for t in range(S):
                            gap = belief.V[h + 1, t] - mean
                            variance += belief.P_hat[stage, s, a, t] * gap * gap
                            spread += gap * gap
                            doubt += belief.P_hat[stage, s, a, t] * belief.doubt[following, t]
                        if parameters.rule == PRACTICAL:
                            sigma2_N, sigma2_R = belief.variance[0], reward_noise(public, place, belief.variance[2])
                            spread = row_spread(public, place, belief.V[h + 1], mean, spread)
                            weight = parameters.sampling.weight
                            width = practical_width(
                                parameters.z, H - h, n, r, variance, spread, sigma2_N, sigma2_R, weight
                            )
                        else:
                            # √(8 L Var_P̂(V̄_{h+1}) / N) + √(8 Σ_y P̂(y) min{ 100² H³ S² A L² / N'_{h+1}(y), H² } / N)
                            width += math.sqrt(8.0 * parameters.log_term * variance / n)
                            if h < H - 1:  # nothing is doubtful about the zero after the last step
                                width += math.sqrt(8.0 * doubt / n)
                    Q = min(Q, r + mean + width)
                belief.Q[h, s, a] = Q
                ties = 1 if Q > best else ties + int(Q == best)
                best = max(best, Q)
            belief.ties[h, s] = ties
            if best != belief.V[h, s]:
                belief.V[h, s] = best
                moving = True
        moved = moving
    belief.plans[0] += 1
    break_ties(belief.Q, belief.V, belief.ties, belief.policy, generator)


class UCBVI(KernelLearner[UCBVIBelief, Totals, CountStatistics]):
    """Optimism on counts, stage-dependent (`shape.staged`) or time-homogeneous.

    >>> learner = UCBVI(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
    >>> belief, plan = learner.plan(learner.begin(), np.random.default_rng(0))
    >>> plan.policy.actions.shape
    (2, 3)
    """

    kernels = LearnerKernels(plan, ask_nothing, update)
    over_support = True

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        constants: Constants = "theory",
        bonus: Bonus = "hoeffding",
        z: float | None = None,
        failure_prob: float = 0.05,
        users_per_batch: int = 1,
        sampling: Sampling | None = None,
        name: str = "ucbvi",
    ) -> None:
        require(bonus in ("hoeffding", "bernstein"), "bonus must be 'hoeffding' or 'bernstein'", bonus)
        z = practical_z(constants, z)
        require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        # L = ln(5 S A T / δ) with T = K H; rows of different stages count as different states
        rows = shape.stages * shape.num_states * shape.num_actions
        steps = require_count("episodes", episodes) * shape.horizon
        log_term = math.log(5.0 * rows * steps / failure_prob)
        rule = PRACTICAL if constants == "practical" else {"hoeffding": HOEFFDING, "bernstein": BERNSTEIN}[bonus]
        super().__init__(
            name=name,
            shape=shape,
            constants=constants,
            z=z if constants == "practical" else None,
            parameters=Parameters(
                rule=rule, log_term=log_term, z=z, sampling=sampling or everything_sent(), public=public_rows(shape)
            ),
            users_per_batch=users_per_batch,
        )
        self.bonus = bonus

    def begin(self) -> UCBVIBelief:
        """Nothing is known: every value is as high as it can be."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        model = (self.shape.stages, S, A)
        ceiling = np.arange(H, 0, -1, dtype=np.float64)
        return UCBVIBelief(
            policy=np.zeros((H, S), dtype=np.int64),
            Q=np.broadcast_to(ceiling[:, None, None], (H, S, A)).copy(),
            V=np.zeros((H + 1, S)),
            P_hat=np.zeros((*model, S)),
            rows=np.zeros((*model, 6)),
            doubt=np.full(model[:2], float(H * H)),
            variance=np.zeros(3),
            ties=np.zeros((H, S), dtype=np.int64),
            stale=np.zeros(model[:2], dtype=np.int64),
            plans=np.zeros(1, dtype=np.int64),
            changed=np.zeros((math.prod(model), 3), dtype=np.uintp),
        )


def make_ucbvi(request: CountRequest) -> UCBVI:
    """The learner that a request amounts to."""
    if request.noisy and request.chosen == "theory":
        raise InvalidInput(
            "theory constants of ucbvi do not account for privacy noise; use constants 'practical' under a trust model"
        )
    return UCBVI(**request.common, bonus=cast("Bonus", request.options.get("bonus", "hoeffding")))


def practical_ucbvi(request: CountRequest, name: str) -> UCBVI:
    """Under the shared practical rule the widths are those of UCBVI, and so is the learner."""
    return UCBVI(**{**request.common, "constants": "practical"}, name=name)
