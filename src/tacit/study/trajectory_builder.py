"""The gathering of rows into trajectories: rows in any order, in batches, each checked and placed.

A row that is wrong is counted once, by the first reason; it still takes its step, so that one mistake is reported as
one. Every person of the log is counted, also one whose episodes are all dropped by the declared rule: the number of
people is public, and what they did must not change it.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories
from tacit.errors import require
from tacit.study.columns import Bins, Categories, as_text
from tacit.study.episode_log import REASONS, DataCheck, Episodes, Finding
from tacit.study.log_source import Batch, as_numbers, as_times
from tacit.study.mapping import EpisodeMapping

MAX_CELLS: Final = 2**28
"""The most steps that are kept in memory."""
TOLERANCE: Final = 1e-6
"""How far two propensities may differ that were written down as one."""
SHOWN: Final = 5
"""So many rows are named for each finding."""
ROW_ONLY: Final = ("ragged row", "no person", "no episode")
"""Findings in rows that belong to no episode."""
CODES: Final = {reason: i + 1 for i, reason in enumerate(REASONS)}
Mask = NDArray[np.bool_]


class TrajectoryBuilder:
    """What was read so far: the codes of every row by column, and the ids that are still needed."""

    def __init__(self, mapping: EpisodeMapping) -> None:
        self.mapping = mapping
        self.people: dict[str, int] = {}
        self.ids: dict[str, int] = {}
        self.read: list[dict[str, Any]] = []
        self.rows = 0
        self.commas = 0

    def take(self, batch: Batch) -> None:
        """Encode the rows of a batch."""
        known, columns, n = self.mapping.columns, batch.columns, len(batch.ragged)
        rows: dict[str, Any] = {"ragged": batch.ragged, "person": _numbered(columns[known.person], self.people)}
        if known.episode is not None:
            rows["episode"] = _numbered(columns[known.episode], self.ids)
        else:  # a person is one episode; without steps every row is one
            rows["episode"] = np.zeros(n, dtype=np.int64) if known.step is not None else self.rows + np.arange(n)
        if known.step is None:
            rows["step"] = np.zeros(n)
        elif self.mapping.steps == "numbers":
            rows["step"] = self._numbers(columns[known.step]) - self.mapping.first_step
        else:
            rows["step"] = as_times(columns[known.step], self.mapping)
        state = np.zeros(n, dtype=np.int64)
        for part in self.mapping.states:
            place = self._places(part, columns[part.column])
            state = np.where((state < 0) | (place < 0), -1, state * len(part.names) + place)
        rows["state"] = state
        rows["action"] = self._places(self.mapping.actions, columns[self.mapping.actions.column])
        rows["reward"] = self._numbers(columns[self.mapping.reward])
        if known.propensity is not None:
            rows["propensity"] = self._numbers(columns[known.propensity])
        self.read.append(rows)
        self.rows += n

    def _numbers(self, values: pa.Array) -> Floats:
        found = as_numbers(values, self.mapping.decimal)
        if self.mapping.decimal == "." and pa.types.is_string(values.type) and np.isnan(found).any():
            self.commas += int((np.isnan(found) & ~np.isnan(as_numbers(values, ","))).sum())
        return found

    def _places(self, part: Categories | Bins, values: pa.Array) -> Ints:
        """The place of every value in the names of its column, -1 where it has none."""
        if isinstance(part, Bins):
            numbers, absent = self._numbers(values), values.is_null().to_numpy(zero_copy_only=False)
            found = np.where(np.isfinite(numbers), np.searchsorted(part.edges, numbers, side="right"), -1)
            return np.where(absent, part.missing_index, found)
        coded = values.dictionary_encode()
        places = np.array([part.index(as_text(one)) for one in [*coded.dictionary.to_pylist(), None]], dtype=np.int64)
        return np.asarray(places[coded.indices.fill_null(len(places) - 1).to_numpy()])

    def finish(self, cap: int | None) -> tuple[DataCheck, Episodes | None]:
        """The check of all rows together, and the episodes if nothing is bad."""
        rows = {name: np.concatenate([one[name] for one in self.read]) for name in self.read[0]}
        self.read, mapping, H = [], self.mapping, self.mapping.horizon
        number, owners = _episode_numbers(rows["person"], rows["episode"])
        n = len(owners)
        require(n * H <= MAX_CELLS, f"a log must have at most {MAX_CELLS:,} steps", "more")
        step = rows["step"] if mapping.steps == "numbers" else _ranks(number, rows["step"])
        reason, place = self._reasons(rows, number, step)
        cut = int((reason == CODES["too long"]).sum()) if mapping.long == "cut" else 0
        if mapping.long == "cut":
            reason[reason == CODES["too long"]] = -1
        taken = np.zeros(n * H, dtype=np.bool_)
        taken[place[place >= 0]] = True
        seen = taken.reshape(n, H)
        lengths: Ints = np.where(seen.any(axis=1), H - np.argmax(seen[:, ::-1], axis=1), 0).astype(np.int64)
        wrong = {
            "missing step": seen.sum(axis=1) != lengths,
            "too short": lengths < (H if mapping.short is None else 1),
        }
        kept = self._kept(reason, number, wrong)
        used = (reason == 0) & (number >= 0) & np.append(kept, False)[number]
        findings = list(self._findings(reason, number, rows["person"], wrong, kept, owners))
        varies, above = self._propensity_findings(rows, place, used)
        if above:
            findings.append(Finding("propensities above one", mapping.columns.propensity, above, (), 0, 0))
        padded = lengths[kept] < H
        over = np.zeros(1) if cap is None else np.maximum(np.bincount(owners[kept], minlength=1) - cap, 0)
        notes = {
            "padded": int(padded.sum()) if mapping.short is not None else 0,
            "cut": cut,
            "dropped rows": int(np.isin(reason, [CODES[name] for name in mapping.drop if name in CODES]).sum()),
            "dropped episodes": n - int(kept.sum()),
            "people over the cap": int((over > 0).sum()),
            "episodes over the cap": int(over.sum()),
            "propensity varies": varies,
            "decimal commas": self.commas,
        }
        check = DataCheck(
            rows=self.rows,
            episodes=int(kept.sum()),
            people=len(self.people),
            bad={found.reason: found.number for found in findings},
            notes={name: count for name, count in notes.items() if count > 0},
            where=tuple(findings),
        )
        return check, self._episodes(rows, place, used, kept, lengths, owners) if check.ok else None

    def _reasons(self, rows: dict[str, Any], number: Ints, step: Floats) -> tuple[Ints, Ints]:
        """[rows]: why a row is bad, 0 if it is not, and the step of all episodes that it takes, -1 for none."""
        mapping, H = self.mapping, self.mapping.horizon
        reason = np.zeros(len(number), dtype=np.int64)

        def mark(name: str, bad: Mask) -> None:
            reason[bad & (reason == 0)] = CODES[name]

        mark("ragged row", rows["ragged"])
        mark("no person", rows["person"] < 0)
        mark("no episode", rows["episode"] < 0)
        mark("bad step", ~((step >= 0) & (step == np.floor(step)) & np.isfinite(step)))
        mark("too long", step >= H)
        placed = np.flatnonzero(reason == 0)
        where = number[placed] * H + step[placed].astype(np.int64)
        _, first, again = np.unique(where, return_index=True, return_inverse=True)
        leader = first[again]
        later = leader != np.arange(len(placed))
        if "duplicate step" in mapping.drop:  # a row that is written twice counts once
            same = [rows[c] for c in ("state", "action", "reward", "propensity") if c in rows]
            equal = np.logical_and.reduce([c[placed] == c[placed[leader]] for c in same])
            reason[placed[later & equal]] = -1
        bad = np.zeros(len(number), dtype=np.bool_)
        bad[placed[later]] = True
        mark("duplicate step", bad)
        place: Ints = np.full(len(number), -1, dtype=np.int64)
        place[placed[~later]] = where[~later]
        mark("unknown state", rows["state"] < 0)
        mark("unknown action", rows["action"] < 0)
        mark("reward is no number", np.isnan(rows["reward"]))
        mark("reward out of bounds", ~((mapping.low <= rows["reward"]) & (rows["reward"] <= mapping.high)))
        if "propensity" in rows:
            mark("bad propensity", ~((rows["propensity"] > 0.0) & (rows["propensity"] <= 1.0)))
        return reason, place

    def _kept(self, reason: Ints, number: Ints, wrong: dict[str, Mask]) -> Mask:
        """The episodes that no declared rule drops."""
        kept = np.ones(len(wrong["too short"]), dtype=np.bool_)
        for name in self.mapping.drop:
            if name in wrong:
                kept &= ~wrong[name]
            elif name not in ROW_ONLY:
                kept[number[(reason == CODES[name]) & (number >= 0)]] = False
        return kept

    def _findings(
        self, reason: Ints, number: Ints, persons: Ints, wrong: dict[str, Mask], kept: Mask, owners: Ints
    ) -> Any:
        """What is bad and not dropped, by reason."""
        inside = np.append(kept, True)[number]  # rows of no episode, too
        columns = self._columns()
        for name, code in CODES.items():
            if name in self.mapping.drop:
                continue
            if name in wrong:
                found = np.flatnonzero(wrong[name] & kept)
                if len(found):
                    rows = np.flatnonzero(np.isin(number, found[:SHOWN]))[:SHOWN]
                    yield Finding(
                        name, columns.get(name), len(found), _shown(rows), len(found), len(set(owners[found]))
                    )
                continue
            bad = np.flatnonzero((reason == code) & inside)
            if len(bad):
                touched, whose = ({*one[bad].tolist()} - {-1} for one in (number, persons))
                yield Finding(name, columns.get(name), len(bad), _shown(bad), len(touched), len(whose))

    def _columns(self) -> dict[str, str | None]:
        """The column in which a finding is."""
        mapping, c = self.mapping, self.mapping.columns
        reward = dict.fromkeys(("reward is no number", "reward out of bounds"), mapping.reward)
        steps = dict.fromkeys(("bad step", "too long", "duplicate step", "missing step", "too short"), c.step)
        states = ", ".join(part.column for part in mapping.states)
        others = {"no person": c.person, "no episode": c.episode, "unknown state": states}
        return {**reward, **steps, **others, "unknown action": mapping.actions.column, "bad propensity": c.propensity}

    def _propensity_findings(self, rows: dict[str, Any], place: Ints, used: Mask) -> tuple[int, int]:
        """How many (h,s,a) have several propensities, and how many (h,s) have more than one in all."""
        if "propensity" not in rows or not used.any():
            return 0, 0
        S, A = len(self.mapping.state_names), len(self.mapping.action_names)
        p = rows["propensity"][used]
        cell = (place[used] % self.mapping.horizon * S + rows["state"][used]) * A + rows["action"][used]
        cells, inverse = np.unique(cell, return_inverse=True)
        low, high = np.full(len(cells), np.inf), np.zeros(len(cells))
        np.minimum.at(low, inverse, p)
        np.maximum.at(high, inverse, p)
        _, where = np.unique(cells // A, return_inverse=True)
        together = np.bincount(where, weights=low, minlength=1)
        return int((high - low > TOLERANCE).sum()), int((together > 1.0 + A * TOLERANCE).sum())

    def _episodes(
        self, rows: dict[str, Any], place: Ints, used: Mask, kept: Mask, lengths: Ints, owners: Ints
    ) -> Episodes:
        """Padded trajectories with scaled rewards."""
        mapping, H, n = self.mapping, self.mapping.horizon, len(owners)

        def table(name: str) -> Any:
            filled = np.zeros(n * H, dtype=rows[name].dtype)
            filled[place[used]] = rows[name][used]
            return filled.reshape(n, H)[kept]

        states, actions, rewards = table("state"), table("action"), table("reward")
        propensities = table("propensity") if "propensity" in rows else None
        lengths = lengths[kept]
        if mapping.short is not None:
            padded = np.arange(H) >= lengths[:, None]
            last = states[np.arange(len(states)), np.maximum(lengths - 1, 0)]
            own = mapping.short.state
            filler = last[:, None] if own is None else mapping.state_names.index(own)
            states = np.where(padded, filler, states)
            actions[padded] = mapping.action_names.index(mapping.short.action)
            rewards[padded] = mapping.short.reward
            if propensities is not None:
                propensities[padded] = 1.0
        # r in [low, high] becomes (r - low) / (high - low) in [0, 1]
        scaled = np.clip((rewards - mapping.low) / (mapping.high - mapping.low), 0.0, 1.0)
        return Episodes(
            trajectories=Trajectories(states=states, actions=actions, rewards=scaled),
            persons=owners[kept],
            people=len(self.people),
            lengths=lengths,
            propensities=propensities,
            mapping=mapping,
        )


def _shown(rows: Ints) -> tuple[int, ...]:
    return tuple(int(row) + 1 for row in rows[:SHOWN])


def _numbered(values: pa.Array, known: dict[str, int]) -> Ints:
    """Numbers of ids in the order in which they are met, -1 where there is none."""
    coded = values.dictionary_encode()
    texts = (as_text(one) for one in coded.dictionary.to_pylist())
    # Two spellings of one name are one person.
    names = [text if text is None or text.isascii() else unicodedata.normalize("NFC", text) for text in texts]
    places = np.array(
        [*(-1 if one is None else known.setdefault(one, len(known)) for one in names), -1], dtype=np.int64
    )
    return np.asarray(places[coded.indices.fill_null(len(places) - 1).to_numpy()])


def _episode_numbers(persons: Ints, episodes: Ints) -> tuple[Ints, Ints]:
    """[rows]: the number of the episode (person, episode) as they are met, -1 for none; and [n]: its owner."""
    known = (persons >= 0) & (episodes >= 0)
    pairs = persons[known] * (int(episodes.max(initial=0)) + 1) + episodes[known]
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    number: Ints = np.full(len(persons), -1, dtype=np.int64)
    number[known] = rank[inverse]
    return number, persons[known][first[order]]


def _ranks(number: Ints, times: Floats) -> Floats:
    """The place of every row among the different times of its episode, NaN where a row has no time."""
    fine = np.flatnonzero(~np.isnan(times) & (number >= 0))
    order = fine[np.lexsort((times[fine], number[fine]))]
    own, when = number[order], times[order]
    begins = np.diff(own, prepend=-1) != 0
    rises = np.cumsum(begins | (np.diff(when, prepend=-np.inf) != 0))
    ranks = np.full(len(times), np.nan)
    ranks[order] = rises - np.maximum.accumulate(np.where(begins, rises, 0))
    return ranks
