"""Environments whose every step is known, for tests of live worlds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from tacit.environments.gym import TabularEnv
from tacit.environments.registry import make


class Fuse(gymnasium.Env[Any, Any]):
    """Burns down from 3 by the action (1 or 2) and ends at 0 or below; a step pays what is left before it, minus 2."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def __init__(self, first: int = 3) -> None:
        self._first = self._left = first

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._left = self._first
        return self._left, {}

    def step(self, action: int) -> Any:
        reward = float(self._left - 2)
        self._left -= int(action)
        return max(self._left, 0), reward, self._left <= 0, False, {}


class Pair(gymnasium.Env[Any, Any]):
    """A single step; the observation is a point of a square, drawn anew in every episode."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._at = self.np_random.uniform(-1.0, 1.0, size=2).astype(np.float32)
        return self._at, {}

    def step(self, action: int) -> Any:
        return self._at, float(action), True, False, {}


def fuse(first: int = 3) -> Fuse:
    return Fuse(first)


def river() -> TabularEnv:
    return TabularEnv(make("riverswim"))


def no_environment() -> int:
    return 0


def broken_maker() -> Fuse:
    raise OSError("no valve")


def last_action(world: Any) -> Any:
    """A baseline: the last action everywhere."""
    return np.full(world.num_states, world.num_actions - 1)


def no_baseline(world: Any) -> str:
    return world.name


def broken_baseline(world: Any) -> str:
    raise ArithmeticError("no dose")


def quadrant(observation: Any) -> int:
    return int(observation[0] > 0) + 2 * int(observation[1] > 0)


def too_far(observation: Any) -> int:
    return 99


class Odd(Fuse):
    """A fuse that pays what is no number at its second step, and shows a place beyond its space if it is told to."""

    def __init__(self, first: int = 3, pays: str = "nan", shown: int = 0) -> None:
        super().__init__(first)
        self._pays, self._shown = float(pays), shown

    def step(self, action: int) -> Any:
        place, reward, ended, cut, info = super().step(action)
        return place + self._shown, self._pays if place < 2 else reward, ended, cut, info
