"""The contract of policy gradient learners: they see one noisy batch gradient at a time and nothing else.

begin() -> belief       θ₁ = 0: every action alike
plan kernel             writes the policy π_θ into the belief, and keeps θ_U, a uniform choice among the iterates
ask kernel              writes the policy at which the gradient of the batch is asked for
update kernel           takes a released gradient in
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput
from tacit.kernels import kernel
from tacit.learners.contract import KernelLearner
from tacit.policies import AnyPolicy, GaussianPolicy, StochasticPolicy
from tacit.policies.softmax import softmax_table
from tacit.protocol import Constants, Kernel, LearnerKernels, Plan, Query, copy_state
from tacit.released.gradients import DoseQuery, GradientShape, GradientStatistics, SoftmaxQuery

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
