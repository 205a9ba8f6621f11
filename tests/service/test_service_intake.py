"""The writer: durable before it is acknowledged, bounded, in order, and flushed at the end."""

from __future__ import annotations

import asyncio
import io
import sqlite3
import threading

import pytest
from shuffler_world import Place, slug, talking
from study_fakes import FakeDesign

from tacit.errors import InvalidInput
from tacit.service.metrics import Log, Meters
from tacit.service.stage_windows import Writer
from tacit.service.web import Refused
from tacit.study.collector import Collector


def many(target=40):
    return FakeDesign(target=target, least=4, labels=target)


def writer_of(place, collector, **more):
    sizes = {"queue": 100, "together": 100, **more}
    return Writer(collector, meters=Meters("shuffler"), log=Log("shuffler", io.StringIO()), **sizes)


def collector_of(place, **more):
    collector = Collector.new(place.directory / "collector", place.design, noise="simulation", seed=0, **more)
    collector.open(place.bundle())
    return collector


class Gate:
    """An edge at which the writer's thread stops until it is let through."""

    def __init__(self, at):
        self.at, self.reached, self.open = at, threading.Event(), threading.Event()
        self.seen = []

    def __call__(self, edge):
        self.seen.append(edge)
        if edge == self.at:
            self.reached.set()
            assert self.open.wait(20)


def counted_in(place):
    with sqlite3.connect(place.database) as connection:
        return connection.execute("SELECT count(*) FROM report").fetchone()[0]


def test_nothing_is_answered_before_its_commit(tmp_path):
    """N1: stopped just before the commit, no future is resolved and another reader sees no report."""
    place, gate = Place(tmp_path, many()), Gate("add:before commit")

    async def scene():
        writer = writer_of(place, collector_of(place, edge=gate))
        writer.start()
        answers = [writer.submit(place.report(label), f"p{label}") for label in range(3)]
        assert await asyncio.to_thread(gate.reached.wait, 20)
        await asyncio.sleep(0.05)
        assert not any(answer.done() for answer in answers)
        assert counted_in(place) == 0
        gate.open.set()
        assert await asyncio.gather(*answers) == ["counted"] * 3
        assert counted_in(place) == 3
        await writer.stop()

    asyncio.run(scene())


def test_reports_that_wait_share_a_commit_and_the_queue_is_bounded(tmp_path):
    """N2: while one commit is held up, 5 wait, the 6th is refused at once, and the 5 share the next commit."""
    place, gate = Place(tmp_path, many()), Gate("add:before commit")

    async def scene():
        writer = writer_of(place, collector_of(place, edge=gate), queue=5)
        writer.start()
        first = writer.submit(place.report(0), "p0")
        assert await asyncio.to_thread(gate.reached.wait, 20)
        waiting = [writer.submit(place.report(label), f"p{label}") for label in range(1, 6)]
        assert writer.full
        with pytest.raises(Refused) as refused:
            writer.submit(place.report(6), "p6")
        assert (refused.value.slug, refused.value.problem.status) == ("overloaded", 429)
        gate.open.set()
        assert await asyncio.gather(first, *waiting) == ["counted"] * 6
        assert not writer.full
        assert gate.seen.count("add:after commit") == 2
        await writer.stop()

    asyncio.run(scene())


def test_overload_is_429_with_a_time_and_passes(tmp_path):
    """Over HTTP: with the disk held up some wait, all others come back at once; afterwards everybody is counted."""
    place, gate = Place(tmp_path, many(), limits="queue = 4"), Gate("add:before commit")

    async def scene():
        async with talking(place, edge=gate) as talk:
            await talk.open()
            first = asyncio.create_task(talk.send(0))
            assert await asyncio.to_thread(gate.reached.wait, 20)
            asked = [asyncio.create_task(talk.send(label)) for label in range(1, 20)]
            done, waiting = await asyncio.wait(asked, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            while len(waiting) > 4:
                more, waiting = await asyncio.wait(waiting, timeout=20, return_when=asyncio.FIRST_COMPLETED)
                assert more
                done |= more
            refused = [task.result() for task in done]
            assert [slug(one) for one in refused] == ["overloaded"] * 15
            assert all(int(one.headers["retry-after"]) > 0 for one in refused)
            gate.open.set()
            assert {one.status_code for one in await asyncio.gather(first, *waiting)} == {201}
            again = [await talk.send(label) for label in range(20, 30)]
            assert {one.status_code for one in again} == {201}

    asyncio.run(scene())


def test_steps_come_after_the_reports_that_were_taken_in_before_them(tmp_path):
    """N3: everything that was submitted before a close counts, everything after it is late."""
    place = Place(tmp_path, many())

    async def scene():
        writer = writer_of(place, collector_of(place), together=3)
        writer.start()
        before = [writer.submit(place.report(label), f"p{label}") for label in range(10)]
        closed = asyncio.create_task(writer.run(lambda collector: collector.close()))
        await asyncio.sleep(0)
        after = [writer.submit(place.report(label), f"p{label}") for label in range(10, 14)]
        assert await closed == 10
        assert await asyncio.gather(*before) == ["counted"] * 10
        assert await asyncio.gather(*after) == ["late"] * 4
        await writer.stop()

    asyncio.run(scene())


def test_a_step_that_is_refused_says_so_and_the_writer_goes_on(tmp_path):
    place = Place(tmp_path, many())

    async def scene():
        writer = writer_of(place, collector_of(place))
        writer.start()
        with pytest.raises(InvalidInput, match="at least"):
            await writer.run(lambda collector: collector._require_enough(collector.channels[0], 1))
        assert await writer.submit(place.report(1), "p") == "counted"
        await writer.stop()

    asyncio.run(scene())


def test_one_report_cannot_spoil_the_others(tmp_path):
    """N4: a name that the collector refuses to take fails its whole transaction; the others count all the same."""
    place, gate = Place(tmp_path, many()), Gate("add:before commit")

    async def scene():
        writer = writer_of(place, collector_of(place, edge=gate))
        writer.start()
        first = writer.submit(place.report(0), "p0")
        assert await asyncio.to_thread(gate.reached.wait, 20)
        rows = [writer.submit(place.report(label), f"p{label}" if label != 2 else "") for label in range(1, 5)]
        gate.open.set()
        found = await asyncio.gather(first, *rows, return_exceptions=True)
        assert [one if isinstance(one, str) else one.slug for one in found] == [
            *("counted", "counted", "unavailable", "counted", "counted"),
        ]
        await writer.stop()

    asyncio.run(scene())


def test_the_end_flushes_what_was_taken_in(tmp_path):
    """N6: stopped with a full queue, every report is answered and durable, and nothing is taken in afterwards."""
    place = Place(tmp_path, many())

    async def scene():
        writer = writer_of(place, collector_of(place), together=2)
        writer.start()
        answers = [writer.submit(place.report(label), f"p{label}") for label in range(30)]
        await writer.stop()
        assert [answer.result() for answer in answers] == ["counted"] * 30
        with pytest.raises(Refused) as refused:
            writer.submit(place.report(31), "p31")
        assert refused.value.slug == "draining"

    asyncio.run(scene())
    assert counted_in(place) == 30


def test_who_waits_too_long_is_told_and_is_counted_once(tmp_path):
    """N5: the disk is held up beyond the patience; the same report again is known."""
    place, gate = Place(tmp_path, many()), Gate("add:before commit")

    async def scene():
        writer = writer_of(place, collector_of(place, edge=gate), patience=0.01)
        writer.start()
        report = place.report(1)
        with pytest.raises(Refused) as refused:
            await asyncio.wait_for(writer.submit(report, "p1"), 20)
        assert refused.value.slug == "unavailable"
        gate.open.set()
        await writer.run(lambda collector: None)
        assert counted_in(place) == 1
        await writer.stop()
        patient = writer_of(place, writer.collector)
        patient.start()
        assert await patient.submit(report, "p1") == "again"
        await patient.stop()

    asyncio.run(scene())


def test_a_writer_that_breaks_refuses_and_says_so(tmp_path):
    """The thread ends, as when memory is full: nothing hangs, and nothing is taken in."""
    place = Place(tmp_path, many())

    async def scene():
        def breaks(edge):
            if edge == "add:begun":
                raise MemoryError

        collector = collector_of(place)
        writer = writer_of(place, collector)
        writer.start()
        collector.store.edge = breaks

        def end(collector):
            raise SystemExit

        with pytest.raises(Refused) as refused:
            await writer.submit(place.report(1), "p")
        assert refused.value.slug == "unavailable"
        asked = asyncio.create_task(writer.run(end))
        for _ in range(200):
            if writer.broken:
                break
            await asyncio.sleep(0.02)
        assert writer.broken
        asked.cancel()
        with pytest.raises(Refused):
            writer.submit(place.report(2), "p2")

    asyncio.run(scene())


def test_a_stage_is_full_at_its_target_in_one_group_and_over_groups(tmp_path):
    """The number of reports is bounded without counting; at the target it is exact, in stages after others too."""
    place = Place(tmp_path, FakeDesign(stages=2, target=5, least=3, labels=40))
    collector = collector_of(place)
    found = collector.add_many([(place.report(label), f"a{label}") for label in range(7)])
    assert found == ("counted",) * 5 + ("full",) * 2
    collector.void("again")
    collector.open(place.bundle(1))
    found = [collector.add(place.report(label, stage=1), f"b{label}") for label in range(7)]
    assert found == ["counted"] * 5 + ["full"] * 2
    other = Collector(place.directory / "collector")
    assert other.add(place.report(9, stage=1), "b9") == "full"
