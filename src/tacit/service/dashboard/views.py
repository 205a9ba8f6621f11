"""What a learner's page shows: the return of every stage, the standing against the baseline, the policy by name, and
what changed since the last stage.

What a privacy officer sees: the budget, the certificate, every release, and what verification found.

O1  What was spent comes from the ledger, and what will be from what was reserved in it for the whole schedule: the
    forecast is no estimate. Only the collector has the ledger; a learner alone shows what its design reserved.
O2  Verification derives everything again, with the library's own verifier, and changes nothing.

What an operator sees: progress of stages, reports per minute, refusals, leases, keys, contradictions, disk.

N1  Counts of reports are participation, which replace-one neighbours do not hide, and pages say so. They are kept by
    whole minutes, in memory, and nothing about a single report is shown.
N2  Reasons of refusals depend on the form of what was sent, never on what a person did.
N3  Z-scores are computed of releases, which are public.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tacit.accounting.certificate import NAME, Certificate
from tacit.accounting.composition import epsilon_of
from tacit.accounting.people import PeopleLedger
from tacit.errors import NotSupported, TacitError, require
from tacit.planning.off_policy import normal_quantile
from tacit.runs.verify import Verdict
from tacit.service.dashboard.watched import Watched, WatchedParty
from tacit.service.encryption.keyring import Keyring
from tacit.service.health_checks import OLD_KEYS, stage_room
from tacit.service.web import Refused
from tacit.study.collector import Collector
from tacit.study.contract import Head
from tacit.study.intake import REASONS
from tacit.study.stage_summaries import StagePolicy, StageSummary, changes
from tacit.study.study import Study
from tacit.study.trial import is_trial, read_trial
from tacit.study.verify import verify_collector, verify_study
from tacit.study.wire import ReleasePayload

STATES: Final = 60
STEPS: Final = 24
CHANGES: Final = 60
"""So much of a policy fits on a page; the rest is counted."""


def trial(study: Study) -> dict[str, Any] | None:
    """The verdict of a study that is a trial, as shares of the declared range; None for every other study."""
    if not is_trial(study.design):
        return None
    found = read_trial(study)
    if found is None:
        return {"arms": list(study.design.actions), "line": None}
    return {"arms": list(found.arms), "line": found.line}


def standing(study: Study) -> dict[str, Any] | None:
    """What the releases prove against what people do already, in the world's unit; None: there is no baseline."""
    design = study.design
    if design.baseline is None:
        return None
    found = study.standing()
    if found is None:
        return {"proven": None}
    low, high = (float(bound) for bound in design.rewards)
    least, largest = design.horizon * low, design.horizon * (high - low)
    proven = {
        "baseline": [least + largest * share for share in found.baseline],
        "gain": None if found.gain is None else [largest * share for share in found.gain],
        "lost": largest * max(0.0, found.lost),
        "budget": largest * found.budget,
        "spent": max(0.0, found.lost) / found.budget,
    }
    return {"proven": proven}


def returns(found: Sequence[StageSummary]) -> list[dict[str, Any]]:
    """The mean return of every release, with an interval that includes the privacy noise."""
    return [
        {
            "stage": reading.stage,
            "question": reading.question,
            "people": reading.people,
            "use": reading.use,
            "why": reading.why,
            **_numbers(reading),
        }
        for reading in found
    ]


def _numbers(reading: StageSummary) -> dict[str, float | None]:
    got = reading.returned
    if got is None or not math.isfinite(got.high):
        return {"mean": None if got is None else got.mean, "low": None, "high": None, "noise": None}
    return {"mean": got.mean, "low": got.low, "high": got.high, "noise": got.noise_std}


def coefficients(study: Study) -> dict[str, Any] | None:
    """What a number of a row adds to the expected reward of every action, low and high of 95 %; None: no features.

    Low and high are NaN where it is not told apart from noise.
    """
    space, found = study.design.features, study.coefficients(normal_quantile(0.95))
    if space is None:
        return None
    if found is None:
        return {"actions": list(study.design.actions), "rows": [], "more": 0}
    low, high = (float(bound) for bound in study.design.rewards)
    mean, ends = ((high - low) * part for part in found)
    cells = np.concatenate([mean[:, :, None], ends], axis=2).swapaxes(0, 1).tolist()
    rows = [{"feature": name, "cells": cell} for name, cell in zip(space.names[:STATES], cells, strict=False)]
    return {"actions": list(study.design.actions), "rows": rows, "more": max(0, space.dimension - STATES)}


def policy_table(found: Sequence[StagePolicy]) -> dict[str, Any] | None:
    """The policy of the last stage by name; cells that changed since the stage before say what they were."""
    if not found:
        return None
    last = found[-1]
    H, S = last.shares.shape[:2]
    before = {} if len(found) < 2 else {(one.step, one.state): one.before for one in changes(found[-2], last)}
    steps = min(H, STEPS)
    rows = [
        {
            "state": state,
            "cells": [{"words": last.words(h, s), "was": before.get((h, state))} for h in range(steps)],
        }
        for s, state in enumerate(last.states[:STATES])
    ]
    return {
        "stage": last.stage,
        "asks": last.asks,
        "killed": last.killed,
        "steps": list(range(steps)),
        "rows": rows,
        "more": (max(0, S - STATES), max(0, H - STEPS)),
    }


def changed(found: Sequence[StagePolicy]) -> dict[str, Any] | None:
    """What is done otherwise than in the stage before."""
    if len(found) < 2:
        return None
    before, after = found[-2:]
    rows = changes(before, after)
    places = after.shares.shape[0] * after.shares.shape[1]
    return {
        "from": before.stage,
        "to": after.stage,
        "count": len(rows),
        "places": places,
        "rows": [{"step": row.step, "state": row.state, "was": row.before, "now": row.after} for row in rows[:CHANGES]],
    }


KEPT = {
    "collector": "SELECT stage, question, bytes, digest, charge FROM outbox ORDER BY charge",
    "study": "SELECT stage, question, bytes, digest, charge FROM release ORDER BY charge",
}


def certificate_entries(text: str) -> list[str]:
    r"""The text of a certificate by entries: lines that it wraps are joined, and the page wraps them anew.

    >>> certificate_entries("promise    the odds change\n           little\n           curator   no protection")
    ['promise    the odds change little', '           curator   no protection']
    """
    made: list[str] = []
    for line in text.splitlines():
        if made and re.match(rf" {{{NAME}}}(?!.*\S  +\S)", line):  # no row of a table
            made[-1] += f" {line.strip()}"
        else:
            made.append(line)
    return made


def certificate(watched: Watched) -> Certificate:
    """What the accountant finds for the design, derived anew."""
    party = watched.collector or watched.study
    assert party is not None  # noqa: S101 - something is watched
    return party.certificate()


def budget(watched: Watched, found: Certificate) -> dict[str, Any]:
    """What a person may lose, has been charged with at the worst, and will have been at the end (O1)."""
    design, collector = watched.design, watched.collector
    plain: dict[str, Any] = {
        "epsilon": float(design.epsilon),
        "delta": float(design.delta),
        "forecast": float(found.epsilon),
        "slots": len(design.channels),
        "reports": int(design.unit.reports),
    }
    if collector is None:
        return {**plain, "spent": None, "left": None, "drawn": None, "head": None}
    with collector.store.reading() as connection:
        ledger = PeopleLedger.within(connection)
        spent, head = ledger.spent(), Head.of(ledger.head())
    return {
        **plain,
        "spent": spent.epsilon,
        "left": max(0.0, float(design.epsilon) - spent.epsilon),
        "forecast": max(spent.reserved, spent.epsilon),
        "drawn": len(spent.drawn),
        "head": head.text,
    }


def releases(watched: Watched) -> list[dict[str, Any]]:
    """Every release: what it is, what one report of it cost, and whose word it has."""
    place = _keeper(watched)
    party: Any = place.party
    with party.store.reading() as connection:
        rows = connection.execute(KEPT[place.name]).fetchall()
        slots = dict(connection.execute("SELECT number, slot FROM stage").fetchall())
    pinned = next((one.keys.shuffler for one in watched.places if one.keys.shuffler is not None), None)
    channels = party.channels if isinstance(party, Collector) else party.parts.channels
    found = []
    for stage, question, data, digest, charge in rows:
        given = ReleasePayload.parse(bytes(data))
        signed = given.examined(pinned)
        found.append(
            {
                "stage": stage,
                "question": question,
                "people": given.people,
                "noise": given.noise,
                "digest": digest,
                "charge": charge,
                "bytes": len(data),
                "signature": signed.words.removesuffix(" (give --key)"),
                "forged": bool(given.signature) and not signed.valid,
                "epsilon": _cost(channels[slots[stage]], given.people, watched),
            }
        )
    return found


def release_bytes(watched: Watched, stage: int, question: int) -> bytes:
    """The bytes of a release, which are public."""
    party = _keeper(watched).party
    if isinstance(party, Collector):
        found = party.stored(stage, question)
    else:
        with party.store.reading() as connection:
            row = connection.execute(
                "SELECT bytes FROM release WHERE stage = ? AND question = ?", (stage, question)
            ).fetchone()
        found = b"" if row is None else bytes(row[0])
    if not found:
        raise Refused("not-found")
    return found


def ledger(watched: Watched) -> dict[str, Any]:
    """The whole ledger; no record is about a person."""
    collector = watched.collector
    require(collector is not None, "the ledger is the collector's", "a study alone", "watch the collector")
    assert collector is not None  # noqa: S101 - for the types
    with collector.store.reading() as connection:
        return PeopleLedger.within(connection).export()


def verified(watched: Watched) -> list[Verdict]:
    """What the library's verifier finds of everything that is watched (O2)."""
    found = []
    for place in watched.places:
        check: Any = verify_study if isinstance(place.party, Study) else verify_collector
        try:
            verdict = check(place.directory, database=place.database)
        except TacitError as error:
            said: dict[str, Any] = {"why": str(error), "signature": "not looked at"}
            verdict = Verdict(path=place.name, kind=place.name, outcome="not verified", **said)
        found.append(verdict)
    return found


def _keeper(watched: Watched) -> WatchedParty:
    """Who keeps the releases: the collector's outbox before the learner's copies."""
    return next((place for place in watched.places if place.name == "collector"), watched.places[0])


def _cost(channel: Any, people: int, watched: Watched) -> float | None:
    """The epsilon of one report at the number of people who came, where the accountant can say."""
    try:
        return epsilon_of(channel.events_at(people), watched.design.delta)
    except NotSupported:
        return None


HOUR: Final = 3600.0
MINUTES: Final = 60
"""So many minutes are shown."""
REPORTS: Final = "SELECT count(*) FROM report WHERE stage = ?"


class Rate:
    """Reports per whole minute, as far as this process has watched (N1)."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._minutes: dict[int, int] = {}
        self._before: tuple[int, int] | None = None

    def seen(self, stage: int, reports: int) -> None:
        """A stage has so many reports now."""
        minute = int(self._wall() // 60)
        if self._before is None:
            self._before = (stage, reports)
        last, count = self._before
        new = reports - count if stage == last else reports
        self._before = (stage, reports)
        self._minutes[minute] = self._minutes.get(minute, 0) + max(new, 0)
        for old in [kept for kept in self._minutes if kept <= minute - MINUTES]:
            del self._minutes[old]

    def rows(self) -> list[list[int]]:
        """[minutes ago, reports], the oldest first; the last one, 0, is not over yet."""
        now = int(self._wall() // 60)
        first = min(self._minutes, default=now)
        return [[now - minute, self._minutes.get(minute, 0)] for minute in range(first, now + 1)]


def stages(watched: Watched, rate: Rate, wall: Callable[[], float] = time.time) -> list[dict[str, Any]]:
    """All stages, the last one last."""
    if watched.collector is not None:
        return list(_collected(watched.collector, rate, wall))
    study = watched.study
    assert study is not None  # noqa: S101 - something is watched
    found = study.status()
    people = {row["stage"]: row["people"] for row in found["releases"]}
    return [
        {
            **{name: row[name] for name in ("stage", "slot", "state", "reason")},
            "reports": people.get(row["stage"]),
            **_sizes(study, row["slot"]),
            "minutes": None,
        }
        for row in found["stages"]
    ]


def _collected(collector: Collector, rate: Rate, wall: Callable[[], float]) -> Iterator[dict[str, Any]]:
    with collector.store.reading() as connection:
        rows = connection.execute(
            """SELECT number, slot, state, n, reason, ends FROM stage LEFT JOIN "window" ON stage = number
               ORDER BY number"""
        ).fetchall()
        last = 0 if not rows else connection.execute(REPORTS, (rows[-1][0],)).fetchone()[0]
    if rows:
        rate.seen(rows[-1][0], last)
    for number, slot, state, n, reason, ends in rows:
        running = state == "open"
        yield {
            "stage": number,
            "slot": slot,
            "state": state,
            "reason": reason,
            "reports": last if running else n,
            "least": collector.channels[slot].least,
            "target": collector.channels[slot].target,
            "minutes": None if ends is None or not running else max(0, int((ends - wall()) // 60)),
        }


def _sizes(study: Study, slot: int | None) -> dict[str, int | None]:
    if slot is None:
        return {"least": None, "target": None}
    channel = study.parts.channels[slot]
    return {"least": channel.least, "target": channel.target}


def refusals(collector: Collector | None) -> list[dict[str, Any]] | None:
    """How many reports were refused for which reason (N2); None where that is not known."""
    if collector is None:
        return None
    with collector.store.reading() as connection:
        rows = connection.execute("SELECT reason, count FROM rejected ORDER BY count DESC, reason").fetchall()
    return [{"reason": reason, "words": REASONS.get(reason, ""), "count": count} for reason, count in rows]


def leases(places: Sequence[WatchedParty], wall: Callable[[], float] = time.time) -> list[dict[str, Any]]:
    """Which process does which job, and for how long."""
    found = []
    for place in places:
        with place.party.store.reading() as connection:
            rows = connection.execute("SELECT name, holder, token, until FROM lease ORDER BY name").fetchall()
        for name, holder, token, until in rows:
            left = int(until - wall())
            found.append(
                {"party": place.name, "job": name, "holder": holder if left > 0 else "nobody", "token": token}
                | {"minutes": max(0, -(-left // 60))}
            )
    return found


def keys(places: Sequence[WatchedParty], tokens: Path, wall: Callable[[], float] = time.time) -> list[dict[str, Any]]:
    """What keys there are and how old they are, in whole hours; never a key."""
    found: list[dict[str, Any]] = []
    for place in places:
        sealing = place.directory / "sealing" if place.keys.sealing is None else place.keys.sealing
        if (sealing / "keyring.json").is_file():
            found.extend(_ring(place.name, sealing, wall()))
        files = {"signing key": place.keys.sign, "key of pseudonyms": place.directory / "people.key"}
        found.extend(
            {"party": place.name, "key": name, "state": "in use", **_age(path, wall())}
            for name, path in files.items()
            if path is not None and path.is_file()
        )
    for name, path in (("reading token", "reader.token"), ("writing token", "writer.token")):
        if (tokens / path).is_file():
            found.append({"party": "dashboard", "key": name, "state": "in use", **_age(tokens / path, wall())})
    return found


def _ring(party: str, directory: Path, now: float) -> Iterator[dict[str, Any]]:
    try:
        ring = Keyring(directory)
        for name, state in ring.states().items():
            path = directory / f"{name.hex()}.key"
            yield {"party": party, "key": f"sealing key {name.hex()[:8]}", "state": state, **_age(path, now)}
    except (TacitError, OSError):
        yield {"party": party, "key": "sealing keys", "state": "unreadable", "hours": None, "old": True}


def _age(path: Path, now: float) -> dict[str, Any]:
    seconds = max(0.0, now - path.stat().st_mtime)
    return {"hours": int(seconds // HOUR), "old": seconds > OLD_KEYS}


def flow_rows(found: Sequence[StageSummary]) -> list[dict[str, Any]]:
    """The z-scores of flow conservation of every release (N3)."""
    return [
        {
            "stage": reading.stage,
            "question": reading.question,
            "use": reading.use,
            "scores": [
                {
                    "law": score.law,
                    "lines": score.lines,
                    "largest": score.largest if math.isfinite(score.largest) else None,
                    "allowed": score.allowed,
                }
                for score in reading.flow
            ],
        }
        for reading in found
    ]


def quarantined(study: Study | None) -> list[dict[str, Any]] | None:
    """Releases that wait for somebody to look into them; None where that is not known."""
    if study is None:
        return None
    rows = study.status()["quarantined"]
    return [{"stage": stage, "question": question, "finding": finding} for stage, question, finding in rows]


def disks(places: Sequence[WatchedParty]) -> list[dict[str, Any]]:
    """What the parties' files take, what is free, and what a stage takes at the most; in MiB."""
    found = []
    for place in places:
        # A party whose tables are in PostgreSQL may have no directory yet.
        there = next(path for path in (place.directory, *place.directory.absolute().parents) if path.exists())
        free = shutil.disk_usage(there).free
        taken = sum(path.stat().st_size for path in _files(place.directory))
        needed = stage_room(place.party) if isinstance(place.party, Collector) else None
        found.append(
            {
                "party": place.name,
                "taken": -(-taken // 2**20),
                "free": free // 2**20,
                "needed": None if needed is None else -(-needed // 2**20),
                "low": needed is not None and free < needed,
            }
        )
    return found


def _files(directory: Path) -> Iterator[Path]:
    """Files that are there; some may go while they are counted."""
    for path in directory.rglob("*"):
        try:
            if path.is_file():
                path.stat()
                yield path
        except OSError:
            continue
