"""The experiment `frontier/structure`: what a public declaration of a world's structure buys, at one guarantee.

    nothing            every counter is released
    support            counters that cannot move are not released (`support=declared`)
    features           learner and release know only what the policy may see (`sees=`)
    support, features  both

The same learners, guarantee (epsilon 1, delta 1e-6; pure under local trust) and seeds; nothing is tuned:

    riverswim   declares its support; bucb with steps apart and pooled, central and shuffle, and ldp-obi under local
                trust; a river of 3 places and steps for sdp-pe, whose set of policies is explicit
    treatment   declares its support, and side effects as what a policy may see; the same, under local trust without it
    taxi        Gymnasium's, 500 states, declares its support and the next goal; rides of 4 steps, 20,000 people,
                central, pooled; not without any declaration: 4.5 million counters in every batch

Other learners of counts on rivers with 20,000 people, with and without the support (`OTHERS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from papers.frontier.page import bootstrap_interval, share_interval
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import STYLES, save_figure
from tacit.runs.result import Result
from tacit.runs.storage import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "DECLARED",
    "FIGURES",
    "SUMMARY",
    "StructureFigure",
    "committed_shares",
    "kind_of",
    "runs",
    "summary_table",
]

SUMMARY: Final = "declared support and features that the policy sees: riverswim, treatment and taxi, epsilon 1"
EPSILON: Final = 1.0
DELTA: Final = 1e-6
FEATURES: Final[Mapping[str, str | None]] = {"riverswim": None, "treatment": "side-effects", "taxi:horizon=4": "goal"}
"""Each environment, and the features it declares."""
TAXI: Final = "taxi:horizon=4"
LEARNERS: Final = {
    "central, steps apart": ("central", "bucb:share_across_steps=false"),
    "central, pooled": ("central", "bucb:share_across_steps=true"),
    "shuffle, steps apart": ("shuffle", "bucb:share_across_steps=false"),
    "shuffle, pooled": ("shuffle", "bucb:share_across_steps=true"),
    "local, pooled": ("local", "ldp-obi:time_homogeneous=true"),
}
SMALL_RIVER: Final = "riverswim:states=3,horizon=3"
OTHERS: Final[Mapping[str, tuple[str, str, float, tuple[str, ...]]]] = {
    "local, pooled": ("local", "ldp-obi:time_homogeneous=true", 1.0, ("riverswim",)),
    "local, pooled, epsilon 10": ("local", "ldp-obi:time_homogeneous=true", 10.0, ("riverswim",)),
    "dp-ucbvi, central": ("central", "dp-ucbvi:replan=geometric", 1.0, ("riverswim",)),
    "sdp-pe-plus, shuffle": ("shuffle", "sdp-pe-plus", 1.0, ("riverswim",)),
    "sdp-pe, shuffle": ("shuffle", "sdp-pe", 1.0, (SMALL_RIVER,)),
}
"""Other learners: trust, learner, epsilon and where; dp-ucbvi with the mechanism whose totals come on a schedule."""
DECLARED: Final = ("nothing", "support", "features", "support, features")
EPISODES: Final = {"smoke": (2_000,), "paper": (20_000, 200_000)}
SEEDS: Final = {"smoke": 2, "paper": 20}


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Every environment, length, learner and declaration that there is; the smoke scale leaves taxi out."""
    found: list[Run] = []
    for environment, features in FEATURES.items():
        for episodes in EPISODES[scale]:
            if environment == TAXI and episodes != EPISODES["paper"][0]:
                continue
            for label, (trust, learner) in LEARNERS.items():
                if environment == TAXI and label != "central, pooled":
                    continue
                if trust == "local" and (features is None or episodes > EPISODES["paper"][0]):
                    continue
                for declared in DECLARED:
                    support, sees = "support" in declared, "features" in declared
                    if (sees and features is None) or (support and trust == "local"):
                        continue
                    if environment == TAXI and declared == "nothing":
                        continue
                    config = RunConfig(
                        environment=environment,
                        learner=learner,
                        episodes=episodes,
                        seeds=as_seeds(SEEDS[scale]),
                        constants="practical",
                        trust=trust,  # type: ignore[arg-type]
                        epsilon=EPSILON,
                        delta=0.0 if trust == "local" else DELTA,
                        batch=100 if trust == "local" else None,
                        support="declared" if support else None,
                        sees=features if sees else None,
                        checkpoints=20,
                    )
                    found.append(Run(label=f"{label}, K={episodes:,}: {declared}", config=config))
    return (*found, *_others(scale))


def _others(scale: Literal["smoke", "paper"]) -> Iterator[Run]:
    """The other learners, with and without the support."""
    episodes = EPISODES[scale][0]
    for label, (trust, learner, epsilon, places) in OTHERS.items():
        for environment, declared in product(places, DECLARED[:2]):
            config = RunConfig(
                environment=environment,
                learner=learner,
                episodes=episodes,
                seeds=as_seeds(SEEDS[scale]),
                constants="practical",
                trust=trust,  # type: ignore[arg-type]
                epsilon=epsilon,
                delta=0.0 if trust == "local" else DELTA,
                mechanism="batched-factorization" if trust == "central" else None,
                batch=100 if trust == "local" else None,
                support="declared" if declared == "support" else None,
                checkpoints=20,
            )
            yield Run(label=f"{label}, K={episodes:,}: {declared}", config=config)


def kind_of(label: str) -> tuple[str, str]:
    """Who learns for how long, and what is declared.

    >>> kind_of("central, pooled, K=20,000: support, features")
    ('central, pooled, K=20,000', 'support, features')
    """
    learner, declared = label.split(": ")
    return learner, declared


def committed_shares(place: Path) -> dict[tuple[str, str], tuple[float, float, float]]:
    """(environment, run) -> share of the uniform policy's regret with its 95% interval, from a committed result."""
    import pyarrow.parquet as pq

    cells = read_json(place / "cells.json")["runs"]
    last: dict[tuple[str, str, int], list[float]] = {}
    for row in pq.ParquetFile(place / "results.parquet").read().to_pylist():
        last.setdefault((row["environment"], row["run"], row["episode"]), []).append(row["regret"])
    found = {}
    for cell in cells:
        regret = np.array(last[cell["environment"], cell["run"], cell["episodes"]])
        found[cell["environment"], cell["run"]] = bootstrap_interval(regret / cell["uniform regret"])
    return found


def summary_table(shares: Mapping[tuple[str, str], tuple[float, float, float]]) -> str:
    """Share of the uniform policy's regret with its 95% interval, by environment and label, as a Markdown table."""
    lines = ["| environment | learner | " + " | ".join(DECLARED) + " |", "|---" * (2 + len(DECLARED)) + "|"]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    order = [(run.config.environment_name, run.label) for run in runs("paper")]
    for environment, label in sorted(shares, key=order.index):
        mean, low, high = shares[environment, label]
        learner, declared = kind_of(label)
        rows.setdefault((environment, learner), {})[declared] = f"{mean:.3f} ({low:.3f}-{high:.3f})"
    for (environment, learner), cells in rows.items():
        shown = " | ".join(cells.get(declared, "-") for declared in DECLARED)
        lines.append(f"| {environment} | {learner} | {shown} |")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureFigure:
    """Share of the uniform policy's regret by what is declared; one panel per environment and length."""

    name: str = "structure"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """A group of bars per learner, a bar per declaration, with 95% intervals; the lower, the better."""
        from matplotlib.figure import Figure

        panels = list(dict.fromkeys((r.config.environment_name, r.config.episodes) for r in results))
        rows = -(-len(panels) // 2)
        figure = Figure(figsize=(11.0, 3.0 * rows + 0.8), layout="constrained")
        axes = figure.subplots(rows, min(2, len(panels)), squeeze=False).ravel()
        for ax, (environment, episodes) in zip(axes, panels, strict=False):
            here = [r for r in results if (r.config.environment_name, r.config.episodes) == (environment, episodes)]
            _bars(ax, here)
            ax.set_title(f"{environment}, K = {episodes:,}", loc="left", fontsize=10)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        axes[0].set_ylabel("regret / regret of uniform")
        handles: dict[str, Any] = {}
        for ax in axes:
            handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=9, frameon=False)
        figure.suptitle(f"{title}: ε = {EPSILON:g}, by what is declared", x=0.01, ha="left", fontsize=11)
        save_figure(figure, path)
        return figure


def _bars(ax: Any, results: Sequence[Result]) -> None:
    """The bars of one panel; hatches tell them apart without colour."""
    groups = list(dict.fromkeys(kind_of(r.label)[0].split(", K=")[0] for r in results))
    for i, (declared, hatch) in enumerate(zip(DECLARED, ("", "//", "..", "xx"), strict=True)):
        mine = [r for r in results if kind_of(r.label)[1] == declared]
        if not mine:
            continue
        at = np.array([groups.index(kind_of(r.label)[0].split(", K=")[0]) for r in mine]) + 0.2 * (i - 1.5)
        mean, low, high = (np.array(column) for column in zip(*map(share_interval, mine), strict=True))
        ax.bar(
            at, mean, 0.19, yerr=[mean - low, high - mean], color=STYLES[i][0], hatch=hatch, edgecolor="white",
            capsize=2, error_kw={"elinewidth": 0.8}, label=declared,
        )  # fmt: skip
    ax.axhline(1.0, color="#888888", linewidth=1.0, linestyle=(0, (1, 1.5)), label="uniform: nothing learned")
    ax.set_xticks(range(len(groups)), [group.replace(", ", "\n") for group in groups], fontsize=9)
    ax.set_ylim(bottom=0.0)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


FIGURES: Final = (StructureFigure(),)
