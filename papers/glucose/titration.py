"""Titration: every morning somebody's insulin is lowered, kept or raised, for a week.

    person     one of the thirty virtual patients at random, with a dose at random; a day at that dose goes before
    decision   every morning at five: lower, keep or raise the factor on all insulin, one of 0.5, 0.7, 0.9, 1.1, 1.3
    state      factor x yesterday: low (more than 4% of readings below 70 mg/dL), else high (more than 25% above 180),
               else fine
    reward     1 - min(R, 25)/25 in [0, 1], R the mean of min(Magni's risk, 100) over the day's readings: a day that
               is as bad as one spent at 70 or at 280 mg/dL throughout is worth nothing
    sugar      who sees less than 70 mg/dL takes 15 g, and again every fifteen minutes until they see more

States and rewards come from what the sensor showed, which is what a device knows; true glucose is measured beside them
(`info`, simulation only). Physiology goes on overnight: a day begins where the one before it ended. Episodes never end
by themselves. `TitrationEnv` is one person; `TitrationVectorEnv` many, compiled as a whole.
"""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from papers.glucose.day import MEASURES, READINGS, People, live_a_day, risk_table
from papers.glucose.meals import MEALS, draw_meals
from papers.glucose.patients import laid_out, patient_names, persons
from papers.glucose.sensor import BLOCK, draw_noise, first_noise, spline
from tacit.arrays import Floats, Ints

__all__ = ["ACTIONS", "FACTORS", "TEXTBOOK", "YESTERDAY", "TitrationEnv", "TitrationVectorEnv", "Ward"]

FACTORS: Final = (0.5, 0.7, 0.9, 1.1, 1.3)
ACTIONS: Final = ("lower", "keep", "raise")
YESTERDAY: Final = ("low", "fine", "high")
STATES: Final = len(FACTORS) * len(YESTERDAY)
LOW, HIGH = 0.04, 0.25
"""More of the day than this below 70 mg/dL is low, above 180 mg/dL high."""
WORST: Final = 0.25
"""The mean risk of a day that is worth nothing, as a share of 100."""
SUGAR: Final = 15.0
"""Grams."""
TEXTBOOK: Final = tuple(yesterday for _ in FACTORS for yesterday in range(len(YESTERDAY)))
"""The textbook rule: after a low day lower, after a fine one keep, after a high one raise."""


class Ward:
    """Some people at once: their lives, day by day, from one generator of coins."""

    people: People
    levels: Ints
    """[person]: whose factor is which."""
    measures: Floats
    """[person, measure] of the last day."""

    def __init__(self) -> None:
        self._factors, self._risks, self._weights = np.array(FACTORS), risk_table(), spline()
        self._none = np.zeros((0, 0, 2))

    def admit(self, count: int, coins: np.random.Generator) -> Ints:
        """New people, each with a patient and a dose at random, after a day at that dose; their states."""
        patients = coins.integers(len(patient_names()), size=count)
        self.levels = coins.integers(len(FACTORS), size=count)
        self.people = People(laid_out(patients), persons(patients))
        self._times, self._grams = np.zeros((count, len(MEALS))), np.zeros((count, len(MEALS)))
        self._noise, self._have = np.zeros((count, READINGS + 2 * BLOCK)), 0
        self._process, self.measures = np.zeros((count, 2)), np.zeros((count, len(MEASURES)))
        first_noise(coins, self._process)
        return self._day(coins)

    def decide(self, actions: Ints, coins: np.random.Generator) -> Ints:
        """Everybody's factor goes down, stays or goes up; after a day of it, their states."""
        self.levels = np.clip(self.levels + actions - 1, 0, len(FACTORS) - 1)
        return self._day(coins)

    def _day(self, coins: np.random.Generator) -> Ints:
        draw_meals(MEALS, coins, self._times, self._grams)
        self._have = draw_noise(self._weights, coins, self._process, self._have, self._noise)
        factor = self._factors[self.levels]
        live_a_day(
            self.people, factor, self._times, self._grams, self._noise, self._risks, SUGAR, self.measures, self._none
        )
        self._have -= READINGS
        self._noise[:, : self._have] = self._noise[:, READINGS : READINGS + self._have].copy()
        low, high = self.measures[:, 0] > LOW, self.measures[:, 1] > HIGH
        yesterday = np.where(low, 0, np.where(high, 2, 1))
        return np.asarray(self.levels * len(YESTERDAY) + yesterday, dtype=np.int64)

    @property
    def rewards(self) -> Floats:
        """Of the last day: 1 - min(R, 25)/25."""
        return np.asarray(1.0 - np.minimum(self.measures[:, MEASURES.index("risk")] / WORST, 1.0))

    @property
    def aside(self) -> dict[str, Floats]:
        """Simulation only: shares of the last day that true glucose spent too low or too high."""
        return {name: self.measures[:, i].copy() for i, name in enumerate(MEASURES) if i >= 3}


class TitrationEnv(gymnasium.Env[Any, Any]):
    """One person's week, day by day.

    >>> env = TitrationEnv()
    >>> state, _ = env.reset(seed=1)
    >>> 0 <= state < 15
    True
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Discrete(STATES)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS))
        self._ward = Ward()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """A new person."""
        super().reset(seed=seed)
        return int(self._ward.admit(1, self.np_random)[0]), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """A day."""
        state = self._ward.decide(np.array([action]), self.np_random)
        aside = {name: float(share[0]) for name, share in self._ward.aside.items()}
        return int(state[0]), float(self._ward.rewards[0]), False, False, aside


class TitrationVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many people's weeks at once."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 1) -> None:
        self.num_envs = self.wanted = num_envs
        self.single_observation_space = gymnasium.spaces.Discrete(STATES)
        self.single_action_space = gymnasium.spaces.Discrete(len(ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ward = Ward()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Ints, dict[str, Any]]:
        """New people, as many as are `wanted`; places beyond them stay empty, with zeros."""
        super().reset(seed=seed)
        return self._filled(self._ward.admit(self.wanted, self.np_random)), {}

    def step(self, actions: Ints) -> tuple[Ints, Floats, Any, Any, dict[str, Any]]:
        """A day of everybody."""
        here = len(self._ward.levels)
        states = self._ward.decide(np.asarray(actions, dtype=np.int64)[:here], self.np_random)
        never = np.zeros(self.num_envs, dtype=np.bool_)
        aside = {name: self._filled(share) for name, share in self._ward.aside.items()}
        return self._filled(states), self._filled(self._ward.rewards), never, never.copy(), aside

    def _filled(self, values: Any) -> Any:
        found = np.zeros(self.num_envs, dtype=values.dtype)
        found[: len(values)] = values
        return found
