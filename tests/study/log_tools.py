"""A small log of people for tests: every value in it is a token that no message of tacit uses."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

MAPPING: dict[str, Any] = {
    "states": [{"column": "ward", "categories": [["well", ["QWELL"]], ["sick", ["QSICK"]]]}],
    "actions": {"column": "drug", "categories": [["none", ["QNONE"]], ["pill", ["QPILL"]]]},
    "reward": {"column": "points", "low": -1, "high": 3},
    "horizon": 3,
}
HEADER = ["person", "episode", "step", "ward", "drug", "points"]
ROWS = [
    ["Qanna", "Q71", "0", "QWELL", "QNONE", "-0.777"],
    ["Qanna", "Q71", "1", "QSICK", "QPILL", "1.777"],
    ["Qanna", "Q71", "2", "QWELL", "QPILL", "2.777"],
    ["Qbert", "Q72", "0", "QSICK", "QNONE", "0.333"],
    ["Qbert", "Q72", "1", "QSICK", "QPILL", "0.444"],
    ["Qbert", "Q72", "2", "QWELL", "QNONE", "0.555"],
]


def mapping(**changes: Any) -> dict[str, Any]:
    return {**MAPPING, **changes}


def write(path: Path, rows: list[list[str]] | None = None, header: list[str] | None = None) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER if header is None else header)
        writer.writerows(ROWS if rows is None else rows)
    return path


def changed(row: int, column: str, value: str, header: list[str] | None = None) -> list[list[str]]:
    """The rows with one value changed."""
    rows = [list(one) for one in ROWS]
    rows[row][(HEADER if header is None else header).index(column)] = value
    return rows


def with_propensity(values: list[str]) -> tuple[list[list[str]], list[str]]:
    return [[*row, value] for row, value in zip(ROWS, values, strict=True)], [*HEADER, "propensity"]


def values_of(path: Path) -> set[str]:
    """Every value of a CSV file that is long enough to be recognised (steps are not)."""
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        return {value.strip() for row in list(csv.reader(file))[1:] for value in row if len(value.strip()) > 2}
