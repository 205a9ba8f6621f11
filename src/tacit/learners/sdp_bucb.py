"""SDP-BUCB: optimism in batches, on the same private batches as SDP-PE+.

Instead of covering all policies that may be optimal, each batch runs a mixture of optimistic policies, planned one
after the other with hallucinated visits (`optimistic_policies`). Better than SDP-PE+ where good policies are easy to
find (random models), no better on RiverSwim, and with a larger variance: the second learner, not the default. Nothing
about its regret is proved.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.learners.contract import PlanningLearner, StageRequest, statistics_of
from tacit.learners.schedules import given_stages, grouped, growing_batches, least_stage, split_evenly
from tacit.learners.sdp_pe_plus import EVERYTHING, StageBelief, inverse_variance_weights
from tacit.planning.widths import DEFAULT_Z, combine, confidence_model, first_states, greedy, optimistic_policies
from tacit.policies import DeterministicPolicy, uniform_policy
from tacit.protocol import Constants, Plan, Private
from tacit.released.batches import BatchNoise, BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics

__all__ = ["SDPBUCB"]

POLICIES: Final = 32
"""How many optimistic policies share a batch."""


class SDPBUCB(PlanningLearner[StageBelief, BatchQuery]):
    """Optimistic mixtures in growing batches; the last batch exploits and releases nothing."""

    asks = BatchQuery

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        noise: BatchNoise,
        z: float | None = None,
        name: str = "sdp-bucb",
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        require(shape.staged, "sdp-bucb keeps the steps of an episode apart (staged)", shape.staged)
        self.name = name
        self.shape = shape
        self.constants: Constants = "practical"
        self._z = require_real("z", DEFAULT_Z if z is None else z, low=0.0)
        self.z: float | None = self._z
        episodes = require_count("episodes", episodes)
        std = noise.batch_std(max(2, episodes // 8) if sizes is None else max(sizes), EVERYTHING)
        own = growing_batches(episodes, first=least_stage(std, shape) / 2.0) if sizes is None else ()
        self.stages = own or given_stages(sizes, episodes)
        """Users of each stage; the last one exploits."""
        if len(self.stages) < 2:
            raise InvalidInput(f"sdp-bucb needs at least two batches, got {episodes} episodes; run more")
        self.batches = tuple(PlannedBatch(users=users, query=EVERYTHING) for users in self.stages[:-1])
        self.std = std

    def begin(self) -> StageBelief:
        """Nothing was released."""
        return StageBelief(batches=())

    def plan(self, belief: StageBelief, coins: np.random.Generator) -> tuple[StageBelief, Plan[BatchQuery]]:
        """A mixture of optimistic policies, everybody assigned by the learner's own coins."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        stage = len(belief.batches)
        if stage == 0:
            first = uniform_policy(H, S, A)
            return belief, Plan(policy=first, users=self.stages[0], query=EVERYTHING)
        counts = combine(belief.batches, inverse_variance_weights(belief.batches))
        model = confidence_model(counts, first_states(counts), self._z)
        if stage == len(self.stages) - 1:
            actions = greedy(model.P, model.lower, coins.random((H, S)))
            return belief, Plan(policy=DeterministicPolicy(actions), users=None, query=None)
        users = self.stages[stage]
        J = min(POLICIES, users)
        policies = np.zeros((J, H, S), dtype=np.int64)
        enough = max(1.0, 4.0 * self.std)
        drawn = coins.random((J, H, S))
        optimistic_policies(
            model.P, model.rho, model.r, model.n, counts.variance, self._z, users / J, enough, drawn, policies
        )
        groups = grouped(policies, split_evenly(users, J))
        plan = Plan(policy=groups[0][0], users=users, query=EVERYTHING, groups=groups)
        return belief, plan

    def update(self, belief: StageBelief, released: Private[CountStatistics]) -> StageBelief:
        """Keep the batch."""
        return StageBelief(batches=(*belief.batches, statistics_of(released, CountStatistics)))


def make_sdp_bucb(request: StageRequest) -> SDPBUCB:
    """The learner that a request amounts to."""
    request.practical_only("sdp-bucb")
    return SDPBUCB(
        shape=request.shape, episodes=request.episodes, noise=request.noise, z=request.z, sizes=request.sizes
    )
