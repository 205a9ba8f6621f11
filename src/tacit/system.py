"""What differs between operating systems: cores, memory, locks of files, directories on the disk. Nothing else asks.

Developed and tested on Linux; the branches for macOS and Windows have not been run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from tacit.errors import InvalidInput

SHARE: Final = 0.9
"""The most of the available memory that anybody may need."""
GIB: Final = float(2**30)


def available_memory() -> int | None:
    """Bytes that this process may still have; None where nobody says."""
    group = Path("/sys/fs/cgroup")
    most, used = _number(group / "memory.max"), _number(group / "memory.current")
    found = [_number(Path("/proc/meminfo"), "MemAvailable:", 1024), None if most is None else most - (used or 0)]
    return min((size for size in found if size is not None), default=None)


def _number(path: Path, name: str = "", unit: int = 1) -> int | None:
    """The number in the first line of a file of the kernel that begins with `name`."""
    try:
        lines = [line.removeprefix(name) for line in path.read_text().splitlines() if line.startswith(name)]
        return int(lines[0].split()[0]) * unit
    except (OSError, ValueError, IndexError):
        return None


def require_free(what: str, needed: int, free: int | None, advice: str) -> None:
    """Raise where so many bytes are more than `SHARE` of those that are available; None: nobody knows how many.

    >>> require_free("a table", 2**31, 2**40, "choose a smaller one")
    >>> require_free("a table", 2**31, 2**30, "choose a smaller one")
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: a table must fit into 90% of the available memory, 1.0 GiB: it needs about 2.0 GiB; ...
    """
    if free is not None and needed > SHARE * free:
        raise InvalidInput(
            f"{what} must fit into {SHARE:.0%} of the available memory, {in_words(free)}: it needs about "
            f"{in_words(needed)}; {advice}"
        )


def in_words(number: int) -> str:
    """Bytes for people.

    >>> in_words(3 * 2**20), in_words(3 * 2**29)
    ('3 MiB', '1.5 GiB')
    """
    return f"{number / GIB:,.1f} GiB" if number >= GIB else f"{number / 2**20:,.0f} MiB"


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
