"""The experiments that can be repeated by name (`python -m papers reproduce NAME`), in one literal table.

An experiment is a function from a scale to its runs: `smoke` takes about a minute, `paper` is the full size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from papers.bai2024adversarial import experiments as bai2024adversarial
from papers.bai2024adversarial import figures as bai2024adversarial_figures
from papers.bai2024adversarial import pure as bai2024adversarial_pure
from papers.bai2024adversarial import pure_figures as bai2024adversarial_pure_figures
from papers.bai2024shuffle import elimination as bai2024shuffle_elimination
from papers.bai2024shuffle import experiments as bai2024shuffle
from papers.bai2024shuffle import growth as bai2024shuffle_growth
from papers.bai2024shuffle import powers as bai2024shuffle_powers
from papers.bai2025secure import experiments as bai2025
from papers.cases import classics, recommender, titration
from papers.frontier import bound as frontier_bound
from papers.frontier import central as frontier_central
from papers.frontier import local as frontier_local
from papers.frontier import missed as frontier_missed
from papers.frontier import page as frontier
from papers.frontier import rlsvi as frontier_rlsvi
from papers.frontier import structure as frontier_structure
from papers.frontier import tested as frontier_tested
from papers.frontier import valid as frontier_valid
from papers.garcelon2021local import amplification as garcelon2021_amplification
from papers.garcelon2021local import bound as garcelon2021_bound
from papers.garcelon2021local import experiments as garcelon2021
from papers.garcelon2021local import noise as garcelon2021_noise
from papers.garcelon2021local import sizes as garcelon2021_sizes
from papers.he2025policy import experiments as he2025
from papers.he2025policy import neural as he2025_neural
from papers.he2025policy import powers as he2025_powers
from papers.panels import FIGURE, Drawable, FigureSpec
from tacit.errors import UnknownName
from tacit.runs.comparison import Comparison, Run, run_comparison
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.runner import Notify, silent
from tacit.runs.storage_paths import is_local, resolve_location

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Scale",
    "default_directory",
    "experiment_named",
    "reproduce",
    "title_of",
]

Scale = Literal["smoke", "paper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What runs, and which figures are drawn of it."""

    summary: str
    runs: Callable[[Scale], tuple[Run, ...]]
    figures: tuple[Drawable, ...] = (FIGURE,)
    shares_runs: bool = False
    """Whether runs that another experiment of the same paper has finished are copied."""
    reproduces: str | None = None
    """The figure, table or theorem that it repeats; None: the experiment is ours."""


def _baselines(scale: Scale) -> tuple[Run, ...]:
    """Every baseline on the two smallest environments, none of them private."""
    episodes, seeds = {"smoke": (2_000, 3), "paper": (200_000, 20)}[scale]
    learners = {
        "UCBVI Hoeffding, theory": ("ucbvi:bonus=hoeffding", "theory"),
        "UCBVI Bernstein, theory": ("ucbvi:bonus=bernstein", "theory"),
        "UCBVI, practical": ("ucbvi", "practical"),
        "PSRL": ("psrl", "none"),
        "uniform": ("uniform", "none"),
    }
    return tuple(
        Run(
            label=label,
            config=RunConfig(
                environment=environment,
                learner=learner,
                episodes=episodes,
                seeds=as_seeds(seeds),
                constants=constants,  # type: ignore[arg-type]
            ),
        )
        for environment in ("riverswim", "random-mdp")
        for label, (learner, constants) in learners.items()
    )


EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "foundation/baselines": Experiment(
        summary="UCBVI with both bonuses and the practical rule, PSRL and the uniform policy, without privacy",
        runs=_baselines,
        figures=(FIGURE, FigureSpec(name="regret-per-episode", band="minmax", per_episode=True)),
    ),
    "garcelon2021local/fig1": Experiment(
        reproduces="Figure 1",
        summary="UCB-VI, LDP-OBI with Laplace noise and LDP-PSRL at epsilon 0.2, 2 and 20",
        runs=lambda scale: garcelon2021.learner_runs(scale, obi=True, beta=False),
        figures=garcelon2021.figures("fig1"),
        shares_runs=True,
    ),
    "garcelon2021local/fig2": Experiment(
        reproduces="Figure 2",
        summary="LDP-OBI with every local mechanism, every epsilon",
        runs=garcelon2021.mechanism_runs,
        figures=garcelon2021.figures("fig2"),
        shares_runs=True,
    ),
    "garcelon2021local/fig2-printed": Experiment(
        reproduces="Figures 2 and 4-6",
        summary="the lines of figures 2, 4, 5 and 6 with noise and radii as printed, both readings of Prop. 10",
        runs=garcelon2021.printed_runs,
        figures=garcelon2021.figures("fig2-printed"),
        shares_runs=True,
    ),
    "garcelon2021local/fig4": Experiment(
        reproduces="Figure 4",
        summary="LDP-OBI with every local mechanism at epsilon 0.2",
        runs=lambda scale: garcelon2021.epsilon_runs(scale, 0.2),
        figures=garcelon2021.figures("fig4"),
        shares_runs=True,
    ),
    "garcelon2021local/fig5": Experiment(
        reproduces="Figure 5",
        summary="LDP-OBI with every local mechanism at epsilon 2",
        runs=lambda scale: garcelon2021.epsilon_runs(scale, 2.0),
        figures=garcelon2021.figures("fig5"),
        shares_runs=True,
    ),
    "garcelon2021local/fig6": Experiment(
        reproduces="Figure 6",
        summary="LDP-OBI with every local mechanism at epsilon 20",
        runs=lambda scale: garcelon2021.epsilon_runs(scale, 20.0),
        figures=garcelon2021.figures("fig6"),
        shares_runs=True,
    ),
    "garcelon2021local/fig7": Experiment(
        reproduces="Figure 7",
        summary="LDP-PSRL at every epsilon: as printed, tight, and for binary rewards",
        runs=lambda scale: garcelon2021.learner_runs(scale, obi=False, beta=True),
        figures=garcelon2021.figures("fig7"),
        shares_runs=True,
    ),
    "he2025policy/theorem2": Experiment(
        reproduces="Theorem 2",
        summary="stationarity of DP-PG against the number of users, several epsilon and dimensions, fitted exponents",
        runs=lambda scale: he2025.theorem_runs("theorem2", scale),
        figures=he2025.FIGURES["theorem2"],
    ),
    "he2025policy/theorem3": Experiment(
        reproduces="Theorem 3",
        summary="global error of DP-PG with Gaussian policies (Fisher-non-degenerate) against the number of users",
        runs=lambda scale: he2025.theorem_runs("theorem3", scale),
        figures=he2025.FIGURES["theorem3"],
    ),
    "he2025policy/theorem4": Experiment(
        reproduces="Theorem 4",
        summary="global error of DP-PG with tabular softmax and log-barrier against the number of users",
        runs=lambda scale: he2025.theorem_runs("theorem4", scale),
        figures=he2025.FIGURES["theorem4"],
    ),
    "he2025policy/fisher": Experiment(
        reproduces="Theorem 3: the power of μ",
        summary="global error of DP-PG with Gaussian policies against the least eigenvalue mu of their Fisher matrix",
        runs=he2025_powers.fisher_runs,
        figures=(he2025.FisherFigure(),),
    ),
    "he2025policy/beyond": Experiment(
        summary="DP-PG, private natural gradient, trust-region and PPO-style updates at equal (epsilon, delta)",
        runs=he2025.comparison_runs,
        figures=(he2025.BEYOND,),
    ),
    "he2025policy/neural": Experiment(
        summary="a neural policy learns CartPole in private: plain and trust-region steps beside a table",
        runs=he2025_neural.runs,
        figures=he2025_neural.FIGURES,
    ),
    "garcelon2021local/fig8": Experiment(
        reproduces="Figure 8",
        summary="how far Laplace noise spreads a total reward after 1,000 episodes",
        runs=garcelon2021_noise.runs,
        figures=(garcelon2021_noise.TotalNoiseFigure(),),
    ),
    "garcelon2021local/fig9": Experiment(
        reproduces="Figure 9",
        summary="two trajectories under Laplace noise at epsilon 20",
        runs=garcelon2021_noise.runs,
        figures=(garcelon2021_noise.EpisodeNoiseFigure(),),
    ),
    "garcelon2021local/every-user": Experiment(
        summary="four runs of fig. 1 replanned rarely and after every user: the same regret",
        runs=garcelon2021.every_user_runs,
        figures=(garcelon2021.EVERY_USER,),
    ),
    "garcelon2021local/other-worlds": Experiment(
        summary="lines of figures 1 and 2 as printed in four other random MDPs",
        runs=garcelon2021.world_runs,
        figures=(garcelon2021.OTHER_WORLDS,),
    ),
    "garcelon2021local/table1": Experiment(
        reproduces="Theorem 5 and Table 1",
        summary="LDP-OBI with every mechanism on random MDPs of growing size: the powers of S, A and H",
        runs=garcelon2021_sizes.runs,
        figures=(garcelon2021_sizes.FIGURE,),
    ),
    "garcelon2021local/reshuffled": Experiment(
        reproduces="Appendix I (Eq. 113, I.2)",
        summary="M_sh: the level of Eq. 113 against the one that holds, and the regret of I.2 at a fixed local level",
        runs=garcelon2021_amplification.runs,
        figures=(garcelon2021_amplification.ReshuffledFigure(),),
    ),
    "garcelon2021local/lower-bound": Experiment(
        reproduces="Theorem 2",
        summary="every local learner on the hard trees of Theorem 2, against its rate",
        runs=garcelon2021_bound.runs,
        figures=(garcelon2021_bound.BoundFigure(),),
    ),
    "bai2024adversarial/table1": Experiment(
        reproduces="Table 1",
        summary=bai2024adversarial.SUMMARIES["table1"],
        runs=bai2024adversarial.table_runs,
        figures=(bai2024adversarial_figures.GrowthFigure(), bai2024adversarial_figures.EpsilonFigure()),
    ),
    "bai2024adversarial/table1-pure": Experiment(
        reproduces="Table 1",
        summary=bai2024adversarial_pure.SUMMARIES["table1-pure"],
        runs=bai2024adversarial_pure.pure_runs,
        figures=(bai2024adversarial_pure_figures.PureFigure(),),
    ),
    "bai2024adversarial/table1-powers": Experiment(
        reproduces="Table 1: powers of X, A and H",
        summary=bai2024adversarial_pure.SUMMARIES["table1-powers"],
        runs=bai2024adversarial_pure.power_runs,
        figures=(bai2024adversarial_pure_figures.PowersFigure(),),
    ),
    "bai2024adversarial/estimator": Experiment(
        reproduces="Theorem 4.2",
        summary=bai2024adversarial.SUMMARIES["estimator"],
        runs=bai2024adversarial.estimator_runs,
        figures=(bai2024adversarial_figures.GrowthFigure(),),
    ),
    "bai2024adversarial/two-arms": Experiment(
        reproduces="Theorem 4.2",
        summary=bai2024adversarial.SUMMARIES["two-arms"],
        runs=bai2024adversarial.arm_runs,
        figures=(bai2024adversarial_figures.GrowthFigure(),),
    ),
    "bai2024adversarial/support": Experiment(
        reproduces="Theorem 3.3",
        summary=bai2024adversarial.SUMMARIES["support"],
        runs=bai2024adversarial.support_runs,
        figures=(bai2024adversarial_figures.SupportFigure(),),
    ),
    "bai2024shuffle/table1": Experiment(
        reproduces="Table I, Theorems 6 and 11,",
        summary=bai2024shuffle.SUMMARIES["table1"],
        runs=bai2024shuffle.growth_runs,
        figures=(bai2024shuffle_growth.GrowthFigure(),),
    ),
    "bai2024shuffle/powers": Experiment(
        reproduces="Table I: powers of X, A and H",
        summary=bai2024shuffle.SUMMARIES["powers"],
        runs=bai2024shuffle_powers.runs,
        figures=(bai2024shuffle_powers.FIGURE,),
    ),
    "bai2024shuffle/constants": Experiment(
        summary=bai2024shuffle.SUMMARIES["constants"],
        runs=bai2024shuffle.constant_runs,
        figures=(bai2024shuffle_growth.ConstantFigure(),),
    ),
    "bai2024shuffle/ablations": Experiment(
        summary=bai2024shuffle.SUMMARIES["ablations"],
        runs=bai2024shuffle.ablation_runs,
        figures=bai2024shuffle.FIGURES["ablations"],
    ),
    "bai2024shuffle/riverswim": Experiment(
        summary=bai2024shuffle.SUMMARIES["riverswim"],
        runs=bai2024shuffle.river_runs,
        figures=bai2024shuffle.FIGURES["riverswim"],
    ),
    "bai2024shuffle/elimination": Experiment(
        summary=bai2024shuffle.SUMMARIES["elimination"],
        runs=bai2024shuffle_elimination.runs,
        figures=(bai2024shuffle_elimination.EliminationFigure(),),
    ),
    "bai2025secure/fig4": Experiment(
        reproduces="Figure 4", summary=bai2025.SUMMARY, runs=bai2025.runs, figures=bai2025.FIGURES
    ),
    "frontier/valid": Experiment(
        summary=frontier_valid.SUMMARY, runs=frontier_valid.runs, figures=frontier_valid.FIGURES
    ),
    "frontier/missed": Experiment(
        summary=frontier_missed.SUMMARY, runs=frontier_missed.runs, figures=frontier_missed.FIGURES
    ),
    "frontier/tested": Experiment(
        summary=frontier_tested.SUMMARY, runs=frontier_tested.runs, figures=frontier_tested.FIGURES
    ),
    "frontier/local": Experiment(
        summary=frontier_local.SUMMARY, runs=frontier_local.runs, figures=frontier_local.FIGURES
    ),
    "frontier": Experiment(
        summary=frontier.SUMMARY,
        runs=frontier.runs,
        figures=frontier.FIGURES,
        shares_runs=True,
    ),
    "frontier/central": Experiment(
        summary=frontier_central.SUMMARY, runs=frontier_central.runs, figures=frontier_central.FIGURES
    ),
    "frontier/rlsvi": Experiment(
        summary=frontier_rlsvi.SUMMARY, runs=frontier_rlsvi.runs, figures=frontier_rlsvi.FIGURES
    ),
    "frontier/lower-bound": Experiment(
        summary=frontier_bound.SUMMARY, runs=frontier_bound.runs, figures=(frontier_bound.BoundFigure(),)
    ),
    "frontier/structure": Experiment(
        summary=frontier_structure.SUMMARY, runs=frontier_structure.runs, figures=frontier_structure.FIGURES
    ),
    "cases/classics": Experiment(summary=classics.SUMMARY, runs=classics.runs, figures=classics.FIGURES),
    "cases/recommender": Experiment(summary=recommender.SUMMARY, runs=recommender.runs, figures=recommender.FIGURES),
    "cases/recommender-large": Experiment(
        summary=recommender.LARGE_SUMMARY, runs=recommender.large_runs, figures=recommender.FIGURES
    ),
    "cases/titration": Experiment(summary=titration.SUMMARY, runs=titration.runs, figures=titration.FIGURES),
    "cases/titration-large": Experiment(
        summary=titration.LARGE_SUMMARY, runs=titration.large_runs, figures=titration.FIGURES
    ),
    "cases/titration-budget": Experiment(
        summary=titration.BUDGET_SUMMARY, runs=titration.budget_runs, figures=titration.FIGURES
    ),
    "cases/titration-budget-large": Experiment(
        summary=titration.BUDGET_LARGE_SUMMARY, runs=titration.budget_large_runs, figures=titration.FIGURES
    ),
}


def experiment_named(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def title_of(name: str, scale: str) -> str:
    """What stands above the figures of an experiment.

    >>> title_of("garcelon2021local/fig1", "paper")
    'Reproduction of Figure 1 of [garcelon2021local]'
    >>> title_of("frontier/local", "smoke")
    'frontier/local (smoke scale)'
    """
    what = experiment_named(name).reproduces
    words = name if what is None else f"Reproduction of {what} of [{name.partition('/')[0]}]"
    return words if scale == "paper" else f"{words} ({scale} scale)"


def default_directory(name: str, scale: str) -> Path:
    """Where an experiment is kept unless another place is named."""
    _require_scale(scale)
    return Path("tacit-results") / name / scale


def reproduce(
    name: str,
    *,
    scale: Scale = "smoke",
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: bool = False,
    notify: Notify = silent,
    command: str | None = None,
) -> Comparison:
    """Run an experiment of the catalogue, resumable run by run, and draw its figures beside it.

    Parameters
    ----------
    name, scale
        Which experiment, and whether to try it out (`"smoke"`) or to run it at full size (`"paper"`).
    out
        Its directory; None: `tacit-results/<name>/<scale>`.
    workers, engine, address, progress
        As in `tacit.run`.
    notify
        Told what was found in the directory and what was drawn.
    command
        The command line to record.

    >>> reproduce("bai2025secure/fig5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.UnknownName: unknown experiment 'bai2025secure/fig5': did you mean 'bai2025secure/fig4'? Known: ...
    """
    experiment = experiment_named(name)
    _require_scale(scale)
    directory = default_directory(name, scale) if out is None else resolve_location(out)
    comparison = run_comparison(
        experiment.runs(scale),
        name=name,
        out=directory,
        scale=scale,
        command=command or f"python -m papers reproduce {name} --scale {scale}",
        workers=workers,
        engine=engine,
        address=address,
        progress=progress,
        notify=notify,
        borrow=experiment.shares_runs,
    )
    for spec in experiment.figures:
        target = directory / f"{spec.name}.png"
        if not is_local(target) or not target.is_file() or target.stat().st_mtime < comparison.finished_at:
            spec.draw(comparison.results, target, title=title_of(name, scale))
        notify(f"figure: {target}")
    return comparison


def _require_scale(scale: str) -> None:
    if scale not in get_args(Scale):
        raise UnknownName("scale", scale, get_args(Scale))
