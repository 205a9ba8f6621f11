"""The theorems of [he2025policy] as experiments: how fast the error falls with the users, and what privacy adds.

    theorem2   tabular softmax      E ‖∇J(θ_U)‖²            ≤ O(N^(-1/2) + (√d/(Nε))^(2/3))
    theorem3   Gaussian policies    J* - (1/T) Σ_t J(θ_t)   ≤ O(N^(-1/4) + (√d/(Nε))^(1/3))
    theorem4   softmax, barrier     J* - (1/T) Σ_t J(θ_t)   ≤ O(N^(-1/6) + (√d/(Nε))^(2/9))

Every point is a run of its own, because batch size, step and barrier depend on N; all follow the theorems with the
repairs of `tacit.runs.gradient_builder`. Beside each curve stands its fitted exponent. The theorems are upper bounds:
a steeper curve agrees with them. The lower panels show the cost of privacy, the error minus that of the same learner
with the same batches and no noise; it must fall at least as fast as the error itself for the privacy term to be of
lower order. The batch size depends on ε, so every ε has a reference of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from papers.fitting import fit_exponent
from papers.he2025policy.powers import DEVIATIONS, alpha_bias, clipping_bias, powers_of
from papers.panels import PanelFigure, save_titled
from tacit.arrays import Floats
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.gradient_builder import theory_batch
from tacit.runs.result import Result
from tacit.runs.storage import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BEYOND", "FIGURES", "RateFigure", "comparison_runs", "fisher_of", "rates_of", "theorem_runs"]


EPSILONS: Final = (0.2, 1.0, 5.0)
SIZES: Final[Mapping[str, tuple[tuple[int, str], ...]]] = {
    "theorem2": tuple((5 * s, f"contextual-bandit:contexts={s},actions=5") for s in (2, 5, 20)),
    "theorem3": tuple((s, f"dose-bandit:contexts={s}") for s in (2, 8, 32)),
    "theorem4": tuple((5 * s, f"contextual-bandit:contexts={s},actions=5") for s in (2, 5, 20)),
}
LEARNERS: Final[Mapping[str, str]] = {
    "theorem2": "dp-pg",
    "theorem3": "dp-pg:policy=gaussian",
    "theorem4": "dp-pg:barrier=theory",
}
ERRORS: Final[Mapping[str, Callable[[Result], Floats]]] = {
    "theorem2": lambda result: np.array([found.stationarity for found in result.objectives]),
    "theorem3": lambda result: np.array([found.optimal - found.average for found in result.objectives]),
    "theorem4": lambda result: np.array([found.optimal - found.average for found in result.objectives]),
}
EXPONENTS: Final[Mapping[str, tuple[float, float]]] = {
    "theorem2": (-1 / 2, -2 / 3),
    "theorem3": (-1 / 4, -1 / 3),
    "theorem4": (-1 / 6, -2 / 9),
}
"""Of N in the two terms of each theorem: sampling, privacy."""
WORDS: Final[Mapping[str, str]] = {
    "theorem2": "E‖∇J(θ_U)‖²",
    "theorem3": "J* - average J(θ_t)",
    "theorem4": "J* - average J(θ_t)",
}
DELTA: Final = 1e-5


def theorem_runs(theorem: str, scale: str) -> tuple[Run, ...]:
    """One run per dimension, epsilon (None: no noise) and number of users; and one without noise per private batch."""
    powers, seeds = {"smoke": ((3, 4, 5), 3), "paper": ((3, 4, 5, 6, 7), 10)}[scale]
    runs = []
    for dimension, environment in SIZES[theorem]:

        def add(name: str, power: int, environment: str = environment, **options: Any) -> None:
            config = RunConfig(
                environment=environment,
                learner=LEARNERS[theorem],
                episodes=10**power,
                seeds=as_seeds(seeds),
                constants="theory",
                checkpoints=2,
                **options,
            )
            runs.append(Run(label=f"{name}, N=1e{power}", config=config))

        for power in powers:
            add("no privacy", power)
        for epsilon in EPSILONS:
            for power in powers:
                add(f"ε={epsilon:g}", power, trust="central", epsilon=epsilon, delta=DELTA)
                add(f"no noise, batch of ε={epsilon:g}", power, batch=theory_batch(10**power, dimension, epsilon))
    return tuple(runs)


def comparison_runs(scale: str) -> tuple[Run, ...]:
    """DP-PG, natural gradient, trust-region and PPO-style updates at equal (ε, δ) on the two bandits and an MDP."""
    episodes, seeds = {"smoke": (20_000, 3), "paper": (300_000, 10)}[scale]
    learners = {
        "DP-PG": "dp-pg",
        "DP-NPG": "dp-npg",
        "DP-TRPO": "dp-trpo",
        "DP-PPO, 4 epochs": "dp-ppo",
        "DP-PPO, 4 epochs, Poisson 1/4": "dp-ppo:rate=0.25",
    }
    return tuple(
        Run(
            label=f"{label}, ε={epsilon:g}",
            config=RunConfig(
                environment=environment,
                learner=learner,
                episodes=episodes,
                seeds=as_seeds(seeds),
                trust="central",
                epsilon=epsilon,
                delta=DELTA,
                checkpoints=50,
            ),
        )
        for environment in ("contextual-bandit", "treatment-bandit", "riverswim")
        for epsilon in (0.2, 1.0, 5.0)
        for label, learner in learners.items()
    )


def rates_of(theorem: str, results: Sequence[Result]) -> dict[str, Any]:
    """Errors, their fitted exponents and the cost of privacy, as JSON-ready values."""
    sampling, privacy = EXPONENTS[theorem]
    found: dict[str, Any] = {
        "error": WORDS[theorem],
        "theorem": {"sampling": sampling, "privacy": privacy},
        "curves": [],
    }
    for dimension, environment in SIZES[theorem]:
        here = [r for r in results if r.config.environment == environment]
        # N and batch size -> the error without noise
        plain = {
            (r.config.episodes, r.config.batch): float(ERRORS[theorem](r).mean())
            for r in here
            if r.config.trust == "none" and r.config.batch is not None
        }
        for epsilon in (None, *EPSILONS):
            mine = [r for r in here if r.config.epsilon == epsilon and r.config.batch is None]
            mine.sort(key=lambda r: r.config.episodes)
            if not mine:
                continue
            users = np.array([float(r.config.episodes) for r in mine])
            values = [ERRORS[theorem](r) for r in mine]
            means = np.array([float(v.mean()) for v in values])
            alike = [plain.get((r.config.episodes, r.resolved.users_per_batch), np.nan) for r in mine]
            excess = means - np.array(alike)
            tail = slice(-2, None)  # the last decade: earlier, large dimensions have hardly begun to learn
            found["curves"].append(
                {
                    "d": dimension,
                    "environment": environment,
                    "epsilon": epsilon,
                    "users": users.tolist(),
                    "mean": means.tolist(),
                    "std": [float(v.std(ddof=1)) if len(v) > 1 else 0.0 for v in values],
                    "raw": [v.tolist() for v in values],
                    "seeds": len(values[0]),
                    "exponent": _number(fit_exponent(users, means)),
                    "exponent_tail": _number(fit_exponent(users[tail], means[tail])),
                    "without_noise": None if epsilon is None else [_number(float(x)) for x in alike],
                    "privacy_cost": None if epsilon is None else [_number(float(x)) for x in excess],
                    "privacy_cost_exponent_tail": (
                        None if epsilon is None else _number(fit_exponent(users[tail], excess[tail]))
                    ),
                    "batch": [r.resolved.users_per_batch for r in mine],
                    "certified_epsilon": None if epsilon is None else mine[-1].certificate.epsilon,
                }
            )
    found["powers"] = powers_of(found["curves"], EXPONENTS[theorem])
    return found


def fisher_of(results: Sequence[Result]) -> dict[str, Any]:
    """The global error against μ = 1/τ², its fitted powers, α_bias and the bias of clipping."""
    curves = []
    for epsilon in (None, 1.0):
        for users in sorted({r.config.episodes for r in results}):
            mine = [r for r in results if (r.config.epsilon, r.config.episodes) == (epsilon, users)]
            mine.sort(key=lambda r: -float(str(r.config.environment).rpartition("=")[2]))
            mu = np.array([float(str(r.config.environment).rpartition("=")[2]) ** -2 for r in mine])
            values = [ERRORS["theorem3"](r) for r in mine]
            means = np.array([float(v.mean()) for v in values])
            curves.append(
                {"epsilon": epsilon, "users": users, "mu": mu.tolist(), "mean": means.tolist()}
                | {"raw": [v.tolist() for v in values], "exponent": _number(fit_exponent(mu, means))}
            )
    return {
        "error": WORDS["theorem3"],
        "theorem": {"mu": -1.0},
        "curves": curves,
        "alpha_bias": {
            f"{d:g}": {"largest": alpha_bias(d), "at the optimum": alpha_bias(d, distance=0.0)} for d in DEVIATIONS
        },
        "clipping_bias": {
            f"{d:g}": {f"{x:g}": clipping_bias(d, distance=x) for x in (0.1, 0.5, 1.0)} for d in DEVIATIONS
        },
    }


def _line(curve: Mapping[str, Any]) -> str:
    """What a line is called."""
    return "no privacy" if curve["epsilon"] is None else f"ε = {curve['epsilon']:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FisherFigure:
    """Global error against μ on log axes; writes its numbers beside."""

    name: str = "fisher"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Write the numbers as JSON beside the figure, and draw them."""
        told = {"version": results[0].version, "title": title, **fisher_of(results)}
        write_json(path.with_suffix(".json"), told)
        return self.paint(told, path, title=title)

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        ax = figure.subplots()
        names = [f"{_line(curve)}, N = {curve['users']:,}" for curve in told["curves"]]
        for curve, name in zip(told["curves"], names, strict=True):
            color, dash, marker = style_of(name, names)
            label = f"{name}: μ^{curve['exponent']:.2f}"
            ax.plot(curve["mu"], curve["mean"], color=color, linestyle=dash, marker=marker, markersize=4, label=label)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("μ = 1/τ² of the Gaussian policy", color=GREY)
        ax.set_ylabel(told["error"], color=GREY)
        ax.legend(fontsize=7, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        save_figure(figure, path)
        return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFigure:
    """Error against users on log axes, one column per dimension, with fitted exponents; writes its numbers beside."""

    theorem: str

    @property
    def name(self) -> str:
        """The file, without ending."""
        return "rates"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Draw the rates of these results and write `rates.json` beside the figure."""
        made = {
            "command": f"python -m papers reproduce he2025policy/{self.theorem} --scale paper",
            "version": results[0].version,
        }
        rates = made | rates_of(self.theorem, results)
        write_json(path.with_suffix(".json"), json.loads(json.dumps(rates)))
        return self.paint(rates, path, title=title)

    def paint(self, rates: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the numbers."""
        from matplotlib.figure import Figure

        sampling, privacy = EXPONENTS[self.theorem]
        sizes = SIZES[self.theorem]
        figure = Figure(figsize=(WIDTH, 7.4), layout="constrained")
        axes = figure.subplots(2, len(sizes), squeeze=False, sharex=True)
        for column, (dimension, _) in enumerate(sizes):
            top, bottom = axes[0, column], axes[1, column]
            shown = [curve for curve in rates["curves"] if curve["d"] == dimension]
            names = [_line(curve) for curve in shown]
            for curve, name in zip(shown, names, strict=True):
                color, dash, marker = style_of(name, names)
                x, mean, std = (np.array(curve[key]) for key in ("users", "mean", "std"))
                style = {"color": color, "linestyle": dash, "marker": marker, "markersize": 4}
                label = f"{name}: N^{curve['exponent_tail']:.2f}"
                top.plot(x, mean, label=label, **style)
                top.fill_between(x, np.maximum(mean - std, 1e-12), mean + std, color=color, alpha=0.16, linewidth=0)
                if curve["privacy_cost"] is not None:
                    cost = np.array([np.nan if value is None else value for value in curve["privacy_cost"]])
                    slope = curve["privacy_cost_exponent_tail"]
                    fitted = "" if slope is None else f": N^{slope:.2f}"
                    bottom.plot(x, np.where(cost > 0.0, cost, np.nan), label=f"{name}{fitted}", **style)
            for ax, exponent, what in ((top, sampling, "theorem"), (bottom, privacy, "theorem, privacy term")):
                ax.set_xscale("log")
                ax.set_yscale("log")
                low, high = ax.get_ylim()
                ends = np.array([float(min(x)), float(max(x))])
                guide = np.sqrt(low * high) * (ends / np.sqrt(ends.prod())) ** exponent
                ax.plot(
                    ends, guide, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.2, label=f"{what}: N^{exponent:.2f}"
                )
                ax.legend(fontsize=7, frameon=False)
                ax.spines[["top", "right"]].set_visible(False)
                ax.tick_params(colors=GREY, labelsize=8, which="both")
            top.set_title(f"d = {dimension}", loc="left", fontsize=10)
            bottom.set_xlabel("users N", color=GREY)
        axes[0, 0].set_ylabel(rates["error"], color=GREY)
        axes[1, 0].set_ylabel("cost of privacy", color=GREY)
        counts = {curve["seeds"] for curve in rates["curves"]}
        caption = f"mean ± one standard deviation over {max(counts)} seeds; exponents over the last decade of N"
        caption += "; cost: error minus that of the same batches without noise"
        return save_titled(figure, path, title, caption)


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


BEYOND: Final = PanelFigure(
    name="regret-per-episode",
    band="std",
    per_episode=True,
    panels=lambda result: (f"{result.config.environment_name}, ε = {result.config.epsilon:g}",),
    line=lambda result: result.label.rpartition(", ")[0],
    columns=3,
    first=1_000,
)
"""One panel per environment and epsilon: the learners at equal guarantees."""
FIGURES: Final[Mapping[str, tuple[RateFigure, ...]]] = {name: (RateFigure(theorem=name),) for name in SIZES}
