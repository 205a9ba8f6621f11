"""Episodes of real people, read from a log in long format, and the check that says what is wrong with it.

    person, episode, step, state columns, action, reward[, propensity]      one row per step, in any order

Everything here runs on the trusted side, before anything is released: `Episodes` is sensitive. G1 to G3 hold for every
message, table and exception.

G1  No value of the file is ever printed: a `DataCheck` holds numbers of rows and episodes by reason, and nothing else.
G2  A log with one bad row is refused as a whole: what is dropped silently would be chosen by what people did.
G3  Ids of persons and episodes are forgotten once they are counted: `Episodes.persons` numbers people from 0. Only a
    collector, who knows people by pseudonyms of their ids, asks for them (`read_people`).

An episode is a pair (person, episode), so episode numbers may begin anew with every person. Memory is that of the
trajectories (H steps per episode) and of the ids; the text of the file is streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit.errors import InvalidInput, require, require_count
from tacit.study.episode_log import DataCheck, Episodes
from tacit.study.mapping import EpisodeMapping
from tacit.study.rows import read_rows
from tacit.study.trajectory_builder import TrajectoryBuilder

__all__ = ["DataCheck", "Episodes", "Progress", "as_mapping", "check_log", "data_check", "read_episodes", "read_people"]

Progress = Callable[[int], None]
"""Told how many rows were read."""


def read_episodes(
    path: str | Path,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    progress: Progress | None = None,
) -> Episodes:
    """Episodes of a log (.csv or .parquet) by a public mapping; a log that fails its check is refused (G2).

    >>> import tempfile
    >>> mapping = {
    ...     "columns": {"person": "who", "episode": "stay", "step": "visit"},
    ...     "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
    ...     "actions": {"column": "given", "categories": {"wait": ["wait"], "pill": ["pill"]}},
    ...     "reward": {"column": "points", "low": 0.0, "high": 1.0},
    ...     "horizon": 1,
    ... }
    >>> with tempfile.TemporaryDirectory() as place:
    ...     log = Path(place, "log.csv")
    ...     lines = ["who,stay,visit,fever,given,points", "ada,0,0,39.5,pill,1", "bob,0,0,36.8,wait,0.5"]
    ...     written = log.write_text(chr(10).join(lines))
    ...     read_episodes(log, mapping)
    Episodes(2 of 2 people)
    """
    check, episodes = check_log(path, mapping, progress=progress)
    if episodes is None:
        raise InvalidInput(f"the log must pass its data check, got {check.line}; mend the log or the mapping")
    return episodes


def data_check(
    path: str | Path,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    reports_per_person: int | None = None,
    progress: Progress | None = None,
) -> DataCheck:
    """Numbers of bad rows and episodes by reason; with a cap, also how many episodes are above it.

    >>> import tempfile
    >>> mapping = {
    ...     "columns": {"person": "who", "episode": "stay", "step": "visit"},
    ...     "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
    ...     "actions": {"column": "given", "categories": {"wait": ["wait"], "pill": ["pill"]}},
    ...     "reward": {"column": "points", "low": 0.0, "high": 1.0},
    ...     "horizon": 1,
    ... }
    >>> with tempfile.TemporaryDirectory() as place:
    ...     log = Path(place, "log.csv")
    ...     lines = ["who,stay,visit,fever,given,points", "ada,0,0,39.5,pill,1", "bob,0,0,36.8,wait,0.5"]
    ...     written = log.write_text(chr(10).join(lines))
    ...     data_check(log, mapping)
    DataCheck(rows=2, episodes=2, people=2, bad={}, notes={})
    """
    return check_log(path, mapping, reports_per_person=reports_per_person, progress=progress)[0]


def check_log(
    path: str | Path,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    reports_per_person: int | None = None,
    progress: Progress | None = None,
) -> tuple[DataCheck, Episodes | None]:
    """Read a log once: the check, and the episodes if it found nothing bad."""
    if reports_per_person is not None:
        require_count("reports_per_person", reports_per_person)
    gathered, rows = _gathered(path, as_mapping(mapping), progress)
    return gathered.finish(rows, reports_per_person)


def read_people(
    path: str | Path,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    progress: Progress | None = None,
) -> tuple[Episodes, tuple[str, ...]]:
    """Episodes of a log and the ids of its people, by number: for a collector, who turns them into pseudonyms."""
    gathered, rows = _gathered(path, as_mapping(mapping), progress)
    check, episodes = gathered.finish(rows, None)
    if episodes is None:
        raise InvalidInput(f"the log must pass its data check, got {check.line}; mend the log or the mapping")
    return episodes, tuple(gathered.people)


def _gathered(path: str | Path, mapping: EpisodeMapping, progress: Progress | None) -> tuple[TrajectoryBuilder, int]:
    gathered, rows = TrajectoryBuilder(mapping), 0
    for chunk in read_rows(path, mapping):
        for row in chunk:
            gathered.take(row)
        rows += len(chunk)
        if progress is not None:
            progress(rows)
    require(rows > 0, "the log must have a row", 0)
    return gathered, rows


def as_mapping(mapping: EpisodeMapping | Mapping[str, Any] | str | Path) -> EpisodeMapping:
    """The mapping itself, or the one in a file or in JSON-ready values."""
    if isinstance(mapping, EpisodeMapping):
        return mapping
    if isinstance(mapping, Mapping):
        return EpisodeMapping.from_dict(mapping)
    return EpisodeMapping.read(mapping)
