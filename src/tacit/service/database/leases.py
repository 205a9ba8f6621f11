"""Leases: a job is done by one process at a time, and one that was overtaken cannot write any more.

F1  A lease that runs has one holder. Taking it over after its end gives the next token; tokens only grow.
F2  Fenced: inside of `fenced`, every step of this thread begins, under the writers' lock, by looking whether its token
    is still the last one. A holder that slept through the end of its lease and was overtaken writes nothing, however
    wrong its clock is; clocks decide only how long others wait.
F3  Nobody waits longer than twice `seconds`: an end that is further away was written by a clock that has been set back
    since, and counts as over. Clocks of two machines that differ by less than `seconds` do not take a lease away.

    lease = Lease.take(store, "release", holder="worker 1", seconds=60)     # None: somebody else has it
    with lease.fenced():
        collector.release(head)
        lease.renew()
    lease.give_back()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tacit.accounting.database import Connection
from tacit.errors import require, require_count
from tacit.study.store import Store

LONGEST_NAME: Final = 200
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of one holder to do one job, known by its token."""

    store: Store
    name: str
    holder: str
    token: int
    seconds: int
    clock: Clock = time.time

    @classmethod
    def take(cls, store: Store, name: str, *, holder: str, seconds: int, clock: Clock = time.time) -> Lease | None:
        """Take a lease that nobody has, or whose time is over; None if somebody else has it."""
        for text in (name, holder):
            fits = isinstance(text, str) and 0 < len(text) <= LONGEST_NAME
            require(fits, f"a job and its holder must have names of 1 to {LONGEST_NAME} characters", "another")
        require_count("seconds", seconds)
        with store.step("lease") as connection:
            now = int(clock())
            row = connection.execute("SELECT token, until FROM lease WHERE name = ?", (name,)).fetchone()
            if row is not None and now < row[1] <= now + 2 * seconds:  # F3
                return None
            token = 1 if row is None else row[0] + 1
            connection.execute(
                """INSERT INTO lease (name, holder, token, until) VALUES (?, ?, ?, ?) ON CONFLICT (name)
                   DO UPDATE SET holder = excluded.holder, token = excluded.token, until = excluded.until""",
                (name, holder, token, now + seconds),
            )
        return cls(store=store, name=name, holder=holder, token=token, seconds=seconds, clock=clock)

    def check(self, connection: Connection) -> None:
        """Raise unless this is still the last lease of its job (F2); for use inside of a step."""
        row = connection.execute("SELECT token FROM lease WHERE name = ?", (self.name,)).fetchone()
        held = row is not None and row[0] == self.token
        require(held, f"the lease of {self.name!r} must be the last one", f"token {self.token}", "it was taken over")

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Every step of this thread checks the lease inside of its transaction."""
        with self.store.fenced(self.check):
            yield

    def renew(self) -> None:
        """Hold it for as long again, from now."""
        self._set(int(self.clock()) + self.seconds)

    def give_back(self) -> None:
        """Let anybody take it now; the token is used up."""
        self._set(0)

    def _set(self, until: int) -> None:
        with self.store.step("lease") as connection:
            self.check(connection)
            connection.execute("UPDATE lease SET until = ? WHERE name = ?", (until, self.name))
