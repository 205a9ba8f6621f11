"""The gathering of rows into trajectories: rows in any order, one at a time, each checked and placed.

A row that is wrong is counted once, by the first reason; it still takes its step, so that one mistake is reported as
one.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories
from tacit.errors import require
from tacit.study.findings import REASONS, DataCheck, Episodes
from tacit.study.mapping import EpisodeMapping, parse_number
from tacit.study.rows import Row

__all__ = ["Gathered"]

MOST_CELLS: Final = 2**28
"""The most steps that are kept in memory."""
TOLERANCE: Final = 1e-6
"""How far two propensities may differ that were written down as one."""


class Gathered:
    """What was read so far: [capacity, H] arrays that grow, and the ids that are still needed."""

    def __init__(self, mapping: EpisodeMapping) -> None:
        self.mapping = mapping
        self.bad: Counter[str] = Counter()
        self.cut = 0
        self.people: dict[str, int] = {}
        self.ids: dict[tuple[int, str], int] = {}
        self.owners: list[int] = []
        size = (64, mapping.horizon)
        self.seen: NDArray[np.bool_] = np.zeros(size, dtype=np.bool_)
        self.states: NDArray[np.uint16] = np.zeros(size, dtype=np.uint16)
        self.actions: NDArray[np.uint16] = np.zeros(size, dtype=np.uint16)
        self.rewards: Floats = np.zeros(size)
        self.propensities: Floats | None = None if mapping.columns.propensity is None else np.zeros(size)
        places = {name: i for i, name in enumerate(mapping.used_columns)}
        columns = mapping.columns
        self.person, self.episode, self.step = (places[n] for n in (columns.person, columns.episode, columns.step))
        self.propensity = places[columns.propensity] if columns.propensity is not None else -1
        self.parts = [places[part.column] for part in mapping.states]
        self.action, self.reward = places[mapping.actions.column], places[mapping.reward]

    def _grow(self) -> None:
        """Twice the room."""
        cells = 2 * self.seen.size
        require(cells <= 2 * MOST_CELLS, f"a log must have at most {MOST_CELLS:,} steps", "more")
        self.seen = np.concatenate([self.seen, np.zeros_like(self.seen)])
        self.states = np.concatenate([self.states, np.zeros_like(self.states)])
        self.actions = np.concatenate([self.actions, np.zeros_like(self.actions)])
        self.rewards = np.concatenate([self.rewards, np.zeros_like(self.rewards)])
        if self.propensities is not None:
            self.propensities = np.concatenate([self.propensities, np.zeros_like(self.propensities)])

    def take(self, row: Row) -> None:
        """Place one row; whatever is wrong with it is counted once, by the first reason."""
        reason = self._place(row)
        if reason is not None:
            self.bad[reason] += 1

    def _place(self, row: Row) -> str | None:
        if row is None:
            return "ragged row"
        person, episode = row[self.person], row[self.episode]
        if person is None:
            return "no person"
        if episode is None:
            return "no episode"
        step = parse_number(row[self.step] or "") - self.mapping.first_step
        if not (step >= 0 and step.is_integer()):
            return "bad step"
        number = self._number(person, episode)
        if step >= self.mapping.horizon:
            self.cut += 1
            return None if self.mapping.long == "cut" else "too long"
        h = int(step)
        if self.seen[number, h]:
            return "duplicate step"
        self.seen[number, h] = True
        return self._fill(row, number, h)

    def _fill(self, row: tuple[str | None, ...], number: int, h: int) -> str | None:
        mapping = self.mapping
        state = mapping.state_index([row[i] or "" for i in self.parts])
        if state < 0:
            return "unknown state"
        action = mapping.actions.index(row[self.action] or "")
        if action < 0:
            return "unknown action"
        reward = parse_number(row[self.reward] or "")
        if math.isnan(reward):
            return "reward is no number"
        if not mapping.low <= reward <= mapping.high:
            return "reward out of bounds"
        self.states[number, h], self.actions[number, h], self.rewards[number, h] = state, action, reward
        if self.propensities is not None:
            propensity = parse_number(row[self.propensity] or "")
            if not 0.0 < propensity <= 1.0:
                return "bad propensity"
            self.propensities[number, h] = propensity
        return None

    def _number(self, person: str, episode: str) -> int:
        """The number of an episode, a new one if it was not met before."""
        owner = self.people.setdefault(person, len(self.people))
        number = self.ids.setdefault((owner, episode), len(self.ids))
        if number == len(self.owners):
            self.owners.append(owner)
            if number == len(self.seen):
                self._grow()
        return number

    def finish(self, rows: int, cap: int | None) -> tuple[DataCheck, Episodes | None]:
        """The check of all rows together, and the episodes if nothing is bad."""
        n, H, mapping = len(self.owners), self.mapping.horizon, self.mapping
        seen = self.seen[:n]
        lengths = np.where(seen.any(axis=1), H - np.argmax(seen[:, ::-1], axis=1), 0)
        gaps = int((seen.sum(axis=1) != lengths).sum())
        short = int((lengths < H).sum())
        persons: Ints = np.array(self.owners, dtype=np.int64)
        each = np.bincount(persons, minlength=1)
        over = np.zeros(1) if cap is None else np.maximum(each - cap, 0)
        varies, above = self._propensity_findings(seen, n)
        bad = {
            **{reason: self.bad[reason] for reason in REASONS},
            "missing step": gaps,
            "too short": short if mapping.short is None else int((lengths == 0).sum()),
            "propensities above one": above,
        }
        notes = {
            "padded": short if mapping.short is not None else 0,
            "cut": self.cut if mapping.long == "cut" else 0,
            "people over the cap": int((over > 0).sum()),
            "episodes over the cap": int(over.sum()),
            "propensity varies": varies,
        }
        check = DataCheck(
            rows=rows,
            episodes=n,
            people=len(self.people),
            bad={name: count for name, count in bad.items() if count > 0},
            notes={name: count for name, count in notes.items() if count > 0},
        )
        return check, self._episodes(lengths, persons) if check.ok else None

    def _propensity_findings(self, seen: NDArray[np.bool_], n: int) -> tuple[int, int]:
        """How many (h,s,a) have several propensities, and how many (h,s) have more than one in all."""
        if self.propensities is None:
            return 0, 0
        S, A = len(self.mapping.state_names), len(self.mapping.action_names)
        episode, h = np.nonzero(seen & (self.propensities[:n] > 0.0))
        p = self.propensities[episode, h]
        cell = (h * S + self.states[episode, h].astype(np.int64)) * A + self.actions[episode, h]
        cells, inverse = np.unique(cell, return_inverse=True)
        least, most = np.full(len(cells), np.inf), np.zeros(len(cells))
        np.minimum.at(least, inverse, p)
        np.maximum.at(most, inverse, p)
        _, where = np.unique(cells // A, return_inverse=True)
        together = np.bincount(where, weights=least, minlength=1)
        return int((most - least > TOLERANCE).sum()), int((together > 1.0 + A * TOLERANCE).sum())

    def _episodes(self, lengths: Ints, persons: Ints) -> Episodes:
        """Padded trajectories with scaled rewards."""
        n, mapping = len(persons), self.mapping
        states, actions = self.states[:n].astype(np.int64), self.actions[:n].astype(np.int64)
        rewards = self.rewards[:n].copy()
        propensities = None if self.propensities is None else self.propensities[:n].copy()
        if mapping.short is not None:
            padded = np.arange(mapping.horizon) >= lengths[:, None]
            last = states[np.arange(n), np.maximum(lengths - 1, 0)]
            own = mapping.short.state
            filler = last[:, None] if own is None else mapping.state_names.index(own)
            states = np.where(padded, filler, states)
            actions[padded] = mapping.action_names.index(mapping.short.action)
            rewards[padded] = mapping.short.reward
            if propensities is not None:
                propensities[padded] = 1.0
        # r in [low, high] becomes (r - low) / (high - low) in [0, 1]
        scaled = np.clip((rewards - mapping.low) / (mapping.high - mapping.low), 0.0, 1.0)
        trajectories = Trajectories(states=states, actions=actions, rewards=scaled)
        return Episodes(trajectories=trajectories, persons=persons, propensities=propensities, mapping=mapping)
