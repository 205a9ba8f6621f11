"""S4: a learner that is written down and read back between every two steps plans bit for bit the same policies."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.documents import canonical
from tacit.learners.table import LEARNERS
from tacit.policies import policy_to_dict
from tacit.protocol import Totals
from tacit.randomness import SimulationNoise, seed_streams
from tacit.released.batches import BatchQuery
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.study.state import LearnerState

RIVER = {"environment": "riverswim:states=3,horizon=4", "episodes": 30}
STAGES = {"environment": "riverswim:states=2,horizon=3", "episodes": 400}
GRADIENTS = {"environment": "riverswim:states=3,horizon=4", "episodes": 250, "batch": 50}
LAYERS = {"environment": "layered:layers=3,states=2,actions=2", "episodes": 12, "adversary": "iid"}
ROWS = {"environment": "linear-bandit:features=3,actions=2", "episodes": 400}
SIZES = {
    Totals: RIVER, BatchQuery: STAGES, SoftmaxQuery: GRADIENTS, LossQuery: LAYERS, ReturnQuery: STAGES,
    MomentQuery: ROWS,
}  # fmt: skip
SIMULATED = ("optimal", "jdp-linucb", "ldp-linucb", "sdp-linucb")
"""Only for simulations: what knows the world, and published baselines with printed noise."""
OPTIONS = {"dp-ppo": "dp-ppo:epochs=3"}
CASES = {OPTIONS.get(name, name): SIZES[row.asks] for name, row in LEARNERS.items() if name not in SIMULATED}


def written(mind: LearnerState) -> LearnerState:
    return LearnerState.read(mind.rows(), ("tacit",))


def policies(case: str, through_bytes: bool) -> tuple[list[bytes], tuple]:
    """All planned policies of a short run, the last one included, and the last mind."""
    parts = assemble(RunConfig.from_dict({"learner": case, "seeds": [3], **CASES[case]}))
    learner, privatizer, episodes = parts.learner, parts.privatizer, parts.config.episodes
    streams = seed_streams(3)
    sampler = parts.world.sampler(learner, episodes=episodes, seed=3)
    keep = written if through_bytes else (lambda mind: mind)
    mind = keep(LearnerState(belief=learner.begin(), plan=None, memory=privatizer.begin(), rng=streams.learner))
    found, done = [], 0
    while done + learner.least <= episodes:
        belief, plan = learner.plan(mind.belief, mind.rng)
        mind = keep(LearnerState(belief=belief, plan=plan, memory=mind.memory, rng=mind.rng))
        left = episodes - done
        number = left if mind.plan.users is None else min(mind.plan.users, left)
        users = sampler.draw(mind.plan, number, streams.world)
        found.extend(canonical(policy_to_dict(policy)) for policy, _ in mind.plan.arms(number))
        if mind.plan.query is not None and (done + number < episodes or learner.uses_last):
            for question in range(mind.plan.releases):
                belief, query = learner.ask(mind.belief, mind.plan, question)
                mind = keep(LearnerState(belief=belief, plan=mind.plan, memory=mind.memory, rng=mind.rng))
                state, released = privatizer.release(mind.memory, users, query, SimulationNoise(streams.noise))
                belief = learner.update(mind.belief, released)
                mind = keep(LearnerState(belief=belief, plan=mind.plan, memory=state, rng=mind.rng))
        done += number
    found.append(canonical(policy_to_dict(learner.policy(mind.belief, mind.plan.policy))))
    return found, mind.rows()


LONG = ("ldp-psrl", "uob-lbps", "uc-o-reps", "uob-reps")
"""Learners whose plans take seconds."""


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.slow if case in LONG else ()) for case in CASES])
def test_policies_are_the_same_through_bytes(case):
    straight, through = policies(case, through_bytes=False), policies(case, through_bytes=True)
    assert len(straight[0]) >= 2
    assert straight == through


def test_coins_go_on_where_they_were():
    coins = np.random.default_rng(5)
    coins.random(7)
    mind = LearnerState(belief=None, plan=None, memory=None, rng=coins)
    assert written(mind).rng.random() == coins.random()
