"""The work on one piece of a batch, a pure function of its bytes: count the labels of it, or open one layer of it.

A `Task` is small and can be sent to another process or machine; it holds secret keys, so those must be the party's own.
This module imports little, since every worker loads it.

X1  What does not open, has another length or is no label counts as foreign, and is left out of the histogram.
X2  A layer that does not open is replaced by random bytes of the same length, so that a mixer hands on as many messages
    as it was given; nobody can open them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.service.encryption.hpke import OVERHEAD, SecretKey, inner_info, mixer_info

Layer = Literal["inner", "mixer"]
Opener = Callable[[bytes], bytes | None]


class Task(NamedTuple):
    """What is the same for all pieces of a batch."""

    layer: Layer
    keys: tuple[bytes, ...]
    """Raw secret keys, the likeliest first."""
    study: bytes
    stage: int
    size: int
    """Bytes of a message as it comes."""
    labels: str
    """The type of a label, "<u2" or "<u4"."""
    counters: int
    """C: labels are 0, ..., C - 1, and C is the dummy."""

    def __repr__(self) -> str:
        return f"Task({self.layer}, stage {self.stage})"  # never its keys


class Counted(NamedTuple):
    """What was found in a piece."""

    histogram: NDArray[np.int64]
    dummies: int
    """Messages that say nothing, as honest devices send them."""
    foreign: int
    """Messages that nobody honest sent (X1)."""


class Peeled(NamedTuple):
    """A piece with one layer less."""

    messages: bytes
    foreign: int


def count(task: Task, piece: bytes) -> Counted:
    """How often each label comes."""
    opener = _opener(task)
    dtype, C = np.dtype(task.labels), task.counters
    opened = [opener(piece[start : start + task.size]) for start in range(0, len(piece), task.size)]
    whole = [one for one in opened if one is not None and len(one) == dtype.itemsize]
    labels = np.frombuffer(b"".join(whole), dtype=dtype).astype(np.int64)
    known = labels[labels <= C]
    found = np.bincount(known, minlength=C + 1)
    return Counted(histogram=found[:C], dummies=int(found[C]), foreign=len(opened) - len(known))


def peel(task: Task, piece: bytes) -> Peeled:
    """The messages with one layer less."""
    opener, inside = _opener(task), task.size - OVERHEAD
    parts: list[bytes] = []
    foreign = 0
    for start in range(0, len(piece), task.size):
        one = opener(piece[start : start + task.size])
        if one is None or len(one) != inside:
            one, foreign = os.urandom(inside), foreign + 1
        parts.append(one)
    return Peeled(messages=b"".join(parts), foreign=foreign)


@lru_cache(maxsize=1)
def _opener(task: Task) -> Opener:
    """What opens with whichever key fits; only the last task is remembered."""
    info = inner_info if task.layer == "inner" else mixer_info
    keys = [SecretKey(raw) for raw in task.keys]
    openers = [key.opener(info(task.study, task.stage, key.id)) for key in keys]

    def open_one(sealed: bytes) -> bytes | None:
        for opener in openers:
            opened = opener(sealed)
            if opened is not None:
                return opened
        return None

    return openers[0] if len(openers) == 1 else open_one
