"""DP-UCBVI: optimistic value iteration on private counts with a Bernstein-type bonus (Qiao and Wang, AISTATS 2023).

For any privatizer whose numbers are all within E/4 of the truth: central trust gives joint differential privacy, local
trust local, shuffled batches shuffle differential privacy. Everything here is post-processing of what was released.

    Ñ_h(s,a,·), Ñ_h(s,a)    the released counts made consistent: Ñ ≥ N, rows add up   (`tacit.released.consistency`)
    r̃ = R̃ / Ñ               P̃ = Ñ(s,a,s') / Ñ(s,a)
    b_h(s,a) = 2 √(Var_P̃ Ṽ_{h+1} ι / Ñ) + √(2ι / Ñ) + 20 H S E ι / Ñ + 4 √(ι Σ_s' P̃(s') D_{h+1}(s') / Ñ)
    D_h(s) = min{ 1000² H³ S A ι² / Ñ_h(s) + 1000² H⁴ S⁴ A² (E² + H²) ι⁴ / Ñ_h(s)², H² },  ι = ln(30 H S A T / β)
    Q̃_h = min{ Q̃_h of before, H - h + 1, r̃ + P̃ Ṽ_{h+1} + b_h }

Regret Õ(√(S A H² T) + S² A H³ / ε) under joint differential privacy. The form of the bonus is the paper's; its numeric
constants are neither proved here nor checked against the paper (docs/papers/central.md).

`constants="practical"` is the rule shared by all learners (`planning.widths`) on counts made consistent with E = 0: the
closed form then puts every row on its best total, the inverse-variance mean of the noisy visits and of the row's sum
(`rows="projected"`; `rows="kept"` takes the row model of UCBVI instead). Where users send a part of what they saw, the
noise alone stands for noise and the sampling weighs the counts, as in LDP-OBI (`released.precision.Sampling`).

Deviations: E is a radius for the noise as it is now, from the stated variance and sub-gamma scale, so it grows with
noise that accumulates; E ∨ 1 stands in the bonus, so that it stays a Bernstein bound without noise; r̃ is clipped to
[0, 1]; the ceiling is H - h + 1. Without noise E = 0 and nothing is repaired: the learner is UCBVI with this bonus.

Cost: O(H S² A) per plan and per update; nothing but coins for ties while no new statistics are published.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing, practical_z
from tacit.planning.dynamic import break_ties
from tacit.planning.public_rows import PublicRows, public_rows, reward_noise, row_ceiling, row_spread
from tacit.planning.widths import practical_width, row_model
from tacit.protocol import Constants, LearnerKernels, Totals
from tacit.released.consistency import repair_row
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import (
    CountPrecision,
    Sampling,
    everything_sent,
    exact_counts,
    now_radius,
    precision_log_term,
)

Rows = Literal["projected", "kept"]
"""Rows of the practical rule: by the closed form on their best total, or cells above half a deviation as in UCBVI."""

BERNSTEIN, PRACTICAL = 0, 1


class Parameters(NamedTuple):
    """Public constants of the learner."""

    rule: int
    projected: bool
    z: float
    iota: float
    log_precision: float
    precision: CountPrecision
    sampling: Sampling
    public: PublicRows


class DPUCBVIBelief(NamedTuple):
    """The private model, its widths and the current policy."""

    policy: Ints
    Q: Floats
    V: Floats
    P_tilde: Floats
    r_tilde: Floats
    n: Floats
    """[H, S, A]: Ñ(s,a), the total of the repaired row."""
    bonus: Floats
    """[H, S, A]: the part of the width that does not depend on V."""
    doubt: Floats
    """[H, S]: D, how far V of a state may be off, squared."""
    variance: Floats
    row: Floats
    """[S]: a repaired row."""
    users: Ints
    """[1]: how many users the statistics at hand cover."""
    fresh: Ints
    """[1]: 1 if statistics came since the last plan."""
    ties: Ints


@lean_kernel
def update(parameters: Parameters, belief: DPUCBVIBelief, released: CountStatistics) -> None:
    """Take in the released totals, if they were published anew."""
    if released.users[0] == belief.users[0]:
        return
    belief.users[0] = released.users[0]
    belief.fresh[0] = 1
    for family in range(3):
        # The theorem's radii cover noise and sampling together; the practical rule knows them apart.
        share = parameters.sampling.noise_share[family] if parameters.rule == PRACTICAL else 1.0
        belief.variance[family] = share * released.variance[family]
    if parameters.rule == PRACTICAL:
        if parameters.projected:
            projected_rows(parameters.public, belief, released)
        else:
            kept_rows(belief, released)
    else:
        private_rows(parameters, belief, released)


@lean_kernel
def private_rows(parameters: Parameters, belief: DPUCBVIBelief, released: CountStatistics) -> None:
    """Repaired rows with the widths of the theorem."""
    H, S, A = released.visits.shape
    iota = parameters.iota
    # E/4 covers every released number, so E is four times the largest radius
    E = 0.0
    for family in range(3):
        E = max(E, 4.0 * now_radius(parameters.precision, released.variance, family, parameters.log_precision))
    million = 1000.0 * 1000.0
    squared = million * float(H) ** 4 * float(S) ** 4 * A * A * (E * E + H * H) * iota**4
    for h in range(H):
        for s in range(S):
            arrivals = 0.0
            for a in range(A):
                if h < H - 1:
                    n = repair_row(released.transitions[h, s, a], released.visits[h, s, a], E, belief.row)
                    for t in range(S):
                        belief.P_tilde[h, s, a, t] = belief.row[t] / n if n > 0.0 else 0.0
                else:
                    # The last step has no successor: its row is the program with a single cell.
                    n = max(released.visits[h, s, a], 0.0) + E / 2.0
                belief.n[h, s, a] = n
                arrivals += n
                if n > 0.0:
                    belief.r_tilde[h, s, a] = min(1.0, max(0.0, released.rewards[h, s, a] / n))
                    # √(2ι/Ñ) + 20 H S (E ∨ 1) ι / Ñ
                    belief.bonus[h, s, a] = math.sqrt(2.0 * iota / n) + 20.0 * H * S * max(E, 1.0) * iota / n
            belief.doubt[h, s] = float(H * H)
            if arrivals > 0.0:
                # D = min{ 1000² H³ S A ι² / Ñ(s) + 1000² H⁴ S⁴ A² (E² + H²) ι⁴ / Ñ(s)², H² }
                first = million * float(H) ** 3 * S * A * iota * iota / arrivals
                belief.doubt[h, s] = min(first + squared / (arrivals * arrivals), float(H * H))


@lean_kernel
def projected_rows(public: PublicRows, belief: DPUCBVIBelief, released: CountStatistics) -> None:
    """Rows repaired with E = 0 for the practical rule; rows within half a standard deviation of nothing are unknown."""
    H, S, A = released.visits.shape
    v_cell, v_visit = belief.variance[0], belief.variance[1]
    last_floor = max(0.5, 0.5 * math.sqrt(v_visit))
    for h in range(H):
        for s in range(S):
            for a in range(A):
                visits = released.visits[h, s, a]
                place, cells = (h * S + s) * A + a, S
                if public.declared:
                    cells = public.start[place + 1] - public.start[place]
                # Ñ = (Ñ_visits / σ²_visits + Σ Ñ(s') / Sσ²) / (1/σ²_visits + 1/Sσ²)
                v_row = cells * v_cell
                trust_visits = v_row / (v_row + v_visit) if v_row + v_visit > 0.0 else 1.0
                floor = max(0.5, 0.5 * math.sqrt(v_visit * trust_visits if v_row > 0.0 else v_visit))
                if h < H - 1:
                    row_sum = 0.0
                    for t in range(S):
                        row_sum += released.transitions[h, s, a, t]
                    n = visits + (1.0 - trust_visits) * (row_sum - visits)
                    if n > floor:
                        repair_possible(
                            public, place, released.transitions[h, s, a], n, belief.P_tilde[h, s, a], belief.row
                        )
                        for t in range(S):
                            belief.P_tilde[h, s, a, t] = belief.row[t] / n
                    else:
                        n = 0.0
                else:
                    n = visits if visits > last_floor else 0.0
                belief.n[h, s, a] = n
                if n > 0.0:
                    belief.r_tilde[h, s, a] = min(1.0, max(0.0, released.rewards[h, s, a] / n))


@lean_kernel
def repair_possible(public: PublicRows, place: int, noisy: Floats, n: float, scratch: Floats, out: Floats) -> None:
    """Repair a row with E = 0; what a declared support excludes stays zero."""
    if not public.declared:
        repair_row(noisy, n, 0.0, out)
        return
    for t in range(scratch.shape[0]):
        scratch[t] = -np.inf  # never above a threshold
    for c in range(public.start[place], public.start[place + 1]):
        scratch[public.to[c]] = noisy[public.to[c]]
    repair_row(scratch, n, 0.0, out)


@lean_kernel
def kept_rows(belief: DPUCBVIBelief, released: CountStatistics) -> None:
    """Rows of the shared rule as UCBVI has them: cells above half a standard deviation, normalised."""
    H, S, A = released.visits.shape
    last_floor = 0.5 * math.sqrt(belief.variance[1])
    for h in range(H):
        for s in range(S):
            for a in range(A):
                n, r = row_model(
                    released.transitions[h, s, a],
                    released.visits[h, s, a],
                    released.rewards[h, s, a],
                    belief.variance[0],
                    belief.P_tilde[h, s, a],
                )
                if h == H - 1:
                    n = released.visits[h, s, a] if released.visits[h, s, a] > last_floor else 0.0
                belief.n[h, s, a], belief.r_tilde[h, s, a] = n, r


@lean_kernel
def plan(parameters: Parameters, belief: DPUCBVIBelief, generator: np.random.Generator) -> None:
    """Optimistic backward induction; ties between actions are broken at random."""
    H, S, A = belief.Q.shape
    public = parameters.public
    if belief.fresh[0] == 1:
        belief.fresh[0] = 0
        for h in range(H - 1, -1, -1):
            for s in range(S):
                best = -1.0
                ties = 0
                for a in range(A):
                    # Q̃_h(s,a) = min{ Q̃_h(s,a) of before, H - h + 1, r̃ + P̃ Ṽ + b };
                    # a support may lower H - h + 1
                    place = (h * S + s) * A + a
                    Q = row_ceiling(public, h, s, a, place, H - h, belief.V[h + 1])
                    if parameters.rule != PRACTICAL:
                        Q = min(Q, belief.Q[h, s, a])
                    n, r, width = belief.n[h, s, a], belief.r_tilde[h, s, a], belief.bonus[h, s, a]
                    if n > 0.0 and r + width < Q:
                        mean, variance, spread, doubt = 0.0, 0.0, 0.0, 0.0
                        if h < H - 1:
                            for t in range(S):
                                mean += belief.P_tilde[h, s, a, t] * belief.V[h + 1, t]
                            for t in range(S):
                                gap = belief.V[h + 1, t] - mean
                                variance += belief.P_tilde[h, s, a, t] * gap * gap
                                spread += gap * gap
                                doubt += belief.P_tilde[h, s, a, t] * belief.doubt[h + 1, t]
                        if parameters.rule == PRACTICAL:
                            sigma2_N, sigma2_R = belief.variance[0], reward_noise(public, place, belief.variance[2])
                            spread = row_spread(public, place, belief.V[h + 1], mean, spread)
                            weight = parameters.sampling.weight
                            width = practical_width(
                                parameters.z, H - h, n, r, variance, spread, sigma2_N, sigma2_R, weight
                            )
                        else:
                            # 2 √(Var_P̃ Ṽ ι / Ñ) + 4 √(ι Σ_s' P̃(s') D(s') / Ñ)
                            width += 2.0 * math.sqrt(variance * parameters.iota / n)
                            width += 4.0 * math.sqrt(parameters.iota * doubt / n)
                        Q = min(Q, r + mean + width)
                    belief.Q[h, s, a] = Q
                    ties = 1 if Q > best else ties + int(Q == best)
                    best = max(best, Q)
                belief.V[h, s] = best
                belief.ties[h, s] = ties
    break_ties(belief.Q, belief.V, belief.ties, belief.policy, generator)


class DPUCBVI(KernelLearner[DPUCBVIBelief, Totals, CountStatistics]):
    """Optimism on private counts, kept apart by step, of any privatizer that states its precision.

    >>> learner = DPUCBVI(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
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
        precision: CountPrecision | None = None,
        constants: Constants = "theory",
        rows: Rows = "projected",
        z: float | None = None,
        failure_prob: float = 0.05,
        users_per_batch: int = 1,
        sampling: Sampling | None = None,
    ) -> None:
        require(shape.staged, "dp-ucbvi keeps the steps of an episode apart: staged must be true", shape.staged)
        require(rows in ("projected", "kept"), "rows must be 'projected' or 'kept'", rows)
        z = practical_z(constants, z)
        beta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        H, S, A = shape.horizon, shape.num_states, shape.num_actions
        # ι = ln(30 H S A T / β) with T = K H
        iota = math.log(30.0 * H * S * A * require_count("episodes", episodes) * H / beta)
        super().__init__(
            name="dp-ucbvi",
            shape=shape,
            constants=constants,
            z=z if constants == "practical" else None,
            parameters=Parameters(
                rule=PRACTICAL if constants == "practical" else BERNSTEIN,
                projected=rows == "projected",
                z=z,
                iota=iota,
                log_precision=precision_log_term(shape, episodes, beta / 3.0),
                precision=precision or exact_counts(),
                sampling=sampling or everything_sent(),
                public=public_rows(shape),
            ),
            users_per_batch=users_per_batch,
        )

    def begin(self) -> DPUCBVIBelief:
        """Nothing is known: every value is as high as it can be."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        rows = (H, S, A)
        ceiling = np.arange(H, 0, -1, dtype=np.float64)
        return DPUCBVIBelief(
            policy=np.zeros((H, S), dtype=np.int64),
            Q=np.broadcast_to(ceiling[:, None, None], rows).copy(),
            V=np.zeros((H + 1, S)),
            P_tilde=np.zeros((*rows, S)),
            r_tilde=np.zeros(rows),
            n=np.zeros(rows),
            bonus=np.zeros(rows),
            doubt=np.full((H, S), float(H * H)),
            variance=np.zeros(3),
            row=np.zeros(S),
            users=np.zeros(1, dtype=np.int64),
            fresh=np.ones(1, dtype=np.int64),
            ties=np.full((H, S), A, dtype=np.int64),
        )


def make_dp_ucbvi(request: CountRequest) -> DPUCBVI:
    """The learner that a request amounts to."""
    rows = cast("Rows", request.options.get("rows", "projected"))
    return DPUCBVI(**request.common, precision=request.counts, rows=rows)
