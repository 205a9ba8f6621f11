"""Parties of one study as real processes on loopback: started from a warm server of forks, killed and started again.

    with Parties.new(directory, design) as parties:
        parties.start()
        parties.kill("shuffler"); parties.start("shuffler")

H1  Ports are chosen by the kernel once and held by this process, so a party that is started again has its address.
H2  Whatever ends the block ends the processes, and every wait is bounded.
H3  What leaves a collector is kept in `views`, and edges to die at are named in `trap`: both outside of databases.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from chaos import REFERENCE, ROOT
from chaos.clients import Wire
from tacit.service.loopback import Loopback, _toml

START_SECONDS = 60.0
END_SECONDS = 30.0
FAST = {"poll_seconds": 0.1}


@contextlib.contextmanager
def fast_directory() -> Iterator[Path]:
    """A new directory, in memory where there is one; CHAOS_DIRECTORY names another place, such as a real disk."""
    memory = Path("/dev/shm")  # noqa: S108
    chosen = os.environ.get("CHAOS_DIRECTORY") or (memory if os.access(memory, os.W_OK) else None)
    with tempfile.TemporaryDirectory(dir=chosen, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def warm() -> Any:
    """The server that parties are forked from; it has loaded everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chaos.preloaded"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src"), str(REFERENCE), before or ""])
    try:
        from multiprocessing import forkserver

        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


class Parties(Loopback):
    """Directories and forked processes of shuffler, learner and, with tokens, issuer."""

    mutant = ""
    """What `mutants` are (see `chaos.mutants`)."""
    mutants: tuple[str, ...] = ("shuffler",)
    skew = 0.0
    """Seconds that the clock of parties that are started from now on is ahead."""
    clock = ""
    """A file that holds the time of all parties, instead of the machine's clock."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.forked: dict[str, Any] = {}
        self.starts = 0
        self._held: dict[tuple[str, str], socket.socket] = {}
        self._context = warm()
        self.views.mkdir(parents=True, exist_ok=True)

    @classmethod
    def new(
        cls,
        directory: str | Path,
        design: Any,
        *,
        tokens: bool = False,
        mixed: bool = False,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        mutant: str = "",
    ) -> Self:
        """Make directories, keys and secrets; a learner looks for news ten times a second."""
        given = dict(options or {})
        given["learner"] = {**FAST, **given.get("learner", {})}
        made = super().new(directory, design, tokens=tokens, mixed=mixed, options=given)
        made.mutant, made.design = mutant, design
        made.views.mkdir(exist_ok=True)
        return made

    # where things are

    @property
    def study(self) -> bytes:
        """The digest of the design."""
        return bytes.fromhex(self.design.digest)

    @property
    def views(self) -> Path:
        """Releases that left the collector."""
        return self.directory / "views"

    def trap(self, party: str) -> Path:
        """The file that names the edge to die at."""
        return self.directory / f"trap-{party}"

    def state(self, party: str) -> Path:
        """Where a party keeps its database."""
        return self.home(party) / "state"

    def internally(self, party: str) -> Wire:
        """A client of a party's internal address; close it."""
        secret = (self.home(party) / "bearer").read_text().strip()
        return Wire(self.addresses[party]["internal"], {"authorization": f"Bearer {secret}"})

    def publicly(self, party: str) -> Wire:
        """A client of a party's public address; close it."""
        return Wire(self.addresses[party]["public"])

    # processes

    def start(self, *parties: str) -> None:
        """Start these parties, or all of them, and wait until they listen."""
        for party in parties or self.parties:
            self.begin(party)
        for party in parties or self.parties:
            self.await_ready(party)

    def begin(self, party: str) -> None:
        """Fork a party, without waiting for it; its address is known before."""
        assert self._gone(party), party
        home = self.home(party)
        (home / "ready.json").unlink(missing_ok=True)
        self.addresses[party] = {name: self._address(party, name) for name in _listeners(party)}
        for other in self.parties:
            if other != party:
                self.addresses.setdefault(other, {name: self._address(other, name) for name in _listeners(other)})
        (home / "config.toml").write_text(_toml(self._config(party)), encoding="utf-8")
        mutant = self.mutant if party in self.mutants else ""
        words = (str(home / "config.toml"), str(home / "log.jsonl"), str(self.trap(party)), str(self.views))
        made = self._context.Process(target=_serve, args=(party, *words, mutant, self.skew, self.clock), daemon=True)
        made.start()
        self.forked[party] = made
        self.starts += 1

    def await_ready(self, party: str) -> None:
        """Wait until a party listens; one that ends instead is an error with its last words."""
        end, ready = time.monotonic() + START_SECONDS, self.home(party) / "ready.json"
        while not ready.is_file():
            if self._gone(party) or time.monotonic() > end:
                raise RuntimeError(f"the {party} did not come up: {self.last_words(party)}")
            time.sleep(0.005)

    def refused(self, party: str) -> str:
        """Start a party that must refuse to start; its last words."""
        self.begin(party)
        self.forked[party].join(START_SECONDS)
        assert not self.forked[party].is_alive(), f"the {party} started"
        return self.last_words(party)

    def kill(self, party: str) -> None:
        """Kill a party at once (SIGKILL)."""
        self.forked[party].kill()
        self.await_death(party)

    def await_death(self, party: str, seconds: float = END_SECONDS) -> int:
        """Wait until a party is dead; its exit code."""
        made = self.forked[party]
        made.join(seconds)
        assert made.exitcode is not None, f"the {party} lives"
        return int(made.exitcode)

    def end(self, party: str) -> int:
        """Ask a party to end (SIGTERM); its exit code."""
        os.kill(self.forked[party].pid, signal.SIGTERM)
        return self.await_death(party)

    def alive(self, party: str) -> bool:
        """Whether a party's process runs."""
        return not self._gone(party)

    def pid(self, party: str) -> int:
        """The process of a party."""
        return int(self.forked[party].pid)

    def stop(self) -> None:
        """End all parties (H2)."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
        for made in self.forked.values():
            if made.is_alive():
                made.kill()
        for made in self.forked.values():
            made.join(END_SECONDS)
            made.close()
        self.forked.clear()
        for held in self._held.values():
            held.close()
        self._held.clear()

    def last_words(self, party: str) -> str:
        """The end of a party's log."""
        log = self.home(party) / "log.jsonl"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    # databases

    def copy(self, party: str, to: Path) -> None:
        """A backup of a party's directory, as an operator makes it while the party runs."""
        if to.exists():
            shutil.rmtree(to)
        shutil.copytree(self.state(party), to, ignore=shutil.ignore_patterns("*.db*"))
        for file in self.state(party).glob("*.db"):
            with (
                contextlib.closing(sqlite3.connect(file)) as source,
                contextlib.closing(sqlite3.connect(to / file.name)) as target,
            ):
                source.backup(target)
            os.chmod(to / file.name, 0o600)

    def restore(self, party: str, kept: Path) -> None:
        """Put a backup in the place of a party's directory; the party must not run."""
        assert self._gone(party), party
        shutil.rmtree(self.state(party))
        shutil.copytree(kept, self.state(party))

    # inside

    def _gone(self, party: str) -> bool:
        made = self.forked.get(party)
        return made is None or not made.is_alive()

    def _address(self, party: str, name: str) -> str:
        """An address that nobody else gets (H1)."""
        if (party, name) not in self._held:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", 0))
            self._held[party, name] = made
        return f"http://127.0.0.1:{self._held[party, name].getsockname()[1]}"

    def _config(self, party: str) -> dict[str, Any]:
        config = super()._config(party)
        for name in _listeners(party):
            config[name] = {"port": int(self.addresses[party][name].rpartition(":")[2])}
        return config


def _listeners(party: str) -> tuple[str, ...]:
    return ("internal",) if party in ("learner", "mixer") else ("public", "internal")


def _serve(*words: Any) -> None:
    from chaos.preloaded import serve_party

    serve_party(*words)


def status(parties: Parties, party: str) -> dict[str, Any]:
    """What a party says about itself, once it answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with contextlib.closing(parties.internally(party)) as wire:
            found = wire.ask("GET", "/v1/status")
        if found is not None and found.status == 200:
            plain: dict[str, Any] = json.loads(found.body)
            return plain
        time.sleep(0.02)
    raise RuntimeError(f"the {party} does not answer: {parties.last_words(party)}")
