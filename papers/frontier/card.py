"""What the card of the central learners names in its holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from papers.committed import Results, pm, row
from papers.frontier import bound, rlsvi
from papers.verdict import up

__all__ = ["names"]

WORLDS: Final = {
    "riverswim": "riverswim",
    "random-mdp S=5 A=3 H=5": "random-mdp:states=5,actions=3,horizon=5",
    "random-mdp S=8 A=3 H=6": "random-mdp:states=8,actions=3,horizon=6",
    "treatment": "treatment",
}
LINES: Final = ("paper tree", "Laplace tree", "factorization", "batched factorization")


def names(results: Results) -> Mapping[str, Any]:
    """Results and tables."""
    central = results("frontier/central")

    def share(run: str, world: str, epsilon: str = "1") -> str:
        there = (f"{run}, ε={epsilon}", WORLDS[world]) in central.cells
        return central.of_uniform(f"{run}, ε={epsilon}", WORLDS[world]) if there else "-"

    def times(less: str, world: str, epsilon: str = "1") -> str:
        return central.times(f"paper tree, ε={epsilon}", f"{less}, ε={epsilon}", WORLDS[world])

    rows = [
        row(world, central.of_uniform("no privacy", environment), *(share(line, world) for line in LINES),
            times("batched factorization", world), times("at the paper's epsilon", world))
        for world, environment in WORLDS.items()
    ]  # fmt: skip
    found = results("frontier/rlsvi")
    lines = [
        row(world, f"{epsilon:g}", *(found.of_uniform(f"{line}, ε={epsilon:g}", world) for line in rlsvi.LEARNERS))
        for world in rlsvi.WORLDS
        for epsilon in rlsvi.EPSILONS
    ]
    averages = results("frontier/lower-bound").json("lower-bound.json")["averages"]
    panels = list(bound.gaps(bound.SIZES["paper"][0]))
    return {
        "bound_wide": _bounds(averages, panels[0]), "bound_narrow": _bounds(averages, panels[1]),
        "bound_runs": min(one["runs"] for one in averages),
        "nearest": f"{min(one['regret'] / one['bound'] for one in averages):.1f}",
        "above": {line: _above(averages, line, panels[0]) for line in bound.LINES},
        "of_rate": f"{bound.least_regret(10**6, 0.5, 0.01) / (bound.rate(0, 0.01)):.2f}",
        "of_root": f"{bound.least_regret(10**6, bound.gaps(10**6)[panels[1]]) / bound.rate(10**6, 1e18):.3f}",
        "central": central, "table": "\n".join(rows), "share": share,
        "rlsvi": found, "rlsvi_table": "\n".join(lines),
        "certified": lambda visits, releases=1: up(rlsvi.certified(6, visits, releases)),
        "claimed": f"{rlsvi.claimed(4, 2, 6, 20_000):.0f}",
    }  # fmt: skip


def _bounds(averages: Sequence[Mapping[str, Any]], panel: str) -> str:
    """A row for each epsilon: bound and average of every line; what has no privacy has one row."""
    rows = []
    for epsilon in (*bound.EPSILONS, None):
        cells = []
        for line in bound.LINES:
            here = [one for one in averages if (one["line"], one["panel"], one["epsilon"]) == (line, panel, epsilon)]
            cells += [f"{one['bound']:,.1f} | {pm(one['regret'], one['standard_error'])}" for one in here] or ["- | -"]
        rows.append(row("no privacy" if epsilon is None else f"{epsilon:g}", *cells))
    return "\n".join(rows)


def _above(averages: Sequence[Mapping[str, Any]], line: str, panel: str) -> str:
    """Least and greatest ratio of average and bound."""
    ratios = [one["regret"] / one["bound"] for one in averages if (one["line"], one["panel"]) == (line, panel)]
    return f"{min(ratios):,.0f} to {max(ratios):,.0f}"
