"""Load: how many reports a shuffler takes in, what it loses, and what it says when there are too many.

    burst       24 connections that send as soon as they are answered: as many per second as it can take
    sustained   1,200 reports a second for minutes; 201 is given after the commit is on the disk
    overload    four times as many per second as the burst, over 900 connections; then the ordinary load again
    PostgreSQL  the same against a server that this starts

Every acknowledged report is looked up in the database afterwards, and every one in the database was sent.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from chaos.clients import Sender
from chaos.flood import Flood, Found, cpu_seconds, peak_memory
from chaos.parties import Parties, status
from chaos.worlds import row

HORIZON, TARGET, BODY = 12, 1_000_000, 1600
CONNECTIONS = 24
CROWD = 900
FACTOR = 4
OFFERED = 1200.0
"""Reports per second of the sustained load: a fifth more than the bar, and a stage holds ten minutes of it."""
RECOVERY = 10.0
LATENCY = 0.3


@cache
def design() -> Any:
    """A sealed study whose bodies have 1,600 bytes: 32 messages of 50."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": HORIZON, "epsilon": 2.0, "delta": 1e-6}
    return plan_study(**sizes, learner="bucb", trust="shuffle", stages=1, target=TARGET, least=TARGET // 2)


@contextlib.contextmanager
def on_disk() -> Iterator[Path]:
    """A new directory on a real disk: this measures commits that are on it."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CHAOS_DIRECTORY"), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def shuffling(**options: Any) -> Iterator[Parties]:
    """A shuffler with an open stage; the learner that planned it has ended. Options are of its configuration."""
    with on_disk() as folder, Parties.new(folder / "study", design(), options={"shuffler": options}) as parties:
        parties.start()
        await_open(parties)
        parties.end("learner")
        yield parties


def await_open(parties: Parties) -> None:
    """Wait until the shuffler takes reports."""
    end = time.monotonic() + 180.0
    while status(parties, "shuffler")["state"] != "open":
        if time.monotonic() > end:
            raise RuntimeError("no stage was opened")
        time.sleep(0.02)


def flood(parties: Parties, each: int, processes: int = 2, seed: int = 1) -> Flood:
    """Clients of this shuffler."""
    sender = Sender(parties.public("shuffler"), parties.study)
    return Flood(
        url=sender.url,
        key=sender.fetch_key(),
        study=parties.study,
        body=BODY,
        each=each,
        processes=processes,
        seed=seed,
    )


def stored(parties: Parties) -> set[bytes]:
    """The ids of all reports in an SQLite database."""
    place = parties.state("shuffler") / "collector.db"
    with contextlib.closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM report")}


def stored_in(url: str) -> set[bytes]:
    """The ids of all reports in a PostgreSQL database."""
    import psycopg

    with psycopg.connect(url) as connection:
        schemas = connection.execute("SELECT table_schema FROM information_schema.tables WHERE table_name = 'report'")
        (schema,) = (row[0] for row in schemas.fetchall())
        return {bytes(row[0]) for row in connection.execute(f'SELECT id FROM "{schema}".report').fetchall()}  # noqa: S608


def lost_and_invented(clients: Flood, found: Found, kept: set[bytes]) -> tuple[int, int]:
    """Acknowledged reports that are not in the database; reports in it that were refused or never sent."""
    good = {clients.id_of(number) for number in found.of(200, 201)}
    unknown = {clients.id_of(number) for number in found.of(0, 503)}
    return len(good - kept), len(kept - good - unknown)


def sustain(parties: Parties, clients: Flood, kept: Any, **limits: Any) -> dict[str, Any]:
    """What the ordinary load gives: rates, latencies, CPU per report, losses."""
    pid = parties.pid("shuffler")
    before = cpu_seconds(pid)
    found = clients.run(connections=CONNECTIONS, **limits)
    spent = cpu_seconds(pid) - before
    lost, invented = lost_and_invented(clients, found, kept())
    acknowledged = len(found.of(200, 201))
    return {
        "reports": len(found),
        "seconds": round(found.wall, 2),
        "acknowledged": acknowledged,
        "statuses": found.counts,
        "server_errors": sum(count for word, count in found.counts.items() if word.startswith("5")),
        "unanswered": found.counts.get("0", 0),
        "lost": lost,
        "invented": invented,
        "per_second": round(found.rate(201), 1),
        "slowest_second": _slowest_second(found),
        "p50_ms": round(1e3 * found.quantile(0.5), 1),
        "p99_ms": round(1e3 * found.quantile(0.99), 1),
        "cpu_us_per_report": round(1e6 * spent / max(acknowledged, 1), 1),
        "client_cpu_us_per_report": round(1e6 * found.cpu / max(len(found), 1), 1),
        "memory_mb": round(peak_memory(pid) / 2**20, 1),
        "envelope_bytes": clients.size,
        "load_average": round(os.getloadavg()[0], 1),
    }


def overload(parties: Parties, clients: Flood, rate: float, seconds: float) -> dict[str, Any]:
    """Four times too many, then the ordinary load: what was answered, and how long until all is well again."""
    pid = parties.pid("shuffler")
    before = cpu_seconds(pid)
    found = clients.run(connections=CROWD, rate=FACTOR * rate, seconds=seconds)
    spent = cpu_seconds(pid) - before
    after = clients.run(connections=CONNECTIONS, seconds=1.5 * RECOVERY)
    kept = stored(parties)
    losses = [lost_and_invented(clients, one, kept)[0] for one in (found, after)]
    refused = {clients.id_of(number) for number in found.of(429)}
    return {
        "offered": found.offered,
        "offered_per_second": round(FACTOR * rate, 1),
        "answered": len(found),
        "statuses": found.counts,
        "others": sum(count for word, count in found.counts.items() if word not in ("200", "201", "429")),
        "no_retry_after": found.no_retry_after,
        "counted_per_second": round(found.rate(201), 1),
        "p99_ms": round(1e3 * found.quantile(0.99), 1),
        "cpu_us_per_answer": round(1e6 * spent / max(len(found), 1), 1),
        "lost": sum(losses),
        "refused_but_counted": len(refused & kept),
        "after_statuses": after.counts,
        "recovered_after_seconds": recovered(after),
        "after_p99_ms": round(1e3 * after.quantile(0.99), 1),
        "memory_mb": round(peak_memory(pid) / 2**20, 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


def recovered(found: Found) -> float:
    """Seconds until every later second has answers of 201 only, the 99% fastest within the bound."""
    second = (found.moments - found.began).astype(int)
    bad = [
        int(s) + 1
        for s in np.unique(second)
        if (found.statuses[second == s] != 201).any() or np.quantile(found.seconds[second == s], 0.99) > LATENCY
    ]
    return float(max(bad, default=0))


def _slowest_second(found: Found) -> int:
    """Reports of the slowest whole second."""
    counts = np.bincount((found.moments - found.began).astype(int))
    return int(counts[:-1].min()) if len(counts) > 1 else int(counts.sum())


SCALES: dict[str, dict[str, Any]] = {
    "ci": {"minutes": 0.2, "postgres": 0.1, "burst": 2.0, "beside": 20_000},
    "chaos": {
        "minutes": float(os.environ.get("CHAOS_MINUTES", "10")),
        "postgres": 1.0,
        "burst": 10.0,
        "beside": 120_000,
    },
}
"""Minutes of each load (CHAOS_MINUTES shortens the long one), seconds of the burst, requests of a client beside it."""


def run(scale: str = "chaos") -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    seconds = 60.0 * size["minutes"]
    with shuffling() as parties, flood(parties, each=int(seconds * OFFERED / 2) + size["beside"]) as clients:
        burst = clients.run(connections=CONNECTIONS, seconds=size["burst"])
        most, before = burst.rate(201), stored(parties)
        plain = sustain(parties, clients, lambda: stored(parties) - before, seconds=seconds, rate=OFFERED)
        too_many = overload(parties, clients, max(1000.0, most), 10.0)
    plain["most_per_second"] = round(most, 1)
    return [
        _sustained("load, SQLite", plain, 1000.0, seconds),
        _overloaded(too_many),
        _postgres(60.0 * size["postgres"]),
    ]


def _sustained(name: str, found: dict[str, Any], rate: float, seconds: float) -> dict[str, Any]:
    wrong = found["lost"] + found["invented"] + found["server_errors"] + found["unanswered"]
    fast = found["per_second"] >= rate and found["p99_ms"] <= 1e3 * LATENCY
    return row(
        name,
        f">= {rate:.0f} reports/s for {seconds:.0f} s, 0 lost, 0 5xx, p99 <= {1e3 * LATENCY:.0f} ms",
        f"{found['per_second']:.0f}/s, {found['lost']} lost, {found['server_errors']} 5xx, "
        f"p99 {found['p99_ms']:.0f} ms",
        wrong == 0 and fast,
        f"{found['cpu_us_per_report']:.0f} us of CPU per report, load average {found['load_average']}",
        **found,
    )


def _overloaded(found: dict[str, Any]) -> dict[str, Any]:
    wrong = found["others"] + found["no_retry_after"] + found["lost"] + found["refused_but_counted"]
    well = found["recovered_after_seconds"]
    return row(
        f"{FACTOR}x overload",
        f"only 201, 200 and 429 with Retry-After; well again within {RECOVERY:.0f} s",
        f"{found['others']} others, {found['no_retry_after']} without Retry-After, well after {well:.0f} s",
        wrong == 0 and well <= RECOVERY and "429" in found["statuses"],
        f"{found['offered_per_second']:.0f}/s offered, {found['counted_per_second']:.0f}/s counted",
        **found,
    )


def _postgres(seconds: float) -> dict[str, Any]:
    from postgres import running

    with running() as server:
        url = server.database()
        with shuffling(database=url) as parties, flood(parties, each=int(seconds * 1000), seed=2) as clients:
            found = sustain(parties, clients, lambda: stored_in(url), seconds=seconds)
    return _sustained("load, PostgreSQL", found, 500.0, seconds)
