"""Fair lots between the actions of a one-step study: the learner of trials under local trust, which only compares.

    every stage   every device draws one of the actions by a fair lot and says one randomized bit about the return
    then          everybody follows the action with the largest share of ones

It is known to studies alone: a simulation compares arms by `tacit.trial`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.errors import require
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.policies import AnyPolicy, DeterministicPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.counts import CountShape
from tacit.released.returns import BitNoise, ReturnQuery, ReturnStatistics

NAME: Final = "fair-lots"
"""What a design calls it."""


class AssignmentBelief(NamedTuple):
    """What was released so far, added up."""

    stage: int
    ones: Floats
    """[actions]: de-biased."""
    users: Floats
    """[actions]"""


class UniformAssignment(PlanningLearner[AssignmentBelief, ReturnQuery]):
    """Stages in which as many people draw each of the actions."""

    asks = ReturnQuery

    def __init__(self, *, shape: CountShape, noise: BitNoise, stages: int, users: int) -> None:
        self.name, self.shape, self.noise = NAME, shape, noise
        self.constants: Constants = "none"
        self.z: float | None = None
        self.batch_sizes = (users,) * stages
        actions, sizes = shape.num_actions, (shape.horizon, shape.num_states)
        require(sizes == (1, 1), "lots are drawn between the actions of one step in one state", sizes)
        must = f"fair lots need as many people in each of {actions} arms"
        require(users % actions == 0, must, users, f"ask a multiple of {actions}")

    def begin(self) -> AssignmentBelief:
        """Nobody was asked."""
        return AssignmentBelief(stage=0, ones=np.zeros(self.shape.num_actions), users=np.zeros(self.shape.num_actions))

    def plan(self, belief: AssignmentBelief, rng: np.random.Generator) -> tuple[AssignmentBelief, Plan[ReturnQuery]]:
        """Everybody draws an action; after the last stage the better one is served."""
        if belief.stage >= len(self.batch_sizes):
            return belief, Plan(policy=self.policy(belief), users=None, query=None)
        users, actions = self.batch_sizes[belief.stage], self.shape.num_actions
        groups = tuple((_always(action), users // actions) for action in range(actions))
        query = ReturnQuery(groups=tuple(count for _, count in groups), bit="mean", level=1.0)
        return belief, Plan(policy=groups[0][0], users=users, query=query, groups=groups)

    def update(self, belief: AssignmentBelief, released: PrivateStatistics[ReturnStatistics]) -> AssignmentBelief:
        """Add the answers of every action up."""
        answers = statistics_of(released, ReturnStatistics).first(self.shape.num_actions)
        users = answers.groups.astype(np.float64)
        ones = belief.ones + self.noise.debias(answers.ones, users)
        return AssignmentBelief(stage=belief.stage + 1, ones=ones, users=belief.users + users)

    def policy(self, belief: AssignmentBelief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The action with the largest mean, the first one among equals."""
        return _always(int((belief.ones / np.maximum(belief.users, 1.0)).argmax()))


def _always(action: int) -> DeterministicPolicy:
    return DeterministicPolicy(np.full((1, 1), action, dtype=np.int64))
