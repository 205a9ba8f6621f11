"""The experiment `frontier/missed`: cells of the frontier that missed a target once, again with 1,000 other seeds.

The frontier has 20 seeds per cell, and targets were set in hundredths. Whether a miss is chance or real is decided by
the 95% interval of the mean over seeds that nobody had looked at (2000 to 2999): real if all of it is above the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from papers.frontier import page, valid
from papers.panels import FigureSpec
from tacit.runs.comparison import Run

__all__ = ["FIGURES", "MISSED", "SUMMARY", "Miss", "runs", "summary_table"]

SUMMARY: Final = "the cells of the frontier that missed a target once, with 1,000 fresh seeds"
SEEDS: Final = {"smoke": 2, "paper": 1000}
FIRST_SEED: Final = 2000


@dataclass(frozen=True, slots=True)
class Miss:
    """A cell of a committed result, and what was to be reached there."""

    result: str
    run: str
    environment: str
    target: float


MISSED: Final = (
    Miss("frontier/page", "shuffle, pooled, ε=0.1, K=20,000", "riverswim", 0.70),
    Miss("frontier/page", "shuffle, pooled, ε=1, K=20,000", "random-mdp:states=5,actions=3,horizon=5", 0.043),
    Miss("frontier/page", "shuffle, pooled, ε=1, K=20,000", "treatment", 0.33),
    Miss("frontier/page", "shuffle, ε=0.1, K=20,000", "treatment", 0.90),
    Miss("frontier/page", "shuffle, ε=10, K=20,000", "treatment", 0.28),
    Miss("frontier/page", "central, pooled, ε=10, K=20,000", "treatment", 0.12),
    Miss("frontier/valid", "pooled, valid, shuffle, K=200,000", "riverswim", 0.06),
)
"""What was missed with the 20 seeds of version 0.4.0."""


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """The same configurations with other seeds; the smoke scale has two of them."""
    known = {
        (name, run.label, run.config.environment_name): run.config
        for name, every in (("frontier/page", page.runs("paper")), ("frontier/valid", valid.runs("paper")))
        for run in every
    }
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + SEEDS[scale]))
    return tuple(
        Run(
            label=miss.run,
            config=replace(known[miss.result, miss.run, miss.environment], seeds=seeds, checkpoints=2),
        )
        for miss in (MISSED if scale == "paper" else MISSED[:2])
    )


def summary_table(
    before: Mapping[tuple[str, str], tuple[float, float, float]],
    again: Mapping[tuple[str, str], tuple[float, float, float]],
) -> str:
    """Target, share with 20 seeds and with 1,000 others, and what became of the miss, as a Markdown table."""
    lines = ["| cell | target | 20 seeds | 1,000 fresh seeds (95%) | |", "|---|---|---|---|---|"]
    for miss in MISSED:
        key = miss.environment, miss.run
        mean, low, high = again[key]
        real = "missed" if low > miss.target else "met" if high <= miss.target else "undecided"
        lines.append(
            f"| {miss.environment}, {miss.run} | {miss.target:g} | {before[key][0]:.3f} "
            f"| {mean:.3f} ({low:.3f} to {high:.3f}) | {real} |"
        )
    return "\n".join(lines)


FIGURES: Final = (FigureSpec(name="missed", band="bootstrap"),)
