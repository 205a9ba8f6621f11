"""What an operator sees: progress of stages, reports per minute, refusals, leases, keys, contradictions, disk.

N1  Counts of reports are participation, which replace-one neighbours do not hide, and pages say so. They are kept by
    whole minutes, in memory, and nothing about a single report is shown.
N2  Reasons of refusals depend on the form of what was sent, never on what a person did.
N3  Z-scores are computed of releases, which are public.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tacit.errors import TacitError
from tacit.service.dashboard.watched import Watched, WatchedParty
from tacit.service.encryption.keyring import Keyring
from tacit.service.health_checks import OLD_KEYS, stage_room
from tacit.study.collector import Collector
from tacit.study.intake import REASONS
from tacit.study.stage_summaries import StageSummary
from tacit.study.study import Study

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
