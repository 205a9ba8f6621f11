"""LDP-OBI: optimism with locally private counts ([garcelon2021local] Alg. 2), for any mechanism that states c_{k,1..4}.

    r̃ = R̃ / (Ñ^r + α c₂)        p̃ = Ñ^p(s') / (Ñ^p + α c₃)                                            (Eq. 4)
    β^r = √(2 ℓ / (Ñ^r + α c₂)) + ((α+1) c₂ + c₁) / (Ñ^r + α c₂)
    β^p = √(14 S ℓ / (Ñ^p + α c₃)) + (S c₄ + (α+1) c₃) / (Ñ^p + α c₃),   ℓ = ln(4π² S A H k³ / 3δ)     (Prop. 4)
    Q_h = r̃ + (H-h+1) β^p + β^r + p̃ᵀ V_{h+1},   π_h = argmax_a Q_h,   V_h = min(H-h+1, max_a Q_h)         (Eq. 5)

Regret Õ(√K/ε) (Thm. 5). The bonus β^p counts at every h, the last one too, and Q is capped after the argmax only.
Rewards and transitions keep their own denominators (N^p misses the last step).

Where the paper is silent: a shifted count below 1 (off the good event, or a row never seen without noise) counts as 1
and its r̃ and p̃ are 0; kept apart by step (footnote 3) the last step has no transitions, hence no β^p, and SA becomes
SAH; with a declared support an action is capped at what the support allows before actions are compared, and Q decides
between equal caps. α = 2 and δ = 0.05 by default: the paper prints neither.

Under `constants="theory"` c_k are the sub-gamma radii of `released.precision` with failure probability 3δ/(2π²k²) split
over four statistics, which covers where several printed radii do not; `constants="printed"` takes c_k from the paper
(`released.printed_radii`) and keeps the rest.

Without noise all c vanish and this is optimistic backward induction with Hoeffding widths. Under
`constants="practical"` the widths are the shared rule, and the learner is UCBVI on noisy counts.

Cost: O(H S² A) per plan and O(stages S² A) per update: every counter changes after every user.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, number_from, require, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing
from tacit.learners.ucbvi import UCBVI, practical_ucbvi
from tacit.planning.public_rows import PublicRows, public_rows, row_ceiling
from tacit.protocol import LearnerKernels, Totals
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CELL, REWARD, ROW, VISIT, PrintedRadii, SumPrecision, printed_radius, sum_radius

ALPHA: Final = 2.0
FAILURE_PROB: Final = 0.05
TUNING: Final = ("alpha", "failure_prob")
"""Options: α > 1 and the confidence δ of Prop. 4."""


class Parameters(NamedTuple):
    """Public constants of the learner."""

    precision: SumPrecision
    alpha: float
    log_rows: float
    """ln(8 · rows · 2π²/(3δ)): with 2 ln k, the log term of c₁, c₂, c₃."""
    log_cells: float
    """The same over cells, for c₄."""
    log_width: float
    """ln(4π² S A H / 3δ): with 3 ln k, the ℓ of Prop. 4."""
    public: PublicRows


class PrintedParameters(NamedTuple):
    """Public constants of the learner with the printed c_k."""

    radii: PrintedRadii
    alpha: float
    log_failure: float
    """ln(2π²/3δ): with 2 ln k, the ln(1/δ_k) of Alg. 2."""
    log_width: float
    """ln(4π² S A H / 3δ): with 3 ln k, the ℓ of Prop. 4."""
    public: PublicRows


class LDPOBIBelief(NamedTuple):
    """The signed model, its bonuses and the current policy."""

    policy: Ints
    V: Floats
    Q: Floats
    """[2, A]: the actions of the state that is planned, as they are and capped."""
    P_tilde: Floats
    r_tilde: Floats
    bonus_r: Floats
    """[stages, S, A]"""
    bonus_p: Floats


@lean_kernel
def update(parameters: Parameters, belief: LDPOBIBelief, released: CountStatistics) -> None:
    """Eq. 4 and Prop. 4 for every row; the coming episode is k = users + 1."""
    precision = parameters.precision
    users = float(released.users[0])
    log_k = math.log(users + 1.0)
    L_rows = parameters.log_rows + 2.0 * log_k
    L_cells = parameters.log_cells + 2.0 * log_k
    c1 = sum_radius(precision, REWARD, users, L_rows)
    c2 = sum_radius(precision, VISIT, users, L_rows)
    c3 = sum_radius(precision, ROW, users, L_rows)
    c4 = sum_radius(precision, CELL, users, L_cells)
    ell = parameters.log_width + 3.0 * log_k
    model(belief, released, parameters.alpha, ell, parameters.public.widest, c1, c2, c3, c4)


@lean_kernel
def update_printed(parameters: PrintedParameters, belief: LDPOBIBelief, released: CountStatistics) -> None:
    """The same with the printed c_k(ε₀, δ₀, 3δ/(2π²k²)) (Alg. 2)."""
    k = float(released.users[0]) + 1.0
    log_k = math.log(k)
    failure = parameters.log_failure + 2.0 * log_k
    c1 = printed_radius(parameters.radii, REWARD, k, failure)
    c2 = printed_radius(parameters.radii, VISIT, k, failure)
    c3 = printed_radius(parameters.radii, ROW, k, failure)
    c4 = printed_radius(parameters.radii, CELL, k, failure)
    ell = parameters.log_width + 3.0 * log_k
    model(belief, released, parameters.alpha, ell, parameters.public.widest, c1, c2, c3, c4)


@lean_kernel
def model(
    belief: LDPOBIBelief,
    released: CountStatistics,
    alpha: float,
    width: float,
    successors: int,
    c1: float,
    c2: float,
    c3: float,
    c4: float,
) -> None:
    """Eq. 4 and Prop. 4 at these radii; `width` is ℓ, and a row has so many successors at most."""
    stages, S, A = released.visits.shape
    noise_r, noise_p = (alpha + 1.0) * c2 + c1, successors * c4 + (alpha + 1.0) * c3
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                n_r = released.visits[h, s, a] + alpha * c2
                known = 1.0 if n_r >= 1.0 else 0.0
                inverse = 1.0 / max(n_r, 1.0)
                belief.r_tilde[h, s, a] = known * released.rewards[h, s, a] * inverse
                # β^r = √(2ℓ/n) + ((α+1) c₂ + c₁)/n
                belief.bonus_r[h, s, a] = math.sqrt(2.0 * width * inverse) + noise_r * inverse
                total = 0.0
                for t in range(S):
                    total += released.transitions[h, s, a, t]
                n_p = total + alpha * c3
                known = 1.0 if n_p >= 1.0 else 0.0
                inverse = 1.0 / max(n_p, 1.0)
                for t in range(S):
                    belief.P_tilde[h, s, a, t] = known * released.transitions[h, s, a, t] * inverse
                # β^p = √(14 S ℓ/n) + (S c₄ + (α+1) c₃)/n
                belief.bonus_p[h, s, a] = math.sqrt(14.0 * successors * width * inverse) + noise_p * inverse


@lean_kernel
def plan(parameters: Parameters, belief: LDPOBIBelief, generator: np.random.Generator) -> None:
    """Eq. 5: optimistic backward induction; exact ties between actions are broken at random."""
    H, S = belief.policy.shape
    stages, A = belief.r_tilde.shape[0], belief.r_tilde.shape[2]
    for h in range(H - 1, -1, -1):
        stage = min(h, stages - 1)
        remaining = H - h
        for s in range(S):
            best, capped_best = -np.inf, -np.inf
            ties = 0
            for a in range(A):
                row = (stage * S + s) * A + a
                # b_h = (H-h+1) β^p + β^r
                Q = belief.r_tilde[stage, s, a] + belief.bonus_r[stage, s, a]
                if stages == 1 or h < H - 1:
                    Q += remaining * belief.bonus_p[stage, s, a]
                # Q_h = r̃ + b_h + p̃ᵀ V_{h+1}
                if Q < np.inf:  # at the very beginning nothing is known
                    for t in range(S):
                        Q += belief.P_tilde[stage, s, a, t] * belief.V[h + 1, t]
                capped = min(Q, row_ceiling(parameters.public, h, s, a, row, remaining, belief.V[h + 1]))
                belief.Q[0, a], belief.Q[1, a] = Q, capped
                # argmax_a Q_h; under a declared support, among the actions whose cap is best
                if capped > capped_best or (capped == capped_best and Q > best):
                    best, capped_best, ties = Q, capped, 1
                else:
                    ties += int(capped == capped_best and Q == best)
            # V_h(s) = min{H-h+1, max_a Q_h(s,a)}
            belief.V[h, s] = capped_best
            # One of the tied actions, all alike; without a branch that no processor could predict.
            skip = int(generator.random() * ties)
            choice = 0
            for a in range(A):
                tied = int((belief.Q[0, a] == best) & (belief.Q[1, a] == capped_best))
                choice = a if tied & (skip == 0) else choice
                skip -= tied
            belief.policy[h, s] = choice


class LDPOBI(KernelLearner[LDPOBIBelief, Totals, CountStatistics]):
    """Optimism with the theory's widths on noisy sums of known precision, or with the printed radii of their noise."""

    kernels = LearnerKernels(plan, ask_nothing, update)
    over_support = True

    def __init__(
        self,
        *,
        shape: CountShape,
        precision: SumPrecision | PrintedRadii,
        alpha: float = ALPHA,
        failure_prob: float = FAILURE_PROB,
        users_per_batch: int = 1,
    ) -> None:
        require(alpha > 1.0, "alpha must exceed 1", alpha)
        delta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        S, A, H = shape.num_states, shape.num_actions, shape.horizon
        rows = shape.stages * S * A
        # c_{k,i} at failure probability 3δ/(2k²π²), two-sided, split over the four statistics
        union = math.log(8.0 * 2.0 * math.pi**2 / (3.0 * delta))
        log_width = math.log(4.0 * math.pi**2 * rows * H / (3.0 * delta))
        printed = isinstance(precision, PrintedRadii)
        parameters: Parameters | PrintedParameters
        if isinstance(precision, PrintedRadii):
            failure = math.log(2.0 * math.pi**2 / (3.0 * delta))
            if shape.support is not None:
                raise NotSupported(
                    "the printed radii of ldp-obi are those of all S successors; leave the declared support out, or "
                    "use constants 'theory' or 'practical'"
                )
            parameters = PrintedParameters(precision, float(alpha), failure, log_width, public_rows(shape))
            self.kernels = LearnerKernels(plan, ask_nothing, update_printed)
        else:
            parameters = Parameters(
                precision=precision,
                alpha=float(alpha),
                log_rows=math.log(rows) + union,
                log_cells=math.log(rows * S) + union,
                log_width=log_width,
                public=public_rows(shape),
            )
        super().__init__(
            name="ldp-obi",
            shape=shape,
            constants="printed" if printed else "theory",
            z=None,
            parameters=parameters,
            users_per_batch=users_per_batch,
        )

    def begin(self) -> LDPOBIBelief:
        """Nothing is known."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        rows = (self.shape.stages, S, A)
        return LDPOBIBelief(
            policy=np.zeros((H, S), dtype=np.int64),
            V=np.zeros((H + 1, S)),
            Q=np.zeros((2, A)),
            P_tilde=np.zeros((*rows, S)),
            r_tilde=np.zeros(rows),
            bonus_r=np.full(rows, np.inf),
            bonus_p=np.full(rows, np.inf),
        )


def make_ldp_obi(request: CountRequest) -> LDPOBI | UCBVI:
    """The learner that a request amounts to."""
    chosen = {
        name: require_real(f"{name} of ldp-obi", number_from(request.options[name]))
        for name in TUNING
        if name in request.options
    }
    if request.chosen == "practical":
        if chosen:
            raise InvalidInput(f"the practical rule has no {', '.join(chosen)}; use constants 'theory' or 'printed'")
        return practical_ucbvi(request, "ldp-obi")
    if request.z is not None:
        raise InvalidInput("z belongs to the practical rule; use constants 'practical' with it")
    if request.chosen == "printed":
        if request.printed is None:
            raise InvalidInput("constants 'printed' need the printed radii of the noise; hand them over (printed=...)")
        precision: SumPrecision | PrintedRadii = request.printed
    else:
        precision = request.sums("ldp-obi")
    return LDPOBI(shape=request.shape, precision=precision, users_per_batch=request.users_per_batch, **chosen)
