"""The world of watching: somebody opens the app, and every ten pages it is decided which topics come first.

    person       one session of the model of `session`
    decision     every ten pages: rank by interest alone, or videos of topics 0-4, 5-9, 10-14 or 15-19 first
    observation  the mean quality of what was watched so far, as the service rates videos once they were watched;
                 0 before anything was
    reward       minutes watched on these ten pages, 0 to 40
    end          who has no minutes left leaves; a session is cut after 120 pages

Interests stay on the device, which ranks by them. Nobody is told which topics are good. `WatchingEnv` is one person,
`WatchingVectorEnv` many, compiled as a whole.
"""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from papers.watching.session import MINUTES, SLATE, TOPICS, VIDEO, pages, qualities
from tacit.arrays import Floats, Ints

__all__ = ["ACTIONS", "DECISIONS", "GROUPS", "PAGES", "WORST", "Audience", "WatchingEnv", "WatchingVectorEnv"]

PAGES: Final = 10
"""Of one decision."""
DECISIONS: Final = 12
GROUPS: Final = ((0, 0), (0, 5), (5, 10), (10, 15), (15, 20))
"""By action: the first topic that is promoted, and the one after the last."""
ACTIONS: Final = ("interest", "topics 0-4", "topics 5-9", "topics 10-14", "topics 15-19")
WORST: Final = 10.0
"""No mean quality is as far from 0 as this."""


class Audience:
    """Some people at once, from one generator of coins."""

    interests: Floats
    """[person, topic]"""
    left: Floats
    """[person]: minutes."""
    rated: Floats
    """[person, 2]: the sum of the qualities of what was watched, and how many videos that were."""

    def __init__(self) -> None:
        self._means, self._groups = qualities(), np.array(GROUPS, dtype=np.int64)
        self._slate = np.zeros(SLATE, dtype=np.int64)
        self.interests, self.left, self.rated = np.zeros((0, TOPICS)), np.zeros(0), np.zeros((0, 2))

    def open(self, count: int, coins: np.random.Generator) -> Floats:
        """New people; what is observed of them."""
        self.interests = coins.uniform(-1.0, 1.0, size=(count, TOPICS))
        self.left, self.rated = np.full(count, MINUTES), np.zeros((count, 2))
        return self.observed()

    def replace(self, who: Any, coins: np.random.Generator) -> None:
        """New people in the places of these."""
        self.interests[who] = coins.uniform(-1.0, 1.0, size=(int(np.count_nonzero(who)), TOPICS))
        self.left[who], self.rated[who] = MINUTES, 0.0

    def decide(self, actions: Ints, coins: np.random.Generator) -> Floats:
        """Ten pages for everybody; the minutes they watched."""
        minutes = np.zeros(len(self.left))
        promoted = self._groups[actions]
        pages(
            PAGES, self.interests, self.left, self.rated, promoted, self._means, self._slate, coins, minutes
        )  # fmt: skip
        return minutes

    def observed(self) -> Floats:
        """[person, 1]: the mean quality of what was watched, 0 before anything was."""
        return np.asarray((self.rated[:, 0] / np.maximum(self.rated[:, 1], 1.0))[:, np.newaxis])


def spaces() -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Discrete]:
    """Of one person: observation and actions."""
    seen = gymnasium.spaces.Box(-WORST, WORST, shape=(1,), dtype=np.float64)
    return seen, gymnasium.spaces.Discrete(len(ACTIONS))


class WatchingEnv(gymnasium.Env[Any, Any]):
    """One person's session, ten pages at a time.

    >>> env = WatchingEnv()
    >>> env.reset(seed=1)[0].tolist()
    [0.0]
    >>> 0.0 <= env.step(0)[1] <= 40.0
    True
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    most: Final = PAGES * VIDEO
    """Minutes of one decision."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces()
        self._audience = Audience()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """A new person."""
        super().reset(seed=seed)
        return self._audience.open(1, self.np_random)[0], {}

    def step(self, action: int) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Ten pages."""
        minutes = self._audience.decide(np.array([action]), self.np_random)
        return self._audience.observed()[0], float(minutes[0]), bool(self._audience.left[0] <= 0.0), False, {}


class WatchingVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many people's sessions at once; in the place of who has left somebody new begins with the next step."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 1) -> None:
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._audience = Audience()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """New people everywhere."""
        super().reset(seed=seed)
        return self._audience.open(self.num_envs, self.np_random), {}

    def step(self, actions: Ints) -> tuple[Floats, Floats, Any, Any, dict[str, Any]]:
        """Ten pages for everybody; whoever had left before is replaced instead, and earns nothing yet."""
        audience, gone = self._audience, self._audience.left <= 0.0
        minutes = audience.decide(np.asarray(actions, dtype=np.int64), self.np_random)  # who has left watches nothing
        if gone.any():
            audience.replace(gone, self.np_random)
        never = np.zeros(self.num_envs, dtype=np.bool_)
        return audience.observed(), minutes, audience.left <= 0.0, never, {}
