"""Replay: the same reports again, together, after a restart and after the close; and what a shuffler could do."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from chaos.clients import Writers
from chaos.oracle import Held, Sent
from chaos.parties import status
from chaos.sealed_worlds import SealedWorld, sealed_world
from chaos.worlds import World, bad, row, until, world
from tacit.study.wire import Report

SCALES = {"ci": {"reports": 300, "writers": 12}, "chaos": {"reports": 10_000, "writers": 24}}
SEALED_TARGET = 6


def run(scale: str = "chaos", seed: int = 17) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    few = ("forged manifest", "duplicated message", "another stage's messages")
    return [replayed(**size, seed=seed), moved(), learner(few if scale == "ci" else tuple(CHANGES))]


def replayed(reports: int, writers: int, seed: int) -> dict[str, Any]:
    """Every report twice at the same time, again after SIGKILL, and again after the close: four times in all."""
    coins = random.Random(seed)  # noqa: S311 - the order
    with world(stages=2, target=reports + 1, least=reports, labels=reports + 8) as it:
        it.parties.start()
        it.await_stage(0)
        people = [it.person(0) for _ in range(reports)]
        answers = [send_all(it, people * 2, writers, coins)]
        it.parties.kill("shuffler")
        it.parties.start("shuffler")
        answers.append(send_all(it, people, writers, coins))
        with contextlib.closing(it.parties.internally("shuffler")) as wire:
            closed = wire.ask("POST", "/v1/stages/0/close")
        assert closed is not None
        assert closed.status == 200
        it.await_taken(1)
        answers.append(send_all(it, people, writers, coins))
        found = it.audit()
    first, after, last = answers
    once = first == {"counted": reports, "again": reports} and after == last == {"again": reports}
    return row(
        f"{reports} reports x 3: at the same time, after SIGKILL, after the close",
        "counted once",
        first["counted"],
        once and not bad(found),
        f"{4 * reports} requests, {first['counted']} counted, the others 'again'",
        answers=[dict(one) for one in answers],
        findings=bad(found),
    )


def send_all(it: World, jobs: list[tuple[Sent, bytes]], writers: int, coins: random.Random) -> Counter[str]:
    """Send all of these in a random order; what was said."""
    found: Counter[str] = Counter()
    mixed = coins.sample(jobs, len(jobs))
    crowd = Writers(it.parties.public("shuffler"), mixed, lambda sent, reply, _: found.update([it.told(sent, reply)]))
    crowd.number = writers
    crowd.start()
    crowd.join(900.0)
    return found


def moved() -> dict[str, Any]:
    """A report of one stage in another: as it is, under a new number, and as a row of the database."""
    words: Counter[str] = Counter()
    with world(stages=3, target=4, least=4, labels=40) as it:
        it.parties.start()
        it.await_stage(0)
        people = [it.person(0) for _ in range(4)]
        send_all(it, people, 4, random.Random(1))  # noqa: S311
        it.await_taken(1)
        it.await_stage(1)
        with contextlib.closing(it.parties.publicly("shuffler")) as wire:
            for sent, _ in people:
                again = Report(study=it.parties.study, stage=1, id=sent.id, body=b"\0\0\0\0a body's end").encode()
                reply = wire.ask("POST", "/v1/reports", it.sender.envelope(again, sent.person))
                words["new number: " + (reply.word if reply else "")] += 1
        it.parties.kill("shuffler")
        for statement in ("UPDATE report SET stage = 1", "UPDATE outbox SET stage = 1", "DELETE FROM outbox"):
            with contextlib.closing(sqlite3.connect(it.parties.state("shuffler") / "collector.db")) as database:
                try:
                    database.execute(statement)
                    words["database: changed"] += 1
                except sqlite3.Error:
                    words["database: refused"] += 1
                database.rollback()
        it.parties.start("shuffler")
        it.fill(4)
        it.await_taken(2)
        found = it.audit()
    wrong = words["database: changed"] + sum(n for word, n in words.items() if word.endswith((": counted", ": again")))
    return row("rows moved to another stage", "refused", wrong, wrong == 0 and not bad(found), words=dict(words))


def learner(changes: tuple[str, ...]) -> dict[str, Any]:
    """A dishonest shuffler: its learner refuses the batch, or finds nothing in it that opens."""
    said = {change: CHANGES[change](change) for change in changes}
    wrong = sum(one["wrong"] for one in said.values())
    what = ", ".join(changes)
    return row(what, "refused", wrong, wrong == 0, "nothing taken, or nothing opened", said=said)


def refused(mutant: str) -> dict[str, Any]:
    """A release that the learner must not take."""
    with sealed_world(1, SEALED_TARGET) as it:
        _begin(it, mutant)
        _people(it)
        until(lambda: status(it.parties, "learner")["worker"]["outcome"] == "refused")
        return {"wrong": it.taken, "word": status(it.parties, "learner")["worker"]["word"][:120]}


def changed_file(change: str) -> dict[str, Any]:
    """One byte of the file is another one: refused; as it was: taken."""
    with sealed_world(1, SEALED_TARGET) as it:
        _begin(it, "")
        it.parties.trap("learner").write_text("release:fetched")
        _people(it)
        it.parties.await_death("learner", 90.0)
        (batch,) = (it.parties.state("shuffler") / "batches").glob("*.batch")
        whole = batch.read_bytes()
        batch.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        it.parties.start("learner")
        until(lambda: status(it.parties, "learner")["worker"]["outcome"] == "refused")
        taken, word = it.taken, status(it.parties, "learner")["worker"]["word"][:120]
        batch.write_bytes(whole)
        it.parties.kill("learner")
        it.parties.start("learner")
        it.await_taken(1)
        return {"wrong": taken + len(bad(it.audit())), "word": word}


def other_stage(mutant: str) -> dict[str, Any]:
    """Messages of stage 0 in the place of those of stage 1: none of them opens, so nobody counts a second time."""
    with sealed_world(2, SEALED_TARGET) as it:
        _begin(it, mutant)
        _people(it)
        it.await_taken(1)
        it.await_asked(1)
        _people(it)
        until(lambda: it.taken == 2 or status(it.parties, "learner")["worker"]["outcome"] in ("refused", "held"))
        rows = Held.read(it.parties).taken
    sums = {stage: int(np.frombuffer(opened or b"", dtype="<i8").sum()) for (stage, _), (_, opened) in rows.items()}
    return {"wrong": sums.get(1, 0) + (sums[0] == 0), "opened": sums}


CHANGES: dict[str, Callable[[str], dict[str, Any]]] = {
    "forged manifest": refused,
    "forged release": refused,
    "duplicated message": refused,
    "changed file": changed_file,
    "another stage's messages": other_stage,
}


def _begin(it: SealedWorld, mutant: str) -> None:
    it.parties.mutant = mutant
    it.enrol(2 * SEALED_TARGET)
    it.parties.start()
    it.await_asked(0)


def _people(it: SealedWorld) -> None:
    for thread in it.crowd(SEALED_TARGET):
        thread.join(90.0)
