"""A sealed study with tokens: shuffler, learner and issuer, devices as the SDK has them, and the bodies that they sent.

Devices draw real noise, so the oracle is a sum: what the learner opens in a stage is, number by number, the histogram
of the bodies whose devices were told that they count.
"""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from chaos import studies
from chaos.oracle import Book, audit, sealed_counts
from chaos.parties import Parties, fast_directory, status
from chaos.worlds import until
from tacit.errors import TacitError
from tacit.service.device import RemoteDevice
from tacit.service.http_client import Backoff, client
from tacit.service.tokens.admission import Enrolment
from tacit.study.wire import Report

ACKNOWLEDGED = ("counted", "again")


class SealedWorld:
    """Parties of a sealed study with tokens, and its people."""

    def __init__(self, directory: Path, design: Any) -> None:
        self.design = design
        self.parties = Parties.new(directory, design, tokens=True)
        self.channel = design.parts().channels[0]
        self.bodies: dict[int, list[bytes]] = defaultdict(list)
        self.answers: Counter[str] = Counter()
        self.over = client(timeout=20.0)
        self._lock, self._coins = threading.Lock(), random.Random(5)  # noqa: S311 - what people do
        self._credentials: list[str] = []

    def __enter__(self) -> Self:
        self.parties.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.over.close()
        self.parties.__exit__(*error)

    def enrol(self, people: int) -> None:
        """Put people on the issuer's list, before it starts."""
        self._credentials = list(Enrolment(self.parties.enrolment).enrol(people))

    @property
    def left(self) -> int:
        """How many people have not reported yet."""
        return len(self._credentials)

    def person(self) -> str:
        """A new person's device reports in the present stage; its answer."""
        with self._lock:
            credential = self._credentials.pop()
            lived = {
                "states": [self._coins.randrange(2) for _ in range(3)],
                "actions": [self._coins.randrange(2) for _ in range(2)],
                "rewards": [self._coins.random() for _ in range(2)],
            }
        parties = self.parties
        device = RemoteDevice(
            None,
            shuffler=parties.public("shuffler"),
            issuer=parties.public("issuer"),
            pins=parties.pins,
            credential=credential,
            cap=math.inf,
            floor=1,
            backoff=Backoff(first=0.05, most=0.4),
            over=self.over,
        )
        _insist(device.refresh)
        if not device.asks:
            return "nothing asked"
        device.report(lived)
        plain = Report.parse(device.core.sent())
        found = device.send(within=60.0)
        with self._lock:
            self.answers[found] += 1
            if found in ACKNOWLEDGED:
                self.bodies[plain.stage].append(plain.body)
        return found

    def crowd(self, number: int) -> list[threading.Thread]:
        """So many people, at the same time."""
        made = [threading.Thread(target=self.person, daemon=True) for _ in range(number)]
        for thread in made:
            thread.start()
        return made

    @property
    def taken(self) -> int:
        """How many releases the learner has taken."""
        return len(status(self.parties, "learner")["releases"])

    def await_taken(self, releases: int) -> None:
        """Wait until the learner has taken so many."""
        until(lambda: self.taken >= releases, 90.0)

    def await_asked(self, stage: int) -> None:
        """Wait until the shuffler has this stage open, with the keys that devices need."""
        until(lambda: any(row["stage"] >= stage for row in status(self.parties, "shuffler")["stages"]), 90.0)

    def audit(self) -> dict[str, int]:
        """End the processes, then look for everything that may not have happened."""
        for party in self.parties.parties:
            if self.parties.alive(party):
                self.parties.kill(party)
        found = audit(self.parties, Book(), least=self.channel.least)
        for name, count in sealed_counts(self.parties, self.bodies, self.channel).items():
            found[name] += count
        return found


@contextlib.contextmanager
def sealed_world(stages: int, target: int = 8, least: int = 4) -> Iterator[SealedWorld]:
    """A sealed world in a directory of its own."""
    design = studies.sealed(stages, target, least=least)
    with studies.registered(), fast_directory() as folder, SealedWorld(folder / "w", design) as it:
        yield it


def _insist(call: Any, seconds: float = 60.0) -> None:
    """Call until it is not refused: a party may be gone for a moment."""
    end = time.monotonic() + seconds
    while True:
        try:
            call()
        except TacitError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
