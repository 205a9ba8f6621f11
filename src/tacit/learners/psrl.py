"""PSRL: posterior sampling (Osband, Russo and Van Roy 2013), one sampled model per release, followed greedily.

Transitions have a Dirichlet posterior, rewards a Beta posterior (binary rewards) or a Normal-Gamma one (any rewards).
The Bayesian regret is Õ(H S √(AT)). The prior is the only constant, so there is no "theory" or "practical" choice.
Counts below zero, which privacy noise can produce, count as zero (post-processing).

Cost: one gamma variate per cell of the posterior, O(H S² A) (stage-dependent) or O(S² A + H S² A) (pooled) per plan.

LDP-PSRL: posterior sampling from locally private counts ([garcelon2021local] Alg. 7 and appendix G).

    α̃(s') = α₀ + Ñ^p(s')      λ̃ = λ₀ + Ñ^r      ν̃ = ν₀ + Ñ^r/2      μ̃ = R̃ / λ̃
    β̃ = β₀ + ½ R̃₂ - R̃² / (2 λ̃)                                                                     (Eq. 102, μ₀ = 0)
    P ~ Dirichlet(α̃),    τ ~ Gamma(ν̃, rate β̃),    r ~ N(μ̃, 1/(λ̃τ));    with `beta`:  r ~ Beta(λ₀ + R̃, λ₀ + Ñ^r - R̃)

Sampling is post-processing: the privacy is that of the counts. `normal-gamma` needs four families (R₂, the squares of
rewards, is released too); `beta` is for rewards in {0, 1}, whose squares are themselves: R₂ is dropped, and the
complement encoding and every local mechanism can be used. No regret bound is known.

Two priors. `printed` makes noisy parameters positive by pseudo-counts as large as the noise of all K users can become,

    α₀ = 2σ max{√(KS), L'} √L',   λ₀ = ν₀ = β₀/5 = 2σ max{√K, L} √L,   L = ln(6SA/δ), L' = ln(6S²A/δ)       (103)-(107)

with the noise's standard deviation σ per user (Laplace noise of scale b = 1/ε₀: 2σ = √8 b, as printed). `noise-aware`
is ours: pseudo-counts of one, and counts are themselves drawn from what the noise leaves possible, N ~ N(Ñ, kσ²).

Users who send a part of what they saw leave n counts as uncertain as n/w users (`released.precision.Sampling`). With
`sampling=weighed` σ is that of the noise alone, and the parameters of every posterior are divided by w; `noise` takes
all of the stated variance for noise. The noise-aware prior weighs (regret .90 -> .27 of uniform's on riverswim and .26
-> .04 on a random MDP at ε = 5, never more from ε = 1 on), the printed one does not (.35 -> .45 there at ε = 1).

Deviations: parameters are floored at 1 (post-processing; printed priors make them positive only with high probability);
without noise all priors are 1 and this is PSRL. Cost: as PSRL, O(H S² A) per plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, require, require_count, require_real
from tacit.gammas import gamma_draw
from tacit.kernels import inlined, lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing
from tacit.planning.public_rows import PublicRows, can_follow, public_rows
from tacit.protocol import LearnerKernels, Totals
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CELL, REWARD, VISIT, Sampling, SumPrecision, everything_sent

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


def _nothing(shape: CountShape) -> dict[str, Any]:
    """What both beliefs have in common before anything was released."""
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    rows = (shape.stages, S, A)
    return {
        "policy": np.zeros((H, S), dtype=np.int64),
        "V": np.zeros((H + 1, S)),
        "transitions": np.zeros((*rows, S)),
        **{name: np.zeros(rows) for name in ("visits", "rewards", "squares")},
        "P_sample": np.zeros((S, A, S)),
        "r_sample": np.zeros((S, A)),
    }


def _beta(reward_posterior: RewardPosterior) -> bool:
    known = reward_posterior in ("beta", "normal-gamma")
    require(known, "reward_posterior must be beta or normal-gamma", reward_posterior)
    return reward_posterior == "beta"


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
        super().__init__(
            name="psrl",
            shape=shape,
            constants="none",
            z=None,
            parameters=Parameters(
                prior=require_real("prior", prior, low=0.0, open_low=True),
                beta_rewards=_beta(reward_posterior),
                public=public_rows(shape),
            ),
            users_per_batch=users_per_batch,
        )

    def begin(self) -> PSRLBelief:
        """The prior."""
        nothing = _nothing(self.shape)
        return PSRLBelief(**nothing, seen=np.zeros_like(nothing["visits"]))


def make_psrl(request: CountRequest) -> PSRL:
    """The learner that a request amounts to."""
    request.refuse_widths("psrl")
    return PSRL(
        shape=request.shape,
        reward_posterior=cast("RewardPosterior", request.options.get("rewards", "beta")),
        users_per_batch=request.users_per_batch,
    )


CountPrior = Literal["printed", "noise-aware"]
FLOOR = 1.0
"""Posterior parameters never fall below this."""


class LDPParameters(NamedTuple):
    """Public constants of the learner."""

    alpha: float
    """α₀: pseudo-counts of every successor."""
    strength: float
    """λ₀ and ν₀ (Normal-Gamma), or the pseudo-counts of both outcomes (Beta)."""
    rate: float
    """β₀."""
    beta_rewards: bool
    noise_aware: bool
    sampling: Sampling
    public: PublicRows


class LDPPSRLBelief(NamedTuple):
    """The released counts, the spread of their noise, and the policy of the last sample."""

    policy: Ints
    V: Floats
    transitions: Floats
    visits: Floats
    rewards: Floats
    squares: Floats
    std: Floats
    """[3]: standard deviation of the noise in a cell of transitions, visits or zeros N - R, rewards; 0 if ignored."""
    P_sample: Floats
    r_sample: Floats


@lean_kernel
def update_ldp(parameters: LDPParameters, belief: LDPPSRLBelief, released: CountStatistics) -> None:
    """Take over the noisy counts."""
    stages, S, A = released.visits.shape
    if parameters.noise_aware:
        # Rewards and zeros N - R: either both are released (visits, their sum, vary more), or N - R is a difference.
        share = parameters.sampling.noise_share
        rewards, visits = share[2] * released.variance[2], share[1] * released.variance[1]
        zeros = visits - rewards if visits > rewards else visits + rewards
        belief.std[0] = math.sqrt(share[0] * released.variance[0])
        belief.std[1] = math.sqrt(zeros if parameters.beta_rewards else visits)
        belief.std[2] = math.sqrt(rewards)
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                belief.visits[h, s, a] = released.visits[h, s, a]
                belief.rewards[h, s, a] = released.rewards[h, s, a]
                belief.squares[h, s, a] = released.squares[h, s, a]
                for t in range(S):
                    belief.transitions[h, s, a, t] = released.transitions[h, s, a, t]


@lean_kernel
def plan_ldp(parameters: LDPParameters, belief: LDPPSRLBelief, generator: np.random.Generator) -> None:
    """Alg. 7, line 2: sample a model from the posterior and solve it; ties are broken at random."""
    H, stages = belief.policy.shape[0], belief.visits.shape[0]
    if stages == 1:
        _sample_ldp(parameters, belief, 0, H > 1, generator)
    for h in range(H - 1, -1, -1):
        if stages > 1:
            _sample_ldp(parameters, belief, h, h < H - 1, generator)
        follow_sample(belief, h, generator)


@lean_kernel
def _sample_ldp(
    parameters: LDPParameters, belief: LDPPSRLBelief, h: int, successors: bool, generator: np.random.Generator
) -> None:
    S, A, public = belief.visits.shape[1], belief.visits.shape[2], parameters.public
    for s in range(S):
        for a in range(A):
            row = (h * S + s) * A + a
            if successors:
                # P(·|s,a) ~ Dirichlet(α̃) over the possible successors, as normalised gamma variates; α̃ = α₀ + Ñ^p
                total = 0.0
                for t in range(S):
                    belief.P_sample[s, a, t] = 0.0
                    if not can_follow(public, row, t):
                        continue
                    count = _count(belief.transitions[h, s, a, t], belief.std[0], generator)
                    draw = gamma_draw(max(FLOOR, (parameters.alpha + count) / parameters.sampling.weight), generator)
                    belief.P_sample[s, a, t] = draw
                    total += draw
                for t in range(S):
                    belief.P_sample[s, a, t] /= max(total, 1e-300)  # a row out of reach has no successor at all
            if public.declared and public.pays[row] == 0.0:
                belief.r_sample[s, a] = 0.0
            elif parameters.beta_rewards:
                belief.r_sample[s, a] = _beta_reward(parameters, belief, h, s, a, generator)
            else:
                belief.r_sample[s, a] = _normal_gamma_reward(parameters, belief, h, s, a, generator)


@lean_kernel
def _count(noisy: float, std: float, generator: np.random.Generator) -> float:
    """A count that may hide behind a noisy one (the noisy one itself where noise is ignored)."""
    if std == 0.0:
        return noisy
    # A count is not negative, whatever the noise.
    return max(0.0, noisy + std * generator.standard_normal())


@lean_kernel
def _beta_reward(
    parameters: LDPParameters, belief: LDPPSRLBelief, h: int, s: int, a: int, generator: np.random.Generator
) -> float:
    reward = belief.rewards[h, s, a]
    ones = _count(reward, belief.std[2], generator)
    zeros = _count(belief.visits[h, s, a] - reward, belief.std[1], generator)
    # beta_draw has pseudo-counts of one of its own
    weight = parameters.sampling.weight
    ones = max(FLOOR, (parameters.strength + ones) / weight) - 1.0
    zeros = max(FLOOR, (parameters.strength + zeros) / weight) - 1.0
    return beta_draw(ones, zeros, generator)


@lean_kernel
def _normal_gamma_reward(
    parameters: LDPParameters, belief: LDPPSRLBelief, h: int, s: int, a: int, generator: np.random.Generator
) -> float:
    n = _count(belief.visits[h, s, a], belief.std[1], generator)
    total = _count(belief.rewards[h, s, a], belief.std[2], generator)
    squares = _count(belief.squares[h, s, a], belief.std[2], generator)
    # λ̃ = λ₀ + Ñ;  μ̃ = R̃/λ̃;  ν̃ = ν₀ + Ñ/2;  β̃ = β₀ + ½ R̃₂ - R̃²/(2λ̃)
    precision = max(FLOOR, parameters.strength + n)
    shape = max(FLOOR, parameters.strength + 0.5 * n)
    rate = max(FLOOR, parameters.rate + 0.5 * squares - total * total / (2.0 * precision))
    return normal_gamma_draw(total / precision, precision, shape, rate, generator)


class LDPPSRL(KernelLearner[LDPPSRLBelief, Totals, CountStatistics]):
    """Posterior sampling from noisy sums of known precision, stage-dependent or time-homogeneous.

    >>> exact = SumPrecision(variance=np.zeros(4), scale=np.zeros(4))
    >>> learner = LDPPSRL(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=False),
    ...                   precision=exact, episodes=100)
    >>> belief, plan = learner.plan(learner.begin(), np.random.default_rng(0))
    >>> plan.policy.actions.shape, learner.parameters.alpha
    ((2, 3), 1.0)
    """

    kernels = LearnerKernels(plan_ldp, ask_nothing, update_ldp)
    over_support = True

    def __init__(
        self,
        *,
        shape: CountShape,
        precision: SumPrecision,
        episodes: int,
        reward_posterior: RewardPosterior = "normal-gamma",
        prior: CountPrior = "printed",
        failure_prob: float = 0.05,
        sampling: Sampling | None = None,
        users_per_batch: int = 1,
    ) -> None:
        beta_rewards = _beta(reward_posterior)
        require(prior in ("printed", "noise-aware"), "prior must be printed or noise-aware", prior)
        sampling = sampling or everything_sent()
        if not beta_rewards and sampling.weight != 1.0:
            raise NotSupported("normal-gamma posteriors need users who send everything; use rewards=beta")
        if prior == "printed":
            noise = noise_alone(precision, sampling)
            alpha, strength, rate = printed_prior(shape, noise, episodes=episodes, failure_prob=failure_prob)
        else:
            alpha = strength = rate = FLOOR * sampling.weight
        super().__init__(
            name="ldp-psrl",
            shape=shape,
            constants="none",
            z=None,
            parameters=LDPParameters(
                alpha=alpha,
                strength=strength,
                rate=rate,
                beta_rewards=beta_rewards,
                noise_aware=prior == "noise-aware",
                sampling=sampling,
                public=public_rows(shape),
            ),
            users_per_batch=users_per_batch,
        )

    def begin(self) -> LDPPSRLBelief:
        """The prior."""
        return LDPPSRLBelief(**_nothing(self.shape), std=np.zeros(3))


def printed_prior(
    shape: CountShape, precision: SumPrecision, *, episodes: int, failure_prob: float = 0.05
) -> tuple[float, float, float]:
    """α₀, λ₀ = ν₀ and β₀ of (103)-(107), never below 1; kept apart by step, SA becomes SAH (footnote 3).

    >>> laplace = SumPrecision(variance=np.full(4, 2.0 * 8.0**2), scale=np.full(4, 8.0))  # 8H/ε at H = ε = 2
    >>> shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=False)
    >>> [round(value) for value in printed_prior(shape, laplace, episodes=10**8, failure_prob=0.1)]
    [795107, 529725, 2648626]
    """
    K = require_count("episodes", episodes)
    delta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
    S, rows = shape.num_states, shape.stages * shape.num_states * shape.num_actions
    cells, pairs = math.log(6.0 * rows * S / delta), math.log(6.0 * rows / delta)
    std = np.sqrt(precision.variance)
    alpha = 2.0 * float(std[CELL]) * max(math.sqrt(K * S), cells) * math.sqrt(cells)
    spread = 2.0 * max(math.sqrt(K), pairs) * math.sqrt(pairs)
    return max(FLOOR, alpha), max(FLOOR, spread * float(std[VISIT])), max(FLOOR, 5.0 * spread * float(std[REWARD]))


def noise_alone(precision: SumPrecision, sampling: Sampling) -> SumPrecision:
    """The precision without what users leave out: that is in the weight of their counts.

    >>> both = SumPrecision(variance=np.full(4, 10.0), scale=np.ones(4))
    >>> noise_alone(both, Sampling(weight=5.0, noise_share=np.array([0.1, 0.2, 0.3]))).variance.tolist()
    [3.0, 2.0, 1.0, 1.0]
    """
    moved, visits, rewards = sampling.noise_share
    return precision._replace(variance=precision.variance * np.array([rewards, visits, moved, moved]))


def make_ldp_psrl(request: CountRequest) -> LDPPSRL:
    """The learner that a request amounts to."""
    request.refuse_widths("ldp-psrl")
    prior = request.options.get("prior", "printed")
    weighed = request.options.get("sampling", "weighed" if prior == "noise-aware" else "noise") == "weighed"
    return LDPPSRL(
        shape=request.shape,
        precision=request.sums("ldp-psrl"),
        episodes=request.episodes,
        reward_posterior=cast("RewardPosterior", request.options.get("rewards", "normal-gamma")),
        prior=cast("CountPrior", prior),
        sampling=request.sampling if weighed else None,
        users_per_batch=request.users_per_batch,
    )


def uses_squares(options: Mapping[str, str]) -> bool:
    """Whether devices must release squares of rewards as a fourth family.

    >>> uses_squares({}), uses_squares({"rewards": "beta"})
    (True, False)
    """
    return options.get("rewards", "normal-gamma") == "normal-gamma"
