"""Private UCB-PO: optimistic policy optimisation on private counts (Chowdhury and Zhou, AAAI 2022).

    n = (Ñ(s,a) + E₁) ∨ 1,    r̃ = R̃ / n,    P̃ = Ñ(s,a,s') / n
    b = (1 + m) √(ℓ/2) / √n + 3 E₁ / n + m (S E₂ + 2 E₁) / n,    m = H - h,   ℓ = (ln(2 H S A K / δ) + S ln 2) ∨ 2
    Q̃_h = min{ H - h + 1, max{ 0, r̃ + P̃ Ṽ_{h+1} + b } },    Ṽ_h(s) = Σ_a π_h(a|s) Q̃_h(s,a)         (evaluation)
    π_h(a|s) ← π_h(a|s) exp(η Q̃_h(s,a)) / Σ_a' ...,          η = √(2 ln A / (H² K))                   (improvement)

Constants of b: ours. With probability 1 - δ all Q̃ are at least r + P Ṽ, so at least Q^π, at every release: Lemma W5
(private UCB-PO is optimistic). The form is the paper's; its printed constants are not reproduced here. The regret
Õ(√(S² A H³ T) + S² A H³ / ε) under joint differential privacy is the paper's statement about its own constants.
Deviations: rewards where the paper has costs; radii of the noise as it is now. `constants="practical"` takes rows and
widths of the shared rule (`planning.widths`), the same η, and weighs counts of users who send a part of what they saw,
as LDP-OBI does.

A user visits every step once, so drawing an action for every (h, s) beforehand gives the trajectory the same law as
drawing along the way: one user at a time follows a deterministic policy drawn from π, batches follow π itself.
Without noise E₁ = E₂ = 0 and this is optimistic policy optimisation with the same bonus.

`replan=geometric` (`tacit.learners.schedules`) takes one step of length η m where m users followed one π:
what m single steps would be if Q̃ did not move in between.

Cost: O(H S² A) per episode, or per batch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import CountRequest, KernelLearner, ask_nothing, practical_z
from tacit.learners.schedules import RareBelief, RarelyReplanned
from tacit.planning.public_rows import PublicRows, public_rows, reward_noise, row_ceiling, row_radius, row_spread
from tacit.planning.widths import practical_width, row_model
from tacit.policies import StochasticPolicy
from tacit.protocol import TOTALS, Constants, LearnerKernels, Plan, PrivateStatistics, Totals, copy_state
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import (
    CountPrecision,
    Sampling,
    everything_sent,
    exact_counts,
    now_radius,
    precision_log_term,
)

HOEFFDING, PRACTICAL = 0, 1


class Parameters(NamedTuple):
    """Public constants of the learner."""

    rule: int
    z: float
    eta: float
    width: float
    """√(ℓ/2)"""
    log_precision: float
    precision: CountPrecision
    sampling: Sampling
    public: PublicRows


class PrivateUCBPOBelief(NamedTuple):
    """The stochastic policy, the one drawn from it, and the private model."""

    policy: Ints
    pi: Floats
    """[H, S, A]: the probabilities of the actions."""
    logits: Floats
    """[H, S, A]: η times the sum of all Q̃ so far, less its largest."""
    Q: Floats
    V: Floats
    P_tilde: Floats
    r_tilde: Floats
    n: Floats
    bonus: Floats
    variance: Floats
    users: Ints


@lean_kernel
def model(parameters: Parameters, belief: PrivateUCBPOBelief, released: CountStatistics) -> None:
    """Rows and bonuses from the released totals."""
    H, S, A = released.visits.shape
    precision, variance, L = parameters.precision, released.variance, parameters.log_precision
    E1 = max(now_radius(precision, variance, 1, L), now_radius(precision, variance, 2, L))
    E2 = now_radius(precision, variance, 0, L)
    in_row = row_radius(parameters.public, E1, E2)
    for family in range(3):
        # The radii cover noise and sampling together; the practical rule knows them apart.
        share = parameters.sampling.noise_share[family] if parameters.rule == PRACTICAL else 1.0
        belief.variance[family] = share * variance[family]
    last_floor = 0.5 * math.sqrt(belief.variance[1])
    for h in range(H):
        for s in range(S):
            for a in range(A):
                if parameters.rule == PRACTICAL:
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
                    continue
                n = max(released.visits[h, s, a] + E1, 1.0)
                belief.n[h, s, a] = n
                belief.r_tilde[h, s, a] = released.rewards[h, s, a] / n
                # b = (1 + m) √(ℓ/2) / √n + 3 E₁ / n + m (S E₂ + 2 E₁) / n
                left = H - 1 - h
                noise = 3.0 * E1 + left * (in_row + 2.0 * E1)
                belief.bonus[h, s, a] = (1.0 + left) * parameters.width / math.sqrt(n) + noise / n
                if h < H - 1:
                    for t in range(S):
                        belief.P_tilde[h, s, a, t] = released.transitions[h, s, a, t] / n


@lean_kernel
def update(parameters: Parameters, belief: PrivateUCBPOBelief, released: CountStatistics) -> None:
    """Evaluate the policy optimistically in the newest model, then improve it by one mirror step."""
    if released.users[0] != belief.users[0]:
        belief.users[0] = released.users[0]
        model(parameters, belief, released)
    H, S, A = belief.Q.shape
    public = parameters.public
    for h in range(H - 1, -1, -1):
        for s in range(S):
            value, largest = 0.0, -np.inf
            for a in range(A):
                place = (h * S + s) * A + a
                ceiling = row_ceiling(public, h, s, a, place, H - h, belief.V[h + 1])
                n, r, width = belief.n[h, s, a], belief.r_tilde[h, s, a], belief.bonus[h, s, a]
                mean, variance, spread = 0.0, 0.0, 0.0
                if h < H - 1:
                    for t in range(S):
                        mean += belief.P_tilde[h, s, a, t] * belief.V[h + 1, t]
                    if parameters.rule == PRACTICAL:
                        for t in range(S):
                            gap = belief.V[h + 1, t] - mean
                            variance += belief.P_tilde[h, s, a, t] * gap * gap
                            spread += gap * gap
                if parameters.rule == PRACTICAL:
                    spread = row_spread(public, place, belief.V[h + 1], mean, spread)
                    sigma2_N, sigma2_R = belief.variance[0], reward_noise(public, place, belief.variance[2])
                    weight = parameters.sampling.weight
                    width = practical_width(parameters.z, H - h, n, r, variance, spread, sigma2_N, sigma2_R, weight)
                # Q̃ = min{ H - h + 1, max{ 0, r̃ + P̃ Ṽ + b } }
                belief.Q[h, s, a] = min(ceiling, max(0.0, r + mean + width))
                value += belief.pi[h, s, a] * belief.Q[h, s, a]
                belief.logits[h, s, a] += parameters.eta * belief.Q[h, s, a]
                largest = max(largest, belief.logits[h, s, a])
            belief.V[h, s] = value
            total = 0.0
            for a in range(A):
                # π(a|s) ∝ exp(η Σ Q̃)
                belief.logits[h, s, a] -= largest
                belief.pi[h, s, a] = math.exp(belief.logits[h, s, a])
                total += belief.pi[h, s, a]
            for a in range(A):
                belief.pi[h, s, a] /= total


@lean_kernel
def plan(parameters: Parameters, belief: PrivateUCBPOBelief, generator: np.random.Generator) -> None:
    """Draw an action for every step and state."""
    H, S, A = belief.pi.shape
    for h in range(H):
        for s in range(S):
            left, choice = generator.random(), A - 1
            for a in range(A - 1, -1, -1):
                # The last action whose upper end is not passed; rounding can only favour the last one.
                left -= belief.pi[h, s, a]
                if left < 0.0:
                    choice = a
                    break
            belief.policy[h, s] = choice


class PrivateUCBPO(KernelLearner[PrivateUCBPOBelief, Totals, CountStatistics]):
    """Optimistic mirror ascent on private counts of known precision.

    >>> learner = PrivateUCBPO(shape=CountShape(horizon=2, num_states=3, num_actions=2, staged=True), episodes=100)
    >>> learner.begin().pi[0, 0].tolist()
    [0.5, 0.5]
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
        z: float | None = None,
        failure_prob: float = 0.05,
        users_per_batch: int = 1,
        sampling: Sampling | None = None,
    ) -> None:
        require(shape.staged, "private-ucb-po keeps the steps of an episode apart: staged must be true", shape.staged)
        z = practical_z(constants, z)
        delta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        H, S, A = shape.horizon, shape.num_states, shape.num_actions
        public = public_rows(shape)
        # ℓ = (ln(2HSAK/δ) + S ln 2) ∨ 2; over a declared support the most successors of a row in the place of S
        log_term = math.log(2.0 * H * S * A * require_count("episodes", episodes) / delta)
        log_term = max(log_term + public.widest * math.log(2.0), 2.0)
        rounds = math.ceil(episodes / users_per_batch)
        super().__init__(
            name="private-ucb-po",
            shape=shape,
            constants=constants,
            z=z if constants == "practical" else None,
            parameters=Parameters(
                rule=PRACTICAL if constants == "practical" else HOEFFDING,
                z=z,
                # η = √(2 ln A / (H² K)), K the number of improvements
                eta=math.sqrt(2.0 * math.log(A) / (H * H * rounds)),
                width=math.sqrt(log_term / 2.0),
                log_precision=precision_log_term(shape, episodes, delta / 2.0),
                precision=precision or exact_counts(),
                sampling=sampling or everything_sent(),
                public=public,
            ),
            users_per_batch=users_per_batch,
        )

    def begin(self) -> PrivateUCBPOBelief:
        """Every action alike, and nothing is known."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        rows = (H, S, A)
        return PrivateUCBPOBelief(
            policy=np.zeros((H, S), dtype=np.int64),
            pi=np.full(rows, 1.0 / A),
            logits=np.zeros(rows),
            Q=np.zeros(rows),
            V=np.zeros((H + 1, S)),
            P_tilde=np.zeros((*rows, S)),
            r_tilde=np.zeros(rows),
            n=np.zeros(rows),
            bonus=np.full(rows, float(H)),
            variance=np.zeros(3),
            users=np.zeros(1, dtype=np.int64),
        )

    def plan(self, belief: PrivateUCBPOBelief, rng: np.random.Generator) -> tuple[PrivateUCBPOBelief, Plan[Totals]]:
        """One user follows a policy drawn from π, which has the same law; a batch follows π itself."""
        if self.users_per_batch == 1:
            return super().plan(belief, rng)
        return copy_state(belief), Plan(policy=self.mixed(belief), users=self.users_per_batch, query=TOTALS)

    @staticmethod
    def mixed(belief: PrivateUCBPOBelief) -> StochasticPolicy:
        """The policy π itself."""
        return StochasticPolicy(belief.pi / belief.pi.sum(axis=2, keepdims=True))


class RarelyImproved(RarelyReplanned):
    """The same with one longer step for everybody who followed one π."""

    def plan(self, belief: RareBelief, rng: np.random.Generator) -> tuple[RareBelief, Plan[Totals]]:
        """The policy π itself, for more users the more have come."""
        return belief, Plan(policy=PrivateUCBPO.mixed(belief.belief), users=self.together(belief), query=TOTALS)

    def update(self, belief: RareBelief, released: PrivateStatistics[CountStatistics]) -> RareBelief:
        """One step of length η m for the m users of the batch."""
        after, given = copy_state(belief.belief), self.inner.parameters
        step = given._replace(eta=given.eta * self.together(belief))  # type: ignore[attr-defined]
        self.inner.kernels.update(step, after, released.statistics)
        return RareBelief(after, int(released.statistics.users[0]))


def make_private_ucb_po(request: CountRequest) -> PrivateUCBPO:
    """The learner that a request amounts to."""
    return PrivateUCBPO(**request.common, precision=request.counts)
