"""A client that costs little: requests made ahead, many kept connections in one loop, a few processes.

    with Flood(url, key, study, body=1600, processes=2, each=10_000) as flood:
        found = flood.run(connections=24)                      as fast as answers come
        found = flood.run(connections=900, rate=4000, seconds=10)        so many per second, come what may

Bodies are random bytes of the right length: a sealed stage shows its collector nothing else. The id of a report follows
from its number, so what was acknowledged can be compared with a database.
"""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

from chaos.parties import warm
from tacit.service.encryption.envelope import seal_envelope
from tacit.service.encryption.hpke import PublicKey
from tacit.service.tokens.admission import open_name
from tacit.study.wire import Report

GRACE = 60.0
"""Seconds that answers may take after the last request."""
TICK = 0.01
UNANSWERED = 0
"""The status of a request whose connection broke."""


@dataclass
class Found:
    """What became of the requests of a run: number, status, seconds it took, moment of the answer."""

    numbers: Any
    statuses: Any
    seconds: Any
    moments: Any
    began: float
    ended: float
    no_retry_after: int = 0
    """Refusals 429 and 503 that did not say when to come back."""
    offered: int = 0
    """Requests that were due; those that found no free connection were not sent."""
    cpu: float = 0.0
    """CPU seconds of the clients."""

    def __len__(self) -> int:
        return len(self.statuses)

    @property
    def counts(self) -> dict[str, int]:
        """How often each status came."""
        found = Counter(int(status) for status in self.statuses)
        return {str(status): count for status, count in sorted(found.items())}

    def of(self, *statuses: int) -> set[int]:
        """The numbers of the reports that were answered so."""
        return {int(number) for number in self.numbers[np.isin(self.statuses, statuses)]}

    def quantile(self, share: float, *statuses: int) -> float:
        """A quantile of the seconds until an answer."""
        chosen = self.seconds[np.isin(self.statuses, statuses)] if statuses else self.seconds
        return float(np.quantile(chosen, share)) if len(chosen) else float("nan")

    @property
    def wall(self) -> float:
        """Seconds from the first request to the last answer."""
        return self.ended - self.began

    def rate(self, *statuses: int) -> float:
        """Answers of these kinds per second."""
        return float(np.isin(self.statuses, statuses).sum()) / max(self.wall, 1e-9)


def id_of(seed: int, number: int) -> bytes:
    """The id of a report."""
    return hashlib.blake2b(b"%d %d" % (seed, number), digest_size=16).digest()


@dataclass(kw_only=True)
class Flood:
    """Client processes with requests made ahead; they wait for `run` and end with the block."""

    url: str
    key: PublicKey
    study: bytes
    body: int
    """Bytes of a body."""
    each: int
    """Requests of one process."""
    processes: int = 2
    stage: int = 0
    seed: int = 1
    _pipes: list[Any] = field(default_factory=list)
    _made: list[Any] = field(default_factory=list)

    def __enter__(self) -> Self:
        context = warm()
        for place in range(self.processes):
            mine, theirs = context.Pipe()
            first = place * self.each
            words = (theirs, self.url, self.key.raw, self.study, self.body, self.stage, self.seed, first, self.each)
            made = context.Process(target=_client, args=words, daemon=True)
            made.start()
            theirs.close()
            self._pipes.append(mine)
            self._made.append(made)
        self.size = max(self._receive(pipe, 600.0) for pipe in self._pipes)
        """Bytes of an envelope."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for made in self._made:
            made.join(5.0)
            if made.is_alive():
                made.kill()
                made.join(5.0)

    def run(
        self, *, connections: int, seconds: float = 1e9, rate: float | None = None, most: int | None = None
    ) -> Found:
        """Send until so many seconds are over, or requests; without a `rate`, each as soon as the last is answered."""
        share = None if most is None else -(-most // self.processes)
        for pipe in self._pipes:
            pipe.send((-(-connections // self.processes), seconds, rate and rate / self.processes, share))
        patience = min(seconds, 3600.0) + 2 * GRACE
        parts = [self._receive(pipe, patience) for pipe in self._pipes]
        arrays = [np.concatenate([part[place] for part in parts]) for place in range(4)]
        return Found(
            *arrays,
            began=min(part[4] for part in parts),
            ended=max(part[5] for part in parts),
            no_retry_after=sum(part[6] for part in parts),
            offered=sum(part[7] for part in parts),
            cpu=sum(part[8] for part in parts),
        )

    def id_of(self, number: int) -> bytes:
        """The id of a report."""
        return id_of(self.seed, number)

    def _receive(self, pipe: Any, seconds: float) -> Any:
        if not pipe.poll(seconds):
            raise RuntimeError("a client process did not answer")
        return pipe.recv()


# in the client's process


def _client(
    pipe: Any, url: str, key: bytes, study: bytes, body: int, stage: int, seed: int, first: int, each: int
) -> None:
    import uvloop

    with tempfile.TemporaryFile() as file:
        size, envelope = _make(file, url, PublicKey(key), study, body, stage, seed, first, each)
        requests = mmap.mmap(file.fileno(), size * each, access=mmap.ACCESS_READ)
        pipe.send(envelope)
        at = 0
        while True:
            try:
                connections, seconds, rate, share = pipe.recv()
            except EOFError:
                return
            last = each if share is None else min(each, at + share)
            run = _Run(requests, size, at, last, first, rate)
            before = time.process_time()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(run.all(url, connections, seconds))
            at = run.at
            pipe.send((*run.arrays(), run.began, run.ended, run.silent, run.offered, time.process_time() - before))


def _make(
    file: Any, url: str, key: PublicKey, study: bytes, body: int, stage: int, seed: int, first: int, each: int
) -> tuple[int, int]:
    """Write the requests; the length of one, and of its envelope."""
    where, head, size = urlsplit(url).netloc, b"", 0
    for number in range(first, first + each):
        report = Report(study=study, stage=stage, id=id_of(seed, number), body=os.urandom(body)).encode()
        envelope = seal_envelope(report, open_name(f"{seed:08d} {number:09d}"), study=study, key=key)
        if not head:
            size = len(envelope)
            head = f"POST /v1/reports HTTP/1.1\r\nhost: {where}\r\ncontent-length: {size}\r\n\r\n".encode()
        file.write(head + envelope)
    file.flush()
    return len(head) + size, size


class _Run:
    """One run of one process."""

    def __init__(self, requests: Any, size: int, at: int, last: int, first: int, rate: float | None) -> None:
        self.requests, self.size, self.at, self.last, self.first, self.rate = requests, size, at, last, first, rate
        self.rows: list[tuple[int, int, float, float]] = []
        self.idle: list[_Line] = []
        self.silent = self.offered = 0
        self.permits = 0.0
        self.stopped = False
        self.open = 0
        self.began = self.ended = 0.0

    async def all(self, url: str, connections: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        parts = urlsplit(url)
        self.done = loop.create_future()
        lines = [_Line(self) for _ in range(connections)]
        for start in range(0, connections, 100):
            some = lines[start : start + 100]
            await asyncio.gather(*(loop.create_connection(lambda x=one: x, parts.hostname, parts.port) for one in some))
        self.open = connections
        self.began = time.monotonic()
        end = self.began + seconds
        if self.rate is None:
            for one in lines:
                one.next()
            wait = asyncio.shield(self.done)
            try:
                await asyncio.wait_for(wait, seconds)
            except TimeoutError:
                self.stopped = True
        else:
            self.idle = list(lines)
            before = self.began
            while (now := time.monotonic()) < end and self.at < self.last:
                due = self.rate * (now - before) + self.permits
                before, self.permits = now, due % 1.0
                self.offered += int(due)
                for _ in range(min(int(due), len(self.idle))):
                    self.idle.pop().next()
                await asyncio.sleep(TICK)
            self.stopped = True
            for one in self.idle:
                one.end()
        if self.open:
            await asyncio.wait_for(self.done, GRACE)
        self.ended = max((row[3] for row in self.rows), default=time.monotonic())

    def take(self) -> int | None:
        if self.stopped or self.at >= self.last:
            return None
        self.at += 1
        return self.at - 1

    def closed(self) -> None:
        self.open -= 1
        if self.open <= 0 and not self.done.done():
            self.done.set_result(None)

    def arrays(self) -> tuple[Any, Any, Any, Any]:
        rows = self.rows
        kinds = (np.int64, np.int16, np.float32, np.float64)
        return tuple(np.array([row[i] for row in rows], dtype=kind) for i, kind in enumerate(kinds))  # type: ignore[return-value]


class _Line(asyncio.Protocol):
    """One kept connection with one request at a time."""

    def __init__(self, run: _Run) -> None:
        self.run, self.number, self.gone = run, -1, False
        self.buffer, self.sent = b"", 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def next(self) -> None:
        number = self.run.take()
        if number is None or self.gone:
            self.end()
            return
        self.number, self.sent = number, time.monotonic()
        start = number * self.run.size
        self.transport.write(self.run.requests[start : start + self.run.size])

    def data_received(self, data: bytes) -> None:
        self.buffer = found = self.buffer + data if self.buffer else data
        end = found.find(b"\r\n\r\n")
        if end < 0:
            return
        start = found.find(b"content-length:")
        if 0 <= start < end and len(found) < end + 4 + int(found[start + 15 : found.index(b"\r", start)]):
            return
        self.buffer = b""
        status = int(found[9:12])
        if status in (429, 503) and b"retry-after:" not in found[:end]:
            self.run.silent += 1
        self._answered(status)
        if self.run.rate is None or self.run.stopped:
            self.next()
        else:
            self.run.idle.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self.number >= 0:
            self._answered(UNANSWERED)
        if not self.gone:
            self.gone = True
            self.run.closed()

    def end(self) -> None:
        if not self.gone:
            self.gone = True
            self.transport.close()
            self.run.closed()

    def _answered(self, status: int) -> None:
        now = time.monotonic()
        self.run.rows.append((self.run.first + self.number, status, now - self.sent, now))
        self.number = -1


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all of its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> int:
    """The most bytes of memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")
