"""What the page of papers (the statements) claims in numbers."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from papers.claims import proofs
from papers.claims.bai2024shuffle import VERSIONS, lost_with_theory
from papers.claims.measured import Results
from papers.claims.reading import About, Card, Section
from papers.garcelon2021local.noise import advantage
from papers.garcelon2021local.verdicts import bounded_epsilon, printed_least_delta
from papers.statements import STATEMENTS, Status

__all__ = ["claims"]


def claims(card: Card, results: Results) -> None:
    """Quote every number of the statements."""
    parts = {
        name: card.section(f"[{name}]")
        for name in ("bai2024shuffle", "bai2025secure", "he2025policy", "bai2024adversarial", "garcelon2021local")
    }
    counted = Counter(statement.status for statement in STATEMENTS)
    shown = [counted[status] for status in get_args(Status) if counted[status]]
    holes = ", ".join(f"{{}} {status}" for status in get_args(Status) if counted[status])
    card.section("The papers").says(f"{{}} statements: {holes}.", len(STATEMENTS), *shown)
    _shuffle(parts["bai2024shuffle"], parts["bai2025secure"], results)
    _policy(parts["he2025policy"], results)
    _adversarial(parts["bai2024adversarial"], results)
    _local(parts["garcelon2021local"], results)
    proofs.claims(parts)


def _shuffle(first: Section, second: Section, results: Results) -> None:
    growth = {
        one["version"]: one
        for one in results("bai2024shuffle/table1").json("table1.json")["growth"]
        if one["constants"] == "theory"
    }
    users = {
        (one["version"], one["noise"]): one["users"]
        for one in results("bai2024shuffle/elimination").json("elimination.json")["first"]
        if one["environment"] == "riverswim"
    }
    powers = {one["line"]: one["powers"] for one in results("bai2024shuffle/powers").json("powers.json")["lines"]}
    costs = [powers[f"{version}, cost"] for version in VERSIONS]
    first.states("X^3 A^2 H^6, and X^3 A H^6")
    first.says(
        "grows as X^{} and X^{}, A^{} and H^{}:",
        *(cost["states"]["power"] for cost in costs),
        *(sum(cost[axis]["power"] for cost in costs) / 2 for axis in ("actions", "horizon")),
    )
    late, early = growth["2024"]["from_epsilon_to_epsilon"][::-1]
    first.says("over all gaps as K^{} without privacy", growth["2024"]["exponent"])
    first.says("(1/epsilon)^{} between 1 and 0.25 ({} between 4 and 1)", late, early)
    first.says("(K^{}); but the printed C", growth["2024"]["exponent"])
    noises = ("no privacy", "tight, ε=1")
    first.says("before {} users without privacy and {} with the least noise", *(users["2024", n] for n in noises))
    first.says("on RiverSwim is from {} users on", users["2024", "printed, ε=1"])
    second.says("K^{} without privacy; what privacy adds", growth["2025"]["exponent"])
    cost = next(line for line in growth["2025"]["private"] if line["epsilon"] == 4.0)
    second.says(
        "(K^{} at epsilon 4) and (1/epsilon)^{} between 1 and 0.25",
        cost["cost_exponent_in_K"],
        growth["2025"]["from_epsilon_to_epsilon"][1],
    )
    second.says("has the rate (K^{})", growth["2025"]["exponent"])
    second.says("before {} users without privacy and {} with the least noise", *(users["2025", n] for n in noises))
    for part, version in zip((first, second), VERSIONS, strict=True):
        lost, runs = lost_with_theory(results("bai2024shuffle/table1"), version)
        part.says("none of {} runs with", runs)
        if lost:
            part.card.errors.append(f"version {version} lost {lost} runs with the widths of the theorem")
    fig4 = results("bai2025secure/fig4")
    shares = [fig4.share(f"SDP-PE {x}, ε={e}, K=20,000") for x in ("tight", "printed") for e in ("0.1", "1")]
    second.says("SDP-PE is at {} to {} of the uniform", min(shares), max(shares))


def _policy(part: Section, results: Results) -> None:
    curves = {
        name: results(f"he2025policy/{name}").json("rates.json")["curves"]
        for name in ("theorem2", "theorem3", "theorem4")
    }

    def free(name: str) -> list[float]:
        return [one["exponent_tail"] for one in curves[name] if one["epsilon"] is None]

    part.states("at delta 1e-5", "N^(-1/2), the cost of privacy as N^(-2/3)", "N^(-1/4), cost N^(-1/3)")
    part.states("N^(-1/6), cost N^(-2/9)", "power of d above 1", "R^2 G for R^2 G^2", "at (1, 1e-5)")
    costs = [
        one["privacy_cost_exponent_tail"] for one in curves["theorem2"] if one["epsilon"] is not None and one["d"] < 100
    ]
    part.says(
        "fitted exponents {} to {} and, where the curves have begun to fall, {} to {}",
        max(free("theorem2")), min(free("theorem2")), max(costs), min(costs),
    )  # fmt: skip
    part.says("beaten in N ({})", sum(free("theorem3")) / 3)
    fisher = results("he2025policy/fisher").json("fisher.json")
    part.says("alpha_bias ({})", fisher["alpha_bias"]["0.5"]["largest"])
    part.says("clipping takes {} % of the gradient", 100 * fisher["clipping_bias"]["0.5"]["0.5"])
    part.says("the rate is met ({} to {})", max(free("theorem4")), min(free("theorem4")))


def _adversarial(part: Section, results: Results) -> None:
    home = "bai2024adversarial"
    pure = results(f"{home}/table1-pure").json("pure.json")["curves"]
    last = [one["exponent"][1] for one in pure if len(one["exponent"]) > 1 and one["exponent"][1] is not None]
    bandits = [
        one["exponent"][0]
        for one in pure
        if one["kind"].startswith("bandit") and one["epsilon"] == 10.0 and one["exponent"][0] is not None
    ]
    part.states("K = 10^6", "at epsilon 10 up to 10^5", "noise is 3 and 2 epsilon", "K = 10^4", "in A, not 1")
    part.states("X^2 A H^2, A H X^(3/2) and X^4 A H^2", "the 1/N term", "(4/3 + X'A/(3H))", "(5.1) has", "2 epsilon/3")
    part.states("epsilon/3-DP and epsilon/3-LDP", "leaf k - 1", "cost falls as 1/epsilon")
    part.says("(exponents of at most {} in the last decade)", max(last))
    part.says("10^5 ({} to {})", min(bandits), max(bandits))
    powers = results(f"{home}/table1-powers").json("powers.json")["curves"]
    steps = next(
        one for one in powers if (one["sweep"], one["feedback"], one["trust"]) == ("layers", "bandit", "central")
    )
    part.says("(but {} beside {} in H", steps["cost_exponent"], steps["theorem"])
    actions = [one["cost_exponent"] for one in powers if one["sweep"] == "actions" and "cost_exponent" in one]
    part.says("{} to {} in A, not 1", min(actions), max(actions))
    written = {
        one["label"]: one["exponent_last"]
        for one in results(f"{home}/estimator").json("growth.json")["curves"]
        if one["world"] == "random" and one["adversary"] == "turning"
    }
    part.says(
        "exponent {} without any noise, {} when it is centred",
        written["as-written, offset alone"],
        written["centred, offset alone"],
    )
    fits = {
        (one["world"], one["feedback"], one["trust"]): one["exponent"]
        for one in results(f"{home}/table1").json("epsilon.json")["curves"]
    }
    part.says("full information ({} and {})", fits["random", "full", "central"], fits["trap", "full", "central"])
    part.says("full information ({}); bandit", fits["random", "full", "local"])


def _local(part: Section, results: Results) -> None:
    home = "garcelon2021local"
    proof = [
        one
        for one in results(f"{home}/lower-bound").json("lower-bound.json")["averages"]
        if one["panel"] == "Δ of the proof"
    ]
    fig1 = results(f"{home}/fig1")
    better = [fig1.mean(f"LDP-OBI-L, ε={e}, paper") / fig1.mean(f"LDP-PSRL, ε={e}, paper") for e in ("0.2", "2", "20")]
    part.says("LDP-PSRL has {} to {} times less regret", About(min(better), 2), About(max(better), 2))
    part.says("the least has {} times of it", min(one["regret"] / one["bound"] for one in proof))
    part.states("min(e^epsilon - 1, 1)", "1/epsilon show", "of sizes 2, 4, 8", "where 1 and 1.5 are printed", "sqrt(2)")
    lines = results(f"{home}/table1").json("table1.json")["lines"]
    fitted = {axis: [line["powers"][axis]["power"] for line in lines] for axis in ("states", "horizon", "actions")}
    part.says(
        "S^{} to S^{} and H^{} to H^{}, below the printed powers, and A^{} to A^{}",
        *(value for found in fitted.values() for value in (min(found), max(found))),
    )
    part.states("c = 4 ln(24/delta)", "c^2 of its proof", "epsilon up to 1", "at 1/12 they are left 20 times")
    part.states(
        "more than 1e11 cells", "(0, 1) of an MDP", "almost indistinguishable at epsilon 20", "and 2.95 (row 16)"
    )
    part.says("below delta_0 = {} (S = 4, A = 2)", printed_least_delta(8))
    part.says(
        "a claim of 1 at delta 1e-5 is really {}, {} and {} with C = 1, 2 and",
        *(bounded_epsilon(C) for C in (1.0, 2.0, 2.95)),
    )
    std = {
        (one["panel"], one["line"].split(":")[0]): one["std"]
        for one in results(f"{home}/fig8").json("fig8.json")["histograms"]
    }
    noisy = [std[f"ε = {epsilon}", "paper"] for epsilon in ("20", "2", "0.2")]
    part.says("the spread grows from {} to {}, {} and {}", std["ε = 2", "no privacy"], *noisy)
    told = results(f"{home}/fig9").json("fig9.json")["told_apart"]
    part.says(
        "{}% better than by chance (with tight noise {}%), where at epsilon 0.2 it would be {}%",
        100 * told["paper"],
        100 * told["tight"],
        100 * advantage(1.0, 12 / 0.2),
    )
