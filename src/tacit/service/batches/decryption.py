"""Opening a sealed batch: the learner counts its labels, a mixer takes its layer off and permutes it again.

    open_batch(path, manifest, channel, keys, study, stage)            -> histogram = the payload of an unsealed stage
    mix_batch(path, manifest, channel, keys, study, stage, target)     -> a new file with one layer less, permuted

O1  Believed is what the manifest says: digest, number and size of messages. Another file is refused as a whole, and so
    is one with a message twice (`tacit.service.batches.duplicates`); then nothing was counted and nothing is left.
O2  The histogram is the same bytes on every engine, and the one that `ShuffleRelease.release` makes of the unsealed
    bodies: labels are counted, dummies and foreign messages are not.
O3  Memory is bounded: pieces of `chunk` bytes, a few per worker, and `memory` for copies and permutations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.errors import require
from tacit.release.contract import Release
from tacit.service.batches.duplicates import Copies
from tacit.service.batches.executors import Engine, engine
from tacit.service.batches.tasks import Layer, Task, count, peel
from tacit.service.encryption.hpke import SecretKey
from tacit.study.external_shuffle import MEMORY, Written, pieces_of, write_permuted
from tacit.study.sealed_batches import LAYER, Manifest, message_size, sealable

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
        counters=shuffled.spec.num_counters,
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
