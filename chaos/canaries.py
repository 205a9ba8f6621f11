"""Canaries: what a request carries besides its report, in every spelling, and a search for it in bytes and tables."""

from __future__ import annotations

import base64
import contextlib
import re
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

UNITS = (1.0, 1e3, 1e6)
"""Seconds, milliseconds, microseconds: whole numbers in bytes."""
TEXT_UNITS = (*UNITS, 1e9)


def spellings(secret: bytes) -> set[bytes]:
    """Raw, hexadecimal, and base64 at every alignment."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for coded in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # Without the letters at both ends that depend on what stands beside.
            found.add(coded(bytes(before) + secret)[-(-before * 4 // 3) :][: len(secret) * 4 // 3 - 2])
    return found


@dataclass(frozen=True)
class Times:
    """Moments from `first` to `last`, in seconds since 1970, of a clock that nobody else has."""

    first: float
    last: float

    def in_numbers(self, values: Iterable[Any]) -> int:
        """How many of these numbers are such a moment."""
        numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        return sum(self.first * unit <= number <= self.last * unit for number in numbers for unit in TEXT_UNITS)

    def in_bytes(self, data: bytes) -> int:
        """How often such a moment stands in bytes: as text, as a clock's text, as an integer or a double."""
        words = [int(word) for word in re.findall(rb"(?<!\d)\d{10,19}(?!\d)", data)]
        found = self.in_numbers(words)
        for second in range(int(self.first), int(self.last) + 1):
            found += data.count(time.strftime("%H:%M:%S", time.gmtime(second)).encode())
        for start in range(8):
            some = data[start : start + (len(data) - start) // 8 * 8]
            for kind in ("<f8", ">f8", "<i8", ">i8"):
                with np.errstate(invalid="ignore", over="ignore"):
                    numbers = np.frombuffer(some, dtype=kind).astype(np.float64)
                    found += sum(
                        int(((numbers >= self.first * unit) & (numbers <= self.last * unit)).sum()) for unit in UNITS
                    )
        return found


def hits(haystacks: Mapping[str, bytes], canaries: Mapping[str, Iterable[bytes]], times: Times) -> dict[str, int]:
    """How often each canary stands in each haystack; nothing for those that do not."""
    found = {}
    for place, data in haystacks.items():
        for name, secrets in canaries.items():
            count = sum(data.count(spelled) for secret in secrets for spelled in spellings(secret))
            if count:
                found[f"{name} in {place}"] = count
        if count := times.in_bytes(data):
            found[f"time in {place}"] = count
    return found


def files_of(folder: Path, name: str) -> dict[str, bytes]:
    """Every file in a directory."""
    return {f"{name}: {path.name}": path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def numbers_of(database: Path) -> list[Any]:
    """Every number in an SQLite database: it packs them, so they cannot be found in its bytes."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [row for table in tables for row in connection.execute(f'SELECT * FROM "{table}"')]  # noqa: S608
    return [value for row in rows for value in row]
