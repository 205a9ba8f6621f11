"""The experiments `cases/titration`, `-large`, `-budget`, `-budget-large`: insulin titration against the textbook rule.

The design, fixed before any run of it (its reasons stand on the page of the case):

    world       tacit/Titration-v0: one person is one week of one of thirty virtual patients
    people      20,000 and 200,000 under every trust model and epsilon 0.5, 1, 3; without privacy 20,000
    seeds       twenty each, 200 to 219, and 220 to 239 for 200,000 people, used for nothing before
    learners    auto (delta 1e-6 and the practical rule under central and shuffle trust; delta 0 and no width or batch
                size, which one-bit returns do not have, under local); without privacy bucb, pooled, which takes its
                people in batches as well
    budgets     0.02 of the largest return per person, epsilon 1, central and shuffle trust: 20,000 people with seeds
                240 to 259, and 200,000 with 260 to 279
    measured    return per person during the run; the final policy against the textbook rule on the same fresh people,
                meals and sensors (`titration_measures`), with the time that true glucose spends below 70 mg/dL
"""

from __future__ import annotations

from typing import Any, Final, Literal

from papers.panels import FigureSpec
from papers.worlds import TITRATION_ID
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig

__all__ = [
    "BUDGET",
    "BUDGET_LARGE_SUMMARY",
    "BUDGET_SUMMARY",
    "FIGURES",
    "LARGE",
    "LARGE_SUMMARY",
    "LOSS_BUDGET",
    "SMALL",
    "SUMMARY",
    "budget_large_runs",
    "budget_runs",
    "large_runs",
    "runs",
]

Scale = Literal["smoke", "paper"]

SUMMARY: Final = (
    "insulin titration on virtual patients: every trust model, epsilon 0.5, 1 and 3, against the textbook rule"
)
LARGE_SUMMARY: Final = "the same with 200,000 patient-weeks: every trust model, epsilon 1, 3 and 0.5"
BUDGET_SUMMARY: Final = (
    "the same with a loss budget of 0.02 against the textbook rule: central and shuffle trust, epsilon 1"
)
BUDGET_LARGE_SUMMARY: Final = "the same with a loss budget and 200,000 patient-weeks"
BASELINE: Final = "textbook"
LOSS_BUDGET: Final = 0.02
"""Of the largest return, per person: 0.14 of 7 per week."""
EPSILONS: Final = (0.5, 1.0, 3.0)
DELTA: Final = 1e-6
FEW: Final = 10_000
"""With fewer people policies are measured with fewer as well: a smoke run is over in less than two minutes."""
SMALL: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (500, (200,)),
    "paper": (20_000, tuple(range(200, 220))),
}
"""People and seeds."""
LARGE: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (1_000, (220,)),
    "paper": (200_000, tuple(range(220, 240))),
}
BUDGET: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (1_000, (240,)),
    "paper": (20_000, tuple(range(240, 260))),
}
BUDGET_LARGE: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (1_000, (260,)),
    "paper": (200_000, tuple(range(260, 280))),
}
FIGURES: Final = (FigureSpec(name="titration", band="minmax", log="x", title="Return per patient-week"),)


def runs(scale: Scale) -> tuple[Run, ...]:
    """Every trust model and epsilon; the smoke run leaves out epsilon 0.5 and 3."""
    size = SMALL[scale]
    found = [_run("without privacy", size, learner="bucb:share_across_steps=true")]
    for epsilon in EPSILONS if scale == "paper" else (1.0,):
        found += [_private(trust, epsilon, size) for trust in ("central", "shuffle")]
        found.append(_local(epsilon, size))
    return tuple(found)


def large_runs(scale: Scale) -> tuple[Run, ...]:
    """What the targets speak of comes first, local trust last."""
    size, order = LARGE[scale], (1.0, 3.0, 0.5) if scale == "paper" else (1.0,)
    found = [_private(trust, epsilon, size) for epsilon in order for trust in ("central", "shuffle")]
    return (*found, *(_local(epsilon, size) for epsilon in order))


def budget_runs(scale: Scale) -> tuple[Run, ...]:
    """Central and shuffle trust at epsilon 1, with a loss budget."""
    return tuple(_private(trust, 1.0, BUDGET[scale], loss_budget=LOSS_BUDGET) for trust in ("central", "shuffle"))


def budget_large_runs(scale: Scale) -> tuple[Run, ...]:
    """The same with ten times the people."""
    return tuple(_private(trust, 1.0, BUDGET_LARGE[scale], loss_budget=LOSS_BUDGET) for trust in ("central", "shuffle"))


def _local(epsilon: float, size: tuple[int, tuple[int, ...]]) -> Run:
    # One-bit returns have neither widths nor a batch size of somebody's own: who asks for one gets noisy counts.
    return _run(f"local, ε={epsilon:g}", size, trust="local", epsilon=epsilon, delta=0.0, constants=None)


def _private(trust: str, epsilon: float, size: tuple[int, tuple[int, ...]], **options: Any) -> Run:
    return _run(f"{trust}, ε={epsilon:g}", size, trust=trust, epsilon=epsilon, delta=DELTA, **options)


def _run(label: str, size: tuple[int, tuple[int, ...]], **options: Any) -> Run:
    episodes, seeds = size
    config = RunConfig(
        environment=f"gymnasium:{TITRATION_ID}" + (",evaluation=400" if episodes < FEW else ""),
        episodes=episodes,
        seeds=seeds,
        baseline=BASELINE,
        checkpoints=40,
        **{"constants": "practical", **options},
    )
    return Run(label=label, config=config)
