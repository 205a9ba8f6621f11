"""What the page of central learners claims about the experiment `frontier/central`."""

from __future__ import annotations

from papers.claims.measured import Results
from papers.claims.reading import Card, Value

__all__ = ["claims"]

WORLDS = {
    "riverswim": "riverswim",
    "random-mdp S=5 A=3 H=5": "random-mdp:states=5,actions=3,horizon=5",
    "random-mdp S=8 A=3 H=6": "random-mdp:states=8,actions=3,horizon=6",
    "treatment": "treatment",
}
STDS = {
    "riverswim": (1429, 51),
    "random-mdp S=5 A=3 H=5": (1191, 46),
    "random-mdp S=8 A=3 H=6": (1429, 51),
    "treatment": (1905, 60),
}
"""Noise of a transition counter, printed and tight: of the certificates, not of the runs."""


def claims(card: Card, results: Results) -> None:
    """Quote every number of the results."""
    result, part = results("frontier/central"), card.section("Results")
    seeds = {len(result.finals(*key)) for key in result.cells}
    part.says("({} runs, {} seeds, K = 20,000, delta 1e-6, practical rule z = 1)", len(result.cells), *seeds)
    part.states("one noise per 1-bit", "a root mean square of 1,007", "at most 1,429")

    def share(run: str, world: str, epsilon: str = "1") -> float:
        return result.share(f"{run}, ε={epsilon}", WORLDS[world])

    for world, environment in WORLDS.items():
        values: list[Value] = [*STDS[world], result.share("no privacy", environment), share("paper tree", world)]
        values += [share("Laplace tree", world)] if ("Laplace tree, ε=1", environment) in result.cells else []
        values += [share("factorization", world), share("batched factorization", world)]
        part.row(world, *values, share("paper tree", world) / share("batched factorization", world))
    part.states(
        "12.1 (17.1) times",
        "19.8 (28.1) times",
        "(target: 10)",
        "with 20,000 users",
        "5,000 counters",
        "(0.327 instead of 1",
    )
    part.states("has 145 instead of 1,429")
    part.says(
        "On `treatment` it is {} times", share("paper tree", "treatment") / share("batched factorization", "treatment")
    )
    same = [share("paper tree", world) / share("at the paper's epsilon", world) for world in WORLDS]
    part.says("regret {}, {}, {} and {} times lower", *same)
    part.says(
        "ε = 10: {} against {} on riverswim",
        share("paper tree", "riverswim", "10"),
        share("batched factorization", "riverswim", "10"),
    )
    part.states("from 20,000 users")
    random = [share("batched factorization", world, "0.1") for world in list(WORLDS)[1:3]]
    part.says("in part ({} and {})", *random)
    part.states("~15 batches", "~120")
    found = card.section("Deviations")
    found.states(
        "Scale 3H log K/ε",
        "(6H-2)/(3H) ε, 1.89 ε",
        "0.327 for a printed epsilon of 1",
        "E ∨ 1",
        "H-h+1",
        "51 instead of 84 at (1, 1e-6)",
    )
    found.states("E = 0", "B = 116", "At delta 1e-6")
    card.section("Central learners").states("AISTATS 2023 (arXiv 2212.04680)", "AAAI 2022 (arXiv 2112.10599)")
    card.section("Central learners").states("ICML 2020 (arXiv 2009.09052)")
