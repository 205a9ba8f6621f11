"""`Episodes`, sensitive, and `DataCheck`, which says in numbers what is wrong with a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories, Trajectory

if TYPE_CHECKING:
    from tacit.study.feature_mapping import FeatureMapping
    from tacit.study.mapping import EpisodeMapping
REASONS: Final[Mapping[str, str]] = {
    "ragged row": "rows with another number of fields than the header",
    "no person": "rows without a person",
    "no episode": "rows without an episode",
    "bad step": "rows whose step is no whole number from the first step on",
    "too long": "rows after the last step of the horizon",
    "duplicate step": "rows with a step that its episode has already",
    "unknown state": "rows with a state that the mapping does not have",
    "unknown action": "rows with an action that the mapping does not have",
    "reward is no number": "rows whose reward is missing, NaN or a text",
    "reward out of bounds": "rows whose reward is outside of the public bounds",
    "bad propensity": "rows whose propensity is no number in (0, 1]",
    "missing step": "episodes with a gap between two steps, or without the first one",
    "too short": "episodes with fewer steps than the horizon, which the mapping does not pad",
    "propensities above one": "(step, state) pairs whose actions have propensities of more than one together",
}
"""Why a log is refused, and what is counted."""

DROPPABLE: Final = tuple(reason for reason in REASONS if reason != "propensities above one")
"""What a mapping may declare to be dropped: each of them is a matter of one person's rows."""

NOTES: Final[Mapping[str, str]] = {
    "padded": "episodes that were padded by the public rule",
    "cut": "rows after the horizon that were cut off by the public rule",
    "dropped rows": "rows for which the public rule drops their episode, or which belong to none",
    "dropped episodes": "episodes that the public rule drops",
    "people over the cap": "people with more episodes than count",
    "episodes over the cap": "episodes that do not count",
    "decimal commas": 'numbers that a mapping with the entry "decimal": "," would read',
    "propensity varies": "(step, state, action) triples whose propensity is not one number",
}
"""What is worth knowing about a log that is not wrong."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Episodes:
    """Sensitive: complete trajectories with rewards in [0, 1], whose they are, and how likely their actions were."""

    trajectories: Trajectories
    """states, actions and rewards, [n,H] each."""
    persons: Ints
    """[n]: the number of the person, from 0."""
    people: int
    """How many people there are, those without an episode that counts included."""
    lengths: Ints
    """[n]: how many steps are real; those after them were padded."""
    propensities: Floats | None
    """[n,H], 1 on padded steps; None where nobody knows them."""
    mapping: EpisodeMapping | FeatureMapping
    x: Floats | None = None
    """[rows,d]: encoded rows of a log over features, whose states are their numbers."""

    def __repr__(self) -> str:
        return f"Episodes({len(self)} of {self.people} people)"  # never their contents

    def __len__(self) -> int:
        return len(self.persons)

    def trajectory(self, number: int) -> Trajectory:
        """One episode, as a device encodes it."""
        t = self.trajectories
        return Trajectory(t.states[number], t.actions[number], t.rewards[number])

    def of_people(self, chosen: NDArray[np.bool_]) -> Episodes:
        """The episodes of some people [people], who are numbered anew in their order."""
        kept, t = chosen[self.persons], self.trajectories
        numbers: Ints = np.cumsum(chosen) - 1
        return replace(
            self,
            trajectories=Trajectories(t.states[kept], t.actions[kept], t.rewards[kept]),
            persons=numbers[self.persons[kept]],
            people=int(chosen.sum()),
            lengths=self.lengths[kept],
            propensities=None if self.propensities is None else self.propensities[kept],
        )


class Finding(NamedTuple):
    """What is bad for one reason, and where: for whoever holds the data, and in no exception."""

    reason: str
    column: str | None
    number: int
    rows: tuple[int, ...]
    """The first of them, counted from 1 after the header."""
    episodes: int
    """So many episodes would be dropped if the mapping declared it."""
    people: int
    """So many people would lose one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCheck:
    """What is wrong with a log, in numbers: for the trusted side, which has the log anyway."""

    rows: int
    episodes: int
    people: int
    bad: Mapping[str, int]
    """How many, by reason (`REASONS`); empty if the log can be used."""
    notes: Mapping[str, int]
    """How many, by what is worth knowing (`NOTES`)."""
    where: tuple[Finding, ...] = field(default=(), repr=False)
    """The bad ones by column and row."""

    @property
    def ok(self) -> bool:
        """Whether the log can be used."""
        return not self.bad

    @property
    def line(self) -> str:
        """What is wrong, in one line."""
        if self.ok:
            return f"nothing is wrong with {self.episodes} episodes"
        said = "; ".join(f"{reason}: {count}" for reason, count in self.bad.items())
        return said + ('; declare "decimal": "," in the mapping' if "decimal commas" in self.notes else "")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        sizes = {"rows": self.rows, "episodes": self.episodes, "people": self.people}
        where = [{**one._asdict(), "rows": list(one.rows)} for one in self.where]
        return {"ok": self.ok, **sizes, "bad": dict(self.bad), "notes": dict(self.notes), "where": where}

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Rows (finding, how many, column, first rows, episodes that dropping costs, what is counted) for a table."""
        found = [
            (f"bad: {f.reason}", f"{f.number:,}", f.column or "", ", ".join(map(str, f.rows)),
             f"{f.episodes:,} of {f.people:,} people" if f.reason in DROPPABLE else "", REASONS[f.reason])
            for f in self.where
        ]  # fmt: skip
        found += [(f"note: {name}", f"{count:,}", "", "", "", NOTES[name]) for name, count in self.notes.items()]
        return tuple(found)
