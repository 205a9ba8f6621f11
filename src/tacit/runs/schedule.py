"""Seeds on processes or on a cluster: which worker runs a seed, and beside how many others, cannot change a row.

Every task is one seed of one configuration and draws from generators that depend on its seed alone. Workers are fresh
interpreters (`spawn`); they get the configuration by cloudpickle, so classes of a notebook or
script travel with it. They report progress through one shared counter per task (and one more, for compilation) and end
when their parent does. The first failure stops everything that runs and
names its seed; what was finished before stays finished. On a Ray cluster (`tacit.executors`) a seed whose worker was
lost runs again elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import cloudpickle

from tacit.environments.live import LiveWorld
from tacit.errors import MAX_WORKERS, require_count
from tacit.executors import TaskFailed, default_workers, parallel_map
from tacit.jit_progress import announce, processor_compiling, seconds_compiling, set_listener
from tacit.learners.contract import KernelLearner
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.progress import quiet
from tacit.runs.trial_result import release_of_run
from tacit.simulation.simulate import COMPILED_FROM, Progress, SeedRun, Speed, log_checkpoints, simulate

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

POLL_SECONDS: Final = 0.1
TRIAL_SECONDS: Final = 1.5
"""Unless told how many workers to use, try so long without any: short work is done before a process has started.

Seconds of the processor: on a busy machine work takes longer, and processes would make it busier."""
WAITING: Final = 4.0
"""A trial that waits for something else than the processor (a simulator of its own) ends after so many times that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One seed of one configuration."""

    config: RunConfig
    seed: int
    cell: int = 0
    """Whose seed it is, for the caller's own bookkeeping."""
    label: str = ""
    """What the cell is called."""

    def __str__(self) -> str:
        return f"seed {self.seed} of {self.label or self.config.learner} on {self.config.environment_name}"


class SeedFailed(RuntimeError):
    """A seed did not finish; the message names it, the cause is attached."""


class _Stopped(Exception):
    """Raised from a progress report, to give up the seed that reports."""


def run_tasks(
    tasks: Sequence[Task],
    *,
    workers: int | None,
    finished: Callable[[Task, SeedRun], None],
    advanced: Progress,
    engine: str = "local",
    address: str | None = None,
) -> None:
    """Run every task; call `finished` once for each, as they end, and `advanced` with the episodes done by all."""
    if not tasks:
        return
    if engine == "ray":
        _run_on_ray(tasks, workers, address, finished, advanced)
        return
    most = default_workers(len(tasks)) if workers is None else require_count("workers", workers, most=MAX_WORKERS)
    count = min(most, len(tasks))
    if count == 1:
        _run_here(tasks, finished, advanced)
        return
    done = 0 if workers is not None else _run_here(tasks, finished, advanced, seconds=TRIAL_SECONDS)
    before, left = sum(task.config.episodes for task in tasks[:done]), tasks[done:]
    try:
        sent = [cloudpickle.dumps(task) for task in left]
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        warnings.warn(f"one process runs all seeds: the run cannot be sent to others ({cause})", RuntimeWarning, 2)
        _run_here(left, finished, lambda episodes: advanced(before + episodes))
        return
    _run_on_processes(left, sent, count, finished, lambda episodes: advanced(before + episodes))


def run_seed(task: Task, progress: Progress) -> SeedRun:
    """Run one seed to its end."""
    parts, episodes = assemble(task.config), task.config.episodes
    _compile(task.config)
    marks = log_checkpoints(episodes, task.config.checkpoints)
    found = simulate(
        parts.mdp,
        parts.learner,
        parts.privatizer,
        episodes=episodes,
        seed=task.seed,
        checkpoints=marks,
        progress=progress,
    )
    if task.config.value_users is None or found.policy is None:
        return found
    return replace(found, arms=release_of_run(task.config, found.policy, task.seed))


@dataclass(frozen=True, slots=True)
class _Kernels:
    """What decides which kernels a run needs, in which form; its numbers decide nothing."""

    names: tuple[object, ...]
    config: RunConfig = field(compare=False)


def _compile(config: RunConfig) -> None:
    """Compile what users who come one by one need at the speed of this run, so that no seed's seconds contain it."""
    world = (type(config.environment), config.environment_name, config.batch is None, config.baseline is None)
    private = (config.trust, config.mechanism, config.calibration, config.honest_fraction is None, config.support)
    learner = (config.learner, config.constants, config.estimator, config.public_losses)
    _compile_once(_Kernels((*world, *private, *learner, config.episodes >= COMPILED_FROM), config))


@lru_cache(maxsize=1024)
def _compile_once(kernels: _Kernels) -> None:
    config = kernels.config
    parts = assemble(config)
    if isinstance(parts.mdp, LiveWorld):
        return  # its users come from Python: there is no fused loop
    if isinstance(parts.learner, KernelLearner) and parts.privatizer.kernel is not None:
        speed: Speed = "compiled" if config.episodes >= COMPILED_FROM else "interpreted"
        # Two rounds: what the users of the last one report is released to nobody.
        few = min(2 * parts.learner.least, config.episodes)
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=few, seed=0, speed=speed)


def _run_here(
    tasks: Sequence[Task], finished: Callable[[Task, SeedRun], None], advanced: Progress, *, seconds: float = math.inf
) -> int:
    """Run the tasks in this process, for so many seconds (compilation aside); returns how many were finished."""
    before, spent = 0, 0.0
    for number, task in enumerate(tasks):
        try:
            _compile(task.config)
            started = _Clocks.read()
            run = run_seed(task, _until(started, seconds - spent, before, advanced))
        except _Stopped:
            return number
        except Exception as error:
            raise SeedFailed(f"{task} failed: {type(error).__name__}: {error}") from error
        spent += started.worked()
        before += task.config.episodes
        finished(task, run)
    return len(tasks)


def _until(started: _Clocks, seconds: float, before: int, advanced: Progress) -> Progress:
    """Report progress, and give the seed up when it has worked so long."""

    def progress(done: int) -> None:
        advanced(before + done)
        if started.late(seconds):
            raise _Stopped

    return progress


@dataclass(frozen=True, slots=True)
class _Clocks:
    """Readings of two clocks, the wall's and the processor's, that stand still while kernels are compiled."""

    wall: float
    processor: float

    @classmethod
    def read(cls) -> _Clocks:
        """Now."""
        return cls(time.perf_counter() - seconds_compiling(), time.process_time() - processor_compiling())

    def worked(self) -> float:
        """Seconds of work since then."""
        now = _Clocks.read()
        return max(now.processor - self.processor, (now.wall - self.wall) / WAITING)

    def late(self, seconds: float) -> bool:
        """Whether it was more than that; the processor's clock, which is slow to read, is asked only if it may be."""
        return time.perf_counter() - seconds_compiling() - self.wall > seconds and self.worked() > seconds


def _run_on_ray(
    tasks: Sequence[Task],
    workers: int | None,
    address: str | None,
    finished: Callable[[Task, SeedRun], None],
    advanced: Progress,
) -> None:
    before = 0

    def tell(under_way: Mapping[int, int]) -> None:
        advanced(before + sum(under_way.values()))

    watched = None if advanced is quiet else tell
    try:
        with contextlib.closing(
            parallel_map(run_remote_seed, tasks, workers=workers, address=address, advanced=watched)
        ) as outcomes:
            for task, run in outcomes:
                before += task.config.episodes
                finished(task, run)
                advanced(before)
    except TaskFailed as error:
        raise SeedFailed(f"{error.item} failed: {error}") from error.__cause__


def run_remote_seed(task: Task, progress: Progress) -> SeedRun:
    """Run one seed on a machine of a cluster; what is not stored stays there, as it may be large."""
    return replace(run_seed(task, progress), belief=None, released=None)


def _run_on_processes(
    tasks: Sequence[Task],
    sent: Sequence[bytes],
    workers: int,
    finished: Callable[[Task, SeedRun], None],
    advanced: Progress,
) -> None:
    context = multiprocessing.get_context("spawn")
    counters = context.RawArray("q", len(tasks) + 1)
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker, initargs=(counters, stop))
    with pool:
        with _undisturbed_start():
            numbers: dict[Future[bytes], int] = {pool.submit(_work, i, data): i for i, data in enumerate(sent)}
        pending = set(numbers)
        try:
            while pending:
                done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                advanced(sum(counters[: len(tasks)]))
                if counters[len(tasks)]:
                    announce("kernels")
                for future in sorted(done, key=numbers.__getitem__):
                    task = tasks[numbers[future]]
                    finished(task, _outcome(future, task, lambda: _running(tasks, numbers, counters)))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _outcome(future: Future[bytes], task: Task, running: Callable[[], str]) -> SeedRun:
    try:
        return cast(SeedRun, pickle.loads(future.result()))  # noqa: S301  what our own worker wrote
    except BrokenProcessPool as error:
        raise SeedFailed(f"a worker process died (killed, or out of memory) while these ran: {running()}") from error
    except Exception as error:
        raise SeedFailed(f"{task} failed: {type(error).__name__}: {error}") from error


def _running(tasks: Sequence[Task], numbers: dict[Future[bytes], int], counters: Any) -> str:
    """The tasks that had begun and not ended."""
    ended = {number for future, number in numbers.items() if future.done() and future.exception() is None}
    begun = [str(task) for i, task in enumerate(tasks) if i not in ended and counters[i] > 0]
    return ", ".join(begun) or "none had begun"


# In a worker ----------------------------------------------------------------------------------------------

_counters: Any = None
_stop: Event | None = None


def _begin_worker(counters: Any, stop: Event) -> None:
    global _counters, _stop  # what a process pool's initializer is for
    _counters, _stop = counters, stop
    set_listener(_tell_parent)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with_parent, args=(parent.sentinel,), daemon=True).start()


def _tell_parent(line: str) -> None:
    del line
    _counters[len(_counters) - 1] = 1


def _end_with_parent(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _work(number: int, sent: bytes) -> bytes:
    task: Task = pickle.loads(sent)  # noqa: S301  what the parent wrote

    def progress(done: int) -> None:
        _counters[number] = done
        if _stop is not None and _stop.is_set():
            raise _Stopped

    return cast(bytes, cloudpickle.dumps(run_seed(task, progress)))


@contextlib.contextmanager
def _undisturbed_start() -> Iterator[None]:
    """Start processes that neither import the caller's script nor die of the Ctrl-C meant for their parent.

    `spawn` would run the main module again in every worker, which breaks scripts without a `__main__` guard and
    anything typed at a prompt; the workers need nothing from it. A signal that is ignored stays ignored in the child.
    """
    main = sys.modules["__main__"]
    here = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if here:
            signal.signal(signal.SIGINT, handler)
