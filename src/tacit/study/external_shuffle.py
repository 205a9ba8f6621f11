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
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from tacit.errors import require, require_count
from tacit.noise.exact import permutation, uniform_integers
from tacit.randomness import SecureNoise
from tacit.runs.storage import writing_to

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
