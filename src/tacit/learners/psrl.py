"""PSRL: posterior sampling (Osband, Russo and Van Roy 2013), one sampled model per release, followed greedily.

Transitions have a Dirichlet posterior, rewards a Beta posterior (binary rewards) or a Normal-Gamma one (any rewards).
The Bayesian regret is Õ(H S √(AT)). The prior is the only constant, so there is no "theory" or "practical" choice.
Counts below zero, which privacy noise can produce, count as zero (post-processing).

Cost: one gamma variate per cell of the posterior, O(H S² A) (stage-dependent) or O(S² A + H S² A) (pooled) per plan.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_real
from tacit.gammas import gamma_draw
from tacit.kernels import inlined, lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing
from tacit.planning.public_rows import PublicRows, can_follow, public_rows
from tacit.protocol import LearnerKernels, Totals
from tacit.released.counts import CountShape, CountStatistics

RewardPosterior = Literal["beta", "normal-gamma"]


class Parameters(NamedTuple):
    """Public constants of the learner."""

    prior: float
    """Dirichlet pseudo-count of every successor."""
    beta_rewards: bool
    public: PublicRows


class PSRLBelief(NamedTuple):
    """Sufficient statistics of the posterior and the policy of the last sample."""

    policy: Ints
    V: Floats
    transitions: Floats
    visits: Floats
    rewards: Floats
    squares: Floats
    seen: Floats
    """[H or 1, S, A]: the visits as released at the last update, to find the rows that changed."""
    P_sample: Floats
    r_sample: Floats


@lean_kernel
def update(parameters: Parameters, belief: PSRLBelief, released: CountStatistics) -> None:
    """Copy the rows of the statistics that changed, negative counts as zero."""
    stages, S, A = released.visits.shape
    # Without noise a row changes with its visits; whole-numbered noise can repeat a value by chance.
    exact = released.variance[0] + released.variance[1] + released.variance[2] == 0.0
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                if exact and released.visits[h, s, a] == belief.seen[h, s, a]:
                    continue
                belief.seen[h, s, a] = released.visits[h, s, a]
                visits = max(0.0, released.visits[h, s, a])
                belief.visits[h, s, a] = visits
                belief.rewards[h, s, a] = min(visits, max(0.0, released.rewards[h, s, a]))
                belief.squares[h, s, a] = min(visits, max(0.0, released.squares[h, s, a]))
                for t in range(S):
                    belief.transitions[h, s, a, t] = max(0.0, released.transitions[h, s, a, t])


@lean_kernel
def follow_sample(belief: Any, h: int, generator: np.random.Generator) -> None:
    """The greedy policy and its value at step h of the sampled model."""
    H, S = belief.policy.shape
    A = belief.r_sample.shape[1]
    for s in range(S):
        best, choice, ties = -np.inf, 0, 0
        for a in range(A):
            # Q_h(s,a) = r(s,a) + Σ_s' P(s'|s,a) V_{h+1}(s') in the sampled model
            Q = belief.r_sample[s, a]
            if h < H - 1:
                for t in range(S):
                    Q += belief.P_sample[s, a, t] * belief.V[h + 1, t]
            # Ties are rare; which action is better, no processor could predict, so there is no branch on it.
            if Q == best:
                ties += 1
                choice = a if generator.random() * ties < 1.0 else choice
            choice, ties = (a, 1) if Q > best else (choice, ties)
            best = max(best, Q)
        belief.policy[h, s] = choice
        belief.V[h, s] = best


@lean_kernel
def plan(parameters: Parameters, belief: PSRLBelief, generator: np.random.Generator) -> None:
    """Sample a model from the posterior and solve it; ties are broken at random."""
    H, stages = belief.policy.shape[0], belief.visits.shape[0]
    for h in range(H - 1, -1, -1):
        if stages > 1 or h == H - 1:
            _sample_stage(parameters, belief, min(h, stages - 1), stages == 1 or h < H - 1, generator)
        follow_sample(belief, h, generator)


@lean_kernel
def _sample_stage(
    parameters: Parameters, belief: PSRLBelief, h: int, successors: bool, generator: np.random.Generator
) -> None:
    S, A, public = belief.visits.shape[1], belief.visits.shape[2], parameters.public
    for s in range(S):
        for a in range(A):
            row = (h * S + s) * A + a
            if successors:
                # P(·|s,a) ~ Dirichlet(α₀ + N(s,a,·)) over the possible successors, as normalised gamma variates
                total = 0.0
                for t in range(S):
                    possible = can_follow(public, row, t)
                    count = belief.transitions[h, s, a, t]
                    draw = gamma_draw(parameters.prior + count, generator) if possible else 0.0
                    belief.P_sample[s, a, t] = draw
                    total += draw
                if total > 0.0:
                    for t in range(S):
                        belief.P_sample[s, a, t] /= total
                elif not public.declared:
                    # With a tiny prior every variate may underflow: such a Dirichlet sits in a corner, all alike.
                    belief.P_sample[s, a, int(generator.random() * S)] = 1.0
            n, reward_sum = belief.visits[h, s, a], belief.rewards[h, s, a]
            if public.declared and public.pays[row] == 0.0:
                belief.r_sample[s, a] = 0.0
            elif parameters.beta_rewards:
                belief.r_sample[s, a] = beta_draw(reward_sum, n - reward_sum, generator)
            else:
                belief.r_sample[s, a] = _normal_gamma(n, reward_sum, belief.squares[h, s, a], generator)


@inlined
@lean_kernel
def beta_draw(ones: float, zeros: float, generator: np.random.Generator) -> float:
    """A mean from the posterior Beta(1 + ones, 1 + zeros)."""
    # Beta(1, b) is 1 - U^(1/b), and -ln U is an exponential variate
    if ones == 0.0:
        return -math.expm1(-generator.standard_exponential() / (1.0 + zeros))
    if zeros == 0.0:
        return math.exp(-generator.standard_exponential() / (1.0 + ones))
    high, low = gamma_draw(1.0 + ones, generator), gamma_draw(1.0 + zeros, generator)
    return high / (high + low)


@lean_kernel
def _normal_gamma(n: float, total: float, squares: float, generator: np.random.Generator) -> float:
    """A mean from the Normal-Gamma posterior with prior μ₀ = 0, λ₀ = 1, α₀ = 1, β₀ = 1."""
    # λ = λ₀ + n;  μ = Σr/λ;  α = α₀ + n/2;  β = β₀ + ½ Σ(r - r̄)² + λ₀ n r̄²/(2λ)
    precision = 1.0 + n
    mean = total / precision
    shape = 1.0 + 0.5 * n
    rate = 1.0
    if n > 0.0:
        scatter = max(0.0, squares - total * total / n)
        rate += 0.5 * scatter + 0.5 * total * total / (n * precision)
    return normal_gamma_draw(mean, precision, shape, rate, generator)


@lean_kernel
def normal_gamma_draw(
    mean: float, precision: float, shape: float, rate: float, generator: np.random.Generator
) -> float:
    """The mean of a Normal-Gamma variate."""
    # τ ~ Gamma(α, rate β);  r ~ N(μ, 1/(λτ))
    tau = gamma_draw(shape, generator) / rate
    return mean + generator.standard_normal() / math.sqrt(precision * tau)


class PSRL(KernelLearner[PSRLBelief, Totals, CountStatistics]):
    """Posterior sampling, stage-dependent (`shape.staged`) or time-homogeneous.

    >>> learner = PSRL(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=False))
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
        reward_posterior: RewardPosterior = "beta",
        prior: float = 1.0,
        users_per_batch: int = 1,
    ) -> None:
        require(
            reward_posterior in ("beta", "normal-gamma"),
            "reward_posterior must be beta or normal-gamma",
            reward_posterior,
        )
        super().__init__(
            name="psrl",
            shape=shape,
            constants="none",
            z=None,
            parameters=Parameters(
                prior=require_real("prior", prior, low=0.0, open_low=True),
                beta_rewards=reward_posterior == "beta",
                public=public_rows(shape),
            ),
            users_per_batch=users_per_batch,
        )

    def begin(self) -> PSRLBelief:
        """The prior."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        rows = (self.shape.stages, S, A)
        return PSRLBelief(
            policy=np.zeros((H, S), dtype=np.int64),
            V=np.zeros((H + 1, S)),
            transitions=np.zeros((*rows, S)),
            visits=np.zeros(rows),
            rewards=np.zeros(rows),
            squares=np.zeros(rows),
            seen=np.zeros(rows),
            P_sample=np.zeros((S, A, S)),
            r_sample=np.zeros((S, A)),
        )


def make_psrl(request: CountRequest) -> PSRL:
    """The learner that a request amounts to."""
    request.refuse_widths("psrl")
    return PSRL(
        shape=request.shape,
        reward_posterior=cast("RewardPosterior", request.options.get("rewards", "beta")),
        users_per_batch=request.users_per_batch,
    )
