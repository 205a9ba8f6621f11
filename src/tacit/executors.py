"""Engines: where independent tasks are done, on the cores of this machine or on the workers of a Ray cluster.

    local    here: this process, and processes beside it
    ray      tasks of a Ray cluster (extra `ray`): of one that is started and stopped with the work, or of one that
             runs already, at an address

E1  An engine changes where a task is done and nothing else: a task draws from its own seed, whoever works on it.
E2  A task whose worker or machine is lost goes to another one, at most `RETRIES` times. One that raises fails at once.
E3  The driver, and nobody else, takes outcomes: each task's once, as they end.
E4  Never more than a few tasks per core are under way, however many there are.

Scheduling, transport, detection of losses and retries are Ray's own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from tacit._version import __version__
from tacit.errors import MAX_WORKERS, InvalidInput, NotSupported, UnknownName, install_hint, require, require_count
from tacit.system import cores

ENGINES: Final = ("local", "ray")
"""By the names that options give them."""
RETRIES: Final = 3
"""How often a task is given to another worker after its own was lost (E2)."""
AHEAD: Final = 3
"""Tasks per core that are under way at most (E4)."""
POLL_SECONDS: Final = 0.25
LINE: Final = "\n"
CONNECT_SECONDS: Final = 5.0
"""Seconds in which a cluster must answer at its address; Ray itself would try for minutes."""

Item = TypeVar("Item")
Found = TypeVar("Found")
Work = Callable[[Item, Callable[[int], None]], Found]
"""(item, progress) -> outcome; progress takes a number that grows."""


class TaskFailed(Exception, Generic[Item]):
    """A task raised, or its workers were lost too often; `__cause__` is what it raised, None where it was lost."""

    def __init__(self, item: Item, words: str) -> None:
        super().__init__(words)
        self.item = item


def default_workers(tasks: int) -> int:
    """As many as this process may use cores, but no more than there are tasks."""
    return max(1, min(cores(), tasks))


def check_engine(engine: str, *, address: str | None = None) -> None:
    """Raise unless this engine can be used here; starts nothing.

    >>> check_engine("local")
    >>> check_engine("rya")
    Traceback (most recent call last):
    tacit.errors.UnknownName: unknown engine 'rya': did you mean 'ray'? Known: local, ray
    """
    if engine not in ENGINES:
        raise UnknownName("engine", str(engine), ENGINES)
    if engine == "local":
        require(address is None, "an address belongs to the engine 'ray'", address, "say engine 'ray', too")
        return
    if importlib.util.find_spec("ray") is None:
        raise NotSupported(f"the engine ray needs the package ray: {install_hint('ray')}")
    if address is not None:
        _host_and_port(address)


@contextlib.contextmanager
def ray_cluster(*, workers: int, address: str | None = None) -> Iterator[tuple[Any, bool]]:
    """Ray and whether it was started here: with so many cores, and stopped in the end; one that runs is left running.

    Without an address, a cluster that this process is connected to already is used.
    """
    check_engine("ray", address=address)
    import ray

    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        require(
            address in (None, "auto", there), f"this process is connected to the Ray cluster at {there}", address,
            "leave the address out, or call ray.shutdown() before",
        )  # fmt: skip
        yield ray, False
        return
    quietly: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address is None:
        with _environment(RAY_USAGE_STATS_ENABLED="0"):  # nobody is told that somebody runs this
            # A worker that its machine has no memory for is lost like any other; by default it is tried for ever.
            limits = {"task_oom_retries": RETRIES}
            ray.init("local", num_cpus=workers, include_dashboard=False, _system_config=limits, **quietly)
    else:
        _require_answer(address)
        try:
            ray.init(address=address, **quietly)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InvalidInput(f"cannot join the Ray cluster at {address}: {error}") from error
    try:
        yield ray, address is None
    finally:
        ray.shutdown()


def parallel_map(
    work: Work[Item, Found],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    address: str | None = None,
    advanced: Callable[[Mapping[int, int]], None] | None = None,
) -> Generator[tuple[Item, Found], None, None]:
    """Do `work` on every item on a Ray cluster; gives every item once with its outcome, as they end (E3).

    Parameters
    ----------
    work
        A function that the workers can import, or that can be sent to them.
    workers
        Tasks at once; by default as many as the cluster (a new one: this machine) has cores.
    address
        HOST:PORT of a cluster that runs already, or "auto"; None: one is started here and stopped in the end.
    advanced
        Told how far the tasks under way are, by their places in `items`.

    Raises `TaskFailed` for the first task that fails; what is under way then is cancelled.
    """
    if workers is not None:
        require_count("workers", workers, most=MAX_WORKERS)
    if not items:
        return
    cores = default_workers(len(items)) if workers is None else workers
    with ray_cluster(workers=cores, address=address) as (ray, started):
        yield from _Driver(ray, work, items, None if started else workers, advanced).outcomes()


class _Driver(Generic[Item, Found]):
    """What the tasks of one call have in common."""

    def __init__(
        self,
        ray: Any,
        work: Work[Item, Found],
        items: Sequence[Item],
        limit: int | None,
        advanced: Callable[[Mapping[int, int]], None] | None,
    ) -> None:
        self.ray, self.items, self.limit, self.advanced = ray, items, limit, advanced
        self.remote = ray.remote(_attempt).options(num_cpus=1, max_retries=RETRIES, name=_name(work))
        self.work = ray.put(work)
        self.tally = None if advanced is None else _tally(ray)
        self.left = iter(range(len(items)))
        self.pending: dict[Any, int] = {}

    def outcomes(self) -> Iterator[tuple[Item, Found]]:
        """As they end."""
        try:
            self._submit()
            while self.pending:
                done, _ = self.ray.wait(list(self.pending), num_returns=1, timeout=POLL_SECONDS)
                for reference in done:
                    found = self._outcome(reference)
                    number = self.pending.pop(reference)
                    self._submit()
                    yield self.items[number], found
                self._tell()
        finally:
            for reference in self.pending:
                self.ray.cancel(reference, force=True)
            if self.tally is not None:
                self.ray.kill(self.tally)

    def _submit(self) -> None:
        """Have so many tasks under way as the cluster has use for now (E4)."""
        most = self.limit
        if most is None:
            most = AHEAD * max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        while len(self.pending) < most and (number := next(self.left, None)) is not None:
            reference = self.remote.remote(self.work, number, self.items[number], self.tally, __version__)
            self.pending[reference] = number

    def _outcome(self, reference: Any) -> Found:
        item = self.items[self.pending[reference]]
        try:
            found: Found = pickle.loads(self.ray.get(reference))  # noqa: S301  what our own worker wrote
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, Exception):
                cause = RuntimeError(str(cause))
            words = f"{type(cause).__name__}: {str(cause).partition(LINE)[0]}"
            cause.add_note(f"on a worker of the cluster: {error}")
            raise TaskFailed(item, words) from cause
        except self.ray.exceptions.RayError as error:
            kind = type(error).__name__
            raise TaskFailed(
                item, f"its worker was lost {RETRIES + 1} times (killed, out of memory, or its machine is gone: {kind})"
            ) from None
        return found

    def _tell(self) -> None:
        if self.advanced is None or self.tally is None:
            return
        seen = self.ray.get(self.tally.read.remote())
        self.advanced({number: seen[number] for number in self.pending.values() if number in seen})


class _Tally:
    """How far the tasks are that are under way; it lives beside the driver."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def note(self, number: int, done: int) -> None:
        self.seen[number] = done

    def read(self) -> dict[int, int]:
        return self.seen


def _tally(ray: Any) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(_Tally).options(num_cpus=0, scheduling_strategy=here).remote()


def _attempt(work: Work[Item, Found], number: int, item: Item, tally: Any, version: str) -> bytes:
    """On a worker: do the work, and send the outcome as bytes, which the driver reads as its own memory."""
    if version != __version__:
        raise NotSupported(f"all machines of a cluster need one version of tacit: {version} here, {__version__} there")
    told = time.monotonic()

    def progress(done: int) -> None:
        nonlocal told
        now = time.monotonic()
        if tally is not None and now - told >= POLL_SECONDS:
            told = now
            tally.note.remote(number, done)

    return pickle.dumps(work(item, progress))


def _name(work: Any) -> str:
    """What Ray's own tools call the tasks."""
    return f"tacit {getattr(work, '__name__', 'work').strip('_')}"


def _host_and_port(address: str) -> tuple[str, int] | None:
    """The parts of an address; None for "auto", which Ray looks up."""
    if address == "auto":
        return None
    host, _, port = str(address).rpartition(":")
    right = bool(host) and port.isdecimal() and "/" not in host
    require(right, "the address of a Ray cluster must be HOST:PORT or 'auto'", address, "'ray status' prints it")
    return host.strip("[]"), int(port)


def _require_answer(address: str) -> None:
    place = _host_and_port(address)
    if place is None:
        return
    try:
        socket.create_connection(place, timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise InvalidInput(
            f"no Ray cluster answers at {address}: {error.strerror or error}; start one with 'ray start --head'"
        ) from error


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set what is not set, for as long as it takes."""
    mine = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            del os.environ[name]
