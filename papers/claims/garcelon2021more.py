"""What the card of [garcelon2021local] claims beyond its figures: Theorem 2, Table 1, appendix I, the frontier."""

from __future__ import annotations

from functools import cache

import numpy as np

from papers.claims.measured import Results
from papers.claims.reading import Card
from papers.frontier.local import EPSILON, ratio_of, runs, transition_stds

__all__ = ["claims"]

SIZES = {"K = 10⁴": 10**4, "K = 10⁵": 10**5, "K = 10⁶": 10**6}
LINES = {
    "Laplace": "LDP-OBI-L",
    "Gaussian": "LDP-OBI-G",
    "randomized response": "LDP-OBI-RR",
    "bounded": "LDP-OBI-BND",
    "Laplace, printed radii, ε = 20": "LDP-OBI-L, printed radii, ε=20",
}


def claims(card: Card, results: Results) -> None:
    """Quote the numbers of these sections."""
    _bound(card, results)
    _powers(card, results)
    _reshuffled(card, results)
    _frontier(card, results)


def _bound(card: Card, results: Results) -> None:
    averages = results("garcelon2021local/lower-bound").json("lower-bound.json")["averages"]
    part = card.section("The lower bound")
    proof = [one for one in averages if one["panel"] == "Δ of the proof"]
    seeds = [{one["runs"] // one["pairs"] for one in proof if one["episodes"] == K} for K in SIZES.values()]
    part.says("with {}, {} and {} seeds each", *(value for one in seeds for value in one))
    part.says("(the least is {} times of it)", min(one["regret"] / one["bound"] for one in proof))
    part.states("√K / min(e^ε - 1, ½)", "At Δ = 1/4")
    for label, K in SIZES.items():
        mine = [[one for one in proof if one["episodes"] == K and one["epsilon"] == e] for e in (0.2, 2.0)]
        least = [min(group, key=lambda one: one["regret"]) for group in mine]
        part.row(
            label,
            *(one["bound"] for one in least),
            *(value for one in least for value in (one["regret"], one["standard_error"])),
            *(one["uniform"] for one in least),
        )
    part.says(
        "The bound is {} times below uniform play", float(np.mean([one["uniform"] / one["bound"] for one in proof]))
    )
    last = {
        one["learner"]: one["regret"] / one["uniform"]
        for one in averages
        if one["panel"] == "Δ = 1/4" and one["episodes"] == 10**6 and one["epsilon"] == 2.0
    }
    part.says(
        "practical constants has {} of uniform, LDP-PSRL with noise-aware counts {}, with printed priors {}, and"
        " LDP-OBI with theory constants {}.",
        *(
            last[f"{name}"]
            for name in ("LDP-OBI, practical", "LDP-PSRL, noise-aware", "LDP-PSRL, printed prior", "LDP-OBI, theory")
        ),
    )


def _powers(card: Card, results: Results) -> None:
    lines = {one["line"]: one for one in results("garcelon2021local/table1").json("table1.json")["lines"]}
    part = card.section("Theorem 5 and Table 1")
    part.states("sizes 2, 4 and 8", "earns 0.2 H more")
    above = {
        name: lines[name]["powers"]["actions"]["power"] - lines[name]["printed"]["actions"] for name in LINES.values()
    }
    part.says("for all five lines (randomized response by {})", above["LDP-OBI-RR"])
    spread = max(point["greatest"] / point["least"] for line in lines.values() for point in line["points"])
    part.says("differ by up to {} times", spread)
    if min(above.values()) <= 0.0:
        card.errors.append("a power of A is not above the printed one")
    for label, name in LINES.items():
        line = lines[name]
        axes = ("states", "actions", "horizon")
        part.row(label, *(v for axis in axes for v in (line["powers"][axis]["power"], line["printed"][axis])))


def _reshuffled(card: Card, results: Results) -> None:
    told, part = results("garcelon2021local/reshuffled").json("reshuffled.json"), card.section("Appendix I: M_sh")
    part.states("flips 6H - 2 bits")
    part.states("| local level ε₀ | Eq. 113 at k = 10³ | 10⁴ | 10⁶ | 10⁸ |")
    for level in told["levels"]:
        at = {point["k"]: point["printed"] for point in level["eq113"]}
        part.row(
            f"{level['local_level']:g}",
            *(at[k] for k in (10**3, 10**4, 10**6, 10**8)),
            max(point["holds"] for point in level["eq113"]),
            60 * level["linked"],
            60,
        )
        if at[100] is not None:
            card.errors.append("the condition of Eq. 113 holds at k = 100")
    regret = [one["regret"] for one in told["regret"]]
    result = results("garcelon2021local/reshuffled")
    part.says(
        "M_sh has {} and Laplace noise {} at ε₀ = 2, {} and {} at ε₀ = 20 ({} seeds",
        *regret, *{len(result.finals(*key)) for key in result.cells},
    )  # fmt: skip
    part.says("Its bound without constants is {} and {}:", *(told["regret"][i]["printed_bound"] for i in (0, 2)))


def _frontier(card: Card, results: Results) -> None:
    result, part = results("frontier/local"), card.section("Beyond the paper")
    part.says("{} seeds, paired", *{len(result.finals(*key)) for key in result.cells if "paper" in key[0]})
    part.says("all {} runs at full size", len(result.cells))
    part.states("95% bootstrap intervals", "paper / tacit (95%)", "a message has 4,350 counters")
    ratios, shares, noise = {}, {}, {}
    for environment, steps in dict.fromkeys((key[1], key[0].split(", ")[1]) for key in result.cells):
        paper, ours, free = ((f"{kind}, {steps}", environment) for kind in ("paper", "tacit", "no privacy"))
        ratio = ratio_of(result.finals(*paper), result.finals(*ours))
        # Random MDPs have one size, and with it one noise.
        stds = _stds("random-mdp:seed=3" if environment.startswith("random-mdp") else environment, steps)
        finals = (result.uniform(*paper), *(result.mean(*run) for run in (paper, ours, free)))
        part.row(f"{environment} | {steps}", result.cell(*paper)["episodes"], *stds, *finals, *ratio)
        key = environment, steps
        ratios[key], shares[key], noise[key] = ratio[0], result.share(*paper), stds
    long = [ratio for (environment, _), ratio in ratios.items() if environment != "treatment"]
    part.says("wherever K = 10⁷ was run: {} to {} times less", min(long), max(long))
    kinds = ("treatment", "staged"), ("treatment", "pooled")
    part.says(
        "({} and {} of uniform), and the ratio is {} and {}:", *(shares[k] for k in kinds), *(ratios[k] for k in kinds)
    )
    apart = ("riverswim", "staged"), ("treatment", "staged")
    part.says(
        "{} (`riverswim`) and {} times (`treatment`) less standard deviation per user and counter than"
        " printed, {} and {} times",
        *(noise[key][0] / noise[key][1] for key in apart),
        *(noise[key][0] / noise[key][2] for key in apart),
    )
    certified = float(result.cell("paper, pooled", "random-mdp:seed=1")["certified epsilon"]) / EPSILON
    part.says(
        "The printed guarantee is {} ε there (`paper` certifies less than it claims), which explains {} of",
        certified,
        1 / certified,
    )


@cache
def _stds(environment: str, steps: str) -> tuple[float, float, float]:
    configs = {run.label: run.config for run in runs("paper") if run.config.environment_name == environment}
    return transition_stds(configs[f"paper, {steps}"], configs[f"tacit, {steps}"])
