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

Rows come in any order, in batches; each is checked and placed. A row that is wrong is counted once, by the first
reason; it still takes its step, so that one mistake is reported as one. Every person of the log is counted, also one
whose episodes are all dropped by the declared rule: the number of people is public, and what they did must not change
it.

Under central trust every episode can become the report of one person (`log_reports`). A curator may see trajectories,
so a hospital that recorded what happened while its patients followed the policy of a stage can hand the record over
instead of asking devices. A shuffler and a letter box may not: under their trust models data leave a device encoded or
not at all, and a log of raw episodes is refused.

R1  A log that fails its check adds nothing: everything is read and checked before the first report is made.
R2  The log is of this stage: its names, horizon and bounds are those of the design, and every action that was taken
    (padding apart) is possible under some policy of the stage's bundle, and so is every step under the support that
    the design declares. Whether people followed it is the curator's word, as with any data.
R3  A person with several episodes is counted once per stage; the collector refuses the others as "twice".
R4  Ids become pseudonyms in the collector and are kept nowhere else.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.arguments import checked
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories
from tacit.errors import MAX_REPORTS, InvalidInput, NotSupported, PrivacyViolation, require, require_count
from tacit.policies import Policy, tabular
from tacit.randomness import SecureNoise
from tacit.release.contract import Release
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Design
from tacit.study.declarations import support_of
from tacit.study.episode_log import REASONS, DataCheck, Episodes, Finding
from tacit.study.intake import LONGEST_NAME
from tacit.study.log_source import Batch, LogSource, as_numbers, as_times, read_batches
from tacit.study.mapping import Bins, Categories, EpisodeMapping, as_text
from tacit.study.wire import ID, Report
from tacit.support import Support

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


WHY: Final = {
    "shuffle": "the shuffler must not see trajectories: devices encode them with 'tacit device report'",
    "local": "only a person's own device may see a trajectory: encode it there with 'tacit device report'",
}


def log_reports(
    collector: Collector, path: str | Path, mapping: EpisodeMapping | Mapping[str, Any] | str | Path | None = None
) -> Iterator[tuple[bytes, str]]:
    """Reports of the open stage, with whose they are; without a mapping the columns have the names of the design."""
    design = collector.design
    if design.trust != "central":
        raise PrivacyViolation(f"under {design.trust} trust a log of raw episodes is refused: {WHY[design.trust]}")
    if design.features is not None:
        raise NotSupported(
            "a log of features is not taken by a collector: let devices report rows, or learn from the log with "
            "'tacit learn'"
        )
    known = design_mapping(design) if mapping is None else as_mapping(mapping)
    _require_design(known, design)
    bundle, channel = _open_stage(collector)
    episodes, ids = read_people(path, known)
    _require_names(ids)
    _require_possible(episodes, bundle)
    _require_support(episodes, bundle, support_of(channel))
    return _reports(bundle, channel, episodes, ids)


def design_mapping(design: Design) -> EpisodeMapping:
    """The mapping of a log that spells states and actions as the design does."""
    low, high = design.rewards
    return EpisodeMapping.from_dict(
        {
            "states": [{"column": "state", "categories": list(design.states)}],
            "actions": {"column": "action", "categories": list(design.actions)},
            "reward": {"column": "reward", "low": low, "high": high},
            "horizon": design.horizon,
        }
    )


def _reports(bundle: Bundle, channel: Release, episodes: Episodes, ids: tuple[str, ...]) -> Iterator[tuple[bytes, str]]:
    noise = SecureNoise()
    for number in range(len(episodes)):
        lived = episodes.trajectory(number)
        body = channel.encode(lived._replace(states=bundle.seen(np.asarray(lived.states))), noise)
        made = Report(study=bundle.study, stage=bundle["stage"], id=os.urandom(ID), body=body)
        yield made.encode(), ids[int(episodes.persons[number])]


def _require_design(known: EpisodeMapping, design: Design) -> None:
    """The mapping and the design must speak of the same world."""
    hint = "write the mapping with the design's names"
    require(known.state_names == tuple(design.states), "the mapping must have the states of the design", "others", hint)
    require(known.action_names == tuple(design.actions), "the mapping must have the actions of the design", "others")
    require(known.horizon == design.horizon, f"the mapping must have the horizon {design.horizon}", known.horizon)
    bounds = (known.low, known.high)
    require(bounds == tuple(design.rewards), f"the bounds of rewards must be {list(design.rewards)}", list(bounds))


def _open_stage(collector: Collector) -> tuple[Bundle, Release]:
    """The bundle of the open stage, and its channel."""
    last = collector.status()["stages"][-1:]
    open_now = bool(last) and last[0]["state"] == "open"
    require(open_now, "a stage must be open to take reports in", "none", "open one with 'tacit collect open'")
    with collector.store.reading() as connection:
        row = connection.execute("SELECT bundle FROM question WHERE stage = ? AND number = 0", (last[0]["stage"],))
        bundle = Bundle.parse(row.fetchone()[0])
    return bundle, collector.channels[last[0]["slot"]]


def _require_names(ids: tuple[str, ...]) -> None:
    """Ids that pseudonyms can be made of: refused here, before the first report is counted."""
    fine = all(len(one) <= LONGEST_NAME and one.isprintable() for one in ids)
    require(fine, f"ids of persons must be printable UTF-8 of at most {LONGEST_NAME} characters", "others")


def _require_possible(episodes: Episodes, bundle: Bundle) -> None:
    """Every action that was taken is one that somebody in this stage could have been told to take (R2)."""
    policies: list[Policy] = [tabular(policy) for policy, _ in bundle.arms]
    table = np.max([policy.probabilities(len(bundle["actions"])) for policy in policies], axis=0)
    H = table.shape[0]
    seen = bundle.seen(episodes.trajectories.states)
    told = table[np.arange(H), seen, episodes.trajectories.actions] > 0.0
    real = np.arange(H) < episodes.lengths[:, None]
    strange = int((real & ~told).any(axis=1).sum())
    if strange:
        raise InvalidInput(
            f"the log must be of people who followed this stage's policies, got {strange} episodes with an action that "
            "none of them takes; learn from other logs with 'tacit learn'"
        )


def _require_support(episodes: Episodes, bundle: Bundle, support: Support | None) -> None:
    """Every step, padding included, is declared to be possible (R2): whoever contradicts that would not be counted."""
    if support is None:
        return
    H, states, actions = support.horizon, bundle.seen(episodes.trajectories.states), episodes.trajectories.actions
    steps = np.minimum(np.arange(H), len(support.moves) - 1)
    good = support.moves[steps[:-1], states[:, : H - 1], actions[:, :-1], states[:, 1:H]].all(axis=1)
    good &= support.starts[states[:, 0]]
    strange = int((~good).sum())
    if strange:
        raise InvalidInput(
            f"the log must agree with the support that the design declares, got {strange} episodes with a step that "
            "cannot be (padding included); mend the log, or plan a study whose declaration is true"
        )
