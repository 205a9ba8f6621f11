"""The engines that work on the pieces of a batch: one process, the cores of a machine, or the workers of a Ray cluster.

    local        one piece after the other, here
    processes    a pool of processes, as many as there are cores or as were asked for
    ray          tasks of a Ray cluster (extra `ray`), which must belong to the party: keys travel to its workers

N1  An engine changes where work is done and nothing else: `map` gives the same results, one for every piece, in the
    order of the pieces.
N2  Memory is bounded: never more than a few pieces per worker are under way.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from tacit.errors import UnknownName, require_count
from tacit.executors import ray_cluster
from tacit.service.batches.tasks import Task

Found = TypeVar("Found")
AHEAD: Final = 3
"""How many pieces per worker are under way at most (N2)."""


class Engine(Protocol):
    """Where pieces are worked on."""

    def map(self, work: Callable[[Task, bytes], Found], task: Task, pieces: Iterable[bytes]) -> Iterator[Found]:
        """work(task, piece) for every piece, in order (N1)."""
        ...


class _Local:
    def map(self, work: Callable[[Task, bytes], Found], task: Task, pieces: Iterable[bytes]) -> Iterator[Found]:
        return (work(task, piece) for piece in pieces)


class _Processes:
    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self.pool, self.workers = pool, workers

    def map(self, work: Callable[[Task, bytes], Found], task: Task, pieces: Iterable[bytes]) -> Iterator[Found]:
        under_way: deque[Future[Found]] = deque()
        for piece in pieces:
            under_way.append(self.pool.submit(work, task, piece))
            if len(under_way) >= AHEAD * self.workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


class _Ray:
    def __init__(self, ray: Any, workers: int) -> None:
        self.ray, self.workers = ray, workers

    def map(self, work: Callable[[Task, bytes], Found], task: Task, pieces: Iterable[bytes]) -> Iterator[Found]:
        remote, shared = self.ray.remote(work), self.ray.put(task)
        under_way: deque[Any] = deque()
        for piece in pieces:
            under_way.append(remote.remote(shared, piece))
            if len(under_way) >= AHEAD * self.workers:
                yield self.ray.get(under_way.popleft())
        while under_way:
            yield self.ray.get(under_way.popleft())


@contextlib.contextmanager
def _local(workers: int) -> Iterator[Engine]:
    yield _Local()


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Engine]:
    # A process of its own for every worker, not a copy of this one: services have threads, which do not survive a copy.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        yield _Processes(pool, workers)


@contextlib.contextmanager
def _ray(workers: int) -> Iterator[Engine]:
    with ray_cluster(workers=workers) as (ray, _):
        yield _Ray(ray, workers)


ENGINES: Final = {"local": _local, "processes": _processes, "ray": _ray}
"""By the name that a configuration gives them."""


def engine(name: str, workers: int | None = None) -> contextlib.AbstractContextManager[Engine]:
    """The engine of this name with so many workers; without a number, one per core that this process may use.

    >>> with engine("local") as local:
    ...     list(local.map(lambda task, piece: len(piece), None, [b"ab", b"c"]))
    [2, 1]
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    number = len(os.sched_getaffinity(0)) if workers is None else require_count("workers", workers)
    return ENGINES[name](number)
