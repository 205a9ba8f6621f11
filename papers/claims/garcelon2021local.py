"""What the card of [garcelon2021local] claims: figures 1, 2 and 4 to 9."""

from __future__ import annotations

import math

import numpy as np

from papers.claims import garcelon2021more
from papers.claims.measured import Results
from papers.claims.reading import About, AtMost, Card, Order, Value
from papers.garcelon2021local.noise import advantage

__all__ = ["claims"]

RISING = ("0.2", "2", "20")
LETTERS = {"Laplace": "L", "Gaussian": "G", "randomized response": "RR", "bounded": "BND"}


def claims(card: Card, results: Results) -> None:
    """Quote every number of the card."""
    found = card.section("Deviations")
    found.states(
        "(`alpha`, 2)",
        "(`failure_prob`, 0.05)",
        "4.26 at δ = 10⁻⁵ for a claim of 1",
        "H-h+1",
        "Until 0.8.0",
        "A shifted count below 1 counts as 1",
    )
    found.states("(4H-2+2mH)")
    _figure1(card, results)
    _printed(card, results)
    _covering(card, results)
    _figure7(card, results)
    _histograms(card, results)
    garcelon2021more.claims(card, results)


def _figure1(card: Card, results: Results) -> None:
    every, fig1 = results("garcelon2021local/every-user"), results("garcelon2021local/fig1")
    whole = card.section("Reproduction")
    whole.states("RandomMDP seed 3", "How 10⁸ users")
    few, many = (
        len(one.finals(run)) for one, run in ((every, "UCB-VI, replanned every"), (fig1, "UCB-VI"))
    )  # fmt: skip
    runs = ("UCB-VI", "LDP-OBI-L, ε=2, paper", "LDP-OBI-L, ε=2, tight", "LDP-PSRL, ε=2, paper")
    pairs = [(every.mean(f"{run}, replanned every"), fig1.mean(run)) for run in runs]
    sampled = fig1.finals("LDP-PSRL, ε=2, paper")
    whole.says(
        "after every user ({} seeds) and rarely ({} seeds of figure 1) is {} and {}·10⁵ for UCB-VI,"
        " {} and {}·10⁷ for LDP-OBI at"
        " ε = 2 as printed, {} and {}·10⁶ tight, {} and {} for LDP-PSRL (whose runs spread from {} to {})",
        few,
        many,
        *(value / 1e5 for value in pairs[0]),
        *(value / 1e7 for value in pairs[1]),
        *(value / 1e6 for value in pairs[2]),
        *(About(value, 3) for value in (*pairs[3], float(sampled.min()), float(sampled.max()))),
    )
    whole.says("too high by up to {}%", AtMost(100 * max(rare / often - 1 for often, rare in pairs[1:3])))

    part = card.section("Figure 1 at full size")
    part.states("uniform policy's (10⁸)", "by more than 15%", "Regret over 10^8 episodes", "UCB-VI at 10⁸")
    part.says("greatest of {} runs", many)
    part.states("at epsilon 20 and 2 and hardly at 0.2", "(ε = 20 and 2, not yet at 0.2)")
    rows = {
        "LDP-OBI, Laplace as printed (certified 0.833 ε)": "LDP-OBI-L, ε={}, paper",
        "LDP-OBI, Laplace tight (complement encoding)": "LDP-OBI-L, ε={}, tight",
        "LDP-PSRL as printed (certified 0.875 ε)": "LDP-PSRL, ε={}, paper",
        "LDP-PSRL tight": "LDP-PSRL, ε={}, tight",
    }
    for label, run in rows.items():
        values: list[Value] = []
        for epsilon in RISING:
            mean, least, greatest = fig1.spread(run.format(epsilon))
            values += [mean, least, greatest] if max(greatest / mean - 1, 1 - least / mean) > 0.15 else [mean]
        part.row(label, *values)
    for words, run in (
        ("printed (certified {} ε) | 0.461", "LDP-OBI-L"),
        ("as printed (certified {} ε) | 0.0075", "LDP-PSRL"),
    ):
        cells = [fig1.cell(f"{run}, ε={epsilon}, paper") for epsilon in RISING]
        ratios = {round(cell["certified epsilon"] / cell["claimed epsilon"], 9) for cell in cells}
        part.says(words, *ratios)
    part.says("(theory constants): {}.", fig1.share("UCB-VI"))
    part.says("explores for {} episodes", fig1.share("UCB-VI") * fig1.cell("UCB-VI")["episodes"])
    orders = [fig1.mean(f"LDP-OBI-L, ε={e}, paper") / fig1.mean(f"LDP-PSRL, ε={e}, paper") for e in RISING]
    part.says("here it has {}, {} and {} times less regret at", *(About(value, 2) for value in orders))
    part.states("at 2 and 20 even less than UCB-VI")
    ahead = [fig1.mean(f"LDP-PSRL, ε={e}, paper") < fig1.mean("UCB-VI") for e in RISING]
    if ahead != [False, True, True]:
        card.errors.append("LDP-PSRL is not ahead of UCB-VI at ε = 2 and 20 alone")
    gains = [fig1.mean(f"LDP-OBI-L, ε={e}, paper") / fig1.mean(f"LDP-OBI-L, ε={e}, tight") for e in RISING]
    part.says("by {}, {} and {} times at ε = 0.2, 2, 20", *gains)
    part.says("the printed noise certifies {} ε", fig1.cell("LDP-OBI-L, ε=2, paper")["certified epsilon"] / 2)


def _printed(card: Card, results: Results) -> None:
    result, part = results("garcelon2021local/fig2-printed"), card.section("Figures 2 and 4-6 with noise")
    seeds = {len(result.finals(*key)) for key in result.cells}
    part.says("(K = 10⁸, {} seeds; `results/garcelon2021local/fig2-printed`)", *seeds)
    part.says("noise and radii as printed ({} seeds)", *seeds)
    rows = {
        "Laplace": "L",
        "Gaussian, c² of the proof of Prop. 10 and Prop. 11": "G",
        "Gaussian, c of Prop. 10 as stated": "G10",
        "randomized response": "RR",
        "bounded, C = 1": "BND",
    }
    for label, letter in rows.items():
        part.row(label, *(v for e in RISING for v in result.spread(f"LDP-OBI-{letter}, ε={e}, printed")))
    others = [[result.mean(f"LDP-OBI-{one}, ε={e}, printed") for one in rows.values() if one != "G"] for e in RISING]
    first = [result.mean(f"LDP-OBI-G, ε={e}, printed") for e in RISING]
    part.says(
        "with {}, {} and {} times less regret than the next one",
        *(min(behind) / least for behind, least in zip(others, first, strict=True)),
    )
    means = {
        (one, epsilon): result.mean(f"LDP-OBI-{one}, ε={epsilon}, printed")
        for one in ("L", "G10", "RR", "BND")
        for epsilon in RISING
    }
    orders = {e: [one for _, one in sorted((m, one) for (one, at), m in means.items() if at == e)] for e in RISING}
    if list(orders.values()) != [["RR", "BND", "L", "G10"]] * 2 + [["BND", "L", "RR", "G10"]]:
        card.errors.append(f"the order of the mechanisms with printed radii is {orders}")

    def away(letter: str) -> tuple[float, float]:
        mean, low, high = result.spread(f"LDP-OBI-{letter}, ε=20, printed")
        return 100 * (1 - low / mean), 100 * (high / mean - 1)

    part.says("({}% below to {}% above its mean; Laplace {}% and {}%)", *away("BND"), *away("L"))
    part.says("spreads most ({}% and {}%)", *away("G"))


def _covering(card: Card, results: Results) -> None:
    result, part = results("garcelon2021local/fig2"), card.section("Figures 2 and 4-6 with radii that cover")
    part.says("(K = 10⁸, {} seeds; `results/garcelon2021local/fig2`)", *{len(result.finals(*k)) for k in result.cells})
    part.states("radii that cover (20 seeds)", "total variation 0.1")

    def share(letter: str, epsilon: str, calibration: str = "tight") -> float:
        return result.share(f"LDP-OBI-{letter}, ε={epsilon}, {calibration}")

    def certified(letter: str, epsilon: str) -> float:
        value = result.cell(f"LDP-OBI-{letter}, ε={epsilon}, paper")["certified epsilon"]
        return math.inf if value is None else float(value)

    for label, letter in LETTERS.items():
        printed = [value for e in RISING for value in (share(letter, e, "paper"), certified(letter, e))]
        part.row(label, *printed, *(share(letter, e) for e in RISING))
    for label, letter in (("one slot, unary (ours)", "OUE"), ("one slot, subset (ours)", "SUB")):
        part.row(label, *(share(letter, e) for e in RISING))
    away = {
        (letter, e): (100 * (1 - low / mean), 100 * (high / mean - 1))
        for letter in LETTERS.values()
        for e in RISING
        for mean, low, high in [result.spread(f"LDP-OBI-{letter}, ε={e}, paper")]
    }
    part.says("within {}% of their mean at ε = 0.2 and 2", max(max(v) for (_, e), v in away.items() if e != "20"))
    part.says("({}% below to {}% above its mean; Laplace {}% and {}%)", *away["BND", "20"], *away["L", "20"])
    if max(away, key=lambda key: max(away[key])) != ("BND", "20"):
        card.errors.append("another noise spreads more than bounded noise at ε = 20")
    part.says("it certifies {} instead of 2, and nothing at 20.", certified("BND", "2"))
    part.says("({} against {}, {} against {}, {} against {})", *(share(one, e) for e in RISING for one in ("BND", "G")))
    part.says("certifies {} (as stated in Prop. 10: 3.6)", certified("G", "20"))
    gains = [share("L", e, "paper") / share("SUB", e) for e in RISING[:2]]
    part.says("subset selection has {} (ε = 0.2) and {} (ε = 2) times less", *gains)
    part.says("best ({} times less than the printed Laplace)", share("L", "20", "paper") / share("RR", "20"))


def _figure7(card: Card, results: Results) -> None:
    result, part = results("garcelon2021local/fig7"), card.section("Figure 7 at full size")
    part.says("(uniform: 10⁸; UCB-VI: {}), mean", result.mean("UCB-VI"))
    part.says("greatest of {} runs", *{len(result.finals(*key)) for key in result.cells})
    part.states("a wide spread at 0.2 and flat curves at 20")
    rows = {
        "as printed, four families": "LDP-PSRL, ε={}, paper",
        "tight, four families": "LDP-PSRL, ε={}, tight",
        "tight, binary rewards (Beta, ours)": "LDP-PSRL beta, ε={}, tight",
    }
    for label, run in rows.items():
        values: list[Value] = []
        for epsilon in RISING:
            finals = result.finals(run.format(epsilon))
            values += [_three(value) for value in (finals.mean(), finals.min(), finals.max())]
        part.row(label, *values)
    # Regret of 10⁷ where the uniform policy has 1 per episode.
    part.says("for {} episodes", Order(float(result.finals("LDP-PSRL, ε=0.2, paper").max())))


def _three(value: np.floating) -> Value:
    """Three digits."""
    return About(float(value), 3)


def _histograms(card: Card, results: Results) -> None:
    fig8, fig9 = (
        results("garcelon2021local/fig8").json("fig8.json"),
        results("garcelon2021local/fig9").json("fig9.json"),
    )
    part = card.section("Figures 8 and 9")
    part.states("state 0 and action 1", "state 0, action 1 after 1,000 episodes", "at 2 and 0.2 the data vanish")
    part.states("two peaks at 0 and 1", "(0,1,1) (1,0,0) and (0,0,0) (0,0,0)")
    told = [[tuple(step) for step in fig9["trajectories"][name]["steps"]] for name in ("X", "X'")]
    if told != [[(0, 1, 1.0), (1, 0, 0.0)], [(0, 0, 0.0), (0, 0, 0.0)]]:
        card.errors.append(f"the trajectories of figure 9 are {told}")
    std = {(one["panel"], one["line"].split(":")[0]): one["std"] for one in fig8["histograms"]}
    falling = [f"ε = {epsilon}" for epsilon in reversed(RISING)]
    part.says(
        "{} runs of UCB-VI. The standard deviation is {} without privacy and {}, {} and {} at ε = 20, 2 and 0.2"
        " (tight noise: {}, {}, {})",
        fig8["repeats"],
        std["ε = 2", "no privacy"],
        *(std[panel, calibration] for calibration in ("paper", "tight") for panel in falling),
    )
    part.says(
        "{}% better than by chance (tight noise: {}%). At ε = 2 it would be {}%, at ε = 0.2 {}%.",
        100 * fig9["told_apart"]["paper"],
        100 * fig9["told_apart"]["tight"],
        *(100 * advantage(1.0, 6 * 2 / epsilon) for epsilon in (2.0, 0.2)),
    )
