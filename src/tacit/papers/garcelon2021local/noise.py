"""Figures 8 and 9 of [garcelon2021local] appendix H: how little a noisy statistic says.

Fig. 8   the aggregate reward R̃_K(s=0, a=1) after K = 10³ episodes of UCB-VI, 10³ times: exact, and with the Laplace
         noise of Alg. 3 at epsilon 20, 2 and 0.2
Fig. 9   the reward R̃_X(0, 1) of ONE episode under Laplace noise at epsilon 20, for two trajectories X and X'

The paper compares (0, 1); in our MDP the action with a reward there is 0, so the cell is (0, 0). Both calibrations of
the noise are shown. These figures need no regret: the runs of the experiment are the UCB-VI runs they start from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from tacit.arrays import Floats
from tacit.environments.registry import make
from tacit.learners.ucbvi import UCBVI
from tacit.loop.simulate import simulate
from tacit.mechanisms.noise.laplace import Laplace, paper_laplace_scale
from tacit.papers.garcelon2021local.experiments import ENVIRONMENT, EPSILONS
from tacit.privatizers.none import Unprotected
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import STYLES, save_figure
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CELL", "EpisodeNoiseFigure", "TotalNoiseFigure", "collect_totals", "runs"]

EPISODES: Final = 1_000
REPEATS: Final = 1_000
CELL: Final = (0, 0, 0)
"""Stage, state, action of the statistic."""
SCALES: Final = {"paper": "6H/ε", "tight": "(4H-2)/ε"}


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """The UCB-VI runs whose statistics are shown."""
    seeds = {"smoke": 2, "paper": 20}[scale]
    learner = "ucbvi:staged=false"
    config = RunConfig(environment=ENVIRONMENT, learner=learner, episodes=EPISODES, seeds=as_seeds(seeds))
    return (Run(label="UCB-VI", config=config),)


def collect_totals(repeats: int = REPEATS) -> Floats:
    """R_K(s,a) of `repeats` runs of UCB-VI over K = 10³ episodes, exact."""
    mdp = make(ENVIRONMENT)
    shape = CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=False)
    learner, privatizer = UCBVI(shape=shape, episodes=EPISODES), Unprotected(shape=shape)
    # One user more: the last one's data are never released.
    runs = (
        simulate(mdp, learner, privatizer, episodes=EPISODES + 1, seed=i, checkpoints=[EPISODES + 1])
        for i in range(repeats)
    )
    return np.array([run.released.rewards[CELL] for run in runs])


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalNoiseFigure:
    """Fig. 8: histograms of the exact total and of noisy ones."""

    name: str = "fig8"
    repeats: int = REPEATS

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One panel per epsilon; the results only say that UCB-VI ran."""
        exact = collect_totals(self.repeats)
        generator = np.random.default_rng(0)
        panels = []
        for epsilon in sorted(EPSILONS, reverse=True):
            lines = {"no privacy": exact}
            for calibration, formula in SCALES.items():
                # The sum of K Laplace variables of scale b is b (G - G'), two gamma variables of shape K.
                spread = _scale(calibration, epsilon)
                difference = generator.gamma(EPISODES, size=(2, self.repeats))
                lines[f"{calibration}: Lap({formula})"] = exact + spread * (difference[0] - difference[1])
            panels.append((f"ε = {epsilon:g}: total reward of one cell after {EPISODES:,} episodes", lines))
        return _histograms(panels, path, title)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeNoiseFigure:
    """Fig. 9: the noisy reward of one episode, for two trajectories."""

    name: str = "fig9"
    repeats: int = 10 * REPEATS

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One panel per calibration; X earns one reward in the cell, X' none."""
        noise = SimulationNoise(np.random.default_rng(0))
        panels = []
        for calibration, formula in SCALES.items():
            laplace = Laplace(scale=_scale(calibration, 20.0), discrete=False)
            lines = {name: value + laplace.sample(self.repeats, noise) for name, value in (("X", 1.0), ("X'", 0.0))}
            panels.append((f"{calibration}: Lap({formula}) at ε = 20, reward of one cell in one episode", lines))
        return _histograms(panels, path, title)


def _scale(calibration: str, epsilon: float) -> float:
    return paper_laplace_scale(2, epsilon) if calibration == "paper" else (4 * 2 - 2) / epsilon


def _histograms(panels: Sequence[tuple[str, dict[str, Floats]]], path: Path, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 0.6 + 2.6 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for ax, (name, lines) in zip(axes, panels, strict=True):
        low, high = np.quantile(np.concatenate(list(lines.values())), [0.002, 0.998])
        edges = np.linspace(float(low), float(high), 61).tolist()
        for (label, values), (color, dash, _) in zip(lines.items(), STYLES, strict=False):
            ax.hist(values, bins=edges, histtype="step", color=color, linestyle=dash, label=label, linewidth=1.4)
        ax.set_title(name, loc="left", fontsize=10)
        ax.set_ylabel("runs")
        ax.legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    save_figure(figure, path)
    return figure
