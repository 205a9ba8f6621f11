"""Sealing: what one message and one envelope cost, how opening scales with processes, what a permutation costs.

Reference: labels of 16 bits (50 bytes sealed), envelopes around reports of 1.6 kB with a token of 296 bytes. Unit costs
are CPU seconds of this process, best of several; the speed-up is wall time of one process over that of two, measured in
turn in the same run, so it needs two idle cores.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tacit.service.batches.decryption import engine
from tacit.service.batches.tasks import Task, count
from tacit.service.encryption.envelope import open_envelope, seal_envelope
from tacit.service.encryption.hpke import SecretKey, inner_info
from tacit.study.external_shuffle import write_permuted

STUDY, STAGE = bytes(range(32)), 1
MAX_SEAL, MAX_OPEN, MAX_ENVELOPE = 150e-6, 100e-6, 200e-6
MAX_PERMUTE, MANY = 5.0, 10**6
MESSAGES, PIECE = 40_000, 50 * 1000
MEMORY = 16 * 2**20


def run() -> list[dict[str, object]]:
    """Rows {name, ratio, target, better, detail}."""
    return [*_units(), *_processes(), _permutation()]


def _units() -> list[dict[str, object]]:
    key = SecretKey.new()
    info = inner_info(STUDY, STAGE, key.id)
    sealer, opener = key.public.sealer(info), key.opener(info)
    sealed = sealer(b"ab")
    report, token = os.urandom(1600), os.urandom(296)
    envelope = seal_envelope(report, token, study=STUDY, key=key.public)
    keys = {key.id: key}
    return [
        _unit("seal a message", MAX_SEAL, lambda: sealer(b"ab")),
        _unit("open a message", MAX_OPEN, lambda: opener(sealed)),
        _unit("seal an envelope", MAX_ENVELOPE, lambda: seal_envelope(report, token, study=STUDY, key=key.public)),
        _unit("open an envelope", MAX_ENVELOPE, lambda: open_envelope(envelope, study=STUDY, keys=keys)),
    ]


def _unit(name: str, most: float, work: Callable[[], object]) -> dict[str, object]:
    seconds = _seconds(work)
    detail = f"{seconds * 1e6:,.0f} us of {most * 1e6:,.0f} us CPU"
    return {"name": name, "ratio": seconds / most, "target": 1.0, "better": "lower", "detail": detail}


def _processes() -> list[dict[str, object]]:
    """Opening and counting with one process and with two, in turn."""
    key = SecretKey.new()
    task = Task("inner", (key.raw,), STUDY, STAGE, 50, "<u2", 100)
    sealer = key.public.sealer(inner_info(STUDY, STAGE, key.id))
    pieces = [b"".join(sealer(b"\x01\x00") for _ in range(PIECE // 50))] * (MESSAGES * 50 // PIECE)
    wall = {1: float("inf"), 2: float("inf")}
    spent = {1: float("inf"), 2: float("inf")}
    for _ in range(3):
        for workers in wall:
            with engine("processes", workers=workers) as chosen:
                list(chosen.map(count, task, pieces[: 2 * workers]))  # every worker has loaded what it needs
                start = time.perf_counter()
                found = list(chosen.map(count, task, pieces))
                wall[workers] = min(wall[workers], time.perf_counter() - start)
            assert sum(int(one.histogram.sum()) for one in found) == MESSAGES
            spent[workers] = min(spent[workers], _children(task, pieces, workers))
    each = wall[1] / MESSAGES * 1e6
    return [
        {
            "name": "open and count, two processes against one",
            "ratio": wall[1] / wall[2],
            "target": 1.6,
            "better": "higher",
            "detail": f"{wall[1]:.2f} s and {wall[2]:.2f} s for {MESSAGES:,} messages, {each:.0f} us each with one",
        },
        {
            "name": "CPU of opening, two processes over one",
            "ratio": spent[2] / spent[1],
            "target": 1.25,
            "better": "lower",
            "detail": f"{spent[1]:.2f} s and {spent[2]:.2f} s of workers, their start included",
        },
    ]


def _children(task: Task, pieces: list[bytes], workers: int) -> float:
    """CPU seconds of the workers of one pool, from beginning to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with engine("processes", workers=workers) as chosen:
        list(chosen.map(count, task, pieces))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _permutation() -> dict[str, object]:
    """A million messages on the disk, in a small part of the memory that they would need."""
    piece = os.urandom(50 * 1000)
    best = float("inf")
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            pieces = (piece for _ in range(MANY // 1000))
            write_permuted(pieces, Path(folder) / "batch", size=50, total=50 * MANY, memory=MEMORY)
            best = min(best, time.process_time() - start)
    return {
        "name": f"permute {MANY:,} messages on the disk",
        "ratio": best / MAX_PERMUTE,
        "target": 1.0,
        "better": "lower",
        "detail": f"{best:.2f} s of {MAX_PERMUTE:g} s CPU, {50 * MANY >> 20} MB with {MEMORY >> 20} MB of memory",
    }


def _seconds(work: Callable[[], object], rounds: int = 5, repeats: int = 500) -> float:
    """CPU seconds of one call, the best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(repeats):
            work()
        best = min(best, (time.process_time() - start) / repeats)
    return best


if __name__ == "__main__":
    for row in run():
        print(row)
