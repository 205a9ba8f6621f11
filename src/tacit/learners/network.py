"""Private policy gradients of a neural policy: the release of DP-PG at the tangent features of a network.

    ask       ∇̃ at π_θ, with the features φ_θ = ∂z/∂θ of `tacit.policies.softmax`
    dp-pg     θ_{t+1} = θ_t + η ∇̃
    dp-npg    θ_{t+1} = θ_t + η (F(θ_t) + κI)⁻¹ ∇̃
    dp-trpo   the same, η bounded by a KL radius as in `tacit.learners.gradient`; the divergence is that of the network
    dp-ppo    the first one, several times for each batch

One network serves all steps of an episode. Everything is post-processing of the released gradients; the guarantee is
that of `tacit.release.gradient` in dimension d, the number of weights, with every user's gradient clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.learners.gradient import GradientRequest, SoftmaxLearner, learn_baseline, solve_linear
from tacit.policies import StochasticPolicy
from tacit.policies.softmax import first_weights, network_table, network_tangent
from tacit.protocol import Kernel
from tacit.released.gradients import GradientStatistics, SoftmaxQuery

HALVINGS = 60
"""After so many the step is shorter than rounding; the policy then stays where it is."""


class NetworkParameters(NamedTuple):
    """Public parameters of the kernels; the first ones are those of `GradientParameters`."""

    features: Floats
    """[1,1,0]: there are none that stay."""
    step: float
    barrier: float
    """0: the log-barrier is that of tables and linear policies."""
    damping: float
    low: float
    high: float
    baseline: float
    kl: float
    inputs: Floats
    """[S,n]: what the network is told about a state."""
    active: Floats
    """[S]: 1, or 0 where logits are zero whatever θ is."""
    hidden: int
    exact: bool
    """Whether mean rewards are released without noise, so that their variance of zero is no sign of their absence."""


class NetworkBelief(NamedTuple):
    """Everything a learner knows; a checkpoint. The first fields are those of `GradientBelief`."""

    theta: Floats
    table: Floats
    """[1,S,A]"""
    sampled: Floats
    baseline: Floats
    precision: Floats
    iterates: Ints
    scratch: Floats
    features: Floats
    """[S,A,d]: φ_θ."""


@kernel
def plan_network(parameters: NetworkParameters, belief: NetworkBelief, generator: np.random.Generator) -> None:
    """Write π_θ and φ_θ, and keep θ with probability 1/t."""
    network_table(parameters.inputs, parameters.active, parameters.hidden, belief.theta, belief.table)
    network_tangent(parameters.inputs, parameters.active, parameters.hidden, belief.theta, belief.features)
    belief.iterates[0] += 1
    if generator.random() * belief.iterates[0] < 1.0:
        for j in range(belief.theta.shape[0]):
            belief.sampled[j] = belief.theta[j]


@kernel
def ask_network(parameters: Any, belief: Any, query: SoftmaxQuery, number: int) -> None:
    """First the policy that the users followed; later, where a batch is used again, the policy of the present θ."""
    if number == 0:
        for h in range(belief.table.shape[0]):  # by elements: a copy of a whole array takes seconds to compile
            for s in range(belief.table.shape[1]):
                for a in range(belief.table.shape[2]):
                    query.behaviour[h, s, a] = belief.table[h, s, a]
    else:
        network_table(parameters.inputs, parameters.active, parameters.hidden, belief.theta, belief.table)
        network_tangent(parameters.inputs, parameters.active, parameters.hidden, belief.theta, belief.features)


@kernel
def network_ascend(parameters: NetworkParameters, belief: NetworkBelief, released: GradientStatistics) -> None:
    """One step along the released gradient."""
    # θ_{t+1} = θ_t + η ∇̃
    for j in range(belief.theta.shape[0]):
        belief.theta[j] += parameters.step * released.gradient[j]
    network_baseline(parameters, belief, released)


@kernel
def network_natural(parameters: NetworkParameters, belief: NetworkBelief, released: GradientStatistics) -> None:
    """One step along the natural gradient."""
    step = belief.scratch[0]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
    solve_linear(belief.features, belief.table, parameters.damping, belief.scratch[1:], step)
    for j in range(step.shape[0]):
        belief.theta[j] += parameters.step * step[j]
    network_baseline(parameters, belief, released)


@kernel
def network_trust(parameters: NetworkParameters, belief: NetworkBelief, released: GradientStatistics) -> None:
    """One step along the natural gradient, to the border of the trust region or half-way back, and so on."""
    step, old = belief.scratch[0], belief.scratch[1]
    for j in range(step.shape[0]):
        step[j] = released.gradient[j]
        old[j] = belief.theta[j]
    solve_linear(belief.features, belief.table, parameters.damping, belief.scratch[2:], step)
    along = 0.0
    for j in range(step.shape[0]):
        along += released.gradient[j] * step[j]
    size = parameters.step
    if along > 0.0:
        size = min(size, math.sqrt(2.0 * parameters.kl / along))
    moved = np.empty_like(belief.table)
    halved = 0 if size < math.inf else HALVINGS
    while halved < HALVINGS:
        for j in range(step.shape[0]):
            belief.theta[j] = old[j] + size * step[j]
        network_table(parameters.inputs, parameters.active, parameters.hidden, belief.theta, moved)
        if table_divergence(belief.table, moved) <= parameters.kl:
            break
        size *= 0.5
        halved += 1
    if halved == HALVINGS:
        for j in range(old.shape[0]):
            belief.theta[j] = old[j]
    network_baseline(parameters, belief, released)


@kernel
def network_baseline(parameters: Any, belief: Any, released: GradientStatistics) -> None:
    """The next batch's baseline: the mean of all released mean rewards, weighted by their precision if noisy."""
    if not parameters.exact:
        learn_baseline(parameters, belief, released)
        return
    belief.precision[0] += released.reward[0]
    belief.precision[1] += 1.0
    mean = belief.precision[0] / belief.precision[1]
    belief.baseline[0] = min(max(mean, parameters.low), parameters.high)


@kernel
def table_divergence(table: Floats, other: Floats) -> float:
    """The mean over all stages and states of KL(π ‖ π'); infinite where π' forbids what π does not."""
    L, S, A = table.shape
    total = 0.0
    for l in range(L):  # noqa: E741
        for s in range(S):
            for a in range(A):
                if table[l, s, a] > 0.0:
                    if other[l, s, a] == 0.0:
                        return math.inf
                    total += table[l, s, a] * math.log(table[l, s, a] / other[l, s, a])
    return float(total / (L * S))


UPDATES: Final[Mapping[str, Kernel]] = {
    "dp-pg": network_ascend,
    "dp-npg": network_natural,
    "dp-trpo": network_trust,
    "dp-ppo": network_ascend,
}


class NetworkLearner(SoftmaxLearner):
    """Policy gradients of a network."""

    parameters: NetworkParameters  # type: ignore[assignment]
    ask_kernel = staticmethod(ask_network)
    plan_kernel = staticmethod(plan_network)

    def begin(self) -> NetworkBelief:  # type: ignore[override]
        """The belief before anybody came: small random weights, every action alike."""
        public, shape = self.parameters, self.shape
        d, S, A = shape.dimension, shape.num_states, shape.num_actions
        rows = (d + 1 if public.damping > 0.0 else 1) + int(public.kl < math.inf)
        theta = first_weights(public.inputs.shape[1], public.hidden, A)
        common = super().begin()._replace(theta=theta, sampled=theta.copy(), scratch=np.zeros((rows, d)))
        return NetworkBelief(*common, features=np.zeros((S, A, d)))

    def query(self, belief: Any) -> SoftmaxQuery:
        """The gradient at the network of the belief, of users who follow it."""
        return SoftmaxQuery(belief.features, belief.table, belief.table.copy(), belief.baseline)

    def policy_at(self, theta: Floats) -> StochasticPolicy:
        """The policy of these weights, at every step of an episode."""
        public, shape = self.parameters, self.shape
        table = np.zeros((1, shape.num_states, shape.num_actions))
        network_table(public.inputs, public.active, public.hidden, np.ascontiguousarray(theta), table)
        return StochasticPolicy(np.broadcast_to(table, (shape.horizon, *table.shape[1:])).copy())


def make_network(
    request: GradientRequest, inputs: Floats, active: Floats, hidden: int, *, exact: bool
) -> NetworkLearner:
    """The learner that a request names, over a network with these inputs; `exact`: mean rewards have no noise."""
    public: Any = NetworkParameters(*request.parameters, inputs=inputs, active=active, hidden=hidden, exact=exact)
    return NetworkLearner(
        name=request.name,
        shape=request.shape,
        parameters=public,
        update_kernel=UPDATES[request.name],
        constants=request.constants,
        users_per_batch=request.users_per_batch,
        releases=request.releases,
    )
