"""SDP-PE+: policy elimination in polynomial time, with the shuffler's noise inside its widths.

    for every stage but the last:   cover the active set { d : <u,d> ≥ c } of the combined model, release that batch
    last stage:                     exploit (greedy for r̂ - b), release nothing

What [bai2025secure] leaves open is how to do without a list of all policies. Here the active set is one linear
constraint in occupancy space (its mixtures included), coverage is Frank-Wolfe with an exact oracle of a few dynamic
programs, and everything is planned in ONE model, all batches combined by inverse variance (post-processing of
released counts): a constraint in one kernel and an objective in another would not be a linear program any more. That
also does away with crude exploration. The schedule is noise-aware: few large stages.

What is proved: privacy (the batches are disjoint, the sizes are public) and the certificate of the coverage. What is
only measured: regret, and that the optimal policy is not lost (0 of 3600 runs at z = 1). See docs/shuffle-learners.md.

Cost per stage: a few to a few dozen backward inductions, O(H S² A) each.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tacit.errors import require, require_count, require_real
from tacit.learners.contract import PlanningLearner, StageRequest, statistics_of
from tacit.learners.schedules import backward_geometric, exploration_budget, given_stages, least_stage
from tacit.planning.coverage import cover, policy_of
from tacit.planning.public_rows import public_rows
from tacit.planning.widths import DEFAULT_Z, ConfidenceModel, combine, confidence_model, first_states, greedy
from tacit.policies import DeterministicPolicy, StochasticPolicy, uniform_policy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.batches import BatchNoise, BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics

TOLERANCE: Final = 0.1
"""Coverage is within this share of the optimum."""
EVERYTHING: Final = BatchQuery(layer=None, failure_prob=None)


class StageBelief(NamedTuple):
    """What was released so far, batch by batch; the model follows from it."""

    batches: tuple[CountStatistics, ...]


class SDPPEPlus(PlanningLearner[StageBelief, BatchQuery]):
    """Stages of covering exploration of the active set, then exploitation.

    >>> class Exact:
    ...     def batch_std(self, users, query):
    ...         return 0.0
    ...     def batch_precision(self, users, query):
    ...         return 0.0
    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> learner = SDPPEPlus(shape=shape, episodes=20_000, noise=Exact())
    >>> sum(learner.stages), len(learner.batches)
    (20000, 7)
    """

    asks = BatchQuery
    over_support = True

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        noise: BatchNoise,
        z: float | None = None,
        name: str = "sdp-pe-plus",
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        require(shape.staged, "sdp-pe-plus keeps the steps of an episode apart (staged)", shape.staged)
        self.name = name
        self.shape = shape
        self.constants: Constants = "practical"
        self._z = require_real("z", DEFAULT_Z if z is None else z, low=0.0)
        self.z: float | None = self._z
        episodes = require_count("episodes", episodes)
        if sizes is None:
            std = noise.batch_std(max(2, episodes // 8), EVERYTHING)
            budget = exploration_budget(episodes, shape, std)
            self.stages = (*backward_geometric(budget, first=least_stage(std, shape)), episodes - budget)
            """Users of each stage; the last one exploits."""
        else:
            self.stages = given_stages(sizes, episodes)
        self.batches = tuple(PlannedBatch(users=users, query=EVERYTHING) for users in self.stages[:-1])

    def begin(self) -> StageBelief:
        """Nothing was released."""
        return StageBelief(batches=())

    def plan(self, belief: StageBelief, rng: np.random.Generator) -> tuple[StageBelief, Plan[BatchQuery]]:
        """Cover the active set, or exploit if this is the last stage."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        stage = len(belief.batches)
        if stage == 0:
            first = uniform_policy(H, S, A)
            return belief, Plan(policy=first, users=self.stages[0], query=EVERYTHING)
        model = self.model(belief)
        if stage == len(self.stages) - 1:
            # argmax_π V^π(r̂ - b): no more exploration, and nobody has to report
            actions = greedy(model.P, model.lower, rng.random((H, S)))
            return belief, Plan(policy=DeterministicPolicy(actions), users=None, query=None)
        found = cover(model.P, model.rho, model.upper, model.floor, tolerance=TOLERANCE)
        policy = StochasticPolicy(policy_of(found.occupancy))
        return belief, Plan(policy=policy, users=self.stages[stage], query=EVERYTHING)

    def update(self, belief: StageBelief, released: PrivateStatistics[CountStatistics]) -> StageBelief:
        """Keep the batch."""
        return StageBelief(batches=(*belief.batches, statistics_of(released, CountStatistics)))

    def model(self, belief: StageBelief) -> ConfidenceModel:
        """The one model in which everything is planned."""
        weights = inverse_variance_weights(belief.batches)
        counts = combine(belief.batches, weights)
        return confidence_model(counts, first_states(counts), self._z, public_rows(self.shape))


def inverse_variance_weights(batches: tuple[CountStatistics, ...]) -> tuple[float, ...]:
    """w_i = v m_i / (σ_i² + v m_i), m_i = n_i / (S A), v = 1/4: how much a batch's counts deserve to count."""
    weights = []
    for batch in batches:
        _, S, A = batch.visits.shape
        signal = 0.25 * float(batch.users[0]) / (S * A)
        weights.append(signal / (float(batch.variance[0]) + signal))
    return tuple(weights)


def make_sdp_pe_plus(request: StageRequest) -> SDPPEPlus:
    """The learner that a request amounts to."""
    request.practical_only("sdp-pe-plus")
    return SDPPEPlus(
        shape=request.shape, episodes=request.episodes, noise=request.noise, z=request.z, sizes=request.sizes
    )
