"""One progress bar for long work, on stderr, where somebody is watching; nothing anywhere else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from tacit.simulation.simulate import Progress


@contextlib.contextmanager
def progress_bar(total: int, what: str, *, show: bool) -> Iterator[Progress]:
    """A callback that takes the number of episodes done; it draws a bar if `show` and stderr is a terminal."""
    if not show or total <= 0 or not sys.stderr.isatty():
        yield quiet
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advanced(done: int) -> None:
            bar.update(task, completed=done)

        yield advanced


def quiet(done: int) -> None:
    """A callback for whom nobody watches."""
    del done
