"""Private files: what only its owner reads, written whole or not at all, and on the disk when the call returns."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tacit.runs.places import TEMPORARY, writing_to

__all__ = ["write_private"]


def write_private(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner reads (mode 0600)."""
    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes files that only their owner reads, and a rename keeps that.
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        place = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
