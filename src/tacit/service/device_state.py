"""What a device over HTTP keeps on its disk: documents of keys, the frozen report of a stage, and how it ended.

K1  Written whole, and on the disk with its directory, before `keep` returns: what is sent was frozen first.
K2  One stage at a time: a report of another stage than the bundle's is dropped, whatever became of it.
K3  What has ended is gone: with an answer the frozen bytes leave the disk, and the answer stays.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tacit.errors import require
from tacit.runs.signature import canonical
from tacit.runs.storage import read_json, write_whole, writing_to

__all__ = ["STATE", "DeviceState", "keep", "recall"]

STATE: Final = "sending.json"
VERSION: Final = 1
BYTES: Final = ("report", "envelope")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """Everything but the bundle, which the offline core keeps, and tokens, which the wallet keeps; nothing is shown."""

    documents: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Party -> the newest signed document of its keys."""
    tag: str = ""
    """The entity tag of the bundle that was fetched last."""
    stage: int = -1
    """The stage that the rest is about."""
    report: bytes = field(default=b"", repr=False)
    """The report as the collector will count it: its messages sealed, its id chosen."""
    envelope: bytes = field(default=b"", repr=False)
    """The same as it is sent."""
    answer: str = ""
    """How the report ended: counted, again, late, or why it was refused."""

    def at(self, stage: int) -> DeviceState:
        """The state in this stage (K2)."""
        return self if stage == self.stage else DeviceState(documents=self.documents, tag=self.tag, stage=stage)

    def ended(self, answer: str) -> DeviceState:
        """The state after the last word about a report (K3)."""
        return replace(self, answer=answer, report=b"", envelope=b"")


def keep(directory: Path | None, state: DeviceState) -> None:
    """Put a state on the disk (K1); without a directory it lives as long as the process."""
    if directory is None:
        return
    plain: dict[str, Any] = {
        "version": VERSION,
        "documents": dict(state.documents),
        "tag": state.tag,
        "stage": state.stage,
        "answer": state.answer,
        **{name: base64.b64encode(getattr(state, name)).decode() for name in BYTES},
    }
    with writing_to(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(directory / STATE, canonical(plain))
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def recall(directory: Path | None) -> DeviceState:
    """The state that `keep` wrote, or that of a device that has sent nothing yet."""
    if directory is None or not (directory / STATE).is_file():
        return DeviceState()
    plain = read_json(directory / STATE)
    names = {"version", "documents", "tag", "stage", "answer", *BYTES}
    known = plain.get("version") == VERSION and set(plain) == names
    require(known, f"{directory / STATE} must be as this version of tacit writes it", "something else")
    parts = {name: base64.b64decode(plain[name], validate=True) for name in BYTES}
    return DeviceState(
        documents=plain["documents"], tag=plain["tag"], stage=plain["stage"], answer=plain["answer"], **parts
    )
