"""A package beside tacit: an environment, a learner, a mechanism and a privatizer, with public imports only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacit import TabularMDP
from tacit.learners.contract import CountRequest, PlanningLearner
from tacit.learners.table import LearnerRow
from tacit.planning.dynamic import backward_induction
from tacit.policies import DeterministicPolicy, uniform_policy
from tacit.protocol import TOTALS, Constants, Plan, PrivateStatistics, Privatizer, Totals
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.table import PrivatizerRow, make_privatizer
from tacit.released.counts import CountShape, CountStatistics


def toy_doors(*, horizon: int = 3) -> TabularMDP:
    """One door pays at once, the other twice as much but only from the room behind it."""
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = 1.0
    P[0, 1] = 0.2, 0.8
    P[1, :, 1] = 1.0
    return TabularMDP(P=P, r=[[0.4, 0.0], [0.8, 0.8]], rho=[1.0, 0.0], horizon=horizon, name="toy-doors")


class Commit(PlanningLearner[CountStatistics | None, Totals]):
    """Explore with a part of the users, then believe what they saw."""

    asks = Totals

    def __init__(self, *, name: str, shape: CountShape, explorers: int) -> None:
        self.name, self.shape, self.explorers = name, shape, explorers
        self.constants: Constants = "none"
        self.z: float | None = None

    def begin(self) -> CountStatistics | None:
        return None

    def plan(self, belief: CountStatistics | None, coins: np.random.Generator) -> tuple[Any, Plan[Totals]]:
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        if belief is None:
            return belief, Plan(policy=uniform_policy(H, S, A), users=self.explorers, query=TOTALS)
        N = np.maximum(belief.transitions, 0.0)
        P = N / np.maximum(N.sum(axis=3, keepdims=True), 1.0)
        r = np.clip(belief.rewards / np.maximum(belief.visits, 1.0), 0.0, 1.0)
        return belief, Plan(policy=DeterministicPolicy(backward_induction(P, r, H)[2]), users=None, query=None)

    def update(self, belief: CountStatistics | None, released: PrivateStatistics[CountStatistics]) -> CountStatistics:
        return released.statistics


def make_commit(request: CountRequest) -> Commit:
    explorers = max(1, request.episodes // int(request.options.get("part", "4")))
    return Commit(name=request.name, shape=request.shape, explorers=explorers)


commit = LearnerRow(summary="explore, then commit", asks=Totals, build=make_commit, options={"part": ("4", "2")})


def cautious(request: PrivacyRequest) -> Privatizer[Any, Any, Any]:
    """The Gaussian tree of half the epsilon: a privatizer that promises what was asked and gives more."""
    found = make_privatizer(replace(request, mechanism="factorization", epsilon=(request.epsilon or 1.0) / 2.0))
    return replace(found, claim=make_claim(request), mechanism="toy-cautious")  # type: ignore[type-var]


curator = PrivatizerRow(
    name="toy-cautious", trust="central", answers=Totals, build=cautious, summary="twice the noise that is needed"
)
