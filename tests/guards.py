"""The table of `GUARDS.md`: which long tests are slow, and which quick ones guard the same promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

TABLE = Path(__file__).with_name("GUARDS.md")
ROW = re.compile(r"^\| `(\w+)(?:\[(.+?)\])?` \| (.+?) \| (.+?) \|$", re.MULTILINE)

COLLECTED = pytest.StashKey[dict[str, list[tuple[str, bool]]]]()
"""The function of every collected test -> its cases, and whether each is slow."""


class Guard(NamedTuple):
    """A row of the table."""

    cases: tuple[str, ...] | None
    """Which cases of the test are slow; None: all of it."""
    beside: tuple[str, ...]
    """The quick tests for the same promise."""
    promise: str


def guards() -> dict[str, Guard]:
    """A slow test -> its row."""
    found: dict[str, Guard] = {}
    for name, cases, beside, promise in ROW.findall(TABLE.read_text("utf-8")):
        assert name not in found, f"{TABLE.name} has two rows of {name}"
        found[name] = Guard(tuple(cases.split("; ")) if cases else None, tuple(re.findall(r"`(.+?)`", beside)), promise)
    return found
