"""Callbacks of runs: `tacit.run(..., on_checkpoint=..., callbacks=[...])`.

A callback sees what is in the result and nothing else: no trajectory, no statistic, no belief. It is called in the
process that called `run`, never in a worker, and never for a seed that did not finish:

    on_begin(runs)            once, before the first user; `runs` are the names of the runs
    on_checkpoint(point)      for every row of the result: when a seed is finished, all its checkpoints in their order
    on_end(results)           once, with what `run` returns

Why not sooner: a seed that fails or is interrupted leaves no rows, so whoever had seen its checkpoints would have seen
what is in no result. Seeds come in the order in which they finish, which is theirs where there is one process. Seeds
that a directory held already are not reported again. An exception of a callback ends the run after the seed was kept,
so raising is how a callback stops early.

>>> import tacit
>>> seen = []
>>> result = tacit.run(environment="riverswim", learner="uniform", episodes=100, seeds=2, workers=1,
...                    on_checkpoint=seen.append)
>>> [point.regret for point in seen if point.seed == 1] == result.regret[1].tolist()
True
"""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TextIO

from tacit.errors import InvalidInput, NotSupported, install_hint, require

WRITERS: Final = ("tensorboardX", "torch.utils.tensorboard")
"""Where a SummaryWriter may come from, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One row of a result."""

    run: str
    """The label of the run."""
    environment: str
    learner: str
    trust: str
    seed: int
    episode: int
    regret: float | None
    """Cumulative pseudo-regret. Simulation only; None in a live world."""
    returns: float | None = None
    """The sum of all returns so far in a live world. Simulation only; None where there is regret."""


class Callback:
    """The base of callbacks, which does nothing: override what you need."""

    def on_begin(self, runs: Sequence[str]) -> None:
        """Before the first user comes."""

    def on_checkpoint(self, point: Checkpoint) -> None:
        """A row of the result."""

    def on_end(self, results: Sequence[Any]) -> None:
        """After the last one."""


class _Function(Callback):
    """A function as a callback."""

    def __init__(self, function: Callable[[Checkpoint], object]) -> None:
        self._function = function

    def on_checkpoint(self, point: Checkpoint) -> None:
        """Hand it over."""
        self._function(point)


def all_callbacks(
    callbacks: Iterable[Callback], on_checkpoint: Callable[[Checkpoint], object] | None = None
) -> tuple[Callback, ...]:
    """The callbacks of a run, checked."""
    require(isinstance(callbacks, Iterable), "callbacks must be a list of them", type(callbacks).__name__)
    found = tuple(callbacks)
    for one in found:
        require(isinstance(one, Callback), "callbacks must derive from tacit.callbacks.Callback", type(one).__name__)
    if on_checkpoint is None:
        return found
    require(callable(on_checkpoint), "on_checkpoint must be a function of one checkpoint", type(on_checkpoint).__name__)
    return (*found, _Function(on_checkpoint))


class CsvLogger(Callback):
    """Rows of a result as CSV, seed by seed; an existing file is continued only if its head is the same."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._seed: tuple[str, int] | None = None

    def on_begin(self, runs: Sequence[str]) -> None:
        """Open the file and write its head."""
        head = [field.name for field in fields(Checkpoint)]
        there = self.path.is_file() and self.path.stat().st_size > 0
        try:
            if there:
                with self.path.open(encoding="utf-8", newline="") as file:
                    same = next(csv.reader(file), None) == head
                require(same, f"{self.path} must be new or a CSV log of tacit", "another file")
            self._file = self.path.open("a", encoding="utf-8", newline="")
        except OSError as error:
            raise InvalidInput(f"cannot write to {self.path}: {error.strerror or error}") from error
        if not there:
            csv.writer(self._file).writerow(head)

    def on_checkpoint(self, point: Checkpoint) -> None:
        """Append a row; what a seed wrote is flushed when the next one begins."""
        if self._file is None:
            raise InvalidInput("a CSV logger must begin before it logs; hand it to run(callbacks=[...])")
        if self._seed != (point.run, point.seed):
            self._file.flush()
            self._seed = (point.run, point.seed)
        csv.writer(self._file).writerow([getattr(point, field.name) for field in fields(point)])

    def on_end(self, results: Sequence[Any]) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class TensorBoardLogger(Callback):
    """Regret or returns (simulation only) as scalars of TensorBoard, one curve per run and seed."""

    def __init__(self, directory: str | Path) -> None:
        self._writer: Any = _writer()(str(directory))

    def on_checkpoint(self, point: Checkpoint) -> None:
        """Add a point."""
        place = f"{point.environment}/{point.run}/seed {point.seed}"
        for name, value in (("regret", point.regret), ("sum of returns", point.returns)):
            if value is not None:
                self._writer.add_scalar(f"{place}/{name} (simulation only)", value, global_step=point.episode)

    def on_end(self, results: Sequence[Any]) -> None:
        """Close the writer."""
        self._writer.close()


def _writer() -> Any:
    for name in WRITERS:
        try:
            return importlib.import_module(name).SummaryWriter
        except ImportError:
            continue
    raise NotSupported(f"logging for TensorBoard needs tensorboardX: {install_hint('tensorboard')} (or torch)")
