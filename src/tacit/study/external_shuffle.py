"""Files of messages in uniform random order, made in bounded memory with exact secure randomness.

    scatter   every message goes to one of B buckets on the disk, each with probability 1/B, independently
    gather    the buckets, one after the other, each in a uniformly random order of its own

U1  Every order of all messages is equally likely, exactly. What is drawn treats messages alike: bucket numbers are
    independent and of one law, and an order is uniform given how many messages its bucket has; whether a bucket is
    scattered again depends on that number only. So if the messages are renamed by any permutation π, the law of what is
    written is renamed, too: P(order) = P(π order) for all π, and there are as many π as orders, which leaves the
    uniform law (Lemma M10 (order by buckets)).
U2  Memory is bounded by `memory` bytes, whatever the number of messages; the disk holds one copy more while it lasts.
U3  Randomness is the operating system's. There is no other source, since a shuffle that can be replayed hides nobody.

The files of sealed batches (`BatchFiles`) stand beside a collector's database, made inside of a release, served when it
is committed:

    <directory>/batches/<sha256>.batch      the messages of a stage in uniformly random order, nothing else
    <directory>/batches/<sha256>.tokens     the tokens of its reports, sorted, where there are tokens

F1  A file is complete and on the disk, under the name of its digest, before the transaction of its release commits.
F2  A file is served if the outbox holds a release whose manifest names it; one that no release names is deleted, by the
    next release and at the next start. Both happen under the writers' lock, so nothing is deleted while it is made.
F3  A file is kept until the learner shows that it has taken the release: by the head of the next stage's bundle, or by
    `Collector.seen`. Until then it is served again as often as it is asked for, always the same bytes.
F4  Messages of a batch have no id, no person, no time and no order of arrival.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from tacit.accounting.journal import Connection
from tacit.errors import InvalidInput, require, require_count
from tacit.noise.exact import permutation, uniform_integers
from tacit.randomness import SecureNoise
from tacit.release.contract import Release
from tacit.runs.storage import writing_to
from tacit.study.contract import Head
from tacit.study.sealed_batches import Manifest, check_sealed, message_size
from tacit.study.store import Store
from tacit.study.wire import ReleasePayload
from tacit.system import sync_directory

MEMORY: Final = 256 * 2**20
"""How many bytes a permutation may use, unless it is told otherwise."""
TEMPORARY: Final = ".tmp-"
MAX_BUCKETS: Final = 256
COPIES: Final = 4
"""Messages, their copy in the new order, and keys to sort by: so many times the bytes of a bucket are in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written."""

    digest: bytes
    """SHA-256 of the file."""
    count: int
    """How many messages it has."""


def permuted(data: bytes, size: int) -> bytes:
    """Messages of `size` bytes in uniformly random order, in memory.

    >>> sorted(permuted(b"aabbcc", 2)) == sorted(b"aabbcc")
    True
    """
    require(len(data) % size == 0, f"messages must have {size} bytes each", "another length")
    messages = np.frombuffer(data, dtype=f"V{size}")
    return messages[permutation(len(messages), SecureNoise())].tobytes()


def write_permuted(pieces: Iterable[bytes], path: Path, *, size: int, total: int, memory: int = MEMORY) -> Written:
    """Write the messages of all pieces into a new file, in uniformly random order (U1), and on to the disk.

    A piece has whole messages of `size` bytes. `total` is how many bytes there are at most: it decides how the work is
    done and nothing else, and more of them are refused.
    """
    require_count("size of a message", size)
    require_count("total", total, least=0)
    require(require_count("memory", memory) >= COPIES * size, "memory must hold some messages", memory)
    made: list[Path] = []
    digest, count = hashlib.sha256(), 0
    try:
        with writing_to(path.parent), _private(path) as file:
            for part in _orders(pieces, path.parent, size=size, total=total, memory=memory, made=made):
                file.write(part)
                digest.update(part)
                count += len(part) // size
            file.flush()
            os.fsync(file.fileno())
    finally:
        for left in made:
            left.unlink(missing_ok=True)
    return Written(digest=digest.digest(), count=count)


def pieces_of(path: Path, *, size: int, chunk: int) -> Iterator[bytes]:
    """The messages of a file, about `chunk` bytes at a time and at least one message."""
    step = max(1, chunk // size) * size
    with path.open("rb") as file:
        while piece := file.read(step):
            yield piece


def _orders(
    pieces: Iterable[bytes], folder: Path, *, size: int, total: int, memory: int, made: list[Path]
) -> Iterator[bytes]:
    """Parts of the file, in order."""
    if COPIES * total <= memory:
        data = b"".join(_checked(pieces, size, total))
        yield permuted(data, size)
        return
    # Twice as many buckets as would just do: that one is too large is rare, and then it is scattered again.
    buckets = min(MAX_BUCKETS, -(-2 * COPIES * total // memory))
    scattered = _scatter(
        _checked(pieces, size, total), folder, size=size, buckets=buckets, chunk=memory // COPIES, made=made
    )
    for path in scattered:
        length = path.stat().st_size
        again = pieces_of(path, size=size, chunk=memory // COPIES)
        yield from _orders(again, folder, size=size, total=length, memory=memory, made=made)
        path.unlink()
        made.remove(path)


def _scatter(
    pieces: Iterable[bytes], folder: Path, *, size: int, buckets: int, chunk: int, made: list[Path]
) -> list[Path]:
    """Every message in a bucket of its own lot."""
    with contextlib.ExitStack() as stack:
        paths = [folder / f"{TEMPORARY}{secrets.token_hex(8)}" for _ in range(buckets)]
        made.extend(paths)
        files = [stack.enter_context(_private(path)) for path in paths]
        for piece in _together(pieces, chunk):
            messages = np.frombuffer(piece, dtype=f"V{size}")
            lots = uniform_integers(len(messages), SecureNoise(), below=buckets)
            order = np.argsort(lots, kind="stable")
            ends = np.searchsorted(lots[order], np.arange(buckets + 1))
            for bucket in np.flatnonzero(np.diff(ends)):
                files[bucket].write(messages[order[ends[bucket] : ends[bucket + 1]]].tobytes())
    return paths


def _together(pieces: Iterable[bytes], chunk: int) -> Iterator[bytes]:
    """Pieces of at most about `chunk` bytes, from smaller ones."""
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        if waiting and length + len(piece) > chunk:
            yield b"".join(waiting)
            waiting, length = [], 0
        waiting.append(piece)
        length += len(piece)
    if waiting:
        yield b"".join(waiting)


def _checked(pieces: Iterable[bytes], size: int, total: int) -> Iterator[bytes]:
    """The pieces, if they are whole and not more than was said."""
    seen = 0
    for piece in pieces:
        seen += len(piece)
        require(len(piece) % size == 0, f"messages must have {size} bytes each", "another length")
        require(seen <= total, f"there must be at most {total} bytes of messages", "more")
        yield piece


@contextlib.contextmanager
def _private(path: Path) -> Iterator[BinaryIO]:
    """A new file that only its owner reads."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file


FOLDER: Final = "batches"
MESSAGES, TOKENS = ".batch", ".tokens"
BODIES_PER_FETCH: Final = 500
"""How many bodies are fetched from the database at once."""
COUNTED: Final = "stage = ? AND report.seq NOT IN (SELECT seq FROM dropped)"


class BatchFiles:
    """The batches of one collector; used inside of its transactions."""

    def __init__(self, directory: Path, store: Store, *, memory: int = MEMORY) -> None:
        self.folder = directory / FOLDER
        self.store = store
        self.memory = memory

    def write(self, connection: Connection, stage: int, channel: Release, people: int, layers: int) -> Manifest:
        """Make the files of a closed stage and say what they are (F1)."""
        with writing_to(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        size = message_size(channel, layers)
        tables = f"FROM body JOIN report ON report.seq = body.seq WHERE {COUNTED}"
        number, total = connection.execute(f"SELECT count(*), sum(length(bytes)) {tables}", (stage,)).fetchone()
        require(number == people, "all bodies of a closed stage must be there", "fewer of them")
        made = self._temporary()
        bodies = _bodies(connection, stage, channel, layers)
        written = write_permuted(bodies, made, size=size, total=int(total), memory=self.memory)
        self.store.edge("release:batch written")
        self._name(made, written.digest, MESSAGES)
        tokens = self._tokens(connection, stage, people)
        self.store.edge("release:batch named")
        manifest = Manifest(digest=written.digest, count=written.count, size=size, tokens=tokens)
        manifest.require_fits(channel, people, layers)
        return manifest

    def path(self, stage: int) -> Path:
        """The file of messages that the release of a stage names (F2)."""
        manifest = self._manifest(stage)
        path = self.folder / f"{manifest.digest.hex()}{MESSAGES}"
        there = path.is_file() and path.stat().st_size == manifest.count * manifest.size
        require(there, "the batch of a stage is kept until the learner has taken its release", "none any more")
        return path

    def tokens(self, stage: int) -> Path:
        """The file of tokens that the release of a stage names (F2)."""
        manifest = self._manifest(stage)
        path = self.folder / f"{manifest.tokens.hex()}{TOKENS}"
        require(path.is_file(), "the tokens of a stage are kept until the learner has taken its release", "none")
        return path

    def sweep(self, seen: Head | None = None) -> None:
        """Delete what nobody asks for any more, if there is something."""
        with self.store.reading() as connection:
            found = self._unnamed(connection, seen)
        if found:
            with self.store.step("sweep") as connection:
                self.remove_unnamed(connection, seen)

    def remove_unnamed(self, connection: Connection, seen: Head | None = None) -> None:
        """The same inside of a step, which has the writers' lock: nothing is being made meanwhile."""
        for path in self._unnamed(connection, seen):
            path.unlink(missing_ok=True)

    def _manifest(self, stage: int) -> Manifest:
        with self.store.reading() as connection:
            row = connection.execute("SELECT bytes FROM outbox WHERE stage = ?", (stage,)).fetchone()
        require(row is not None, "a stage must be released to have a batch", "none")
        return Manifest.parse(ReleasePayload.parse(bytes(row[0])).payload)

    def _unnamed(self, connection: Connection, seen: Head | None = None) -> list[Path]:
        """The files that no release names, and those of releases that the learner has taken (F2, F3)."""
        if not self.folder.is_dir():
            return []
        row = connection.execute("SELECT bundle FROM question ORDER BY stage DESC, number DESC LIMIT 1").fetchone()
        taken = 0 if row is None else Head.from_text(json.loads(row[0])["head"]).number
        taken = taken if seen is None else max(taken, seen.number)
        kept: set[str] = set()
        for (data,) in connection.execute("SELECT bytes FROM outbox WHERE charge > ?", (taken,)).fetchall():
            manifest = Manifest.parse(ReleasePayload.parse(bytes(data)).payload)
            kept |= {f"{manifest.digest.hex()}{MESSAGES}", f"{manifest.tokens.hex()}{TOKENS}"}
        return [path for path in sorted(self.folder.iterdir()) if path.name not in kept]

    def _tokens(self, connection: Connection, stage: int, people: int) -> bytes:
        """Write the tokens of the reports that count, sorted, and say their digest."""
        tables = f"FROM token JOIN report ON report.seq = token.seq WHERE {COUNTED}"
        number = connection.execute(f"SELECT count(*) {tables}", (stage,)).fetchone()[0]
        require(number in (0, people), "either every report of a stage has a token or none has", "some have")
        made, digest, sizes = self._temporary(), hashlib.sha256(), set()
        with (
            writing_to(self.folder),
            os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        ):
            for (token,) in connection.execute(f"SELECT bytes {tables} ORDER BY bytes", (stage,)):
                file.write(token)
                digest.update(token)
                sizes.add(len(token))
            file.flush()
            os.fsync(file.fileno())
        if len(sizes) > 1:
            raise InvalidInput("tokens of a stage must have one length, got several")
        self._name(made, digest.digest(), TOKENS)
        return digest.digest()

    def _temporary(self) -> Path:
        return self.folder / f"{TEMPORARY}{secrets.token_hex(8)}"

    def _name(self, made: Path, digest: bytes, suffix: str) -> None:
        with writing_to(self.folder):
            made.replace(self.folder / f"{digest.hex()}{suffix}")
            sync_directory(self.folder)


def _bodies(connection: Connection, stage: int, channel: Release, layers: int) -> Iterator[bytes]:
    """The bodies that count, some at a time; their lengths are checked again."""
    last = -1
    query = f"""SELECT report.seq, bytes FROM body JOIN report ON report.seq = body.seq
                WHERE {COUNTED} AND report.seq > ? ORDER BY report.seq LIMIT {BODIES_PER_FETCH}"""  # noqa: S608
    while rows := connection.execute(query, (stage, last)).fetchall():
        for _, body in rows:
            check_sealed(channel, body, layers)
            yield bytes(body)
        last = rows[-1][0]
