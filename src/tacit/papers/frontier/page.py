"""The experiment `frontier`: what each trust model costs, the one figure needed to choose one.

    central   UCBVI on the factorization over batches        printed: the Laplace tree of the papers, scale 3H⌈log₂K⌉/ε
    shuffle   SDP-BUCB                                       printed: fair bits per counter, Hoeffding calibration
    local     LDP-OBI with the quietest local mechanism      printed: Laplace noise of scale 6H/ε

The printed noises do not have the guarantee they are printed with. So every run stands at the epsilon that the exact
accountant certifies for it at delta 1e-6: points above one another have the same guarantee. Everything under the one
practical rule with z = 1; `uniform` is what "nothing learned" costs, `no privacy` what no noise would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import WIDTH, save_figure, style_of
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "SUMMARY", "FrontierFigure", "runs", "share_interval", "summary_table"]

SUMMARY: Final = "regret against the certified epsilon: every trust model, printed and tight noise, four environments"
DELTA: Final = 1e-6
EPSILONS: Final = (0.1, 1.0, 10.0)
SHORT, LONG = 20_000, 200_000
SETTINGS: Final = (
    ("riverswim", SHORT),
    ("random-mdp:states=5,actions=3,horizon=5", SHORT),
    ("random-mdp:states=8,actions=3,horizon=6", SHORT),
    ("treatment", SHORT),
    ("riverswim", LONG),
)
"""Environments and users; only the smallest has long runs, because the printed tree takes hours elsewhere."""

KINDS: Final[dict[str, dict[str, Any]]] = {
    "batched factorization": {"learner": "dp-ucbvi", "trust": "central", "mechanism": "batched-factorization"},
    "paper tree": {"learner": "dp-ucbvi", "trust": "central", "calibration": "paper"},
    "shuffle": {"learner": "sdp-bucb", "trust": "shuffle"},
    "shuffle, printed": {"learner": "sdp-bucb", "trust": "shuffle", "calibration": "paper"},
    "local": {"learner": "ldp-obi", "trust": "local"},
    "local, printed": {"learner": "ldp-obi", "trust": "local", "mechanism": "laplace", "calibration": "paper"},
}
"""The names of the central runs are those of `frontier/central`, which shares them."""


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every environment, epsilon, trust model and calibration; the smoke scale has one environment and two seeds."""
    found: list[Run] = []
    for environment, users in SETTINGS if scale == "paper" else SETTINGS[:1]:
        episodes, seeds = (users, 20) if scale == "paper" else (2_000, 2)
        suffix = f", K={users:,}" if users == LONG else ""

        def add(label: str, environment: str = environment, suffix: str = suffix, **options: Any) -> None:
            config = RunConfig(
                environment=environment,
                episodes=episodes,  # noqa: B023
                seeds=as_seeds(seeds),  # noqa: B023
                checkpoints=30,
                **options,
            )
            found.append(Run(label=label + suffix, config=config))

        add("no privacy", learner="dp-ucbvi", constants="practical")
        for epsilon in EPSILONS:
            for label, options in KINDS.items():
                # The local mechanisms are pure: a delta would only loosen what is claimed.
                delta = 0.0 if options["trust"] == "local" else DELTA
                add(f"{label}, ε={epsilon:g}", epsilon=epsilon, delta=delta, constants="practical", **options)
    return tuple(found)


def share_interval(result: Result) -> tuple[float, float, float]:
    """Final regret as a share of the uniform policy's: mean and 95% bootstrap interval over the seeds."""
    share = result.regret[:, -1] / (result.uniform_regret * result.config.episodes)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierFigure:
    """Share of the uniform policy's regret against the certified epsilon; one panel per environment and length."""

    name: str = "frontier"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """A line per trust model and calibration, with 95% intervals; the lower, the better."""
        from matplotlib.figure import Figure

        panels = list(dict.fromkeys((r.config.environment_name, r.config.episodes) for r in results))
        rows = -(-len(panels) // 2)
        figure = Figure(figsize=(WIDTH, 3.4 * rows + 0.8), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, min(2, len(panels)), sharey=True, squeeze=False)).ravel()
        for ax, (environment, episodes) in zip(axes, panels, strict=False):
            here = [r for r in results if (r.config.environment_name, r.config.episodes) == (environment, episodes)]
            for result in here:
                if result.config.trust == "none":
                    ax.axhline(share_interval(result)[0], color="#222222", linewidth=1.2, label="no privacy")
            ax.axhline(1.0, color="#888888", linewidth=1.0, linestyle=(0, (1, 1.5)), label="uniform: nothing learned")
            names = [f"{trust}, {kind}" for trust in ("central", "shuffle", "local") for kind in ("tight", "paper")]
            for name in names:
                trust, kind = name.split(", ")
                color, _, marker = style_of(trust, ["central", "shuffle", "local"])
                mine = [r for r in here if (r.config.trust, r.config.calibration) == (trust, kind)]
                if not mine:
                    continue
                mine.sort(key=lambda r: r.certificate.epsilon)
                x = [r.certificate.epsilon for r in mine]
                mean, low, high = (np.array(column) for column in zip(*map(share_interval, mine), strict=True))
                ax.errorbar(
                    x, mean, yerr=[mean - low, high - mean], color=color, marker=marker, markersize=5, capsize=2,
                    linestyle="-" if kind == "tight" else (0, (4, 2)), elinewidth=0.8, linewidth=1.4,
                    label=f"{trust}, {'tight' if kind == 'tight' else 'as printed'}",
                )  # fmt: skip
            ax.set_xscale("log")
            ax.set_ylim(0.0, 1.1)
            ax.set_title(f"{environment}, K = {episodes:,}", loc="left", fontsize=10)
            ax.set_xlabel("certified epsilon (delta 1e-6; local: pure)")
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        for ax in axes[:: min(2, len(panels))]:
            ax.set_ylabel("regret / regret of uniform")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
        figure.suptitle(f"{title}: regret at the end of the run, 20 seeds, 95% intervals (simulation only)", x=0.01,
                        ha="left")  # fmt: skip
        save_figure(figure, path)
        return figure


FIGURES: Final = (FrontierFigure(),)
