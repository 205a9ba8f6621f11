"""The experiment `frontier/valid`: what proved bands cost, and how often they are wrong.

    coverage   500 runs on three worlds under central and shuffle trust: how often V* leaves its interval
    regret     constants valid beside practical, K = 20,000 and 200,000, staged and pooled, 20 seeds

The committed result holds an ablation, too, made with 0.8: without the observed variance, with one weighting, without
the projection's smaller noise.
Epsilon 1 at delta 1e-6. Growth and shares of `ValidBUCB` were chosen on riverswim (seeds 0 to 2, and rivers of 4, 5
and 8 states with seeds from 8000); the seeds here begin at 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from papers.frontier.page import share_interval
from papers.panels import PanelFigure
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig
from tacit.runs.result import Result

__all__ = ["FIGURES", "SUMMARY", "runs", "summary_table"]

SUMMARY: Final = "valid bands: coverage in 500 runs, regret beside the practical rule"
WORLDS: Final = (
    "riverswim",
    "random-mdp:states=5,actions=3,horizon=5",
    "random-mdp:states=8,actions=3,horizon=6",
)
FIRST_SEED: Final = 100
COVERAGE_SEEDS: Final = 500
SEEDS: Final = 20
SHORT, LONG = 20_000, 200_000


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """All of them; the smoke scale has riverswim, 2,000 users and two seeds."""
    found: list[Run] = []

    def add(label: str, environment: str, episodes: int, seeds: int, **options: Any) -> None:
        count, users = (seeds, episodes) if scale == "paper" else (2, 2_000)
        config = RunConfig(
            environment=environment, episodes=users, seeds=tuple(range(FIRST_SEED, FIRST_SEED + count)), checkpoints=5,
            epsilon=1.0, delta=1e-6, **options,
        )  # fmt: skip
        found.append(Run(label=label, config=config))

    for trust in ("central", "shuffle"):
        for world in WORLDS if scale == "paper" else WORLDS[:1]:
            add(f"coverage, {trust}", world, SHORT, COVERAGE_SEEDS, learner="bucb", trust=trust, constants="valid")
        for users in (SHORT, LONG):
            for learner, words in (("bucb", "staged"), ("bucb:share_across_steps=true", "pooled")):
                for rule in ("practical", "valid"):
                    label = f"{words}, {rule}, {trust}, K={users:,}"
                    add(label, "riverswim", users, SEEDS, learner=learner, trust=trust, constants=rule)
    return tuple(found)


def summary_table(results: Sequence[Result]) -> str:
    """One row per run, as a Markdown table."""
    lines = ["| environment | run | of uniform | interval of V* (mean) | missed |", "|---|---|---|---|---|"]
    for result in results:
        mean, low, high = share_interval(result)
        best, ends = result.resolved.optimal_value, result.intervals
        missed = sum(best is not None and not one.low <= best <= one.high for one in ends)
        middle = f"{sum(e.low for e in ends) / len(ends):.3f} to {sum(e.high for e in ends) / len(ends):.3f}"
        lines.append(
            f"| {result.config.environment_name} | {result.label} | {mean:.3f} ({low:.3f} to {high:.3f}) | {middle} "
            f"| {missed} of {len(ends)} |"
        )
    return "\n".join(lines)


def _panels(result: Result) -> tuple[str, ...]:
    """A panel per trust and size, with the runs whose regret is compared."""
    if result.label.startswith("coverage") or "without" in result.label:
        return ()
    return (f"{result.config.trust}, K = {result.config.episodes:,}",)


FIGURES: Final = (
    PanelFigure(
        name="regret",
        band="bootstrap",
        panels=_panels,
        line=lambda result: ", ".join(result.label.split(", ")[:2]),
        columns=2,
    ),
)
