"""Leases: one holder at a time, taken over after their end, and whoever was overtaken writes nothing."""

from __future__ import annotations

import threading

import pytest
from database_tools import add, closed, everything, world

from tacit.errors import InvalidInput
from tacit.study.contract import GENESIS_HEAD
from tacit.study.store import Lease

__all__ = ["closed", "world"]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.5

    def __call__(self) -> float:
        return self.now


def test_a_lease_has_one_holder(world):
    store, clock = world.collector().store, Clock()
    first = Lease.take(store, "release", holder="a", seconds=60, clock=clock)
    assert first is not None
    assert Lease.take(store, "release", holder="b", seconds=60, clock=clock) is None
    assert Lease.take(store, "release", holder="a", seconds=60, clock=clock) is None
    other = Lease.take(store, "window", holder="b", seconds=60, clock=clock)
    assert other is not None
    clock.now += 59
    first.renew()
    clock.now += 59
    assert Lease.take(store, "release", holder="b", seconds=60, clock=clock) is None
    first.give_back()
    second = Lease.take(store, "release", holder="b", seconds=60, clock=clock)
    assert second is not None
    assert second.token == first.token + 1


def test_a_clock_that_was_set_back_keeps_nobody_waiting(world):
    """An end that no holder could have set by this clock is no end; who held the lease is fenced all the same."""
    store, clock = world.collector().store, Clock()
    before = Lease.take(store, "release", holder="a", seconds=60, clock=clock)
    assert before is not None
    clock.now -= 60
    assert Lease.take(store, "release", holder="b", seconds=60, clock=clock) is None
    clock.now -= 1
    after = Lease.take(store, "release", holder="b", seconds=60, clock=clock)
    assert after is not None
    assert after.token == before.token + 1
    with pytest.raises(InvalidInput, match="taken over"):
        before.renew()
    assert Lease.take(store, "release", holder="c", seconds=60, clock=clock) is None


def test_whoever_was_overtaken_writes_nothing(world):
    collector, clock = world.opened(), Clock()
    add(collector, range(4))
    collector.close()
    store = collector.store
    slow = Lease.take(store, "release", holder="slow", seconds=60, clock=clock)
    clock.now += 61
    quick = Lease.take(store, "release", holder="quick", seconds=60, clock=clock)
    assert slow is not None
    assert quick is not None
    before = everything(store)
    with slow.fenced():
        with pytest.raises(InvalidInput, match="taken over"):
            collector.release(GENESIS_HEAD)
        for step in (slow.renew, slow.give_back):
            with pytest.raises(InvalidInput, match="taken over"):
                step()
    assert everything(store) == before
    with quick.fenced():
        first = collector.release(GENESIS_HEAD)
    assert collector.stored() == first


def test_a_lease_that_is_over_but_was_not_taken_still_holds(world):
    collector, clock = world.opened(), Clock()
    lease = Lease.take(collector.store, "close", holder="a", seconds=1, clock=clock)
    clock.now += 1000
    assert lease is not None
    with lease.fenced():
        assert collector.close() == 0
        lease.renew()
    assert Lease.take(collector.store, "close", holder="b", seconds=1, clock=clock) is None


def test_a_fence_is_that_of_one_thread(world):
    collector, clock = world.opened(), Clock()
    slow = Lease.take(collector.store, "close", holder="a", seconds=1, clock=clock)
    clock.now += 2
    Lease.take(collector.store, "close", holder="b", seconds=1, clock=clock)
    answers: list[str] = []
    assert slow is not None
    with slow.fenced():
        other = threading.Thread(target=lambda: answers.extend(add(collector, range(2))))
        other.start()
        other.join(60)
        with pytest.raises(InvalidInput, match="one fence"), slow.fenced():
            pass
    assert answers == ["counted"] * 2


def test_ten_threads_take_one_lease_once(world):
    store, clock = world.collector().store, Clock()
    found: list[Lease | None] = []
    everybody = threading.Barrier(10)

    def take(number: int) -> None:
        everybody.wait(60)
        found.append(Lease.take(store, "job", holder=f"worker {number}", seconds=60, clock=clock))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 10
    assert sum(lease is not None for lease in found) == 1


@pytest.mark.parametrize("bad", [{"name": ""}, {"holder": "x" * 300}, {"seconds": 0}, {"seconds": 1.5}])
def test_strange_leases_are_refused(world, bad):
    store = world.collector().store
    options = {"name": "job", "holder": "a", "seconds": 60, **bad}
    with pytest.raises(InvalidInput):
        Lease.take(store, options.pop("name"), **options)
    assert everything(store)["lease"] == []
