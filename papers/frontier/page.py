"""The experiment `frontier`: what each trust model costs, the one figure needed to choose one.

    central   BUCB with correlated noise, steps apart and pooled     before: UCBVI on the factorization over batches
    shuffle   BUCB with fresh noise, steps apart and pooled          before: SDP-PE+; printed: fair bits per counter
    local     one-bit returns, LDP-OBI pooled                        printed: Laplace noise of scale 6H/ε

Printed noises do not have the guarantee they are printed with. So every run stands at the epsilon that the exact
accountant certifies for it at delta 1e-6: points above one another have the same guarantee. Everything under the one
practical rule with z = 1 (one-bit returns have a prior); `uniform` is what "nothing learned" costs, `no privacy` what
no noise would. Printed central trees take hours at these sizes; they stand in `frontier/central`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tacit.arrays import Floats
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import STYLES, save_figure
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FIGURES",
    "SUMMARY",
    "FrontierFigure",
    "bootstrap_interval",
    "runs",
    "share_interval",
    "share_rows",
    "summary_table",
]

SUMMARY: Final = "regret against the certified epsilon: every trust model, five epsilons, four environments"
DELTA: Final = 1e-6
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
LOCAL_ALSO: Final = 2.0
"""One more for local trust, in short runs: between 1 and 3 it learns what it learns."""
SHORT, LONG = 20_000, 200_000
WORLDS: Final = (
    "riverswim",
    "random-mdp:states=5,actions=3,horizon=5",
    "random-mdp:states=8,actions=3,horizon=6",
    "treatment",
)
"""All of them are declared stationary, so steps may be pooled."""
NAMES: Final = ("riverswim", "random-mdp S=5 A=3 H=5", "random-mdp S=8 A=3 H=6", "treatment")
"""How the page calls them."""

KINDS: Final[dict[str, dict[str, Any]]] = {
    "central": {"learner": "bucb", "trust": "central"},
    "central, pooled": {"learner": "bucb:share_across_steps=true", "trust": "central"},
    "shuffle": {"learner": "bucb", "trust": "shuffle"},
    "shuffle, pooled": {"learner": "bucb:share_across_steps=true", "trust": "shuffle"},
    "local, one-bit returns": {"learner": "ldp-rts", "trust": "local"},
    "local, counts": {"learner": "ldp-obi:time_homogeneous=true", "trust": "local"},
    "central, running totals": {"learner": "dp-ucbvi", "trust": "central", "mechanism": "batched-factorization"},
    "shuffle, SDP-PE+": {"learner": "sdp-pe-plus", "trust": "shuffle"},
    "shuffle, printed": {"learner": "bucb", "trust": "shuffle", "calibration": "paper"},
    "local, printed": {"learner": "ldp-obi", "trust": "local", "mechanism": "laplace", "calibration": "paper"},
}
"""The first six are what to choose from; the others are what there was before, and what is printed."""
CHOICE: Final = tuple(KINDS)[:6]
LOCAL: Final = CHOICE[4:]


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every world, length, epsilon and learner; the smoke scale has one world and two seeds.

    What there was before, and what is printed, stand beside the others in short runs at three epsilons.
    """
    found: list[Run] = []
    for environment in WORLDS if scale == "paper" else WORLDS[:1]:
        for users in (SHORT, LONG) if scale == "paper" else (SHORT,):
            episodes, seeds = (users, 20) if scale == "paper" else (2_000, 2)

            def add(label: str, environment: str = environment, users: int = users, **options: Any) -> None:
                config = RunConfig(
                    environment=environment,
                    episodes=episodes,  # noqa: B023
                    seeds=as_seeds(seeds),  # noqa: B023
                    checkpoints=12,
                    **options,
                )
                found.append(Run(label=f"{label}, K={users:,}", config=config))

            add("no privacy", learner="ucbvi:time_homogeneous=true", constants="practical")
            for epsilon in (*EPSILONS, LOCAL_ALSO):
                for label, options in KINDS.items():
                    if epsilon == LOCAL_ALSO and (users == LONG or label not in LOCAL):
                        continue
                    if label not in CHOICE and (users == LONG or epsilon in (0.3, 3.0)):
                        continue
                    # The local mechanisms are pure: a delta would only loosen what is claimed.
                    delta = 0.0 if options["trust"] == "local" else DELTA
                    rule: dict[str, Any] = {} if options["learner"] == "ldp-rts" else {"constants": "practical"}
                    add(f"{label}, ε={epsilon:g}", epsilon=epsilon, delta=delta, **rule, **options)
    return tuple(found)


def share_interval(result: Result) -> tuple[float, float, float]:
    """Final regret as a share of the uniform policy's: mean and 95% bootstrap interval over the seeds."""
    return bootstrap_interval(result.regret[:, -1] / (result.uniform_regret * result.config.episodes))


def bootstrap_interval(share: Floats) -> tuple[float, float, float]:
    """The mean of one number per seed and its 95% bootstrap interval.

    >>> bootstrap_interval(np.array([1.0, 1.0]))
    (1.0, 1.0, 1.0)
    """
    drawn = np.random.default_rng(0).integers(len(share), size=(2000, len(share)))
    low, high = np.quantile(share[drawn].mean(axis=1), [0.025, 0.975])
    return float(share.mean()), float(low), float(high)


def summary_table(results: Sequence[Result]) -> str:
    """One row per run, as a Markdown table."""
    lines = ["| environment | K | run | certified epsilon | of uniform | 95% interval |", "|---|---|---|---|---|---|"]
    for result in results:
        mean, low, high = share_interval(result)
        epsilon = "-" if result.config.trust == "none" else f"{result.certificate.epsilon:.4g}"
        lines.append(
            f"| {result.config.environment_name} | {result.config.episodes:,} | {result.label} | {epsilon} "
            f"| {mean:.3f} | {low:.3f} to {high:.3f} |"
        )
    return "\n".join(lines)


def share_rows(shares: Mapping[tuple[str, str], tuple[float, float, float]], users: int) -> tuple[str, ...]:
    """A row of the page's table per world: shares without privacy, then of every learner to choose from at 0.1/1/10."""
    rows = []
    for world, name in zip(WORLDS, NAMES, strict=True):
        cells = [f"{shares[world, f'no privacy, K={users:,}'][0]:.3f}"]
        cells += [
            " / ".join(f"{shares[world, f'{kind}, ε={epsilon:g}, K={users:,}'][0]:.2f}" for epsilon in (0.1, 1.0, 10.0))
            for kind in CHOICE
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return tuple(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierFigure:
    """Share of the uniform policy's regret against the certified epsilon; one panel per environment and length."""

    name: str = "frontier"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """A line per learner to choose from, with 95% intervals; the lower, the better."""
        from matplotlib.figure import Figure

        worlds = list(dict.fromkeys(r.config.environment_name for r in results))
        lengths = sorted({r.config.episodes for r in results})
        figure = Figure(figsize=(11.0, 3.0 * len(worlds) + 1.0), layout="constrained")
        axes = figure.subplots(len(worlds), len(lengths), sharey=True, sharex=True, squeeze=False)
        for row, world in enumerate(worlds):
            for column, users in enumerate(lengths):
                here = [r for r in results if (r.config.environment_name, r.config.episodes) == (world, users)]
                _panel(axes[row, column], here, f"{world}, K = {users:,}")
            axes[row, 0].set_ylabel("regret / regret of uniform")
        for ax in axes[-1]:
            ax.set_xlabel("certified epsilon (delta 1e-6; local: pure)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
        figure.suptitle(f"{title}: regret at the end of the run, 20 seeds, 95% intervals (simulation only)", x=0.01,
                        ha="left")  # fmt: skip
        save_figure(figure, path)
        return figure


def _panel(ax: Any, results: Sequence[Result], title: str) -> None:
    for result in results:
        if result.config.trust == "none":
            ax.axhline(share_interval(result)[0], color="#222222", linewidth=1.2, label="no privacy")
    ax.axhline(1.0, color="#888888", linewidth=1.0, linestyle=(0, (1, 1.5)), label="uniform: nothing learned")
    for i, name in enumerate(CHOICE):
        color, _, marker = STYLES[i // 2 * 2]
        mine = sorted((r for r in results if r.label.startswith(f"{name}, ε")), key=lambda r: r.certificate.epsilon)
        if mine:
            x = [r.certificate.epsilon for r in mine]
            mean, low, high = (np.array(column) for column in zip(*map(share_interval, mine), strict=True))
            ax.errorbar(
                x, mean, yerr=[mean - low, high - mean], color=color, marker=marker, markersize=5, capsize=2,
                linestyle="-" if i % 2 == 0 else (0, (4, 2)), elinewidth=0.8, linewidth=1.4, label=name,
            )  # fmt: skip
    ax.set_xscale("log")
    ax.set_ylim(0.0, 1.1)
    ax.set_title(title, loc="left", fontsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


FIGURES: Final = (FrontierFigure(),)
