"""Figures 8 and 9 of [garcelon2021local] appendix H: how little a noisy statistic says.

Fig. 8   the aggregate reward R̃_K(s=0, a=1) after K = 10³ episodes of UCB-VI, 10³ times: exact, and with the Laplace
         noise of Alg. 3 at epsilon 20, 2 and 0.2
Fig. 9   the reward R̃_X(0, 1) of ONE episode under Laplace noise at epsilon 20, for two trajectories X and X'

The cell is the paper's, (0, 1). It needs an MDP in which that cell pays and is visited: the first seed of RandomMDP
with S = A = H = 2 in which action 1 pays in the first state and is the only best one there (`SEED`); the paper names
none. X and X' are trajectories of the uniform policy, the first two that differ in the cell. Both calibrations of the
noise are shown. The figures write their histograms beside them. The runs are UCB-VI runs in the same MDP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from papers.garcelon2021local.experiments import EPSILONS
from tacit.arrays import Floats
from tacit.environments.registry import make
from tacit.learners.ucbvi import UCBVI
from tacit.noise.laplace import Laplace, paper_laplace_scale
from tacit.randomness import SimulationNoise
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json
from tacit.simulation.simulate import simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CELL",
    "ENVIRONMENT",
    "EpisodeNoiseFigure",
    "TotalNoiseFigure",
    "advantage",
    "collect_totals",
    "runs",
    "two_trajectories",
]

EPISODES: Final = 1_000
REPEATS: Final = 1_000
SEED: Final = 5
ENVIRONMENT: Final = f"random-mdp:seed={SEED}"
CELL: Final = (0, 0, 1)
"""Stage (pooled), state, action of the statistic: the paper's."""
SCALES: Final = {"paper": "6H/ε", "tight": "(4H-2)/ε"}
BINS: Final = 60


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """The UCB-VI runs whose statistics are shown."""
    seeds = {"smoke": 2, "paper": 20}[scale]
    learner = "ucbvi:time_homogeneous=true"
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


def two_trajectories(seed: int = 0) -> dict[str, tuple[list[tuple[int, int, float]], float]]:
    """X and X': (state, action, reward) of every step, and the reward in the cell; users of the uniform policy."""
    mdp = make(ENVIRONMENT)
    generator = np.random.default_rng(seed)
    drawn: list[tuple[list[tuple[int, int, float]], float]] = []
    while len(drawn) < 2:
        steps: list[tuple[int, int, float]] = []
        state = int(generator.choice(mdp.num_states, p=mdp.rho))
        for h in range(mdp.horizon):
            action = int(generator.integers(mdp.num_actions))
            steps.append((state, action, float(mdp.r[h, state, action])))  # rewards of this MDP are certain
            state = int(generator.choice(mdp.num_states, p=mdp.P[h, state, action]))
        inside = sum(reward for s, a, reward in steps if (s, a) == CELL[1:])
        if not drawn or inside != drawn[0][1]:
            drawn.append((steps, inside))
    return {"X": drawn[0], "X'": drawn[1]}


def advantage(difference: float, scale: float) -> float:
    """How much better than by chance the best test tells two values apart under Laplace noise: 1 - e^(-d/2b).

    >>> round(advantage(1.0, 0.6), 3)
    0.565
    """
    # The total variation of two Laplace distributions of scale b whose centres are d apart.
    return -math.expm1(-abs(difference) / (2.0 * scale))


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
            panels.append((f"ε = {epsilon:g}", lines))
        words = f"total reward of state 0, action 1 after {EPISODES:,} episodes"
        return _histograms(panels, path, title, words, {"environment": ENVIRONMENT, "repeats": self.repeats})


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeNoiseFigure:
    """Fig. 9: the noisy reward of one episode, for two trajectories."""

    name: str = "fig9"
    repeats: int = 10 * REPEATS

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One panel per calibration; X and X' are real trajectories that differ in the cell."""
        noise = SimulationNoise(np.random.default_rng(0))
        shown = two_trajectories()
        apart = shown["X"][1] - shown["X'"][1]
        panels, told = [], {}
        for calibration, formula in SCALES.items():
            laplace = Laplace(scale=_scale(calibration, 20.0), discrete=False)
            lines = {
                f"{name}: {words_of(steps)}": value + laplace.sample(self.repeats, noise)
                for name, (steps, value) in shown.items()
            }
            told[calibration] = advantage(apart, laplace.scale)
            better = f"told apart {told[calibration]:.0%} better than by chance"
            panels.append((f"{calibration}: Lap({formula}), {better}", lines))
        said = {
            "environment": ENVIRONMENT,
            "repeats": self.repeats,
            "trajectories": {name: {"steps": steps, "cell": value} for name, (steps, value) in shown.items()},
            "told_apart": told,
        }
        return _histograms(panels, path, title, "reward of state 0, action 1 in one report, ε = 20", said)


def words_of(steps: Sequence[tuple[int, int, float]]) -> str:
    """A trajectory in short: (state, action, reward) of every step.

    >>> words_of([(0, 1, 1.0), (1, 0, 0.0)])
    '(0,1,1) (1,0,0)'
    """
    return " ".join(f"({s},{a},{reward:g})" for s, a, reward in steps)


def _scale(calibration: str, epsilon: float) -> float:
    return paper_laplace_scale(2, epsilon) if calibration == "paper" else (4 * 2 - 2) / epsilon


def _histograms(
    panels: Sequence[tuple[str, dict[str, Floats]]], path: Path, title: str, words: str, said: dict[str, Any]
) -> Figure:
    """Panels side by side; the counts of every bin are written beside the figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    written = []
    for ax, (name, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        low, high = np.quantile(np.concatenate(list(lines.values())), [0.002, 0.998])
        edges = np.linspace(float(low), float(high), BINS + 1)
        for label, values in lines.items():
            color, dash, _ = style_of(label, list(lines))
            counts, _ = np.histogram(values, bins=edges)
            ax.stairs(counts, edges, color=color, linestyle=dash, label=label, linewidth=1.4)
            spread = {"mean": float(values.mean()), "std": float(values.std(ddof=1))}
            written.append({"panel": name, "line": label, "edges": edges.tolist(), "counts": counts.tolist(), **spread})
        ax.set_title(name, loc="left", fontsize=9)
        ax.set_xlabel(words, color=GREY, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(colors=GREY, labelsize=8)
        ax.set_ylim(top=1.35 * ax.get_ylim()[1])
        ax.legend(frameon=False, fontsize=8, loc="upper left")
    figure.axes[0].set_ylabel("how often", color=GREY)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    write_json(path.with_suffix(".json"), {**said, "histograms": written})
    save_figure(figure, path)
    return figure
