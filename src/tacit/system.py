"""What differs between operating systems: cores, locks of files, directories on the disk. Nothing else asks for one.

Developed and tested on Linux; the branches for macOS and Windows have not been run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

PLACE: Final = 2**30
"""The byte that is locked where locks are of bytes: beyond every file, so that its content can be read meanwhile."""


def cores() -> int:
    """How many cores this process may use; those of the machine where a system does not say.

    >>> cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def lock(handle: int) -> None:
    """Wait until no other process holds this open file, and hold it until it is closed."""
    if sys.platform == "win32":
        import msvcrt

        before = os.lseek(handle, 0, os.SEEK_CUR)
        while True:
            os.lseek(handle, PLACE, os.SEEK_SET)
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # gives up after ten seconds
            except OSError:
                continue
            break
        os.lseek(handle, before, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)


def sync_directory(directory: Path) -> None:
    """Have the names of files that were made or moved here on the disk; Windows cannot be asked for it."""
    if sys.platform != "win32":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
