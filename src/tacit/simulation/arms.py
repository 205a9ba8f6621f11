"""Simulation only: fresh users in the arms of a trial, and what they release.

A trial's users are nobody's users before: they come from coins of their own, the child `TRIAL_STREAM` of a run's seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tacit.arrays import Floats
from tacit.data.arms import as_one_step, require_bounds, shares_of
from tacit.data.simulator_users import Players
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.live import LiveWorld
from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import NotSupported, require, require_count
from tacit.planning.dynamic import value_of
from tacit.policies import Policy
from tacit.randomness import SimulationNoise
from tacit.release.arms import ArmRelease
from tacit.released.arms import ArmStatistics

TRIAL_STREAM: Final = 6
"""The coins of a trial: a child of the seed that no part of a run uses."""
CHUNK: Final = 50_000
"""Trajectories in memory at once."""

Lived = TabularMDP | LiveWorld
"""Worlds whose users can be in an arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnUnit:
    """The world's own unit of returns: own = scale · G + offset for G, the sum of rewards in [0, 1]."""

    scale: float
    offset: float
    horizon: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest return."""
        return self.offset, self.offset + self.scale * self.horizon

    def inner(self, bounds: Sequence[float]) -> tuple[float, float]:
        """Bounds in the own unit as bounds of G."""
        low, high = require_bounds(bounds)
        return (low - self.offset) / self.scale, (high - self.offset) / self.scale


def trial_world(environment: object) -> tuple[Lived, ReturnUnit]:
    """The world in which people of an environment live, and the unit of their returns."""
    lived = environment.mdp if isinstance(environment, SeenMDP) else environment
    if isinstance(lived, TabularMDP):
        H = lived.horizon
        return lived, ReturnUnit(scale=lived.reward_scale, offset=lived.reward_offset * H, horizon=H)
    if isinstance(lived, LiveWorld):
        return lived, ReturnUnit(scale=lived.high - lived.low, offset=lived.low * lived.horizon, horizon=lived.horizon)
    raise NotSupported(
        "arms are policies of tabular and live worlds; adversarial losses and doses have no return in a declared range"
    )


def release_arms(
    world: Lived, policies: Sequence[Policy], arms: ArmRelease, *, bounds: tuple[float, float], seed: int
) -> ArmStatistics:
    """Let fresh users come, an arm after the other, and release their rounded returns.

    `bounds` are those of G, the sum of rewards in [0, 1].
    """
    require(len(policies) == len(arms.users), f"{len(arms.users)} arms need a policy each", len(policies))
    children = np.random.SeedSequence(require_count("seed", seed, 0), spawn_key=(TRIAL_STREAM,)).spawn(3)
    lives, rounding, noise = (np.random.Generator(np.random.PCG64(child)) for child in children)
    shares = [_shares(world, policy, n, bounds, lives) for policy, n in zip(policies, arms.users, strict=True)]
    return arms.release(as_one_step(shares, rounding), SimulationNoise(noise))


def true_value(world: Lived, policy: Policy) -> float | None:
    """Simulation only: E[G] of a policy; None in a live world, where nobody knows it."""
    if not isinstance(world, TabularMDP):
        return None
    V = value_of(np.array(world.stage_P), np.array(world.stage_r), policy.probabilities(world.num_actions))
    return float(world.rho @ V[0])


def _shares(world: Lived, policy: Policy, users: int, bounds: tuple[float, float], rng: np.random.Generator) -> Floats:
    """[users]: everybody's return as a share of the declared range."""
    sizes = [min(CHUNK, users - first) for first in range(0, users, CHUNK)]
    if isinstance(world, TabularMDP):
        prepared = prepare_world(world)
        return np.concatenate([shares_of(roll_out(prepared, policy, n, rng), bounds) for n in sizes])
    players = Players(world, seed=0)
    try:
        return np.concatenate([shares_of(players.play(policy, n, rng), bounds) for n in sizes])
    finally:
        players.close()
