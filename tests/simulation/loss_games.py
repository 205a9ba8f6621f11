"""Small games for the tests of adversarial losses, built from names."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import SeedRun, simulate

SMALL = "layered:layers=3,states=2,actions=2,seed=1"


def parts_of(learner: str, K: int, environment: str = SMALL, adversary: str = "iid", **options: Any) -> Assembled:
    config = RunConfig(environment=environment, adversary=adversary, learner=learner, episodes=K, seeds=(0,), **options)
    return assemble(config)


def play(parts: Any, K: int, *, seed: int = 0, compiled: bool = True, marks: Any = None) -> SeedRun:
    at = np.array([K] if marks is None else marks, dtype=np.int64)
    speed = "compiled" if compiled else "interpreted"
    return simulate(parts.mdp, parts.learner, parts.privatizer, episodes=K, seed=seed, checkpoints=at, speed=speed)
