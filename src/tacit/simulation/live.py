"""Simulation only: live worlds for the loop. Users step through an environment; everything else stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.arrays import Ints
from tacit.data.simulator_users import LiveCounts, LiveTrajectories, Players, count_live, join_live, join_trajectories
from tacit.environments.live import LiveWorld
from tacit.errors import require
from tacit.policies import tabular
from tacit.protocol import Kernel, Plan, Query
from tacit.released.batches import BatchQuery
from tacit.simulation.judges.live import LiveJudge


class LiveSampler:
    """Users of a live world: trajectories or counts, as the queries want them."""

    act: Kernel | None = None
    buffers: Any = None
    chunk = 1_000_000

    def __init__(self, world: LiveWorld, *, seed: int, counts: bool) -> None:
        self._world, self._counts = world, counts
        self._players = Players(world, seed=seed)

    def arrays(self, done: int, users: int) -> Any:
        """There is no kernel to draw anything from."""
        return None

    def draw(self, plan: Plan[Query], users: int, rng: np.random.Generator) -> LiveTrajectories | LiveCounts:
        """The groups in the order that the plan has them in."""
        arms = [(tabular(policy), count) for policy, count in plan.arms(users) if count > 0]
        parts = self._players.play_groups(arms, rng)
        alone = users == 1 and not isinstance(plan.query, BatchQuery)
        if not self._counts or alone:
            return parts[0] if len(parts) == 1 else join_trajectories(parts)
        counted = [count_live(self._world, part, rng) for part in parts]
        return join_live(counted) if plan.groups else counted[0]


class LiveCountWorld:
    """A live world for learners of counts."""

    counts = True

    def __init__(self, world: LiveWorld) -> None:
        self.environment, self.name = world, world.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless horizon, states and actions agree."""
        world = self.environment
        wanted = (world.horizon, world.num_states, world.num_actions)
        sizes = (shape.horizon, shape.num_states, shape.num_actions)
        require(sizes == wanted, f"the {part} must have the horizon, states, actions {wanted} of the world", sizes)

    def values(self) -> tuple[float, float]:
        """Nobody knows them."""
        return float("nan"), float("nan")

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> LiveSampler:
        """Fresh environments for every run."""
        return LiveSampler(self.environment, seed=seed, counts=self.counts)

    def judge(self, learner: Any, checkpoints: Ints) -> LiveJudge:
        """Returns, and no regret."""
        return LiveJudge(self.environment, checkpoints)


class LivePathWorld(LiveCountWorld):
    """A live world for learners of gradients or returns, which take whole trajectories."""

    counts = False
