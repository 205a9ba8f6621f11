"""The contract of policy gradient learners: they see one noisy batch gradient at a time and nothing else.

begin() -> belief       θ₁ = 0: every action alike
plan kernel             writes the policy π_θ into the belief, and keeps θ_U, a uniform choice among the iterates
ask kernel              writes the policy at which the gradient of the batch is asked for
update kernel           takes a released gradient in

The options of policy gradient learners, `dp-pg:policy=linear,features=8,clip=2`; `number` stands for numbers.

DP-PG: REINFORCE on noisy batch gradients, one pass over fresh users ([he2025policy] Alg. 1).

    line 1   θ₁ = 0, T = ⌊N/m⌋
    line 4   ∇̃ = (1/m) Σ_i g_i + N(0, σ² I): the privatizer's work, and all that arrives here
    line 5   θ_{t+1} = θ_t + η (∇̃ + λ ∇B(θ_t))

The paper's line 5 prints the gradient without its noise; it must be the noisy one. B is the log-barrier of Eq. (3),
B(θ) = (1/|S||A|) Σ_{s,a} log π_θ(a|s), averaged over *all* states and therefore free of data (Lemma D6 (data-free
barrier)). The baseline, if there is one, is the precision-weighted mean of earlier released mean rewards, so it is
public when it is used.

Guarantees: `tacit.release.gradient`; sample complexity: Theorems 2 (stationary points), 3 and 4 (global optima).

Private natural policy gradient: the released gradient, seen through the Fisher matrix of the policy.

    θ_{t+1} = θ_t + η (F(θ_t) + κ I)⁻¹ (∇̃ + λ ∇B(θ_t)),    F(θ) = E_{s ~ Unif, a ~ π_θ} [∇ log π ∇ log πᵀ]

F is taken under the uniform distribution over states (and steps), so it is computed from θ alone: the natural gradient
is post-processing of exactly the release that DP-PG uses, with the same claim, the same certificate and no re-use of
users. (The Fisher matrix of the paper's Assumption 2, under the users' own distribution of states, would be data and
would cost budget.) The damping κ bounds how much the noise in rarely taken actions is magnified.

The paper's Remark 1 asks for this; the guarantee is that of `tacit.release.gradient`.

Private trust-region updates: natural gradients that move the policy by a public KL radius at most.

    x = (F(θ_t) + κ I)⁻¹ g,    g = ∇̃ + λ ∇B(θ_t)
    θ_{t+1} = θ_t + η x,       η = √(2ρ / gᵀx), halved until D(θ_t, θ_t + η x) ≤ ρ
    D(θ, θ') = E_{s ~ Unif} KL(π_θ(·|s) ‖ π_θ'(·|s))

∇̃ is the release of DP-PG, F the Fisher matrix of `tacit.learners.gradient`. ½ η² xᵀ(F + κI)x = ρ is the quadratic model
of D, from above because of κ; D itself is computed in closed form from θ_t and θ_t + η x, over all states alike. So the
step and its halving read nothing but released values: the update is post-processing, with the claim and the certificate
of DP-PG (Lemma D8 (data-free trust region)).

TRPO (Schulman et al. 2015) also turns a step down whose surrogate objective, taken over the users' own trajectories,
has not improved, and takes F and D under the users' own states. Each of these looks at people's data once more without
noise: whether a step was taken would tell about them. Nothing of that is done here.

A noisy gradient is never short, so every update uses up its radius, however little was learned: radii of the practical
rule shrink with the number of updates (`tacit.runs.gradient_builder`). With `step`, η is at most that: then updates
whose natural step stays within the radius are exactly those of `dp-npg`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeVar, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, number_from, require, require_count, require_real
from tacit.kernels import kernel
from tacit.learners.contract import KernelLearner
from tacit.policies import AnyPolicy, GaussianPolicy, StochasticPolicy
from tacit.policies.softmax import softmax_table
from tacit.protocol import Constants, Kernel, LearnerKernels, Plan, Query, copy_state
from tacit.released.gradients import DoseQuery, GradientShape, GradientStatistics, SoftmaxQuery

PolicyKind = Literal["softmax", "linear", "gaussian", "neural"]

COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "policy": ("softmax", "linear", "gaussian", "neural"),
    "time_homogeneous": ("false", "true"),
    "features": ("number",),
    "hidden": ("number",),
    "step": ("number",),
    "barrier": ("0", "theory", "number"),
    "clip": ("number",),
    "baseline": ("number", "released"),
}
"""What every policy gradient learner lets its user choose."""
FIELDS: Final = {"time_homogeneous": "staged"}
"""Options whose setting is called otherwise (and says the opposite)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSettings:
    """What the options of a policy gradient learner say; None: chosen by rule."""

    name: str
    policy: PolicyKind = "softmax"
    staged: bool = True
    features: int = 8
    hidden: int = 16
    """The units of a neural policy's hidden layer."""
    step: float | None = None
    barrier: float | None = 0.0
    """None: Theorem 4's."""
    clip: float | None = None
    baseline: float | Literal["released"] | None = None
    damping: float = 0.0
    kl: float | None = None
    """The radius of the trust region; None: by rule."""
    epochs: int = 1
    radius: float = math.inf
    rate: float = 1.0


DEFAULTS: Final[Mapping[str, Mapping[str, float]]] = {
    "dp-npg": {"damping": 0.05},
    "dp-trpo": {"damping": 0.05},
    "dp-ppo": {"epochs": 4, "radius": 0.2},
}


def read_settings(name: str, options: Mapping[str, str]) -> GradientSettings:
    """Read and check the options of a learner, whose names the table has checked.

    >>> read_settings("dp-pg", {"policy": "linear", "clip": "2"}).clip
    2.0
    >>> read_settings("dp-ppo", {}).epochs
    4
    """
    values: dict[str, object] = {"name": name, **DEFAULTS.get(name, {})}
    for option, text in options.items():
        values[FIELDS.get(option, option)] = _value(name, option, text)
    found = GradientSettings(**values)  # type: ignore[arg-type]
    if found.policy == "gaussian" and (name != "dp-pg" or found.barrier != 0.0):
        raise NotSupported("Gaussian policies are offered with dp-pg, without a barrier")
    for option, policy in (("features", "linear"), ("hidden", "neural")):
        if option in options and found.policy != policy:
            raise InvalidInput(f"{option} belong to policy={policy}, not to policy={found.policy}")
    return _neural(found, options) if found.policy == "neural" else found


def _neural(found: GradientSettings, options: Mapping[str, str]) -> GradientSettings:
    """One network serves all steps of an episode."""
    if options.get("time_homogeneous") == "false":
        raise NotSupported("one network serves all steps of an episode: use time_homogeneous=true or policy=linear")
    if found.barrier != 0.0:
        raise NotSupported("the log-barrier is offered for tables and linear policies, not for policy=neural")
    return replace(found, staged=False)


def _value(name: str, option: str, text: str) -> object:
    what = f"{name}:{option}"
    if option in ("features", "hidden", "epochs"):
        return require_count(what, int(text) if text.isdecimal() else text)
    if option in ("policy", "time_homogeneous"):
        known = COMMON[option]
        require(text in known, f"{what} must be one of {', '.join(known)}", given=text)
        return text if option == "policy" else text == "false"
    if (option, text) == ("barrier", "theory"):
        return None
    if (option, text) == ("baseline", "released"):
        return text
    limits = {"rate": (0.0, 1.0, True), "barrier": (0.0, math.inf, False), "baseline": (-math.inf, math.inf, False)}
    low, high, open_low = limits.get(option, (0.0, math.inf, True))
    return require_real(what, number_from(text), low=low, high=high, open_low=open_low)


Asked = TypeVar("Asked", bound=Query)


class GradientParameters(NamedTuple):
    """Public parameters of the kernels."""

    features: Floats
    """[S,A,k], or [1,1,0] for tabular policies."""
    step: float
    """η."""
    barrier: float
    """λ of the log-barrier; 0: none."""
    damping: float
    """What is added to the Fisher matrix; natural gradients only."""
    low: float
    high: float
    """The interval of rewards, and so of baselines."""
    baseline: float
    """The first baseline, and the only one unless mean rewards are released."""
    kl: float = math.inf
    """The radius ρ of the trust region; infinity: none."""


class GradientBelief(NamedTuple):
    """Everything a learner knows; a checkpoint."""

    theta: Floats
    """[d]"""
    table: Floats
    """[L,S,A]: π_θ; without actions for policies over real numbers."""
    sampled: Floats
    """[d]: θ_U, uniform among the iterates that were used so far."""
    baseline: Floats
    """[1]"""
    precision: Floats
    """[2]: Σ r̃/σ² and Σ 1/σ² over the released mean rewards."""
    iterates: Ints
    """[1]: how many policies were used."""
    scratch: Floats
    """[d + 1, d] for natural gradients of linear policies, else [1, d]; a row more where there is a trust region."""


@kernel
def plan_gradient(parameters: GradientParameters, belief: GradientBelief, generator: np.random.Generator) -> None:
    """Write π_θ, and keep θ with probability 1/t: after T iterates every one of them was kept with probability 1/T."""
    if belief.table.shape[2] > 0:
        softmax_table(parameters.features, belief.theta, belief.table)
    belief.iterates[0] += 1
    if generator.random() * belief.iterates[0] < 1.0:
        for j in range(belief.theta.shape[0]):
            belief.sampled[j] = belief.theta[j]


@kernel
def ask_softmax(parameters: GradientParameters, belief: GradientBelief, query: SoftmaxQuery, number: int) -> None:
    """First the policy that the users followed; later, where a batch is used again, the policy of the present θ."""
    if number == 0:
        for h in range(belief.table.shape[0]):  # by elements: a copy of a whole array takes seconds to compile
            for s in range(belief.table.shape[1]):
                for a in range(belief.table.shape[2]):
                    query.behaviour[h, s, a] = belief.table[h, s, a]
    else:
        softmax_table(parameters.features, belief.theta, belief.table)


@kernel
def ask_doses(parameters: GradientParameters, belief: GradientBelief, query: DoseQuery, number: int) -> None:
    """The preferred doses θ·x_s."""
    for s in range(query.means.shape[0]):
        query.means[s] = 0.0
        for j in range(query.features.shape[1]):
            query.means[s] += belief.theta[j] * query.features[s, j]


class GradientLearner(KernelLearner[GradientBelief, Asked, GradientStatistics]):
    """A learner that sees one noisy batch gradient at a time; every batch has the same size."""

    shape: GradientShape
    parameters: GradientParameters
    uses_last = True

    def __init__(
        self,
        *,
        name: str,
        shape: GradientShape,
        parameters: GradientParameters,
        update_kernel: Kernel,
        constants: Constants,
        users_per_batch: int,
        releases: int = 1,
    ) -> None:
        super().__init__(
            name=name, shape=shape, constants=constants, z=None, parameters=parameters, users_per_batch=users_per_batch
        )
        self.least = users_per_batch
        self.releases = releases
        self.kernels = LearnerKernels(self.plan_kernel, self.ask_kernel, update_kernel)

    ask_kernel: ClassVar[Kernel]
    plan_kernel: ClassVar[Kernel] = staticmethod(plan_gradient)

    def begin(self) -> GradientBelief:
        """The belief before anybody came: θ = 0."""
        d, shape = self.shape.dimension, self.shape
        wide = self.parameters.features.shape[2] > 0 and self.parameters.damping > 0.0
        rows = (d + 1 if wide else 1) + int(self.parameters.kl < math.inf)
        return GradientBelief(
            theta=np.zeros(d),
            table=np.zeros((shape.stages, shape.num_states, shape.num_actions)),
            sampled=np.zeros(d),
            baseline=np.full(1, self.parameters.baseline),
            precision=np.zeros(2),
            iterates=np.zeros(1, dtype=np.int64),
            scratch=np.zeros((rows, d)),
        )


class SoftmaxLearner(GradientLearner[SoftmaxQuery]):
    """Policy gradients of softmax policies, tabular or linear."""

    asks = SoftmaxQuery
    ask_kernel = staticmethod(ask_softmax)

    def query(self, belief: GradientBelief) -> SoftmaxQuery:
        """The gradient at the policy of the belief, of users who follow it."""
        return SoftmaxQuery(self.parameters.features, belief.table, belief.table.copy(), belief.baseline)

    def ask(self, belief: GradientBelief, plan: Plan[SoftmaxQuery], number: int) -> tuple[GradientBelief, SoftmaxQuery]:
        """The same users are asked for the gradient at the present θ."""
        if plan.query is None:
            raise InvalidInput("a plan without a query asks nothing; check plan.query before asking")
        after = cast("GradientBelief", copy_state(belief))
        query = self.query(after)._replace(behaviour=plan.query.behaviour.copy())
        self.kernels.ask(self.parameters, after, query, number)
        return after, query

    def policy(self, belief: GradientBelief, planned: AnyPolicy | None = None) -> StochasticPolicy:
        """The softmax policy of the present parameters."""
        return self.policy_at(belief.theta)

    def policy_at(self, theta: Floats) -> StochasticPolicy:
        """The softmax policy of these parameters, at every step of an episode."""
        shape = self.shape
        table = np.zeros((shape.stages, shape.num_states, shape.num_actions))
        softmax_table(self.parameters.features, np.ascontiguousarray(theta), table)
        return StochasticPolicy(np.broadcast_to(table, (shape.horizon, *table.shape[1:])).copy())


class DoseLearner(GradientLearner[DoseQuery]):
    """Policy gradients of Gaussian policies over doses, around a linear mean of public features[s,j]."""

    asks = DoseQuery
    ask_kernel = staticmethod(ask_doses)

    def __init__(self, *, doses: Floats, deviation: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._doses, self._deviation = np.array(doses), deviation

    def query(self, belief: GradientBelief) -> DoseQuery:
        """The gradient at the policy of the belief."""
        features, means = self._doses, np.zeros(len(self._doses))
        norms = np.sqrt((features**2).sum(axis=1))
        query = DoseQuery(features, norms, means, belief.baseline, self._deviation)
        ask_doses(self.parameters, belief, query, 0)
        return query

    def policy(self, belief: GradientBelief, planned: AnyPolicy | None = None) -> GaussianPolicy:
        """The Gaussian policy of the present parameters."""
        means = self.query(belief).means
        return GaussianPolicy(belief.theta.copy(), means, self._deviation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRequest:
    """What a policy gradient learner may know before it starts: public sizes, constants and the user's choices."""

    name: str
    shape: GradientShape
    parameters: GradientParameters
    constants: Constants
    """'theory': step sizes of the theorems; 'practical': tuned; 'none': the user's own."""
    users_per_batch: int
    releases: int
    doses: tuple[Floats, float] | None = None
    """Features [S,k] of the contexts and the deviation of the policy, where actions are real numbers."""


def make_gradient(update: Kernel) -> Callable[[GradientRequest], SoftmaxLearner | DoseLearner]:
    """The builder of a policy gradient learner with this update kernel."""

    def build(request: GradientRequest) -> SoftmaxLearner | DoseLearner:
        made: dict[str, Any] = {
            "name": request.name,
            "shape": request.shape,
            "parameters": request.parameters,
            "update_kernel": update,
            "constants": request.constants,
            "users_per_batch": request.users_per_batch,
            "releases": request.releases,
        }
        if request.doses is None:
            return SoftmaxLearner(**made)
        features, deviation = request.doses
        return DoseLearner(doses=features, deviation=deviation, **made)

    return build


@kernel
def ascend(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """Line 5: one step along the released gradient and the data-free one."""
    step = belief.scratch[0]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    add_barrier(parameters, belief, step)
    # θ_{t+1} = θ_t + η (∇̃_m J(θ_t) + λ ∇B(θ_t))
    for j in range(step.shape[0]):
        belief.theta[j] += parameters.step * step[j]
    learn_baseline(parameters, belief, released)


@kernel
def add_barrier(parameters: GradientParameters, belief: GradientBelief, gradient: Floats) -> None:
    """Add λ ∇B(θ) = (λ/|S|) (1/A - π(a|s)) in every state, pulled back to the parameters: no data, only θ."""
    if parameters.barrier == 0.0 or belief.table.shape[2] == 0:
        return
    L, S, A = belief.table.shape
    features = parameters.features
    k = features.shape[2]
    weight = parameters.barrier / (L * S)
    for l in range(L):  # noqa: E741
        for s in range(S):
            for a in range(A):
                w = weight * (1.0 / A - belief.table[l, s, a])
                if k == 0:
                    gradient[(l * S + s) * A + a] += w
                else:
                    for j in range(k):
                        gradient[l * k + j] += w * features[s, a, j]


@kernel
def learn_baseline(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """The next batch's baseline: the mean of all released mean rewards, weighted by their precision."""
    if released.variance[1] > 0.0:
        belief.precision[0] += released.reward[0] / released.variance[1]
        belief.precision[1] += 1.0 / released.variance[1]
        mean = belief.precision[0] / belief.precision[1]
        belief.baseline[0] = min(max(mean, parameters.low), parameters.high)


@kernel
def natural_ascend(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """One step along the natural gradient."""
    step = belief.scratch[0]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    add_barrier(parameters, belief, step)
    naturalise(parameters, belief, belief.scratch[1:], step)
    for j in range(step.shape[0]):
        belief.theta[j] += parameters.step * step[j]
    learn_baseline(parameters, belief, released)


@kernel
def naturalise(parameters: GradientParameters, belief: GradientBelief, fisher: Floats, g: Floats) -> None:
    """G ← (F(θ) + κ I)⁻¹ g; `fisher` [d,d] is scratch of linear policies."""
    if parameters.features.shape[2] == 0:
        _solve_tabular(belief.table, parameters.damping, g)
    else:
        solve_linear(parameters.features, belief.table, parameters.damping, fisher, g)


@kernel
def _solve_tabular(table: Floats, damping: float, g: Floats) -> None:
    """G ← (F + κ I)⁻¹ g, block by block: F_s = (Diag π - π πᵀ)/(L S) and Sherman–Morrison."""
    L, S, A = table.shape
    share = 1.0 / (L * S)
    for l in range(L):  # noqa: E741
        for s in range(S):
            at = (l * S + s) * A
            # With D = π/(LS) + κ:  (D - ππᵀ/(LS))⁻¹ g = D⁻¹g + D⁻¹π (πᵀD⁻¹g)/(LS) / (1 - πᵀD⁻¹π/(LS))
            along, own = 0.0, 0.0
            for a in range(A):
                d = table[l, s, a] * share + damping
                along += table[l, s, a] * g[at + a] / d
                own += table[l, s, a] * table[l, s, a] / d
            factor = share * along / (1.0 - share * own)
            for a in range(A):
                d = table[l, s, a] * share + damping
                g[at + a] = (g[at + a] + factor * table[l, s, a]) / d


@kernel
def solve_linear(features: Floats, table: Floats, damping: float, F: Floats, g: Floats) -> None:
    """The same for linear policies: F is block-diagonal over stages; Cholesky in place."""
    L, S, A = table.shape
    k = features.shape[2]
    mean = np.zeros(k)
    for l in range(L):  # noqa: E741
        at = l * k
        for i in range(k):
            for j in range(k):
                F[at + i, at + j] = damping if i == j else 0.0
        for s in range(S):
            for j in range(k):
                mean[j] = 0.0
                for a in range(A):
                    mean[j] += table[l, s, a] * features[s, a, j]
            for a in range(A):
                w = table[l, s, a] / (L * S)
                for i in range(k):
                    for j in range(i + 1):
                        F[at + i, at + j] += w * (features[s, a, i] - mean[i]) * (features[s, a, j] - mean[j])
        for i in range(k):  # F = C Cᵀ
            for j in range(i + 1):
                left = F[at + i, at + j]
                for n in range(j):
                    left -= F[at + i, at + n] * F[at + j, at + n]
                F[at + i, at + j] = math.sqrt(left) if i == j else left / F[at + j, at + j]
        for i in range(k):
            for n in range(i):
                g[at + i] -= F[at + i, at + n] * g[at + n]
            g[at + i] /= F[at + i, at + i]
        for i in range(k - 1, -1, -1):
            for n in range(i + 1, k):
                g[at + i] -= F[at + n, at + i] * g[at + n]
            g[at + i] /= F[at + i, at + i]


HALVINGS = 60
"""After so many the step is shorter than rounding; the policy then stays where it is."""


@kernel
def trust_ascend(parameters: GradientParameters, belief: GradientBelief, released: GradientStatistics) -> None:
    """One step along the natural gradient, to the border of the trust region."""
    step, gradient = belief.scratch[0], belief.scratch[1]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    add_barrier(parameters, belief, step)
    for j in range(step.shape[0]):
        gradient[j] = step[j]
    naturalise(parameters, belief, belief.scratch[2:], step)
    # gᵀx = xᵀ(F + κI)x, twice the quadratic model of the divergence at η = 1
    along = 0.0
    for j in range(step.shape[0]):
        along += gradient[j] * step[j]
    size = parameters.step
    if along > 0.0:
        size = min(size, math.sqrt(2.0 * parameters.kl / along))
    if size < math.inf:
        halved = 0
        while halved < HALVINGS and not divergence(parameters.features, belief, step, size) <= parameters.kl:
            size *= 0.5
            halved += 1
        if halved < HALVINGS:
            for j in range(step.shape[0]):
                belief.theta[j] += size * step[j]
    learn_baseline(parameters, belief, released)


@kernel
def divergence(features: Floats, belief: GradientBelief, direction: Floats, size: float) -> float:
    """The mean over all stages and states of KL(π_θ ‖ π_θ+ηx), from belief.theta and the direction x alone."""
    L, S, A = belief.table.shape
    total = 0.0
    for l in range(L):  # noqa: E741
        for s in range(S):
            # KL = Σ_a π(a) (z_a - z'_a) + log Σ_a exp z'_a - log Σ_a exp z_a,  z' = z + η ∂z·x
            top, moved = -math.inf, -math.inf
            for a in range(A):
                z = logit(features, belief.theta, l, s, a, S, A)
                top = max(top, z)
                moved = max(moved, z + size * logit(features, direction, l, s, a, S, A))
            mass, other, mean = 0.0, 0.0, 0.0
            for a in range(A):
                z, change = logit(features, belief.theta, l, s, a, S, A), logit(features, direction, l, s, a, S, A)
                mass += math.exp(z - top)
                other += math.exp(z + size * change - moved)
                mean += belief.table[l, s, a] * size * change
            total += moved - top + math.log(other) - math.log(mass) - mean
    return float(total / (L * S))


@kernel
def logit(features: Floats, theta: Floats, l: int, s: int, a: int, S: int, A: int) -> float:  # noqa: E741
    """z[l,s,a], which is linear in θ."""
    k = features.shape[2]
    if k == 0:
        return float(theta[(l * S + s) * A + a])
    found = 0.0
    for j in range(k):
        found += features[s, a, j] * theta[l * k + j]
    return found
