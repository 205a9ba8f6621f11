"""The experiment `frontier/tested`: steps that share a model where it is unknown whether the world depends on the step.

    apart     bucb, every step with a model of its own
    pooled    bucb:share_across_steps=true, told that all steps are alike, rightly or not
    tested    of version 0.8: pools until the released counts refute it; committed runs only

On two worlds whose steps are alike, and on a random MDP of four states and six steps that drifts: each step is mixed
from one MDP for all and, with weight `drift`, another of its own. K = 20,000, delta 1e-6, 20 seeds, practical rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from papers.panels import FigureSpec
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["FIGURES", "SUMMARY", "WORLDS", "runs", "summary_table"]

SUMMARY: Final = "bucb with steps apart and pooled, on worlds whose steps are alike or are not"
DRIFTING: Final = "random-mdp:states=4,actions=2,horizon=6,seed=1,drift="
WORLDS: Final = {
    "riverswim": "riverswim",
    "random-mdp S=5 A=3 H=5": "random-mdp:states=5,actions=3,horizon=5",
    "every step another": f"{DRIFTING}1.0",
    "half as different": f"{DRIFTING}0.5",
    "a fifth as different": f"{DRIFTING}0.2",
}
LEARNERS: Final = {"apart": "bucb", "pooled": "bucb:share_across_steps=true"}
COMMITTED: Final = (*LEARNERS, "tested")
CLAIMS: Final = (("central", 1.0), ("central", 10.0), ("shuffle", 1.0), ("shuffle", 10.0))


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every world, trust model, epsilon and learner; the smoke scale has riverswim, one claim and two seeds."""
    users, seeds = (20_000, 20) if scale == "paper" else (2_000, 2)
    worlds, claims = (tuple(WORLDS.values()), CLAIMS) if scale == "paper" else (("riverswim",), CLAIMS[:1])
    return tuple(
        Run(
            label=f"{label}, {trust}, ε={epsilon:g}",
            config=RunConfig(
                environment=world,
                learner=learner,
                episodes=users,
                seeds=as_seeds(seeds),
                constants="practical",
                trust=trust,  # type: ignore[arg-type]
                epsilon=epsilon,
                delta=1e-6,
                checkpoints=12,
            ),
        )
        for world in worlds
        for trust, epsilon in claims
        for label, learner in LEARNERS.items()
    )


def summary_table(shares: Mapping[tuple[str, str], tuple[float, float, float]]) -> str:
    """A row per world: shares of the uniform policy's regret, apart / pooled / tested, as a Markdown table."""
    heads = [f"{trust}, ε = {epsilon:g}" for trust, epsilon in CLAIMS]
    lines = [f"| apart / pooled / tested | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for name, world in WORLDS.items():
        cells = [
            " / ".join(f"{shares[world, f'{label}, {trust}, ε={epsilon:g}'][0]:.2f}" for label in COMMITTED)
            for trust, epsilon in CLAIMS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


FIGURES: Final = (
    FigureSpec(
        name="tested",
        columns=4,
        band="bootstrap",
        panel=lambda result: f"{result.config.environment_name}, {result.config.trust}, ε = {result.config.epsilon:g}",
    ),
)
