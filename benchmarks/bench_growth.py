"""How time and memory of whole runs grow with S, A, H and K: every counting learner under every trust model.

One size at a time is varied around S = 8, A = 4, H = 8; exponents are log-log slopes over the three largest of four
sizes. Memory is what a run adds to its process, in worlds around S = 64 with few users, where it can be told from the
noise of the system. K is 1,000 where users come one by one, and 8,000 where they come in batches. Nothing has a target
here: [the page](../docs/growth.md) shows the numbers, and `sizes` has the targets of large worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.cells import SIZES, Cell, counting, measured
from tacit.learners.table import learner_row
from tacit.protocol import Totals

BASE: Final = {"S": 8, "A": 4, "H": 8, "K": 1000}
AXES: Final[Mapping[str, tuple[int, ...]]] = {
    "S": (8, 16, 32, 64),
    "A": (2, 4, 8, 16),
    "H": (4, 8, 16, 32),
    "K": (1000, 4000, 16_000, 64_000),
}
HEAVY: Final = {"S": 64, "A": 4, "H": 8, "K": 200}
HEAVY_AXES: Final[Mapping[str, tuple[int, ...]]] = {"S": (32, 64, 128), "A": (2, 4, 8), "H": (4, 8, 16)}
IN_BATCHES: Final = 8
"""So many times as many users where they come in batches."""
FITTED: Final = 3
"""Exponents are fitted to so many of the largest sizes."""
VISIBLE: Final = 400_000
"""Bytes below which the growth of a process is noise."""
LIMIT: Final = 240

Row = dict[str, Any]


def run() -> list[Row]:
    """One row per learner, trust model and size for time, and for memory."""
    groups = [list(_cells(name, trust)) for name, trust in counting()]
    rows: list[Row] = []
    for group in groups:
        found = measured("growth", [group], limit=LIMIT)
        if any("refused" in cell for cell in found[:1]):
            rows.append(_row(found[0], "refused", None, found[0]["refused"]))
            continue
        for axis in SIZES:
            rows.append(_fitted(found, axis, "time"))
            if axis != "K":
                rows.append(_fitted(found, axis, "memory"))
        rows.append(_flatness(found))
    return rows


def _cells(name: str, trust: str) -> Iterator[Cell]:
    """The cells of a learner under a trust model, each once."""
    batches = IN_BATCHES if learner_row(name).asks is not Totals or trust == "shuffle" else 1
    seen: list[Cell] = []
    for what, base, axes in (("time", BASE, AXES), ("memory", HEAVY, HEAVY_AXES)):
        for axis, sizes in axes.items():
            for size in sizes:
                place = {**base, "K": base["K"] * batches, axis: size * (batches if axis == "K" else 1)}
                cell = {"learner": name, "trust": trust, **place, "of": what}
                if cell not in seen:
                    seen.append(cell)
                    yield cell


def along(cells: Sequence[Cell], axis: str, what: str) -> list[Cell]:
    """The cells of one kind in which only `axis` varies, by size."""
    base, sizes = (BASE, AXES) if what == "time" else (HEAVY, HEAVY_AXES)
    least = min(cell["K"] for cell in cells if cell["of"] == what)
    fixed = {**base, "K": least}
    mine = [
        cell
        for cell in cells
        if cell["of"] == what and all(cell[other] == fixed[other] for other in SIZES if other != axis)
    ]
    return sorted((cell for cell in mine if axis == "K" or cell[axis] in sizes[axis]), key=lambda cell: int(cell[axis]))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The log-log slope over the largest sizes.

    >>> round(exponent([1, 2, 4, 8], [9, 4, 16, 64]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes[-FITTED:]), np.log(values[-FITTED:]), 1)[0])


def _fitted(cells: Sequence[Cell], axis: str, what: str) -> Row:
    """The exponent of time or memory in one size; None where a cell is missing or too small to be seen."""
    mine = [cell for cell in along(cells, axis, what) if "running" in cell]
    key = "running" if what == "time" else "grown"
    sizes, values = [cell[axis] for cell in mine], [float(cell[key]) for cell in mine]
    enough = len(mine) >= FITTED and (what == "time" or min(values[-FITTED:]) > VISIBLE)
    slope = exponent(sizes, values) if enough and min(values) > 0 else None
    scale = 1e3 if what == "time" else 1e-6
    unit = "ms" if what == "time" else "MB"
    points = ", ".join(f"{size:,}: {value * scale:.3g}" for size, value in zip(sizes, values, strict=True))
    row = _row(cells[0], f"{what} in {axis}", slope, f"{unit} at {axis} = {points}")
    return {**row, "sizes": sizes, "values": values}


def _flatness(cells: Sequence[Cell]) -> Row:
    """How much more memory the most users take than the fewest, in MB."""
    mine = [cell for cell in along(cells, "K", "time") if "grown" in cell]
    more = (mine[-1]["grown"] - mine[0]["grown"]) / 1e6 if len(mine) > 1 else None
    users = f"{mine[-1]['K']:,} users against {mine[0]['K']:,}" if mine else "no cell"
    return _row(cells[0], "memory in K, MB", more, users)


def _row(cell: Cell, what: str, ratio: float | None, detail: str) -> Row:
    facts = {"learner": cell["learner"], "trust": cell["trust"], "what": what}
    name = f"{cell['learner']} {cell['trust']}: {what}"
    return {"name": name, "ratio": ratio, "target": None, "better": "lower", "detail": detail, **facts}
