"""A real PostgreSQL for tests, on loopback and as an ordinary user: the system's server, else one that PyPI ships.

It keeps its files in a new directory, asks for a password over TCP, syncs what it commits, and ends with the tests.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tacit.service.database import PostgresDatabase, close_all

USER = "tacit"
WORD = "a password in tests"
ORDINARY = ("postgres", "nobody")
DEADLINE = 60.0
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "80",
    "autovacuum": "off",
    "jit": "off",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    directory: Path
    programs: Path
    port: int
    numbers: Iterator[int]

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{WORD.replace(' ', '%20')}@127.0.0.1:{self.port}/postgres"

    def new(self, name: str = "party") -> PostgresDatabase:
        """A schema that nobody has used."""
        return PostgresDatabase(f"{self.url}?schema={name}_{next(self.numbers)}")

    def database(self) -> str:
        """The URL of a database that nobody has used."""
        name = f"database_{next(self.numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return f"{self.url.removesuffix('postgres')}{name}"

    def sql(self, statement: str) -> None:
        """Run something that no party does."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


def programs() -> Path | None:
    """Where initdb and postgres are."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    with contextlib.suppress(ImportError):
        import pgserver  # type: ignore[import-not-found]

        places.append(Path(pgserver.__file__).parent / "pginstall" / "bin")
    return next((place for place in places if all((place / name).is_file() for name in ("initdb", "postgres"))), None)


def ordinary() -> dict[str, object]:
    """How a process is started that may not be root's: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return {}
    for name in ORDINARY:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {"user": 65534, "group": 65534, "extra_groups": []}


def free_port() -> int:
    with contextlib.closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether the server takes connections before it ends or the time is over."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=5):
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server until the end of the block; skips with the reason where there is none."""
    place = programs()
    if place is None:
        pytest.skip("no PostgreSQL: neither initdb and postgres of the system nor the package pgserver were found")
    memory = Path("/dev/shm")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-", dir=memory if os.access(memory, os.W_OK) else None))
    who = ordinary()
    try:
        word = folder / "word"
        word.write_text(WORD)
        for path in (folder, word):
            if who:
                os.chown(path, int(who["user"]), int(who["group"]))  # type: ignore[call-overload]
        data = folder / "data"
        words = [place / "initdb", "-D", data, "-U", USER, "--pwfile", word, "-A", "scram-sha-256"]
        words += ["-E", "UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False, **who)  # type: ignore[call-overload]
        assert made.returncode == 0, made.stderr
        for attempt in itertools.count():
            server = Server(folder, place, free_port(), itertools.count())
            options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
            words = [place / "postgres", "-D", data, "-p", str(server.port), "-k", folder, *options]
            with (folder / "output").open("wb") as output:
                process = subprocess.Popen(words, cwd=folder, stdout=output, stderr=output, **who)  # type: ignore[call-overload]
            # Another process may take the port in between.
            if answers(server.url, process):
                break
            stop(process)
            assert attempt < 3, (folder / "output").read_text()
        try:
            yield server
        finally:
            close_all()
            stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server that was started here: at once, but in order; whoever does not go is killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(DEADLINE)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a process."""
    with running() as server:
        yield server
