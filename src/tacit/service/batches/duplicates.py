"""Copies among sealed messages, found in bounded memory: two messages with one encapsulated key.

Whoever seals draws a new key for every message, so two equal ones are a copy: somebody counts a label twice. The key is
bound into what is sealed, so a copy with another one does not open.

Y1  Exact: a copy is found wherever the two stand, and nothing else is called one.
Y2  Memory is bounded by about `memory` bytes: keys are spread over files by a hash with a secret of its own, which a
    sender cannot aim at, and each file is looked through by itself; the first copy ends the search.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from tacit.errors import InvalidInput, require_count

ENC: Final = 32
EACH: Final = 128
"""Bytes that a key takes in a set, roughly."""
MAX_FILES: Final = 256


class Copies:
    """A search for copies among `expected` messages; give it all of them, then call `require_none`.

    >>> with Copies(expected=3, memory=2**20) as copies:
    ...     copies.add(bytes(50) + b"x" * 50, size=50)
    ...     copies.require_none()
    """

    def __init__(self, *, expected: int, memory: int, folder: Path | None = None) -> None:
        require_count("memory", memory)
        self.files = min(MAX_FILES, -(-2 * EACH * expected // memory)) if EACH * expected > memory else 0
        self.secret = os.urandom(32)
        self.folder = folder
        self.seen: set[bytes] = set()
        self.found = False
        self._stack = ExitStack()
        self._opened: list[BinaryIO] = []

    def __enter__(self) -> Self:
        if self.files:
            place = self._stack.enter_context(tempfile.TemporaryDirectory(prefix=".tmp-", dir=self.folder))
            self._opened = [
                self._stack.enter_context((Path(place) / str(number)).open("w+b")) for number in range(self.files)
            ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.seen.clear()

    def add(self, piece: bytes, *, size: int) -> None:
        """Look at the messages of a piece."""
        keys = (piece[start : start + ENC] for start in range(0, len(piece), size))
        if not self._opened:
            self._look(keys, self.seen)
            return
        parts: list[list[bytes]] = [[] for _ in range(self.files)]
        for key in keys:
            name = hashlib.blake2b(key, key=self.secret, digest_size=8).digest()
            parts[int.from_bytes(name, "little") % self.files].append(key)
        for file, part in zip(self._opened, parts, strict=True):
            file.write(b"".join(part))

    def require_none(self) -> None:
        """Raise if one message was a copy of another."""
        for file in self._opened:
            file.seek(0)
            self._look(_keys(file), set())
        if self.found:
            raise InvalidInput("a batch must not hold a message twice, got a copy; the whole batch is refused")

    def _look(self, keys: Iterable[bytes], seen: set[bytes]) -> None:
        for key in keys:
            if self.found:
                return
            self.found = key in seen
            seen.add(key)


def _keys(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(ENC * 4096):
        yield from (piece[start : start + ENC] for start in range(0, len(piece), ENC))
