"""The experiment `frontier/local`: the best local privatizer of tacit against the paper's Laplace noise, one guarantee.

Same epsilon-LDP (2), same learner (`ldp-obi` under the one practical rule), same seeds; only the noise differs:

    paper      Laplace noise of scale 6H/ε in three families, as printed in [garcelon2021local]
    tacit      what `tight` takes by default: the quietest local mechanism
    no privacy the same learner and rule on exact counts

on ten RandomMDPs with S = A = H = 2 (the first ten seeds in which the optimum earns at least 0.2 more than uniform), on
`riverswim` and on `treatment`, both with statistics kept apart by step (`staged`) and pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

from papers.panels import FigureSpec
from tacit.arrays import Floats
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.result import Result

__all__ = [
    "ENVIRONMENTS",
    "EPSILON",
    "FIGURES",
    "SUMMARY",
    "ratio_interval",
    "ratio_of",
    "runs",
    "summary_table",
    "transition_stds",
]

SUMMARY: Final = "local differential privacy: the paper's Laplace noise against the quietest mechanism, epsilon 2"
EPSILON: Final = 2.0
RANDOM_MDPS: Final = (1, 2, 3, 4, 5, 8, 9, 10, 12, 13)
ENVIRONMENTS: Final[tuple[tuple[str, bool, int], ...]] = (
    *((f"random-mdp:seed={seed}", False, 10_000_000) for seed in RANDOM_MDPS),
    ("random-mdp:seed=3", True, 10_000_000),
    ("riverswim", True, 10_000_000),
    ("riverswim", False, 10_000_000),
    ("treatment", True, 1_000_000),
    ("treatment", False, 1_000_000),
)
"""Environment, whether the steps are kept apart, and episodes; `treatment` has 4,350 counters per message if staged."""
NOISES: Final[dict[str, dict[str, Any]]] = {
    "paper": {"trust": "local", "epsilon": EPSILON, "delta": 0.0, "calibration": "paper", "mechanism": "laplace"},
    "tacit": {"trust": "local", "epsilon": EPSILON, "delta": 0.0},
    "no privacy": {},
}


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every environment and noise; the smoke scale has four environments and few episodes."""
    found = []
    chosen = ENVIRONMENTS if scale == "paper" else (*ENVIRONMENTS[2:4], *ENVIRONMENTS[11:13])
    for environment, staged, episodes in chosen:
        for label, noise in NOISES.items():
            rarely = ",replan=geometric" if scale == "paper" and _replans_rarely(environment, label) else ""
            config = RunConfig(
                environment=environment,
                learner=f"ldp-obi:time_homogeneous={str(not staged).lower()}{rarely}",
                episodes=episodes if scale == "paper" else 50_000,
                seeds=as_seeds(20 if scale == "paper" else 3),
                constants="practical",
                checkpoints=30,
                **noise,
            )
            found.append(Run(label=f"{label}, {'staged' if staged else 'pooled'}", config=config))
    return tuple(found)


def _replans_rarely(environment: str, label: str) -> bool:
    """Whether a run at full size plans when the users have grown by half a percent, which lets 10⁷ users take seconds.

    Not where a learner is so good that half a percent of all users, sent to explore at once, would be most of its
    regret: the random MDPs. And not where that is slower: messages of a batch in `treatment`, drawn state by state.
    """
    if environment.startswith("random-mdp"):
        return label == "no privacy"
    return not (environment == "treatment" and label == "tacit")


def ratio_interval(paper: Result, ours: Result) -> tuple[float, float, float]:
    """How many times larger the paper's regret is, with a 95% bootstrap interval over the seeds."""
    return ratio_of(paper.regret[:, -1], ours.regret[:, -1])


def ratio_of(paper_final: Floats, ours_final: Floats) -> tuple[float, float, float]:
    """`ratio_interval` of final regrets, seed by seed."""
    generator = np.random.default_rng(0)
    # Seeds are paired: the same seed draws the same users' coins in both runs.
    chosen = generator.integers(len(ours_final), size=(2000, len(ours_final)))
    ratios = paper_final[chosen].mean(axis=1) / ours_final[chosen].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(paper_final.mean() / ours_final.mean()), float(low), float(high)


def summary_table(results: Sequence[Result]) -> str:
    """Final regret, the ratio with its interval, and the noise of one transition counter, as a Markdown table."""
    columns = "environment | steps | K | noise std: paper / tacit (with sampling at most) | mechanism"
    columns += " | regret: uniform / paper / tacit / no privacy | paper / tacit (95%)"
    lines = [f"| {columns} |", "|---" * 7 + "|"]
    by: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        kind, steps = result.label.split(", ")
        by.setdefault((result.config.environment_name, steps), {})[kind] = result
    for (environment, steps), cells in by.items():
        paper, ours, free = (cells[name] for name in NOISES)
        uniform = paper.uniform_regret * paper.config.episodes
        finals = [uniform, *(float(cell.regret[:, -1].mean()) for cell in (paper, ours, free))]
        stds = transition_stds(paper.config, ours.config)
        ratio, low, high = ratio_interval(paper, ours)
        lines.append(
            f"| {environment} | {steps} | {paper.config.episodes:,} | {stds[0]:.3g} / {stds[1]:.3g} ({stds[2]:.3g}) "
            f"| {ours.resolved.privatizer.removeprefix('local/')} | {' / '.join(f'{value:,.0f}' for value in finals)} "
            f"| {ratio:.2f} ({low:.2f}-{high:.2f}) |"
        )
    return "\n".join(lines)


def transition_stds(paper: RunConfig, ours: RunConfig) -> tuple[float, float, float]:
    """The standard deviation that one user adds to a transition counter: paper, ours, ours with all its sampling."""
    printed, privatizer = (assemble(config).privatizer for config in (paper, ours))
    with_sampling = float(privatizer.parameters.variance[0] ** 0.5)
    return printed.noise_std()["transitions"], privatizer.noise_std()["transitions"], with_sampling


FIGURES: Final = (
    FigureSpec(
        name="regret",
        band="bootstrap",
        panel=lambda result: f"{result.config.environment_name}, {result.label.split(', ')[1]}",
        title="frontier/local, ε = 2",
    ),
)
