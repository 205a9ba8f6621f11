"""Simulation only: whether runs of titration kept the loss budget that they declared.

A run keeps its budget b if the mean return of its people is at most b H below the textbook rule's, which is the mean
over the fresh weeks of all seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from papers.cases.titration import LOSS_BUDGET

__all__ = ["kept", "losses", "table"]

DAYS: Final = 7
HEAD: Final = """\
| run | certified ε | patient-weeks | during the run minus the rule's | largest loss of a seed | kept 0.14 of 7 \
| final policy minus the rule |
|---|---|---|---|---|---|---|"""


def losses(cell: Mapping[str, Any]) -> list[float]:
    """What the people of every seed lost against the rule, per week; negative: they gained."""
    rule = float(cell["against"]["value"])
    return [rule - float(found) for found in cell["returns"]["per_seed"]]


def kept(cell: Mapping[str, Any]) -> int:
    """How many seeds kept the budget.

    >>> kept({"against": {"value": 5.0}, "returns": {"per_seed": [4.9, 4.8, 5.2]}})
    2
    """
    return sum(loss <= LOSS_BUDGET * DAYS for loss in losses(cell))


def table(cells: Sequence[Mapping[str, Any]]) -> str:
    """The page's table, as Markdown, from what is committed (`cells.json`)."""
    lines = [HEAD]
    for cell in cells:
        lost, against = losses(cell), cell["against"]
        lines.append(
            f"| {cell['run']} | {cell['certified epsilon']:.3g} | {cell['episodes']:,} | {_words(against['during'])} "
            f"| {max(lost):+.3f} | {kept(cell)} of {len(lost)} | {_words(against['final'])} |"
        )
    return "\n".join(lines)


def _words(interval: Mapping[str, float]) -> str:
    return f"{interval['mean']:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"
