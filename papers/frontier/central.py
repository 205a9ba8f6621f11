"""The experiment `frontier/central`: what joint differential privacy costs, as printed and as little as it can.

All runs at the same delta, under the one practical rule, on the same environments:

    paper tree              dp-ucbvi on the Laplace tree with the printed scale 3H⌈log₂K⌉/ε
    Laplace tree            the same tree, exactly calibrated to (ε, δ)
    factorization           the tight counter after every user
    batched                 fresh noise for each of ~15 batches, accumulated
    batched factorization   the factorization over ~120 batches
    at the paper's epsilon  the batched factorization at the epsilon that the paper tree really has at this delta
    PO, UCB-VI              the other learners on the batched factorization

The printed scale claims pure ε (false: replacing a user moves 2H counters of a family, not H) and certifies a smaller
epsilon than ε at delta 1e-6. So there are two comparisons at one guarantee: the exactly calibrated tree against the
tight counters at (ε, δ), and the paper tree against the tight counter at the paper tree's own epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from papers.panels import FigureSpec
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENVIRONMENTS", "EPSILONS", "FIGURES", "PAPER_EPSILON", "SUMMARY", "runs", "summary_table"]

SUMMARY: Final = "joint differential privacy: printed against tight counters, four learners, epsilon 0.1, 1 and 10"
DELTA: Final = 1e-6
EPSILONS: Final = (0.1, 1.0, 10.0)
ENVIRONMENTS: Final = {
    "riverswim": 6,
    "random-mdp:states=5,actions=3,horizon=5": 5,
    "random-mdp:states=8,actions=3,horizon=6": 6,
    "treatment": 8,
}
"""Each environment with its horizon."""

PAPER_EPSILON: Final = {
    (5, 0.1): 0.03038, (5, 1.0): 0.3578, (5, 10.0): 4.338,
    (6, 0.1): 0.02773, (6, 1.0): 0.3268, (6, 10.0): 3.949,
    (8, 0.1): 0.02392, (8, 1.0): 0.2827, (8, 10.0): 3.399,
}  # fmt: skip
"""The epsilon that the printed tree has at delta 1e-6 for K = 20,000, by horizon and printed epsilon; rounded up."""

COUNTERS: Final[dict[str, dict[str, Any]]] = {
    "paper tree": {"calibration": "paper"},
    "Laplace tree": {"mechanism": "laplace-tree"},
    "factorization": {"mechanism": "factorization"},
    "batched": {"mechanism": "batched"},
    "batched factorization": {"mechanism": "batched-factorization"},
}
LARGE: Final = ("paper tree", "factorization", "batched factorization")
"""The counters of the two larger environments, whose thousands of counters make every run expensive."""
LEARNERS: Final = {"PO": "private-ucb-po", "UCB-VI": "private-ucb-vi"}
"""Under the practical rule `pucb` is `private-ucb-vi`: both are UCBVI with the shared widths."""


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every environment, epsilon and counter; the smoke scale has two environments and one epsilon."""
    episodes, seeds = {"smoke": (2_000, 3), "paper": (20_000, 20)}[scale]
    environments = list(ENVIRONMENTS) if scale == "paper" else list(ENVIRONMENTS)[:2]
    epsilons = EPSILONS if scale == "paper" else (1.0,)
    found: list[Run] = []
    for environment in environments:

        def add(label: str, learner: str, environment: str = environment, **options: Any) -> None:
            config = RunConfig(
                environment=environment,
                learner=learner,
                episodes=episodes,
                seeds=as_seeds(seeds),
                checkpoints=30,
                **options,
            )
            found.append(Run(label=label, config=config))

        add("no privacy", "dp-ucbvi", constants="practical")
        add("uniform", "uniform", constants="none")
        for epsilon in epsilons:
            private: dict[str, Any] = {"trust": "central", "delta": DELTA, "constants": "practical"}
            small = environment in list(ENVIRONMENTS)[:2]
            for label, counter in COUNTERS.items():
                if not small and label not in LARGE:
                    continue
                add(f"{label}, ε={epsilon:g}", "dp-ucbvi", epsilon=epsilon, **counter, **private)
            # Only the paper's tree depends on the number of episodes in its guarantee; smoke keeps the table's number.
            add(
                f"at the paper's epsilon, ε={epsilon:g}",
                "dp-ucbvi",
                epsilon=PAPER_EPSILON[ENVIRONMENTS[environment], epsilon],
                mechanism="batched-factorization",
                **private,
            )
            for label, learner in LEARNERS.items() if small else ():
                add(
                    f"{label}, batched factorization, ε={epsilon:g}",
                    learner,
                    epsilon=epsilon,
                    mechanism="batched-factorization",
                    **private,
                )
    return tuple(found)


def summary_table(results: Sequence[Result]) -> str:
    """Final regret (mean ± standard error over the seeds) as a Markdown table, one row per run."""
    lines = [
        "| environment | run | certified epsilon | noise std of a transition | regret | of uniform |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        final = result.regret[:, -1]
        error = final.std(ddof=1) / len(final) ** 0.5 if len(final) > 1 else 0.0
        share = final.mean() / (result.uniform_regret * result.config.episodes)
        private = result.config.trust != "none"
        epsilon = f"{result.certificate.epsilon:.4g}" if private else "-"
        std = next((f.std for f in result.certificate.families if f.name == "transitions"), 0.0) if private else 0.0
        lines.append(
            f"| {result.config.environment_name} | {result.label} | {epsilon} | {f'{std:.4g}' if private else '-'} "
            f"| {final.mean():,.0f} ± {error:,.0f} | {share:.3f} |"
        )
    return "\n".join(lines)


def _of(epsilon: float) -> Callable[[Result], bool]:
    """The runs at this epsilon, and those without any."""
    return lambda result: result.config.trust == "none" or result.label.endswith(f"ε={epsilon:g}")


FIGURES: Final = tuple(
    FigureSpec(
        name=f"regret-epsilon-{epsilon:g}", select=_of(epsilon), title=f"frontier/central, ε = {epsilon:g}", columns=2
    )
    for epsilon in EPSILONS
)
