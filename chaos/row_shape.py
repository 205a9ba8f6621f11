"""What can be seen from outside: the shape of what a device sends, the order of a batch, and who knows what.

shape      extreme lives through the device of the SDK and real services: one sequence of requests, one length each
overflow   blocks that are too small, as rarely as certified and whatever the person did
order      the file that a collector writes, in memory and through buckets on the disk
canaries   address, agent, id, token, credential and time of every request: nowhere at the learner, not in the batch,
           not in the shuffler's logs and metrics
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from chaos import orders, studies
from chaos.canaries import Times, files_of, hits, numbers_of
from chaos.parties import Parties, fast_directory, status
from chaos.worlds import row, until
from tacit.data.trajectories import Trajectory
from tacit.randomness import SimulationNoise
from tacit.service.device import RemoteDevice
from tacit.service.http_client import Backoff, client
from tacit.service.tokens.admission import Enrolment
from tacit.study.wire import ID, Report

SCALES: dict[str, dict[str, int]] = {
    "ci": {"people": 14, "stages": 150, "orders": 60},
    "chaos": {"people": 64, "stages": 2000, "orders": 1000},
}
HORIZON = 4
LIVES: list[dict[str, Any] | None] = [
    {"states": [0] * (HORIZON + 1), "actions": [0] * HORIZON, "rewards": [0.0] * HORIZON},
    {"states": [1] * (HORIZON + 1), "actions": [1] * HORIZON, "rewards": [1.0] * HORIZON},
    {
        "states": [0, 1] * (HORIZON // 2) + [0],
        "actions": [1, 0] * (HORIZON // 2),
        "rewards": [1.0, 0.0] * (HORIZON // 2),
    },
    {"states": [1, 0] * (HORIZON // 2) + [1], "actions": [0] * HORIZON, "rewards": [0.5] * HORIZON},
    {"states": [0] * HORIZON + [1], "actions": [1] * HORIZON, "rewards": [1e-300] * HORIZON},
    {"states": [1] + [0] * HORIZON, "actions": [0] * (HORIZON - 1) + [1], "rewards": [1.0 - 1e-16] * HORIZON},
    None,
]
"""Extreme lives; None is a cover report."""
ADDRESS, FORWARDED = "127.66.77.88", "203.0.113.77"
AGENT, WRITTEN = "canary-agent-5f2c", "2031-05-06T07:08:09.123456"
SKEW = 40_000_000.0
"""The shuffler's clock is so many seconds ahead: its times are nobody else's."""
TRUSTS = ("central", "shuffle", "local")
OVERFLOW, PLANTED = 0.1, 0.49


@cache
def design(trust: str, people: int) -> Any:
    """A study of one stage."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {
        "states": 2,
        "actions": 2,
        "horizon": HORIZON,
        "stages": 1,
        "target": people,
        "least": people,
    }
    delta = 0.0 if trust == "local" else 1e-3
    return plan_study(
        **sizes,
        epsilon=8.0,
        delta=delta,
        learner="bucb" if trust != "local" else "auto",
        trust=trust,
        mechanism="binomial" if trust == "shuffle" else None,  # the bits whose blocks overflow now and then
    )


# lives through the services


@dataclass
class Seen:
    """What the harness knows of one study: the shape of every device's requests, canaries, and where to look."""

    answers: dict[str, int] = field(default_factory=dict)
    shapes: set[Any] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    canaries: dict[str, list[bytes]] = field(default_factory=dict)
    times: Times = field(default_factory=lambda: Times(0.0, 0.0))
    learner: dict[str, bytes] = field(default_factory=dict)
    shuffler: dict[str, bytes] = field(default_factory=dict)
    batch: dict[str, bytes] = field(default_factory=dict)
    numbers: list[Any] = field(default_factory=list)


def lived(trust: str, people: int) -> Seen:
    """Let people with extreme lives report, until the learner has taken the release; then look everywhere."""
    made, tokens = design(trust, people), trust == "shuffle"
    seen = Seen()
    with fast_directory() as folder, Parties.new(folder / "study", made, tokens=tokens) as parties:
        credentials = (
            list(Enrolment(parties.enrolment).enrol(people)) if tokens else [f"{i:08d}" for i in range(people)]
        )
        parties.skew = SKEW
        parties.start("shuffler")
        parties.skew = 0.0
        parties.start(*(party for party in parties.parties if party != "shuffler"))
        until(lambda: status(parties, "shuffler")["state"] == "open", 180.0)
        first = time.time() + SKEW - 1.0
        secrets: dict[str, list[bytes]] = {"id": [], "token": [], "credential": []}
        for number, credential in enumerate(credentials):
            _live(parties, credential, LIVES[number % len(LIVES)], tokens, seen, secrets)
        seen.times = Times(first, time.time() + SKEW + 1.0)
        until(lambda: status(parties, "learner")["releases"] or status(parties, "learner")["quarantined"], 180.0)
        words = {"address": [ADDRESS, FORWARDED], "agent": [AGENT], "time": [WRITTEN]}
        seen.canaries = {name: [word.encode() for word in some] for name, some in words.items()} | secrets
        if not tokens:
            del seen.canaries["credential"], seen.canaries["token"]
        _look(parties, seen)
    return seen


def _live(
    parties: Parties, credential: str, life: Any, tokens: bool, seen: Seen, secrets: dict[str, list[bytes]]
) -> None:
    """One device, from its first request to its last."""
    import httpx

    asked: list[tuple[str, str, int]] = []

    def note(request: Any) -> None:
        asked.append((request.method, request.url.path, len(request.content)))

    headers = {"user-agent": AGENT, "x-forwarded-for": FORWARDED, "x-sent-at": WRITTEN, "cookie": f"agent={AGENT}"}
    over = client(
        headers=headers, transport=httpx.HTTPTransport(local_address=ADDRESS), event_hooks={"request": [note]}
    )
    with contextlib.closing(over):
        device = RemoteDevice(
            None,
            shuffler=parties.public("shuffler"),
            issuer=parties.public("issuer") if tokens else None,
            pins=parties.pins,
            credential=credential if tokens else None,
            name=None if tokens else credential,
            cap=math.inf,
            floor=1,
            backoff=Backoff(first=0.05, most=0.4),
            over=over,
        )
        device.refresh()
        if tokens:
            until(device.join, 30.0)
        if life is None:
            device.cover()
        else:
            device.report(life)
        secrets["id"].append(Report.parse(device.kept.report).id)
        if tokens:
            token = device._wallet.token(device.kept.stage)
            secrets["token"] += [token[8:40], token[40:72]]
            secrets["credential"].append(credential.encode())
        answer = device.send(within=180.0)
    seen.answers[answer] = seen.answers.get(answer, 0) + 1
    waited = [one for one in asked if one[1] not in ("/v1/keys/issuer",)]
    seen.shapes.add(tuple(waited))
    seen.lengths |= {length for method, path, length in asked if path == "/v1/reports"}


def _look(parties: Parties, seen: Seen) -> None:
    """Everything that the learner has, and what the shuffler says about itself."""
    for party, found in (("learner", seen.learner), ("shuffler", seen.shuffler)):
        with contextlib.closing(parties.internally(party)) as wire:
            for path in ("/metrics", "/v1/status"):
                reply = wire.ask("GET", path)
                assert reply is not None
                found[f"{party}: {path}"] = reply.body
    # The database is looked at while the learner runs: what is in its log is in the file beside it.
    seen.learner |= files_of(parties.home("learner") / "state", "learner")
    seen.numbers = numbers_of(parties.home("learner") / "state" / "study.db")
    seen.batch = {f"batch: {path.name}": path.read_bytes() for path in parties.state("shuffler").rglob("*.batch")}
    seen.batch |= files_of(parties.views, "release")
    for party in ("learner", "shuffler"):
        assert parties.end(party) == 0, party
    seen.learner["learner: log"] = (parties.home("learner") / "log.jsonl").read_bytes()
    seen.shuffler["shuffler: log"] = (parties.home("shuffler") / "log.jsonl").read_bytes()


def found_canaries(seen: Seen) -> dict[str, int]:
    """Canaries where none may be."""
    found = hits({**seen.learner, **seen.shuffler, **seen.batch}, seen.canaries, seen.times)
    if count := seen.times.in_numbers(seen.numbers):
        found["time in the learner's tables"] = count
    return found


def planted(seen: Seen) -> tuple[int, int]:
    """How many planted leaks there were, and how many of them were found."""
    import base64
    import struct

    moment = (seen.times.first + seen.times.last) / 2
    leaks: list[tuple[str, bytes]] = [(name, some[0]) for name, some in seen.canaries.items()]
    leaks += [(name, some[-1].hex().encode()) for name, some in seen.canaries.items()]
    leaks += [(name, base64.b64encode(b"before" + some[0] + b"after")) for name, some in seen.canaries.items()]
    leaks += [("time", struct.pack("<d", moment)), ("time", struct.pack(">q", int(moment * 1e6)))]
    leaks += [("time", json.dumps({"at": int(moment * 1000)}).encode())]
    leaks += [("time", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)).encode())]
    haystack = max({**seen.learner, **seen.shuffler}.values(), key=len)
    caught = 0
    for name, leak in leaks:
        middle = len(haystack) // 2
        found = hits({"planted": haystack[:middle] + leak + haystack[middle:]}, seen.canaries, seen.times)
        caught += f"{name} in planted" in found
    caught += seen.times.in_numbers([*seen.numbers, moment]) == 1
    return len(leaks) + 1, caught


# blocks that are too small


def overflows(stages: int, life: dict[str, Any] | None, seed: int, certified: float = OVERFLOW) -> dict[str, int]:
    """Bodies of stages of 20 people whose blocks overflow with at most a certified probability per stage."""
    planned = design("shuffle", 20).parts().channels[0]
    made = replace(planned, overflow=Fraction(certified), block=_block(planned, certified))
    noise = SimulationNoise(np.random.default_rng(seed))
    path = None if life is None else Trajectory(*(np.array(life[name]) for name in ("states", "actions", "rewards")))
    extra = [
        [(len(made.encode(path, noise)) - made.body_size) / (made.labels.itemsize * made.block) for _ in range(20)]
        for _ in range(stages)
    ]
    flat = [blocks for stage in extra for blocks in stage]
    return {
        "stages": stages,
        "overflowing": sum(any(stage) for stage in extra),
        "odd": sum(blocks != int(blocks) or blocks < 0 for blocks in flat),
    }


def _block(made: Any, certified: float) -> int:
    """The block that a stage needs for this probability."""
    from tacit.release.shuffle.roles import Transport

    found = Transport(
        num_counters=made.spec.num_counters,
        slots=made.spec.slots,
        users=made.target,
        bits_per_user=made.bits_per_user,
        probability=float(made.probability),
        mirrored=made.mirrored,
        overflow_prob=certified,
    )
    return int(found.block)


def too_many(stages: int) -> int:
    """More overflowing stages than these have a probability below 1e-6 if 0.1 is true."""
    from scipy import stats

    return int(stats.binom.isf(1e-6, stages, OVERFLOW))


# orders


def collected_orders(folder: Path, repeats: int, memory: int | None) -> list[Any]:
    """The orders in which a collector writes the messages of one stage, again and again."""
    from tacit.runs.signature import new_keys
    from tacit.service.encryption.keyring import Keyring
    from tacit.study.collector import Collector
    from tacit.study.external_shuffle import BatchFiles
    from tacit.study.sealed_batches import body_size, message_size
    from tacit.study.study import Study

    made = studies.sealed(1, 8)
    study = Study.new(folder / "study", made, seed=1, sealed=1)
    collector = Collector.new(folder / "collector", made, sealed=1)
    ring = Keyring.new(folder / "ring", party="learner", study=study.study)
    collector.open(study.plan({"learner": ring.document(new_keys(folder / "keys")[0])}))
    channel = collector.channels[0]
    size, length = message_size(channel, 1), body_size(channel, 1)
    bodies = [os.urandom(length) for _ in range(8)]
    for number, body in enumerate(bodies):
        report = Report(study=collector.study, stage=0, id=os.urandom(ID), body=body).encode()
        assert collector.add(report, f"person {number}") == "counted"
    collector.close()
    whole = b"".join(bodies)
    arrived = {whole[start : start + size]: start // size for start in range(0, len(whole), size)}
    files = BatchFiles(folder / "collector", collector.store, **({} if memory is None else {"memory": memory}))
    found = []
    for _ in range(repeats):
        with collector.store.reading() as connection:
            manifest = files.write(connection, 0, channel, 8, 1)
        path = files.folder / f"{manifest.digest.hex()}.batch"
        data = path.read_bytes()
        found.append(np.array([arrived[data[start : start + size]] for start in range(0, len(data), size)]))
        path.unlink()
    return found


def run(scale: str = "chaos", seed: int = 17) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    rows = []
    for trust in TRUSTS:
        seen = lived(trust, size["people"])
        rows.append(_shape_row(trust, seen, size["people"]))
        rows.append(_canary_row(trust, seen))
    return [*rows, _overflow_row(size["stages"], seed), *_order_rows(size["orders"], seed)]


def _shape_row(trust: str, seen: Seen, people: int) -> dict[str, Any]:
    met = len(seen.shapes) == len(seen.lengths) == 1 and seen.answers == {"counted": people}
    return row(
        f"constant shape over extreme lives, {trust}",
        "one body length, one sequence of requests",
        f"{len(seen.lengths)} length, {len(seen.shapes)} sequence",
        met,
        lengths=sorted(seen.lengths),
        answers=seen.answers,
    )


def _canary_row(trust: str, seen: Seen) -> dict[str, Any]:
    found, (leaks, caught) = found_canaries(seen), planted(seen)
    looked = {**seen.learner, **seen.shuffler, **seen.batch}
    return row(
        f"canaries: {', '.join(seen.canaries)}; {trust}",
        "0 hits; every planted leak found",
        f"{sum(found.values())} hits in {len(looked)} places; {caught} of {leaks} planted found",
        not found and caught == leaks,
        f"{sum(map(len, looked.values())):,} bytes",
        hits=found,
    )


def _overflow_row(stages: int, seed: int) -> dict[str, Any]:
    found = [overflows(stages, life, seed + place) for place, life in enumerate((LIVES[0], LIVES[1], None))]
    worse = overflows(stages, LIVES[0], seed, certified=PLANTED)
    counts, most = [one["overflowing"] for one in found], too_many(stages)
    met = max(counts) <= most < worse["overflowing"] and max(counts) > 0 and not any(one["odd"] for one in found)
    return row(
        f"overflowing blocks, certified at {OVERFLOW:.0%} of stages",
        f"at most {most} of {stages} (false alarms 1e-6), blocks for {PLANTED:.0%} found",
        f"{counts} of {stages}; {worse['overflowing']} with blocks for {PLANTED:.0%}",
        met,
        "two extreme lives and cover reports",
    )


def _order_rows(repeats: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for name, memory in (("in memory", None), ("through buckets", 16_384)):
        with fast_directory() as folder:
            found = collected_orders(folder, repeats, memory)
        p = orders.tests(found)
        rows.append(
            row(
                f"shuffle of {len(found[0])} messages, {name}",
                f"uniform: p >= {orders.RATE:g} in three tests",
                ", ".join(f"{test} {value:.2g}" for test, value in p.items()),
                min(p.values()) >= orders.RATE,
                f"{repeats} orders",
            )
        )
    caught = [name for name in orders.BIASED if orders.alarms(orders.biased(name, repeats, len(found[0]), seed))]
    rows.append(
        row(
            "planted shuffles that are not uniform",
            "all found",
            f"{len(caught)} of {len(orders.BIASED)}",
            len(caught) == len(orders.BIASED),
            ", ".join(caught),
        )
    )
    return rows
