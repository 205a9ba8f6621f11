"""The gathering of rows into trajectories: rows in any order, one at a time, each checked and placed.

A row that is wrong is counted once, by the first reason; it still takes its step, so that one mistake is reported as
one.
"""

from __future__ import annotations

import math
import unicodedata
from array import array
from collections import Counter
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories
from tacit.errors import require
from tacit.study.columns import parse_number
from tacit.study.episode_log import REASONS, DataCheck, Episodes
from tacit.study.mapping import EpisodeMapping
from tacit.study.rows import Row

MAX_CELLS: Final = 2**28
"""The most steps that are kept in memory."""
TOLERANCE: Final = 1e-6
"""How far two propensities may differ that were written down as one."""


class TrajectoryBuilder:
    """What was read so far: one entry per row that was placed, and the ids that are still needed."""

    def __init__(self, mapping: EpisodeMapping) -> None:
        self.mapping = mapping
        self.bad: Counter[str] = Counter()
        self.cut = 0
        self.people: dict[str, int] = {}
        self.ids: dict[tuple[int, str], int] = {}
        self.owners = array("q")
        self.seen = bytearray()  # [n H]: the steps that an episode has, good or bad
        self.places = array("q")  # number H + h of every good row, and beside it what the row says
        self.states, self.actions, self.rewards, self.propensities = array("H"), array("H"), array("d"), array("d")
        columns = {name: i for i, name in enumerate(mapping.used_columns)}
        known = mapping.columns
        self.person, self.episode, self.step = (columns[n] for n in (known.person, known.episode, known.step))
        self.propensity = None if known.propensity is None else columns[known.propensity]
        self.parts = [columns[part.column] for part in mapping.states]
        self.action, self.reward = columns[mapping.actions.column], columns[mapping.reward]

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
        place = number * self.mapping.horizon + int(step)
        if self.seen[place]:
            return "duplicate step"
        self.seen[place] = 1
        return self._fill(row, place)

    def _fill(self, row: tuple[str | None, ...], place: int) -> str | None:
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
        if self.propensity is not None:
            propensity = parse_number(row[self.propensity] or "")
            if not 0.0 < propensity <= 1.0:
                return "bad propensity"
            self.propensities.append(propensity)
        self.places.append(place)
        self.states.append(state)
        self.actions.append(action)
        self.rewards.append(reward)
        return None

    def _number(self, person: str, episode: str) -> int:
        """The number of an episode, a new one if it was not met before."""
        if not person.isascii():
            person = unicodedata.normalize("NFC", person)  # two spellings of one name are one person
        owner = self.people.setdefault(person, len(self.people))
        number = self.ids.setdefault((owner, episode), len(self.ids))
        if number == len(self.owners):
            H = self.mapping.horizon
            require(len(self.seen) + H <= MAX_CELLS, f"a log must have at most {MAX_CELLS:,} steps", "more")
            self.owners.append(owner)
            self.seen.extend(bytes(H))
        return number

    def finish(self, rows: int, cap: int | None) -> tuple[DataCheck, Episodes | None]:
        """The check of all rows together, and the episodes if nothing is bad."""
        n, H, mapping = len(self.owners), self.mapping.horizon, self.mapping
        seen = np.frombuffer(bytes(self.seen), dtype=np.bool_).reshape(n, H)
        lengths = np.where(seen.any(axis=1), H - np.argmax(seen[:, ::-1], axis=1), 0)
        gaps = int((seen.sum(axis=1) != lengths).sum())
        short = int((lengths < H).sum())
        persons: Ints = np.array(self.owners, dtype=np.int64)
        each = np.bincount(persons, minlength=1)
        over = np.zeros(1) if cap is None else np.maximum(each - cap, 0)
        varies, above = self._propensity_findings()
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

    def _propensity_findings(self) -> tuple[int, int]:
        """How many (h,s,a) have several propensities, and how many (h,s) have more than one in all."""
        if self.propensity is None or not self.places:
            return 0, 0
        S, A = len(self.mapping.state_names), len(self.mapping.action_names)
        h = np.array(self.places) % self.mapping.horizon
        p: Floats = np.array(self.propensities)
        cell = (h * S + np.array(self.states, dtype=np.int64)) * A + np.array(self.actions, dtype=np.int64)
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
        states: Ints = self._table(self.states, np.int64)
        actions: Ints = self._table(self.actions, np.int64)
        rewards: Floats = self._table(self.rewards, np.float64)
        propensities = None if self.propensity is None else self._table(self.propensities, np.float64)
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
        return Episodes(
            trajectories=trajectories,
            persons=persons,
            lengths=np.asarray(lengths, dtype=np.int64),
            propensities=propensities,
            mapping=mapping,
        )

    def _table(self, values: array[int] | array[float], kind: type[Any]) -> Any:
        """Values of good rows as [n,H]."""
        table = np.zeros(len(self.seen), dtype=kind)
        table[np.array(self.places)] = np.array(values)
        return table.reshape(-1, self.mapping.horizon)
