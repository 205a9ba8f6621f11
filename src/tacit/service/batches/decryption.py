"""Opening a sealed batch: the learner counts its labels, a mixer takes its layer off and permutes it again.

    open_batch(path, manifest, channel, keys, study, stage)            -> histogram = the payload of an unsealed stage
    mix_batch(path, manifest, channel, keys, study, stage, target)     -> a new file with one layer less, permuted

O1  Believed is what the manifest says: digest, number and size of messages. Another file is refused as a whole, and so
    is one with a message twice (`tacit.service.batches.decryption`); then nothing was counted and nothing is left.
O2  The histogram is the same bytes on every engine, and the one that `LabelRelease.release` makes of the unsealed
    bodies: labels are counted, dummies and foreign messages are not.
O3  Memory is bounded: pieces of `chunk` bytes, a few per worker, and `memory` for copies and permutations.

Copies among sealed messages, found in bounded memory: two messages with one encapsulated key.

Whoever seals draws a new key for every message, so two equal ones are a copy: somebody counts a label twice. The key is
bound into what is sealed, so a copy with another one does not open.

Y1  Exact: a copy is found wherever the two stand, and nothing else is called one.
Y2  Memory is bounded by about `memory` bytes: keys are spread over files by a hash with a secret of its own, which a
    sender cannot aim at, and each file is looked through by itself; the first copy ends the search.

The engines that work on the pieces of a batch: one process, the cores of a machine, or the workers of a Ray cluster.

    local        one piece after the other, here
    processes    a pool of processes, as many as there are cores or as were asked for
    ray          tasks of a Ray cluster (extra `ray`), which must belong to the party: keys travel to its workers

N1  An engine changes where work is done and nothing else: `map` gives the same results, one for every piece, in the
    order of the pieces.
N2  Memory is bounded: never more than a few pieces per worker are under way.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple, Self, TypeVar

import numpy as np

from tacit.errors import InvalidInput, UnknownName, require, require_count
from tacit.executors import ray_cluster
from tacit.release.contract import Release
from tacit.service.batches.tasks import Layer, Task, count, peel
from tacit.service.encryption.hpke import SecretKey
from tacit.study.external_shuffle import MEMORY, Written, pieces_of, write_permuted
from tacit.study.sealed_batches import LAYER, Manifest, message_size, sealable
from tacit.system import cores

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


Found = TypeVar("Found")
AHEAD: Final = 3
"""How many pieces per worker are under way at most (N2)."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where pieces are worked on: begins the work on a piece, and has its outcome, with so many under way (N2)."""

    begin: Callable[[Callable[[Task, bytes], Any], Task], Callable[[bytes], Any]]
    outcome: Callable[[Any], Any]
    most: int

    def map(self, work: Callable[[Task, bytes], Found], task: Task, pieces: Iterable[bytes]) -> Iterator[Found]:
        """work(task, piece) for every piece, in order (N1)."""
        begin, under_way = self.begin(work, task), deque[Any]()
        for piece in pieces:
            under_way.append(begin(piece))
            if len(under_way) >= self.most:
                yield self.outcome(under_way.popleft())
        while under_way:
            yield self.outcome(under_way.popleft())


ENGINES: Final = ("local", "processes", "ray")
"""By the name that a configuration gives them."""


def engine(name: str, workers: int | None = None) -> contextlib.AbstractContextManager[Engine]:
    """The engine of this name with so many workers; without a number, one per core that this process may use.

    >>> with engine("local") as local:
    ...     list(local.map(lambda task, piece: len(piece), None, [b"ab", b"c"]))
    [2, 1]
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    return _begun(name, cores() if workers is None else require_count("workers", workers))


@contextlib.contextmanager
def _begun(name: str, number: int) -> Iterator[Engine]:
    if name == "local":
        yield Engine(partial, lambda outcome: outcome, 1)
    elif name == "ray":
        with ray_cluster(workers=number) as (ray, _):
            yield Engine(lambda work, task: partial(ray.remote(work).remote, ray.put(task)), ray.get, AHEAD * number)
    else:
        # A process of its own for every worker, not a copy of this one: services have threads, which do not survive it.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=number, mp_context=context) as pool:
            yield Engine(lambda work, task: lambda piece: pool.submit(work, task, piece), Future.result, AHEAD * number)


CHUNK: Final = 2**18
"""Bytes of a piece: about 5,000 messages, a quarter of a second of one core."""


class OpenedBatch(NamedTuple):
    """What a learner found in a batch."""

    histogram: bytes
    """How often each label came, as int64: what `Study.take` is given as `opened`."""
    dummies: int
    foreign: int
    """Messages that did not open or hold no label: what no honest device sends."""


class MixedBatch(NamedTuple):
    """What a mixer wrote."""

    written: Written
    size: int
    foreign: int


def open_batch(
    path: Path,
    manifest: Manifest,
    channel: Release,
    *,
    keys: Mapping[bytes, SecretKey],
    study: bytes,
    stage: int,
    with_engine: Engine | None = None,
    chunk: int = CHUNK,
    memory: int = MEMORY,
) -> OpenedBatch:
    """Open the messages of a batch and count their labels (O1, O2); without an engine, in this process."""
    task = _task(channel, "inner", keys, study=study, stage=stage, size=manifest.size)
    C = task.counters
    histogram, dummies, foreign = np.zeros(C, dtype=np.int64), 0, 0
    for found in _worked(path, manifest, task, count, with_engine, chunk, memory):
        histogram += found.histogram
        dummies, foreign = dummies + found.dummies, foreign + found.foreign
    return OpenedBatch(histogram=histogram.astype("<i8").tobytes(), dummies=dummies, foreign=foreign)


def mix_batch(
    path: Path,
    manifest: Manifest,
    channel: Release,
    target: Path,
    *,
    keys: Mapping[bytes, SecretKey],
    study: bytes,
    stage: int,
    with_engine: Engine | None = None,
    chunk: int = CHUNK,
    memory: int = MEMORY,
) -> MixedBatch:
    """Take one layer off and write the messages to a new file, in uniformly random order; refused: no file (O1)."""
    task = _task(channel, "mixer", keys, study=study, stage=stage, size=manifest.size)
    size, foreign = task.size - LAYER, 0

    def messages() -> Iterator[bytes]:
        nonlocal foreign
        for found in _worked(path, manifest, task, peel, with_engine, chunk, memory):
            foreign += found.foreign
            yield found.messages

    try:
        written = write_permuted(messages(), target, size=size, total=manifest.count * size, memory=memory)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return MixedBatch(written=written, size=size, foreign=foreign)


def _task(
    channel: Release, layer: Layer, keys: Mapping[bytes, SecretKey], *, study: bytes, stage: int, size: int
) -> Task:
    shuffled, layers = sealable(channel), 1 if layer == "inner" else 2
    expected = message_size(channel, layers)
    require(size == expected, f"messages of this layer must have {expected} bytes", size)
    require(len(keys) > 0, "a party must have a key to open with", "none")
    return Task(
        layer=layer,
        keys=tuple(key.raw for key in keys.values()),
        study=study,
        stage=stage,
        size=size,
        labels=shuffled.labels.str,
        counters=shuffled.num_counters,
    )


def _worked(
    path: Path,
    manifest: Manifest,
    task: Task,
    work: Callable[[Task, bytes], Any],
    with_engine: Engine | None,
    chunk: int,
    memory: int,
) -> Iterator[Any]:
    """Results of all pieces; whoever has taken the last one knows that the file was the right one (O1)."""
    size = manifest.size
    right = path.stat().st_size == manifest.count * size
    require(right, f"a batch must have {manifest.count} messages of {size} bytes", "another length")
    digest = hashlib.sha256()
    with Copies(expected=manifest.count, memory=memory, folder=path.parent) as copies:

        def pieces() -> Iterator[bytes]:
            for piece in pieces_of(path, size=size, chunk=chunk):
                digest.update(piece)
                copies.add(piece, size=size)
                yield piece

        if with_engine is None:
            with engine("local") as here:
                yield from here.map(work, task, pieces())
        else:
            yield from with_engine.map(work, task, pieces())
        same = digest.digest() == manifest.digest
        require(same, "a batch must be the file that its release names", "another file")
        copies.require_none()
