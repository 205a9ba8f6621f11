"""Rows of an audit: what is attacked and how, and an engine for them (here, or as tasks of a Ray cluster).

A row draws from the seed of the audit alone, so where it is made cannot change it. A failure names its row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tacit.audit.attack import Finding, Kind, trials_of
from tacit.errors import TacitError, error_context, require
from tacit.executors import TaskFailed, check_engine, parallel_map

__all__ = ["Row", "RowFailed", "Subject", "done_rows"]

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Subject:
    """What a row attacks, and the revisions of its parts in words."""

    attacked: Any
    """A mechanism, a privatizer, a protocol or the parts of a run; every field of it is public."""
    words: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Row:
    """One row of an audit: built when it is asked for, attacked with its share of the trials."""

    kind: Kind
    subject: Callable[[], Subject]
    attack: Callable[[Any, int, float, int], tuple[Finding, ...]]
    """(what is attacked, trials, false alarm, seed) -> findings."""

    def trials(self, asked: int) -> int:
        """How many trials this row takes of so many."""
        return trials_of(self.kind, asked)

    def findings(self, asked: int, false_alarm: float, seed: int) -> tuple[Finding, ...]:
        """Attack it."""
        return self.attack(self.subject().attacked, self.trials(asked), false_alarm, seed)


class RowFailed(RuntimeError):
    """A row did not finish; the message names it, the cause is attached."""


def done_rows(
    work: Callable[..., Found],
    todo: Mapping[str, tuple[Any, ...]],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[tuple[str, Found]]:
    """work(*arguments) for every row, by its name, as they end: in their order here, in any order on a cluster.

    >>> list(done_rows(pow, {"squares": (3, 2), "cubes": (2, 3)}))
    [('squares', 9), ('cubes', 8)]
    """
    check_engine(engine, address=address)
    if engine == "local":
        require(workers in (None, 1), "rows are made one after the other here: workers belong to engine 'ray'", workers)
        yield from _here(work, todo)
        return
    items = [(name, work, arguments) for name, arguments in todo.items()]
    try:
        with contextlib.closing(parallel_map(_remote_row, items, address=address, workers=workers)) as outcomes:
            for (name, _, _), found in outcomes:
                yield name, found
    except TaskFailed as error:
        name = error.item[0]
        if isinstance(error.__cause__, TacitError):
            with error_context(f"row '{name}'"):
                raise error.__cause__ from None
        raise RowFailed(f"row '{name}' failed: {error}") from error.__cause__


def _here(work: Callable[..., Found], todo: Mapping[str, tuple[Any, ...]]) -> Iterator[tuple[str, Found]]:
    for name, arguments in todo.items():
        try:
            with error_context(f"row '{name}'"):
                found = work(*arguments)
        except TacitError:
            raise
        except Exception as error:
            raise RowFailed(f"row '{name}' failed: {type(error).__name__}: {error}") from error
        yield name, found


def _remote_row(item: tuple[str, Callable[..., Found], tuple[Any, ...]], progress: Callable[[int], None]) -> Found:
    _, work, arguments = item
    return work(*arguments)
