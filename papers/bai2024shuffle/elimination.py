"""The number of users from which SDP-PE with the printed constants eliminates anything.

A policy is eliminated after a stage of length L if it falls short by 2ξ(L), so nothing is eliminated before

    2 ξ(L, E) < max_π V^π - min_π V^π,                                                             (necessary, C = 1)

whatever the data are. ξ falls with L, and L doubles: the first K is that of all stages up to and including the first L
that is long enough. E is what the privatizer states for the batch, ι = ln(2HX²AK/δ). Runs on both sides of it show that
the condition is what decides (`runs`): below, every policy stays; above, regret falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from papers.bai2024shuffle.experiments import DELTA, VARIANTS
from tacit.arrays import Floats
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import NotSupported
from tacit.learners.sdp_pe import COST, SDPPE, Variant, stage_lengths
from tacit.released.batches import BatchNoise
from tacit.released.counts import CountShape
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import GREY, WIDTH, save_figure, style_of
from tacit.runs.result import Result
from tacit.runs.storage_paths import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EliminationFigure", "first_users", "runs", "table", "value_range"]

SMALL: Final = "random-mdp:seed=3"
"""S = A = H = 2, all or nothing: the printed constants eliminate at a K that can be simulated."""
WORLDS: Final = (SMALL, "hard-tree:states=3,actions=2,horizon=2,gap=0.5", "riverswim")
NOISES: Final[dict[str, dict[str, Any]]] = {
    "no privacy": {},
    "tight, ε=1": {"trust": "shuffle", "epsilon": 1.0, "delta": DELTA},
    "printed, ε=1": {"trust": "shuffle", "epsilon": 1.0, "delta": DELTA, "calibration": "paper"},
    "tight, ε=0.1": {"trust": "shuffle", "epsilon": 0.1, "delta": DELTA},
}
SIDES: Final = {"half of it": 0.5, "16 times": 16.0}
"""Which runs are made, in units of the first K: before it, where nothing can be eliminated, and well beyond."""


def value_range(mdp: TabularMDP) -> float:
    """max_π V^π - min_π V^π.

    >>> round(value_range(make("riverswim")), 4)
    0.4758
    """
    return _best(mdp, 1.0) + _best(mdp, -1.0)


def _best(mdp: TabularMDP, sign: float) -> float:
    """max_π of the value with rewards times `sign`, by backward induction."""
    V = np.zeros(mdp.num_states)
    for h in reversed(range(mdp.horizon)):
        P, r = (x[h] if x.ndim == full else x for x, full in ((mdp.P, 4), (mdp.r, 3)))
        V = (sign * r + P @ V).max(axis=1)
    return float(mdp.rho @ V)


def first_users(environment: str, variant: Variant, private: dict[str, Any]) -> dict[str, Any]:
    """The least K after which 2ξ of a stage that reports is below the range of values; L, E and 2ξ of that stage."""
    gap, shape = value_range(_tabular(environment)), _shape(environment)
    first = stage_lengths(10**9, shape, variant)[0]
    for doublings in range(60):
        L = first * 2**doublings
        # All stages up to this one, and one more, so that this one is not the last: nobody reports in the last batch.
        users = COST[variant] * (first * (2 ** (doublings + 1) - 1) + first)
        parts = assemble(_config(environment, variant, users, private, seeds=1))
        learner, noise = cast("SDPPE", parts.learner), cast("BatchNoise", parts.privatizer)
        batch = next(b for step, b in zip(learner.steps, learner.batches, strict=False) if step[:2] == (L, None))
        E = noise.batch_precision(batch.users, batch.query)
        threshold = 2.0 * learner.width(L, E)
        if threshold < gap:
            return {"users": users, "L": L, "E": E, "threshold": threshold, "range": gap}
    raise NotSupported(f"nothing is eliminated before {users:g} users; name a smaller world")


def table(worlds: Sequence[str] = WORLDS) -> list[dict[str, Any]]:
    """The first K of every world, version and noise."""
    return [
        {"environment": world, "version": variant, "noise": name, **first_users(world, variant, private)}
        for world in worlds
        for variant in VARIANTS
        for name, private in NOISES.items()
    ]


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """Runs on both sides of the first K, in the smallest world."""
    found = []
    for variant in VARIANTS:
        for name, private in list(NOISES.items())[: {"smoke": 1, "paper": 3}[scale]]:
            users = int(first_users(SMALL, variant, private)["users"])
            for side, times in SIDES.items():
                config = _config(SMALL, variant, int(times * users), private, seeds={"smoke": 2, "paper": 10}[scale])
                found.append(Run(label=f"{variant}, {name}, {side}", config=config))
    return tuple(found)


def _config(environment: str, variant: Variant, users: int, private: dict[str, Any], *, seeds: int) -> RunConfig:
    return RunConfig(
        environment=environment,
        learner=f"sdp-pe:variant={variant}",
        episodes=users,
        seeds=as_seeds(seeds),
        constants="theory",
        checkpoints=30,
        **private,
    )


def _tabular(environment: str) -> TabularMDP:
    return make(environment)


def _shape(environment: str) -> CountShape:
    mdp = _tabular(environment)
    return CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EliminationFigure:
    """Regret per episode of the runs on both sides of the first K; writes the table of first K beside it."""

    name: str = "elimination"

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """One panel per version: R_k/k as a share of the uniform policy's, with the first K as vertical lines."""
        from matplotlib.figure import Figure

        found = table()
        sides = [
            {
                "run": result.label,
                "users": result.config.episodes,
                "of_uniform": float(result.regret[:, -1].mean() / (result.uniform_regret * result.config.episodes)),
                "last_of_uniform": float(np.mean(_last(result)) / result.uniform_regret),
            }
            for result in results
        ]
        write_json(path.with_suffix(".json"), {"version": results[0].version, "first": found, "sides": sides})
        figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
        for ax, variant in zip(figure.subplots(1, 2), VARIANTS, strict=True):
            longest = [r for r in results if r.label.startswith(variant) and r.label.endswith(list(SIDES)[-1])]
            for result in longest:
                name = result.label.split(", ", 1)[1].rpartition(", ")[0]
                color, dash, marker = style_of(name, list(NOISES))
                share = (result.regret / result.episodes / result.uniform_regret).mean(axis=0)
                ax.plot(result.episodes, share, color=color, linestyle=dash, marker=marker, markersize=3, label=name)
                (users,) = (f["users"] for f in found if (f["environment"], f["version"], f["noise"]) ==
                            (SMALL, variant, name))  # fmt: skip
                ax.axvline(users, color=color, linewidth=0.8, linestyle=(0, (1, 1.5)))
            ax.set_xscale("log")
            ax.set_ylim(0.0, 1.3)
            ax.set_title(f"version of {variant}", loc="left", fontsize=10)
            ax.set_xlabel("episode", color=GREY)
            ax.set_ylabel("R_k/k as a share of the uniform policy's", color=GREY)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False, fontsize=8.5)
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
        words = "C = 1 as printed, S = A = H = 2; dotted: the first K at which 2ξ is below the range of values"
        figure.supxlabel(f"{words}; simulation only", fontsize=8, color=GREY, x=0.01, ha="left")
        save_figure(figure, path)
        return figure


def _last(result: Result) -> Floats:
    """The regret of an episode between the last two checkpoints, seed by seed."""
    spent, came = (np.diff(x, axis=-1)[..., -1] for x in (result.regret, result.episodes))
    return np.asarray(spent / came)
