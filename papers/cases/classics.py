"""The experiment `cases/classics`: what privacy costs in games that everybody knows and that have no table here.

The design, fixed before any run of it:

    worlds      Blackjack-v1, CliffWalking-v1 and CartPole-v1 of Gymnasium with the presets of `live_sources`
    people      20,000, one episode each; four seeds, 10 to 13, used for nothing before
    learners    bucb, pooled, without privacy and under central and shuffle trust (delta 1e-6); ldp-obi, pooled, in
                batches of 100, under local trust (delta 0); the practical rule, nothing tuned
    epsilon     1 and 3
    measured    return per user during the run, return of the final policy by 2,000 fresh episodes, the uniform policy
                and the named baseline in the same way; intervals over the seeds

Nobody knows the best policy of a discretised game, so there is no regret; the baselines are the dealer's rule, the far
path and pushing where the pole leans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from papers.panels import FigureSpec
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig
from tacit.runs.returns_report import Interval

__all__ = ["FIGURES", "SUMMARY", "WORLDS", "runs", "table"]

Scale = Literal["smoke", "paper"]

SUMMARY: Final = "Blackjack, CliffWalking and CartPole without tables: return under every trust model, epsilon 1 and 3"
WORLDS: Final = {"Blackjack-v1": "dealer", "CliffWalking-v1": "far", "CartPole-v1": "lean"}
"""Gymnasium id and named baseline."""
EPSILONS: Final = (1.0, 3.0)
DELTA: Final = 1e-6
SIZES: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (1_000, (10, 11)),
    "paper": (20_000, (10, 11, 12, 13)),
}
"""Episodes and seeds."""
FIGURES: Final = (
    FigureSpec(name="classics", band="minmax", log="x", title="Return per user, without tables", first=100),
)


def runs(scale: Scale) -> tuple[Run, ...]:
    """Every world under every trust model; the smoke run leaves out epsilon 3."""
    return tuple(run for world in WORLDS for run in _world_runs(world, scale))


def _world_runs(world: str, scale: Scale) -> list[Run]:
    found = [_run(world, scale, "without privacy", "bucb:share_across_steps=true")]
    for epsilon in EPSILONS if scale == "paper" else EPSILONS[:1]:
        for trust in ("central", "shuffle"):
            label = f"{trust}, ε={epsilon:g}"
            options: dict[str, Any] = {"trust": trust, "epsilon": epsilon, "delta": DELTA}
            found.append(_run(world, scale, label, "bucb:share_across_steps=true", **options))
        options = {"trust": "local", "epsilon": epsilon, "delta": 0.0, "batch": 100}
        found.append(_run(world, scale, f"local, ε={epsilon:g}", "ldp-obi:time_homogeneous=true", **options))
    return found


def _run(world: str, scale: Scale, label: str, learner: str, **options: Any) -> Run:
    episodes, seeds = SIZES[scale]
    config = RunConfig(
        environment=f"gymnasium:{world}" + (",evaluation=200" if scale == "smoke" else ""),
        learner=learner,
        episodes=episodes,
        seeds=seeds,
        constants="practical",
        baseline=WORLDS[world],
        checkpoints=40,
        **options,
    )
    return Run(label=label, config=config)


def table(cells: Sequence[Mapping[str, Any]]) -> str:
    """The page's table, as Markdown, from what is committed (`cells.json`)."""
    lines = [
        "| world | run | return per user | final policy | uniform | baseline | final minus baseline |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        found, against = cell["returns"], cell["against"]
        difference = Interval(**against["final"]).words
        shown = [_words(found["during"]), _words(found["final"]), f"{found['uniform']['mean']:.3g}"]
        shown += [f"{against['value']:.3g}", difference]
        world = str(cell["environment"]).removeprefix("gymnasium:")
        lines.append(f"| {world} | {cell['run']} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _words(interval: Mapping[str, float]) -> str:
    return f"{interval['mean']:.3g} [{interval['low']:.3g}, {interval['high']:.3g}]"
