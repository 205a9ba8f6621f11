"""SIGKILL of any process, again and again, while 24 writers report."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from chaos.clients import Writers
from chaos.sealed_worlds import sealed_world
from chaos.worlds import World, bad, row, world

SCALES = {"ci": {"plain": (4, 24), "sealed": (3, 6)}, "chaos": {"plain": (50, 24), "sealed": (24, 24)}}
"""(kills, writers)"""
TARGET, LEAST = 36, 18
SEALED_TARGET = 24
WANTED, PROGRESS_SECONDS = 12, 5.0
"""Between two kills so many reports are acknowledged, or so many seconds pass."""


def run(scale: str = "chaos", seed: int = 17) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    return [plain(*size["plain"], seed), sealed(*size["sealed"], seed)]


def plain(kills: int, writers: int, seed: int) -> dict[str, Any]:
    """Shuffler and learner of a study without noise."""
    coins = random.Random(seed)  # noqa: S311 - whom to kill when
    stages, people = 3 * kills + 4, (3 * kills + 4) * TARGET
    done: Counter[str] = Counter()
    with world(stages=stages, target=TARGET, least=LEAST, labels=people) as it:
        it.parties.start()
        it.await_stage(0)
        going = True

        def jobs() -> Any:
            for _ in range(people):
                if not going:
                    return
                yield it.person()

        def told(sent: Any, reply: Any, tries: int) -> None:
            done["sent again"] += tries - 1
            if it.told(sent, reply) not in ("counted", "again"):
                time.sleep(0.05)  # the stage is full or over: wait for the next one

        crowd = Writers(it.parties.public("shuffler"), jobs(), told, number=writers, seconds=120.0)
        crowd.start()
        with contextlib.closing(it.parties.publicly("shuffler")) as wire:
            for number in range(kills):
                before = it.book.total
                _wander(it, wire, PROGRESS_SECONDS, lambda so_far=before: it.book.total >= so_far + WANTED)
                _wander(it, wire, coins.uniform(0.0, 0.4))
                party = it.parties.parties[number % 2] if number < 2 else coins.choice(it.parties.parties)
                it.parties.kill(party)
                it.parties.start(party)
                done[f"killed {party}"] += 1
                it.look(wire)
            _wander(it, wire, 0.5)
        going = False
        crowd.join()
        found = it.audit()
        released = len(list(it.parties.views.iterdir()))
    acknowledged = it.book.total
    measured = sum(found.values())
    lively = released >= 1 and acknowledged >= kills
    return row(
        f"SIGKILL of shuffler and learner under {writers} writers",
        f"{kills} kills: acknowledged and lost, counted twice, two views, unpaid: 0",
        measured,
        measured == 0 and lively,
        f"{acknowledged} reports acknowledged, {released} stages released",
        findings=bad(found),
        acknowledged=acknowledged,
        released=released,
        answers=dict(it.book.tally),
        **done,
    )


def sealed(kills: int, writers: int, seed: int) -> dict[str, Any]:
    """Shuffler, learner and issuer of a sealed study with tokens; writers are devices as the SDK has them."""
    coins = random.Random(seed)  # noqa: S311 - whom to kill when
    stages, done = 2 * kills + 4, Counter[str]()
    with sealed_world(stages, SEALED_TARGET) as it:
        it.enrol(2 * (stages + 1) * SEALED_TARGET + writers)
        it.parties.start()
        it.await_asked(0)
        going = threading.Event()

        def report() -> None:
            while not going.is_set() and it.left:
                if it.person() not in ("counted", "again"):
                    going.wait(1.0)  # the stage is full or over: wait for the next one

        threads = [threading.Thread(target=report, daemon=True) for _ in range(writers)]
        for thread in threads:
            thread.start()
        for number in range(kills):
            before, end = it.answers["counted"], time.monotonic() + PROGRESS_SECONDS
            while it.answers["counted"] < before + WANTED and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(coins.uniform(0.0, 0.5))
            party = it.parties.parties[number % 3] if number < 3 else coins.choice(it.parties.parties)
            it.parties.kill(party)
            it.parties.start(party)
            done[f"killed {party}"] += 1
        it.await_taken(1)
        going.set()
        for thread in threads:
            thread.join(120.0)
        assert not any(thread.is_alive() for thread in threads)
        released = it.taken
        found = it.audit()
    acknowledged = it.answers["counted"] + it.answers["again"]
    measured = sum(found.values()) + it.answers["waiting"]
    return row(
        f"SIGKILL of shuffler, learner and issuer under {writers} devices (sealed, tokens)",
        f"{kills} kills: acknowledged and lost, counted twice, two views, unpaid: 0",
        measured,
        measured == 0 and acknowledged >= kills,
        f"{acknowledged} reports acknowledged, {released} stages released",
        findings=bad(found),
        acknowledged=acknowledged,
        released=released,
        answers=dict(it.answers),
        **done,
    )


def _wander(it: World, wire: Any, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
    """Follow the stages for a while, or until it is enough."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not enough():
        it.look(wire)
        time.sleep(0.02)
