"""Configurations that can be built by the driver and fail, once or always, on a worker of a Ray cluster."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tacit.runs.config import RunConfig

DRIVER = "TACIT_TEST_DRIVER"
ATTEMPTS = "TACIT_TEST_ATTEMPTS"
"""Environment variables, which workers inherit: the driver's process, and a directory that gets a file per attempt."""


def on_a_worker() -> bool:
    return os.environ[DRIVER] != str(os.getpid())


def attempted() -> int:
    """Note an attempt; returns how many there were before."""
    place = Path(os.environ[ATTEMPTS])
    before = len(list(place.iterdir()))
    (place / str(os.getpid())).touch()
    return before


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisesOnCluster(RunConfig):
    @property
    def users_per_batch(self) -> int:
        if on_a_worker():
            attempted()
            raise ArithmeticError("the moon is full")
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiesOnCluster(RunConfig):
    @property
    def users_per_batch(self) -> int:
        if on_a_worker():
            attempted()
            os.kill(os.getpid(), signal.SIGKILL)
        return 1
