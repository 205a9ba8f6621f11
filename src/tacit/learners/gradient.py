"""The contract of policy gradient learners: they see one noisy batch gradient at a time and nothing else.

begin() -> belief       θ₁ = 0: every action alike
plan kernel             writes the policy π_θ into the belief, and keeps θ_U, a uniform choice among the iterates
ask kernel              writes the policy at which the gradient of the batch is asked for
update kernel           takes a released gradient in

The options of policy gradient learners, `dp-pg:policy=linear,features=8,clip=2`; `number` stands for numbers.
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
