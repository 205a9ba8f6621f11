"""docs/architecture.md: its picture is drawn from the imports, its list is short, its table is what is counted."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from test_packaging_cost import ADDITIONS, MOST

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "tacit"


def test_the_picture_is_drawn_from_the_code():
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "architecture.py")
    drawn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawn)
    assert drawn.TARGET.read_text(encoding="utf-8") == drawn.picture(), "python docs/architecture.py"


def test_the_reading_list_is_short_and_exists():
    """At most 15 files and 3,500 lines tell how one run works."""
    part = PAGE.partition("## How one run works")[2].partition("## ")[0]
    files = re.findall(r"^\| `([\w/]+\.py)` \|", part, flags=re.MULTILINE)
    assert 10 <= len(files) <= 15
    assert sum(len((SOURCE / file).read_text(encoding="utf-8").splitlines()) for file in files) <= 3500


def test_packages_that_are_named_exist():
    part = PAGE.partition("## Eight concepts")[2].partition("## ")[0]
    rows = re.findall(r"^\| [\w ]+ \|.*\| (.*) \|$", part, flags=re.MULTILINE)
    named = {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row)}
    assert len(rows) - 1 == 8
    assert named
    for name in named:
        assert (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file(), name


def test_the_table_of_costs_says_what_is_counted():
    part = PAGE.partition("## What a change costs")[2]
    rows = re.findall(r"^\| ([a-z][\w` ,]+) \| (\d)(?: new, (\d) row)?", part, flags=re.MULTILINE)
    stated = {name: int(first) + int(second or 0) for name, first, second in rows}
    counted = {name: len(changes) for name, changes in ADDITIONS.items()}
    assert all(number <= MOST for number in stated.values())
    assert sorted(stated.values()) == sorted(counted.values())
    for name in counted:
        assert any(name in row for row in stated), name
