"""What a device keeps on its disk: the bundle that it follows, every report that has left, and what is being sent.

K1  Written whole, for its owner only, and on the disk with its directory before `keep` returns: what leaves was frozen
    and counted first.
K2  One stage at a time: with another bundle the frozen bytes of the last one are dropped; what has left stays counted.
K3  What has ended is gone: with an answer the frozen bytes leave the disk, and the answer stays.
K4  `device.drawn` beside the state is its lock, and as many bytes long as reports were drawn. A state that knows of
    fewer is an older copy, which would draw again, and is refused.

An older copy of the whole directory is not detected. An issuer of tokens refuses it a second token for a stage before
anything leaves; without an issuer a device must not be restored from a backup.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from tacit.accounting.events import Events, event_from_dict, event_to_dict
from tacit.documents import canonical
from tacit.errors import require
from tacit.runs.storage_paths import complete_files, read_json, write_private, writing_to
from tacit.study.contract import GENESIS_HEAD

STATE: Final = "device.json"
DRAWN: Final = "device.drawn"
VERSION: Final = 2
BYTES: Final = ("plain", "report", "envelope")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """Everything but tokens, which the wallet keeps; nothing that a person did is shown."""

    study: str = ""
    stage: int = -1
    """The stage that was seen last, which the rest is about."""
    digest: str = ""
    head: str = GENESIS_HEAD.text
    bundle: str = field(default="", repr=False)
    arm: int = 0
    drawn: int = 0
    """How many reports were drawn in all (K4)."""
    left: tuple[tuple[int, Events], ...] = ()
    """Slot and events of the reports that count."""
    plain: bytes | None = field(default=None, repr=False)
    """The report of this stage with its noise; None before it is drawn, empty when it has ended."""
    documents: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Party -> the newest signed document of its keys."""
    report: bytes = field(default=b"", repr=False)
    """The report as the collector will count it: its messages sealed, its id chosen."""
    envelope: bytes = field(default=b"", repr=False)
    """The same as it is sent."""
    answer: str = ""
    """How the report ended: counted, again, late, or why it was refused."""

    def ended(self, answer: str) -> DeviceState:
        """The state after the last word about a report (K3)."""
        return replace(self, answer=answer, plain=b"", report=b"", envelope=b"")


def keep(directory: Path, state: DeviceState, drawn: int, *, changed: bool = True) -> None:
    """Put a state on the disk (K1), if it changed; `drawn` is the descriptor of the locked file beside it (K4)."""
    if changed:
        found = {part.name: getattr(state, part.name) for part in fields(state)}
        found |= {name: None if found[name] is None else base64.b64encode(found[name]).decode() for name in BYTES}
        found["left"] = [[slot, [[event_to_dict(event), n] for event, n in events]] for slot, events in state.left]
        write_private(directory / STATE, canonical({"version": VERSION, **found}))
    with writing_to(directory):
        missing = state.drawn - os.fstat(drawn).st_size
        if missing > 0:  # also after a crash between the two files
            os.write(drawn, b"." * missing)
            os.fsync(drawn)


def recall(directory: Path) -> DeviceState:
    """The state that `keep` wrote, or that of a device that has sent nothing yet."""
    path, counter = directory / STATE, directory / DRAWN
    drawn = counter.stat().st_size if counter.is_file() else 0  # before the state, which others may write
    state = _read(path) if path.is_file() else DeviceState()
    known = state.drawn >= drawn
    hint = "this is an older copy: go on with the newest one, or take part no more"
    require(known, f"{path} must know of all {drawn} reports that were drawn", state.drawn, hint)
    return state


def _read(path: Path) -> DeviceState:
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    found = read_json(path)
    known = found.pop("version", None) == VERSION and set(found) == set(DeviceState.__dataclass_fields__)
    hint = "states of other versions do not tell how many reports have left: take part in another study"
    require(known, f"{path} must be as this version of tacit writes it", "something else", hint)
    with complete_files(path.parent):
        found |= {name: None if found[name] is None else base64.b64decode(found[name], validate=True) for name in BYTES}
        found["left"] = tuple(
            (slot, tuple((event_from_dict(event), n) for event, n in events)) for slot, events in found["left"]
        )
        return DeviceState(**found)
