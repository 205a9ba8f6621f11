"""Shufflers that break one promise each: a harness that does not find them would find nothing else either."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import study_histories

import tacit.service.shuffler
import tacit.service.stage_windows
import tacit.study.external_shuffle
from chaos.preloaded import see
from tacit.service.stage_windows import Writer
from tacit.study.collector import Collector
from tacit.study.sealed_batches import message_size
from tacit.study.wire import ReleasePayload

MUTANTS = ("publish first", "person twice", "no minimum", "closed lets in", "acknowledge first")
SHUFFLERS = ("forged manifest", "forged release", "duplicated message", "another stage's messages")
"""Shufflers that a learner must not believe."""
UNPERMUTED = "no permutation"
"""A shuffler or a mixer that leaves messages in the order in which they came."""


def become(mutant: str, views: Path) -> None:
    """Make the shuffler of this process a mutant."""
    if mutant in SHUFFLERS:
        _dishonest(mutant, views)
        return
    if mutant == UNPERMUTED:
        tacit.study.external_shuffle.permuted = lambda data, size: bytes(data)[: len(data) // size * size]
        return
    if mutant == "acknowledge first":
        _hasty()
        return
    kinds: dict[str, Any] = {
        "publish first": study_histories.PublishesFirst,
        "person twice": study_histories.Twice,
        "no minimum": study_histories.NoMinimum,
        "closed lets in": study_histories.LetsIn,
    }
    kind = kinds[mutant]
    if mutant == "publish first":
        kind.show = staticmethod(lambda data: see(views, data))
    if mutant == "no minimum":
        look = tacit.service.stage_windows.look

        def careless(collector: Any) -> Any:
            found = look(collector)
            return None if found is None else replace(found, least=1)

        for module in (tacit.service.stage_windows, tacit.service.shuffler):
            module.look = careless  # type: ignore[attr-defined]
    tacit.service.shuffler.Collector = kind  # type: ignore[misc]


def _hasty() -> None:
    """A writer that answers, and then writes."""
    write = Writer._write

    def answered(self: Any, some: Any) -> None:
        self._tell([(found, "counted") for _, found in some])
        time.sleep(0.2)  # the answers leave
        write(self, some)

    Writer._write = answered  # type: ignore[method-assign]


def _dishonest(mutant: str, views: Path) -> None:
    """A shuffler that hands other messages over than it took in."""
    if mutant.startswith("forged"):
        release = Collector.release

        def forged(self: Collector, head: Any) -> bytes:
            given = ReleasePayload.parse(release(self, head))
            if mutant == "forged release":
                return replace(given, charge=replace(given.charge, number=given.charge.number + 1)).encode()
            return replace(given, payload=bytes([*given.payload[:-1], given.payload[-1] ^ 1])).encode()

        Collector.release = forged  # type: ignore[method-assign]
        return
    bodies = tacit.study.external_shuffle._bodies

    def others(connection: Any, stage: int, channel: Any, layers: int) -> Iterator[bytes]:
        kept = views.parent / "kept-bodies"
        found = list(bodies(connection, stage, channel, layers))
        if mutant == "duplicated message":
            size = message_size(channel, layers)
            found[1] = found[0][:size] + found[1][size:]
        elif not kept.exists():
            kept.write_bytes(b"".join(found))
        else:
            old, size = kept.read_bytes(), len(found[0])
            found = [old[place * size : (place + 1) * size] for place in range(len(found))]
        yield from found

    tacit.study.external_shuffle._bodies = others
