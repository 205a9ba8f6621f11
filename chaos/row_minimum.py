"""Minimum batch: one report too few, over restarts and crashes until the window ends; then no byte of it is left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import study_fakes

from chaos import studies
from chaos.clients import Sender, insist
from chaos.parties import Parties, fast_directory, status
from chaos.worlds import bad, row, until, world
from tacit.study.sealed_batches import body_size

TARGET, LEAST, WINDOW = 8, 4, 1000
EDGES = ("", "void:begun", "void:before commit", "void:after commit", "void:after scrub")
SCALES = {"ci": {"unsealed": EDGES[:1], "sealed": EDGES[3:4]}, "chaos": {"unsealed": EDGES, "sealed": EDGES}}


def run(scale: str = "chaos", seed: int = 0) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    found = [labelled(edge) for edge in size["unsealed"]] + [sealed(edge) for edge in size["sealed"]]
    wrong = {f"{one['what']}: {name}": count for one in found for name, count in one["wrong"].items()}
    return [
        row(
            "least - 1 reports over restarts, crashes and the end of the window",
            "nothing released, void, ciphertext gone",
            sum(wrong.values()),
            not wrong,
            f"{len(found)} windows, sealed and unsealed; files searched, write-ahead log included",
            findings=wrong,
            windows=[one["what"] for one in found],
        )
    ]


def labelled(edge: str) -> dict[str, Any]:
    """A stage without noise; the process dies at an edge of the void, or nowhere."""
    options = {"options": {"shuffler": {"window_seconds": WINDOW}}}
    with world(stages=1, target=TARGET, least=LEAST, labels=40, parties=options) as it:
        it.parties.start()
        it.await_stage(0)
        assert it.fill(LEAST - 1) == ["counted"] * (LEAST - 1)
        wrong = ended(it.parties, edge, [study_fakes.MARK])
        it.await_stage(1)  # the learner asks other people
        wrong["views"] += len(list(it.parties.views.iterdir()))
        wrong.update(bad(it.audit()))
    return {"what": f"unsealed, {edge or 'no crash'}", "wrong": bad(wrong)}


def sealed(edge: str) -> dict[str, Any]:
    """A sealed stage: what is looked for is every message of every body."""
    design = studies.sealed(1, TARGET, least=LEAST)
    options = {"shuffler": {"window_seconds": WINDOW}}
    channel = design.parts().channels[0]
    with (
        studies.registered(),
        fast_directory() as folder,
        Parties.new(folder / "w", design, options=options) as parties,
    ):
        parties.start()
        until(lambda: bool(status(parties, "shuffler")["stages"]))
        sender = Sender(parties.public("shuffler"), parties.study)
        bodies = [os.urandom(body_size(channel, 1)) for _ in range(LEAST - 1)]
        with contextlib.closing(parties.publicly("shuffler")) as wire:
            for place, body in enumerate(bodies):
                envelope = sender.envelope(sender.report(body, 0), f"person {place}")
                assert insist(lambda e=envelope: wire.ask("POST", "/v1/reports", e), lambda r: r.status == 201)
        pieces = [body[start : start + 50] for body in bodies for start in range(0, len(body), 50)]
        wrong = ended(parties, edge, pieces)
        wrong["views"] += len(list(parties.views.iterdir()))
    return {"what": f"sealed, {edge or 'no crash'}", "wrong": bad(wrong)}


def ended(parties: Parties, edge: str, pieces: list[bytes]) -> dict[str, int]:
    """Kill and restart before the end of the window, then let it end; what is wrong afterwards."""
    wrong = {"released early": 0, "not void": 0, "released": 0, "left": 0, "views": 0, "not there before": 0}
    for _ in range(2):
        parties.kill("shuffler")
        parties.start("shuffler")
        wrong["released early"] += state_of(parties) != "open"
    wrong["not there before"] += found_in(parties.state("shuffler"), pieces) == 0  # else the search proves nothing
    parties.kill("shuffler")
    parties.skew = WINDOW + 60.0
    if edge:
        parties.trap("shuffler").write_text(edge)
        parties.begin("shuffler")
        assert parties.await_death("shuffler") == -9
    parties.start("shuffler")
    wrong["not void"] += state_of(parties) != "void"
    with contextlib.closing(parties.internally("shuffler")) as wire:
        reply = wire.ask("POST", "/v1/stages/0/questions/0/release", b"0:" + b"00" * 32)
        wrong["released"] += reply is None or reply.status == 200
    wrong["left"] += found_in(parties.state("shuffler"), pieces)
    return wrong


def state_of(parties: Parties) -> str:
    """The state of stage 0 at the shuffler."""
    return str(next(one["state"] for one in status(parties, "shuffler")["stages"] if one["stage"] == 0))


def found_in(directory: Path, pieces: Iterable[bytes]) -> int:
    """How many of these pieces are in some file of a directory."""
    whole = b"\n".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())
    return sum(piece in whole for piece in pieces)
