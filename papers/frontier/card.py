"""What the card of the central learners names in its holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from papers.committed import Results, row
from papers.frontier import rlsvi
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
    return {
        "central": central, "table": "\n".join(rows), "share": share,
        "rlsvi": found, "rlsvi_table": "\n".join(lines),
        "certified": lambda visits, releases=1: up(rlsvi.certified(6, visits, releases)),
        "claimed": f"{rlsvi.claimed(4, 2, 6, 20_000):.0f}",
    }  # fmt: skip
