"""Episodes of real people, read from a log in long format, and the check that says what is wrong with it.

    person, episode, step, state columns, action, reward[, propensity]      one row per step, in any order

Everything here runs on the trusted side, before anything is released: `Episodes` is sensitive. G1 to G3 hold for every
message, table and exception.

G1  No value of the log is ever printed: a `DataCheck` holds numbers of rows and episodes by reason, and the columns and
    numbers of the first bad rows for whoever holds the data; exceptions hold the counts only.
G2  A log with one bad row is refused as a whole, unless the public mapping declares to drop such episodes; people whose
    episodes are dropped are counted all the same.
G3  Ids of persons and episodes are forgotten once they are counted: `Episodes.persons` numbers people from 0. Only a
    collector, who knows people by pseudonyms of their ids, asks for them (`read_people`).

An episode is a pair (person, episode), so episode numbers may begin anew with every person. Memory is that of the
trajectories (H steps per episode), of the codes of the rows and of the ids; the text of a file is streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit.arguments import checked
from tacit.errors import MAX_REPORTS, InvalidInput, require, require_count
from tacit.study.episode_log import DataCheck, Episodes
from tacit.study.log_source import LogSource, read_batches
from tacit.study.mapping import EpisodeMapping
from tacit.study.trajectory_builder import TrajectoryBuilder

__all__ = ["DataCheck", "Episodes", "Progress", "as_mapping", "check_log", "data_check", "read_episodes", "read_people"]

Progress = Callable[[int], None]
"""Told how many rows were read."""


@checked
def read_episodes(
    log: LogSource,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    progress: Progress | None = None,
) -> Episodes:
    """Episodes of a log by a public mapping; a log that fails its check is refused (G2).

    A log is a .csv or .parquet file, a pandas or polars frame, an Arrow table, NumPy arrays by column name, an iterable
    of rows or episodes, or a Minari dataset (`tacit.study.log_source`).

    Parameters
    ----------
    log, mapping
        As in `tacit.data_check`.
    progress
        Called with the share that is done.

    Returns
    -------
    Episodes
        Sensitive trajectories; their `repr` shows numbers of episodes and people only.

    Raises
    ------
    InvalidInput
        If the log fails its data check (G2).

    Examples
    --------
    >>> mapping = {"columns": {"person": "who", "episode": None, "step": None}, "horizon": 1,
    ...     "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
    ...     "actions": {"column": "given", "categories": ["wait", "pill"]},
    ...     "reward": {"column": "points", "low": 0.0, "high": 1.0}}
    >>> log = {"who": ["ada", "bob"], "fever": [39.5, 36.8], "given": ["pill", "wait"], "points": [1, 0.5]}
    >>> read_episodes(log, mapping)
    Episodes(2 of 2 people)
    """
    check, episodes = check_log(log, mapping, progress=progress)
    if episodes is None:
        raise InvalidInput(f"the log must pass its data check, got {check.line}; see where with --check-only")
    return episodes


@checked
def data_check(
    log: LogSource,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    reports_per_person: int | None = None,
    progress: Progress | None = None,
) -> DataCheck:
    """Numbers of bad rows and episodes by reason; with a cap, also how many episodes are above it.

    Parameters
    ----------
    log
        A file, frame, table, arrays, rows or episodes (`tacit.study.log_source`).
    mapping
        The public mapping, or its file.
    reports_per_person
        A cap on episodes per person, to count those above it.
    progress
        Called with the share that is done.

    Returns
    -------
    DataCheck
        Numbers of bad rows and episodes by reason; no value of the log.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> mapping = {"columns": {"person": "who", "episode": None, "step": None}, "horizon": 1,
    ...     "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
    ...     "actions": {"column": "given", "categories": ["wait", "pill"]},
    ...     "reward": {"column": "points", "low": 0.0, "high": 1.0}}
    >>> log = {"who": ["ada", "bob"], "fever": [39.5, 36.8], "given": ["pill", "wait"], "points": [1, 0.5]}
    >>> data_check(log, mapping)
    DataCheck(rows=2, episodes=2, people=2, bad={}, notes={})
    """
    return check_log(log, mapping, reports_per_person=reports_per_person, progress=progress)[0]


def check_log(
    log: LogSource,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    reports_per_person: int | None = None,
    progress: Progress | None = None,
) -> tuple[DataCheck, Episodes | None]:
    """Read a log once: the check, and the episodes if it found nothing bad."""
    if reports_per_person is not None:
        require_count("reports_per_person", reports_per_person, most=MAX_REPORTS)
    return _gathered(log, as_mapping(mapping), progress).finish(reports_per_person)


def read_people(
    log: LogSource,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    progress: Progress | None = None,
) -> tuple[Episodes, tuple[str, ...]]:
    """Episodes of a log and the ids of its people, by number: for a collector, who turns them into pseudonyms."""
    gathered = _gathered(log, as_mapping(mapping), progress)
    check, episodes = gathered.finish(None)
    if episodes is None:
        raise InvalidInput(f"the log must pass its data check, got {check.line}; see where with --check-only")
    return episodes, tuple(gathered.people)


def _gathered(log: LogSource, mapping: EpisodeMapping, progress: Progress | None) -> TrajectoryBuilder:
    gathered = TrajectoryBuilder(mapping)
    for batch in read_batches(log, mapping):
        gathered.take(batch)
        if progress is not None:
            progress(gathered.rows)
    require(gathered.rows > 0, "the log must have a row", 0)
    return gathered


def as_mapping(mapping: EpisodeMapping | Mapping[str, Any] | str | Path) -> EpisodeMapping:
    """The mapping itself, or the one in a file or in JSON-ready values."""
    if isinstance(mapping, EpisodeMapping):
        return mapping
    if isinstance(mapping, Mapping):
        return EpisodeMapping.from_dict(mapping)
    return EpisodeMapping.read(mapping)
