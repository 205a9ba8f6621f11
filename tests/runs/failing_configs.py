"""Configurations that can be built by the parent and fail in a worker process."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass

from tacit.runs.config import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisesInWorker(RunConfig):
    @property
    def users_per_batch(self) -> int:
        if multiprocessing.parent_process() is not None:
            raise ArithmeticError("the moon is full")
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DiesInWorker(RunConfig):
    @property
    def users_per_batch(self) -> int:
        if multiprocessing.parent_process() is not None:
            os._exit(3)
        return 1
