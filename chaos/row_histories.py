"""Random histories over real processes, with every mutant found."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from chaos.histories import history
from chaos.worlds import bad, row

SCALES = {
    "ci": {"histories": 20, "operations": 24, "tries": 8},
    "chaos": {"histories": 200, "operations": 60, "tries": 40},
}
SECONDS = 1800.0
MUTANTS = {
    "person twice": "person twice",
    "no minimum": "too few",
    "closed lets in": "closed let in",
    "publish first": "two views",
}


def run(scale: str = "chaos", seed: int = 0) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    return [
        honest(size["histories"], size["operations"], seed),
        *(found(mutant, size["tries"]) for mutant in MUTANTS),
    ]


def honest(histories: int, operations: int, seed: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Histories of the services as they are; what the time does not allow is not run, and the bar is missed then."""
    wrong: dict[int, dict[str, int]] = {}
    total: Counter[str] = Counter()
    end, done = time.monotonic() + seconds, 0
    for number in range(seed, seed + histories):
        if time.monotonic() > end:
            break
        done += 1
        findings, told = history(number, operations=operations)
        if any(findings.values()):
            wrong[number] = bad(findings)
        total.update({"released": told.taken, "acknowledged": told.book.total, "starts": told.parties.starts})
    return row(
        f"{histories} random histories of {operations} operations over real processes",
        "0 findings",
        len(wrong),
        not wrong and done == histories and total["released"] >= histories // 4,
        f"{done} of {histories} run, {total['acknowledged']} reports acknowledged, {total['released']} releases taken",
        seeds=[seed, seed + done],
        findings=wrong,
        **total,
    )


def found(mutant: str, tries: int) -> dict[str, Any]:
    """A mutant is found in one of so many histories."""
    for seed in range(0, 2 * tries, 2):  # those with crashes inside of operations
        findings, _ = history(seed, mutant)
        if findings[MUTANTS[mutant]]:
            return row(
                f"the mutant '{mutant}'", f"found: {MUTANTS[mutant]}", f"history {seed}", True, findings=bad(findings)
            )
    return row(f"the mutant '{mutant}'", f"found: {MUTANTS[mutant]}", f"not in {tries} histories", False)
