"""Named failpoints: a process dies at an edge between two effects, is started again, and everything goes on."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from chaos.clients import Writers
from chaos.sealed_worlds import SealedWorld, sealed_world
from chaos.worlds import World, bad, row, until, world

SHUFFLER = (
    *("open:begun", "open:before commit", "open:after commit", "add:before commit", "add:after commit"),
    *("close:before commit", "close:after commit", "release:begun", "release:drawn", "release:made"),
    *("release:stored", "release:committed", "release:before commit", "release:after commit", "release:after scrub"),
)
LEARNER = (
    *("plan:planned", "plan:written", "plan:before commit", "plan:after commit", "plan:made", "bundle:handed"),
    *("release:fetched", "take:stored", "take:learned", "take:before commit", "take:after commit", "release:taken"),
)
PLAIN = (*(("shuffler", edge) for edge in SHUFFLER), *(("learner", edge) for edge in LEARNER))
LOCAL = (("shuffler", "open:drawn"), ("shuffler", "open:before commit"), ("shuffler", "release:made"))
SEALED = (
    ("shuffler", "release:batch written"),
    ("shuffler", "release:batch named"),
    ("shuffler", "release:after commit"),
    ("learner", "batch:opened"),
    ("learner", "issuer:open"),
    ("learner", "release:taken"),
    ("issuer", "issue:signed"),
    ("issuer", "issue:before commit"),
    ("issuer", "issue:after commit"),
    ("issuer", "open:before commit"),
    ("issuer", "open:after commit"),
)
SMALL_PLAIN = (
    ("shuffler", "release:made"),
    ("shuffler", "release:before commit"),
    ("shuffler", "release:after commit"),
    ("shuffler", "add:after commit"),
    ("learner", "plan:written"),
    ("learner", "take:before commit"),
)
SMALL_SEALED = (("shuffler", "release:batch named"), ("issuer", "issue:after commit"))
SCALES = {
    "ci": {"times": 1, "plain": SMALL_PLAIN, "local": LOCAL[:1], "sealed": SMALL_SEALED},
    "chaos": {"times": 5, "plain": PLAIN, "local": LOCAL, "sealed": SEALED},
}
TARGET, LEAST = 8, 4
DIED = -9


def run(scale: str = "chaos", seed: int = 0) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    times: Any = size["times"]
    return [
        labelled("release, take, plan, open, add, close", size["plain"], times, "test-central"),
        labelled("paid before the stage opens (local trust)", size["local"], times, "test-local"),
        sealed(size["sealed"], times),
        publishes_first(),
        acknowledges_first(),
    ]


def labelled(what: str, points: Any, times: int, kind: str, mutant: str = "") -> dict[str, Any]:
    """Every failpoint so many times, one stage each, in a study without noise."""
    shots = [point for point in points for _ in range(times)]
    fired: Counter[str] = Counter()
    sizes = {"stages": len(shots) + 1, "target": TARGET, "least": LEAST, "labels": TARGET * (len(shots) + 2)}
    with world(kind=kind, parties={"mutant": mutant}, **sizes) as it:
        it.parties.start()
        it.await_stage(0)
        for number, (party, edge) in enumerate(shots):
            shot(it, party, edge, number)
            fired[f"{party} {edge}"] += 1
        released = len({path.name.split("-")[0] for path in it.parties.views.iterdir()})
        found = it.audit()
    return _row(f"failpoints: {what}", points, times, found, fired, released, released == len(shots), it.book.total)


def shot(it: World, party: str, edge: str, number: int) -> None:
    """One stage in which a party dies at an edge, once."""
    trap = it.parties.trap(party)
    trap.write_text(edge)
    people = [it.person(number) for _ in range(TARGET)]
    crowd = Writers(it.parties.public("shuffler"), people, lambda sent, reply, _: it.told(sent, reply), number=4)
    crowd.start()
    until(lambda: not it.parties.alive(party))
    assert it.parties.await_death(party) == DIED
    assert not trap.exists()
    it.parties.start(party)
    crowd.join()
    it.await_taken(number + 1)
    it.await_stage(number + 1)


def sealed(points: Any, times: int) -> dict[str, Any]:
    """The same with tokens and sealed batches."""
    shots = [point for point in points for _ in range(times)]
    fired: Counter[str] = Counter()
    with sealed_world(len(shots) + 1) as it:
        it.enrol(TARGET * (len(shots) + 2))
        it.parties.start()
        it.await_asked(0)
        for number, (party, edge) in enumerate(shots):
            sealed_shot(it, party, edge, number)
            fired[f"{party} {edge}"] += 1
        released = it.taken
        found = it.audit()
    counted = sum(len(some) for some in it.bodies.values())
    what = "failpoints: batch file, bundle handover, tokens (sealed, with issuer)"
    return _row(what, points, times, found, fired, released, released == len(shots), counted)


def sealed_shot(it: SealedWorld, party: str, edge: str, number: int) -> None:
    """One sealed stage in which a party dies at an edge, once."""
    it.parties.trap(party).write_text(edge)
    people = it.crowd(TARGET)
    until(lambda: not it.parties.alive(party))
    assert it.parties.await_death(party) == DIED
    it.parties.start(party)
    _joined(people)
    it.await_taken(number + 1)
    it.await_asked(number + 1)


def publishes_first() -> dict[str, Any]:
    """A shuffler that publishes first and records then must be found: it gives two views."""
    with world(stages=2, target=TARGET, least=LEAST, labels=3 * TARGET, parties={"mutant": "publish first"}) as it:
        it.parties.start()
        it.await_stage(0)
        shot(it, "shuffler", "release:before commit", 0)
        found = it.audit()
    met = found["two views"] == 1 and found["uncommitted"] == 1
    return row(
        "the mutant 'publish first, then record'", "found: two views", found["two views"], met, findings=bad(found)
    )


def acknowledges_first() -> dict[str, Any]:
    """A shuffler that answers before its commit must be found: it loses what it acknowledged."""
    with world(stages=2, target=TARGET, least=LEAST, labels=3 * TARGET, parties={"mutant": "acknowledge first"}) as it:
        it.parties.start()
        it.await_stage(0)
        it.parties.trap("shuffler").write_text("add:before commit")
        it.fill(1)
        it.parties.await_death("shuffler")
        it.parties.start("shuffler")
        found = it.audit()
    lost = found["acknowledged and lost"]
    return row("the mutant 'acknowledge first, then write'", "found: lost", lost, lost == 1, findings=bad(found))


def _joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(120.0)
        assert not thread.is_alive()


def _row(
    what: str, points: Any, times: int, found: dict[str, int], fired: Any, released: int, whole: bool, counted: int
) -> dict[str, Any]:
    measured = sum(found.values())
    return row(
        what,
        f"{len(points)} failpoints x {times}: lost, twice, two views, unpaid: 0",
        measured,
        measured == 0 and whole and sum(fired.values()) == len(points) * times,
        f"{sum(fired.values())} exits, {released} stages released, {counted} reports acknowledged",
        findings=bad(found),
        exits=dict(fired),
        released=released,
        acknowledged=counted,
    )
