"""Large worlds on one core: every counting learner under every trust model, with what the dry run said beforehand.

    S = 50,  A = 4, H = 20, K = 10⁵     every learner and trust model             under 30 CPU seconds
    S = 200, A = 4, H = 20, K = 10⁶     learners of batches, central and shuffle  under 60 CPU seconds and 2 GB
                                        without privacy                           no target

The seconds are of a whole run after its kernels were compiled: calibration, planning, people, noise and the exact
regret of the simulator. Pairs that are refused at every size are left out; `detail` says what the size chose. The
estimates of `--dry-run` are rows of their own: they may be off by a factor of two, either way.
"""

from __future__ import annotations

from typing import Any

from benchmarks.cells import Cell, counting, measured
from tacit.learners.table import learner_row
from tacit.released.batches import BatchQuery

FIFTY = {"S": 50, "A": 4, "H": 20, "K": 100_000, "estimate": True}
TWO_HUNDRED = {"S": 200, "A": 4, "H": 20, "K": 1_000_000, "estimate": True}
SECONDS = {50: 30.0, 200: 60.0}
MEMORY = 2.0
"""GB"""
LIMIT = 240
"""CPU seconds after which a cell is given up."""


def cells() -> list[Cell]:
    """Every pair at fifty states; learners of batches at two hundred."""
    pairs = list(counting())
    large = [(name, trust) for name, trust in pairs if learner_row(name).asks is BatchQuery]
    return [
        *({"learner": name, "trust": trust, **FIFTY} for name, trust in pairs),
        *({"learner": name, "trust": trust, **TWO_HUNDRED} for name, trust in large if trust != "local"),
    ]


def run() -> list[dict[str, Any]]:
    """A row of time for every cell, a row of memory for the large ones, and how far the estimates were off."""
    rows: list[dict[str, Any]] = []
    for cell in measured("sizes", [[one] for one in cells()], limit=LIMIT):
        if "refused" in cell:
            continue
        rows += _rows(cell)
    return rows


def _rows(cell: Cell) -> list[dict[str, Any]]:
    name, free = f"{cell['learner']} {cell['trust']}, S={cell['S']}", cell["S"] == 200 and cell["trust"] == "none"
    goal = None if free else SECONDS[cell["S"]]
    if "lost" in cell:
        return [_row(f"{name}: CPU seconds", LIMIT, goal, f"given up: {cell['lost']}")]
    spent = cell["assembling"] + cell["running"]
    words = f"{1e6 * spent / cell['K']:.0f} us per user; ran {cell['ran']}, {cell['privatizer']}"
    found = [{**_row(f"{name}: CPU seconds", spent, goal, words), "cell": cell}]
    if cell["S"] == 200:
        found.append(
            _row(f"{name}: peak memory, GB", cell["peak"] / 1e9, None if free else MEMORY, "of the whole process")
        )
    said, was = cell["told_memory"], cell["peak"]
    off = max(said / was, was / said)
    return [*found, _row(f"{name}: dry run, memory", off, 2.0, f"said {said:.4g}, was {was:.4g}")]


def _row(name: str, ratio: float, target: float | None, detail: str) -> dict[str, Any]:
    return {"name": name, "ratio": ratio, "target": target, "better": "lower", "detail": detail}
