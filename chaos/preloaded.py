"""What every party's process begins with: loaded once, in the server that parties are forked from."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FunctionType
from typing import Any

from chaos import studies

studies.register()  # before the services bind the names

import tacit.service.batches.decryption  # noqa: E402
import tacit.service.dashboard.app  # noqa: E402
import tacit.service.issuer  # noqa: E402
import tacit.service.learner  # noqa: E402
import tacit.service.mixer  # noqa: E402
import tacit.service.server  # noqa: E402
import tacit.service.shuffler  # noqa: E402
import tacit.service.web  # noqa: E402
import tacit.service.worker  # noqa: E402
from tacit.service.config import read_party  # noqa: E402
from tacit.service.tokens.token_issuer import Issuer  # noqa: E402
from tacit.study.collector import Collector  # noqa: E402
from tacit.study.external_shuffle import BatchFiles  # noqa: E402
from tacit.study.store import Lease, Store  # noqa: E402
from tacit.study.wire import ReleasePayload  # noqa: E402

LEASE_SECONDS = 1
"""A killed learner's lease ends after this: chaos kills too often to wait for the usual ten seconds."""


class Trap:
    """A file that names an edge: whoever reaches it first deletes the file and dies at once (SIGKILL).

    "name" dies at the first time, "name*3" at the third from now on; "*3" at the third edge, whichever it is.
    """

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __call__(self, name: str) -> None:
        try:
            with open(self.file) as opened:
                wanted, _, left = opened.read().partition("*")
        except FileNotFoundError:
            return
        if wanted not in ("", name):
            return
        if left and int(left) > 1:
            Path(self.file).write_text(f"{wanted}*{int(left) - 1}")
            return
        os.unlink(self.file)
        os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Put the trap behind every edge of this process."""
        for kind in (Store, Issuer, BatchFiles, tacit.service.worker.Worker):
            self._into(kind)

    def _into(self, kind: Any) -> None:
        first = kind.__init__

        def made(itself: Any, *arguments: Any, **options: Any) -> None:
            first(itself, *arguments, **options)
            setattr(itself, "_edge" if hasattr(itself, "_edge") else "edge", self)

        kind.__init__ = made


def see(views: Path, data: bytes) -> None:
    """Keep what was handed over outside of every database; the name says what it is."""
    import hashlib

    given = ReleasePayload.parse(data)
    name = f"{given.stage}-{given.question}-{hashlib.sha256(data).hexdigest()}"
    temporary = views / f".{name}.{os.getpid()}"
    temporary.write_bytes(data)
    temporary.rename(views / name)


def watch_releases(views: Path) -> None:
    """Keep every release that leaves the collector of this process."""
    release = Collector.release

    def seen(self: Collector, head: Any) -> bytes:
        data = release(self, head)
        see(views, data)
        return data

    Collector.release = seen  # type: ignore[method-assign]


def keep_time(file: str) -> None:
    """Let everything in this process read the time from a file, defaults of functions included."""
    import gc
    import time

    machine = time.time

    def read() -> float:
        with open(file) as opened:
            return float(opened.read())

    time.time = read
    for found in gc.get_objects():
        if isinstance(found, FunctionType):
            if any(one is machine for one in found.__defaults__ or ()):
                found.__defaults__ = tuple(read if one is machine else one for one in found.__defaults__ or ())
            for name, one in (found.__kwdefaults__ or {}).items():
                if one is machine:
                    found.__kwdefaults__[name] = read  # type: ignore[index]


def serve_party(
    party: str, config: str, log: str, trap: str, views: str, mutant: str, skew: float, clock: str = ""
) -> None:
    """The life of one party's process."""
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    tacit.service.learner.LEASE_SECONDS = LEASE_SECONDS  # type: ignore[misc]
    tacit.service.web.STILL_SECONDS = 0.0  # a harness waits for what it has done, and cannot wait for a minute
    Trap(Path(trap)).install()
    watch_releases(Path(views))
    if mutant:
        from chaos import mutants

        mutants.become(mutant, Path(views))
    if skew:
        import time

        now = time.time
        time.time = lambda: now() + skew
        for binds, name in ((tacit.service.shuffler.shuffler, "wall"), (Lease.take.__func__, "clock")):  # type: ignore[attr-defined]
            binds.__kwdefaults__[name] = time.time
    if clock:
        keep_time(clock)
    module = __import__(f"tacit.service.{party}", fromlist=["party"])
    code = tacit.service.server.serve(module.party(read_party(config, party)))
    os._exit(code)


def serve_dashboard(places: list[str], secrets: str, ready: str, log: str, clock: str) -> None:
    """The life of a dashboard."""
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    keep_time(clock)
    made = tacit.service.dashboard.app.dashboard_party(places, secrets=secrets, ready=ready, tick=0.05)
    os._exit(tacit.service.server.serve(made))


def serve_steps(config: str, log: str, trap: str, words: Any) -> None:
    """The life of a learner that does one thing at a time, when it is told to."""
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    Trap(Path(trap)).install()
    made = tacit.service.learner.LearnerService(read_party(config, "learner"))
    words.send("ready")
    while True:
        word = words.recv()
        if word == "step":
            found = made.worker.step()
            words.send((found.outcome, found.word, found.stage))
        elif word == "plan":
            sealed = made.worker.sealed
            made.study.plan(None if sealed is None else sealed.documents())
            words.send(("planned", "", None))
        else:
            words.send(made.study.head.text)
