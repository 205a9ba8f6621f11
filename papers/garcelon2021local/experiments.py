"""The figures of [garcelon2021local] section 6 and appendices F.4 and G, at the paper's size and in both calibrations.

RandomMDP with S = A = H = 2, statistics pooled over the steps, epsilon in {0.2, 2, 20}, K = 10⁸, 20 runs, band from the
least to the greatest run. The paper names no seed for its one MDP. Here it is seed 3: V* = 2, uniform earns 1
and no constant action is optimal; of the default seed 0 nearly every policy is optimal.

Gaussian and bounded noise run at delta = 0.1, as in the paper. That is not a meaningful privacy level: a mechanism that
publishes every tenth trajectory in the clear has it too.

At full size learners replan when the number of users has grown by half a percent (`replan=geometric`): 10⁸ users take
2,900 plans. `every_user_runs` repeats four of the runs up to 10⁷ users with a plan after every user, as Alg. 2 and 7
are printed.

`paper`: the noise as printed. `tight`: the least noise with the claimed guarantee, in the complement encoding. Both
with radii c_k that provably cover (constants `theory`). `printed`: noise and radii as printed (Props. 8, 11, 13, 15),
Gaussian noise in both readings: G has c² = 4 ln(24/δ) (proof of Prop. 10 and Prop. 11), G10 has c = 4 ln(24/δ) (Prop.
10); α = 2, δ = 0.05 and C = 1, which the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from papers.panels import PanelFigure
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.result import Result

__all__ = [
    "ENVIRONMENT",
    "EPSILONS",
    "EVERY_USER",
    "LOCAL_DELTA",
    "OTHER_WORLDS",
    "epsilon_runs",
    "every_user_runs",
    "figures",
    "learner_runs",
    "mechanism_runs",
    "printed_runs",
    "world_runs",
]

ENVIRONMENT: Final = "random-mdp:seed=3"
EPSILONS: Final = (2.0, 20.0, 0.2)
"""The most telling one first: runs are made in this order."""
LOCAL_DELTA: Final = 0.1
MECHANISMS: Final = {"L": "laplace", "G": "gaussian", "RR": "rr", "BND": "bounded", "OUE": "oue", "SUB": "subset"}
"""The letters of the paper's legends; OUE and SUB are ours, in `tight` only."""
OURS: Final = ("OUE", "SUB")
PRINTED: Final = {
    "L": "laplace",
    "G": "gaussian:c=proof",
    "G10": "gaussian:c=statement",
    "RR": "rr",
    "BND": "bounded",
}
"""The mechanisms with the printed radii; G10 is Prop. 10 as it is stated."""
WORLDS: Final = ("random-mdp:seed=4", "random-mdp:seed=5", "random-mdp:seed=8", "random-mdp:seed=9")
"""Other random MDPs of the same size: the paper names none."""
SIZES: Final = {"smoke": (300_000, 2), "paper": (100_000_000, 20)}
"""Episodes and seeds."""
FIRST_SHOWN: Final = 10_000

Scale = Literal["smoke", "paper"]


def learner_runs(scale: Scale, *, obi: bool, beta: bool) -> tuple[Run, ...]:
    """UCB-VI, LDP-OBI with Laplace noise (fig. 1) and LDP-PSRL (figs. 1 and 7), every epsilon, both calibrations."""
    found = [_run(scale, "UCB-VI", "ucbvi:time_homogeneous=true", constants="theory")]
    for calibration in ("paper", "tight"):
        if obi:
            found += [_obi(scale, "L", epsilon, calibration) for epsilon in EPSILONS]
        found += [_psrl(scale, epsilon, calibration) for epsilon in EPSILONS]
    if beta:
        found += [_psrl(scale, epsilon, "tight", beta=True) for epsilon in EPSILONS]
    return tuple(found)


def mechanism_runs(scale: Scale, epsilons: Sequence[float] = EPSILONS) -> tuple[Run, ...]:
    """UCB-VI and LDP-OBI with every mechanism (figs. 2, 4, 5, 6), both calibrations, radii that cover."""
    found = [_run(scale, "UCB-VI", "ucbvi:time_homogeneous=true", constants="theory")]
    for letter in MECHANISMS:
        for calibration in ("paper", "tight"):
            if letter not in OURS or calibration == "tight":
                found += [_obi(scale, letter, epsilon, calibration) for epsilon in epsilons]
    return tuple(found)


def printed_runs(scale: Scale) -> tuple[Run, ...]:
    """The lines of figs. 2, 4, 5 and 6 and no others: UCB-VI, and LDP-OBI with noise and radii as printed."""
    found = [_run(scale, "UCB-VI", "ucbvi:time_homogeneous=true", constants="theory")]
    found += [_obi(scale, letter, epsilon, "printed") for letter in PRINTED for epsilon in EPSILONS]
    return tuple(found)


def world_runs(scale: Scale) -> tuple[Run, ...]:
    """Lines of figs. 1 and 2 as printed, epsilon 2 and 20, in other random MDPs; half of the seeds."""
    seeds = {"smoke": 2, "paper": 10}[scale]
    found = [_run(scale, "UCB-VI", "ucbvi:time_homogeneous=true", constants="theory")]
    for epsilon in EPSILONS[:2]:
        found += [*(_obi(scale, letter, epsilon, "printed") for letter in PRINTED), _psrl(scale, epsilon, "paper")]
    return tuple(
        Run(label=run.label, config=replace(run.config, environment=world, seeds=as_seeds(seeds), checkpoints=30))
        for world in WORLDS
        for run in found
    )


def every_user_runs(scale: Scale) -> tuple[Run, ...]:
    """Four runs twice, replanned rarely and after every user: ten seeds, and a tenth of the users."""
    episodes, seeds = {"smoke": (30_000, 2), "paper": (10_000_000, 10)}[scale]
    found = []
    for words, replan in (("rarely", "geometric"), ("every", "every")):
        for run in (
            _run(scale, "UCB-VI", "ucbvi:time_homogeneous=true", constants="theory"),
            *(_obi(scale, "L", 2.0, calibration) for calibration in ("paper", "tight")),
            _psrl(scale, 2.0, "paper"),
        ):
            name = run.config.learner.removesuffix(",replan=geometric")
            config = replace(
                run.config,
                learner=f"{name},replan={replan}",
                episodes=episodes,
                seeds=as_seeds(seeds),
                checkpoints=30,
            )
            found.append(Run(label=f"{run.label}, replanned {words}", config=config))
    return tuple(found)


OTHER_WORLDS: Final = PanelFigure(
    name="other-worlds",
    panels=lambda result: (result.config.world_name,),
    line=lambda result: result.label,
    columns=2,
    first=FIRST_SHOWN,
)
"""One panel per world."""
EVERY_USER: Final = PanelFigure(
    name="every-user",
    panels=lambda result: (result.label.rpartition(", replanned ")[0],),
    line=lambda result: f"replanned {result.label.rpartition(' ')[2].replace('every', 'after every user')}",
    columns=2,
)
"""One panel per learner: its two runs lie upon each other."""


def epsilon_runs(scale: Scale, epsilon: float) -> tuple[Run, ...]:
    """One epsilon of `mechanism_runs` (figs. 4, 5, 6)."""
    return mechanism_runs(scale, (epsilon,))


def figures(name: str) -> tuple[PanelFigure, PanelFigure]:
    """Cumulative regret and regret per episode; a panel per calibration, and per epsilon where mechanisms differ."""
    panels, line = (_by_calibration, _line) if name in ("fig1", "fig7") else (_by_epsilon, _mechanism)
    panels = _printed_panels if name == "fig2-printed" else panels
    # Panels of one epsilon stand side by side.
    rising = sorted(EPSILONS)
    order = (*(f"ε = {epsilon:g}, {words}" for epsilon in rising for words in PANELS.values()),)
    order += (*(f"ε = {epsilon:g}, {AS_PRINTED}" for epsilon in rising),)
    shape: dict[str, Any] = {"panels": panels, "line": line, "order": order}
    shape["columns"] = 3 if name == "fig2-printed" else 2
    if panels is not _by_calibration:  # no mechanism has learned anything before, so all lines are one
        shape["first"] = FIRST_SHOWN
    return (
        PanelFigure(name=name, **shape),
        PanelFigure(name=f"{name}-per-episode", per_episode="so far", **shape),
    )


def _obi(scale: Scale, letter: str, epsilon: float, calibration: str) -> Run:
    """Noise as printed (`paper`), the least (`tight`), or noise and radii as printed (`printed`)."""
    approximate = letter in ("G", "G10", "BND")
    printed = calibration == "printed"
    return _run(
        scale,
        f"LDP-OBI-{letter}, ε={epsilon:g}, {calibration}",
        "ldp-obi:time_homogeneous=true",
        constants="printed" if printed else "theory",
        trust="local",
        epsilon=epsilon,
        calibration="paper" if printed else calibration,
        mechanism=(PRINTED if printed else MECHANISMS)[letter],
        delta=LOCAL_DELTA if approximate else 0.0,
        allow_large_delta=approximate,
    )


def _psrl(scale: Scale, epsilon: float, calibration: str, *, beta: bool = False) -> Run:
    """Alg. 7 with its four families, or binary rewards with the quietest mechanism."""
    return _run(
        scale,
        f"LDP-PSRL{' beta' if beta else ''}, ε={epsilon:g}, {calibration}",
        f"ldp-psrl:time_homogeneous=true,rewards={'beta' if beta else 'normal-gamma'}",
        trust="local",
        epsilon=epsilon,
        calibration=calibration,
        mechanism=None if beta else "laplace",
        delta=0.0,
    )


def _run(scale: Scale, label: str, learner: str, **options: Any) -> Run:
    episodes, seeds = SIZES[scale]
    learner = f"{learner},replan=geometric" if scale == "paper" else learner
    config = RunConfig(environment=ENVIRONMENT, learner=learner, episodes=episodes, seeds=as_seeds(seeds), **options)
    return Run(label=label, config=config)


AS_PRINTED: Final = "noise and radii as printed"
PANELS: Final = {"paper": "noise as printed", "tight": "least noise for the claimed guarantee"}


def _line(result: Result) -> str:
    """The label without what the panel says."""
    return result.label.removesuffix(f", {result.config.calibration}")


def _mechanism(result: Result) -> str:
    """The label without epsilon and calibration: a mechanism has one style in all panels."""
    return result.label.split(", ")[0]


def _by_calibration(result: Result) -> tuple[str, ...]:
    if result.config.trust == "none":
        return tuple(PANELS.values())
    return (PANELS[result.config.calibration],)


def _by_epsilon(result: Result) -> tuple[str, ...]:
    if result.config.trust == "none":
        return ()  # its line is the same in every panel and far below
    return (f"ε = {result.config.epsilon:g}, {PANELS[result.config.calibration]}",)


def _printed_panels(result: Result) -> tuple[str, ...]:
    """UCB-VI stands in every panel, as in the paper."""
    every = (result.config.epsilon,) if result.config.epsilon is not None else EPSILONS
    return tuple(f"ε = {epsilon:g}, {AS_PRINTED}" for epsilon in every)
