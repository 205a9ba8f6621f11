"""LinUCB on noisy running sums, as papers print it: joint DP, local and shuffle trust differ in their noise alone.

    after every report    V = G̃ + 2Υ I,  θ̂ = V⁻¹ ṽ,  a = argmax ⟨θ̂, x⟩ + β ‖x‖_{V⁻¹}
    Υ = √2 s (4 √d + 2 ln(2K/α))      s the deviation of an entry of G̃ beside the diagonal
    β = (√(2 ln(2/α) + ln det V − d ln Υ) + √(3Υ))/2 + γ,  γ = s (√d + √(2 ln(2K/α)))/√Υ

with α = 0.05, rewards between −1/2 and 1/2 and |θ| ≤ 1/2, for every slot. Under central trust ("jdp", Shariff and
Sheffet 2018) and local trust ("ldp", Zheng et al. 2020) users come one by one, under shuffle trust ("sdp", Chowdhury
and Zhou 2022) in batches of K^(3/5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from tacit.errors import InvalidInput, NotSupported
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.linear import FeatureRequest
from tacit.policies import LinearPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.moments import MomentQuery, MomentStatistics, empty_moments
from tacit.types import Trust

PUBLISHED: Final[Mapping[str, Trust]] = {"jdp-linucb": "central", "ldp-linucb": "local", "sdp-linucb": "shuffle"}
"""The trust model of each."""
FAILURE: Final = 0.05
REPORT: Final = MomentQuery(lots=False)


class PublishedLinUCB(PlanningLearner[MomentStatistics, MomentQuery]):
    """LinUCB with printed shifts and widths."""

    asks = MomentQuery
    constants: Constants = "theory"
    z: float | None = None

    def __init__(self, request: FeatureRequest) -> None:
        if request.constants not in (None, "theory") or request.z is not None:
            raise InvalidInput(f"{request.name} has printed widths: remove constants and z")
        each = getattr(request.noise, "users_per_batch", None)
        if each is None:
            raise NotSupported(f"{request.name} has printed noise: use calibration 'paper', or lin-ucb")
        self.name, self.shape, self.users_per_batch = request.name, request.shape, int(each)
        self.least, self._users = self.users_per_batch, request.episodes

    def begin(self) -> MomentStatistics:
        """Nothing is known."""
        return empty_moments(self.shape)

    def plan(self, belief: MomentStatistics, rng: np.random.Generator) -> tuple[MomentStatistics, Plan[MomentQuery]]:
        """Optimism by the sums so far."""
        M, d = self.shape.slots, self.shape.features
        if belief.users[0] == 0:
            policy = LinearPolicy(np.zeros((1, M, d)), self.shape.actions, uniform=True)
        else:
            policy = self._optimistic(belief)
        return belief, Plan(policy=policy, users=self.users_per_batch, query=REPORT)

    def _optimistic(self, belief: MomentStatistics) -> LinearPolicy:
        d, tail = self.shape.features, math.log(2.0 * self._users / FAILURE)
        s = np.sqrt(belief.reward_variance)
        upsilon = math.sqrt(2.0) * s * (4.0 * math.sqrt(d) + 2.0 * tail)
        V = belief.gram + 2.0 * upsilon[:, None, None] * np.eye(d)
        # the bound fails with probability α only; where it does, eigenvalues are kept at what it says
        w, U = np.linalg.eigh(V)
        w = np.maximum(w, upsilon[:, None])
        along = np.matmul(U.transpose(0, 2, 1), belief.rewards[:, :, None])[:, :, 0]
        mean = np.matmul(U, (along / w)[:, :, None])[:, :, 0]
        gamma = s * (math.sqrt(d) + math.sqrt(2.0 * tail)) / np.sqrt(upsilon)
        seen = np.sqrt(2.0 * math.log(2.0 / FAILURE) + np.log(w / upsilon[:, None]).sum(axis=1))
        beta = 0.5 * (seen + np.sqrt(3.0 * upsilon)) + gamma
        return LinearPolicy(mean[None], self.shape.actions, widths=U * (beta[:, None] / np.sqrt(w))[:, None])

    def update(self, belief: MomentStatistics, released: PrivateStatistics[MomentStatistics]) -> MomentStatistics:
        """Running sums take the place of those before."""
        return statistics_of(released, MomentStatistics)


def make_published(request: FeatureRequest) -> PublishedLinUCB:
    """The learner of a paper."""
    return PublishedLinUCB(request)
